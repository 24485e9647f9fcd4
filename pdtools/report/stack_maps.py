"""Stack attention as pictures: on a terminal, and as files (extra ``plot``)."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pdtools.report.plots import pyplot, save_figure, style
from pdtools.report.tables import shade
from pdtools.report.visible import visible

if TYPE_CHECKING:
    from rich.text import Text

    from pdtools.inspection.stack_attention import Inspection, LayerStacks

_LETTERS = {0: "push", 1: "pop", 2: "-"}
_CELL = 0.22  # inches per position, if there are few
_LEAST, _MOST = 2.2, 6.6  # inches of a map
_WIDEST = 40.0  # inches of all maps in a row
_MOST_NAMES = 45  # positions that are named on an axis
_MOST_WRITTEN = 30  # positions of a string whose replayed stacks are written
_LETTERS_OF_CELL = 5  # letters of a token's name in the replayed stack


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
        MissingDependencyError: if matplotlib is not installed.
    """
    plt = pyplot()
    n, layers = len(inspection.tokens), inspection.layers
    side = min(max(_LEAST, _CELL * n), _MOST)
    cell = min(_CELL, side / n)
    height = max(1, *(len(stack) for layer in layers for stack in layer.replayed))
    columns = min(len(layers), int(_WIDEST // side))
    rows = -(-len(layers) // columns)
    with plt.rc_context(style(7)):
        figure, grid = plt.subplots(
            3 * rows,
            columns,
            figsize=(columns * (side + 0.5), rows * (side + 1.2 + cell * height)),
            height_ratios=(side, 3 * _CELL, cell * height) * rows,
            layout="constrained",
            squeeze=False,
        )
        for place in range(rows * columns):
            row, column = divmod(place, columns)
            axes = grid[3 * row : 3 * row + 3, column]
            if place < len(layers):
                _draw_layer(axes, layers[place], inspection.tokens, height)
                axes[0].set_xlabel("on top of the stack")
            else:
                for unused in axes:
                    unused.set_axis_off()
            if column == 0:
                axes[0].set_ylabel("after reading")
                axes[2].set_ylabel("replayed stack")
        save_figure(figure, path)
        plt.close(figure)


def _draw_layer(axes: Sequence[Any], layer: LayerStacks, tokens: Sequence[str], height: int) -> None:
    """Draw α, actions and the replayed stack, from top to bottom."""
    top, middle, bottom = axes
    look = {"cmap": "Greys", "vmin": 0, "vmax": 1, "aspect": "auto", "interpolation": "nearest"}
    named = range(0, len(tokens), -(-len(tokens) // _MOST_NAMES))
    top.imshow(layer.attention, **look)
    top.set(title=f"layer {layer.layer}", xticks=named, yticks=named)
    top.set_xticklabels([tokens[i] for i in named], rotation=90)
    top.set_yticklabels([tokens[i] for i in named])
    # The first position has no action: the stack is empty there.
    middle.imshow([[0.0, *(row[action] for row in layer.actions[1:])] for action in range(3)], **look)
    middle.set(xticks=[], yticks=range(3))
    middle.set_yticklabels(_action_names())
    bottom.set(xlim=(-0.5, len(tokens) - 0.5), ylim=(-0.5, height - 0.5), xticks=[], yticks=[])
    if len(tokens) <= _MOST_WRITTEN:
        _write_stacks(bottom, [[tokens[j] for j in stack] for stack in layer.replayed])
    else:
        heights = [len(stack) for stack in layer.replayed]
        bottom.bar(range(len(tokens)), heights, width=1, bottom=-0.5, color="0.6")


def _write_stacks(axes: Any, stacks: Sequence[Sequence[str]]) -> None:
    """Write a column of tokens for each position, with the bottom of the stack below."""
    for position, stack in enumerate(stacks):
        for level, name in enumerate(stack):
            written = name if len(name) <= _LETTERS_OF_CELL else name[: _LETTERS_OF_CELL - 1] + "…"
            axes.text(position, level, written, ha="center", va="center", fontsize=5)


def _action_names() -> Sequence[str]:
    from pdtools.inspection.stack_attention import ACTIONS

    return ACTIONS
