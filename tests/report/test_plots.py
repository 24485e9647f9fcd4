"""Figures for papers and documentation."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from pdtools.inspection.recurrent import StackRunView
from pdtools.inspection.stack_attention import Inspection, LayerStacks
from pdtools.report import plots, stack_maps, stack_runs
from pdtools.report.plots import Curve, draw_categories, draw_lines
from pdtools.report.stack_maps import draw_stacks
from pdtools.report.stack_runs import draw_history, draw_run, run_lines
from pdtools.report.tables import shade


def test_a_value_outside_its_interval_by_a_rounding_is_drawn(tmp_path: Path) -> None:
    """As bootstraps of items that are all alike give."""
    pytest.importorskip("matplotlib", reason="matplotlib is not installed")
    low, high = 0.1 + 0.2, 0.3
    assert low > high
    line = Curve(label="a model", x=[0, 1], y=[high, low], low=[low, low], high=[low, high])
    draw_categories(tmp_path / "figure.svg", ["one", "two"], [line], value="share")
    assert "a model" in (tmp_path / "figure.svg").read_text()


def test_points_are_joined_or_not(tmp_path: Path) -> None:
    pytest.importorskip("matplotlib", reason="matplotlib is not installed")
    drawn = []
    for points_only in (False, True):
        file = tmp_path / f"{points_only}.svg"
        line = Curve(label="a model", x=[1, 2, 4], y=[3, 1, 2])
        draw_lines(file, [line], x="x", y="y", points_only=points_only)
        drawn.append(file.read_text().count('d="M '))
    # A path less, on the axes and in the legend each.
    assert drawn[0] - drawn[1] == 2


@pytest.fixture
def drawn(monkeypatch: pytest.MonkeyPatch) -> list[Any]:
    """Figures, instead of files of them."""
    pytest.importorskip("matplotlib", reason="matplotlib is not installed")
    found: list[Any] = []
    for module in (plots, stack_maps, stack_runs):
        monkeypatch.setattr(module, "save_figure", lambda figure, _: found.append(figure))
    return found


def names(labels: Sequence[Any]) -> list[str]:
    return [label.get_text() for label in labels]


def test_lines_and_their_intervals(drawn: list[Any]) -> None:
    lines = [
        Curve(
            label="one", x=[1, 3, 10], y=[20.0, 50.0, 40.0], low=[11.0, 45.0, 38.0], high=[22.0, 59.0, 47.0]
        ),
        Curve(label="none", x=[], y=[]),
        Curve(label="two", x=[2, 5], y=[70.0, 80.0]),
    ]
    for percent, log_x in ((True, False), (False, True)):
        draw_lines("f.svg", lines, x="tokens", y="right", percent=percent, log_x=log_x)
    for figure, percent, log_x in zip(drawn, (True, False), (False, True), strict=True):
        (axes,) = figure.axes
        assert (axes.get_xlabel(), axes.get_ylabel()) == ("tokens", "right")
        shown = [([*map(float, line.get_xdata())], [*map(float, line.get_ydata())]) for line in axes.lines]
        assert shown == [([1, 3, 10], [20, 50, 40]), ([2, 5], [70, 80])]
        assert names(axes.get_legend().get_texts()) == ["one", "two"]
        (band,) = axes.collections
        corners = {(float(x), float(y)) for x, y in band.get_paths()[0].vertices}
        assert corners == {(1, 11), (3, 45), (10, 38), (1, 22), (3, 59), (10, 47)}
        assert (axes.get_ylim() == (0, 102)) == percent
        assert axes.get_xscale() == ("log" if log_x else "linear")


def test_categories_and_their_intervals(drawn: list[Any]) -> None:
    lines = [
        Curve(label="one", x=[0, 1, 2], y=[0.2, 0.5, 0.4], low=[0.1, 0.45, 0.38], high=[0.22, 0.59, 0.47]),
        Curve(label="two", x=[1], y=[0.7]),
    ]
    draw_categories("f.svg", ["top", "middle", "bottom"], lines, value="share")
    (figure,) = drawn
    (axes,) = figure.axes
    assert (axes.get_xlabel(), names(axes.get_yticklabels())) == ("share", ["top", "middle", "bottom"])
    assert axes.get_ylim() == (2.5, -0.5)  # the first on top
    one, two = axes.containers
    assert [float(x) for x in one[0].get_xdata()] == [0.2, 0.5, 0.4]
    assert [round(float(y)) for y in one[0].get_ydata()] == [0, 1, 2]
    assert float(two[0].get_ydata()[0]) > 1 > float(one[0].get_ydata()[1])
    bars = [[round(float(x), 6) for x, _ in ends] for ends in one[2][0].get_segments()]
    assert bars == [[0.1, 0.22], [0.45, 0.59], [0.38, 0.47]]
    assert names(figure.legends[0].get_texts()) == ["one", "two"]


def test_maps_of_stack_attention(drawn: list[Any]) -> None:
    rng = np.random.default_rng(1)
    n = 4
    layers = [
        LayerStacks(
            layer=2 * k + 1,
            actions=rng.random((n, 3)).tolist(),
            attention=np.tril(rng.random((n, n))).tolist(),
            replayed=[[], [1], [1, 2], [3]],
        )
        for k in range(3)
    ]
    tokens = ["<root>", "an", "old", "dog"]
    draw_stacks("f.svg", Inspection(tokens=tokens, predicted=[None] * n, layers=layers))
    (figure,) = drawn
    for k, layer in enumerate(layers):
        top, middle, bottom = (figure.axes[row * 3 + k] for row in range(3))
        assert top.get_title() == f"layer {layer.layer}"
        assert np.asarray(top.images[0].get_array()) == pytest.approx(np.array(layer.attention))
        assert names(top.get_xticklabels()) == names(top.get_yticklabels()) == tokens
        assert top.get_xlabel() == "on top of the stack"
        assert (top.get_ylabel(), bottom.get_ylabel()) == (
            ("after reading", "replayed stack") if not k else ("", "")
        )
        expected = np.array(layer.actions).T.copy()
        expected[:, 0] = 0  # the first position has no action
        assert np.asarray(middle.images[0].get_array()) == pytest.approx(expected)
        assert names(middle.get_yticklabels()) == ["push", "pop", "no-op"]
        assert (bottom.get_xlim(), bottom.get_ylim()) == ((-0.5, 3.5), (-0.5, 1.5))
        assert [(*text.get_position(), text.get_text()) for text in bottom.texts] == [
            (1, 0, "an"),
            (2, 0, "an"),
            (2, 1, "old"),
            (3, 0, "dog"),
        ]


def test_heights_of_stacks_of_long_strings(drawn: list[Any]) -> None:
    stacks = [[5, 9, 20][: i % 4] for i in range(31)]
    layer = LayerStacks(
        layer=1, actions=[[1.0, 0.0, 0.0]] * 31, attention=np.eye(31).tolist(), replayed=stacks
    )
    draw_stacks("f.svg", Inspection(tokens=["w"] * 31, predicted=[None] * 31, layers=[layer]))
    bars = drawn[0].axes[2].patches
    assert [(bar.get_x() + 0.5, bar.get_height()) for bar in bars] == [
        (i, len(stack)) for i, stack in enumerate(stacks)
    ]


def test_pictures_of_a_run(drawn: list[Any]) -> None:
    rng = np.random.default_rng(2)
    shares, tops, states = (rng.random((3, k)).tolist() for k in (4, 5, 2))
    view = StackRunView(
        tokens=["the", "dog", "barks"],
        surprisal=[3.25, 2.5, 7.75, 0.5],
        stack="nondeterministic",
        actions=("push", "pop", "replace", "none"),
        shares=shares,
        tops=tops,
        states=states,
        run=[("push", 1, [0, 3]), ("push", 0, [0, 3, 2]), ("pop", 1, [0, 3])],
        run_log_share=-1.5,
    )
    draw_run("f.svg", view)
    parts = {
        "actions": (view.actions, shares),
        "symbol on top": ("01234", tops),
        "state": (("q0", "q1"), states),
    }
    for axes, (title, (rows, values)) in zip(drawn[0].axes, parts.items(), strict=True):
        assert (axes.get_title(), names(axes.get_yticklabels())) == (title, list(rows))
        assert np.asarray(axes.images[0].get_array()) == pytest.approx(np.array(values).T)
    assert names(drawn[0].axes[-1].get_xticklabels()) == view.tokens
    history = rng.random((5, 3)).tolist()
    draw_history("f.svg", history, label="update")
    (axes,) = drawn[1].axes
    assert (axes.get_xlabel(), axes.get_ylabel()) == ("position", "update")
    assert np.asarray(axes.images[0].get_array()) == pytest.approx(np.array(history))

    head, *lines, last = run_lines(view)
    assert head.split() == [
        "token",
        "bits",
        *view.actions,
        "│0",
        "1",
        "2",
        "3",
        "4",
        "│",
        "on",
        "top",
        "heaviest",
        "run",
    ]
    said = ["push 3 q1", "push 2 q0", "pop q1"]
    for t, line in enumerate(lines):
        token, bits, *percents = line.partition("│")[0].split()
        assert (token, bits) == (view.tokens[t], f"{view.surprisal[t]:.2f}")  # type: ignore[index]
        assert percents == [f"{100 * share:.1f}%" for share in shares[t]]
        top, run = line.split("│")[1:]
        assert top == "".join(map(shade, tops[t]))
        assert run.strip() == said[t]
    assert last.split() == ["(end)", "0.50"]
