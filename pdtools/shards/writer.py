"""Rows into Parquet parts."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from pdtools.files import sha256_file
from pdtools.shards.format import ShardSettings
from pdtools.tokenization import Encoding
from pdtools.trees import packed_tapes

if TYPE_CHECKING:
    import pyarrow as pa

_ROWS_PER_GROUP = 8192


@dataclass
class Counts:
    """What was written: sentences, tokens and words (without ROOT and EOS), and the largest of each kind."""

    sentences: int = 0
    tokens: int = 0
    words: int = 0
    unknown_words: int = 0
    most_tokens: int = 0
    deepest: int = 0


@dataclass(frozen=True, slots=True, eq=False)
class ShardRow:
    """A tokenized sentence.

    Attributes:
        text: the words between single spaces.
        encoding: n tokens between ROOT and EOS.
        attach: int32 (n + 2), in the sentence layout.
        n_words: the number of words in ``text``.
    """

    text: str
    encoding: Encoding
    attach: NDArray[np.int32]
    n_words: int


@dataclass
class ShardWriter:
    """Writes rows to ``part-00000.parquet`` and so on, a new part every ``rows_per_part`` rows.

    Attributes:
        folder: where the parts go.
        schema: of :func:`pdtools.shards.format.arrow_schema`.
        settings: whether tapes are stored.
        rows_per_part: rows in every part but the last.
        counts: of what was written so far; the deepest depth is known after :meth:`close`.
        parts: after :meth:`close`, each part's file name, number of rows and SHA-256.
    """

    folder: Path
    schema: pa.Schema
    settings: ShardSettings
    rows_per_part: int
    counts: Counts = field(default_factory=Counts)
    parts: list[dict[str, Any]] = field(default_factory=list)
    _columns: dict[str, list[Any]] = field(default_factory=dict)
    _file: Any = None
    _rows_in_part: int = 0

    def write(self, row: ShardRow) -> None:
        """Add one row."""
        columns: dict[str, Any] = {
            "id": self.counts.sentences,
            "text": row.text,
            "tokens": row.encoding.ids,
            "attach": row.attach,
            "word": row.encoding.word,
        }
        for name, value in columns.items():
            self._columns.setdefault(name, []).append(value)
        n_tokens = len(row.encoding.ids) - 2
        self.counts.sentences += 1
        self.counts.tokens += n_tokens
        self.counts.words += row.n_words
        self.counts.unknown_words += row.encoding.n_unknown
        self.counts.most_tokens = max(self.counts.most_tokens, n_tokens)
        self._rows_in_part += 1
        if self._rows_in_part == self.rows_per_part:
            self._end_part()
        elif len(self._columns["id"]) == _ROWS_PER_GROUP:
            self._flush()

    def close(self) -> None:
        """Write what is left."""
        if self._rows_in_part:
            self._end_part()

    def _flush(self) -> None:
        import pyarrow as pa
        import pyarrow.parquet as pq

        if self._file is None:
            path = self.folder / f"part-{len(self.parts):05d}.parquet"
            self._file = pq.ParquetWriter(path, self.schema, compression="zstd")
        if self._columns:
            tapes, deepest = packed_tapes(self._columns["attach"])
            self.counts.deepest = max(self.counts.deepest, deepest)
            if self.settings.tape == "packed":
                self._columns["tape"] = tapes
            arrays = [pa.array(self._columns[f.name], f.type) for f in self.schema]
            self._file.write_table(pa.Table.from_arrays(arrays, schema=self.schema))
            self._columns = {}

    def _end_part(self) -> None:
        self._flush()
        self._file.close()
        self._file = None
        name = f"part-{len(self.parts):05d}.parquet"
        self.parts.append(
            {"file": name, "rows": self._rows_in_part, "sha256": sha256_file(self.folder / name)}
        )
        self._rows_in_part = 0
