"""Preparation in chunks: how the rows and word counts of a chunk are kept (:class:`pdtools.jobs.Work`)."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from functools import lru_cache

from pdtools.files import ExcludedInput
from pdtools.files.typed_values import as_type
from pdtools.jobs.records import FilesWork
from pdtools.shards.encode import ChunkCounter, ChunkEncoder, ChunkRows, ChunkWords
from pdtools.shards.format import ShardSettings
from pdtools.shards.rows import EncodedRows, load_table, table_bytes
from pdtools.tokenization import Tokenizer
from pdtools.trees import FileChunk, cut_chunks

_ABOUT = b"pdtools.piece"  # the key of the schema metadata for data outside of columns


@dataclass(frozen=True, slots=True)
class ChunksOf:
    """The chunks of files; can be iterated over again and again."""

    files: Sequence[str]

    def __iter__(self) -> Iterator[FileChunk]:
        return cut_chunks(self.files)


@dataclass(frozen=True, slots=True)
class CountWork(FilesWork[ChunkWords]):
    """Counts the words of a chunk (:class:`pdtools.jobs.Work`)."""

    kept = ChunkWords
    count: ChunkCounter

    def __call__(self, chunk: FileChunk) -> ChunkWords | None:
        return self.count(chunk)


@dataclass(frozen=True, slots=True, eq=False)
class EncodeWork:
    """Makes the rows of a chunk, kept as an Arrow IPC stream."""

    tokenizer: Tokenizer
    settings: ShardSettings

    def __call__(self, chunk: FileChunk) -> ChunkRows | None:
        return _encoder(self)(chunk)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, EncodeWork) and self._key() == other._key()

    def __hash__(self) -> int:
        return hash(self._key())

    def _key(self) -> tuple[str, tuple[str, ...], ShardSettings]:
        return self.tokenizer.fingerprint, self.tokenizer.labels, self.settings

    def digest(self, chunk: FileChunk) -> str:
        # A tokenizer made from the same trees changes with any of them, and so do labels.
        return chunk.digest(" ".join([self.tokenizer.fingerprint, *self.tokenizer.labels]))

    def pack(self, result: ChunkRows | None) -> bytes:
        if result is None:
            return b""
        about = {
            "n_trees": result.n_trees,
            "counts": result.rows.counts(),
            "left_out": [asdict(item) for item in result.excluded],
            "documents": result.documents,
        }
        table = result.rows.table.replace_schema_metadata({_ABOUT: json.dumps(about).encode("ascii")})
        return bytes(table_bytes(table))

    def unpack(self, data: bytes) -> ChunkRows | None:
        if not data:
            return None
        import pyarrow as pa

        table = load_table(pa.py_buffer(data))
        about = as_type(json.loads(table.schema.metadata[_ABOUT]), _About)
        rows = EncodedRows(table.replace_schema_metadata(None), *about.counts)
        return ChunkRows(about.n_trees, rows, about.left_out, about.documents)


@dataclass(frozen=True, slots=True)
class _About:
    """The metadata of a chunk's rows."""

    n_trees: int
    counts: tuple[int, int, int, int]
    left_out: tuple[ExcludedInput, ...]
    documents: tuple[tuple[str, int], ...]


@lru_cache(maxsize=1)
def _encoder(work: EncodeWork) -> ChunkEncoder:
    return ChunkEncoder(work.tokenizer, work.settings)
