"""Chunks whose results are kept as JSON, which runs no code and keeps all digits of floats."""

from __future__ import annotations

import dataclasses
import hashlib
import json
from typing import Any, Generic, Protocol, TypeVar

from pdtools.files.typed_values import as_type

Chunk = TypeVar("Chunk")
Result = TypeVar("Result")


class JsonWork(Generic[Chunk, Result]):
    """A base for :class:`pdtools.jobs.Work`; subclasses define the computation and a chunk's content.

    Attributes:
        kept: the type of a result, for :func:`pdtools.files.typed_values.as_type`.
    """

    __slots__ = ()
    kept: Any

    def content(self, chunk: Chunk) -> Any:
        """Everything in a chunk that its result depends on: bytes, or a JSON-ready value."""
        raise NotImplementedError

    def restored(self, record: Any) -> Result:
        """The result that a JSON value was written from."""
        result: Result = as_type(record, self.kept)
        return result

    def digest(self, chunk: Chunk) -> str:
        """See :meth:`pdtools.jobs.Work.digest`."""
        return short_digest(self.content(chunk))

    def pack(self, result: Result) -> bytes:
        """Encode a result as JSON; lone surrogates, which UTF-8 cannot hold, stay escapes."""
        return json.dumps(result, default=_jsonable).encode("ascii")

    def unpack(self, data: bytes) -> Result:
        """Undo :meth:`pack`."""
        return self.restored(json.loads(data))


class _Digested(Protocol):
    def digest(self) -> str: ...


class FilesWork(JsonWork[_Digested, Result | None]):
    """Work on chunks of files, some of which have no result: None, kept as no bytes."""

    __slots__ = ()

    def digest(self, chunk: _Digested) -> str:
        """See :class:`JsonWork`."""
        return chunk.digest()

    def pack(self, result: Result | None) -> bytes:
        """See :class:`JsonWork`."""
        return b"" if result is None else super().pack(result)

    def unpack(self, data: bytes) -> Result | None:
        """See :class:`JsonWork`."""
        return super().unpack(data) if data else None


def short_digest(content: Any) -> str:
    """A digest of a chunk's content, given as bytes or as a JSON-ready value."""
    data = content if isinstance(content, bytes) else json.dumps(content).encode()
    return hashlib.blake2b(data, digest_size=8).hexdigest()


def _jsonable(value: Any) -> Any:
    """Convert a tree to brackets, a dataclass to an object, an array to a list."""
    if hasattr(value, "to_brackets"):
        return value.to_brackets()
    if dataclasses.is_dataclass(value):
        return {field.name: getattr(value, field.name) for field in dataclasses.fields(value)}
    return value.tolist()
