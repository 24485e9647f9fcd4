"""``studies/english``: bits of garden paths from results of suites."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

SCRIPT = Path(__file__).parents[2] / "studies" / "english" / "garden_paths.py"
SUITES = {
    "mvrr": ("reduced_ambig", "unreduced_ambig", "reduced_unambig", "unreduced_unambig"),
    "npz_ambig": ("ambig_nocomma", "ambig_comma", "unambig_nocomma", "unambig_comma"),
    "npz_obj": ("no-obj_no-comma", "no-obj_comma", "obj_no-comma", "obj_comma"),
}


@pytest.fixture
def regions() -> pd.DataFrame:
    """Critical regions of 10, 6, 5 and 4 bits, the first of them with its item's number more."""
    rows = [
        {"suite": suite + kind, "item": item, "condition": condition, "region": region, "surprisal": bits}
        for suite, conditions in SUITES.items()
        for kind, critical in (("", 5), ("_mod", 6))
        for item in (1, 2, 3)
        for condition, base in zip(conditions, (10.0, 6.0, 5.0, 4.0), strict=True)
        for region, bits in ((critical, base + (item if base == 10 else 0)), (4, 99.0), (7, 99.0))
    ]
    return pd.DataFrame(rows).sample(frac=1, random_state=0)


def test_effects_of_garden_paths(regions: pd.DataFrame, tmp_path: Path) -> None:
    for name in ("one", "two"):
        (tmp_path / name).mkdir()
        regions.to_parquet(tmp_path / name / "regions.parquet")
    command = [
        sys.executable,
        SCRIPT,
        f"a={tmp_path / 'one'}",
        f"b={tmp_path / 'two'}",
        "-o",
        tmp_path / "out.csv",
    ]
    subprocess.run(command, check=True)
    table = pd.read_csv(tmp_path / "out.csv")
    assert len(table) == 2 * 6 * 6
    assert set(table["items"]) == {3}
    for suite, conditions in SUITES.items():
        for kind in ("", "_mod"):
            for model in "ab":
                part = table[(table.suite == suite + kind) & (table.model == model)].set_index("of")
                assert part.bits.to_dict() == {
                    **dict(zip(conditions, (12.0, 6.0, 5.0, 4.0), strict=True)),
                    "effect": 6.0,
                    "interaction": 5.0,
                }
                # Three items of 11, 12 and 13 bits: a twenty-seventh of samples has the same one three times.
                assert part.loc["effect", ["low", "high"]].tolist() == [5.0, 7.0]
                assert part.loc[conditions[1], ["low", "high"]].tolist() == [6.0, 6.0]


def test_an_item_without_a_surprisal(regions: pd.DataFrame, tmp_path: Path) -> None:
    regions.loc[(regions.suite == "mvrr") & (regions.item == 2) & (regions.region == 5), "surprisal"] = np.nan
    regions.to_parquet(tmp_path / "regions.parquet")
    command = [sys.executable, SCRIPT, f"a={tmp_path}", "-o", tmp_path / "out.csv"]
    refused = subprocess.run(command, capture_output=True, text=True)
    assert refused.returncode == 1
    assert refused.stderr.splitlines()[-1] == "a: items of mvrr without a surprisal"
    assert not (tmp_path / "out.csv").exists()
