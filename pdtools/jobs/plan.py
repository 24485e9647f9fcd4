"""Who does the pieces of a command's work."""

from __future__ import annotations

import contextlib
import re
import shlex
from collections.abc import Callable, Iterator
from contextvars import ContextVar
from dataclasses import dataclass
from typing import Any

from pdtools.errors import PdtoolsError

_merging = ContextVar("merging", default=False)


@dataclass(frozen=True, slots=True)
class Slice:
    """One of several jobs that divide a command's pieces: those with i mod ``of`` = ``number``, from 0."""

    number: int
    of: int

    @classmethod
    def parse(cls, text: str) -> Slice:
        """Read ``I/N``.

        Raises:
            PdtoolsError: unless 0 ≤ I < N.
        """
        found = re.fullmatch(r"(\d{1,9})/(\d{1,9})", text)
        if not found or not int(found[1]) < int(found[2]):
            raise PdtoolsError(f"--shard {text}: must be I/N with I from 0 to N - 1, such as 0/8")
        return cls(int(found[1]), int(found[2]))

    def __contains__(self, piece: int) -> bool:
        return piece % self.of == self.number

    def __str__(self) -> str:
        return f"{self.number}/{self.of}"


@dataclass(frozen=True, kw_only=True, slots=True)
class Plan:
    """How pieces are done. What is made does not depend on it.

    Attributes:
        workers: processes on this machine; 1: this one alone.
        slice: do only these pieces, and leave the output to ``pdtools merge``.
        scheduler: address of a Dask scheduler whose workers do them.
        resume: use the pieces that an earlier run left.
        merge_options: what ``pdtools merge`` has to be given besides the output: other files that it writes.
    """

    workers: int = 1
    slice: Slice | None = None
    scheduler: str | None = None
    resume: bool = False
    merge_options: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        if self.scheduler is not None and self.workers > 1:
            raise PdtoolsError("--scheduler has workers of its own: --workers does not go with it")

    @property
    def merging(self) -> bool:
        """Whether all pieces have to be there already."""
        return _merging.get()

    @property
    def has_other_processes(self) -> bool:
        """Whether work is done by others than the process that the command is."""
        return self.workers > 1 or self.scheduler is not None

    @property
    def how_to_resume(self) -> str:
        """What a person has to do after the command was cut short."""
        same = self.slice is not None or self.merging
        return "the same command continues it" if same else "--resume continues the run"

    @property
    def resumes(self) -> bool:
        """Whether pieces that are there already are used."""
        return self.resume or self.merging or self.slice is not None


class Done(Exception):
    """A command has nothing more to do now; its message is for the user, and no error.

    Args:
        message: why.
        report: what ``--json`` prints.
    """

    def __init__(self, message: str, report: dict[str, Any]) -> None:
        super().__init__(message)
        self.report = report


class SliceDone(Done):
    """The pieces of a slice are done; the output is made from all of them later.

    Args:
        plan: that of the slice.
        pieces: how many pieces it has.
        output: what ``pdtools merge`` will make.
        passed: the pass that they are of, if the slice has to be called again for another one.
    """

    def __init__(self, plan: Plan, pieces: int, output: str, passed: str | None = None) -> None:
        slice_, merge = plan.slice, shlex.join(["pdtools", "merge", output, *plan.merge_options])
        then = merge if passed is None else "call all of them again for the next pass"
        of = "" if passed is None else f" of the pass over {passed}"
        report = {"output": output, "shard": str(slice_), "counts": {"pieces": pieces}, "pass": passed}
        super().__init__(f"shard {slice_}: {pieces} pieces{of} done; when all shards are: {then}", report)
        self.plan, self.pieces, self.output = plan, pieces, output


def independent_passes(*passes: Callable[[], Any]) -> list[Any]:
    """Passes over pieces that need nothing of each other, one after the other.

    Raises:
        SliceDone: once, after a slice's pieces of all passes.
    """
    results, n_done = [], 0
    last: SliceDone | None = None
    for work in passes:
        try:
            results.append(work())
        except SliceDone as done:
            last, n_done = done, n_done + done.pieces
    if last is not None:
        raise SliceDone(last.plan, n_done, last.output)
    return results


@contextlib.contextmanager
def only_merging() -> Iterator[None]:
    """While the block runs, no piece is computed."""
    token = _merging.set(True)
    try:
        yield
    finally:
        _merging.reset(token)
