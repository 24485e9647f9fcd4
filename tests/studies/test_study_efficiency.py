"""The study of sample efficiency, end to end on a few trees, and the subsets that it makes."""

from __future__ import annotations

import json
import os
import subprocess
from fractions import Fraction
from pathlib import Path
from types import ModuleType

import pytest
from shell import Shell, script

REPOSITORY = Path(__file__).resolve().parents[2]
FOLDER = REPOSITORY / "studies" / "efficiency"


@pytest.fixture(scope="module")
def report() -> ModuleType:
    return script(FOLDER / "report.py")


def make_documents(folder: Path, number: int) -> None:
    trees = (REPOSITORY / "data" / "treebank" / "train.mrg").read_text("utf-8").splitlines()
    for i in range(number):
        file = folder / f"part {i % 2}" / f"{i}.mrg"
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text("\n".join(trees[8 * i : 8 * i + 4 + i % 3]) + "\n")


def test_the_study(tmp_path: Path) -> None:
    make_documents(tmp_path / "trees", 24)
    settings = {"STEPS": "2", "EVERY": "1", "WIDTH": "16", "LAST": "1", "WINDOW": "128", "VOCABULARY": "400"}
    settings |= {"SHARES": "1/2", "SEEDS": "1", "PAIRS": "1", "BEAM": "2", "JOBS": "1"}
    settings |= {"SUITES": str(REPOSITORY / "data" / "sg" / "mini_npi_ever.json")}
    settings |= {"BLIMP": str(REPOSITORY / "data" / "blimp" / "mini_npi_scope.jsonl")}
    shell = Shell(tmp_path, **settings)

    def study(**others: str) -> subprocess.CompletedProcess[str]:
        return shell.run("sh", FOLDER / "study.sh", "trees", "out", **others)

    done = study()
    assert done.returncode == 0, done.stderr
    table = (tmp_path / "out" / "table.md").read_text()
    assert done.stdout.endswith(table)
    assert table.count("| base LM |") == table.count("| Pushdown LM |") == 1
    assert table.count("| BLiMP | 1/2 | 1 |") == 1
    results = json.loads((tmp_path / "out" / "results.json").read_text())
    assert [(run["model"], run["share"]) for run in results["runs"]] == [
        ("base", "1-2"),
        ("pushdown", "1-2"),
    ]
    assert all(run["steps"] == 2 for run in results["runs"])
    assert (tmp_path / "out" / "by-tokens-overall.svg").exists()
    whole = json.loads((tmp_path / "out" / "shards" / "1" / "manifest.json").read_text())
    half = json.loads((tmp_path / "out" / "shards" / "1-2" / "manifest.json").read_text())
    assert 0.3 < half["counts"]["tokens"] / whole["counts"]["tokens"] < 0.7
    config = json.loads((tmp_path / "out" / "runs" / "pushdown-1-2-1" / "best" / "config.json").read_text())
    assert config["config"]["pushdown_layers"] == "last 1"

    checkpoint = tmp_path / "out" / "runs" / "pushdown-1-2-1" / "run.json"
    written = checkpoint.stat().st_mtime_ns
    again = study()
    assert again.returncode == 0, again.stderr
    assert again.stdout == table
    assert checkpoint.stat().st_mtime_ns == written


def names(folder: Path) -> list[str]:
    return sorted(os.readlink(link) for link in folder.iterdir())


def test_subsets_are_nested_and_apart_from_validation(tmp_path: Path, report: ModuleType) -> None:
    make_documents(tmp_path / "trees", 40)
    report.documents(str(tmp_path / "trees"), str(tmp_path / "out"), "1/4", "1", "1/2")
    smaller, half, whole, valid = (names(tmp_path / "out" / name) for name in ("1-4", "1-2", "1", "valid"))
    assert set(smaller) < set(half) < set(whole)
    assert not set(whole) & set(valid)
    assert len(whole) + len(valid) == 40
    sizes = [sum(Path(file).stat().st_size for file in files) for files in (smaller, half, whole)]
    assert sizes[0] == pytest.approx(sizes[2] / 4, rel=0.2)
    assert sizes[1] == pytest.approx(sizes[2] / 2, rel=0.1)


@pytest.mark.parametrize(
    ("sizes", "share", "chosen"),
    [
        ([5, 3, 2], "1/2", [0]),
        ([9, 1, 1, 1], "1/4", [1, 2, 3]),  # the first would go too far
        ([1, 1, 20, 3, 3], "1/4", [0, 1, 3, 4]),
        ([2, 7, 1], "1", [0, 1, 2]),
    ],
)
def test_documents_are_taken_in_order_as_far_as_they_come_closer(
    report: ModuleType, sizes: list[int], share: str, chosen: list[int]
) -> None:
    by_name = {Path(str(i)): size for i, size in enumerate(sizes)}
    found = report.taken(list(by_name), by_name, Fraction(share))
    assert [int(name.name) for name in found] == chosen


def test_means_of_seeds(report: ModuleType) -> None:
    assert report.of_seeds([0.25, None, 0.5], 100) == "37.5 (25.0, 50.0)"
    assert report.of_seeds([3.0]) == "3.0"
    assert report.of_seeds([None]) == ""
