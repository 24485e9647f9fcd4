"""Stopping between two steps when the system asks for it."""

from __future__ import annotations

import signal
from types import FrameType, TracebackType
from typing import Any

_NOTED = ("SIGINT", "SIGTERM", "SIGUSR1")


class Interruption:
    """While the context is open, Ctrl-C, SIGTERM and SIGUSR1 (what Slurm sends) are noted, not obeyed.

    ``received`` then holds the signal's number; a second Ctrl-C interrupts at once. Until it is asked for the
    first time, which is before the first step, there is nothing to lose, and signals are obeyed.
    """

    def __init__(self) -> None:
        self.received: int | None = None
        self._is_asked = False
        self._before: dict[int, Any] = {}

    def __enter__(self) -> Interruption:
        for number in (getattr(signal, name) for name in _NOTED if hasattr(signal, name)):
            self._before[number] = signal.signal(number, self._note)
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        for number, handler in self._before.items():
            signal.signal(number, handler)

    def __call__(self) -> bool:
        """Whether to stop."""
        self._is_asked = True
        return self.received is not None

    def _note(self, number: int, frame: FrameType | None) -> None:
        if number == signal.SIGINT and (self.received is not None or not self._is_asked):
            raise KeyboardInterrupt
        if not self._is_asked:
            signal.signal(number, self._before[number])
            signal.raise_signal(number)
        self.received = number
