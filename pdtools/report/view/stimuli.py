"""The page of a table of stimuli: effects of the conditions, by region too, and the items one by one."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from pathlib import Path
from statistics import fmean
from typing import Any

from pdtools.evaluation.comparison.designs import (
    ALL,
    DesignEffects,
    Measured,
    StimulusRow,
    counted,
    design_effects,
    measured,
)
from pdtools.evaluation.comparison.effects import cells
from pdtools.evaluation.comparison.statistics import deviation
from pdtools.evaluation.intervals import half_width
from pdtools.files.tables import read_sheet
from pdtools.report.effects import cell_means, cell_rows, complete_cells, methods_sentence, results_sentence
from pdtools.report.tables import latex_text
from pdtools.report.view.charts import region_curves, with_rows
from pdtools.report.view.drawing import rounded
from pdtools.report.view.figures import Figures
from pdtools.report.view.methods import versions
from pdtools.report.view.page import Page

_COLUMNS = ["series", "condition", "region", "mean", "low", "high", "n"]


def stimuli_page(
    paths: Sequence[str],
    *,
    factors: str | None = None,
    region: str | None = None,
    groups: Mapping[str, Sequence[str]] | None = None,
    seed: int = 0,
    made: Mapping[str, Any] | None = None,
) -> Page:
    """Read tables that ``pdtools surprisal`` wrote of stimuli into a page.

    Args:
        paths: tables of the same items.
        factors: see :func:`~pdtools.evaluation.comparison.designs.measured`.
        region, groups: see :func:`~pdtools.evaluation.comparison.designs.design_effects`.
        seed: for the bootstrap.
        made: provenance, with the tables as its inputs.

    Raises:
        InputError, PdtoolsError: see these two.
    """
    table = measured([read_sheet(path) for path in paths], factors)
    found = design_effects(table, region=region, groups=groups, seed=seed, everywhere=False)
    conditions = [", ".join(cell) for cell in dict.fromkeys(row.condition for row in table.rows) if cell]
    rows = _region_rows(table)
    own = [effect for place in table.places for effect in found.by_place[place] if effect.less is None]
    names = list(dict.fromkeys(effect.contrast.name for effect in own))
    if not table.is_named:  # the others are differences of these
        names = names[: len(table.factors[0].levels) - 1]
    differences = [
        {
            "series": effect.model,
            "condition": effect.contrast.name,
            "region": number,
            "label": table.labels[place],
            "mean": rounded(effect.estimate.value, 3),
            "low": _rounded(effect.estimate.low),
            "high": _rounded(effect.estimate.high),
            "n": effect.estimate.items,
        }
        for number, place in enumerate(table.places, 1)
        for effect in found.by_place[place]
        if effect.less is None and effect.contrast.name in names
    ]
    *rest, last = table.factors
    lines = [", ".join(cell) for cell in cells(rest)] if rest else [ALL]
    others = ", ".join(factor.name for factor in rest)
    at_region = _at_region(found)
    inputs = (made or {}).get("inputs", {}).values()
    hashes = {Path(each["path"]).name: str(each["sha256"]) for each in inputs if each.get("sha256")}
    return Page(
        kind="stimuli",
        title=f"Surprisals of {', '.join(Path(path).name for path in paths)}",
        document={
            "models": table.models,
            "conditions": conditions,
            "rows": rows,
            "chart": region_curves(series=table.models, conditions=conditions),
            "items": len({row.item for row in table.rows}),
            "region": found.label if len(table.places) > 1 else "",
            "effects": found.rows(),
            "critical": found.critical,
            "places": table.labels,
            "differences": differences,
            "over": "items and seeds" if found.over_seeds else "items",
            "differences_chart": region_curves(
                series=list(found.groups), conditions=names, called="effect", of="items", differences=True
            ),
            "at_region": at_region,
            "at_region_chart": region_curves(
                series=list(found.groups),
                conditions=lines,
                x=last.name,
                called=others,
                of="items",
                zero=False,
            ),
            "design": cell_rows(found) if at_region else [[], []],
            "methods": methods_sentence(found, versions([made or {}]), hashes),
            "results": results_sentence(found),
        },
        packed={"items": _items(table.rows)},
        charts=True,
        notes=(*table.notes, *_notes(table), *found.notes),
    )


def _region_rows(table: Measured) -> list[dict[str, Any]]:
    """Mean surprisal by model, condition and region, of all rows; of fillers in conditions of their own."""
    order = {place: number for number, place in enumerate(table.places, 1)}
    values: dict[tuple[str, str, str], list[tuple[str, float]]] = {}
    for row in table.rows:
        if row.condition and not math.isnan(row.bits):
            key = row.model, ", ".join(row.condition), row.place
            values.setdefault(key, []).append((row.item, row.bits))
    # Fillers that stand in the column of a condition are none of its sentences.
    numbered = {key[1] for key, own in values.items() if key[1] != ALL and any(item for item, _ in own)}
    rows = []
    for (model, condition, place), own in values.items():
        if bits := [each for item, each in own if item or condition not in numbered]:
            cells_of = [model, condition, order[place], *_mean(bits)]
            rows.append(dict(zip(_COLUMNS, cells_of, strict=True)) | {"label": table.labels[place]})
    return rows


def _mean(bits: Sequence[float]) -> list[Any]:
    """The mean, the ends of its interval, if there are several values, and the number of values."""
    mean, spread = fmean(bits), deviation(bits)
    half = None if spread is None else half_width(spread, len(bits))
    ends = [None, None] if half is None else [mean - half, mean + half]
    return [rounded(mean, 3), *map(_rounded, ends), len(bits)]


def _rounded(value: float | None) -> float | None:
    return None if value is None else rounded(value, 3)


def _at_region(found: DesignEffects) -> list[dict[str, Any]]:
    """The means of conditions at the critical region, over the items that have all of them."""
    rows = []
    last = found.table.factors[-1]
    names = cells(found.table.factors)
    for model, members in found.groups.items():
        kept, values = complete_cells(found, members)
        if not len(values) or len(kept) < 2:
            continue
        for cell, (mean, low, high) in zip(kept, cell_means(values), strict=True):
            *rest, level = names[cell]
            line = ", ".join(rest) or ALL
            numbers = [rounded(mean, 3), _rounded(low), _rounded(high), len(values)]
            place = last.levels.index(level) + 1
            rows.append(dict(zip(_COLUMNS, [model, line, place, *numbers], strict=True)) | {"label": level})
    return rows


def _items(rows: Sequence[StimulusRow]) -> list[Any]:
    """For each item, condition and model, texts and bits."""
    items: dict[str, dict[str, dict[str, list[list[Any]]]]] = {}
    for row in rows:
        of_models = items.setdefault(row.item, {}).setdefault(", ".join(row.condition), {})
        bits = None if math.isnan(row.bits) else rounded(row.bits, 2)
        of_models.setdefault(row.model, []).append([row.text, bits])
    return [[item, found] for item, found in items.items()]


def _notes(table: Measured) -> list[str]:
    """Notes on tables without conditions, and on rows without an item."""
    if not table.is_named and {row.condition for row in table.rows} == {(ALL,)}:
        hint = "--factors NAME,NAME says which columns tell them apart"
        return [f"no column is called condition: all sentences are one ({hint})"]
    unnumbered = [row for row in table.rows if not row.item]
    if len(unnumbered) == len(table.rows):
        return ["no row has an item, so there are no differences: surprisal --column item=NAME"]
    sources = [row.source for row in unnumbered if row.condition]  # the others are in table.notes
    left_out = "in no difference, and in no mean of a condition that has items"
    return [f"{left_out}: {counted(sources, 'without an item')}"] if sources else []


def figures(page: Page) -> Figures:
    """The page's charts and tables, and the paragraph."""
    document = page.document
    columns = ["model", "condition", "region", "mean (bits)", "from", "to", "n"]
    rows = document["rows"]
    cells_of = [[row["label" if name == "region" else name] for name in _COLUMNS] for row in rows]
    tables: dict[str, Any] = {"regions": (columns, cells_of)}
    charts = {"regions": with_rows(document["chart"], rows)}
    sources = {}
    if effects := document["effects"]:
        names = list(effects[0])[1:]
        own = [[row[name] for name in names] for row in effects if row["region"] == document["critical"]]
        tables["effects"] = (
            ["region", *names],
            [[document["places"][row["region"]], *(row[name] for name in names)] for row in effects],
        )
        tables["effects-at-region"] = (names, own)
        sources["paragraph"] = latex_text(f"{document['methods']}\n\n{document['results']}\n")
    if document["region"] and effects:
        charts["differences"] = with_rows(document["differences_chart"], document["differences"])
    if at_region := document["at_region"]:
        charts["region"] = with_rows(document["at_region_chart"], at_region)
        tables["design"] = document["design"]
    return Figures(charts=charts, tables=tables, sources=sources)
