"""Work on chunks: its form, and its execution by the plan's processes, with results in order."""

from __future__ import annotations

import dataclasses
import hashlib
import json
import threading
from collections.abc import Callable, Iterable, Iterator, Sequence, Sized
from dataclasses import dataclass
from itertools import islice
from typing import Any, Generic, TypeVar, cast

from pdtools.errors import PdtoolsError
from pdtools.files.typed_values import as_type
from pdtools.jobs.folder import Chunks, JobFolder
from pdtools.jobs.plan import Plan, SliceDone
from pdtools.jobs.workers import Workers, map_on_cluster

Item = TypeVar("Item")
Result = TypeVar("Result")

_NAMED = 10  # missing chunks that an error names
_one_at_a_time = threading.Lock()


class Work(Generic[Item, Result]):
    """The computation on each chunk. Pickled to workers: it holds settings, and loads its model once.

    Results are kept as JSON, which runs no code and keeps all digits of floats.

    Attributes:
        kept: the type of a result, for :func:`pdtools.files.typed_values.as_type`.
        may_be_none: whether a chunk may have no result: None, kept as no bytes.
    """

    __slots__ = ()
    kept: Any
    may_be_none = False

    def __call__(self, chunk: Item) -> Result:
        """Compute a chunk. The result depends on the chunk and the settings alone."""
        raise NotImplementedError

    def content(self, chunk: Item) -> Any:
        """Everything in a chunk that its result depends on: bytes, or a JSON-ready value."""
        raise NotImplementedError

    def digest(self, chunk: Item) -> str:
        """A few hexadecimal digits of a chunk's content, which show whether it is as in an earlier run."""
        content = self.content(chunk)
        data = content if isinstance(content, bytes) else json.dumps(content).encode()
        return hashlib.blake2b(data, digest_size=8).hexdigest()

    def restored(self, record: Any) -> Result:
        """The result that a JSON value was written from."""
        result: Result = as_type(record, self.kept)
        return result

    def pack(self, result: Result) -> bytes:
        """Encode a result; lone surrogates, which UTF-8 cannot hold, stay escapes."""
        return b"" if result is None else json.dumps(result, default=_jsonable).encode("ascii")

    def unpack(self, data: bytes) -> Result:
        """Undo :meth:`pack`."""
        if self.may_be_none and not data:
            return cast(Result, None)
        return self.restored(json.loads(data))


def _jsonable(value: Any) -> Any:
    """Convert a tree to brackets, a dataclass to an object, an array to a list."""
    if hasattr(value, "to_brackets"):
        return value.to_brackets()
    if dataclasses.is_dataclass(value):
        return {field.name: getattr(value, field.name) for field in dataclasses.fields(value)}
    return value.tolist()


@dataclass(frozen=True, slots=True)
class _Chunk(Generic[Item]):
    number: int
    digest: str
    chunk: Item


def cut(items: Iterable[Item], size: int) -> Iterator[list[Item]]:
    """Cut a stream into chunks of ``size`` items; the last may be shorter."""
    stream = iter(items)
    while chunk := list(islice(stream, size)):
        yield chunk


def map_chunks(
    work: Work[Item, Result],
    chunks: Iterable[Item],
    plan: Plan,
    job: JobFolder | None = None,
    name: str = "pieces",
    *,
    another_pass: bool = False,
    processes: Workers | None = None,
) -> Iterator[tuple[Item, Result]]:
    """Do every chunk that is not done yet.

    Args:
        work: the computation on each chunk.
        chunks: chunks in an order that is always the same; taken one by one.
        plan: how they are distributed.
        job: keeps the results; None: they are handed out only.
        name: name of this pass over the input, if there are several.
        another_pass: whether another one needs all results of this one. A slice continues with that if the
            other slices have done theirs. ``chunks`` are then iterated over twice.
        processes: the plan's workers, if they do other things too.

    Yields:
        Each chunk with its result, in order.

    Raises:
        SliceDone: after the chunks of the plan's slice.
        PdtoolsError: if chunks are missing that should be there, or workers were killed; and errors of
            ``work``.
    """
    if processes is None:
        with Workers(plan.workers) as processes:
            yield from map_chunks(
                work, chunks, plan, job, name, another_pass=another_pass, processes=processes
            )
        return
    if job is None:
        if plan.scheduler is None:
            yield from processes.map_in_order(work, chunks)
        else:
            yield from map_on_cluster(_OneByOne(work), chunks, plan.scheduler)
        return
    kept = job.chunks(name)
    numbered = _numbered(work, chunks)
    done: Iterator[tuple[_Chunk[Item], Any]]
    if plan.merging:
        done = ((item, None) for item in _merged(numbered, kept, job))
    elif plan.slice is not None:
        mine = (item for item in numbered if item.number in plan.slice)
        n_done = sum(1 for _ in _kept(work, mine, plan, kept, processes))
        if not another_pass:
            raise SliceDone(plan, n_done, job.output)
        if not all(kept.has(item.number, item.digest) for item in _numbered(work, chunks)):
            raise SliceDone(plan, n_done, job.output, passed=name)
        done = ((item, None) for item in _numbered(work, chunks))
    else:
        done = _kept(work, numbered, plan, kept, processes)
    for item, result in done:
        if result is None:
            result = _unpacked(work, kept, item)
        yield item.chunk, result


def _numbered(work: Work[Item, Any], chunks: Iterable[Item]) -> Iterator[_Chunk[Item]]:
    return (_Chunk(i, work.digest(chunk), chunk) for i, chunk in enumerate(chunks))


def _kept(
    work: Work[Item, Any], items: Iterable[_Chunk[Item]], plan: Plan, kept: Chunks, processes: Workers
) -> Iterator[tuple[_Chunk[Item], Any]]:
    """Chunks in order, as soon as their results are kept; with results that this process has itself."""
    if plan.scheduler is None:
        yield from processes.map_in_order(_DoAndKeep(work, kept, hands_out=plan.workers == 1), items)
        return
    # The workers of a cluster may be on machines that do not see the folder.
    for item, _ in map_on_cluster(
        _DoAndPack(work),
        items,
        plan.scheduler,
        done=lambda item: kept.has(item.number, item.digest),
        keep=lambda item, data: kept.write(item.number, item.digest, data),
    ):
        yield item, None


def _unpacked(work: Work[Any, Result], kept: Chunks, item: _Chunk[Any]) -> Result:
    data = kept.read(item.number, item.digest)
    try:
        result = work.unpack(data)
        if isinstance(item.chunk, Sequence) and isinstance(result, Sized) and len(result) != len(item.chunk):
            raise ValueError("not as many results as there are items")
        return result
    except (
        PdtoolsError,
        ValueError,
        TypeError,
        LookupError,
        AttributeError,
        OverflowError,
        RecursionError,
        EOFError,
    ) as error:
        raise kept.damaged(item.number, item.digest) from error


def _merged(items: Iterable[_Chunk[Item]], kept: Chunks, job: JobFolder) -> Iterator[_Chunk[Item]]:
    """Chunks in order, if all are done; else an error, perhaps after the first few."""
    missing: list[int] = []
    for item in items:
        if not kept.has(item.number, item.digest):
            missing.append(item.number)
        elif not missing:
            yield item
    if missing:
        numbers = ", ".join(map(str, missing[:_NAMED])) + (", …" if len(missing) > _NAMED else "")
        raise PdtoolsError(
            f"{kept.folder}: {len(missing)} chunks are missing: {numbers} (shard I/N does the chunks I,"
            " I + N, …: run those again, or the command with --resume instead of --shard)"
        )


@dataclass(frozen=True, slots=True)
class _DoAndKeep:
    work: Work[Any, Any]
    kept: Chunks
    hands_out: bool  # true where that needs no copy between processes

    def __call__(self, item: _Chunk[Any]) -> Any:
        if self.kept.has(item.number, item.digest):
            return None
        result = self.work(item.chunk)
        self.kept.write(item.number, item.digest, self.work.pack(result))
        return result if self.hands_out else None


@dataclass(frozen=True, slots=True)
class _DoAndPack:
    work: Work[Any, Any]

    def __call__(self, item: _Chunk[Any]) -> bytes:
        return self.work.pack(_OneByOne(self.work)(item.chunk))


@dataclass(frozen=True, slots=True)
class _OneByOne:
    """Work one chunk at a time: a Dask worker may have several threads, and a model may use them all."""

    function: Callable[[Any], Any]

    def __call__(self, chunk: Any) -> Any:
        with _one_at_a_time:
            return self.function(chunk)
