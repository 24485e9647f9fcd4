"""The drawing of an evaluation on a page: the list of its items, with their strings, and its own charts."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from importlib import import_module
from typing import TYPE_CHECKING, Any

import numpy as np

from pdtools.evaluation.intervals import half_width
from pdtools.evaluation.record import MARGIN, Evaluation, Outcomes
from pdtools.evaluation.results import check_columns
from pdtools.report.view.charts import region_curves

if TYPE_CHECKING:
    from pathlib import Path

    import pandas as pd
    import pyarrow as pa

    from pdtools.report.view.loaded import Loaded

MOST_WITH_TOKENS = 5_000
"""The number of items whose tokens' surprisals a page holds."""
_COLUMNS = {
    "item": "names",
    "region": "integers",
    **dict.fromkeys(("string", "name", "context", "text"), "strings"),
    "bits": "numbers",
    "surprisals": "tokens",
}
_Key = tuple[str, Any]
"""A finest group and an item."""
Items = dict[str, Any]
"""The list of items for the page's script.

It has its ``groups``; for each item its ``group``, its ``id`` and its ``texts`` by name, of which the first
``listed`` are in the list, and all below an item if ``unfolded``; for each model ``outcomes`` (1, 0, None; or
numbers), and perhaps ``margins``, surprisals of ``tokens`` (of texts' ``sides``) or ``regions``, the ``pair``
of compared texts, and a ``note``.
"""


@dataclass(frozen=True, kw_only=True)
class Drawing:
    """The drawing of an evaluation, which its record names.

    Attributes:
        key: the columns that name an item, if the record has no outcomes.
        columns: columns of the items to be drawn, besides those that comparisons read, and their contents.
        optional: the same for columns that may be missing.
        items: makes the list of items from a row for each (``@i`` ends the columns of model i) and the
            results; None: there is no list.
        outcome: the column in which models agree or disagree.
        is_right: whether items are right or wrong, not numbers.
        parts: makes further contents of a section, and data packed beside it, from the results and those
            rows.
    """

    key: tuple[str, ...] = ()
    columns: Mapping[str, str] = field(default_factory=dict)
    optional: Mapping[str, str] = field(default_factory=dict)
    items: Callable[[pd.DataFrame, Sequence[Loaded]], Items] | None = None
    outcome: str = "correct"
    is_right: bool = True
    parts: Callable[[Sequence[Loaded], pd.DataFrame | None], tuple[dict[str, Any], dict[str, Any]]] | None = (
        None
    )

    def check(self, table: pa.Table, folder: Path) -> None:
        """Refuse a table of items that cannot be drawn.

        Raises:
            InputError: see :func:`check_columns`.
        """
        there = {name: kind for name, kind in self.optional.items() if name in table.column_names}
        check_columns(table, {**self.columns, **there}, folder)


def grouped(column: pd.Series) -> Items:
    """The different groups, and the group of each item."""
    names, group = np.unique(column.to_numpy(str), return_inverse=True)
    return {"groups": names.tolist(), "group": group.tolist()}


def column_of(items: pd.DataFrame, name: str) -> pd.Series:
    """A column with equal values for all models."""
    return items[name] if name in items else items[f"{name}@0"]


def outcomes_of(column: pd.Series) -> list[int | None]:
    """Right or wrong; None without a score."""
    return [None if value is None or value != value else int(value) for value in column.tolist()]


def numbers_of(column: pd.Series, digits: int) -> list[float | None]:
    """Rounded numbers; None where missing."""
    return [None if value != value else value for value in column.astype(float).round(digits).tolist()]


def rounded(value: float, digits: int = 4) -> float:
    """A number rounded for a page."""
    return round(float(value), digits)


def drawing_of(record: Evaluation) -> Drawing:
    """The drawing that a record names; else a list of items that are right or wrong."""
    if record.drawing is not None:
        module, _, name = record.drawing.partition(":")
        found: Drawing = getattr(import_module(module), name)
        return found
    if record.outcomes is None:
        return Drawing()
    return Drawing(items=partial(listed_items, record.outcomes), parts=partial(regions, record.outcomes))


def listed_items(outcomes: Outcomes, items: pd.DataFrame, of_task: Sequence[Loaded]) -> Items:
    """The list of items that are right or wrong: units are their groups; their strings are their texts.

    Items of other packages need have no strings: their ``content`` are their texts.
    """
    names = [name for name in outcomes.key if name not in (outcomes.unit, "prediction")] or [outcomes.unit]
    ids = [" ".join(each) for each in zip(*(column_of(items, n).astype(str) for n in names), strict=True)]
    if "prediction" in items:
        numbers = zip(ids, items["prediction"], strict=True)
        ids = [f"{each}, prediction {n}" if n > 1 else each for each, n in numbers]
    found = {
        **grouped(column_of(items, outcomes.unit)),
        "id": ids,
        "outcomes": [outcomes_of(items[f"correct@{i}"]) for i in range(len(of_task))],
    }
    there = [name for i in range(len(of_task)) if (name := f"{MARGIN}@{i}") in items]
    margins = [items[name] for name in there if items[name].notna().any()]
    if outcomes.margin is not None and len(margins) == len(of_task):
        found["margins"] = [numbers_of(of, 2) for of in margins]
    tables = [strings_of(each, outcomes.unit) for each in of_task]
    if not (known := [table for table in tables if table is not None]):
        texts = {name: _texts(column_of(items, name)) for name in outcomes.content}
        return {**found, "texts": texts, "listed": len(texts)}
    keys = list(zip(items[outcomes.unit].tolist(), items["item"].tolist(), strict=True))
    if known[0]["region"].notna().any():
        return {**found, **_in_regions(keys, tables)}
    of_role = known[0].set_index("string")
    roles = list(dict.fromkeys(known[0]["string"]))
    texts = {}
    for role in roles:
        rows = of_role.loc[[role]]
        by_key = dict(zip(rows["key"], rows["context"].fillna("") + rows["text"], strict=True))
        texts[role] = [by_key.get(key) for key in keys]
    pair = {"pair": roles} if len(roles) == 2 and not any(None in of for of in texts.values()) else {}
    return {**found, "texts": texts, "listed": len(roles), **pair, **_tokens(keys, tables, roles)}


def _texts(column: pd.Series) -> list[str | None]:
    return [str(text) if known else None for text, known in zip(column, column.notna(), strict=True)]


def strings_of(each: Loaded, unit: str) -> pd.DataFrame | None:
    """The strings of results, with the key of their item; None if they have none."""
    if each.strings is None:
        return None
    check_columns(each.strings, {unit: "strings", **_COLUMNS}, each.folder, what="strings")
    frame = each.strings.select([unit, *_COLUMNS]).to_pandas()
    return frame.assign(key=list(zip(frame[unit], frame["item"], strict=True)))


def _tokens(
    keys: Sequence[_Key], tables: Sequence[pd.DataFrame | None], roles: Sequence[str]
) -> Mapping[str, Any]:
    """Surprisals of tokens, in bits, of the first items, for models that have them; perhaps none."""
    shown = keys[:MOST_WITH_TOKENS]
    found = {}
    for i, table in enumerate(tables):
        if table is None or not table["surprisals"].notna().any():
            continue
        of_items = table[table["key"].isin({*shown})]
        listed = zip(of_items["key"], of_items["string"], of_items["surprisals"], strict=True)
        tokens = {(key, role): _token_bits(rows) for key, role, rows in listed}
        found[str(i)] = [[tokens.get((key, role)) for role in roles] for key in shown]
    return {"sides": [*roles], "tokens": found} if found else {}


def _token_bits(rows: Any) -> list[Any] | None:
    """Tokens, and their surprisals in bits; None for a string without a score."""
    if rows is None:
        return None
    listed = list(rows)
    bits = [None if row["bits"] is None else rounded(row["bits"], 2) for row in listed]
    return [[str(row["token"]) for row in listed], bits]


def _in_regions(keys: Sequence[_Key], tables: Sequence[pd.DataFrame | None]) -> Items:
    """By role, the texts of regions, and for each model their surprisals (bits)."""
    found: dict[_Key, dict[str, tuple[list[str], list[list[float | None]]]]] = {}
    for m, table in enumerate(tables):
        if table is None:
            continue
        there = table[table["region"].notna()]  # the end is in no region
        for key, role, text, bits in zip(
            there["key"], there["string"], there["text"], numbers_of(there["bits"], 2), strict=True
        ):
            texts, of_models = found.setdefault(key, {}).setdefault(role, ([], [[] for _ in tables]))
            if len(of_models[m]) == len(texts):
                texts.append(text)
            of_models[m].append(bits)
    shown = [
        "\n".join(f"{role}: {' '.join(filter(None, texts))}" for role, (texts, _) in of.items())
        for of in (found.get(key, {}) for key in keys)
    ]
    return {
        "texts": {"first condition": [each.partition("\n")[0] for each in shown], "conditions": shown},
        "listed": 1,
        "regions": [found.get(key, {}) for key in keys],
    }


def regions(
    outcomes: Outcomes, of_task: Sequence[Loaded], items: pd.DataFrame | None
) -> tuple[dict[str, Any], dict[str, Any]]:
    """The data of each finest group's chart of regions (formulas, roles, names), and its rows.

    Both are empty if no string has regions.

    There are rows for single runs and for groups of seeds, with means over runs as surprisals.
    """
    import pandas as pd

    assert items is not None
    unit = outcomes.unit
    units: dict[str, Any] = {}
    rows: dict[str, list[list[Any]]] = {}
    groups = list(dict.fromkeys(each.group for each in of_task))
    frames: dict[str, list[pd.DataFrame]] = {}
    for each in of_task:
        table = strings_of(each, unit)
        if table is None or not table["region"].notna().any():
            continue
        frame = table[table["region"].notna()]
        frames.setdefault(each.group, []).append(frame)
        for name, of_unit in frame.groupby(unit, sort=False):
            roles = of_unit["string"].drop_duplicates().tolist()
            labels = _labels(of_unit)
            if name in units:
                units[name]["labels"] = labels | units[name]["labels"]
            else:
                of_items = items[items[unit] == name].drop_duplicates("prediction")
                units[name] = {
                    "formulas": of_items["formula@0"].tolist(),
                    "conditions": roles,
                    "labels": labels,
                    "chart": region_curves(series=[each.model for each in of_task], conditions=roles),
                }
                if len(groups) < len(of_task):
                    units[name]["grouped"] = region_curves(series=groups, conditions=roles)
            rows.setdefault(name, []).extend(_means(each.model, of_unit))
    if not units:
        return {}, {}
    key = [unit, "item", "string", "region"]
    grouped_rows: dict[str, list[list[Any]]] = {}
    for group, of_group in frames.items() if len(groups) < len(of_task) else ():
        means = pd.concat(of_group).groupby(key, sort=False)["bits"].mean().reset_index()
        for name, of_unit in means.groupby(unit, sort=False):
            grouped_rows.setdefault(str(name), []).extend(_means(group, of_unit))
    columns = ["series", "condition", "region", "mean", "low", "high", "n"]
    return {"suites": units}, {"regions": {"columns": columns, "rows": rows, "grouped": grouped_rows}}


def _means(series: str, of_unit: pd.DataFrame) -> Iterator[list[Any]]:
    """A row for each condition and region: the mean over items with its interval."""
    for (condition, region), values in of_unit.groupby(["string", "region"], sort=False)["bits"]:
        known = values.dropna()
        if not len(known):
            continue
        half = half_width(float(known.std()) if len(known) > 1 else 0.0, len(known))
        mean = float(known.mean())
        ends = [rounded(each, 3) for each in (mean, mean - half, mean + half)]
        yield [series, condition, int(str(region).partition(".")[0]), *ends, len(known)]


def _labels(of_unit: pd.DataFrame) -> dict[int, str]:
    """The number of each region, with its name, or else with its words in the first item."""
    labels = {}
    for key, group in of_unit.groupby("region"):
        number = int(str(key).partition(".")[0])
        named = group["name"].dropna() if "name" in group else group["text"].iloc[:0]
        contents = (content for content in group["text"].dropna() if content)
        text = named.iloc[0] if len(named) else next(contents, "")
        labels[number] = f"{number} {text[:24]}".strip()
    return labels


# --- single parses ------------------------------------------------------------------------------


def _parses(items: pd.DataFrame, of_task: Sequence[Loaded]) -> Items:
    range_ = range(len(of_task))
    texts = {}
    if "gold_tree@0" in items:
        texts = {"gold tree": items["gold_tree@0"].tolist()}
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
        "listed": 1,
        "unfolded": True,
        "outcomes": [numbers_of(_f1(items, i), 1) for i in range_],
    }


def _f1(items: pd.DataFrame, i: int) -> pd.Series:
    """The F1 of each sentence, in percent."""
    names = ("matched", "gold", "predicted")
    matched, gold, predicted = (items[f"{name}@{i}"].astype(float) for name in names)
    return 200 * matched / (gold + predicted)


PARSES = Drawing(
    key=("line",),
    columns=dict.fromkeys(("line", "matched", "gold", "predicted"), "integers"),
    optional=dict.fromkeys(("gold_tree", "predicted_tree"), "strings"),
    items=_parses,
    outcome="matched",
    is_right=False,
)
"""The drawing of parses: F1 of each sentence."""
