"""An evaluation that another package brings: one record, found by its entry point."""

from __future__ import annotations

import json
import shutil
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from pdtools.cli.main import run
from pdtools.evaluation.record import evaluations
from pdtools.evaluation.results import Results, read_results, write_results
from pdtools.report.view.results import results_page

RECORD = '''
import math

import pyarrow as pa

from pdtools.evaluation.record import SCORE, Evaluation, Outcomes
from pdtools.evaluation.results import Results
from pdtools.evaluation.bootstrap import Sums
from pdtools.search.scores import Unscorable


def name_colours(data, model, progress):
    """Is the first of two sentences the more probable one?"""
    rows = [line.rstrip("\\n").split("\\t") for path in data for line in open(path, encoding="utf-8")]
    found = list(progress(model.score(text for _, *pair in rows for text in pair), 2 * len(rows)))
    bits = [None if isinstance(score, Unscorable) else -score.total / math.log(2) for score in found]
    right = [None if None in pair else pair[0] < pair[1] for pair in zip(bits[::2], bits[1::2])]
    scored = [number for number in bits[::2] if number is not None]
    known = [each for each in right if each is not None]
    items = {
        "hue": [hue for hue, *_ in rows], "item": [*range(len(rows))], "text": [good for _, good, _ in rows],
        "correct": right, "bits": bits[::2], "one": [1] * len(rows),
    }
    scores = {"overall": sum(known) / len(known), "bits": sum(scored) / len(scored)}
    return Results(scores=scores, counts={"items_scored": len(known)}, settings={**model.settings},
                   tables={"items": pa.table(items)})


def bits_of_colours(data, scorer, progress):
    """How many bits the first sentences have, in the mean."""
    return name_colours(data, scorer, progress)


COLOURS = Evaluation(
    name="colours",
    title="Names of colours",
    in_text="names of colours",
    read={"scores.overall": SCORE},
    outcomes=Outcomes(
        score="colours named (%)", counted="items", key=("hue", "item"), content=("text",), unit="hue",
        outside=frozenset({"grey"}),
    ),
    evaluate=name_colours,
    card={"overall": "colours named (%)"},
)
BITS = Evaluation(
    name="bits",
    title="Bits of colours",
    in_text="bits of colours",
    read={"scores.bits": SCORE},
    scores=lambda document: {"bits of a colour": (document["scores"]["bits"], ("colours",))},
    item_score=lambda label, document: Sums(
        key="item", columns=("bits", "one"), score=lambda sums: sums[..., 0] / sums[..., 1], items="colours"
    ),
    columns=("item", "bits", "one"),
    lower_is_better=True,
    evaluate=bits_of_colours,
)
'''
HUES, NOUNS = ("red", "blue", "grey"), ("dog", "dog that chased the cats")
PROVENANCE = {"command": ["colours"], "versions": {}, "inputs": {}, "code": {"version": "1"}}


@pytest.fixture
def installed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """The package, installed."""
    (tmp_path / "site/colours-1.dist-info").mkdir(parents=True)
    (tmp_path / "site/colours_of_tests.py").write_text(RECORD)
    (tmp_path / "site/colours-1.dist-info/METADATA").write_text("Name: colours\nVersion: 1\n")
    entry = "[pdtools.evaluations]\ncolours = colours_of_tests:COLOURS\nbits = colours_of_tests:BITS\n"
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
    overall, *levels = json.loads(capsys.readouterr().out)["scores"]
    assert (overall["evaluation"], overall["level"]) == ("colours", "overall")
    assert [each["mean"] for each in overall["groups"]] == [25, 100]
    assert (overall["pairs"][0]["only_a"], overall["pairs"][0]["only_b"]) == (0, 2)  # without grey
    assert [(each["level"], each["name"]) for each in levels] == [
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
    assert results_page([a, b]).packed["items-colours"] == {
        "groups": ["blue", "grey", "red"],
        "group": [2, 2, 0, 1],
        "id": ["1", "2", "1", "1"],
        "texts": {"text": ["a", "b", "c", "d"]},
        "listed": 1,
        "outcomes": [[1, 0, 0, 1], [1, 1, 1, 0]],
    }


@pytest.mark.parametrize("name", ["colours", "bits"])
def test_its_command_works_as_those_of_pdtools_do(
    name: str,
    installed: None,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    """With no line elsewhere: chunks, merge, --resume, --json, compare, view."""
    data = tmp_path / "colours.tsv"
    pairs = [(hue, f"The {noun} barks .", f"The barks {noun} .") for hue in HUES for noun in NOUNS]
    data.write_text("".join("\t".join(pair) + "\n" for pair in pairs))
    folders = {}
    for model in ("demo", "demo-base"):
        command = [f"eval-{name}", str(data), "--model", model, "--beam", "2", "-q"]
        folders[model] = str(tmp_path / model)
        assert run([*command, "-o", folders[model], "--json"]) == 0
        document = json.loads(capsys.readouterr().out)
        assert document == json.loads((tmp_path / model / "results.json").read_text())
        assert document["provenance"]["inputs"]["data"]["path"] == str(data)
    again = str(tmp_path / "of-jobs")
    for shard in ("0/2", "1/2"):
        monkeypatch.setattr(sys, "argv", ["pdtools", *command, "-o", again, "--shard", shard])
        assert run(sys.argv[1:]) == 0
    assert run(["merge", again]) == 0
    capsys.readouterr()
    assert read_results(again)[1].equals(read_results(folders[model])[1])
    assert read_results(again)[0]["scores"] == document["scores"]
    assert run([*command, "-o", again, "--resume"]) == 0
    assert "done" not in capsys.readouterr().out
    assert run([*command, "-o", again]) == 1
    assert "exists already" in capsys.readouterr().err
    if name == "bits":
        assert run(["compare", *folders.values(), "--json"]) == 0
        (score,) = json.loads(capsys.readouterr().out)["scores"]
        means = [read_results(folder)[0]["scores"]["bits"] for folder in folders.values()]
        assert [each["mean"] for each in score["groups"]] == pytest.approx(means)
    label = {"colours": "colours named (%)", "bits": "bits of a colour"}[name]
    assert run([*command]) == 0
    assert label in capsys.readouterr().out
    for three in ([], [again]):
        assert run(["compare", *folders.values(), *three, "--json"]) == 0
        assert json.loads(capsys.readouterr().out)["scores"][0]["items"] == len(pairs) - (
            name == "colours"
        ) * len(NOUNS)
    both = tmp_path / "both"
    for model, folder in folders.items():
        shutil.copytree(folder, both / model / name)
    assert run(["compare", *(str(both / model) for model in folders)]) == 0
    assert label in capsys.readouterr().out
    page = tmp_path / "page.html"
    assert run(["view", *folders.values(), "-o", str(page), "-q"]) == 0
    assert {"colours": "Names of colours", "bits": "Bits of colours"}[name] in page.read_text()
    assert run(["--help"]) == 0
    assert f"eval-{name}" in capsys.readouterr().out
    assert run([f"eval-{name}", "--help"]) == 0
    assert "sentence" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("code", "reason"),
    [
        ("import no_such_module", "cannot be loaded: No module named 'no_such_module'"),
        ("COLOURS = 3", "is no Evaluation"),
        (RECORD.replace('name="colours"', 'name="sg"'), "has a name that is there already, sg"),
        (RECORD.replace('name="colours"', 'name="hues"'), "is called hues, its entry point colours"),
    ],
)
def test_a_package_that_brings_no_record_is_named(
    code: str, reason: str, installed: None, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    a, b = (write(tmp_path / name, [True, False, True, True]) for name in "ab")
    (tmp_path / "site/colours_of_tests.py").write_text(code)
    del sys.modules["colours_of_tests"]
    evaluations.cache_clear()
    assert run(["--help"]) == 0
    assert "eval-colours" not in capsys.readouterr().out
    told = f"the evaluation colours_of_tests:COLOURS of colours {reason}: mend or uninstall that package"
    # Before the work, not when its results are written.
    for command in (
        ["compare", a, b],
        ["eval-blimp", "none", "--model", "./none", "-o", str(tmp_path / "out")],
        ["eval-colours", "none", "--model", "./none"],
    ):
        assert run(command) == 1
        assert capsys.readouterr().err == f"pdtools: {told}\n"


def test_without_the_package_its_results_say_what_they_are(
    installed: None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    right = {"a": [True, False, False, True], "b": [True, True, True, False], "c": [False, True, True, True]}
    folders = [write(tmp_path / name, of) for name, of in right.items()]
    numbers = [str(tmp_path / f"{name}-bits") for name in right]
    for folder, value in zip(numbers, (3.5, 2.5, 1.5), strict=True):
        results = Results(
            scores={"bits": value},
            counts={},
            settings={"task": "bits"},
            tables={"items": pa.table({"item": [1, 2], "bits": [value - 1, value + 1], "one": [1, 1]})},
        )
        write_results(folder, results, PROVENANCE)

    def found() -> list[Any]:
        said = []
        for given in (folders[:2], folders, numbers[:2], numbers):
            assert run(["compare", *given, "--json"]) == 0
            said.append(json.loads(capsys.readouterr().out)["scores"])
        return said

    installed_says = found()
    monkeypatch.undo()
    evaluations.cache_clear()
    assert "colours" not in evaluations()
    without = found()
    assert without[:2] == installed_says[:2]
    for (of_package,), (score,) in zip(installed_says[2:], without[2:], strict=True):
        assert [each["values"] for each in score["groups"]] == [
            each["values"] for each in of_package["groups"]
        ]
        assert score["lower_is_better"]
        assert (score["items"], score["score"]) == (None, "bits of a colour")
    page = tmp_path / "page.html"
    assert run(["view", *folders, *numbers, "-o", str(page), "-q"]) == 0
    assert "Names of colours" in page.read_text()
    assert results_page(folders).packed["items-colours"]["texts"] == {"text": ["a", "b", "c", "d"]}
    document = json.loads((tmp_path / "a/results.json").read_text())
    said = document["evaluation"]
    unsaid = {name: value for name, value in said.items() if name != "items"}
    no_key = {**said, "items": {**said["items"], "key": []}}
    for wrong in (3, {}, {**said, "items": [1]}, {**said, "title": 3}, unsaid, no_key):
        (tmp_path / "a/results.json").write_text(json.dumps({**document, "evaluation": wrong}))
        assert run(["compare", *folders[:2]]) == 1
        assert "damaged results: evaluation" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("said", "of_items"),
    [
        ({}, {"added_later": 3}),
        ({}, {"content": ["later"]}),
        ({"items": None}, None),
        ({"scores": {"colours named (%)": {"value": 25.0, "over": ["4 items", "2 hues"]}}}, {}),
        ({"items": None, "scores": {"colours named (%)": {"value": 25.0, "over": []}}}, None),
    ],
)
def test_two_results_may_say_otherwise_what_they_are(
    said: dict[str, Any],
    of_items: dict[str, Any] | None,
    installed: None,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    """Results of two versions of a package that is not there: the first says how both are compared."""
    a, b = (write(tmp_path / name / "colours", [True, False, False, name == "a"]) for name in "ab")
    document = json.loads((tmp_path / "b/colours/results.json").read_text())
    document["evaluation"] |= said
    if of_items is not None:
        document["evaluation"]["items"] |= of_items
    (tmp_path / "b/colours/results.json").write_text(json.dumps(document))
    monkeypatch.undo()
    evaluations.cache_clear()
    assert run(["compare", a, b, "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["scores"][0]["pairs"][0]["difference"] == 0
    for one, other in ("ab", "ba"):
        assert run(["compare", str(tmp_path / one), str(tmp_path / other)]) in (0, 1)
        shown = capsys.readouterr()
        assert "colours named (%)  25.00" in shown.out or "items without a column later" in shown.err


def test_results_of_another_format_are_refused(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    a, b = (write(tmp_path / name, [True, False, True, True]) for name in "ab")
    document = json.loads((tmp_path / "a/results.json").read_text())
    for number in (1, 4, None):
        (tmp_path / "a/results.json").write_text(json.dumps({**document, "format": number}))
        assert run(["compare", a, b]) == 1
        assert (
            f"{a}/results.json: results of another version of pdtools: no format 3 ("
            in capsys.readouterr().err
        )


def test_records_of_pdtools_are_in_the_order_of_pages() -> None:
    names = ["blimp", "sg", "parse", "dependencies", "ppl", "dyck", "cfl", "task", "reading", "classify"]
    assert [*evaluations()] == names
    assert all(record.name == name for name, record in evaluations().items())
