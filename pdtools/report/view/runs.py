"""The page of training runs: their records in common charts."""

from __future__ import annotations

import contextlib
from collections.abc import Mapping, Sequence
from itertools import pairwise
from pathlib import Path
from statistics import fmean
from typing import Any

from pdtools.errors import InputError
from pdtools.evaluation.comparison.groups import name_of_seeds
from pdtools.provenance.origin import training_of
from pdtools.report.view.charts import curves, lines, with_rows
from pdtools.report.view.figures import Figures
from pdtools.report.view.loaded import short_names
from pdtools.report.view.page import Page
from pdtools.training.metrics import read_metrics
from pdtools.training.run_folder import RunFolder
from pdtools.training.samples import SAMPLES, read_samples

MOST_POINTS = 1000
"""The number of points of a run in a chart; neighbours are averaged if there are more records."""

# Values drawn from each kind of record, in order: the title of their axis, and whether it is logarithmic.
_MEASURES = {
    ("train", "loss"): ("training loss (nats a token)", False),
    ("valid", "loss"): ("validation loss (nats a token)", False),
    ("valid", "ppl_token_given_trees"): ("validation perplexity, given the trees", True),
    ("valid", "ppl_token_joint"): ("validation perplexity, joint", True),
    ("train", "attachment_accuracy"): ("attachment accuracy, training", False),
    ("valid", "attachment_accuracy"): ("attachment accuracy, validation", False),
    ("train", "treereg_loss"): ("TreeReg loss", False),
    ("valid", "treereg_accuracy"): ("TreeReg accuracy, validation", False),
    ("train", "learning_rate"): ("learning rate", False),
    ("train", "gradient_norm"): ("gradient norm", True),
    ("train", "tokens_per_second"): ("tokens a second", False),
}


def is_run(path: str | Path) -> bool:
    """Return whether a folder is a run of ``pdtools train``."""
    return RunFolder(path).exists()


def runs_page(paths: Sequence[str]) -> Page:
    """Read the folders of runs into a page.

    Args:
        paths: folders of runs, finished or not.

    Raises:
        InputError: for a folder that is no run.
    """
    folders = [Path(path) for path in paths]
    if wrong := [folder for folder in folders if not is_run(folder)]:
        raise InputError(
            "no run of pdtools train", file=wrong[0], hint="the folder after -o of pdtools train"
        )
    named = short_names(folders)
    if len(named) < len(folders):
        raise InputError("named twice", file=next(f for i, f in enumerate(folders) if f in folders[:i]))
    names = list(named.values())
    groups = _groups(named)
    records = {
        (name, kind): read_metrics(folder, kind)
        for folder, name in named.items()
        for kind in ("train", "valid")
    }
    charts, notes = [], []
    for (kind, key), (label, log) in _MEASURES.items():
        rows: list[dict[str, Any]] = []
        for name, members in groups.items():
            by_step = [
                {r["step"]: value for r in records[run, kind] if (value := _number(r, key)) is not None}
                for run in members
            ]
            by_step = [values for values in by_step if values]
            steps = sorted(set.intersection(*map(set, by_step))) if by_step else []
            points = [(step, [values[step] for values in by_step]) for step in steps]
            if len(points) > MOST_POINTS:
                notes.append(
                    f"{name}, {label}: neighbouring records averaged, {len(points)} into {MOST_POINTS}"
                )
                points = _averaged(points)
            for step, values in points:
                ends = {"low": min(values), "high": max(values)} if len(values) > 1 else {}
                rows.append({"series": name, "x": step, "y": fmean(values), **ends})
        log = log and all(row.get("low", row["y"]) > 0 for row in rows)
        if rows:
            spec = lines(series=names, x="step", y=label, log=log)
            if len(groups) < len(names):
                spec = curves(rows, x="step", y=label, log_y=log)
                del spec["data"]
            charts.append(
                {"id": f"{kind}-{key}".replace("_", "-"), "title": label, "chart": spec, "rows": rows}
            )
    if len(groups) < len(names):
        some = "; ".join(f"{name}: {', '.join(own)}" for name, own in groups.items() if len(own) > 1)
        notes.append(f"lines are means over seeds, bands their range, at steps that all have ({some})")
    runs = [_described(folder, name, records) for folder, name in named.items()]
    document = {
        "models": names,
        "runs": runs,
        "charts": charts,
        "settings": _differing([run["recipe"] for run in runs]),
    }
    return Page(
        kind="runs",
        title=f"Training of {', '.join(names)}",
        document=document,
        charts=True,
        notes=tuple(notes),
    )


def figures(page: Page) -> Figures:
    """The page's charts, and a row for each run."""
    columns = ["run", "step", "best_step", "best_loss", "tokens", "seconds"]
    rows = [[run["name"], *(run[name] for name in columns[1:])] for run in page.document["runs"]]
    charts = {each["id"]: with_rows(each["chart"], each["rows"]) for each in page.document["charts"]}
    return Figures(charts=charts, tables={"runs": (columns, rows)})


def _groups(named: Mapping[Path, str]) -> dict[str, list[str]]:
    """Runs that differ only in their seeds; each alone if there are two runs, or two groups of one name."""
    together: dict[Any, list[str]] = {}
    for folder, name in named.items():
        with contextlib.suppress(AttributeError, KeyError, TypeError):
            together.setdefault(training_of(RunFolder(folder).record())["sha256"], []).append(name)
            continue
        together[folder] = [name]
    groups = {name_of_seeds(own): own for own in together.values()}
    alone = {name: [name] for name in named.values()}
    return alone if len(named) < 3 or len(groups) < len(together) else groups


def _averaged(points: list[tuple[int, list[float]]]) -> list[tuple[int, list[float]]]:
    """Means of groups of neighbours, each at its last step."""
    edges = [round(i * len(points) / MOST_POINTS) for i in range(MOST_POINTS + 1)]
    groups = [points[a:b] for a, b in pairwise(edges)]
    return [
        (group[-1][0], [fmean(values) for values in zip(*(own for _, own in group), strict=True)])
        for group in groups
    ]


def _described(
    folder: Path, name: str, records: dict[tuple[str, str], list[dict[str, Any]]]
) -> dict[str, Any]:
    """A run's row in the table, its recipe, and its parsed sentences."""
    made = RunFolder(folder).record()
    train, valid = records[name, "train"], records[name, "valid"]
    best = min((r for r in valid if _number(r, "loss") is not None), key=lambda r: r["loss"], default={})
    last = max((*train, *valid), key=lambda r: r["step"], default={})
    return {
        "name": name,
        "folder": str(folder),
        "step": last.get("step"),
        "best_step": best.get("step"),
        "best_loss": best.get("loss"),
        "tokens": _number(train[-1], "tokens") if train else None,
        "seconds": _number(last, "seconds"),
        "recipe": _flat(made.get("recipe", {})),
        "provenance": {key: value for key, value in made.items() if key != "recipe"},
        "samples": _samples(folder),
    }


def _samples(folder: Path) -> list[dict[str, Any]]:
    """The validation sentences that the run parsed anew at each evaluation: text, gold tree, its parses."""
    found: dict[int, dict[str, Any]] = {}
    for line, record in enumerate(read_samples(folder), 1):
        tree, joint = record.get("tree") or record.get("reason"), _number(record, "joint")
        texts = [record.get("text"), record.get("gold"), tree]
        if type(record.get("id")) is not int or not all(isinstance(each, str) for each in texts):
            raise InputError("not a parse of a validation sentence", file=folder / SAMPLES, line=line)
        sample: dict[str, Any] = {"text": texts[0], "gold": texts[1], "parses": []}
        found.setdefault(record["id"], sample)["parses"].append([record["step"], tree, joint])
    return list(found.values())


def _number(record: dict[str, Any], name: str) -> float | None:
    value = record.get(name)
    return value if type(value) in (int, float) else None


def _flat(table: dict[str, Any], before: str = "") -> dict[str, Any]:
    """Settings by their dotted names."""
    found: dict[str, Any] = {}
    for name, value in table.items():
        found |= _flat(value, f"{before}{name}.") if isinstance(value, dict) else {f"{before}{name}": value}
    return found


def _differing(recipes: Sequence[dict[str, Any]]) -> list[list[Any]]:
    """Settings that differ between runs: name, then a value for each."""
    names = dict.fromkeys(name for recipe in recipes for name in recipe)
    rows = [[name, *(recipe.get(name) for recipe in recipes)] for name in names]
    return [row for row in rows if any(value != row[1] for value in row[2:])]
