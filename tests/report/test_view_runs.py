"""Numbers that pages of runs show, and the same computed here; the pages run in node."""

from __future__ import annotations

import itertools
import json
from pathlib import Path
from statistics import fmean
from typing import Any

import numpy as np
import pytest
from node_pages import evaluate, needs_node, number, program, save_page, shows
from view_pages import write_run

from pdtools.report.view import runs
from pdtools.report.view.runs import MOST_POINTS, runs_page

pytestmark = needs_node


def test_runs(tmp_path: Path) -> None:
    for seed in (1, 2):
        write_run(tmp_path / f"r{seed}", 2400, seed)
    page = runs_page([str(tmp_path / f"r{seed}") for seed in (1, 2)])
    found = evaluate(
        save_page(page, tmp_path / "runs.html"),
        "const bold = all('td b').map((each) => each.textContent), charts = {};"
        "for (const each of all('figure'))"
        "  charts[each.firstChild.textContent] = each.querySelector('.chart').spec.data.values;"
        "return { table: cells(one('table')), bold, charts };",
    )
    losses = {}
    for seed in (1, 2):
        rng = np.random.default_rng(seed)
        losses[f"r{seed}"] = [8 / step**0.3 + float(rng.uniform(0, 0.1)) for step in range(1, 2401)]
    best = {}
    for row in found["table"][1:]:
        valid = {step: losses[row[0]][step - 1] + 0.1 for step in (600, 1200, 1800, 2400)}
        step = min(valid, key=valid.__getitem__)
        best[row[0]] = valid[step]
        assert row[1:3] == ["2400", str(step)]
        assert shows(row[3], valid[step], 4)
        assert row[4:] == ["240,000", "40.0"]
    assert found["bold"] == [f"{min(best.values()):.4f}"]
    for run, of_run in losses.items():
        drawn = [row for row in found["charts"]["training loss (nats a token)"] if row["series"] == run]
        assert len(drawn) == MOST_POINTS
        edges = [round(k * 2400 / MOST_POINTS) for k in range(MOST_POINTS + 1)]
        for row, (a, b) in zip(drawn, itertools.pairwise(edges), strict=True):
            assert (row["x"], row["y"]) == (b, pytest.approx(fmean(of_run[a:b])))


def test_runs_of_several_kinds(tmp_path: Path) -> None:
    """Whose recipes differ, in the middle one alone too; one stopped between two evaluations."""
    layers = {"a": 4, "b": 6, "c": 4}
    models = {"a": "transformer", "b": "pushdown", "c": "pushdown"}
    valid = {"a": {4: 3.5, 8: 2.75, 12: 3.0}, "b": {4: 2.5}, "c": {}}
    last = {"a": 12, "b": 7, "c": 3}
    trees = ("(X (X a) (X b))", "(S (X a b))", "(S (X a b))", "(X (X a) (X b))", "(S (X a) (X b))")
    for m, name in enumerate("abc"):
        folder = tmp_path / name
        folder.mkdir()
        recipe = {"model": models[name], "config": {"layers": layers[name], "heads": 2}}
        (folder / "run.json").write_text(json.dumps({"recipe": recipe, "provenance": {}}))
        records = []
        for step in range(1, last[name] + 1):
            train = {"loss": 5 - step / 8 - m, "gradient_norm": 0.5 + step, "attachment_accuracy": step / 20}
            records += [
                {"kind": "train", "step": step, "tokens": 90 * step, "seconds": 30 * step + m, **train}
            ]
            if step in valid[name]:
                more = {"loss": valid[name][step], "attachment_accuracy": 1 - step / 20}
                records += [{"kind": "valid", "step": step, "seconds": 30 * step + 9, **more}]
        (folder / "metrics.jsonl").write_text("".join(json.dumps(record) + "\n" for record in records))
        samples = [
            {"step": 4 * k, "id": 7, "text": "a b", "gold": trees[-1], "tree": tree, "joint": -k / 4}
            for k, tree in enumerate(trees[: 5 if m == 1 else 0], 1)
        ]
        (folder / "samples.jsonl").write_text("".join(json.dumps(sample) + "\n" for sample in samples))
    page = runs_page([str(tmp_path / name) for name in "abc"])
    found = evaluate(save_page(page, tmp_path / "page.html"), program("runs_page"))
    assert found["table"][1:] == [
        ["a", "12", "8", "2.7500", "1,080", "6.0"],
        ["b", "7", "4", "2.5000", "630", "3.5"],
        ["c", "3", "–", "–", "270", "1.5"],
    ]
    # Losses of models of different kinds are not compared.
    assert found["bold"] == []
    assert found["caption"].startswith("Compare losses of models of one kind only")
    assert found["settings"] == [
        ["setting", "a", "b", "c"],
        ["model", "transformer", "pushdown", "pushdown"],
        ["config.layers", "4", "6", "4"],
    ]
    ((rows, gold),) = found["samples"].values()
    assert list(found["samples"]) == ["b: a b"]
    assert gold == f"gold: {trees[-1]}"
    said = [trees[0], trees[1], "the same", trees[3], "the gold tree"]
    assert [(row[0], number(row[1]), row[2]) for row in rows[1:]] == [
        (str(4 * k), pytest.approx(-k / 4, abs=0.005), text) for k, text in enumerate(said, 1)
    ]
    losses = [
        (name, step, 5 - step / 8 - m) for m, name in enumerate("abc") for step in range(1, last[name] + 1)
    ]
    figures = {
        "training loss (nats a token)": losses,
        "validation loss (nats a token)": [(n, step, loss) for n in "abc" for step, loss in valid[n].items()],
        "attachment accuracy, training": [(name, step, step / 20) for name, step, _ in losses],
        "attachment accuracy, validation": [(n, step, 1 - step / 20) for n in "abc" for step in valid[n]],
        "gradient norm": [(name, step, 0.5 + step) for name, step, _ in losses],
    }
    assert list(found["figures"]) == list(figures)
    for title, expected in figures.items():
        (head, *rows), encoding = found["figures"][title]
        assert head == ["run", "step", title]
        for (name, step, value), (run, at, x) in zip(rows, expected, strict=True):
            assert (name, step) == (run, str(at))
            assert number(value) == pytest.approx(x, abs=0.0051)
        assert (encoding["y"]["scale"].get("type") == "log") == (title == "gradient norm")
    columns, table = runs.figures(page).tables["runs"]
    assert columns == ["run", "step", "best_step", "best_loss", "tokens", "seconds"]
    assert table == [["a", 12, 8, 2.75, 1080, 360], ["b", 7, 4, 2.5, 630, 211], ["c", 3, None, None, 270, 92]]
    charts = runs.figures(page).charts
    assert [row["y"] for row in charts["train-loss"]["data"]["values"]] == [loss for _, _, loss in losses]


def test_seeds_are_one_line_with_a_band(tmp_path: Path) -> None:
    """Means, and the range, at steps that all seeds have; a run that another model has alone has no band."""
    losses: dict[str, list[list[float]]] = {"a": [], "b": [], "c": []}
    rng = np.random.default_rng(0)
    for name, seeds in (("a", 3), ("b", 2), ("c", 1)):
        for seed in range(1, seeds + 1):
            folder = tmp_path / f"{name}-{seed}"
            folder.mkdir()
            recipe = {"model": name, "train": {"seed": seed, "steps": 9, "log_every": seed}}
            (folder / "run.json").write_text(json.dumps({"recipe": recipe, "data": {}, "provenance": {}}))
            of_run = rng.uniform(1, 9, MOST_POINTS * 2 if name == "a" else 9 - seed).round(3).tolist()
            lines = [
                {"kind": "train", "step": i, "loss": loss, "gradient_norm": 1 + loss}
                for i, loss in enumerate(of_run, 1)
            ]
            (folder / "metrics.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))
            losses[name].append(of_run)
    folders = sorted(map(str, tmp_path.iterdir()))
    page = runs_page(folders)
    (chart, *_) = page.document["charts"]
    drawn = {name: [row for row in chart["rows"] if row["series"] == name] for name in ("a", "b", "c-1")}
    assert sum(map(len, drawn.values())) == len(chart["rows"])
    for i, row in enumerate(drawn["a"]):
        own = [fmean(of_run[2 * i : 2 * i + 2]) for of_run in losses["a"]]
        assert row["x"] == 2 * i + 2
        assert [row[n] for n in ("y", "low", "high")] == pytest.approx([fmean(own), min(own), max(own)])
    assert [row["x"] for row in drawn["b"]] == list(range(1, 8))  # the second stopped there
    assert drawn["b"][6]["high"] == max(of_run[6] for of_run in losses["b"])
    assert [(row["y"], "low" in row) for row in drawn["c-1"]] == [(loss, False) for loss in losses["c"][0]]
    assert page.notes[-1] == (
        "lines are means over seeds, bands their range, at steps that all have"
        " (a: a-1, a-2, a-3; b: b-1, b-2)"
    )
    assert "data" not in chart["chart"]
    found = evaluate(
        save_page(page, tmp_path / "page.html"),
        "const figure = all('figure')[0]; figure.querySelector('details').open = true; await later();"
        "return { head: cells(figure)[0], last: cells(figure).at(-1),"
        " marks: figure.querySelector('.chart').spec.layer.map((each) => each.mark.type) };",
    )
    assert found["head"] == ["run", "step", "training loss (nats a token)", "lowest", "highest"]
    assert found["last"][3:] == ["–", "–"]
    assert found["marks"] == ["area", "line"]
    two = runs_page(folders[3:5]).document["charts"][0]["rows"]  # two seeds: two lines
    assert {row["series"] for row in two} == {"b-1", "b-2"}


@pytest.mark.parametrize("least", [0.5, 0.0])
def test_a_band_that_reaches_0_is_on_no_log_scale(least: float, tmp_path: Path) -> None:
    for seed, norm in ((1, 4.0), (2, least), (3, 2.0)):
        (folder := tmp_path / f"a-{seed}").mkdir()
        recipe = {"model": "a", "train": {"seed": seed, "steps": 9}}
        (folder / "run.json").write_text(json.dumps({"recipe": recipe, "data": {}, "provenance": {}}))
        lines = [{"kind": "train", "step": i, "loss": 1.0, "gradient_norm": norm * i} for i in (1, 2)]
        (folder / "metrics.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))
    page = runs_page(sorted(map(str, tmp_path.iterdir())))
    (norms,) = (chart for chart in page.document["charts"] if chart["title"] == "gradient norm")
    assert [row["low"] for row in norms["rows"]] == [least, 2 * least]
    assert ('"log"' in json.dumps(norms["chart"])) == (least > 0)


def test_of_equal_losses_the_first_is_best_as_in_training(tmp_path: Path) -> None:
    (folder := tmp_path / "a").mkdir()
    (folder / "run.json").write_text(json.dumps({"recipe": {"model": "a"}, "provenance": {}}))
    lines = [{"kind": "valid", "step": step, "loss": loss} for step, loss in ((2, 3.0), (4, 2.5), (6, 2.5))]
    (folder / "metrics.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))
    assert runs_page([str(folder)]).document["runs"][0]["best_step"] == 4


def test_a_run_that_was_stopped_after_an_evaluation(tmp_path: Path) -> None:
    """Its last record is of an evaluation, one gradient was 0, a sentence had no parse."""
    folder = tmp_path / "a"
    folder.mkdir()
    (folder / "run.json").write_text(json.dumps({"recipe": {"model": "pushdown"}, "provenance": {}}))
    records: list[dict[str, Any]] = [
        {"kind": "train", "step": 3 * step, "loss": 2, "gradient_norm": step - 1.0, "tokens": 9 * step}
        for step in range(1, MOST_POINTS + 1)
    ]
    records.append({"kind": "valid", "step": 3001, "loss": 3, "seconds": 77.5})
    (folder / "metrics.jsonl").write_text("".join(json.dumps(record) + "\n" for record in records))
    sample = {"step": 3001, "id": 7, "text": "a b", "gold": "(S (X a) (X b))", "reason": "too long"}
    (folder / "samples.jsonl").write_text(json.dumps(sample) + "\n")
    page = runs_page([str(folder)])
    (run,) = page.document["runs"]
    assert (run["step"], run["best_step"], run["best_loss"], run["seconds"]) == (3001, 3001, 3, 77.5)
    assert run["tokens"] == 9 * MOST_POINTS
    assert run["samples"][0]["parses"] == [[3001, "too long", None]]
    charts = {each["id"]: each for each in page.document["charts"]}
    assert charts["train-gradient-norm"]["chart"]["encoding"]["y"]["scale"] == {"zero": False}
    assert [row["y"] for row in charts["train-gradient-norm"]["rows"]] == list(range(MOST_POINTS))
    assert charts["train-loss"]["rows"][0] == {"series": "a", "x": 3, "y": 2}
    assert page.notes == ()
