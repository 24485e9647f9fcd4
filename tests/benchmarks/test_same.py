"""benchmarks/same.py: what counts as the same, and what is found."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import tomllib
from commands import every_command

REPOSITORY = Path(__file__).resolve().parents[2]
PAIR = {"pair": "1", "logprob_good": -20.0, "logprob_bad": -21.0, "correct": True, "outcome": "right"}
TIE = {**PAIR, "logprob_bad": -20.000005}
WRONG = {"correct": False, "outcome": "wrong"}


@pytest.fixture
def same() -> Any:
    """The module."""
    import same

    return same


def lines(rows: list[Any]) -> str:
    return "".join(json.dumps(row) + "\n" for row in rows)


def compared(same: Any, tmp_path: Path, file: str, one: str, two: str, **names: Any) -> tuple[int, int]:
    """How many near-ties and differences are found in a file of two copies."""
    for side, text in (("first", one), ("second", two)):
        (tmp_path / side / "r").mkdir(parents=True, exist_ok=True)
        (tmp_path / side / "r" / file).write_text(text)
    listed = same.Names(**({name: {} for name in same.Names._fields} | names))
    report = same.compare_folders(tmp_path / "first", tmp_path / "second", listed)
    return len(report.ties), len(report.differences)


@pytest.mark.parametrize(
    ("one", "two", "found"),
    [
        ([PAIR], [PAIR], (0, 0)),
        ([PAIR], [{**PAIR, "logprob_good": -20.000015}], (0, 0)),  # its size allows it
        ([PAIR], [{**PAIR, "logprob_good": -20.00003}], (0, 1)),
        ([PAIR], [{**PAIR, "logprob_good": None}], (0, 1)),
        ([{"n": 3}], [{"n": 4}], (0, 1)),
        ([PAIR], [PAIR, PAIR], (0, 1)),
        ([TIE], [{**TIE, **WRONG, "logprob_bad": -19.999995}], (1, 0)),
        ([{**TIE, "logprob_bad": -20.0}], [{**TIE, "logprob_bad": -20.0, **WRONG}], (0, 1)),  # a tie is one
        ([PAIR], [{**PAIR, **WRONG}], (0, 1)),
        ([{"margin_bits": 1e-6, "correct": True}], [{"margin_bits": -1e-6, "correct": False}], (1, 0)),
        ([{"correct": True}], [{"correct": False}], (0, 1)),  # no margin
        ([{"correct": True}] * 2, [{"right": True}] * 2, (0, 2)),
        ([{"provenance": 1, "a": float("nan")}], [{"provenance": 2, "a": None}], (0, 0)),
    ],
)
def test_rows(same: Any, tmp_path: Path, one: Any, two: Any, found: tuple[int, int]) -> None:
    assert compared(same, tmp_path, "rows.jsonl", *map(lines, (one, two))) == found


def test_means_follow_from_changed_near_ties(same: Any, tmp_path: Path) -> None:
    changed = {**TIE, **WRONG, "logprob_bad": -19.999995}
    assert compared(same, tmp_path, "results.json", '{"overall": 1.0}', '{"overall": 0.5}') == (0, 1)
    assert compared(same, tmp_path, "rows.jsonl", lines([TIE]), lines([changed])) == (1, 0)


@pytest.mark.parametrize(
    ("test", "two", "found"),
    [
        ("permutation", {"low": 0.11, "high": 0.3, "p": 0.046}, 0),
        ("permutation", {"low": 0.14, "high": 0.3, "p": 0.046}, 1),
        ("permutation", {"low": 0.1, "high": 0.3, "p": 0.07}, 1),
        ("McNemar, exact, two-sided", {"low": 0.11, "high": 0.3, "p": 0.046}, 1),
    ],
)
def test_random_numbers(same: Any, tmp_path: Path, test: str, two: Any, found: int) -> None:
    one = {"low": 0.1, "high": 0.3, "p": 0.04}
    texts = [json.dumps({"settings": {"test": test, "samples": 1000}, "group": each}) for each in (one, two)]
    assert compared(same, tmp_path, "compare.json", *texts) == (0, found)


@pytest.mark.parametrize(
    ("file", "one", "two", "found"),
    [
        ("a.tsv", "word\tsurprisal\na\t1.2344\n", "word\tsurprisal\na\t1.2345\n", 0),  # rounded
        ("a.tsv", "word\tsurprisal\na\t1.2344\n", "word\tsurprisal\na\t1.2347\n", 1),
        ("a.tsv", "word\tparse\na\t(a)\n", "word\tparse\na\t(X a)\n", 1),
        ("a.tex", "the model & 91.67", "the model & 91.68", 0),
        ("a.tex", "the model & 91.67", "the model & 91.7", 1),
        ("metrics.jsonl", '{"loss": 1.0000001, "seconds": 1}', '{"loss": 1.0, "seconds": 2}', 1),
        ("page.html", '<script type="application/json" id="document">{"a": 1}</script>', "", 1),
    ],
)
def test_files(same: Any, tmp_path: Path, file: str, one: str, two: str, found: int) -> None:
    assert compared(same, tmp_path, file, one, two) == (0, found)


@pytest.mark.parametrize(("joint", "found"), [("-9.00001", (2, 0)), ("-9.1", (0, 2))])
def test_parses_may_change_places_in_a_near_tie(
    same: Any, tmp_path: Path, joint: str, found: tuple[int, int]
) -> None:
    scores = f"id\trank\ttree\tjoint\n1\t1\t(a (b c))\t-9\n1\t2\t((a b) c)\t{joint}\n"
    for side, tree in (("first", "(a (b c))"), ("second", "((a b) c)")):
        (tmp_path / side).mkdir()
        (tmp_path / side / "p.trees").write_text(f"{tree}\n")
        (tmp_path / side / "p.trees.tsv").write_text(scores.replace("(a (b c))", tree))
    names = same.Names(*({} for _ in same.Names._fields))
    report = same.compare_folders(tmp_path / "first", tmp_path / "second", names)
    assert (len(report.ties), len(report.differences)) == found


def test_names_that_a_change_gave(same: Any, tmp_path: Path) -> None:
    one, two = (
        [{"item": 2, "correct": True}, {"item": 1, "old": 3}],
        [{"item": 1}, {"item": 2, "right": True}],
    )
    names: Any = {
        "renamed": {"a.json:correct": "right", "b.json:item": "id"},
        "left_out": {"old": "why"},
        "sorted": {"a.json": ["item"]},
    }
    assert compared(same, tmp_path, "a.json", json.dumps(one), json.dumps(two), **names) == (0, 0)
    group = same.Group("dyck", "eval-dyck p.tsv TINY > x.json")
    assert group.lines({"TINY": "--set a\n--set b"}, {"eval-dyck": "eval-formal dyck"}) == [
        "eval-formal dyck p.tsv --set a --set b > x.json"
    ]


def test_every_evaluation_has_commands(same: Any) -> None:
    listed = tomllib.loads(same.LIST.read_text(encoding="utf-8"))
    evaluations = [name for name in every_command() if name.startswith("eval-")]
    assert len(evaluations) > 10
    lines = [line for each in listed["case"] for line in same.Group(**each).lines({}, listed["commands"])]
    assert all(any(line.startswith(f"{each} ") for line in lines) for each in evaluations)
