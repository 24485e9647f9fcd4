"""How a stack's actions change while a model is trained (figure 3 of the nondeterministic-stacks paper)."""

from __future__ import annotations

import itertools
from pathlib import Path
from typing import TYPE_CHECKING

from pdtools.evaluation.stack_runs import StackRunView, inspect_run
from pdtools.models import load_checkpoint

if TYPE_CHECKING:
    from pdtools.training import Recipe


def action_history(
    shards: str | Path,
    output: str | Path,
    recipe: Recipe,
    text: str,
    *,
    every: int,
    valid: str | Path | None = None,
    device: str = "cpu",
) -> list[StackRunView]:
    """Train a model, and look at its stack on one string every so many steps.

    The run is stopped for each look and gone on with; its end is that of a run without looks.

    Args:
        shards, output, recipe, valid, device: as in :func:`pdtools.training.train`; an earlier run in the
            folder is gone on with.
        text: words between spaces.
        every: steps between looks.

    Returns:
        What was seen each time, oldest first; the last one is of the end of the run.
    """
    from pdtools.training import train

    history = []
    while True:
        asked = itertools.count()

        def is_over(asked: itertools.count[int] = asked) -> bool:
            return next(asked) >= every

        report = train(shards, output, recipe, valid=valid, device=device, resume=True, stop=is_over)
        history.append(inspect_run(load_checkpoint(Path(output) / "last", device), text))
        if report["finished"] is not None:
            return history


def shares_of(history: list[StackRunView], wanted: list[str]) -> list[list[float]]:
    """The share of the wanted kind of action at each token, a row for every look."""
    return [
        [row[view.actions.index(kind)] for row, kind in zip(view.shares, wanted, strict=True)]
        for view in history
    ]
