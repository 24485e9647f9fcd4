"""Stopping between two steps when a signal requests it."""

from __future__ import annotations

import signal
from collections.abc import Callable
from types import FrameType
from typing import Any

_NOTED = ("SIGINT", "SIGTERM", "SIGUSR1", "SIGBREAK")  # as far as the system has them


class Interruption:
    """Notes Ctrl-C, SIGTERM and SIGUSR1 (sent by Slurm), and Windows' Ctrl-Break, instead of obeying them.

    ``received`` then holds the signal's number; a second Ctrl-C interrupts at once.

    Args:
        at_once: whether they are noted from the start. Else they are obeyed until :meth:`begin_noting`, which
            :func:`pdtools.training.train` calls when there is progress to lose.
        noted: called at the first one: from a signal's handler, so it must not use buffered streams.
    """

    def __init__(self, *, at_once: bool = True, noted: Callable[[], object] = lambda: None) -> None:
        self.received: int | None = None
        self._tell = noted
        self._is_noting = at_once
        self._before: dict[int, Any] = {}

    def __enter__(self) -> Interruption:
        for number in (getattr(signal, name) for name in _NOTED if hasattr(signal, name)):
            self._before[number] = signal.signal(number, self._note)
        return self

    def __exit__(self, *ending: object) -> None:
        for number, handler in self._before.items():
            signal.signal(number, handler)

    def __call__(self) -> bool:
        """Return whether to stop."""
        return self.received is not None

    def begin_noting(self) -> None:
        """Note signals from now on, as there is progress to lose."""
        self._is_noting = True

    def _note(self, number: int, frame: FrameType | None) -> None:
        if not self._is_noting:
            signal.signal(number, self._before[number] or signal.SIG_DFL)
            signal.raise_signal(number)
            signal.signal(number, self._note)  # it was ignored, or a function took it
            return
        if self.received is not None and number == signal.SIGINT:
            raise KeyboardInterrupt
        if self.received is None:
            self._tell()
        self.received = number
