"""The tables of the study of dependencies, from results written by hand."""

from __future__ import annotations

import json
from pathlib import Path
from types import ModuleType

import pytest
from shell import script

SCRIPT = Path(__file__).resolve().parents[2] / "studies" / "dependencies" / "report.py"


@pytest.fixture(scope="module")
def report() -> ModuleType:
    return script(SCRIPT)


def test_tables(report: ModuleType, tmp_path: Path) -> None:
    for seed, losses, uas in (("1", (3.0, 2.0, 2.5), 60.0), ("2", (3.0, 2.75, 2.5), 63.0)):
        run, results = tmp_path / "runs" / f"gilt-16-{seed}", tmp_path / "results" / f"gilt-16-{seed}"
        run.mkdir(parents=True)
        rows = [
            {"kind": "valid", "step": step, "loss": loss, "count_loss": loss / 4, "seconds": 10.0 * step}
            for step, loss in enumerate(losses, 1)
        ]
        (run / "metrics.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
        for name, scores in (
            ("arcs-lines", {"uas_f1": uas}),
            ("ppl-pud", {"ppl_word_marginal": 1500.25, "ppl_word_given_trees": None}),
        ):
            (results / name).mkdir(parents=True)
            (results / name / "results.json").write_text(json.dumps({"scores": scores}))
    found = report.gathered(tmp_path)
    assert list(found) == ["gilt-16"]
    # The step with the lowest loss; all steps' seconds.
    assert found["gilt-16"]["1"]["valid"] == {"loss": 2.0, "count_loss": 0.5, "seconds": 30.0}
    *_, row = report.table(found, "training").splitlines()
    assert row == "| GiLT, scorer of 16 | 2.250 (2.000, 2.500) | 0.562 (0.500, 0.625) | 30 (30, 30) |"
    *_, row = report.table(found, "parses").splitlines()
    assert row == "| GiLT, scorer of 16 | 61.5 (60.0, 63.0) |  |  |  |  |  |"
    *_, row = report.table(found).splitlines()
    assert row == "| GiLT, scorer of 16 |  | 1,500 (1,500, 1,500) |  |  |  |  |"
    *_, row = report.table(found, "short").splitlines()
    assert row == "| GiLT, scorer of 16 |  | 1,500 |  |  |  |  | 61.5 |  |"
