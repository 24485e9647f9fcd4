"""The studies, end to end on a few strings: every stage runs, and a second run does nothing twice."""

from __future__ import annotations

import importlib.util
import json
import os
import subprocess
import sys
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from pdtools.evaluation.dyck import binomial_interval

REPOSITORY = Path(__file__).parents[1]


SMALL = {"SEEDS": "1", "JOBS": "1", "STEPS": "2", "STRINGS": "200", "PREFIXES": "2", "BEAM": "2"}


def study(name: str, folder: Path, out: str, **settings: str) -> subprocess.CompletedProcess[str]:
    environment = {**os.environ, **settings, "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}"}
    script = REPOSITORY / "studies" / name / "study.sh"
    return subprocess.run(["sh", script, out], cwd=folder, env=environment, capture_output=True, text=True)


def test_dyck(tmp_path: Path) -> None:
    out = tmp_path / "a study"
    settings = {**SMALL, "DEPENDENCIES": "50", "MODELS": "base base-attachment pushdown-distances"}
    done = study("dyck", tmp_path, out.name, **settings)
    assert done.returncode == 0, done.stderr
    table = (out / "table.md").read_text()
    assert table.strip() in done.stdout
    assert table.count("\n| ") == 12
    assert {path.name for path in out.glob("*.svg")} == {"by-dependency.svg", "by-depth.svg"}
    results = json.loads((out / "results.json").read_text())
    assert set(results["scores"]) == set(settings["MODELS"].split())
    assert results["scores"]["pushdown-distances"]["dependency-50"]["1"]["prefixes"] == 2

    # A stop between two stages: what is missing is made again, the rest is left alone.
    kept = out / "results" / "base-1" / "depth" / "results.json"
    lost = out / "results" / "pushdown-distances-1" / "depth" / "results.json"
    before = kept.stat().st_mtime_ns
    for path in lost.parent.iterdir():
        path.unlink()
    lost.parent.rmdir()
    # And a run that fails, its record damaged: the others go on, the exit status says so.
    record = out / "runs" / "base-1" / "run.json"
    record.write_text(record.read_text().replace('"train": "', '"train": "not '))
    again = study("dyck", tmp_path, out.name, **settings)
    assert again.returncode == 1
    assert f"pdtools: {out.name}/runs/base-1/run.json: " in again.stderr
    assert "Not all runs are done" in again.stderr
    assert lost.exists()
    assert kept.stat().st_mtime_ns == before
    assert (out / "table.md").read_text() == table

    # Other settings would mix with what is there.
    other = study("dyck", tmp_path, out.name, **{**settings, "BEAM": "3"})
    assert other.returncode == 1
    assert (
        "begun with SETTING=released-like STEPS=2 STRINGS=200 PREFIXES=2 BEAM=2 MARGIN=10, not"
        in other.stderr
    )


@pytest.fixture(scope="module")
def report() -> ModuleType:
    spec = importlib.util.spec_from_file_location(
        "dyck_report", REPOSITORY / "studies" / "dyck" / "report.py"
    )
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_seeds_that_close_the_same_prefixes_do_not_narrow_the_interval(report: ModuleType) -> None:
    seeds = [{"accuracy": accuracy, "prefixes": 100} for accuracy in (0.5, 0.7)]
    low, high = binomial_interval(60, 100)
    assert report.cell(seeds) == f"**60.0** [{100 * low:.1f}, {100 * high:.1f}] (50.0, 70.0)"
    seeds.insert(0, {"accuracy": 0.6, "prefixes": 200})  # one that was begun before the test was made smaller
    assert f"[{100 * low:.1f}, {100 * high:.1f}]" in report.cell(seeds)
    assert report.cell([]) == "-"


def test_lines_of_the_figures(report: ModuleType) -> None:
    def item(number: int, depth: int, chosen: str) -> dict[str, Any]:
        return {"set": "depth", "number": number, "depth": depth, "closer": ")1", "chosen": chosen}

    one = [item(1, 15, ")1"), item(2, 20, ")1"), item(3, 21, ")2")]
    other = [item(1, 15, ")1"), item(2, 20, ")2"), item(3, 21, ")2")]
    elsewhere = {**item(1, 16, ")2"), "set": "dependency-50"}
    line = report.accuracy_line("a model", [*one, *other, elsewhere], "depth", 15, 6)
    assert line.x == [17.5, 21]
    assert line.y == [75, 0]
    assert (line.low[0], line.high[0]) == pytest.approx([100 * end for end in binomial_interval(1.5, 2)])
    assert line.high[1] == pytest.approx(100 * binomial_interval(0, 1)[1])


def test_a_table_without_results(report: ModuleType) -> None:
    found: Any = report.defaultdict(lambda: report.defaultdict(dict))
    table = report.markdown(found, {})
    assert "| base LM, paper | 90.0 | 81.0 | 40.6 | 14.1 | 40.6 |  |" in table
    assert "| Pushdown LM | - | - | - | - | - | - |" in table


def test_a_model_tested_on_fewer_prefixes_says_so(report: ModuleType) -> None:
    found: Any = report.defaultdict(lambda: report.defaultdict(dict))
    for model, prefixes in (("base", 100), ("pushdown", 20)):
        for name in report.SETS:
            score = {"accuracy": 0.5, "prefixes": prefixes, **dict.fromkeys(report.PARTS, 0.5)}
            found[model][name]["1"] = score
    table = report.markdown(found, {})
    assert "| base LM | **50.0**" in table
    assert "| Pushdown LM, 20 prefixes | **50.0**" in table
