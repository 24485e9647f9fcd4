"""The lists of planted bugs: every entry can still be planted, and looked for."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

REPOSITORY = Path(__file__).resolve().parents[2]


LISTS = sorted((REPOSITORY / "benchmarks" / "planted_bugs").glob("*.toml"))


@pytest.mark.parametrize("path", LISTS, ids=lambda path: path.stem)
def test_every_bug_can_be_planted(path: Path) -> None:
    from planted_bugs import bugs_of, problem_of

    bugs = bugs_of(path)
    assert bugs
    assert [problem for bug in bugs if (problem := problem_of(bug, REPOSITORY))] == []
    assert len({(bug.file, bug.good, bug.bad) for bug in bugs}) == len(bugs)


@pytest.mark.parametrize(
    ("changes", "problem"),
    [
        ({}, None),
        ({"good": "x = 3"}, "0 times"),
        ({"good": "= 1"}, "2 times"),
        ({"bad": "x = 1\n"}, "the same text twice"),
        ({"bad": "x = (\n"}, "no Python"),
        ({"tests": []}, "no tests"),
        ({"tests": ["test_none.py"]}, "no test test_none.py"),
        ({"tests": ["test_x.py::test_y", "test_x.py::test_z"]}, "no test test_x.py::test_z"),
    ],
)
def test_what_cannot_be_planted(tmp_path: Path, changes: dict[str, Any], problem: str | None) -> None:
    from planted_bugs import Bug, problem_of

    (tmp_path / "x.py").write_text("x = 1\ny = 1\n")
    (tmp_path / "test_x.py").write_text("def test_y() -> None: ...\n")
    entry = {"file": "x.py", "good": "x = 1\n", "bad": "x = 2\n", "why": "", "tests": ["test_x.py::test_y"]}
    found = problem_of(Bug(**{**entry, **changes}), tmp_path)
    assert found is None if problem is None else problem in found


def test_tests_over_time_catch_no_bug(tmp_path: Path) -> None:
    from planted_bugs import Bug, plant

    (tmp_path / "x.py").write_text("seconds = 0\n")
    (tmp_path / "test_x.py").write_text(
        "import time, x\ndef test_x() -> None:\n    time.sleep(x.seconds)\n    assert not x.seconds\n"
    )
    minutes = {"0.0": 5, "0.1": 5, "60": 0.01, "= 1": 5}
    outcomes = {
        bad: plant(tmp_path, Bug(file="x.py", good="0", bad=bad, why="", tests=["test_x.py"]), given)
        for bad, given in minutes.items()
    }
    assert outcomes == {"0.0": "survived", "0.1": "caught", "60": "over time", "= 1": "not planted"}
    assert (tmp_path / "x.py").read_text() == "seconds = 0\n"
