"""Rows of shards: tokenized sentences one by one, or many as Arrow columns."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from pdtools.arrow import arrow_array, string_array
from pdtools.tokenization import Encoding

if TYPE_CHECKING:
    import pyarrow as pa


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


@dataclass(frozen=True, slots=True, eq=False)
class Rows:
    """Tokenized sentences.

    Attributes:
        table: the columns ``text``, ``tokens``, ``attach`` and ``word``.
        n_words: how many words they hold.
        n_unknown: how many of these became ``<unk>``.
    """

    table: pa.Table
    n_words: int
    n_unknown: int

    def __len__(self) -> int:
        return int(self.table.num_rows)

    def __reduce__(self) -> tuple[Any, ...]:
        return _load_rows, (table_bytes(self.table), self.n_words, self.n_unknown)


def _load_rows(data: pa.Buffer, n_words: int, n_unknown: int) -> Rows:
    return Rows(load_table(data), n_words, n_unknown)


def table_bytes(table: pa.Table) -> pa.Buffer:
    """A table for another process: of a slice its rows alone, where pickle takes all that they are from."""
    import pyarrow as pa

    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, table.schema) as stream:
        stream.write_table(table)
    return sink.getvalue()


def load_table(data: pa.Buffer) -> pa.Table:
    """What :func:`table_bytes` was given, without a copy."""
    import pyarrow as pa

    with pa.ipc.open_stream(data) as stream:
        return stream.read_all()


def pack_rows(rows: Sequence[ShardRow]) -> Rows:
    """Single rows as columns."""

    offsets = np.cumsum([0, *(len(row.attach) for row in rows)])
    return make_rows(
        string_array([row.text for row in rows]),
        _joined([row.encoding.ids for row in rows]),
        _joined([row.attach for row in rows]),
        _joined([row.encoding.word for row in rows]),
        offsets,
        n_words=sum(row.n_words for row in rows),
        n_unknown=sum(row.encoding.n_unknown for row in rows),
    )


def make_rows(
    text: pa.StringArray,
    tokens: NDArray[np.int32],
    attach: NDArray[np.int32],
    word: NDArray[np.int32],
    offsets: ArrayLike,
    *,
    n_words: int,
    n_unknown: int,
) -> Rows:
    """R rows from flat columns.

    Args:
        text: (R) the words of each row between single spaces.
        tokens, attach, word: int32 (n_1 + … + n_R), see :mod:`pdtools.shards.format`.
        offsets: int (R + 1), where the rows begin in these, and the last one ends.
        n_words, n_unknown: see :class:`Rows`.
    """
    import pyarrow as pa

    ends = arrow_array(np.asarray(offsets, dtype=np.int32))
    lists = [pa.ListArray.from_arrays(ends, arrow_array(flat)) for flat in (tokens, attach, word)]
    table = pa.table([text, *lists], names=["text", "tokens", "attach", "word"])
    return Rows(table, n_words, n_unknown)


def _joined(parts: Sequence[NDArray[np.int32]]) -> NDArray[np.int32]:
    return np.concatenate([np.zeros(0, np.int32), *parts])
