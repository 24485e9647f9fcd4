"""Stacks of models as pictures: on a terminal, and as files (extra ``view``)."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from pdtools.errors import visible
from pdtools.report.tables import shade
from pdtools.report.view.charts import FRAME, Spec, axis_of_names, in_columns, map_of_shares
from pdtools.report.view.vega import save_chart

if TYPE_CHECKING:
    from rich.text import Text

    from pdtools.inspection.recurrent import StackRunView
    from pdtools.inspection.stack_attention import Inspection, LayerStacks

_LETTERS = {0: "push", 1: "pop", 2: "-"}
_CELL = 24  # pixels per position, if there are few
_LEAST, _MOST = 200, 640  # pixels of a map
_WIDEST = 3800  # pixels of all maps in a row
_MOST_WRITTEN = 30  # positions of a string whose replayed stacks are written
_LETTERS_OF_CELL = 5  # letters of a token's name in the replayed stack


# --- stack attention ----------------------------------------------------------------------------


def print_stacks(inspection: Inspection) -> None:
    """Print for each layer a line for each position: α, actions, the likeliest action, the replayed stack."""
    from rich.console import Console
    from rich.text import Text

    console = Console(highlight=False)
    console = console if console.is_terminal else Console(highlight=False, width=10_000)
    for layer in inspection.layers:
        title = f"layer {layer.layer}: α │ push, pop, no-op │ the likeliest, replayed"
        console.print(Text(title, style="bold"))
        for line in _lines(inspection, layer):
            console.print(line, soft_wrap=True)
        console.print()


def _lines(inspection: Inspection, layer: LayerStacks) -> list[Text]:
    from rich.text import Text

    names, said = [visible(name) for name in inspection.tokens], inspection.predicted
    width = max(map(len, names))
    answers = max((len(word) for word in said if word is not None), default=0)
    lines = []
    for i, name in enumerate(names):
        line = Text(f"{i:>3} {name:<{width}} ")
        if answers:
            line.append(f"{said[i] or '':<{answers}} ", style="cyan")
        line.append("│" + "".join(map(shade, layer.attention[i])) + "│", style="green")
        if i > 0:  # the first position has no action: the stack is empty there
            line.append("".join(map(shade, layer.actions[i])) + "│ ", style="green")
            best = max(range(3), key=lambda action: layer.actions[i][action])
            line.append(f"{_LETTERS[best]:<4} {100 * layer.actions[i][best]:3.0f}%  ", style="yellow")
            line.append(" ".join(names[j] for j in layer.replayed[i]), style="dim")
        lines.append(line)
    return lines


def draw_stacks(path: str | Path, inspection: Inspection) -> None:
    """Draw every layer: α with tokens on both axes, the probabilities of its actions, and the replayed stack.

    The stack is made by the likeliest actions: after each position, a column of the tokens in it. For a long
    string, each column is the stack's height, and only some of the positions are named.

    Args:
        path: the file; its suffix names its kind (``.svg``, ``.png``, ``.pdf``).
        inspection: the inspection to draw.

    Raises:
        MissingDependencyError: if vl-convert-python is not installed.
    """
    side = min(max(_LEAST, _CELL * len(inspection.tokens)), _MOST)
    height = max(1, *(len(stack) for layer in inspection.layers for stack in layer.replayed))
    layers = [_layer_chart(layer, inspection.tokens, side, height) for layer in inspection.layers]
    save_chart(path, in_columns(layers, min(len(layers), _WIDEST // side)))


def _layer_chart(layer: LayerStacks, tokens: Sequence[str], side: int, height: int) -> Spec:
    """α, actions and the replayed stack, from top to bottom."""
    from pdtools.inspection.stack_attention import ACTIONS

    attention = map_of_shares(
        layer.attention,
        across=tokens,
        down=tokens,
        width=side,
        height=side,
        titles=("on top of the stack", "after reading"),
        title=f"layer {layer.layer}",
    )
    # The first position has no action: the stack is empty there.
    shares = [[0.0, *(row[action] for row in layer.actions[1:])] for action in range(3)]
    actions = map_of_shares(shares, across=[], down=ACTIONS, width=side, height=3 * _CELL)
    return {"vconcat": [attention, actions, _replayed_chart(layer.replayed, tokens, side, height)]}


def _replayed_chart(stacks: Sequence[Sequence[int]], tokens: Sequence[str], side: int, height: int) -> Spec:
    """A column for each position: tokens, with the bottom of the stack below; in a long string its height."""
    x = axis_of_names("x", len(tokens), side)
    size = {"width": side, "height": min(_CELL, side / len(tokens)) * height, "view": FRAME}
    if len(tokens) > _MOST_WRITTEN:
        heights = [{"x": i, "height": len(stack)} for i, stack in enumerate(stacks)]
        y = {
            "field": "height",
            "type": "quantitative",
            "scale": {"domain": [0, height], "nice": False},
            "title": "replayed stack",
            "axis": {"labels": False, "ticks": False, "grid": False},
        }
        mark = {"type": "bar", "color": "#999999", "binSpacing": 0, "aria": False}
        return {**size, "data": {"values": heights}, "mark": mark, "encoding": {"x": x, "y": y}}
    written = [
        {"x": i, "y": height - 1 - level, "token": _cut(tokens[j])}
        for i, stack in enumerate(stacks)
        for level, j in enumerate(stack)
    ]
    y = axis_of_names("y", height, side, title="replayed stack")
    mark = {"type": "text", "fontSize": 8}
    encoding = {"x": x, "y": y, "text": {"field": "token"}}
    return {**size, "data": {"values": written}, "mark": mark, "encoding": encoding}


def _cut(name: str) -> str:
    return name if len(name) <= _LETTERS_OF_CELL else name[: _LETTERS_OF_CELL - 1] + "…"


# --- recurrent models with a stack --------------------------------------------------------------


def run_lines(view: StackRunView) -> list[str]:
    """A line for every token: surprisal or answer, actions, symbols on top, and the heaviest run as a trace.

    The trace is indented by the height of the stack after the transition: ``push 2`` puts symbol 2 on top,
    ``replace 1`` puts 1 in place of the top symbol, ``pop`` takes it away; ``q1`` is the state after it.
    """
    tokens = [visible(token) for token in view.tokens]
    width = max(len("token"), *map(len, tokens))
    header = f"{'token':<{width}}  {'y' if view.surprisal is None else 'bits':<5}  "
    header += " ".join(f"{name:>7}" for name in view.actions)
    if view.tops is not None:
        header += f"  │{''.join(f'{symbol:<2}' for symbol in range(len(view.tops[0])))}│ on top  heaviest run"
    lines = [header]
    for t, token in enumerate(tokens):
        shares = " ".join(f"{100 * share:6.1f}%" for share in view.shares[t])
        if view.surprisal is not None:
            told = f"{view.surprisal[t]:5.2f}"
        else:
            assert view.predicted is not None
            told = f"{view.predicted[t] or '':<5}"
        line = f"{token:<{width}}  {told}  {shares}"
        if view.tops is not None and view.run is not None:
            top = "".join(map(shade, view.tops[t]))
            kind, state, stack = view.run[t]
            written = kind if kind == "pop" else f"{kind} {stack[-1]}"
            line += f"  │{top}│{' ' * len(' on top')}  {'  ' * (len(stack) - 1)}{written} q{state}"
        lines.append(line.rstrip())
    if view.surprisal is not None:
        lines.append(f"{'(end)':<{width}}  {view.surprisal[-1]:5.2f}")
    return lines


def print_run(view: StackRunView) -> None:
    """Print the lines, and the heaviest run's share of all runs."""
    print("\n".join(run_lines(view)))
    if view.run_log_share is not None:
        print(f"the heaviest run has e^{view.run_log_share:.2f} of the weight of all runs")


def draw_run(path: str | Path, view: StackRunView) -> None:
    """Draw the shares of actions and, if there are any, the symbols on top and the states, by token.

    Args:
        path: the file; its suffix names its kind (``.svg``, ``.png``, ``.pdf``).
        view: the view to draw.

    Raises:
        MissingDependencyError: if vl-convert-python is not installed.
    """
    parts: list[tuple[str, Sequence[str], list[list[float]]]] = [("actions", view.actions, view.shares)]
    if view.tops is not None and view.states is not None:
        parts.append(("symbol on top", [str(s) for s in range(len(view.tops[0]))], view.tops))
        parts.append(("state", [f"q{q}" for q in range(len(view.states[0]))], view.states))
    width = _CELL * len(view.tokens)
    maps = [
        map_of_shares(
            [list(column) for column in zip(*rows, strict=True)],
            across=view.tokens if title == parts[-1][0] else [],
            down=names,
            width=width,
            height=_CELL * len(names),
            title=title,
        )
        for title, names, rows in parts
    ]
    save_chart(path, in_columns(maps))


def draw_history(path: str | Path, shares: Sequence[Sequence[float]], *, label: str = "evaluation") -> None:
    """Draw the share of one kind of action at each token (across) over the course of training (downwards).

    Args:
        path: the file; its suffix names its kind.
        shares: a row for every inspection, oldest first: see figure 3 of the paper.
        label: the label of the rows' axis.
    """
    across, down = ([str(n) for n in range(length)] for length in (len(shares[0]), len(shares)))
    part = map_of_shares(
        shares,
        across=across,
        down=down,
        width=max(_LEAST, 6 * len(across)),
        height=max(100, 6 * len(down)),
        titles=("position", label),
    )
    save_chart(path, in_columns([part]))
