"""Figures for papers and documentation."""

from __future__ import annotations

from pathlib import Path

import pytest

from pdtools.report.plots import Line, draw_categories, draw_lines


def test_a_value_outside_its_interval_by_a_rounding_is_drawn(tmp_path: Path) -> None:
    """As bootstraps of items that are all alike give."""
    pytest.importorskip("matplotlib", reason="matplotlib is not installed")
    low, high = 0.1 + 0.2, 0.3
    assert low > high
    line = Line(label="a model", x=[0, 1], y=[high, low], low=[low, low], high=[low, high])
    draw_categories(tmp_path / "figure.svg", ["one", "two"], [line], value="share")
    assert "a model" in (tmp_path / "figure.svg").read_text()


def test_points_are_joined_or_not(tmp_path: Path) -> None:
    pytest.importorskip("matplotlib", reason="matplotlib is not installed")
    drawn = []
    for points_only in (False, True):
        file = tmp_path / f"{points_only}.svg"
        line = Line(label="a model", x=[1, 2, 4], y=[3, 1, 2])
        draw_lines(file, [line], x="x", y="y", points_only=points_only)
        drawn.append(file.read_text().count('d="M '))
    # A path less, on the axes and in the legend each.
    assert drawn[0] - drawn[1] == 2
