"""Reading of shards."""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from pdtools.errors import InputError, PdtoolsError
from pdtools.files import Kind, check_kind, read_json, recover_directory, sha256_stream
from pdtools.files.arrow import cut_tables, numpy_array
from pdtools.files.tables import parquet_errors
from pdtools.shards.check import REMAKE, bytes_of_tapes, check_rows, check_schema
from pdtools.shards.format import ARCS, CONSTITUENTS, FORMAT, FORMAT_VERSION, MANIFEST_FILE, ShardSettings
from pdtools.tokenization import Tokenizer
from pdtools.trees import Constituents, Graph, tape

if TYPE_CHECKING:
    import pyarrow as pa
    import pyarrow.parquet as pq

ROWS_PER_BLOCK = 4096
"""Number of rows that are read, and sorted by length, together."""

_MANIFEST_KEYS = ("settings", "tokenizer", "counts")
_MAKE = "pdtools tapes makes shards"
_MAKE_ARCS = (
    "pdtools tapes makes shards with arcs of the trees that pdtools parse --from conllu or sdp writes"
)


@dataclass(frozen=True)
class _Lists:
    """A column of int32 lists: row i is values[offsets[i] : offsets[i + 1]]."""

    values: NDArray[np.int32]
    offsets: NDArray[np.int64]

    def row(self, i: int) -> NDArray[np.int32]:
        return self.values[self.offsets[i] : self.offsets[i + 1]]

    def __getitem__(self, rows: slice) -> _Lists:
        return _Lists(self.values, self.offsets[rows.start : rows.stop + 1])


@dataclass(frozen=True, eq=False)
class ShardFolder:
    """A folder of shards on disk.

    Attributes:
        folder: its path.
        manifest: the contents of ``manifest.json``.
        tokenizer: the tokenizer that made the rows.
    """

    folder: Path
    manifest: dict[str, Any]
    tokenizer: Tokenizer

    @classmethod
    def open(cls, folder: str | Path) -> ShardFolder:
        """Check a folder of shards, and read everything but its rows.

        Raises:
            InputError: if it is none, is of another format version, lacks a file, or holds a file that was
                changed or is not in the format. Rows are checked as they are read.
        """
        found = cls._described(Path(folder))
        for part in found.manifest["parts"]:
            with found._open_part(part):
                pass
        return found

    @staticmethod
    def _described(folder: Path) -> ShardFolder:
        recover_directory(folder)
        manifest = _read_manifest(folder)
        tokenizer = Tokenizer.load(folder)
        if tokenizer.fingerprint != manifest["tokenizer"]["fingerprint"]:
            raise InputError("not the tokenizer that the shards were made with", file=folder, hint=REMAKE)
        if (style := manifest["settings"].get("text_style")) != tokenizer.text_style:
            reason = f"text_style is {style!r}, but {tokenizer.text_style!r} in the tokenizer"
            raise InputError(reason, file=folder / MANIFEST_FILE, hint=REMAKE)
        found = ShardFolder(folder, manifest, tokenizer)
        if found.has_constituents and manifest.get("labels") != list(tokenizer.labels):
            reason = "labels are not those of the tokenizer"
            raise InputError(reason, file=folder / MANIFEST_FILE, hint=REMAKE)
        return found

    @property
    def _list_columns(self) -> tuple[str, ...]:
        more = (*(CONSTITUENTS if self.has_constituents else ()), *(ARCS if self.has_arcs else ()))
        return ("tokens", "attach", "word", *more)

    @cached_property
    def _settings(self) -> ShardSettings:
        return ShardSettings.described(self.manifest["settings"])

    def __len__(self) -> int:
        return sum(part["rows"] for part in self.manifest["parts"])

    @property
    def layout(self) -> str:
        """A row's unit, ``sentence``, ``window`` or ``block`` (:class:`pdtools.shards.ShardSettings`)."""
        return self._settings.layout

    @property
    def asks_for(self) -> str | None:
        """The answers that prompts ask for, ``labels`` or ``numbers``; None if rows are no prompts."""
        return None if self._settings.prompts == "none" else self._settings.prompts

    @property
    def sha256(self) -> str:
        """Digest of rows, settings and tokenizer, independent of where and when they were made."""
        contents = {
            "parts": [part["sha256"] for part in self.manifest["parts"]],
            "settings": self.manifest["settings"],
            "tokenizer": self.tokenizer.fingerprint,
            **({"labels": self.labels} if self.has_constituents else {}),
        }
        return hashlib.sha256(json.dumps(contents, sort_keys=True).encode()).hexdigest()

    @property
    def has_constituents(self) -> bool:
        """Return whether rows have labelled constituents."""
        return self._settings.constituents == "labelled"

    @property
    def has_arcs(self) -> bool:
        """True if rows have dependency arcs."""
        return self._settings.arcs != "none"

    @property
    def labels(self) -> tuple[str, ...]:
        """The labels that constituents may have; empty without constituents."""
        return self.tokenizer.labels if self.has_constituents else ()

    def words_per_token(self, *, ends: bool) -> float:
        """Words per token, or per token and end of a sentence if these ``ends`` are predicted too."""
        counts = self.manifest["counts"]
        tokens = counts["tokens"] + (counts["sentences"] if ends else 0)
        return float(counts.get("words", counts["tokens"]) / max(1, tokens))

    def text_sha256(self) -> str:
        """Digest of the words of all rows: the same for every tokenizer, tree or layout."""
        content = hashlib.sha256()
        for texts in self._text_columns():
            content.update(
                "".join(f"{text} " for text in texts.to_pylist() if text).replace("\n", " ").encode()
            )
        return content.hexdigest()

    def _text_columns(self) -> Iterator[pa.Array]:
        """The texts of all rows in order, read alone and unchecked."""
        for part in self.manifest["parts"]:
            with self._open_part(part) as file, parquet_errors(self.folder / part["file"], REMAKE):
                for batch in file.iter_batches(ROWS_PER_BLOCK, columns=["text"]):
                    yield batch.column(0)

    def blocks(self) -> Iterator[ShardSet]:
        """All rows in order, ``ROWS_PER_BLOCK`` at a time, read lazily."""
        for table in cut_tables(self._tables(), ROWS_PER_BLOCK):
            yield self._in_memory([table])

    def _tables(self) -> Iterator[pa.Table]:
        import pyarrow as pa

        first_id = 0
        for part in self.manifest["parts"]:
            path, row = self.folder / part["file"], 0
            with self._open_part(part) as file, parquet_errors(path, REMAKE):
                tapes = bytes_of_tapes(file, path) if "tape" in file.schema_arrow.names else None
                columns = ["id", "text", *self._list_columns, *self._settings.columns]
                for batch in file.iter_batches(ROWS_PER_BLOCK, columns=columns):
                    if not batch.num_rows:
                        continue
                    past = row + batch.num_rows
                    of_tapes = None if tapes is None else tapes[row:past]
                    check_rows(batch, of_tapes, self._settings, self.tokenizer, path, row, first_id + row)
                    row = past
                    yield pa.Table.from_batches([batch])
            first_id += row

    @contextlib.contextmanager
    def _open_part(self, part: Mapping[str, Any]) -> Iterator[pq.ParquetFile]:
        """Open a part's file after checking it, even if others replace the folder meanwhile."""
        import pyarrow as pa
        import pyarrow.parquet as pq

        path = self.folder / part["file"]
        if not path.is_file():
            raise InputError("a part of the shards is missing", file=path, hint=REMAKE)
        with pa.OSFile(os.fsencode(path)) as file:
            if sha256_stream(file) != part["sha256"]:
                reason = "damaged, or replaced: not the file that the manifest describes"
                raise InputError(reason, file=path, hint=f"copy it again, or {REMAKE}")
            file.seek(0)
            with parquet_errors(path, REMAKE):
                table = pq.ParquetFile(file)
                schema = table.schema_arrow
            check_schema(schema, self._settings, self.tokenizer, path)
            if table.metadata.num_rows != part["rows"]:
                reason = f"{table.metadata.num_rows} rows, but {part['rows']} in the manifest"
                raise InputError(reason, file=path, hint=REMAKE)
            yield table

    def _in_memory(self, tables: Sequence[pa.Table]) -> ShardSet:
        import pyarrow as pa

        columns = {name: _lists(tables, name) for name in self._list_columns}
        return ShardSet(
            folder=self.folder,
            manifest=self.manifest,
            tokenizer=self.tokenizer,
            ids=np.concatenate([table["id"].to_numpy() for table in tables]),
            lengths=np.diff(columns["tokens"].offsets).astype(np.int32),
            _texts=pa.chunked_array([chunk for table in tables for chunk in table["text"].chunks]),
            _columns=columns,
            _own={
                name: pa.chunked_array([c for table in tables for c in table[name].chunks])
                for name in self._settings.columns
            },
        )


@dataclass(frozen=True, eq=False)
class ShardSet(ShardFolder):
    """A folder of shards in memory (without tapes: the attachments determine them).

    Attributes:
        ids: int64 (rows,).
        lengths: int32 (rows,), tokens in each row, ROOT and EOS included.
        relabelled: number of rows that :meth:`with_known_labels` changed.
    """

    ids: NDArray[np.int64]
    lengths: NDArray[np.int32]
    _texts: pa.ChunkedArray
    _columns: dict[str, _Lists]
    _own: Mapping[str, pa.ChunkedArray] = field(default_factory=dict)
    relabelled: int = 0

    @classmethod
    def open(cls, folder: str | Path) -> ShardSet:
        """Read a folder of shards.

        Raises:
            InputError: see :meth:`ShardFolder.open`.
        """
        found = cls._described(Path(folder))
        return found._in_memory(list(found._tables()))

    def __len__(self) -> int:
        return len(self.ids)

    def _text_columns(self) -> Iterator[pa.Array]:
        yield from self._texts.chunks

    def blocks(self) -> Iterator[ShardSet]:
        """See :meth:`ShardFolder.blocks`; the same blocks."""
        for first in range(0, len(self), ROWS_PER_BLOCK):
            rows = slice(first, first + ROWS_PER_BLOCK)
            yield replace(
                self,
                ids=self.ids[rows],
                lengths=self.lengths[rows],
                _texts=self._texts[rows],
                _columns={name: column[rows] for name, column in self._columns.items()},
                _own={name: column[rows] for name, column in self._own.items()},
            )

    def tokens(self, i: int) -> NDArray[np.int32]:
        """Vocabulary indices of row i, int32 (n + 2)."""
        return self._columns["tokens"].row(i)

    def attach(self, i: int) -> NDArray[np.int32]:
        """Attachments of row i, int32 (n + 2), positions in the row."""
        return self._columns["attach"].row(i)

    def word(self, i: int) -> NDArray[np.int32]:
        """The word of each token of row i, int32 (n + 2); -1 for ROOT and EOS."""
        return self._columns["word"].row(i)

    def text(self, i: int) -> str:
        """The words of row i between single spaces; a window's sentences between line breaks."""
        return str(self._texts[i].as_py())

    def document(self, i: int) -> int | None:
        """The number of window i's document, from 0; None in other layouts."""
        return int(self._own["document"][i].as_py()) if "document" in self._own else None

    def item(self, i: int) -> str:
        """The identifier of prompt i's item in the data."""
        return str(self._own["item"][i].as_py())

    @cached_property
    def answers(self) -> NDArray[np.int32]:
        """Int32 (rows,), for prompts the index of each label in the task, -1 if unknown."""
        return numpy_array(self._own["answer"], np.int32)

    @cached_property
    def targets(self) -> NDArray[np.float64]:
        """Float64 (rows,), for prompts that ask for numbers, the numbers; NaN if unknown."""
        return numpy_array(self._own["target"], np.float64)

    def tape(self, i: int) -> NDArray[np.int32]:
        """The stack tape of row i, int32 (n + 2, n + 2), from its attachments: depths over 255 included."""
        return tape(self.attach(i))

    def constituents(self, i: int) -> Constituents:
        """The labelled constituents of row i, over its n tokens without ROOT and EOS.

        Raises:
            PdtoolsError: if these shards have none.
        """
        return Constituents(*(column.row(i) for column in self._constituents()))

    def _constituents(self) -> tuple[_Lists, _Lists, _Lists]:
        if not self.has_constituents:
            reason = "these shards have no labelled constituents"
            raise InputError(reason, file=self.folder, hint="make them again with pdtools tapes")
        labels, opens, closes = (self._columns[name] for name in CONSTITUENTS)
        return labels, opens, closes

    def graph(self, i: int) -> Graph:
        """The dependencies of the words of row i.

        Raises:
            PdtoolsError: if these shards have none.
        """
        if not self.has_arcs:
            what = "shards" if self.layout == "sentence" else f"shards of {self.layout}s"
            raise InputError(f"these {what} have no dependency arcs", file=self.folder, hint=_MAKE_ARCS)
        n_words = int(self.word(i).max()) + 1
        return Graph(n_words, *(self._columns[name].row(i) for name in ARCS))

    @cached_property
    def n_constituents(self) -> NDArray[np.int32]:
        """Int32 (rows,), the number of constituents in each row."""
        return np.diff(self._constituents()[0].offsets).astype(np.int32)

    @cached_property
    def has_unknown_labels(self) -> NDArray[np.bool_]:
        """Bool (rows,), true for rows with a constituent whose label is not in the vocabulary."""
        labels = self._constituents()[0]
        places = slice(labels.offsets[0], labels.offsets[-1])
        return np.minimum.reduceat(labels.values[places], labels.offsets[:-1] - labels.offsets[0]) < 0

    def with_known_labels(self) -> ShardSet:
        """Return the rows with unknown labels replaced by the tokenizer's rarest label."""
        number = int(self.has_unknown_labels.sum())
        if not number:
            return self
        labels = self._constituents()[0]
        known = labels.values.copy()
        known[known < 0] = self.tokenizer.n_labels - 1
        columns = {**self._columns, CONSTITUENTS[0]: _Lists(known, labels.offsets)}
        return replace(self, _columns=columns, relabelled=number)

    @cached_property
    def most_open(self) -> NDArray[np.int32]:
        """Int32 (rows,), the largest number of constituents open at once in each row."""
        _, opens, closes = self._constituents()
        places = slice(opens.offsets[0], opens.offsets[-1])
        opened, closed = opens.values[places], closes.values[places]
        over = np.cumsum(opened) - np.cumsum(closed) + closed  # (all tokens) constituents over each
        return np.maximum.reduceat(over, opens.offsets[:-1] - opens.offsets[0]).astype(np.int32)

    def find(self, row_id: int) -> int:
        """The row with this ``id``.

        Raises:
            InputError: if there is none.
        """
        found = np.flatnonzero(self.ids == row_id)
        if not len(found):
            span = f"ids go from {self.ids.min()} to {self.ids.max()}"
            raise InputError(f"no sentence with id {row_id}", file=self.folder, hint=span)
        return int(found[0])


def _read_manifest(folder: Path) -> dict[str, Any]:
    path = folder / MANIFEST_FILE
    if not folder.exists():
        raise InputError("no such folder", file=folder, hint=_MAKE)
    if not path.is_file():
        check_kind(folder, Kind.SHARDS)
        raise InputError(f"not a folder of shards: no {MANIFEST_FILE} in it", file=folder, hint=_MAKE)
    manifest = read_json(path)
    if not isinstance(manifest, dict) or manifest.get("format") != FORMAT:
        raise InputError("not a manifest of shards", file=path, hint=_MAKE)
    version = manifest.get("format_version")
    if version != FORMAT_VERSION:
        reason = f"shards of format version {version}; this pdtools reads version {FORMAT_VERSION}"
        raise InputError(reason, file=path, hint=REMAKE)
    parts = manifest.get("parts")
    if (
        any(not isinstance(manifest.get(key), dict) for key in _MANIFEST_KEYS)
        or "fingerprint" not in manifest["tokenizer"]
        or not isinstance(parts, list)
        or not parts
        or any(not isinstance(part, dict) or not _is_part(part) for part in parts)
    ):
        raise InputError("damaged manifest", file=path, hint=REMAKE)
    try:
        ShardSettings.described(manifest["settings"])
    except PdtoolsError as error:
        raise InputError(f"damaged manifest: {error}", file=path, hint=REMAKE) from error
    if not any(part["rows"] for part in parts):
        raise InputError("no rows in these shards", file=folder, hint=REMAKE)
    return manifest


def _is_part(part: Mapping[str, Any]) -> bool:
    """Return whether a manifest entry describes a file in the folder itself."""
    file, rows, digest = (part.get(key) for key in ("file", "rows", "sha256"))
    return (
        isinstance(file, str)
        and file not in ("", "..")
        and Path(file).name == file
        and type(rows) is int
        and isinstance(digest, str)
    )


def _lists(tables: Sequence[pa.Table], name: str) -> _Lists:
    import pyarrow.compute as pc

    chunks = [chunk for table in tables for chunk in table[name].chunks]
    values = np.concatenate([chunk.flatten().to_numpy() for chunk in chunks])
    lengths = np.concatenate([pc.list_value_length(chunk).to_numpy() for chunk in chunks])
    return _Lists(values, np.concatenate([[0], np.cumsum(lengths, dtype=np.int64)]))
