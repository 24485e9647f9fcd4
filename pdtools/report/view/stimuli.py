"""The page of a table of stimuli: mean surprisal by region and condition, and the items one by one."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from itertools import combinations, product
from pathlib import Path
from statistics import fmean
from typing import Any

from pdtools.errors import InputError
from pdtools.evaluation.comparison.statistics import deviation
from pdtools.evaluation.intervals import half_width
from pdtools.files.tables import Sheet, cell_text, read_sheet
from pdtools.report.view.charts import region_curves, with_rows
from pdtools.report.view.drawing import rounded
from pdtools.report.view.figures import Figures
from pdtools.report.view.page import Page

_COLUMNS = ["series", "condition", "region", "mean", "low", "high", "n"]
_FEW = 4  # largest number of conditions whose pairs are all compared; else each is compared to the first
_ALL = "all"  # the condition of tables without one
# Columns of a row's place in its sentence, and of its text: the first existing one of these.
_PLACES = ("word_number", "region_number", "region", "region_name")
_TEXTS = ("word", "region_text", "text", "sentence")


def stimuli_page(paths: Sequence[str]) -> Page:
    """Read tables that ``pdtools surprisal`` wrote of stimuli into a page.

    Args:
        paths: tables of the same items.

    Raises:
        InputError: for a table without models and surprisals, with a surprisal that is no number, or without
            any.
    """
    values: dict[tuple[str, str, str], dict[str, list[float]]] = {}  # by item
    items: dict[str, dict[str, dict[str, list[list[Any]]]]] = {}
    texts: dict[str, dict[str, set[str]]] = {}  # by place and item
    without = 0
    for path in paths:
        sheet = read_sheet(path)
        for model, item, condition, place, text, bits in _rows(sheet):
            texts.setdefault(place, {}).setdefault(item, set()).add(text)
            own = items.setdefault(item, {}).setdefault(condition, {}).setdefault(model, [])
            own.append([text, None if math.isnan(bits) else rounded(bits, 2)])
            if math.isnan(bits):
                without += 1
            else:
                values.setdefault((model, condition, place), {}).setdefault(item, []).append(bits)
    if not values:
        raise InputError("no surprisal in it", file=paths[0])
    # Fillers that stand in the column of a condition are none of its sentences.
    numbered = {name for (_, name, _), own in values.items() if name != _ALL and own.keys() - {""}}
    for (_, condition, _), own_values in values.items():
        if condition in numbered:
            own_values.pop("", None)
    values = {key: by_item for key, by_item in values.items() if by_item}
    models = list(dict.fromkeys(model for model, _, _ in values))
    conditions = list(dict.fromkeys(condition for _, condition, _ in values))
    places = list(texts)
    if all(place.lstrip("-").isdecimal() for place in places):
        places.sort(key=int)
    order = {place: number for number, place in enumerate(places, 1)}
    rows: list[dict[str, Any]] = []
    for (model, condition, place), by_item in values.items():
        cells = [model, condition, order[place], *_mean([bits for own in by_item.values() for bits in own])]
        rows.append(dict(zip(_COLUMNS, cells, strict=True)))
    labels = {place: _label(place, texts[place]) for place in places}
    for row in rows:
        row["label"] = labels[places[row["region"] - 1]]
    paired: list[list[Any]] = []
    # All pairs of many conditions would be too many.
    pairs = (
        list(combinations(conditions, 2))
        if len(conditions) <= _FEW
        else [(conditions[0], other) for other in conditions[1:]]
    )
    for (a, b), model, place in product(pairs, models, places):
        first, second = (values.get((model, condition, place), {}) for condition in (a, b))
        differences = [fmean(second[item]) - fmean(first[item]) for item in first if item and item in second]
        if differences:
            paired.append([model, f"{b} − {a}", labels[place], *_mean(differences)])
    notes = [f"{without} rows without a surprisal are in no mean"] if without else []
    if conditions == [_ALL]:
        notes.append("no column is called condition: all sentences are one")
    elif unnumbered := sum(len(own) for found in items.get("", {}).values() for own in found.values()):
        if list(items) == [""]:
            notes.append("no row has an item, so there are no differences: surprisal --column item=NAME")
        else:
            why = "and in no mean of a condition that has items"
            notes.append(f"{unnumbered} rows without an item are in no difference, {why}")
    return Page(
        kind="stimuli",
        title=f"Surprisals of {', '.join(Path(path).name for path in paths)}",
        document={
            "models": models,
            "conditions": conditions,
            "rows": rows,
            "chart": region_curves(series=models, conditions=conditions),
            "items": len(items),
            "paired": paired,
        },
        packed={"items": [[item, found] for item, found in items.items()]},
        charts=True,
        notes=tuple(notes),
    )


def figures(page: Page) -> Figures:
    """The page's chart, and its means."""
    columns = ["model", "condition", "region", "mean (bits)", "from", "to", "n"]
    rows = page.document["rows"]
    cells = [[row["label" if name == "region" else name] for name in _COLUMNS] for row in rows]
    tables = {"regions": (columns, cells)}
    if paired := page.document["paired"]:
        tables["differences"] = (
            ["model", "difference", "region", "mean (bits)", "from", "to", "items"],
            paired,
        )
    return Figures(charts={"regions": with_rows(page.document["chart"], rows)}, tables=tables)


def _mean(bits: Sequence[float]) -> list[Any]:
    """The mean, the ends of its interval, if there are several values, and the number of values."""
    mean, spread = fmean(bits), deviation(bits)
    ends: list[float | None] = [None, None]
    if spread is not None:
        half = half_width(spread, len(bits))
        ends = [rounded(mean - half, 3), rounded(mean + half, 3)]
    return [rounded(mean, 3), *ends, len(bits)]


def _label(place: str, texts: Mapping[str, set[str]]) -> str:
    """A region's name: with its text in the first item, unless an item's texts differ between conditions."""
    of_items = [own for item, own in texts.items() if item] or list(texts.values())
    same = all(len(own) == 1 for own in of_items)
    return f"{place} {min(of_items[0])[:24]}".strip() if same else place


def _rows(sheet: Sheet) -> list[tuple[str, str, str, str, str, float]]:
    """Model, item, condition, place, text and surprisal of each row."""
    by_name = {name.casefold(): i for i, name in reversed(list(enumerate(sheet.columns)))}
    lacking = [name for name in ("model", "surprisal") if name not in by_name]
    if lacking:
        hint = "pdtools surprisal stimuli.csv -o TABLE makes such tables"
        raise InputError(f"no column {lacking[0]} in the header", file=sheet.name, hint=hint)

    def texts(*names: str, otherwise: str = "") -> list[str]:
        place = next((by_name[name] for name in names if name in by_name), None)
        if place is None:
            return [otherwise] * len(sheet.numbers)
        return [text.strip() for text in sheet.texts(place)]

    conditions = texts("condition", otherwise="" if "version" in by_name else _ALL)
    if "version" in by_name:
        pairs = zip(conditions, texts("version"), strict=True)
        conditions = [", ".join(filter(None, pair)) for pair in pairs]
    numbers = []
    for line, value in zip(sheet.numbers, sheet.cells[by_name["surprisal"]], strict=True):
        try:
            numbers.append(float(cell_text(value) or "nan"))
        except ValueError as error:
            reason = f"surprisal is {cell_text(value)!r}, not a number"
            raise InputError(reason, file=sheet.name, line=line) from error
    columns = (texts("model"), texts("item", "item_number"), conditions, texts(*_PLACES, otherwise="1"))
    return list(zip(*columns, texts(*_TEXTS), numbers, strict=True))
