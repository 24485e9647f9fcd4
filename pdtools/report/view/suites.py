"""Test suites of syntactic generalization on the page of evaluations: surprisals by region and condition."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

from pdtools.evaluation.intervals import half_width
from pdtools.evaluation.results import read_table
from pdtools.report.view.charts import region_curves
from pdtools.report.view.drawing import Drawing, Items, check_there, grouped, outcomes_of, rounded

if TYPE_CHECKING:
    import pandas as pd
    import pyarrow as pa

    from pdtools.report.view.loaded import Loaded

_REGIONS = {
    **dict.fromkeys(("suite", "condition", "content"), "strings"),
    **dict.fromkeys(("item", "region"), "integers"),
    "surprisal": "numbers",
}


def _items(items: pd.DataFrame, of_task: Sequence[Loaded]) -> Items:
    items_of = list(zip(items["suite"].tolist(), items["item"].tolist(), strict=True))
    regions = _regions_of_items(of_task)
    shown = [
        "\n".join(
            f"{condition}: {' '.join(filter(None, contents))}" for condition, (contents, _) in of.items()
        )
        for of in (regions.get(key, {}) for key in items_of)
    ]
    return {
        **grouped(items["suite"]),
        "id": [
            f"{item}" + (f", prediction {n}" if n > 1 else "")
            for item, n in zip(items["item"], items["prediction"], strict=True)
        ],
        "texts": {"first condition": [each.partition("\n")[0] for each in shown], "conditions": shown},
        "listed": 1,
        "regions": [regions.get(key, {}) for key in items_of],
        "outcomes": [outcomes_of(items[f"correct@{i}"]) for i in range(len(of_task))],
    }


_OfItem = dict[str, tuple[list[str], list[list[float | None]]]]
"""By condition, the contents of regions, and for each model their surprisals (bits)."""


def _regions_of_items(of_task: Sequence[Loaded]) -> dict[tuple[str, int], _OfItem]:
    """Regions by suite and item."""
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
            of_models[m].append(None if bits is None else rounded(bits, 2))
    return found


def _regions(each: Loaded) -> pa.Table | None:
    """Surprisals of the regions of test suites."""
    regions = read_table(each.folder, "regions")
    if regions is not None:
        check_there(regions, _REGIONS, {"region_name": "strings"}, each.folder, "regions")
    return regions


def _suites(of_task: Sequence[Loaded], items: pd.DataFrame | None) -> tuple[dict[str, Any], dict[str, Any]]:
    """The data of each suite's chart (formulas, conditions, names of regions), and its rows.

    There are rows for single runs and for groups of seeds, with means over runs as surprisals.
    """
    import pandas as pd

    assert items is not None
    suites: dict[str, Any] = {}
    rows: dict[str, list[list[Any]]] = {}
    formulas = items.drop_duplicates(["suite", "prediction"])
    groups = list(dict.fromkeys(each.group for each in of_task))
    frames: dict[str, list[pd.DataFrame]] = {}
    for each in of_task:
        if (regions := _regions(each)) is None:
            continue
        frame = regions.to_pandas().dropna(subset=["region"])
        frames.setdefault(each.group, []).append(frame)
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
                if len(groups) < len(of_task):
                    suites[suite]["grouped"] = region_curves(series=groups, conditions=conditions)
            rows.setdefault(suite, []).extend(_means(each.model, of_suite))
    key = ["suite", "item", "condition", "region"]
    grouped_rows: dict[str, list[list[Any]]] = {}
    for group, of_group in frames.items() if len(groups) < len(of_task) else ():
        means = pd.concat(of_group).groupby(key, sort=False)["surprisal"].mean().reset_index()
        for suite, of_suite in means.groupby("suite", sort=False):
            grouped_rows.setdefault(str(suite), []).extend(_means(group, of_suite))
    columns = ["series", "condition", "region", "mean", "low", "high", "n"]
    return {"suites": suites}, {"regions": {"columns": columns, "rows": rows, "grouped": grouped_rows}}


def _means(series: str, of_suite: pd.DataFrame) -> Iterator[list[Any]]:
    """A row for each condition and region: the mean over items with its interval."""
    for (condition, region), values in of_suite.groupby(["condition", "region"], sort=False)["surprisal"]:
        known = values.dropna()
        if not len(known):
            continue
        half = half_width(float(known.std()) if len(known) > 1 else 0.0, len(known))
        mean = float(known.mean())
        ends = [rounded(each, 3) for each in (mean, mean - half, mean + half)]
        yield [series, condition, int(str(region).partition(".")[0]), *ends, len(known)]


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


SUITES = Drawing(items=_items, parts=_suites)
