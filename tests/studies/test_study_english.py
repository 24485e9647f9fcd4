"""``studies/english``: bits of garden paths from results of suites, and scores over seeds."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

STUDY = Path(__file__).parents[2] / "studies" / "english"
SCRIPT = STUDY / "garden_paths.py"
SUITES = {
    "mvrr": ("reduced_ambig", "unreduced_ambig", "reduced_unambig", "unreduced_unambig"),
    "npz_ambig": ("ambig_nocomma", "ambig_comma", "unambig_nocomma", "unambig_comma"),
    "npz_obj": ("no-obj_no-comma", "no-obj_comma", "obj_no-comma", "obj_comma"),
}


@pytest.fixture
def regions() -> pd.DataFrame:
    """Critical regions of 10, 6, 5 and 4 bits, the first of them with its item's number more."""
    rows = [
        {"suite": suite + kind, "item": item, "string": condition, "region": region, "bits": bits}
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
        regions.to_parquet(tmp_path / name / "strings.parquet")
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
    regions.loc[(regions.suite == "mvrr") & (regions.item == 2) & (regions.region == 5), "bits"] = np.nan
    regions.to_parquet(tmp_path / "strings.parquet")
    command = [sys.executable, SCRIPT, f"a={tmp_path}", "-o", tmp_path / "out.csv"]
    refused = subprocess.run(command, capture_output=True, text=True)
    assert refused.returncode == 1
    assert refused.stderr.splitlines()[-1] == "a: items of mvrr without a surprisal"
    assert not (tmp_path / "out.csv").exists()


def write_results(folder: Path, scores: dict[str, Any], *, words: int = 1, read: int | None = None) -> None:
    folder.mkdir(parents=True)
    provenance = {"inputs": {"model": {"words": read}}}
    document = {"format": 3, "scores": scores, "counts": {"words": words}, "provenance": provenance}
    (folder / "results.json").write_text(json.dumps({**document, "settings": {"task": "toy"}}))


def write_run(folder: Path, sg: float, blimp: float, ppl: float) -> None:
    """Two books: of 30 words with this perplexity, of 10 with its fourth power; by beam it is higher."""
    write_results(folder / "sg", {"sg_31": sg, "by_circuit": {"Licensing": sg / 2}})
    write_results(folder / "blimp", {"overall": blimp})
    is_pushdown = folder.name.startswith("pushdown")
    for book, words, power in (("a", 30, 1), ("b", 10, 4)):
        bound = ppl**power * (1.5 if is_pushdown else 1)
        write_results(folder / "ppl" / book, {"ppl_word_marginal": bound}, words=words)
        if is_pushdown:
            write_results(folder / "particles" / book, {"ppl_word_particles": ppl**power}, words=words)


def test_scores_over_seeds(tmp_path: Path) -> None:
    stats = pytest.importorskip("scipy.stats")
    scores = {
        "base": [(0.6, 0.70, 90.0), (0.7, 0.71, 91.0), (0.65, 0.72, 95.0)],
        "pushdown": [(0.5, 0.60, 99.0), (0.55, 0.63, 99.5), (0.7, 0.61, 98.0)],
    }
    for model, of_seeds in scores.items():
        for seed, each in enumerate(of_seeds, start=1):
            write_run(tmp_path / "results" / f"{model}-{seed}", *each)
    for step, read in ((645, 1000), (1290, 2000)):
        point = tmp_path / "curve" / f"base-1-{step}" / "sg"
        write_results(point, {"sg_31": step / 2000, "by_circuit": {}}, read=read)
    out = tmp_path / "seeds.json"
    command = [sys.executable, STUDY / "seeds.py", tmp_path / "results", "--curve", tmp_path / "curve"]
    printed = subprocess.run([*command, "-o", out], check=True, capture_output=True, text=True).stdout
    found = json.loads(out.read_text())
    assert [run["run"] for run in found["runs"]["pushdown"]] == ["pushdown-1", "pushdown-2", "pushdown-3"]
    assert found["runs"]["pushdown"][0]["circuits"] == {"Licensing": 25.0}
    assert found["runs"]["pushdown"][0]["perplexities"] == pytest.approx({"a": 99.0, "b": 99.0**4})
    nats = {
        model: [(30 * np.log(ppl) + 10 * 4 * np.log(ppl)) / 40 for *_, ppl in of_seeds]
        for model, of_seeds in scores.items()
    }
    of = {model: np.array(of_seeds)[:, :2].T * 100 for model, of_seeds in scores.items()}
    expected = {
        "sg": (of["pushdown"][0], of["base"][0]),
        "blimp": (of["pushdown"][1], of["base"][1]),
        "nats": (nats["pushdown"], nats["base"]),
    }
    tests = {name: stats.ttest_ind(ours, base, equal_var=False) for name, (ours, base) in expected.items()}
    for name, (ours, base) in expected.items():
        compared = found["comparison"][name]
        assert compared["difference"] == pytest.approx(np.mean(ours) - np.mean(base))
        assert compared["p"] == pytest.approx(tests[name].pvalue)
        interval = tests[name].confidence_interval()
        assert [compared["low"], compared["high"]] == pytest.approx([interval.low, interval.high])
    # Perplexities are printed, and their difference in percent.
    low, high = (100 * np.expm1(found["comparison"]["nats"][name]) for name in ("low", "high"))
    assert f"| base-1 | 60.0 | 70.0 | {np.exp(nats['base'][0]):.1f} |\n" in printed
    assert f" | {low:+.1f} to {high:+.1f} | " in printed
    # Holm's correction of three: the smallest thrice, the next twice or as the one before.
    first, second, third = sorted(found["comparison"].values(), key=lambda each: each["p"])
    assert first["corrected"] == pytest.approx(3 * first["p"])
    assert second["corrected"] == pytest.approx(max(2 * second["p"], first["corrected"]))
    assert third["corrected"] == pytest.approx(max(third["p"], second["corrected"]))
    assert [(each["step"], each["words"], each["sg"]) for each in found["curve"]] == [
        (645, 1000, 32.25),
        (1290, 2000, 64.5),
    ]


@pytest.mark.parametrize("missing", ["particles", "particles/b", "sg"])
def test_a_run_that_is_not_scored_yet(missing: str, tmp_path: Path) -> None:
    for name in ("base-1", "base-2", "pushdown-1", "pushdown-2"):
        write_run(tmp_path / name, 0.5, 0.5, 90.0)
    shutil.rmtree(tmp_path / "pushdown-2" / missing)
    command = [sys.executable, STUDY / "seeds.py", tmp_path, "-o", tmp_path / "seeds.json"]
    refused = subprocess.run(command, capture_output=True, text=True)
    assert refused.returncode == 1
    assert len(refused.stderr.splitlines()) == 1
    assert not (tmp_path / "seeds.json").exists()
