"""The page of evaluations: scores of any number of models, suites by region, items one by one."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np

from pdtools.errors import InputError
from pdtools.evaluation.comparison.comparability import read_items
from pdtools.evaluation.comparison.statistics import mean_of_runs
from pdtools.evaluation.intervals import of_mean
from pdtools.evaluation.record import Evaluation, Outcomes, evaluation_of, evaluations
from pdtools.report.evaluations import with_bounds
from pdtools.report.tables import decimals, scores_table
from pdtools.report.view.charts import Spec, dots, with_rows
from pdtools.report.view.drawing import Drawing, column_of, drawing_of, rounded
from pdtools.report.view.figures import Figures
from pdtools.report.view.learning import figures_of, learning_curves, without_earlier
from pdtools.report.view.loaded import Loaded, load
from pdtools.report.view.methods import methods
from pdtools.report.view.page import Page
from pdtools.report.view.pairwise import pairwise, seed_groups

if TYPE_CHECKING:
    import pandas as pd

MOST_ITEMS = 50_000
"""The number of items of a benchmark on a page; if there are more, disagreements first, and a sample."""


def results_page(paths: Sequence[str], *, seed: int = 0, most_items: int = MOST_ITEMS) -> Page:
    """Read results folders into a page.

    Args:
        paths: results folders, or folders of several (one for each model).
        seed: for the sample of items, and for bootstraps.
        most_items: see :data:`MOST_ITEMS`.

    Raises:
        InputError: for a folder without results, or with damaged ones, or if pages show none of their kinds.
    """
    loaded = load(paths)
    known = {each.task: record for each in loaded if (record := evaluation_of(each.document)) is not None}
    others = [each for each in loaded if each.task not in known]
    notes = [f"{each.folder}: {each.task}: pages show only how such results were made" for each in others]
    if len(others) == len(loaded):
        raise InputError(f"results of another kind than pages show: {others[0].task}", file=others[0].folder)
    models = list(dict.fromkeys(each.model for each in loaded))
    groups = seed_groups(loaded)
    group_of = {model: name for name, members in groups.items() for model in members}
    loaded = [replace(each, group=group_of[each.model]) for each in loaded]
    order = [*evaluations(), *(each.task for each in loaded)]
    tasks = sorted({each.task for each in loaded}, key=order.index)
    packed: dict[str, Any] = {}
    benchmarks = []
    by_task = {task: [each for each in loaded if each.task == task] for task in tasks}
    compared = {task: without_earlier(of_task) for task, of_task in by_task.items()}
    differences = pairwise(compared, groups, seed=seed)
    for task, of_task in by_task.items():
        record = known.get(task)
        found: dict[str, Any] = {"task": task, "title": record.title if record else task}
        found["models"] = [each.model for each in of_task]
        if record:
            drawing, items = drawing_of(record), None
            if record.outcomes or drawing.items:
                items, excluded = _joined(of_task, record, drawing)
                notes += excluded
                if record.outcomes:
                    found |= _scores(record.outcomes, items, found["models"])
            if drawing.parts:
                own, beside = drawing.parts(of_task, items)
                found |= own
                packed |= beside
            if items is not None and drawing.items:
                kept, said = _kept(record.title, drawing.outcome, items, len(of_task), most_items, seed)
                notes += said
                packed[f"items-{task}"] = drawing.items(kept, of_task)
                found |= {"items": len(kept), "is_right": drawing.is_right}
        if len(compared[task]) < len(of_task):
            notes.append(f"{found['title']}: of a run, only its last checkpoint is compared with others")
        found["pairs"], of_seeds = differences[task]
        if record and record.outcomes and any(of_seeds.values()):
            found["grouped"] = _grouped(found, groups, of_seeds)
        benchmarks.append(found)
    document = {
        "models": models,
        "groups": groups,
        "overview": _overview(sorted(loaded, key=lambda each: tasks.index(each.task)), models, groups),
        "curves": learning_curves(loaded),
        "benchmarks": benchmarks,
        "methods": methods(loaded),
        "folders": [
            {
                "model": each.model,
                "folder": str(each.folder),
                "provenance": each.document["provenance"],
                "settings": each.document["settings"],
            }
            for each in loaded
        ],
    }
    return Page(
        kind="results",
        title=f"Results of {', '.join(groups)}",
        document=document,
        packed=packed,
        charts=True,
        notes=tuple(notes),
    )


def _overview(
    loaded: Sequence[Loaded], models: Sequence[str], groups: Mapping[str, Sequence[str]]
) -> list[dict[str, Any]]:
    """The main scores: a row for each, with a value for each model, and mean and deviation of each group."""
    rows: dict[str, dict[str, Any]] = {}
    for each in loaded:
        record = evaluation_of(each.document)
        for score, (value, over) in (record.main_scores(each.document) if record else {}).items():
            row = rows.setdefault(
                score,
                {
                    "score": score,
                    "task": each.task,
                    "values": [None] * len(models),
                    "over": [None] * len(models),
                    "geometric": bool(record and record.geometric),
                    "bounds": {},
                },
            )
            at = models.index(each.model)
            row["values"][at], row["over"][at] = value, "; ".join(over)
            bound = row["bounds"][each.model] = record.bound(score, each.document) if record else None
            if bound:
                row["over"][at] += f"; {bound}"
    for row in rows.values():
        values = dict(zip(models, row["values"], strict=True))
        row["means"] = {
            name: mean_of_runs(known, geometric=row["geometric"])
            for name, members in groups.items()
            if (known := [values[model] for model in members if values[model] is not None])
        }
    return [{**row, "digits": decimals(*row["values"])} for row in rows.values()]


def _joined(
    of_task: Sequence[Loaded], record: Evaluation, drawing: Drawing
) -> tuple[pd.DataFrame, list[str]]:
    """A row for each item that all models have, in the first one's order; ``@i`` ends columns of model i."""
    frames, key = [], list(record.outcomes.key if record.outcomes else drawing.key)
    for each in of_task:
        if record.outcomes:
            read_items(each.items, each.folder, record.outcomes)
        drawing.check(each.items, each.folder)
        frame = each.items.to_pandas()
        if "prediction" in key:  # predictions that only compare another score are not listed
            frame = frame.drop_duplicates([name for name in (*key, "formula") if name != "prediction"])
        frames.append(frame.set_index(key))
        if not frames[-1].index.is_unique:
            raise InputError(f"items: two with the same {', '.join(key)}", file=each.folder)
    joined = frames[0].add_suffix("@0")
    for i, frame in enumerate(frames[1:], start=1):
        joined = joined.join(frame.add_suffix(f"@{i}"), how="inner")
    most = max(map(len, frames))
    if not len(joined):
        raise InputError(
            f"no item that {of_task[0].folder} has too: not the same data", file=of_task[-1].folder
        )
    said = (
        [f"{record.title}: only the {len(joined):,} of {most:,} items that all models have"]
        if len(joined) < most
        else []
    )
    return joined.reset_index(), said


def _scores(outcomes: Outcomes, items: pd.DataFrame, models: Sequence[str]) -> dict[str, Any]:
    """Rows of the chart at each level."""
    unit = outcomes.unit
    counted = items[items["prediction"] == 1] if "prediction" in items else items
    levels: dict[str, list[dict[str, Any]]] = {}
    for level in ("overall", *outcomes.levels, unit):
        rows = []
        for i, model in enumerate(models):
            column = f"correct@{i}"
            known = counted[counted[column].notna()]
            units: dict[str, dict[str, tuple[int, int]]] = {}
            groups = "" if level == "overall" else column_of(known, level)
            table = known.assign(_unit=column_of(known, unit), _group=groups).groupby(
                ["_group", "_unit"], sort=False
            )[column]
            for (group, name), answers in table:
                if level == unit or name not in outcomes.outside:
                    units.setdefault(group, {})[name] = int(answers.sum()), len(answers)
            for group, shares in units.items():
                right, n = (sum(numbers) for numbers in zip(*shares.values(), strict=True))
                mean, low, high = of_mean(
                    [(right, n)] if level in outcomes.over_items else list(shares.values())
                )
                rows.append(
                    {
                        "name": group or "overall",
                        "series": model,
                        "score": rounded(mean),
                        "low": rounded(low),
                        "high": rounded(high),
                        "n": n,
                    }
                )
        levels[level] = rows
    above = _unique(counted, unit, f"{outcomes.levels[-1]}@0") if outcomes.levels else {}
    return {
        "levels": levels,
        "above": above,
        "chart": dots(series=models, title="accuracy", chance=outcomes.chance),
        "chance": outcomes.chance,
    }


def _grouped(
    found: Mapping[str, Any],
    groups: Mapping[str, Sequence[str]],
    of_seeds: Mapping[str, Sequence[dict[str, Any]]],
) -> dict[str, Any]:
    """The chart of groups of seeds: a dot for each group, and for each model without other seeds.

    Args:
        found: ``models``, ``levels`` and ``chart`` of single runs.
        groups: models by group name; a benchmark need not have all.
        of_seeds: rows of groups with several runs, by level.
    """
    seeds = {row["series"] for rows in of_seeds.values() for row in rows}
    # A group that could not be compared, or has only one run here, stays as single runs.
    names = {model: name if name in seeds else model for name, members in groups.items() for model in members}
    levels = {}
    for level, rows in found["levels"].items():
        single = [row for row in rows if names[row["series"]] not in seeds]
        levels[level] = [*of_seeds.get(level, ()), *single]
    series = list(dict.fromkeys(names[model] for model in found["models"]))
    chart = dots(series=series, title="accuracy", chance=found["chance"])
    return {"models": series, "levels": levels, "chart": chart}


def _unique(items: pd.DataFrame, unit: str, group: str) -> dict[str, str]:
    """The group of each unit."""
    if group not in items:
        return {}
    return {str(name): str(of) for name, of in zip(column_of(items, unit), items[group], strict=True)}


def _kept(
    title: str, outcome: str, items: pd.DataFrame, models: int, most: int, seed: int
) -> tuple[pd.DataFrame, list[str]]:
    """Select at most ``most`` items: first those on which the models disagree."""
    if len(items) <= most:
        return items, []
    outcomes = [items[f"{outcome}@{i}"].astype(float) for i in range(models)]
    differ = np.zeros(len(items), dtype=bool)
    for other in outcomes[1:]:
        differ |= (other != outcomes[0]).to_numpy() & ~(other.isna() & outcomes[0].isna()).to_numpy()
    rng = np.random.default_rng(seed)
    first, rest = (rng.permutation(np.flatnonzero(chosen)) for chosen in (differ, ~differ))
    kept = np.sort(np.concatenate([first, rest])[:most])
    n = min(len(first), most)
    some = "all" if n == len(first) else "a sample of"
    said = (
        f"{title}: the list holds {most:,} of {len(items):,} items, {some} {n:,} that models disagree"
        f" on and a sample of {most - n:,} others; scores are of all"
    )
    return items.iloc[kept], [said]


def figures(page: Page) -> Figures:
    """The page's charts, with all their rows, and its tables, with the decimals of their rows."""
    document = page.document
    charts, tables = figures_of(document["curves"])
    models = list(document["models"])
    overview = document["overview"]
    groups = document["groups"]
    tables["overview"] = (
        ["score", *models],
        [[with_bounds(row["score"], row["bounds"]), *row["values"]] for row in overview],
    )
    tables["scores"] = scores_table(
        {with_bounds(row["score"], _bounds_of(row, groups)): row["means"] for row in overview},
        {name: len(members) for name, members in groups.items()},
    )
    digits = {"overview": [row["digits"] for row in overview]}
    for benchmark in document["benchmarks"]:
        task = benchmark["task"]
        for name, shown in _of_groups_and_runs(benchmark).items():
            for level, rows in shown["levels"].items():
                charts[f"{name}-{level}"] = with_rows(shown["chart"], rows)
                cells = [
                    [row["name"], row["series"], *(100 * row[end] for end in _ENDS), row["n"]] for row in rows
                ]
                tables[f"{name}-{level}"] = ([level, "model", *_ENDS, "items"], cells)
            charts |= _by_region(page, benchmark, name)
        drawn = {f"{task}-{each['name']}": each for each in benchmark.get("drawn", [])}
        drawn |= {f"{task}-runs-{each['name']}": each for each in benchmark.get("runs", [])}
        for name, each in drawn.items():
            charts[name] = with_rows(each["chart"], each["rows"])
            keys, headings = zip(*each["columns"], strict=True)
            tables[name] = (list(headings), [[row[key] for key in keys] for row in each["rows"]])
            digits[name] = [row["digits"] for row in each["rows"]]
            if beside := each.get("beside"):
                tables[f"{name}-beside"] = (beside["columns"], beside["rows"])
        if pairs := benchmark["pairs"]["rows"]:
            columns = ["group", "a", "b", "difference", "low", "high", "test", "p", "p_holm"]
            tables[f"{task}-differences"] = (columns, [[row[name] for name in columns] for row in pairs])
            digits[f"{task}-differences"] = [row["digits"] for row in pairs]
    return Figures(charts=charts, tables=tables, digits=digits)


def _bounds_of(row: Mapping[str, Any], groups: Mapping[str, Sequence[str]]) -> dict[str, str | None]:
    """By group that has a score, the bounds that it is for its models; None if it is exact."""
    of_models = row["bounds"]
    return {
        name: " or ".join(dict.fromkeys(bound for model in groups[name] if (bound := of_models.get(model))))
        or None
        for name in row["means"]
    }


_ENDS = ("score", "low", "high")


def _of_groups_and_runs(benchmark: Mapping[str, Any]) -> dict[str, Mapping[str, Any]]:
    """Charts of items that are right or wrong, by the beginnings of file names: of groups and of runs."""
    task = benchmark["task"]
    if "levels" not in benchmark:
        return {}
    if "grouped" not in benchmark:
        return {task: benchmark}
    return {task: benchmark["grouped"], f"{task}-runs": benchmark}


def _by_region(page: Page, benchmark: Mapping[str, Any], name: str) -> dict[str, Spec]:
    """The charts of regions of each suite, of groups or of runs."""
    if not benchmark.get("suites"):
        return {}
    is_grouped = "grouped" in benchmark and name == benchmark["task"]
    regions = page.packed["regions"]
    found = {}
    for suite, about in benchmark["suites"].items():
        rows = regions["grouped" if is_grouped else "rows"].get(suite, [])
        named = [dict(zip(regions["columns"], row, strict=True)) for row in rows]
        labelled = [{**row, "label": about["labels"][row["region"]]} for row in named]
        found[f"{name}-suite-{suite}"] = with_rows(about["grouped" if is_grouped else "chart"], labelled)
    return found
