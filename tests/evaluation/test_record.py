"""An evaluation that another package brings: one record, found by its entry point."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa
import pytest

from pdtools.cli.main import run
from pdtools.evaluation.record import evaluations
from pdtools.evaluation.results import Results, write_results

RECORD = """
from pdtools.evaluation.record import SCORE, Evaluation, Outcomes

COLOURS = Evaluation(
    name="colours",
    title="Names of colours",
    in_text="names of colours",
    read={"scores.overall": SCORE},
    outcomes=Outcomes(
        score="colours named (%)", counted="items", key=("hue", "item"), content=("text",), unit="hue",
        outside=frozenset({"grey"}),
    ),
    card={"overall": "colours named (%)"},
)
"""
PROVENANCE = {"command": ["colours"], "versions": {}, "inputs": {}, "code": {"version": "1"}}


@pytest.fixture
def installed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """The package, installed."""
    (tmp_path / "site/colours-1.dist-info").mkdir(parents=True)
    (tmp_path / "site/colours_of_tests.py").write_text(RECORD)
    (tmp_path / "site/colours-1.dist-info/METADATA").write_text("Name: colours\nVersion: 1\n")
    entry = "[pdtools.evaluations]\ncolours = colours_of_tests:COLOURS\n"
    (tmp_path / "site/colours-1.dist-info/entry_points.txt").write_text(entry)
    monkeypatch.syspath_prepend(str(tmp_path / "site"))
    monkeypatch.delitem(sys.modules, "colours_of_tests", raising=False)
    evaluations.cache_clear()
    yield
    evaluations.cache_clear()


def write(folder: Path, right: list[bool]) -> str:
    hues = ["red", "red", "blue", "grey"]
    items = {"hue": hues, "item": [1, 2, 1, 1], "text": ["a", "b", "c", "d"], "correct": right}
    scores = {"overall": (sum(right[:2]) / 2 + right[2]) / 2}
    results = Results(
        scores=scores,
        counts={"items_scored": 4},
        settings={"task": "colours"},
        tables={"items": pa.table(items)},
    )
    write_results(folder, results, PROVENANCE)
    return str(folder)


def test_it_is_compared_and_shown(
    installed: None, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    a = write(tmp_path / "a", [True, False, False, True])
    b = write(tmp_path / "b", [True, True, True, False])
    c = write(tmp_path / "c", [True, False, True, False])
    assert run(["compare", a, b, "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    overall = found["groups"][0]
    assert (found["task"], overall["level"], overall["a"], overall["b"]) == ("colours", "overall", 0.25, 1.0)
    assert (overall["only_a"], overall["only_b"]) == (0, 2)  # without grey
    assert [(each["level"], each["name"]) for each in found["groups"][1:]] == [
        ("hue", hue) for hue in ("blue", "grey", "red")
    ]
    assert run(["compare", a, b, c, "--json"]) == 0
    score = json.loads(capsys.readouterr().out)["scores"][0]
    assert (score["score"], [each["mean"] for each in score["groups"]]) == (
        "colours named (%)",
        [25, 100, 75],
    )
    page = tmp_path / "page.html"
    assert run(["view", a, b, "-o", str(page), "-q"]) == 0
    assert "Names of colours" in page.read_text()


@pytest.mark.parametrize(
    ("code", "reason"),
    [
        ("import no_such_module", "cannot be loaded: No module named 'no_such_module'"),
        ("COLOURS = 3", "is no Evaluation"),
        (RECORD.replace('name="colours"', 'name="sg"'), "has a name that is there already, sg"),
    ],
)
def test_a_package_that_brings_no_record_is_named(
    code: str, reason: str, installed: None, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    a, b = (write(tmp_path / name, [True, False, True, True]) for name in "ab")
    (tmp_path / "site/colours_of_tests.py").write_text(code)
    assert run(["compare", a, b]) == 1
    told = f"the evaluation colours_of_tests:COLOURS of colours {reason}: mend or uninstall that package"
    assert capsys.readouterr().err == f"pdtools: {told}\n"


def test_without_the_package_its_results_are_of_another_kind(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    a, b = (write(tmp_path / name, [True, False, True, True]) for name in "ab")
    assert run(["compare", a, b]) == 1
    assert "results of an evaluation that is not known here: colours" in capsys.readouterr().err


def test_records_of_pdtools_are_in_the_order_of_pages() -> None:
    names = ["blimp", "sg", "parse", "ppl", "dyck", "cfl", "task", "reading", "classify"]
    assert [*evaluations()] == names
    assert all(record.name == name for name, record in evaluations().items())
