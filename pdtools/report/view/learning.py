"""Learning curves: scores of a run's checkpoints, by the number of words read."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from pdtools.evaluation.record import evaluation_of
from pdtools.provenance.hub import name_of
from pdtools.report.view.charts import Spec, lines, with_rows
from pdtools.report.view.loaded import Loaded

_CHECKPOINT = re.compile(r"best|last|step-\d+|main|chck_\w+")


def learning_curves(loaded: Sequence[Loaded]) -> list[dict[str, Any]]:
    """A chart for each main score that several checkpoints of one run have.

    The x axis is words read, or steps if not all checkpoints have a number of words
    (:func:`pdtools.provenance.provenance`).

    Returns:
        ``id``, ``title``, ``x``, ``chart``, and its ``rows``: ``series`` (the run), ``x``, ``y``.
    """
    points = [(each, found) for each in loaded if type((found := _model(each)).get("step")) is int]
    x = "words" if all(type(found.get("words")) is int for _, found in points) else "step"
    names = _run_names([found for _, found in points])
    scores: dict[tuple[str, str], dict[tuple[str, int], float]] = {}
    for each, found in points:
        record = evaluation_of(each.document)
        for score, (value, _) in (record.main_scores(each.document) if record else {}).items():
            if value is not None:
                place = names[_run(found)], found[x]
                scores.setdefault((each.task, score), {}).setdefault(place, value)
    title = "words read" if x == "words" else "step"
    curves = []
    for (task, score), values in scores.items():
        n_points = [sum(run == name for run, _ in values) for name in names.values()]
        if max(n_points) > 1:
            rows = [{"series": run, "x": at, "y": value} for (run, at), value in sorted(values.items())]
            series = list(dict.fromkeys(run for run, _ in sorted(values)))
            chart = lines(series=series, x=title, y=score)
            curves.append(
                {"id": f"{task}-by-{x}-{score}", "title": score, "x": title, "chart": chart, "rows": rows}
            )
    return curves


def without_earlier(of_task: Sequence[Loaded]) -> list[Loaded]:
    """Results of one evaluation, without earlier checkpoints of a run that has three or more.

    Curves show how a model has changed; tests of every two checkpoints would not.
    """
    places = [(_run(found), found.get("step")) for found in map(_model, of_task)]
    steps: dict[tuple[str, ...], set[int]] = {}
    for run, step in places:
        if type(step) is int:
            steps.setdefault(run, set()).add(step)
    return [
        each
        for each, (run, step) in zip(of_task, places, strict=True)
        if type(step) is not int or len(steps[run]) < 3 or step == max(steps[run])
    ]


def figures_of(curves: Sequence[Mapping[str, Any]]) -> tuple[dict[str, Spec], dict[str, Any]]:
    """The charts and their tables, by names of files."""
    charts = {each["id"]: with_rows(each["chart"], each["rows"]) for each in curves}
    tables = {
        each["id"]: (["run", each["x"], each["title"]], [[*row.values()] for row in each["rows"]])
        for each in curves
    }
    return charts, tables


def _model(loaded: Loaded) -> dict[str, Any]:
    """The model's provenance; {} if there are several models, or none."""
    found = loaded.document["provenance"].get("inputs", {}).get("model")
    return found if isinstance(found, dict) else {}


def _run(model: Mapping[str, Any]) -> tuple[str, ...]:
    """An identifier of a checkpoint's run: its training, or its folder."""
    training = model.get("training")
    if isinstance(training, dict):
        return str(training.get("sha256")), str(training.get("seed"))
    return (str(_folder(model)),)


def _folder(model: Mapping[str, Any]) -> Path:
    """The folder of a checkpoint's run, or of its revisions."""
    path = Path(str(model.get("path")))
    return path.parent if _CHECKPOINT.fullmatch(path.name) else path


def _run_names(models: Sequence[Mapping[str, Any]]) -> dict[tuple[str, ...], str]:
    """Names of runs: their folders' names, numbered if several are the same."""
    names: dict[tuple[str, ...], str] = {}
    for model in models:
        name = name_of(str(_folder(model)))
        alike = sum(1 for other in names.values() if other.partition(" (")[0] == name)
        names.setdefault(_run(model), f"{name} ({alike + 1})" if alike else name)
    return names
