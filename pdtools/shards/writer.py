"""Writing of rows as shards: cut into Parquet parts here, packed and written here or by other processes."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from pdtools.errors import PdtoolsError
from pdtools.files import REJECTS_FILE, Rejects, atomic_directory, sha256_file, source_of, write_json
from pdtools.files.arrow import arrow_array, cut_tables, numpy_array
from pdtools.jobs.workers import Workers
from pdtools.provenance import provenance
from pdtools.shards.format import (
    ARCS,
    CARD_FILE,
    CONSTITUENTS,
    FORMAT,
    FORMAT_VERSION,
    MANIFEST_FILE,
    Binarization,
    ShardSettings,
    arrow_schema,
)
from pdtools.shards.rows import (
    EncodedRows,
    ShardRow,
    flat_lists,
    load_table,
    pack_rows,
    pack_windows,
    table_bytes,
)
from pdtools.tokenization import Tokenizer
from pdtools.trees import deepest_of, packed_tapes

if TYPE_CHECKING:
    import pyarrow as pa
    import pyarrow.parquet as pq

# A group has fewer rows if their tapes are long.
_ROWS_PER_GROUP, _TAPE_BYTES_PER_GROUP = 8192, 1 << 28
# Some 6 MB: several parts are under way at once, and memory stays small.
ROWS_PER_PART = 1 << 14
_LARGEST = ("most_tokens", "deepest", "documents")


def write_shards(
    rows: Iterable[ShardRow | EncodedRows],
    tokenizer: Tokenizer,
    settings: ShardSettings,
    out_dir: str | Path,
    rejects: Rejects,
    *,
    sources: Sequence[str] = (),
    description: Mapping[str, Any] | None = None,
    more_settings: Mapping[str, Any] | None = None,
    finish: Callable[[Iterable[EncodedRows]], Iterable[EncodedRows]] = lambda tables: tables,
    overwrite: bool = False,
    workers: Workers | None = None,
) -> dict[str, Any]:
    """Write rows, with attachments from any source, as shards. The folder appears whole or not at all.

    Args:
        rows: tokenized sentences, one by one or many at once.
        tokenizer: the tokenizer that made them; copied into the folder.
        settings, out_dir, rejects, sources, overwrite: see :func:`pdtools.shards.build.build_shards`.
        description: more entries of the manifest: a description of rows that come from no file.
        more_settings: more of its settings.
        finish: adds missing columns to the rows as they are written.
        workers: processes that write parts; None: this one does.

    Returns:
        The manifest.

    Raises:
        PdtoolsError: if the output exists, or there are no rows.
    """
    sums: dict[str, str] = {}
    with atomic_directory(out_dir, kind="shards", sums=sums, overwrite=overwrite) as folder:
        described = [_describe_source(file) for file in sources]
        write = PartWriter(folder, arrow_schema(settings, tokenizer, described), settings)
        words = Counts()
        tables = _count_words(in_tables(rows, settings), words)
        if settings.layout == "window":
            tables = pack_windows(tables, settings, tokenizer.root_id)
        parts = cut_parts(finish(tables))
        with closing((workers or Workers()).map_in_order(write, parts)) as written:
            done = [part for _, part in written]
        records = [record for record, _ in done]
        sums.update((record["file"], record["sha256"]) for record in records)
        counts = sum((counts for _, counts in done), words)
        if not counts.sentences:
            raise PdtoolsError(f"no sentences to write{rejects.summary()}")
        manifest = {
            "format": FORMAT,
            "format_version": FORMAT_VERSION,
            "settings": {
                **settings.record(),
                "binarization": counts.binarization(settings),
                "text_style": tokenizer.text_style,
                **(more_settings or {}),
            },
            "tokenizer": {
                "kind": tokenizer.kind,
                "vocab_size": tokenizer.vocab_size,
                "fingerprint": tokenizer.fingerprint,
            },
            **({"labels": list(tokenizer.labels)} if settings.constituents == "labelled" else {}),
            "counts": {**counts.record(settings), "left_out": len(rejects)},
            "left_out": rejects.by_reason(),
            "parts": records,
            "sources": described,
            **(description or {}),
            "provenance": provenance(),
        }
        tokenizer.save(folder)
        rejects.write(folder / REJECTS_FILE)
        write_json(folder / MANIFEST_FILE, manifest)
        (folder / CARD_FILE).write_text(_CARD, encoding="utf-8", newline="\n")
    return manifest


_CARD = """---
configs:
- config_name: default
  data_files: "part-*.parquet"
---

Shards for language models, made by pdtools: rows are in the Parquet files (`datasets.load_dataset` reads this
folder), how they were made, and of what, is in `manifest.json`, and what was excluded in `rejects.jsonl`.
"""


def _count_words(rows: Iterable[EncodedRows], counts: Counts) -> Iterator[EncodedRows]:
    """Pass rows through, and add their words and other counts that parts lack."""
    for some in rows:
        counts.words += some.n_words
        counts.unknown_words += some.n_unknown
        counts.wrapped += some.n_wrapped
        counts.rewritten_labels += some.n_rewritten
        counts.not_right += some.n_not_right
        counts.not_left += some.n_not_left
        yield some


def _describe_source(file: str) -> dict[str, str | None]:
    found = source_of(file).identify()
    return {"file": found.pop("path"), "sha256": None, **found}


@dataclass
class Counts:
    """Counts of written rows, sentences, tokens and words, and the largest of each kind.

    ROOT does not count as a token, nor does EOS in sentences. Documents are windows' documents. For
    constituents: the trees that had none, the rewritten labels, and the sentences with labels that the
    vocabulary lacks. ``not_right``, ``not_left``: see :class:`pdtools.shards.rows.ShardRow`.
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
    not_right: int = 0
    not_left: int = 0

    def record(self, settings: ShardSettings) -> dict[str, int]:
        """The counts as manifests have them: rows and documents only if rows are no sentences."""
        own = ["not_right", "not_left", *(() if settings.layout == "window" else ("rows", "documents"))]
        return {name: count for name, count in asdict(self).items() if name not in own}

    def binarization(self, settings: ShardSettings) -> Binarization:
        """The binarization that the written trees have: with ``given``, one that all of them agree with."""
        if settings.factor != "given":
            return settings.factor
        return "right" if not self.not_right else "left" if not self.not_left else "given"

    def __add__(self, other: Counts) -> Counts:
        pairs = zip(asdict(self).items(), asdict(other).values(), strict=True)
        joined = {name: max(a, b) if name in _LARGEST else a + b for (name, a), b in pairs}
        return Counts(**joined)


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


def cut_parts(rows: Iterable[EncodedRows]) -> Iterator[ShardPart]:
    """Cut rows into parts, without a copy. The parts do not depend on how many rows come at once."""
    for number, table in enumerate(cut_tables((some.table for some in rows), ROWS_PER_PART)):
        yield ShardPart(number, number * ROWS_PER_PART, table)


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
class PartWriter:
    """Packs the tapes of a part and writes its file, ``part-00000.parquet`` and so on.

    Called with a part, it returns its file name, rows and SHA-256, as in the manifest, and its counts, except
    words.

    Attributes:
        folder: the folder of the parts.
        schema: from :func:`pdtools.shards.format.arrow_schema`.
        settings: tell whether tapes are stored.
    """

    folder: Path
    schema: pa.Schema
    settings: ShardSettings

    def __call__(self, part: ShardPart) -> tuple[dict[str, Any], Counts]:
        path = self.folder / f"part-{part.number:05d}.parquet"
        counts = Counts()
        waiting = part.table
        with open_part(path, self.schema) as file:
            while waiting.num_rows:
                group = _first_rows(waiting.slice(0, _ROWS_PER_GROUP))
                waiting = waiting.slice(group.num_rows)
                counts += self._write_group(file, group, part.first_id + counts.rows)
        record = {"file": path.name, "rows": part.table.num_rows, "sha256": sha256_file(path)}
        return record, counts

    def _write_group(self, file: pq.ParquetWriter, table: pa.Table, first_id: int) -> Counts:
        import pyarrow as pa

        n_rows = table.num_rows
        offsets, attach = flat_lists(table["attach"])
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
            _, word = flat_lists(table["word"])
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
    lengths = np.diff(flat_lists(table["attach"])[0])
    tape_bytes = np.cumsum(lengths * (lengths + 1) // 2)
    n_rows = max(1, int(np.searchsorted(tape_bytes, _TAPE_BYTES_PER_GROUP, side="right")))
    return table.slice(0, n_rows).combine_chunks()


def _n_unknown(labels: pa.ChunkedArray) -> int:
    """The number of rows with labels of -1."""
    offsets, flat = flat_lists(labels)
    unknown = np.flatnonzero(flat < 0)
    return len(np.unique(np.searchsorted(offsets, unknown, side="right")))
