"""Figures for papers and documentation. Needs matplotlib (extra ``plot``)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pdtools.errors import MissingDependencyError
from pdtools.files import atomic_path

_SIZE = (6.0, 3.7)  # inches


@dataclass(frozen=True, kw_only=True)
class Curve:
    """One line of a figure, with or without an interval around each point.

    Attributes:
        label: for the legend.
        x, y: its points.
        low, high: the interval of each point; None: no intervals.
    """

    label: str
    x: Sequence[float]
    y: Sequence[float]
    low: Sequence[float] | None = None
    high: Sequence[float] | None = None


def draw_lines(
    path: str | Path,
    lines: Sequence[Curve],
    *,
    x: str,
    y: str,
    percent: bool = False,
    log_x: bool = False,
    points_only: bool = False,
) -> None:
    """Draw lines into a file whose suffix names its kind (``.svg``, ``.pdf``, ``.png``).

    Args:
        path: the file.
        lines: the lines; empty ones are dropped.
        x, y: the axes' titles, with their units.
        percent: the y axis goes from 0 to 100.
        log_x: the x axis is logarithmic.
        points_only: points are not joined.

    Raises:
        MissingDependencyError: if matplotlib is not installed.
    """
    plt = pyplot()
    joined = {"linestyle": "none", "markersize": 5} if points_only else {"markersize": 3}
    with plt.rc_context(style(9)):
        figure, axes = plt.subplots(figsize=_SIZE, layout="constrained")
        for line in lines:
            if not line.x:
                continue
            (drawn,) = axes.plot(line.x, line.y, marker="o", label=line.label, **joined)
            if line.low is not None and line.high is not None:
                axes.fill_between(
                    line.x, line.low, line.high, alpha=0.2, color=drawn.get_color(), linewidth=0
                )
        axes.set(xlabel=x, ylabel=y)
        if percent:
            axes.set_ylim(0, 102)
        if log_x:
            axes.set_xscale("log")
        axes.grid(alpha=0.3)
        if any(line.x for line in lines):
            axes.legend(frameon=False)
        save_figure(figure, path)
        plt.close(figure)


def draw_categories(
    path: str | Path, names: Sequence[str], lines: Sequence[Curve], *, value: str, percent: bool = False
) -> None:
    """Draw values by category: names from top to bottom, at each a point of every line, with its interval.

    Args:
        path: see :func:`draw_lines`.
        names: the categories' names.
        lines: the lines; their ``x`` are indices of names.
        value: the quantity on the axis below, with its unit.
        percent: the axis goes from 0 to 100.

    Raises:
        MissingDependencyError: if matplotlib is not installed.
    """
    plt = pyplot()
    step = 0.8 / max(len(lines), 1)
    with plt.rc_context(style(9)):
        height = 1.2 + len(names) * (0.15 + 0.08 * len(lines))
        figure, axes = plt.subplots(figsize=(_SIZE[0], height), layout="constrained")
        for number, line in enumerate(lines):
            places = [x + (number + 0.5) * step - 0.4 for x in line.x]
            bars = None
            if line.low is not None and line.high is not None:
                # A value may lie outside its interval by a rounding.
                bars = [
                    [max(0.0, y - low) for y, low in zip(line.y, line.low, strict=True)],
                    [max(0.0, high - y) for y, high in zip(line.y, line.high, strict=True)],
                ]
            axes.errorbar(line.y, places, xerr=bars, fmt="o", markersize=3, linewidth=1, label=line.label)
        axes.set(xlabel=value, yticks=range(len(names)), yticklabels=names, ylim=(len(names) - 0.5, -0.5))
        for edge in range(1, len(names)):
            axes.axhline(edge - 0.5, color="0.85", linewidth=0.8)
        if percent:
            axes.set_xlim(0, 102)
        axes.grid(alpha=0.3, axis="x")
        if lines:
            figure.legend(loc="outside lower center", ncols=min(len(lines), 3), frameon=False)
        save_figure(figure, path)
        plt.close(figure)


def style(font_size: float) -> dict[str, Any]:
    """Settings of every figure: equal numbers make equal files, and tokens (``$x$``) are no formulas."""
    return {"svg.hashsalt": "pdtools", "font.size": font_size, "text.parse_math": False}


def save_figure(figure: Any, path: str | Path) -> None:
    """Write a figure of matplotlib, whole or not at all; the suffix names its kind."""
    kind = Path(path).suffix[1:].lower()
    with atomic_path(path) as temporary:
        # Without a date, equal numbers make equal files.
        figure.savefig(temporary, format=kind, metadata={"Date": None} if kind == "svg" else None)


def pyplot() -> Any:
    """The module matplotlib.pyplot, drawing into files only.

    Raises:
        MissingDependencyError: if matplotlib is not installed.
    """
    try:
        import matplotlib

        matplotlib.use("Agg")
        import matplotlib.pyplot as plt
    except ImportError as error:
        raise MissingDependencyError("matplotlib", extra="plot") from error
    return plt
