"""Stacks of recurrent models as pictures: on a terminal, and as files (extra ``plot``)."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pdtools.report.plots import pyplot, save_figure, style
from pdtools.report.tables import shade
from pdtools.report.visible import visible

if TYPE_CHECKING:
    from pdtools.inspection.recurrent import StackRunView

_CELL = 0.25  # inches per token
_WIDTH = 3.0  # inches at least


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
        MissingDependencyError: if matplotlib is not installed.
    """
    parts: list[tuple[str, Sequence[str], list[list[float]]]] = [("actions", view.actions, view.shares)]
    if view.tops is not None and view.states is not None:
        parts.append(("symbol on top", [str(s) for s in range(len(view.tops[0]))], view.tops))
        parts.append(("state", [f"q{q}" for q in range(len(view.states[0]))], view.states))
    plt = pyplot()
    width = max(_WIDTH, _CELL * len(view.tokens) + 1)
    heights = [len(names) for _, names, _ in parts]
    with plt.rc_context(style(7)):
        figure, grid = plt.subplots(
            len(parts),
            1,
            figsize=(width, _CELL * sum(heights) + 0.6 * len(parts) + 0.4),
            height_ratios=heights,
            layout="constrained",
            squeeze=False,
        )
        for (title, names, rows), axes in zip(parts, grid[:, 0], strict=True):
            _heatmap(axes, [list(column) for column in zip(*rows, strict=True)])
            axes.set(title=title, xticks=[], yticks=range(len(names)))
            axes.set_yticklabels(names)
        grid[-1][0].set_xticks(range(len(view.tokens)))
        grid[-1][0].set_xticklabels(view.tokens)
        save_figure(figure, path)
        plt.close(figure)


def draw_history(path: str | Path, shares: Sequence[Sequence[float]], *, label: str = "evaluation") -> None:
    """Draw the share of one kind of action at each token (across) over the course of training (downwards).

    Args:
        path: the file; its suffix names its kind.
        shares: a row for every inspection, oldest first: see figure 3 of the paper.
        label: the label of the rows' axis.
    """
    plt = pyplot()
    with plt.rc_context(style(7)):
        size = (max(_WIDTH, 0.06 * len(shares[0]) + 1), max(1.5, 0.06 * len(shares) + 0.8))
        figure, axes = plt.subplots(figsize=size, layout="constrained")
        _heatmap(axes, shares)
        axes.set(xlabel="position", ylabel=label)
        save_figure(figure, path)
        plt.close(figure)


def _heatmap(axes: Any, rows: Sequence[Sequence[float]]) -> None:
    axes.imshow(rows, cmap="Greys", vmin=0, vmax=1, aspect="auto", interpolation="nearest")
