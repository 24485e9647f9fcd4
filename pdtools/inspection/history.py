"""A stack's actions over the course of training (figure 3 of the nondeterministic-stacks paper)."""

from __future__ import annotations

from pathlib import Path

from pdtools.inspection.recurrent import StackRunView, inspect_run
from pdtools.models import load_checkpoint
from pdtools.training import Recipe, train
from pdtools.training.loop import NullListener


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
    """Train a model, and inspect its stack on one string at regular steps.

    The run is stopped for each inspection and resumed; its end is the same as without inspections.

    Args:
        shards, output, recipe, valid, device: as in :func:`pdtools.training.train`; an earlier run in the
            folder is resumed.
        text: words between spaces.
        every: number of steps between inspections.

    Returns:
        All inspections, oldest first; the last one is at the end of the run.
    """
    history: list[StackRunView] = []
    seen = -1
    while True:
        pause = _Pause(every)
        report = train(
            shards, output, recipe, valid=valid, device=device, resume=True, listener=pause, stop=pause
        )
        # A stop before an evaluation is followed by one after it, or by the end of the run.
        if report["step"] > seen:
            history.append(inspect_run(load_checkpoint(Path(output) / "last", device), text))
            seen = report["step"]
        if report["finished"] is not None:
            return history


class _Pause(NullListener):
    """Asks a run to stop after a number of steps."""

    def __init__(self, steps: int) -> None:
        self.left = steps

    def stepped(self, step: int) -> None:
        """Count the run's steps down."""
        self.left -= 1

    def __call__(self) -> bool:
        return self.left <= 0


def shares_of(
    history: list[StackRunView], wanted: list[str], *, everywhere: bool = False
) -> list[list[float]]:
    """The share of the wanted kind of action at each token, a row for every inspection.

    Args:
        history: the inspections.
        wanted: a kind for each token.
        everywhere: for a nondeterministic stack, ``shares_everywhere`` instead of ``shares``.

    Returns:
        Shares from 0 to 1: (inspections, n).

    Raises:
        ValueError: if ``everywhere`` is requested for another kind of stack.
    """
    rows = []
    for view in history:
        shares = view.shares_everywhere if everywhere else view.shares
        if shares is None:
            raise ValueError(f"a stack of the kind {view.stack} has no configurations to look at everywhere")
        rows.append([share[view.actions.index(kind)] for share, kind in zip(shares, wanted, strict=True)])
    return rows
