"""The page of evaluations: scores of any number of models, suites by region, items one by one."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from pdtools.errors import InputError
from pdtools.evaluation.comparison.items import read_items
from pdtools.evaluation.record import Evaluation, Outcomes, evaluation_of, evaluations
from pdtools.evaluation.results import check_columns, read_table
from pdtools.report.view.charts import Spec, dots, region_curves, with_rows
from pdtools.report.view.figures import Figures
from pdtools.report.view.intervals import half_width, of_mean
from pdtools.report.view.loaded import Loaded, load
from pdtools.report.view.methods import methods
from pdtools.report.view.page import Page
from pdtools.report.view.pairwise import pairwise, seed_groups
from pdtools.report.view.reading import gains

if TYPE_CHECKING:
    from pathlib import Path

    import pandas as pd
    import pyarrow as pa

MOST_ITEMS = 50_000
"""Items of a benchmark that a page holds; of more, those that models disagree on, and a sample."""
MOST_WITH_TOKENS = 5_000
"""Pairs whose tokens' surprisals a page holds."""

_NATS = 1 / math.log(2)  # bits
# What pages read of items and regions, beside what comparisons check; of some columns only if they are there.
_COLUMNS = {
    "blimp": {"logprob_good": "numbers", "logprob_bad": "numbers"},
    "parse": {"line": "integers", "matched": "integers", "gold": "integers", "predicted": "integers"},
}
_OPTIONAL = {
    **dict.fromkeys(("gold_tree", "predicted_tree", "region_name"), "strings"),
    **dict.fromkeys(("surprisals_good", "surprisals_bad"), "tokens"),
}
_REGIONS = {
    **dict.fromkeys(("suite", "condition", "content"), "strings"),
    **dict.fromkeys(("item", "region"), "integers"),
    "surprisal": "numbers",
}


def results_page(
    paths: Sequence[str], *, title: str | None = None, seed: int = 0, most_items: int = MOST_ITEMS
) -> Page:
    """Read results folders into a page.

    Args:
        paths: results folders, or folders of several (one for each model).
        title: of the page.
        seed: of the sample of items, and of bootstraps.
        most_items: see :data:`MOST_ITEMS`.

    Raises:
        InputError: for a folder without results, or with damaged ones, and if pages show none of their kinds.
    """
    loaded = load(paths)
    known = {each.task: record for each in loaded if (record := evaluation_of(each.document)) is not None}
    others = [each for each in loaded if each.task not in known]
    notes = [f"{each.folder}: {each.task}: pages show only how such results were made" for each in others]
    if len(others) == len(loaded):
        raise InputError(f"results of another kind than pages show: {others[0].task}", file=others[0].folder)
    models = list(dict.fromkeys(each.model for each in loaded))
    groups = seed_groups(loaded)
    order = [*evaluations(), *(each.task for each in loaded)]
    tasks = sorted({each.task for each in loaded}, key=order.index)
    packed: dict[str, Any] = {}
    benchmarks = []
    for task in tasks:
        of_task = [each for each in loaded if each.task == task]
        record = known.get(task)
        found: dict[str, Any] = {"task": task, "title": record.title if record else task}
        found["models"] = [each.model for each in of_task]
        if record and (record.outcomes or task in _ITEMS):
            items, left_out = _joined(of_task, record)
            notes += left_out
            if record.outcomes:
                found |= _scores(record.outcomes, items, found["models"])
            if task == "sg":
                found["suites"], packed["regions"] = _suites(of_task, items)
            if task in _ITEMS:
                kept, said = _kept(record, items, len(of_task), most_items, seed)
                notes += said
                packed[f"items-{task}"] = _ITEMS[task](kept, of_task)
                found["items"] = len(kept)
        if task == "reading":
            found |= gains(of_task)
        found["pairs"] = pairwise(of_task, groups, seed=seed)
        benchmarks.append(found)
    document = {
        "models": models,
        "groups": groups,
        "overview": _overview(loaded, models),
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
        title=title or f"Results of {', '.join(models)}",
        document=document,
        packed=packed,
        charts=True,
        notes=tuple(notes),
    )


def _overview(loaded: Sequence[Loaded], models: Sequence[str]) -> list[dict[str, Any]]:
    """The main scores: a row for each, a value for each model."""
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
                },
            )
            at = models.index(each.model)
            row["values"][at], row["over"][at] = value, "; ".join(over)
    return list(rows.values())


def _joined(of_task: Sequence[Loaded], record: Evaluation) -> tuple[pd.DataFrame, list[str]]:
    """A row for each item that all models have, in the order of the first; ``@i`` ends those of model i."""
    frames, key = [], list(record.outcomes.key) if record.outcomes else ["line"]
    for each in of_task:
        if record.outcomes:
            read_items(each.items, each.folder, record.outcomes)
        _check_columns(each.items, _COLUMNS.get(each.task, {}), each.folder)
        frames.append(each.items.to_pandas().set_index(key))
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


def _check_columns(table: pa.Table, columns: Mapping[str, str], folder: Path, what: str = "items") -> None:
    there = {name: kind for name, kind in _OPTIONAL.items() if name in table.column_names}
    check_columns(table, {**columns, **there}, folder, what=what)


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
            names = known[unit] if unit in known else known[f"{unit}@0"]
            groups = "" if level == "overall" else known[level] if level in known else known[f"{level}@0"]
            table = known.assign(_unit=names, _group=groups).groupby(["_group", "_unit"], sort=False)[column]
            for (group, name), answers in table:
                if level == unit or name not in outcomes.outside:
                    units.setdefault(group, {})[name] = int(answers.sum()), len(answers)
            for group, shares in units.items():
                mean, low, high = of_mean(list(shares.values()))
                n = sum(n for _, n in shares.values())
                rows.append(
                    {
                        "name": group or "overall",
                        "series": model,
                        "score": _round(mean),
                        "low": _round(low),
                        "high": _round(high),
                        "n": n,
                    }
                )
        levels[level] = rows
    above = _unique(counted, unit, f"{outcomes.levels[-1]}@0") if outcomes.levels else {}
    label = "items whose prediction holds" if "prediction" in outcomes.key else "accuracy"
    return {
        "levels": levels,
        "above": above,
        "chart": dots(series=models, title=label, chance=outcomes.chance),
    }


def _unique(items: pd.DataFrame, unit: str, group: str) -> dict[str, str]:
    """Which group each unit belongs to."""
    return (
        {str(name): str(of) for name, of in zip(items[unit], items[group], strict=True)}
        if group in items
        else {}
    )


def _kept(
    record: Evaluation, items: pd.DataFrame, models: int, most: int, seed: int
) -> tuple[pd.DataFrame, list[str]]:
    """At most so many items: those that the models disagree on first."""
    if len(items) <= most:
        return items, []
    outcome = "correct" if record.outcomes else "matched"
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
        f"{record.title}: the list holds {most:,} of {len(items):,} items, {some} {n:,} that models disagree"
        f" on and a sample of {most - n:,} others; scores are of all"
    )
    return items.iloc[kept], [said]


def _blimp_items(items: pd.DataFrame, of_task: Sequence[Loaded]) -> dict[str, Any]:
    names, group = np.unique(items["paradigm"].to_numpy(str), return_inverse=True)
    found: dict[str, Any] = {
        "groups": names.tolist(),
        "group": group.tolist(),
        "id": items["pair"].astype(str).tolist(),
        "texts": {"good": items["sentence_good@0"].tolist(), "bad": items["sentence_bad@0"].tolist()},
        "outcomes": [_outcomes(items[f"correct@{i}"]) for i in range(len(of_task))],
        "margins": [
            _numbers((items[f"logprob_good@{i}"] - items[f"logprob_bad@{i}"]) * _NATS, 2)
            for i in range(len(of_task))
        ],
    }
    with_tokens = [
        i
        for i in range(len(of_task))
        if {f"surprisals_good@{i}", f"surprisals_bad@{i}"} <= set(items.columns)
    ]
    if with_tokens:
        found["tokens"] = {
            str(i): [
                [_token_bits(row[f"surprisals_{side}@{i}"]) for side in ("good", "bad")]
                for _, row in items.head(MOST_WITH_TOKENS).iterrows()
            ]
            for i in with_tokens
        }
    return found


def _token_bits(rows: Any) -> list[Any] | None:
    """Tokens, and their surprisals in bits; None of a sentence without a score (pandas' NaN)."""
    if not isinstance(rows, Iterable):
        return None
    listed = list(rows)
    nats = [row["surprisal"] for row in listed]
    return [
        [str(row["token"]) for row in listed],
        [None if each is None else _round(each * _NATS, 2) for each in nats],
    ]


def _sg_items(items: pd.DataFrame, of_task: Sequence[Loaded]) -> dict[str, Any]:
    names, group = np.unique(items["suite"].to_numpy(str), return_inverse=True)
    items_of = list(zip(items["suite"].tolist(), items["item"].tolist(), strict=True))
    regions = _regions_of_items(of_task)
    shown = [
        "\n".join(
            f"{condition}: {' '.join(filter(None, contents))}" for condition, (contents, _) in of.items()
        )
        for of in (regions.get(key, {}) for key in items_of)
    ]
    return {
        "groups": names.tolist(),
        "group": group.tolist(),
        "id": [
            f"{item}" + (f", prediction {n}" if n > 1 else "")
            for item, n in zip(items["item"], items["prediction"], strict=True)
        ],
        "texts": {"conditions": shown},
        "regions": [regions.get(key, {}) for key in items_of],
        "outcomes": [_outcomes(items[f"correct@{i}"]) for i in range(len(of_task))],
    }


_OfItem = dict[str, tuple[list[str], list[list[float | None]]]]
"""Of each condition the contents of its regions, and for each model their surprisals (bits)."""


def _regions_of_items(of_task: Sequence[Loaded]) -> dict[tuple[str, int], _OfItem]:
    """By suite and item."""
    found: dict[tuple[str, int], _OfItem] = {}
    for m, each in enumerate(of_task):
        regions = _regions(each)
        if regions is None:
            continue
        names = ("suite", "item", "condition", "region", "content", "surprisal")
        for suite, item, condition, region, content, bits in zip(
            *(regions[name].to_pylist() for name in names), strict=True
        ):
            if region is None:  # end-of-sentence
                continue
            of_item = found.setdefault((suite, item), {})
            contents, of_models = of_item.setdefault(condition, ([], [[] for _ in of_task]))
            if len(of_models[m]) == len(contents):
                contents.append(content)
            of_models[m].append(None if bits is None else _round(bits, 2))
    return found


def _parse_items(items: pd.DataFrame, of_task: Sequence[Loaded]) -> dict[str, Any]:
    range_ = range(len(of_task))
    texts = {}
    if "gold_tree@0" in items:
        texts = {"gold": items["gold_tree@0"].tolist()}
        texts |= {
            each.model: items[f"predicted_tree@{i}"].tolist()
            for i, each in enumerate(of_task)
            if f"predicted_tree@{i}" in items
        }
    return {
        "groups": ["sentences"],
        "group": [0] * len(items),
        "id": items["line"].astype(str).tolist(),
        "texts": texts,
        "outcomes": [_numbers(_f1(items, i), 1) for i in range_],
        "unit": "F1",
    }


def _f1(items: pd.DataFrame, i: int) -> pd.Series:
    """The F1 of each sentence, in percent."""
    names = ("matched", "gold", "predicted")
    matched, gold, predicted = (items[f"{name}@{i}"].astype(float) for name in names)
    return 200 * matched / (gold + predicted)


_ITEMS = {"blimp": _blimp_items, "sg": _sg_items, "parse": _parse_items}


def _regions(each: Loaded) -> pa.Table | None:
    """Surprisals of the regions of test suites."""
    regions = read_table(each.folder, "regions")
    if regions is not None:
        _check_columns(regions, _REGIONS, each.folder, "regions")
    return regions


def _suites(of_task: Sequence[Loaded], items: pd.DataFrame) -> tuple[dict[str, Any], dict[str, Any]]:
    """What each suite's chart needs (formulas, conditions, names of regions), and its rows."""
    suites: dict[str, Any] = {}
    rows: dict[str, list[list[Any]]] = {}
    formulas = items.drop_duplicates(["suite", "prediction"])
    for each in of_task:
        regions = _regions(each)
        if regions is None:
            continue
        frame = regions.to_pandas().dropna(subset=["region"])
        for suite, of_suite in frame.groupby("suite", sort=False):
            conditions = of_suite["condition"].drop_duplicates().tolist()
            labels = _labels(of_suite)
            if suite in suites:
                suites[suite]["labels"] = labels | suites[suite]["labels"]
            else:
                suites[suite] = {
                    "formulas": formulas.loc[formulas["suite"] == suite, "formula@0"].tolist(),
                    "conditions": conditions,
                    "labels": labels,
                    "chart": region_curves(series=[each.model for each in of_task], conditions=conditions),
                }
            grouped = of_suite.groupby(["condition", "region"], sort=False)["surprisal"]
            for (condition, region), values in grouped:
                known = values.dropna()
                if not len(known):
                    continue
                half = half_width(float(known.std()) if len(known) > 1 else 0.0, len(known))
                mean = float(known.mean())
                rows.setdefault(suite, []).append(
                    [
                        each.model,
                        condition,
                        int(str(region).partition(".")[0]),
                        _round(mean, 3),
                        _round(mean - half, 3),
                        _round(mean + half, 3),
                        len(known),
                    ]
                )
    return suites, {"columns": ["series", "condition", "region", "mean", "low", "high", "n"], "rows": rows}


def _labels(of_suite: pd.DataFrame) -> dict[int, str]:
    """The number of each region, with its name, or else with its words in the first item."""
    labels = {}
    for key, group in of_suite.groupby("region"):
        number = int(str(key).partition(".")[0])
        named = group["region_name"].dropna() if "region_name" in group else group["content"].iloc[:0]
        contents = (content for content in group["content"].dropna() if content)
        text = named.iloc[0] if len(named) else next(contents, "")
        labels[number] = f"{number} {text[:24]}".strip()
    return labels


def _outcomes(column: pd.Series) -> list[int | None]:
    return [None if value is None or value != value else int(value) for value in column.tolist()]


def _numbers(column: pd.Series, digits: int) -> list[float | None]:
    return [None if value != value else value for value in column.astype(float).round(digits).tolist()]


def _round(value: float, digits: int = 4) -> float:
    return round(float(value), digits)


def figures(page: Page) -> Figures:
    """The page's charts, with all their rows, and its tables."""
    return Figures(charts=_charts(page), tables=_tables(page))


def _tables(page: Page) -> dict[str, tuple[list[str], list[list[Any]]]]:
    document = page.document
    models = list(document["models"])
    found: dict[str, tuple[list[str], list[list[Any]]]] = {
        "overview": (["score", *models], [[row["score"], *row["values"]] for row in document["overview"]])
    }
    for benchmark in document["benchmarks"]:
        for level, rows in benchmark.get("levels", {}).items():
            listed = [
                [
                    row["name"],
                    row["series"],
                    100 * row["score"],
                    100 * row["low"],
                    100 * row["high"],
                    row["n"],
                ]
                for row in rows
            ]
            found[f"{benchmark['task']}-{level}"] = (
                [level, "model", "score", "low", "high", "items"],
                listed,
            )
        if pairs := benchmark.get("pairs"):
            columns = ["group", "a", "b", "difference", "low", "high", "test", "p", "p_holm"]
            found[f"{benchmark['task']}-differences"] = (
                columns,
                [[row[name] for name in columns] for row in pairs["rows"]],
            )
    return found


def _charts(page: Page) -> dict[str, Spec]:
    found = {}
    for benchmark in page.document["benchmarks"]:
        for level, rows in benchmark.get("levels", {}).items():
            found[f"{benchmark['task']}-{level}"] = with_rows(benchmark["chart"], rows)
        if "gains" in benchmark:
            found[f"{benchmark['task']}-gains"] = with_rows(benchmark["chart"], benchmark["gains"])
        for suite, about in benchmark.get("suites", {}).items():
            columns = page.packed["regions"]["columns"]
            rows = [
                dict(zip(columns, row, strict=True)) for row in page.packed["regions"]["rows"].get(suite, [])
            ]
            labelled = [{**row, "label": about["labels"][row["region"]]} for row in rows]
            found[f"sg-suite-{suite}"] = with_rows(about["chart"], labelled)
    return found
