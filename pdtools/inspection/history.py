"""How a stack's actions change while a model is trained (figure 3 of the nondeterministic-stacks paper)."""

from __future__ import annotations

from pathlib import Path

from pdtools.inspection.recurrent import StackRunView, inspect_run
from pdtools.models import load_checkpoint
from pdtools.training import Recipe, train
from pdtools.training.loop import Silence


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

    The run is stopped for each look and resumed; its end is that of a run without looks.

    Args:
        shards, output, recipe, valid, device: as in :func:`pdtools.training.train`; an earlier run in the
            folder is resumed.
        text: words between spaces.
        every: steps between looks.

    Returns:
        What was seen each time, oldest first; the last one is of the end of the run.
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


class _Pause(Silence):
    """Asks a run to stop once it has done so many steps."""

    def __init__(self, steps: int) -> None:
        self.left = steps

    def stepped(self, step: int) -> None:
        """One less."""
        self.left -= 1

    def __call__(self) -> bool:
        return self.left <= 0


def shares_of(
    history: list[StackRunView], wanted: list[str], *, everywhere: bool = False
) -> list[list[float]]:
    """The share of the wanted kind of action at each token, a row for every look.

    Args:
        history: what was seen.
        wanted: a kind for each token.
        everywhere: of a nondeterministic stack, ``shares_everywhere`` instead of ``shares``.

    Returns:
        Shares from 0 to 1: (looks, n).

    Raises:
        ValueError: if another kind of stack is to be looked at everywhere.
    """
    rows = []
    for view in history:
        shares = view.shares_everywhere if everywhere else view.shares
        if shares is None:
            raise ValueError(f"a stack of the kind {view.stack} has no configurations to look at everywhere")
        rows.append([share[view.actions.index(kind)] for share, kind in zip(shares, wanted, strict=True)])
    return rows
