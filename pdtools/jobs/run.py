"""Doing pieces, in whatever processes there are, and handing out what became of them in order."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from itertools import islice
from typing import Any, Generic, Protocol, TypeVar

from pdtools.errors import PdtoolsError
from pdtools.jobs.cluster import map_on_cluster
from pdtools.jobs.folder import JobFolder, Pieces
from pdtools.jobs.plan import Plan, ShardDone
from pdtools.workers import map_in_order

Item = TypeVar("Item")
Result = TypeVar("Result")
Item_contra = TypeVar("Item_contra", contravariant=True)

_NAMED = 10  # missing pieces that an error names
_one_at_a_time = threading.Lock()


class Work(Protocol[Item_contra, Result]):
    """What is done with every piece. Pickled to workers: it holds settings, and loads what it needs once."""

    def __call__(self, piece: Item_contra) -> Result:
        """Do a piece. The result depends on the piece and the settings alone."""
        ...

    def digest(self, piece: Item_contra) -> str:
        """Says whether a piece is the same as in an earlier run: a few hexadecimal digits of its content."""
        ...

    def pack(self, result: Result) -> bytes:
        """A result as bytes: data, nothing that could be executed."""
        ...

    def unpack(self, data: bytes) -> Result:
        """Undo :meth:`pack`."""
        ...


@dataclass(frozen=True, slots=True)
class _Numbered(Generic[Item]):
    number: int
    digest: str
    piece: Item


def cut(items: Iterable[Item], size: int) -> Iterator[list[Item]]:
    """Cut a stream into pieces of so many items; the last may be shorter."""
    stream = iter(items)
    while piece := list(islice(stream, size)):
        yield piece


def map_pieces(
    work: Work[Item, Result],
    pieces: Iterable[Item],
    plan: Plan,
    job: JobFolder | None = None,
    name: str = "pieces",
) -> Iterator[tuple[Item, Result]]:
    """Do every piece that is not done yet.

    Args:
        work: what is done with each.
        pieces: in an order that is always the same; taken one by one.
        plan: who does them.
        job: keeps the results; None: they are handed out only.
        name: of this pass over the input, if there are several.

    Yields:
        Each piece with its result, in order.

    Raises:
        ShardDone: after the pieces of the plan's shard.
        PdtoolsError: if pieces are missing that should be there, or workers were killed; and what ``work``
            raises.
    """
    if job is None:
        yield from _ordered(plan, work, pieces)
        return
    kept = job.pieces(name)
    numbered = (_Numbered(i, work.digest(piece), piece) for i, piece in enumerate(pieces))
    if plan.merging:
        done = _merged(numbered, kept, job)
    elif plan.shard is not None:
        mine = (item for item in numbered if item.number in plan.shard)
        raise ShardDone(plan.shard, sum(1 for _ in _kept(work, mine, plan, kept)), job.output)
    else:
        done = _kept(work, numbered, plan, kept)
    for item in done:
        yield item.piece, work.unpack(kept.read(item.number, item.digest))


def _ordered(
    plan: Plan, function: Callable[[Item], Result], items: Iterable[Item]
) -> Iterator[tuple[Item, Result]]:
    if plan.scheduler is None:
        return map_in_order(function, items, plan.workers)
    return map_on_cluster(_OneByOne(function), items, plan.scheduler)


def _kept(
    work: Work[Item, Result], items: Iterable[_Numbered[Item]], plan: Plan, kept: Pieces
) -> Iterator[_Numbered[Item]]:
    """Pieces in order, as soon as their results are kept."""
    if plan.scheduler is None:
        for item, _ in map_in_order(_DoAndKeep(work, kept), items, plan.workers):
            yield item
        return
    # The workers of a cluster may be on machines that do not see the folder.
    for item, _ in map_on_cluster(
        _DoAndPack(work),
        items,
        plan.scheduler,
        done=lambda item: kept.has(item.number, item.digest),
        keep=lambda item, data: kept.write(item.number, item.digest, data),
    ):
        yield item


def _merged(items: Iterable[_Numbered[Item]], kept: Pieces, job: JobFolder) -> Iterator[_Numbered[Item]]:
    """Pieces in order, if all are there; else, when the first few may have been handed out, an error."""
    missing: list[int] = []
    for item in items:
        if not kept.has(item.number, item.digest):
            missing.append(item.number)
        elif not missing:
            yield item
    if missing:
        numbers = ", ".join(map(str, missing[:_NAMED])) + (", …" if len(missing) > _NAMED else "")
        raise PdtoolsError(
            f"{job.folder}: {len(missing)} pieces are missing: {numbers} (shard I/N does the pieces I, I + N,"
            " …: run those again, or the command with --resume instead of --shard)"
        )


@dataclass(frozen=True, slots=True)
class _DoAndKeep:
    work: Work[Any, Any]
    kept: Pieces

    def __call__(self, item: _Numbered[Any]) -> None:
        if not self.kept.has(item.number, item.digest):
            self.kept.write(item.number, item.digest, self.work.pack(self.work(item.piece)))


@dataclass(frozen=True, slots=True)
class _DoAndPack:
    work: Work[Any, Any]

    def __call__(self, item: _Numbered[Any]) -> bytes:
        return self.work.pack(_OneByOne(self.work)(item.piece))


@dataclass(frozen=True, slots=True)
class _OneByOne:
    """A Dask worker may have several threads; a model takes one piece at a time, and may use them all."""

    function: Callable[[Any], Any]

    def __call__(self, piece: Any) -> Any:
        with _one_at_a_time:
            return self.function(piece)
