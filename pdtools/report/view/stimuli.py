"""The page of a table of stimuli: mean surprisal by region and condition, and the items one by one."""

from __future__ import annotations

import math
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from pdtools.errors import InputError
from pdtools.evaluation.comparison.statistics import deviation
from pdtools.files.sheets import Sheet, cell_text, read_sheet
from pdtools.report.view.charts import region_curves, with_rows
from pdtools.report.view.drawing import rounded
from pdtools.report.view.figures import Figures
from pdtools.report.view.intervals import half_width
from pdtools.report.view.page import Page

_COLUMNS = ["series", "condition", "region", "mean", "low", "high", "n"]
_ALL = "all"  # the condition of tables without one
# Where rows are in their sentence, and what they have: the first of these that there is.
_PLACES = ("word_number", "region_number", "region", "region_name")
_TEXTS = ("word", "region_text", "text", "sentence")


def stimuli_page(paths: Sequence[str], *, title: str | None = None) -> Page:
    """Read tables that ``pdtools surprisal`` wrote of stimuli into a page.

    Args:
        paths: tables of the same items.
        title: of the page.

    Raises:
        InputError: for a table without models and surprisals, with one that is no number, or without any.
    """
    values: dict[tuple[str, str, str], list[float]] = {}
    items: dict[str, dict[str, dict[str, list[list[Any]]]]] = {}
    labels: dict[str, str] = {}
    without = 0
    for path in paths:
        sheet = read_sheet(path)
        for model, item, condition, place, text, bits in _rows(sheet):
            labels.setdefault(place, text)
            own = items.setdefault(item, {}).setdefault(condition, {}).setdefault(model, [])
            own.append([text, None if math.isnan(bits) else rounded(bits, 2)])
            if math.isnan(bits):
                without += 1
            else:
                values.setdefault((model, condition, place), []).append(bits)
    if not values:
        raise InputError("no surprisal in it", file=paths[0])
    models = list(dict.fromkeys(model for model, _, _ in values))
    conditions = list(dict.fromkeys(condition for _, condition, _ in values))
    places = list(labels)
    if all(place.lstrip("-").isdecimal() for place in places):
        places.sort(key=int)
    order = {place: number for number, place in enumerate(places, 1)}
    rows: list[dict[str, Any]] = []
    for (model, condition, place), bits_of in values.items():
        n = len(bits_of)
        mean = math.fsum(bits_of) / n
        ends: list[float | None] = [None, None]  # of one sentence there is no interval
        if (spread := deviation(bits_of)) is not None:
            half = half_width(spread, n)
            ends = [rounded(mean - half, 3), rounded(mean + half, 3)]
        cells = [model, condition, order[place], rounded(mean, 3), *ends, n]
        rows.append(dict(zip(_COLUMNS, cells, strict=True)))
    for row in rows:
        place = places[row["region"] - 1]
        row["label"] = f"{place} {labels[place][:24]}".strip()
    notes = [f"{without} rows without a surprisal are in no mean"] if without else []
    if conditions == [_ALL]:
        notes.append("no column is called condition: all sentences are one")
    return Page(
        kind="stimuli",
        title=title or f"Surprisals of {', '.join(Path(path).name for path in paths)}",
        document={
            "models": models,
            "conditions": conditions,
            "rows": rows,
            "chart": region_curves(series=models, conditions=conditions),
            "items": len(items),
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
    return Figures(
        charts={"regions": with_rows(page.document["chart"], rows)}, tables={"regions": (columns, cells)}
    )


def _rows(sheet: Sheet) -> list[tuple[str, str, str, str, str, float]]:
    """Model, item, condition, place, text and surprisal of each row."""
    by_name = {name.casefold(): i for i, name in reversed(list(enumerate(sheet.columns)))}
    lacking = [name for name in ("model", "surprisal") if name not in by_name]
    if lacking:
        hint = "pdtools surprisal stimuli.csv -o TABLE makes such tables"
        raise InputError(f"no column {lacking[0]} in the header", file=sheet.name, hint=hint)

    def texts(*names: str, otherwise: str = "") -> list[str]:
        place = next((by_name[name] for name in names if name in by_name), None)
        return [otherwise] * len(sheet.numbers) if place is None else sheet.texts(place)

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
