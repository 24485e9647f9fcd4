"""Charts of Vega-Lite as they are drawn: where marks are, what axes say, what is said of a mark."""

from __future__ import annotations

import math
import re
from itertools import product
from typing import Any
from xml.etree import ElementTree

import pytest

from pdtools.report.view import charts
from pdtools.report.view.vega import draw

pytest.importorskip("vl_convert", reason="vl-convert-python is not installed")

SVG = "{http://www.w3.org/2000/svg}"
MODELS = ("small", "large")
# Of two models under three names, which are in no order; "low" and "high" are not as far from "score".
SCORES = [
    {"name": name, "series": model, "score": score, "low": score - 0.05, "high": score + 0.125, "n": n}
    for name, model, score, n in (
        ("wh", "small", 0.25, 17),
        ("agr", "large", 0.8, 5),
        ("wh", "large", 0.65, 18),
        ("npi", "small", 0.4, 9),
        ("agr", "small", 0.375, 6),
    )
]
GAINS = [
    {"name": "over length", "series": model, "score": gain, "low": gain / 2, "high": 3 * gain, "n": 321}
    for model, gain in (("small", 0.0125), ("large", 0.03))
]
REGIONS = [
    {"series": model, "condition": condition, "region": region, "label": f"{region} r{region}"}
    | {"mean": mean, "low": mean - 0.5, "high": mean + 1.25, "n": 30 + region}
    for (model, condition, region), mean in zip(
        product(MODELS, ("match", "mismatch"), (2, 10)),
        (3.0, 7.5, 4.0, 9.0, 2.0, 11.5, 5.5, 1.0),
        strict=True,
    )
]
LOSSES = [
    {"series": run, "x": x, "y": y}
    for run, x, y in (("r1", 10, 8.5), ("r1", 25, 4.0), ("r1", 40, 5.0), ("r2", 10, 2.0), ("r2", 30, 7.0))
]
BITS = [
    {"series": model, "position": position, "token": token, "bits": bits}
    for model, position, token, bits in (
        ("small", 1, "un", 4.5),
        ("small", 2, "happy", 9.0),
        ("small", 10, "dogs", 1.5),
        ("large", 1, "unhappy", 6.0),
        ("large", 2, "dogs", 3.0),
    )
]
TAPE = [[0, 9, 9], [0, 0, 9], [2, 5, 0]]
SQUARE = '<svg xmlns="http://www.w3.org/2000/svg" width="9" height="9"><rect width="7" height="3"/></svg>'


@pytest.fixture(scope="module")
def drawn() -> dict[str, ElementTree.Element]:
    """One of each kind."""
    specs = {
        "dots": charts.with_rows(charts.dots(series=MODELS, title="accuracy", chance=0.5), SCORES),
        "gains": charts.with_rows(
            charts.dots(series=MODELS, title="ΔLL (nats)", chance=0.0, shares=False), GAINS
        ),
        "regions": charts.with_rows(
            charts.region_curves(series=MODELS, conditions=("match", "mismatch")), REGIONS
        ),
        "lines": charts.with_rows(charts.lines(series=("r1", "r2"), x="step", y="loss"), LOSSES),
        "log": charts.with_rows(charts.lines(series=("r1", "r2"), x="step", y="loss", log=True), LOSSES),
        "curves": charts.curves(
            [
                row | ({"low": row["y"] - 2, "high": row["y"] + 3} if row["series"] == "r2" else {})
                for row in LOSSES
            ],
            x="step",
            y="right",
            percent=True,
            log_x=True,
        ),
        "points": charts.curves(LOSSES[:3], x="step", y="right", joined=False),
        "shares": charts.in_columns(
            [
                charts.map_of_shares(
                    [[1, 0.5], [0.001, 0.25]], across=["$x_$", "\x1b"], down=["a", "b"], width=40, height=40
                )
            ]
        ),
        "bars": charts.bars(BITS, series=MODELS),
        "tape": charts.heat_map(TAPE, ["<root>", "a", "dog"]),
    }
    pictures = draw(specs, {"drawing": SQUARE}, kinds=["svg", "pdf", "png"])
    assert list(pictures) == [*specs, "drawing"]
    assert pictures["drawing"]["svg"] == SQUARE.encode()
    assert all(each["pdf"].startswith(b"%PDF") for each in pictures.values())
    assert all(each["png"].startswith(b"\x89PNG") for each in pictures.values())
    return {name: ElementTree.fromstring(each["svg"]) for name, each in pictures.items()}


def marks(root: ElementTree.Element, kind: str) -> list[tuple[dict[str, str], ElementTree.Element]]:
    """Marks of a kind in their order: what is said of each, and the element."""
    return [
        (dict(part.split(": ", 1) for part in each.attrib["aria-label"].split("; ")), each)
        for each in root.iter()
        if each.get("aria-roledescription") == kind
    ]


def place(mark: ElementTree.Element) -> tuple[float, float]:
    """Its x and y."""
    found = re.match(r"translate\((\S+),(\S+)\)", mark.attrib["transform"])
    assert found is not None
    return float(found[1]), float(found[2])


def ends(mark: ElementTree.Element) -> tuple[tuple[float, float], tuple[float, float]]:
    """Of a rule: x and y of both ends."""
    x, y = place(mark)
    return (x, y), (x + float(mark.attrib["x2"]), y + float(mark.attrib["y2"]))


def axes(root: ElementTree.Element) -> list[str]:
    return [each.attrib["aria-label"] for each in root.iter() if each.get("aria-roledescription") == "axis"]


def texts(root: ElementTree.Element, role: str) -> list[str]:
    """Labels of a role, in their order."""
    return [
        text.text or ""
        for each in root.iter()
        if role in each.get("class", "")
        for text in each.iter(f"{SVG}text")
    ]


@pytest.mark.parametrize(("name", "rows"), [("dots", SCORES), ("gains", GAINS)])
def test_scores(name: str, rows: list[dict[str, Any]], drawn: dict[str, ElementTree.Element]) -> None:
    root = drawn[name]
    shares = name == "dots"
    points, rules = marks(root, "point"), marks(root, "rule mark")
    title = "accuracy" if shares else "ΔLL (nats)"
    order = list(dict.fromkeys(row["name"] for row in rows))
    assert any(f"X-axis titled '{title}' for a linear scale" in axis for axis in axes(root))
    assert any(axis.endswith(f": {', '.join(order)}") for axis in axes(root) if axis.startswith("Y-axis"))
    assert len(points) == len(rules) == len(rows)
    xs = [place(mark)[0] for _, mark in points]
    slope = (xs[1] - xs[0]) / (rows[1]["score"] - rows[0]["score"])
    origin = xs[0] - slope * rows[0]["score"]
    assert not shares or (slope, origin) == pytest.approx((charts.WIDTH, 0))
    heights = {}
    for row, (said, point), (_, rule) in zip(rows, points, rules, strict=True):
        x, y = place(point)
        left, right = ends(rule)
        at = [origin + slope * row[each] for each in ("low", "score", "high")]
        assert [left[0], x, right[0]] == pytest.approx(at, abs=0.01)
        assert left[1] == right[1] == pytest.approx(y)
        heights[row["name"], row["series"]] = y
        colour = charts.COLOURS[MODELS.index(row["series"])]
        assert point.attrib["fill"] == rule.attrib["stroke"] == colour
        for key, field in (("score", "score"), ("from", "low"), ("to", "high")):
            text = said[key]
            value = float(text.removesuffix("%")) / 100 if shares else float(text)
            assert value == pytest.approx(row[field], rel=2e-6, abs=1e-6)
        assert (said["of"], said["model"], said["items"]) == (row["name"], row["series"], str(row["n"]))
    # Names from above in the order of rows, the models of each in theirs.
    expected = sorted(heights, key=lambda key: (order.index(key[0]), MODELS.index(key[1])))
    assert sorted(heights, key=heights.__getitem__) == expected
    dashed = [each for each in root.iter(f"{SVG}line") if each.get("stroke-dasharray")]
    chance = 0.5 if shares else 0.0
    assert dashed
    for each in dashed:
        (top, _), (bottom, _) = ends(each)
        assert top == bottom == pytest.approx(origin + slope * chance)


def test_regions(drawn: dict[str, ElementTree.Element]) -> None:
    root = drawn["regions"]
    assert texts(root, "role-title-text") == list(MODELS)
    assert "X-axis titled 'region' for a discrete scale with 2 values: 2 r2, 10 r10" in axes(root)
    assert any("Y-axis titled 'surprisal (bits)'" in axis for axis in axes(root))
    points, rules = marks(root, "point"), marks(root, "rule mark")
    assert len(points) == len(rules) == len(REGIONS)
    ys = [place(mark)[1] for _, mark in points]
    slope = (ys[1] - ys[0]) / (REGIONS[1]["mean"] - REGIONS[0]["mean"])
    origin = ys[0] - slope * REGIONS[0]["mean"]
    assert slope < 0
    for row, (said, point), (_, rule) in zip(REGIONS, points, rules, strict=True):
        (x, y), (from_, to) = place(point), ends(rule)
        assert x == from_[0] == to[0] == pytest.approx(charts.WIDTH * (0.25 if row["region"] == 2 else 0.75))
        at = [origin + slope * row[each] for each in ("low", "mean", "high")]
        assert [from_[1], y, to[1]] == pytest.approx(at, abs=0.01)
        numbers = [float(said[each]) for each in ("mean (bits)", "from", "to", "sentences")]
        assert numbers == [row[each] for each in ("mean", "low", "high", "n")]
        assert (said["condition"], said["region"]) == (row["condition"], row["label"])
        colour = charts.COLOURS[["match", "mismatch"].index(row["condition"])]
        assert point.attrib["fill"] == rule.attrib["stroke"] == colour
    joined = [(said["condition"], mark.attrib["d"].count("L")) for said, mark in marks(root, "line mark")]
    assert joined == [("match", 1), ("mismatch", 1)] * 2


@pytest.mark.parametrize("name", ["lines", "log"])
def test_lines(name: str, drawn: dict[str, ElementTree.Element]) -> None:
    root = drawn[name]
    kind = "log" if name == "log" else "linear"
    assert "X-axis titled 'step' for a linear scale with values from 10 to 40" in axes(root)
    (y_axis,) = (axis for axis in axes(root) if axis.startswith("Y-axis"))
    assert y_axis.startswith(f"Y-axis titled 'loss' for a {kind} scale")
    points = marks(root, "point")
    value = math.log if name == "log" else float
    ys = [place(mark)[1] for _, mark in points]
    slope = (ys[1] - ys[0]) / (value(LOSSES[1]["y"]) - value(LOSSES[0]["y"]))
    assert slope < 0
    for row, (said, point) in zip(LOSSES, points, strict=True):
        x, y = place(point)
        assert x == pytest.approx(charts.WIDTH * (row["x"] - 10) / 30)
        assert y == pytest.approx(ys[0] + slope * (value(row["y"]) - value(LOSSES[0]["y"])), abs=0.01)
        assert (said["run"], said["step"]) == (row["series"], str(row["x"]))
        assert point.attrib["fill"] == charts.COLOURS[row["series"] == "r2"]


def test_curves_with_bands(drawn: dict[str, ElementTree.Element]) -> None:
    root = drawn["curves"]
    assert texts(root, "role-legend-label") == ["r1", "r2"]
    assert any("for a log scale with values from 10 to 40" in axis for axis in axes(root))
    assert any("for a linear scale with values from 0 to 100" in axis for axis in axes(root))
    for row, (_, point) in zip(LOSSES, marks(root, "point"), strict=True):
        x = charts.WIDTH * math.log(row["x"] / 10) / math.log(4)
        assert place(point) == pytest.approx((x, 260 - 2.6 * row["y"]), abs=0.01)
    ((_, band),) = marks(root, "area mark")
    of_band = [row["y"] for row in LOSSES if row["series"] == "r2"]
    found = [(260 - float(y)) / 2.6 for y in re.findall(r",([\d.]+)", band.attrib["d"])]
    assert sorted(found) == pytest.approx(sorted(y + more for y in of_band for more in (-2, 3)))


def test_points_are_not_joined_where_they_have_no_order(drawn: dict[str, ElementTree.Element]) -> None:
    assert [len(marks(drawn[name], "line mark")) for name in ("curves", "points")] == [2, 0]
    assert texts(drawn["points"], "role-legend-label") == ["r1"]  # a figure's only series is named too


def test_shares_as_shades(drawn: dict[str, ElementTree.Element]) -> None:
    root = drawn["shares"]
    cells = [each for each in root.iter(f"{SVG}path") if "h20v20" in each.get("d", "")]
    assert [each.attrib["fill"] for each in cells] == [f"rgb({n}, {n}, {n})" for n in (0, 128, 191)]
    assert texts(root, "role-axis-label") == ["$x_$", "\\x1b", "a", "b"]


def box(mark: ElementTree.Element) -> tuple[float, float, float, float]:
    """x, y, width and height of a rectangle."""
    found = re.fullmatch(r"M(\S+),(\S+)h(\S+)v(\S+)h\S+Z", mark.attrib["d"])
    assert found is not None
    x, y, width, height = map(float, found.groups())
    return x, y, width, height


def test_bars(drawn: dict[str, ElementTree.Element]) -> None:
    root = drawn["bars"]
    assert "X-axis for a discrete scale with 3 values: 1 un, 2 happy, 10 dogs" in axes(root)
    found = marks(root, "bar")
    places = {}
    for row, (_, mark) in zip(BITS, found, strict=True):
        x, y, _, height = box(mark)
        assert (height, y + height) == pytest.approx((180 * row["bits"] / 9, 180))
        assert mark.attrib["fill"] == charts.COLOURS[MODELS.index(row["series"])]
        places[row["position"], MODELS.index(row["series"])] = x
    assert sorted(places, key=places.__getitem__) == sorted(places)


def test_tapes(drawn: dict[str, ElementTree.Element]) -> None:
    root = drawn["tape"]
    cells = {box(mark)[:2]: said["depth"] for said, mark in marks(root, "rect mark")}
    assert cells == {(18 * j, 18 * k): str(TAPE[k][j]) for k in range(3) for j in range(k + 1)}
    # Numbers of what is not 0, each in its cell.
    written = {}
    for _, mark in marks(root, "text mark"):
        x, y = place(mark)
        written[x // 18, y // 18] = mark.text
    assert written == {(0, 2): "2", (1, 2): "5"}
    assert texts(root, "role-axis-label") == ["<root>", "a", "dog"] * 2


def test_no_two_of_many_models_look_alike() -> None:
    """Colours and shapes begin anew where they run out, at different models."""
    names = [f"m{k}" for k in range(40)]
    layer = charts.dots(series=names, title="x")["layer"][-1]["encoding"]
    looks = []
    for channel, values in (("color", charts.COLOURS), ("shape", charts.SHAPES)):
        assert layer[channel]["scale"]["domain"] == names
        assert layer[channel]["scale"]["range"][: len(values) + 2] == [*values, *values[:2]]
        looks.append(layer[channel]["scale"]["range"])
    assert len(set(zip(*looks, strict=True))) == 40
    assert (len(set(charts.COLOURS)), len(set(charts.SHAPES))) == (7, 6)


@pytest.mark.parametrize(("models", "step"), [(1, 18), (2, 24), (5, 60)])
def test_bars_of_many_models_have_room(models: int, step: int) -> None:
    assert charts.bars(BITS, series=[f"m{i}" for i in range(models)])["width"] == {"step": step}
