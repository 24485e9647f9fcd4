"""Distribution of a command's chunks over processes, jobs and clusters."""

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
    """One of several jobs that divide a command's chunks: those with i mod ``of`` = ``number``, from 0."""

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

    def __contains__(self, chunk: int) -> bool:
        return chunk % self.of == self.number

    def __str__(self) -> str:
        return f"{self.number}/{self.of}"


@dataclass(frozen=True, kw_only=True, slots=True)
class Plan:
    """The distribution of chunks among processes, which does not affect the output.

    Attributes:
        workers: processes on this machine; 1: only the calling process.
        slice: do only these chunks, and leave the output to ``pdtools merge``.
        scheduler: address of a Dask scheduler whose workers do them.
        resume: use the chunks that an earlier run left.
        merge_options: options that ``pdtools merge`` needs besides the output: other files that it writes.
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
        """Return whether all chunks have to be done already."""
        return _merging.get()

    @property
    def has_other_processes(self) -> bool:
        """Return whether other processes than the command's own do work."""
        return self.workers > 1 or self.scheduler is not None

    @property
    def how_to_resume(self) -> str:
        """Advice on continuing an interrupted command."""
        same = self.slice is not None or self.merging
        return "the same command continues it" if same else "--resume continues the run"

    @property
    def resumes(self) -> bool:
        """Return whether existing chunks are used."""
        return self.resume or self.merging or self.slice is not None


class Done(Exception):
    """The command has nothing more to do now; its message is for the user, and no error.

    Args:
        message: the reason.
        report: the document that ``--json`` prints.
    """

    def __init__(self, message: str, report: dict[str, Any]) -> None:
        super().__init__(message)
        self.report = report


class SliceDone(Done):
    """The chunks of a slice are done; the output is made from all chunks later.

    Args:
        plan: the slice's plan.
        chunks: number of its chunks.
        output: the file or folder that ``pdtools merge`` will make.
        passed: the pass they belong to, if the slice has to be called again for another one.
    """

    def __init__(self, plan: Plan, chunks: int, output: str, passed: str | None = None) -> None:
        slice_, merge = plan.slice, shlex.join(["pdtools", "merge", output, *plan.merge_options])
        then = merge if passed is None else "call all of them again for the next pass"
        of = "" if passed is None else f" of the pass over {passed}"
        report = {"output": output, "shard": str(slice_), "counts": {"pieces": chunks}, "pass": passed}
        super().__init__(f"shard {slice_}: {chunks} chunks{of} done; when all shards are: {then}", report)
        self.plan, self.chunks, self.output = plan, chunks, output


def independent_passes(*passes: Callable[[], Any]) -> list[Any]:
    """Run passes over chunks that do not depend on each other, one after the other; their results.

    Raises:
        SliceDone: once, after a slice's chunks of all passes.
    """
    results, n_done = [], 0
    last: SliceDone | None = None
    for work in passes:
        try:
            results.append(work())
        except SliceDone as done:
            last, n_done = done, n_done + done.chunks
    if last is not None:
        raise SliceDone(last.plan, n_done, last.output)
    return results


@contextlib.contextmanager
def only_merging() -> Iterator[None]:
    """Allow no chunk to be computed while the block runs."""
    token = _merging.set(True)
    try:
        yield
    finally:
        _merging.reset(token)
