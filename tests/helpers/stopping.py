"""Runs that are asked to stop."""

from __future__ import annotations

from pdtools.training.loop import NullListener


class StopAfter(NullListener):
    """Asks to stop after the step of this number: a run's listener and its ``stop``."""

    def __init__(self, step: int) -> None:
        self.step = step
        self.reached = 0

    def stepped(self, step: int) -> None:
        self.reached = step

    def __call__(self) -> bool:
        return self.reached == self.step
