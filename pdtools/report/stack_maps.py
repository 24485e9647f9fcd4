"""Stack attention as pictures: on a terminal, and as files (extra ``plot``)."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pdtools.report.plots import pyplot, save_figure, style
from pdtools.report.tables import shade

if TYPE_CHECKING:
    from rich.text import Text

    from pdtools.evaluation.inspection import Inspection, LayerStacks

_LETTERS = {0: "push", 1: "pop", 2: "-"}
_CELL = 0.22  # inches of a position
_LEAST = 2.2  # inches of a map
_LETTERS_OF_CELL = 5  # of a token's name in the replayed stack


def print_stacks(inspection: Inspection) -> None:
    """For each layer a line for each position: α, actions, the likeliest action, the replayed stack."""
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

    names, said = inspection.tokens, inspection.predicted
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

    The stack is the one that the likeliest actions make: after each position, a column of the tokens in it.

    Args:
        path: the file; its suffix names its kind (``.svg``, ``.png``, ``.pdf``).
        inspection: what to draw.

    Raises:
        MissingDependencyError: if matplotlib is not installed.
    """
    plt = pyplot()
    n, layers = len(inspection.tokens), inspection.layers
    side = max(_LEAST, _CELL * n)
    labels = inspection.tokens
    height = max(1, *(len(stack) for layer in layers for stack in layer.replayed))
    with plt.rc_context(style(7)):
        figure, grid = plt.subplots(
            3,
            len(layers),
            figsize=(len(layers) * (side + 0.5), side + 1.2 + _CELL * height),
            height_ratios=(n, 3, height),
            layout="constrained",
            squeeze=False,
        )
        look = {"cmap": "Greys", "vmin": 0, "vmax": 1, "aspect": "auto", "interpolation": "nearest"}
        for column, layer in enumerate(layers):
            top, middle, bottom = grid[:, column]
            top.imshow(layer.attention, **look)
            top.set(title=f"layer {layer.layer}", xticks=range(n), yticks=range(n))
            top.set_xticklabels(labels, rotation=90)
            top.set_yticklabels(labels)
            # The first position has no action: the stack is empty there.
            middle.imshow([[0.0, *(row[action] for row in layer.actions[1:])] for action in range(3)], **look)
            middle.set(xticks=[], yticks=range(3))
            middle.set_yticklabels(_action_names())
            _draw_replayed(bottom, [[labels[j] for j in stack] for stack in layer.replayed], height)
        grid[0][0].set_ylabel("after reading")
        grid[2][0].set_ylabel("replayed stack")
        for axes in grid[0]:
            axes.set_xlabel("on top of the stack")
        save_figure(figure, path)
        plt.close(figure)


def _draw_replayed(axes: Any, stacks: Sequence[Sequence[str]], height: int) -> None:
    """A column of tokens for each position, the bottom of the stack below."""
    axes.set(xlim=(-0.5, len(stacks) - 0.5), ylim=(-0.5, height - 0.5), xticks=[], yticks=[])
    for position, stack in enumerate(stacks):
        for level, name in enumerate(stack):
            written = name if len(name) <= _LETTERS_OF_CELL else name[: _LETTERS_OF_CELL - 1] + "…"
            axes.text(position, level, written, ha="center", va="center", fontsize=5)


def _action_names() -> Sequence[str]:
    from pdtools.evaluation.inspection import ACTIONS

    return ACTIONS
