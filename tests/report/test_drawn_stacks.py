"""Pictures of stacks: what their charts hold, and the lines on a terminal."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from pdtools.inspection.recurrent import StackRunView
from pdtools.inspection.stack_attention import Inspection, LayerStacks
from pdtools.report import stacks
from pdtools.report.tables import shade

Part = dict[str, Any]


@pytest.fixture
def drawn(monkeypatch: pytest.MonkeyPatch) -> list[Part]:
    """Charts, instead of files of them."""
    found: list[Part] = []
    monkeypatch.setattr(stacks, "save_chart", lambda _, chart: found.append(chart))
    return found


def shares_in(part: Part) -> np.ndarray[Any, Any]:
    """The shares that a map shows, (rows, columns)."""
    sizes = [len(part["encoding"][axis]["scale"]["domain"]) for axis in "yx"]
    found = np.zeros(sizes)
    for cell in part["data"]["values"]:
        found[cell["y"], cell["x"]] = cell["share"]
    return found


def named(part: Part, axis: str) -> tuple[list[int], str | None]:
    """The places that an axis names, and its title."""
    encoding = part["encoding"][axis]
    return encoding["axis"]["values"], encoding["title"]


def test_maps_of_stack_attention(drawn: list[Part]) -> None:
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
    tokens = ["<root>", "an", "elephantine", "dog"]
    stacks.draw_stacks("f.svg", Inspection(tokens=tokens, predicted=[None] * n, layers=layers))
    (figure,) = drawn
    assert figure["columns"] == 3
    for layer, column in zip(layers, figure["concat"], strict=True):
        top, middle, bottom = column["vconcat"]
        assert top["title"]["text"] == f"layer {layer.layer}"
        assert shares_in(top) == pytest.approx(np.array(layer.attention), abs=0.002)
        assert (named(top, "x"), named(top, "y")) == (
            ([0, 1, 2, 3], "on top of the stack"),
            ([0, 1, 2, 3], "after reading"),
        )
        expected = np.array(layer.actions).T.copy()
        expected[:, 0] = 0  # the first position has no action
        assert shares_in(middle) == pytest.approx(expected, abs=0.002)
        assert (named(middle, "x")[0], named(middle, "y")[0]) == ([], [0, 1, 2])
        # The bottom of a stack of at most two is in the second row.
        written = [(cell["x"], cell["y"], cell["token"]) for cell in bottom["data"]["values"]]
        assert written == [(1, 1, "an"), (2, 1, "an"), (2, 0, "elep…"), (3, 1, "dog")]


@pytest.mark.parametrize("n", [30, 31, 91])
def test_long_strings_and_many_layers_are_drawn_small(drawn: list[Part], n: int) -> None:
    replayed = [list(range(1, 1 + min(i, n - 1 - i))) for i in range(n)]
    layers = [
        LayerStacks(layer=k, actions=[[1.0, 0.0, 0.0]] * n, attention=np.eye(n).tolist(), replayed=replayed)
        for k in range(1, 9)
    ]
    names = [f"w{i}" for i in range(n)]
    stacks.draw_stacks("f.svg", Inspection(tokens=names, predicted=[None] * n, layers=layers))
    (figure,) = drawn
    top, _, bottom = figure["concat"][-1]["vconcat"]
    assert named(top, "x")[0] == list(range(0, n, 2 if n > 90 else 1))
    assert figure["columns"] * top["width"] < 4000
    heights = [cell.get("height") for cell in bottom["data"]["values"]]
    assert heights == ([len(each) for each in replayed] if n > 30 else [None] * sum(map(len, replayed)))


def test_pictures_of_a_run(drawn: list[Part]) -> None:
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
    stacks.draw_run("f.svg", view)
    parts = {"actions": shares, "symbol on top": tops, "state": states}
    for part, (title, values) in zip(drawn[0]["concat"], parts.items(), strict=True):
        assert part["title"]["text"] == title
        assert shares_in(part) == pytest.approx(np.array(values).T, abs=0.002)
        assert named(part, "x")[0] == ([0, 1, 2] if title == "state" else [])
        assert named(part, "y")[0] == list(range(len(values[0])))
    history = rng.random((5, 3)).tolist()
    stacks.draw_history("f.svg", history, label="update")
    (part,) = drawn[1]["concat"]
    assert (named(part, "x")[1], named(part, "y")[1]) == ("position", "update")
    assert shares_in(part) == pytest.approx(np.array(history), abs=0.002)

    head, *lines, last = stacks.run_lines(view)
    assert head.split()[:6] == ["token", "bits", *view.actions]
    assert head.endswith("│0 1 2 3 4 │ on top  heaviest run")
    said = ["push 3 q1", "push 2 q0", "pop q1"]
    for t, line in enumerate(lines):
        token, bits, *percents = line.partition("│")[0].split()
        assert (token, bits) == (view.tokens[t], f"{view.surprisal[t]:.2f}")  # type: ignore[index]
        assert percents == [f"{100 * share:.1f}%" for share in shares[t]]
        top, run = line.split("│")[1:]
        assert top == "".join(map(shade, tops[t]))
        assert run.strip() == said[t]
    assert last.split() == ["(end)", "0.50"]
