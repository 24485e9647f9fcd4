"""Writing of rows to Parquet parts: cut here, packed and written here or by other processes."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterable, Iterator
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from pdtools.files import sha256_file
from pdtools.files.arrow import arrow_array, cut_tables, numpy_array
from pdtools.shards.format import ARCS, CONSTITUENTS, ShardSettings
from pdtools.shards.rows import EncodedRows, ShardRow, load_table, pack_rows, table_bytes
from pdtools.trees import deepest_of, packed_tapes

if TYPE_CHECKING:
    import pyarrow as pa
    import pyarrow.parquet as pq

# A group has fewer rows if their tapes are long.
_ROWS_PER_GROUP, _TAPE_BYTES_PER_GROUP = 8192, 1 << 28


@dataclass
class Counts:
    """Counts of written rows, sentences, tokens and words, and the largest of each kind.

    ROOT does not count as a token, nor does EOS in sentences. Documents are windows' documents. For
    constituents: the trees that had none, the rewritten labels, and the sentences with labels that the
    vocabulary lacks.
    """

    sentences: int = 0
    tokens: int = 0
    words: int = 0
    unknown_words: int = 0
    most_tokens: int = 0
    deepest: int = 0
    wrapped: int = 0
    rewritten_labels: int = 0
    unknown_labels: int = 0
    rows: int = 0
    documents: int = 0

    def record(self, settings: ShardSettings) -> dict[str, int]:
        """The counts as manifests have them: rows and documents only if rows are no sentences."""
        own = () if settings.layout == "window" else ("rows", "documents")
        return {name: count for name, count in asdict(self).items() if name not in own}

    def __add__(self, other: Counts) -> Counts:
        return Counts(
            sentences=self.sentences + other.sentences,
            tokens=self.tokens + other.tokens,
            words=self.words + other.words,
            unknown_words=self.unknown_words + other.unknown_words,
            most_tokens=max(self.most_tokens, other.most_tokens),
            deepest=max(self.deepest, other.deepest),
            wrapped=self.wrapped + other.wrapped,
            rewritten_labels=self.rewritten_labels + other.rewritten_labels,
            unknown_labels=self.unknown_labels + other.unknown_labels,
            rows=self.rows + other.rows,
            documents=max(self.documents, other.documents),
        )


@dataclass(frozen=True, slots=True, eq=False)
class ShardPart:
    """The rows of a part.

    Attributes:
        number: its number, from 0.
        first_id: the number of its first row in the folder.
        table: see :class:`EncodedRows`.
    """

    number: int
    first_id: int
    table: pa.Table

    def __reduce__(self) -> tuple[Any, ...]:
        return _load_part, (self.number, self.first_id, table_bytes(self.table))


def _load_part(number: int, first_id: int, data: pa.Buffer) -> ShardPart:
    return ShardPart(number, first_id, load_table(data))


def cut_parts(rows: Iterable[EncodedRows], rows_per_part: int) -> Iterator[ShardPart]:
    """Cut rows into parts, without a copy. The parts do not depend on how many rows come at once."""
    for number, table in enumerate(cut_tables((some.table for some in rows), rows_per_part)):
        yield ShardPart(number, number * rows_per_part, table)


def in_tables(rows: Iterable[ShardRow | EncodedRows], settings: ShardSettings) -> Iterator[EncodedRows]:
    """Collect single rows in tables."""
    single: list[ShardRow] = []
    for row in rows:
        if isinstance(row, ShardRow):
            single.append(row)
        if single and (isinstance(row, EncodedRows) or len(single) == _ROWS_PER_GROUP):
            yield pack_rows(single, settings)
            single = []
        if isinstance(row, EncodedRows):
            yield row
    if single:
        yield pack_rows(single, settings)


@dataclass(frozen=True, slots=True)
class WrittenPart:
    """A part's file name, rows and SHA-256, as in the manifest; and its counts, except words."""

    record: dict[str, Any]
    counts: Counts


@dataclass(frozen=True, slots=True)
class PartWriter:
    """Packs the tapes of a part and writes its file, ``part-00000.parquet`` and so on.

    Attributes:
        folder: the folder of the parts.
        schema: from :func:`pdtools.shards.format.arrow_schema`.
        settings: tell whether tapes are stored.
    """

    folder: Path
    schema: pa.Schema
    settings: ShardSettings

    def __call__(self, part: ShardPart) -> WrittenPart:
        path = self.folder / f"part-{part.number:05d}.parquet"
        counts = Counts()
        waiting = part.table
        with open_part(path, self.schema) as file:
            while waiting.num_rows:
                group = _first_rows(waiting.slice(0, _ROWS_PER_GROUP))
                waiting = waiting.slice(group.num_rows)
                counts += self._write_group(file, group, part.first_id + counts.rows)
        record = {"file": path.name, "rows": part.table.num_rows, "sha256": sha256_file(path)}
        return WrittenPart(record, counts)

    def _write_group(self, file: pq.ParquetWriter, table: pa.Table, first_id: int) -> Counts:
        import pyarrow as pa

        n_rows = table.num_rows
        offsets, attach = _flat(table["attach"])
        columns = {name: table[name] for name in table.column_names}
        columns["id"] = arrow_array(np.arange(first_id, first_id + n_rows))
        if self.settings.tape == "none":
            deepest = deepest_of(attach, offsets)
        else:
            tapes, places, deepest = packed_tapes(attach, offsets)
            buffers = [None, pa.py_buffer(places.astype(np.int32)), pa.py_buffer(tapes)]
            columns["tape"] = pa.BinaryArray.from_buffers(pa.binary(), n_rows, buffers)
        file.write_table(pa.table([columns[f.name] for f in self.schema], schema=self.schema))
        lengths = np.diff(offsets) - (2 if self.settings.layout == "sentence" else 1)
        sentences, documents = n_rows, 0
        if self.settings.layout == "window":
            _, word = _flat(table["word"])
            begins = np.cumsum(np.concatenate([[0], word == -1]))[offsets]  # (R + 1) ROOTs before each row
            sentences = int(begins[-1])
            lengths = lengths + 1 - np.diff(begins)
            documents = int(numpy_array(table["document"], np.int64)[-1]) + 1
        return Counts(
            rows=n_rows,
            documents=documents,
            sentences=sentences,
            tokens=int(lengths.sum()),
            most_tokens=int(lengths.max()),
            deepest=deepest,
            unknown_labels=_n_unknown(table["labels"]) if self.settings.constituents == "labelled" else 0,
        )


@contextlib.contextmanager
def open_part(path: Path, schema: pa.Schema) -> Iterator[pq.ParquetWriter]:
    """A Parquet file to write row groups to."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    # Texts and tapes hardly repeat, and their least and greatest say nothing.
    numbers = [f"{name}.list.element" for name in ("tokens", "attach", "word", *CONSTITUENTS, *ARCS)]
    options = {"compression": "zstd", "use_dictionary": numbers, "write_statistics": ["id"]}
    # A path as bytes: pyarrow takes no others in folders whose names are not UTF-8.
    with pa.OSFile(os.fsencode(path), "wb") as file, pq.ParquetWriter(file, schema, **options) as writer:
        yield writer


def _first_rows(table: pa.Table) -> pa.Table:
    """The first rows whose tapes are not too long together, at least one, in one chunk."""
    lengths = np.diff(_flat(table["attach"])[0])
    tape_bytes = np.cumsum(lengths * (lengths + 1) // 2)
    n_rows = max(1, int(np.searchsorted(tape_bytes, _TAPE_BYTES_PER_GROUP, side="right")))
    return table.slice(0, n_rows).combine_chunks()


def _n_unknown(labels: pa.ChunkedArray) -> int:
    """The number of rows with labels of -1."""
    offsets, flat = _flat(labels)
    unknown = np.flatnonzero(flat < 0)
    return len(np.unique(np.searchsorted(offsets, unknown, side="right")))


def _flat(lists: pa.ChunkedArray) -> tuple[NDArray[np.int64], NDArray[np.int32]]:
    """The beginnings of some lists, and the last one's end; and their values, concatenated."""
    import pyarrow.compute as pc

    lengths = numpy_array(pc.list_value_length(lists), np.int32)
    offsets = np.zeros(len(lengths) + 1, dtype=np.int64)
    np.cumsum(lengths, out=offsets[1:])
    return offsets, numpy_array(pc.list_flatten(lists), np.int32)
