"""One thread that answers questions one after another, and looks at what waits after each step of a table."""

from __future__ import annotations

import threading
from collections.abc import Callable, Generator
from contextlib import suppress
from dataclasses import dataclass, field
from tempfile import TemporaryDirectory
from typing import Any

from pdtools.errors import PdtoolsError, is_lack_of_memory

MOST_WAITING = 64
FULL = "too many questions are waiting: ask again in a moment"
_REPLACED = "a newer question took the place of this one"
_NO_MEMORY = "not enough memory: a narrower beam, a shorter sentence or fewer rows take less"


@dataclass(eq=False)
class Job:
    """A question that waits, or is being answered.

    Attributes:
        page: the page that asks; its newer question of the same kind replaces a waiting one.
        steps: events for the page, with work between them.
        tell: takes them, in any thread; ``{"end": true}`` is the last one.
        folder: a table's, removed at the end; None: others are not answered between the steps.
        is_left: whether nobody listens any more: the job ends at the next step.
    """

    page: str
    steps: Generator[dict[str, Any]]
    tell: Callable[[dict[str, Any]], object]
    folder: TemporaryDirectory[str] | None = None
    is_left: bool = False

    @property
    def is_table(self) -> bool:
        """Return whether it is a table."""
        return self.folder is not None

    def end(self, **event: Any) -> None:
        """Tell what is left to tell, and the end."""
        self.steps.close()
        if self.folder is not None:
            with suppress(OSError):  # it is written yet; what is left goes with the server's folder
                self.folder.cleanup()
        if event:
            self.tell(event)
        self.tell({"end": True})


@dataclass
class Worker:
    """The thread.

    Args:
        say: prints a line about a model that failed.
    """

    say: Callable[[str], object]
    _waiting: list[Job] = field(default_factory=list)
    _changed: threading.Condition = field(default_factory=threading.Condition)
    _running: list[Job] = field(default_factory=list)
    _is_stopped: bool = False

    def __post_init__(self) -> None:
        self._thread = threading.Thread(target=self._run, name="models", daemon=True)
        self._thread.start()

    @property
    def is_full(self) -> bool:
        """Return whether no more questions are taken."""
        return len(self._waiting) >= MOST_WAITING

    def ask(self, job: Job) -> None:
        """Let a job wait for its turn; if too many wait, it ends."""
        with self._changed:
            for each in self._waiting:
                if (each.page, each.is_table) == (job.page, job.is_table):
                    self._waiting.remove(each)
                    each.end(replaced=_REPLACED)
                    break
            if self.is_full:
                job.end(error=FULL)
                return
            if self._running:
                job.tell({"waits": len(self._waiting) + 1, "table": self._running[-1].is_table})
            self._waiting.append(job)
            self._changed.notify()

    def leave(self, job: Job) -> None:
        """End a job at its next step, or before its first one."""
        with self._changed:
            job.is_left = True
            if job in self._waiting:
                self._waiting.remove(job)
                job.end()

    def stop(self, seconds: float) -> bool:
        """End the thread at the next step, and return whether it ended within these seconds."""
        with self._changed:
            self._is_stopped = True
            self._changed.notify()
        self._thread.join(seconds)
        return not self._thread.is_alive()

    def _run(self) -> None:
        while not self._is_stopped:
            with self._changed:
                while not (self._waiting or self._is_stopped):
                    self._changed.wait()
            if (job := self._next(tables=True)) is not None:
                self._answer(job)

    def _next(self, *, tables: bool) -> Job | None:
        """Take the job that has waited longest; tables come after everything else."""
        with self._changed:
            order = sorted((each for each in self._waiting if tables or not each.is_table), key=_is_table)
            if not order:
                return None
            self._waiting.remove(order[0])
            return order[0]

    def _answer(self, job: Job) -> None:
        self._running.append(job)
        last: dict[str, Any] = {}
        try:
            for event in job.steps:
                if event:
                    job.tell(event)
                while job.is_table and not self._is_stopped and (other := self._next(tables=False)):
                    self._answer(other)
                if job.is_left or self._is_stopped:
                    break
        except PdtoolsError as error:
            last = {"error": str(error)}
        except Exception as error:
            if is_lack_of_memory(error):
                last = {"error": _NO_MEMORY}
            else:
                self.say(f"no answer: {type(error).__name__}: {error}")
                last = {"error": f"the model failed ({type(error).__name__}): the terminal says more"}
        finally:
            self._running.pop()
            job.end(**last)


def _is_table(job: Job) -> bool:
    return job.is_table
