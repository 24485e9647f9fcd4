"""Results and runs of other shapes than pdtools writes, in view and export: a line about it, or a page."""

from __future__ import annotations

import json
import math
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from node_pages import NODE, evaluate, save_page
from search_oracle import save_checkpoints
from view_pages import write_blimp, write_run, write_sg

from pdtools.cli.main import run
from pdtools.errors import InputError
from pdtools.evaluation.results import ITEMS, STRINGS_TABLE, Results, write_results
from pdtools.models import LoadedModel, load_checkpoint
from pdtools.models.export import training_of
from pdtools.report.model_card import model_card
from pdtools.report.view.page import Page, inline_json
from pdtools.report.view.results import results_page
from pdtools.report.view.runs import runs_page

RIGHT = np.random.default_rng(0).random((3, 4)) < 0.6


def refused(read: Callable[[], object], *said: str) -> None:
    """An error of one line that says all of these."""
    with pytest.raises(InputError) as raised:
        read()
    message = str(raised.value)
    assert "\n" not in message
    assert len(message) < 600
    assert all(part in message for part in said), message


def write_task(folder: Path, task: str) -> Path:
    """Results of an evaluation."""
    if task in ("blimp", "sg"):
        {"blimp": write_blimp, "sg": write_sg}[task](folder, RIGHT)
        return folder
    reading = {"by_model": {"m": {"delta_ll": 0.1, "low": 0.0, "high": 0.2}}}
    scores, settings, counts = {
        "parse": ({"f1": 50.0}, {"labeled": True, "binarize": "none"}, {"scored": 2}),
        "reading": (
            reading,
            {"baseline": ["length"], "models": {"m": {}}},
            {"words_regressed": 9},
        ),
        "attention": ({}, {}, {}),
    }[task]
    rows = [{"line": n, "matched": 1, "gold": 2, "predicted": 2, "gold_tree": "(S a)"} for n in (1, 2)]
    tables = {ITEMS: pa.Table.from_pylist([{**row, "predicted_tree": "(S a)"} for row in rows])}
    results = Results(scores=scores, counts=counts, settings={"task": task, **settings}, tables=tables)
    write_results(folder, results, {"code": {}, "versions": {}, "inputs": {"model": {"path": "m"}}})
    return folder


def change(folder: Path, path: str, value: Any) -> None:
    """Put a value into ``results.json``; ``...`` takes it out."""
    file = folder / "results.json"
    document = json.loads(file.read_text())
    *above, name = path.split(".")
    holder = document
    for step in above:
        holder = holder.setdefault(step, {})
    holder[name] = value
    if value is ...:
        del holder[name]
    file.write_text(json.dumps(document))


@pytest.mark.parametrize("task", ["blimp", "sg", "parse", "reading"])
@pytest.mark.parametrize(
    ("path", "value"),
    [
        ("provenance", None),
        ("provenance", []),
        ("provenance.code", "x"),
        ("provenance.versions", 1),
        ("provenance.inputs", [1]),
        ("provenance.inputs", {"model": None}),
        ("provenance.inputs", {"model": {"path": 5}}),
        ("settings.task", 5),
    ],
)
def test_what_pages_need_of_every_evaluation(task: str, path: str, value: Any, tmp_path: Path) -> None:
    folder = write_task(tmp_path / task, task)
    change(folder, path, value)
    refused(lambda: results_page([str(folder)]), str(folder / "results.json"), path.split(".")[0])


@pytest.mark.parametrize(
    ("task", "path", "value"),
    [
        ("blimp", "scores.overall", "x"),
        ("sg", "scores.overall", {}),
        ("sg", "scores.sg_31", [1]),
        ("parse", "scores.f1", True),
        ("reading", "settings.baseline", 5),
        ("reading", "settings.baseline", [5]),
        ("reading", "settings.models", [1]),
        ("reading", "settings.models", {"m": 5}),
        ("reading", "scores.by_model", {"m": 5}),
    ],
)
def test_what_pages_need_of_an_evaluation(task: str, path: str, value: Any, tmp_path: Path) -> None:
    folder = write_task(tmp_path / task, task)
    change(folder, path, value)
    refused(lambda: results_page([str(folder)]), str(folder / "results.json"), path)


WRONG = {
    "integers": [1.5, 2.5],
    "names": [1.5, 2.5],
    "strings": [1, 2],
    "numbers": ["a", "b"],
    "booleans": [3, 4],
    "tokens": [[1], [2]],
}
COLUMNS = [
    *(("blimp", ITEMS, name, "strings") for name in ("paradigm", "field", "formula")),
    ("blimp", STRINGS_TABLE, "surprisals", "tokens"),
    ("blimp", ITEMS, "correct", "booleans"),
    *(("sg", ITEMS, name, "strings") for name in ("suite", "circuit", "formula")),
    ("sg", ITEMS, "item", "names"),
    ("sg", ITEMS, "prediction", "integers"),
    ("sg", ITEMS, "correct", "booleans"),
    *(("sg", STRINGS_TABLE, name, "strings") for name in ("suite", "string", "name", "context", "text")),
    ("sg", STRINGS_TABLE, "item", "names"),
    ("sg", STRINGS_TABLE, "region", "integers"),
    ("sg", STRINGS_TABLE, "bits", "numbers"),
    *(("parse", ITEMS, name, "integers") for name in ("line", "matched", "gold", "predicted")),
    *(("parse", ITEMS, name, "strings") for name in ("gold_tree", "predicted_tree")),
]
MAY_LACK = ("gold_tree", "predicted_tree")


@pytest.mark.parametrize(("task", "table", "name", "kind"), COLUMNS, ids=lambda part: str(part))
def test_columns(task: str, table: str, name: str, kind: str, tmp_path: Path) -> None:
    folder = write_task(tmp_path / task, task)
    file = folder / f"{table}.parquet"
    read = partial(results_page, [str(folder)])
    whole = pq.read_table(file)
    at = whole.column_names.index(name)
    wrong = pa.array((WRONG[kind] * len(whole))[: len(whole)])
    pq.write_table(whole.set_column(at, name, wrong), file)
    refused(read, f"{table}: column {name}", kind)
    pq.write_table(whole.append_column(name, whole[name]), file)
    refused(read, f"{table} without a column {name}")
    pq.write_table(whole.drop_columns([name]), file)
    if name in MAY_LACK:
        read()
    else:
        refused(read, f"{table} without a column {name}")
    file.write_bytes(file.read_bytes()[:100])
    refused(read, str(file), "not Parquet")


def test_results_that_say_little_are_shown(tmp_path: Path) -> None:
    for task in ("blimp", "sg", "parse", "reading"):
        folder = write_task(tmp_path / task, task)
        change(folder, "provenance", ...)
    for path in ("settings.baseline", "settings.models"):
        change(folder, path, ...)
    page = results_page([str(tmp_path)])
    assert len(page.document["overview"]) == 4
    if NODE:
        said = evaluate(save_page(page, tmp_path / "page.html"), "return document.body.textContent;")
        assert "undefined" not in said
        assert "Reading times" in said


def test_results_that_no_page_shows(tmp_path: Path) -> None:
    folder = write_task(tmp_path / "m" / "attention", "attention")
    refused(lambda: results_page([str(folder)]), str(folder), "another kind", "attention")
    write_task(tmp_path / "m" / "blimp", "blimp")
    page = results_page([str(tmp_path / "m")])
    assert page.notes == (f"{folder}: attention: pages show only how such results were made",)


@pytest.mark.parametrize("scored", [0, 1])
def test_blimp_most_of_whose_pairs_have_no_score(scored: int, tmp_path: Path) -> None:
    for name in "ab":
        write_blimp(tmp_path / name / "blimp", RIGHT)
        file = tmp_path / name / "blimp" / "items.parquet"
        rows = pq.read_table(file).to_pylist()
        for row in rows[scored:]:
            row |= {"correct": None}
        pq.write_table(pa.Table.from_pylist(rows, pq.read_table(file).schema), file)
        file = file.with_name("strings.parquet")
        strings = pq.read_table(file).to_pylist()
        for row in strings[2 * scored :]:
            row |= dict.fromkeys(("bits", "surprisals"))
        pq.write_table(pa.Table.from_pylist(strings, pq.read_table(file).schema), file)
        change(tmp_path / name / "blimp", "scores.overall", None)
    page = results_page([str(tmp_path / name / "blimp") for name in "ab"])
    items = page.packed["items-blimp"]
    assert items["outcomes"][1][scored:] == [None] * (12 - scored)
    if scored:
        assert items["tokens"]["1"][scored:] == [[None, None]] * (12 - scored)
    if NODE:
        program = """
            const items = all("details").find((each) => each.firstChild.textContent.startsWith("Items"));
            items.open = true;
            while (!items.querySelector(".found")) await later();
            for (const button of items.querySelectorAll("tbody button.link")) button.click();
            return document.body.textContent;"""
        said = evaluate(save_page(page, tmp_path / "page.html"), program)
        assert ("bad: no score" in said) == bool(scored)
        assert "no score" in said
        assert "undefined" not in said
        assert "NaN" not in said
        assert "Infinity" not in said


RECORD = '{"kind": "train", "step": 1, "loss": 2.5, "tokens": 10, "seconds": 3}'
SAMPLE = '{"step": 1, "id": 4, "text": "a", "gold": "(S a)", "tree": "(S a)", "joint": -3.5, "reason": null}'


@pytest.mark.parametrize(
    ("name", "content", "said"),
    [
        ("run.json", "", "run.json:1: not JSON"),
        ("run.json", '{"recipe": {"model"', "run.json:1: not JSON"),
        ("run.json", "[]", "not the record"),
        ("run.json", '{"recipe": 5}', "not the record"),
        ("metrics.jsonl", RECORD + "\n" + RECORD[:20] + "\n", "metrics.jsonl:2: not JSON"),
        ("metrics.jsonl", RECORD + "\n[1]\n", "metrics.jsonl:2: not a record"),
        ("metrics.jsonl", '{"kind": "train"}\n', "metrics.jsonl:1: not a record"),
        ("metrics.jsonl", '{"kind": "train", "step": "x"}\n', "metrics.jsonl:1: not a record"),
        ("metrics.jsonl", '{"kind": "train", "step": 1, "loss": NaN}\n', "metrics.jsonl:1: not JSON"),
        ("samples.jsonl", "5\n", "samples.jsonl:1: not a record"),
        ("samples.jsonl", SAMPLE + '\n{"step": 1, "id": 4}\n', "samples.jsonl:2: not a parse"),
        ("samples.jsonl", SAMPLE.replace('"(S a)"', "5") + "\n", "samples.jsonl:1: not a parse"),
        ("samples.jsonl", SAMPLE.replace('"id": 4', '"id": []') + "\n", "samples.jsonl:1: not a parse"),
    ],
)
def test_damaged_runs(name: str, content: str, said: str, tmp_path: Path) -> None:
    write_run(tmp_path / "run", 8)
    (tmp_path / "run" / name).write_text(content)
    refused(lambda: runs_page([str(tmp_path / "run")]), said)


@pytest.mark.parametrize("lines", [None, "", RECORD[:20], '{"kind": "train", "step": 1, "loss": "x"}\n'])
def test_runs_with_little_to_show(lines: str | None, tmp_path: Path) -> None:
    write_run(tmp_path / "run", 8)
    for name in ("metrics.jsonl", "samples.jsonl"):
        (tmp_path / "run" / name).unlink()
    if lines is not None:
        (tmp_path / "run" / "metrics.jsonl").write_text(lines)
    page = runs_page([str(tmp_path / "run")])
    assert page.document["charts"] == []
    if NODE:
        row = evaluate(save_page(page, tmp_path / "page.html"), "return cells(one('table'))[1];")
        assert row == ["run", "1" if lines and lines.endswith("\n") else "–", "–", "–", "–", "–"]


def test_a_run_without_a_validation_yet_beside_one_that_has_them(tmp_path: Path) -> None:
    """Its loss is not the best, and a gradient norm of 0 has no place on a logarithmic axis."""
    write_run(tmp_path / "old", 8)
    write_run(tmp_path / "new", 8)
    metrics = tmp_path / "new" / "metrics.jsonl"
    norms = [0.0, *np.linspace(1, 2, 7)]
    records = [{"kind": "train", "step": i, "gradient_norm": norm} for i, norm in enumerate(norms, 1)]
    metrics.write_text("".join(json.dumps(record) + "\n" for record in records))
    alone = runs_page([str(tmp_path / "old")])
    page = runs_page([str(tmp_path / name) for name in ("old", "new")])

    def scale_of(page: Page) -> str:
        (chart,) = (each["chart"] for each in page.document["charts"] if each["id"] == "train-gradient-norm")
        return json.dumps(chart).partition('"y"')[2]

    assert '"log"' in scale_of(alone)
    assert '"log"' not in scale_of(page)
    best = min(
        json.loads(line)["loss"]
        for line in (tmp_path / "old" / "metrics.jsonl").read_text().splitlines()
        if '"valid"' in line
    )
    if NODE:
        bold = evaluate(
            save_page(page, tmp_path / "page.html"), "return all('td b').map((each) => each.textContent);"
        )
        assert bold == [f"{best:.4f}"]


def test_what_is_named_twice_or_has_no_item_in_common(tmp_path: Path) -> None:
    folder, other = write_task(tmp_path / "a", "blimp"), write_task(tmp_path / "b", "blimp")
    write_run(tmp_path / "run", 4, seed=0)
    (tmp_path / "link").symlink_to(folder)
    refused(lambda: results_page([str(folder), str(tmp_path / "link")]), "named twice")
    refused(lambda: runs_page([str(tmp_path / "run"), f"{tmp_path}/run/"]), "named twice")
    table = pq.read_table(other / f"{ITEMS}.parquet")
    names = pa.array([f"{name}-2" for name in table["item"].to_pylist()])
    pq.write_table(
        table.set_column(table.column_names.index("item"), "item", names), other / f"{ITEMS}.parquet"
    )
    refused(lambda: results_page([str(folder), str(other)]), f"no item that {folder} has too")


def test_numbers_that_are_not_finite_are_null_in_a_page() -> None:
    """Wherever they stand; numbers beside them stay, as does JSON that has no such number."""
    value = {"a": [1.5, math.nan, ("<", -math.inf)], "b": {"c": math.inf, "d": 2, "e": None}}
    expected = {"a": [1.5, None, ["<", None]], "b": {"c": None, "d": 2, "e": None}}
    assert json.loads(inline_json(value)) == expected
    assert inline_json(value) == inline_json(expected)


def test_the_command_says_it_in_one_line(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    out = tmp_path / "out"
    results, training = write_task(tmp_path / "blimp", "blimp"), tmp_path / "run"
    change(results, "provenance.code", 5)
    write_run(training, 8)
    (training / "metrics.jsonl").write_text("{\n")
    for folder in (results, training):
        for option in ("-o", "--figures"):
            assert run(["view", str(folder), option, str(out)]) == 1
            message = capsys.readouterr().err
            assert message.startswith(f"pdtools: {folder}/")
            assert message.count("\n") == 1
            assert not out.exists()


@pytest.fixture(scope="module")
def checkpoint(tmp_path_factory: pytest.TempPathFactory) -> LoadedModel:
    return load_checkpoint(save_checkpoints(tmp_path_factory.mktemp("run"))[0]["base"])


def card(checkpoint: LoadedModel, results: list[Path]) -> str:
    return model_card(checkpoint, name="x", training=training_of(checkpoint.folder), results=results)


@pytest.mark.parametrize(
    ("path", "value", "said"),
    [
        ("provenance", None, "provenance has to be an object"),
        ("provenance.command", "x", "provenance.command has to be a list of strings"),
        ("provenance.command", [None], "provenance.command has to be a list of strings"),
        ("scores.overall", "x", "scores.overall has to be a number or null"),
        ("settings.task", "attention", "cards do not list"),
    ],
)
def test_results_for_a_card(
    path: str, value: Any, said: str, checkpoint: LoadedModel, tmp_path: Path
) -> None:
    folder = write_task(tmp_path / "blimp", "blimp")
    change(folder, "provenance", ...)
    assert "minimal pairs" in card(checkpoint, [folder])
    change(folder, path, value)
    if path == "settings.task":  # else it says itself what it is
        change(folder, "evaluation", ...)
    refused(lambda: card(checkpoint, [folder]), str(folder / "results.json"), said)


def test_what_a_card_says(checkpoint: LoadedModel, tmp_path: Path) -> None:
    blimp, parse = (write_task(tmp_path / task, task) for task in ("blimp", "parse"))
    change(blimp, "scores.overall", 0.625)
    change(blimp, "provenance.command", ["pdtools", "eval-blimp", "a|b"])
    change(parse, "scores.f1", 81.25)
    made = {"command": ["pdtools", "train", "x"], "versions": {"torch": "2.13.0", "numpy": "2.1"}}
    loaded = replace(checkpoint, config={**checkpoint.config, "step": 1234})
    about = {"training": {"provenance": made}, "results": [blimp, parse], "about": "Of my own."}
    text = model_card(loaded, name="mine", **about)  # type: ignore[arg-type]
    rows = [line[2:-2].split(" | ") for line in text.splitlines() if line.startswith("| ")]
    assert ["minimal pairs, accuracy, mean of paradigms (%)", "62.50", "`pdtools eval-blimp a\\|b`"] in rows
    assert ["F1 of parses (%)", "81.25", "``"] in rows
    said = dict(row for row in rows if len(row) == 2)
    parameters = sum(each.numel() for each in {id(each): each for each in loaded.model.parameters()}.values())
    assert said["parameters"] == f"{parameters:,}"
    assert said["updates"] == "1234"
    assert said["vocabulary"].startswith(f"{loaded.tokenizer.vocab_size:,} tokens ({loaded.tokenizer.kind})")
    assert "# mine\n" in text
    assert "exported by pdtools. Of my own." in text
    assert "    pdtools train x\n" in text
    assert "Versions: torch 2.13.0, numpy 2.1." in text


@pytest.mark.parametrize(
    ("record", "said"),
    [
        ("{", "not JSON"),
        ('{"provenance": 5}', "provenance has to be an object"),
        ('{"provenance": {"command": 5}}', "provenance.command has to be a list of strings"),
        ('{"provenance": {"versions": [1]}}', "provenance.versions has to be an object"),
    ],
)
def test_what_is_known_of_the_training(record: str, said: str, checkpoint: LoadedModel) -> None:
    file = checkpoint.folder.parent / "run.json"
    file.write_text(record)
    try:
        refused(lambda: card(checkpoint, []), said)
    finally:
        file.unlink()
