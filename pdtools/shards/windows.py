"""Windows: rows of whole sentences of a document, as many as fit, each with its own ROOT (appendix B)."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from pdtools.files.arrow import arrow_array, numpy_array
from pdtools.shards.format import ShardSettings
from pdtools.shards.rows import EncodedRows

if TYPE_CHECKING:
    import pyarrow as pa

Int32 = NDArray[np.int32]
Int64 = NDArray[np.int64]


def pack_windows(rows: Iterable[EncodedRows], settings: ShardSettings, root_id: int) -> Iterator[EncodedRows]:
    """Pack sentences, in order, into windows: a window takes the next one of its document if it fits.

    The windows do not depend on how many sentences come at once.

    Args:
        rows: sentences, none longer than a window.
        settings: the length of windows, and the definition of documents.
        root_id: the token before every sentence.
    """
    waiting: pa.Table | None = None  # sentences of a window that is not full
    file: str | None = None  # the last sentence's
    ended = True  # its document, before the next sentence
    numbers = np.zeros(0, dtype=np.int64)  # (waiting) the documents of these
    n_words = n_unknown = 0  # not yet yielded
    for some in rows:
        begins = np.zeros(len(some), dtype=bool)
        place = 0
        for number, (name, count) in enumerate(some.documents or (("", len(some)),)):
            ended |= settings.documents != "none" and (number > 0 or name != file)
            file = name
            if count:
                begins[place], ended = ended, False
            place += count
        n_words, n_unknown = n_words + some.n_words, n_unknown + some.n_unknown
        first = int(numbers[-1]) if len(numbers) else -1
        table, found = some.table, first + np.cumsum(begins)
        if waiting is not None:
            table, found = _joined(waiting, table), np.concatenate([numbers, found])
        lengths = _lengths(table["tokens"]) - 1  # (s) without EOS
        starts = _window_starts(lengths, found, settings.window)
        last = starts[-1] if len(starts) else 0
        if last:
            made = _windows(table.slice(0, last), starts, found, root_id)
            yield EncodedRows(made, n_words, n_unknown)
            n_words = n_unknown = 0
        waiting, numbers = table.slice(last), found[last:]
    if waiting is not None and len(waiting):
        yield EncodedRows(
            _windows(waiting, np.array([0, len(waiting)]), numbers, root_id), n_words, n_unknown
        )


def _joined(one: pa.Table, other: pa.Table) -> pa.Table:
    import pyarrow as pa

    return pa.concat_tables([one, other]).combine_chunks()


def _window_starts(lengths: Int64, documents: Int64, most: int) -> Int64:
    """The first sentences of windows (s); the last window is not full, or not known to be."""
    ends = np.cumsum(lengths)
    stops = np.searchsorted(documents, documents, side="right")  # (s) the end of each sentence's document
    starts, now = [], 0
    while now < len(lengths):
        starts.append(now)
        before = ends[now] - lengths[now]
        now = min(int(np.searchsorted(ends, before + most, side="right")), int(stops[now]))
    return np.array(starts, dtype=np.int64)


def _windows(table: pa.Table, starts: Int64, documents: Int64, root_id: int) -> pa.Table:
    """Concatenate sentences (s) into windows (w).

    Args:
        table: the columns ``text``, ``tokens``, ``attach`` and ``word`` of sentences.
        starts: int64 (w + 1), the first sentences of windows, and s.
        documents: int64 (s or more).
        root_id: see :func:`pack_windows`.
    """
    import pyarrow as pa
    import pyarrow.compute as pc

    table = table.combine_chunks()
    lengths = _lengths(table["tokens"]) - 1  # (s) without EOS
    of_window = np.repeat(np.arange(len(starts) - 1), np.diff(starts))  # (s)
    offsets = np.concatenate([[0], np.cumsum(lengths)])  # (s + 1) beginnings of sentences
    bounds = offsets[starts]  # (w + 1) beginnings of windows
    first = offsets[:-1] - bounds[of_window]  # (s) the position of each sentence's ROOT
    kept = np.ones(int(lengths.sum()) + len(lengths), dtype=bool)
    kept[np.cumsum(lengths + 1) - 1] = False  # EOS
    tokens, attach, word = (_values(table[name])[kept] for name in ("tokens", "attach", "word"))
    attach = attach + np.repeat(first, lengths).astype(np.int32)
    attach[offsets[1:] - 1] = first
    is_root = word == -1
    words = np.maximum.reduceat(word, offsets[:-1]) + 1  # (s)
    before = np.cumsum(words) - words
    before -= before[starts[:-1]][of_window]  # (s) words of the window before the sentence
    word = np.where(is_root, -1, word + np.repeat(before, lengths)).astype(np.int32)
    texts = pa.ListArray.from_arrays(arrow_array(starts.astype(np.int32)), table["text"].combine_chunks())
    columns = {
        name: pa.ListArray.from_arrays(arrow_array(bounds.astype(np.int32)), arrow_array(values))
        for name, values in (("tokens", tokens), ("attach", attach), ("word", word))
    }
    assert (tokens[is_root] == root_id).all()
    return pa.table(
        {"text": pc.binary_join(texts, "\n"), **columns, "document": arrow_array(documents[starts[:-1]])}
    )


def _lengths(lists: pa.ChunkedArray) -> Int64:
    import pyarrow.compute as pc

    return numpy_array(pc.list_value_length(lists), np.int32).astype(np.int64)


def _values(lists: pa.ChunkedArray) -> Int32:
    import pyarrow.compute as pc

    return numpy_array(pc.list_flatten(lists), np.int32)
