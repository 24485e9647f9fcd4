"""Charts as Vega-Lite specifications: plain dictionaries, drawn by the pages and into files alike.

A page's chart is a template: the page gives it other rows (``data.values``), another order, the width of the
window.
"""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence
from typing import Any

from pdtools.errors import visible

Spec = dict[str, Any]

# Okabe and Ito's colours, without yellow, too light for lines on white; never without a shape or a dash.
COLOURS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#000000")
# Shapes and dashes are one fewer than colours: the eighth series differs from the first.
SHAPES = ("circle", "square", "triangle-up", "diamond", "cross", "triangle-down")
_STAR = "M0,-1L.23,-.32L.95,-.31L.36,.12L.59,.81L0,.38L-.59,.81L-.36,.12L-.95,-.31L-.23,-.32Z"
DASHES = ([1, 0], [6, 2], [2, 2], [8, 2, 2, 2], [4, 4], [1, 3])

_CONFIG = {
    "background": "white",
    "font": "system-ui, 'Segoe UI', Helvetica, Arial, sans-serif",
    "view": {"stroke": None},
    "axis": {"labelFontSize": 11, "titleFontSize": 11, "titleFontWeight": "normal", "gridColor": "#e6e6e6"},
    "legend": {"labelFontSize": 11, "titleFontSize": 11, "titleFontWeight": "normal", "symbolStrokeWidth": 2},
    "header": {"labelFontSize": 12, "labelFontWeight": "bold"},
}
_SCHEMA = "https://vega.github.io/schema/vega-lite/v6.json"
WIDTH = 480
FRAME = {"stroke": "#bbbbbb", "strokeWidth": 2}  # half of it is outside of the marks
_LEAST_SHARE = 0.002  # less is white
_ROOM = 14  # pixels of a name on an axis


def with_rows(spec: Spec, rows: Sequence[Mapping[str, Any]]) -> Spec:
    """The chart with these rows."""
    return {**spec, "data": {"values": list(rows)}}


def dots(
    *,
    series: Sequence[str],
    title: str,
    chance: float | None = None,
    shares: bool = True,
    observed: Sequence[str] = (),
    panels: Sequence[str] = (),
) -> Spec:
    """A dot with its interval for each name and model, a line for each name.

    Rows have ``name``, ``series``, ``score``, ``low``, ``high`` and ``n``; with panels also ``panel``.

    Args:
        series: names of the models, in order.
        title: the axis title.
        chance: the score of guessing.
        shares: whether scores are fractions of 1, shown as percentages.
        observed: names of measured values, shown before the models, in black.
        panels: names of panels, one below the other; empty: there is one without a name.
    """
    digits = ".1%" if shares else ".4~r"
    names = [*observed, *series]
    y = {
        "y": {"field": "name", "type": "nominal", "sort": None, "title": None, "axis": {"labelLimit": 340}},
        "yOffset": {"field": "series", "sort": names},
        "color": _scale(series, COLOURS, before=dict.fromkeys(observed, "#000000")),
    }
    scale = {"domain": [0, 1], "nice": False} if shares else {"nice": True}
    axis = {"format": ".0%"} if shares else {"format": "~f", "tickCount": 8, "labelOverlap": True}
    x = {"field": "score", "type": "quantitative", "title": title, "scale": scale, "axis": axis}
    layers: list[Spec] = [
        {
            "mark": {"type": "rule", "strokeWidth": 1.5, "clip": True},
            "encoding": {**y, "x": {**x, "field": "low"}, "x2": {"field": "high"}},
        },
        {
            "mark": {"type": "point", "filled": True, "size": 55, "opacity": 1},
            "encoding": {
                **y,
                "x": x,
                "shape": _scale(series, SHAPES, before=dict.fromkeys(observed, _STAR)),
                "tooltip": [
                    *([{"field": "panel", "title": "effect"}] if panels else []),
                    {"field": "name", "title": "of"},
                    {"field": "series", "title": "model"},
                    {"field": "score", "title": "score", "format": digits},
                    {"field": "low", "title": "from", "format": digits},
                    {"field": "high", "title": "to", "format": digits},
                    {"field": "n", "title": "items"},
                ],
            },
        },
    ]
    if chance is not None:
        rule = {"type": "rule", "strokeDash": [2, 3], "color": "#767676"}
        layers.insert(0, {"mark": rule, "encoding": {"x": {"datum": chance, "type": "quantitative"}}})
    if panels:
        step = {"step": 8 * len(names) + 12, "for": "position"}
        return _panels({"width": WIDTH, "height": step, "layer": layers}, "panel", panels)
    step = {"step": max(16, 6 * len(names) + 6), "for": "position"}
    return {**_chart(), "height": step, "layer": layers}


def region_curves(
    *,
    series: Sequence[str],
    conditions: Sequence[str],
    x: str = "region",
    called: str = "condition",
    of: str = "sentences",
    differences: bool = False,
    zero: bool = True,
) -> Spec:
    """Mean surprisal of each region, a line for each condition with intervals, a panel for each model.

    Rows have ``series`` (the model), ``condition``, ``region`` (a number), ``label``, ``mean``, ``low``,
    ``high`` (bits) and ``n``.

    Args:
        series: the models.
        conditions: the conditions.
        x: the title of the axis of regions, or of what stands in their place.
        called: the title of the conditions.
        of: the name of what ``n`` counts.
        differences: whether the means are differences of conditions, drawn beside each other at a line at 0.
        zero: whether the axis of bits begins at 0.
    """
    across = {
        "field": "label",
        "type": "ordinal",
        "sort": {"field": "region"},
        "title": x,
        "axis": {"labelAngle": -30, "labelLimit": 110},
    }
    title = "difference (bits)" if differences else "surprisal (bits)"
    y = {
        "field": "mean",
        "type": "quantitative",
        "title": title,
        "scale": {"zero": zero, "padding": 0 if zero else 6},
    }
    shared = {"x": across, "color": _scale(conditions, COLOURS, field="condition", title=called)}
    if differences:
        if shared["color"]["legend"]:
            shared["color"]["legend"] |= {"columns": 2, "labelLimit": 360}
        shared["xOffset"] = {"field": "condition", "type": "nominal", "sort": list(conditions)}
    layers: list[Spec] = [
        {
            "mark": {"type": "rule", "strokeWidth": 1.5},
            "encoding": {**shared, "y": {**y, "field": "low"}, "y2": {"field": "high"}},
        },
        {
            "mark": {"type": "line", "strokeWidth": 2},
            "encoding": {
                **shared,
                "y": y,
                # Symbols of a legend would be dashed too.
                "strokeDash": _scale(conditions, DASHES, field="condition") | {"legend": None},
            },
        },
        {
            "mark": {"type": "point", "filled": True, "size": 50, "opacity": 1},
            "encoding": {
                **shared,
                "y": y,
                "shape": _scale(conditions, SHAPES, field="condition", title=called)
                | {"legend": shared["color"]["legend"]},
                "tooltip": [
                    {"field": "condition", "title": called},
                    {"field": "label", "title": x},
                    {"field": "mean", "title": "mean (bits)", "format": ".2f"},
                    {"field": "low", "title": "from", "format": ".2f"},
                    {"field": "high", "title": "to", "format": ".2f"},
                    {"field": "n", "title": of},
                ],
            },
        },
    ]
    if differences:
        rule = {"type": "rule", "strokeDash": [2, 3], "color": "#767676"}
        del layers[1]
        layers.insert(0, {"mark": rule, "encoding": {"y": {"datum": 0, "type": "quantitative"}}})
    return _panels({"width": WIDTH, "height": 190, "layer": layers}, "series", series)


def lines(*, series: Sequence[str], x: str, y: str, log: bool = False) -> Spec:
    """A line for each run: rows have ``series``, ``x`` and ``y``."""
    y_axis = {
        "field": "y",
        "type": "quantitative",
        "title": y,
        "scale": {"type": "log", "nice": False} if log else {"zero": False},
    }
    return {
        **_chart(),
        "height": 200,
        "mark": {"type": "line", "strokeWidth": 1.8, "point": {"size": 18, "filled": True}},
        "encoding": {
            "x": {
                "field": "x",
                "type": "quantitative",
                "title": x,
                "axis": {"labelOverlap": True, "tickCount": 6},
                "scale": {"nice": False},
            },
            "y": y_axis,
            "color": _colour(series),
            "strokeDash": _scale(series, DASHES),
            "tooltip": [
                {"field": "series", "title": "run"},
                {"field": "x", "title": x},
                {"field": "y", "title": y, "format": ".4~g"},
            ],
        },
    }


def curves(
    rows: Sequence[Mapping[str, Any]],
    *,
    x: str,
    y: str,
    percent: bool = False,
    log_x: bool = False,
    log_y: bool = False,
    joined: bool = True,
) -> Spec:
    """A figure of a line for each series, with a band between the ends of intervals.

    Args:
        rows: ``series``, ``x`` and ``y``, and ``low`` and ``high`` if the point has an interval.
        x, y: the axes' titles, with their units.
        percent: whether the y axis goes from 0 to 100.
        log_x, log_y: whether an axis is logarithmic.
        joined: whether points are joined; if not, they have shapes.
    """
    series = list(dict.fromkeys(row["series"] for row in rows))
    line = lines(series=series, x=x, y=y, log=log_y)
    encoding = line.pop("encoding")
    if percent:
        encoding["y"]["scale"] = {"domain": [0, 100]}
    if log_x:
        encoding["x"]["scale"] = {"type": "log", "nice": False}
    mark = line.pop("mark")
    legend = {"orient": "top", "columns": 3, "labelLimit": 300, "symbolOpacity": 1}
    if joined:
        legend |= {"symbolType": "stroke", "symbolSize": 400}
        encoding["strokeDash"]["legend"] = legend
    else:
        mark = {"type": "point", "filled": True, "size": 55, "opacity": 1}
        del encoding["strokeDash"]
        encoding["shape"] = {**_scale(series, SHAPES), "legend": legend}
    encoding["color"]["legend"] = legend
    layers: list[Spec] = [{"mark": mark, "encoding": encoding}]
    if any("low" in row for row in rows):
        ends = {"y": {**encoding["y"], "field": "low"}, "y2": {"field": "high"}}
        area = {"x": encoding["x"], **ends, "color": encoding["color"]}
        mark = {"type": "area", "opacity": 0.2}
        layers.insert(0, {"transform": [{"filter": "isValid(datum.low)"}], "mark": mark, "encoding": area})
    return with_rows({**line, "height": 260, "layer": layers}, rows)


def bars(rows: Sequence[Mapping[str, Any]], *, series: Sequence[str]) -> Spec:
    """Surprisals: a bar for each token and model; rows have ``series``, ``position``, ``token`` and ``bits``.

    Tokens of the first model name the positions; other models' tokens share only their numbers.
    """
    names = {row["position"]: row["token"] for row in reversed(rows)}
    labelled = [{**row, "label": f"{row['position']} {names[row['position']]}"} for row in rows]
    order = [f"{position} {names[position]}" for position in sorted(names)]
    return {
        **_chart(),
        "width": {"step": max(18, 12 * len(series))},
        "height": 180,
        "data": {"values": labelled},
        "mark": {"type": "bar"},
        "encoding": {
            "x": {
                "field": "label",
                "type": "nominal",
                "sort": order,
                "title": None,
                "axis": {"labelAngle": -40},
            },
            "xOffset": {"field": "series", "sort": list(series)},
            "y": {"field": "bits", "type": "quantitative", "title": "surprisal (bits)"},
            "color": _colour(series),
        },
    }


def heat_map(rows: Sequence[Sequence[int]], tokens: Sequence[str]) -> Spec:
    """A tape: the depth of position j (column) after token k (row), as shade and number."""
    cells = [
        {"k": k, "j": j, "depth": int(depth)}
        for k, row in enumerate(rows)
        for j, depth in enumerate(row[: k + 1])
    ]
    expression = f"{json.dumps([visible(token) for token in tokens])}[datum.value]"
    axis = {"labelExpr": expression, "labelAngle": 0}
    x = {"field": "j", "type": "ordinal", "title": None, "axis": {**axis, "labelAngle": -50, "orient": "top"}}
    y = {"field": "k", "type": "ordinal", "title": None, "axis": axis}
    light = {"condition": {"test": "datum.depth > 3", "value": "white"}, "value": "black"}
    return {
        **_chart(),
        "width": {"step": 18},
        "height": {"step": 18},
        "data": {"values": cells},
        "encoding": {"x": x, "y": y},
        "layer": [
            {
                "mark": "rect",
                "encoding": {
                    "color": {
                        "field": "depth",
                        "type": "quantitative",
                        "scale": {"scheme": "blues"},
                        "legend": None,
                    }
                },
            },
            {
                "transform": [{"filter": "datum.depth > 0"}],
                "mark": {"type": "text", "fontSize": 9},
                "encoding": {"text": {"field": "depth"}, "color": light},
            },
        ],
    }


def map_of_shares(
    rows: Sequence[Sequence[float]],
    *,
    across: Sequence[str],
    down: Sequence[str],
    width: float,
    height: float,
    titles: tuple[str | None, str | None] = (None, None),
    title: str | None = None,
) -> Spec:
    """A part of a figure: shares of 1 as shades of grey, rows from top to bottom.

    Args:
        rows: the shares.
        across, down: names of columns and rows, as many of which are written as there is room for.
        width, height: pixels.
        titles: titles of the axes across and down.
        title: above it.
    """
    cells = [
        {"x": i, "y": k, "share": round(share, 3)}
        for k, row in enumerate(rows)
        for i, share in enumerate(row)
        if share >= _LEAST_SHARE
    ]
    encoding = {
        "x": axis_of_names("x", len(rows[0]), width, across, titles[0]),
        "y": axis_of_names("y", len(rows), height, down, titles[1]),
        "color": {
            "field": "share",
            "type": "quantitative",
            "scale": {"domain": [0, 1], "range": ["white", "black"], "interpolate": "rgb"},
            "legend": None,
        },
    }
    size = {"width": width, "height": height, "view": FRAME, "data": {"values": cells}}
    named = {} if title is None else {"title": {"text": title, "fontSize": 12}}
    return {**named, **size, "mark": {"type": "rect", "aria": False}, "encoding": encoding}


def axis_of_names(
    field: str, length: int, size: float, names: Sequence[str] = (), title: str | None = None
) -> Spec:
    """An axis of places, 0 to length − 1, of a size in pixels; names are written as far as there is room."""
    shown = list(range(0, length, math.ceil(_ROOM * length / size))) if names else []
    expression = f"{json.dumps([visible(name) for name in names])}[datum.value]"
    axis = {"values": shown, "labelExpr": expression, "labelOverlap": False, "ticks": False, "domain": False}
    if field == "x":
        axis |= {"labelAngle": -90, "labelBaseline": "middle"}
    return {
        "field": field,
        "type": "ordinal",
        "scale": {"domain": list(range(length))},
        "title": title,
        "axis": axis,
    }


def in_columns(parts: Sequence[Spec], columns: int = 1) -> Spec:
    """Charts as one figure, in rows of so many."""
    return {"$schema": _SCHEMA, "config": _CONFIG, "columns": columns, "concat": list(parts)}


def _panels(panel: Spec, field: str, names: Sequence[str]) -> Spec:
    """A panel for each of these values of a field, one below the other."""
    header = {"title": None, "labelOrient": "top", "labelAnchor": "start", "labelLimit": 340}
    row = {"field": field, "type": "nominal", "sort": list(names), "header": header}
    return {"$schema": _SCHEMA, "config": _CONFIG, "facet": {"row": row}, "spec": panel}


def _chart() -> Spec:
    return {"$schema": _SCHEMA, "config": _CONFIG, "width": WIDTH}


def _colour(series: Sequence[str]) -> Spec:
    return _scale(series, COLOURS)


def _scale(
    names: Sequence[str],
    values: Sequence[Any],
    *,
    field: str = "series",
    title: str | None = None,
    before: Mapping[str, Any] | None = None,
) -> Spec:
    """A scale from names to values, repeated from the first if they run out.

    The names in ``before`` have values of their own.
    """
    before = before or {}
    chosen = [*before.values(), *(values[i % len(values)] for i in range(len(names)))]
    names = [*before, *names]
    legend = {"orient": "top", "columns": 3, "labelLimit": 200} if len(names) > 1 else None
    return {
        "field": field,
        "type": "nominal",
        "title": title,
        "scale": {"domain": names, "range": chosen},
        "legend": legend,
    }
