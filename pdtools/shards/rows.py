"""Rows of shards: tokenized sentences, singly or many as Arrow columns; and windows of them.

A window is a row of whole sentences of a document, as many as fit, each with its own ROOT (appendix B).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, fields
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from pdtools.files.arrow import arrow_array, numpy_array, string_array
from pdtools.shards.format import ARCS, CONSTITUENTS, ShardSettings
from pdtools.tokenization import Encoding
from pdtools.trees import Constituents, Graph

if TYPE_CHECKING:
    import pyarrow as pa

Int32 = NDArray[np.int32]
Int64 = NDArray[np.int64]


@dataclass(frozen=True, slots=True, eq=False)
class ShardRow:
    """A tokenized sentence.

    Attributes:
        text: the words between single spaces.
        encoding: n tokens between ROOT and EOS.
        attach: int32 (n + 2), in the sentence layout.
        n_words: the number of words in ``text``.
        constituents: labelled constituents over the n tokens, if the shards have them.
        graph: the words' dependencies, if the shards have them.
        wrapped: whether the tree had no constituents.
        n_rewritten: number of rewritten labels of constituents.
        n_not_right, n_not_left: numbers of tokens that are attached otherwise than if the tree were binarized
            anew in this direction; counted for ``given`` binarization.
        file: the file that the sentence is from, if known.
        begins: whether the sentence begins a document inside the file.
    """

    text: str
    encoding: Encoding
    attach: NDArray[np.int32]
    n_words: int
    constituents: Constituents | None = None
    graph: Graph | None = None
    wrapped: bool = False
    n_rewritten: int = 0
    n_not_right: int = 0
    n_not_left: int = 0
    file: str = ""
    begins: bool = False


@dataclass(frozen=True, slots=True, eq=False)
class EncodedRows:
    """Tokenized sentences as columns of shards.

    Attributes:
        table: the columns ``text``, ``tokens``, ``attach`` and ``word``, and those of constituents and
            arcs where the shards have them.
        n_words: how many words they hold.
        n_unknown: how many of these became ``<unk>``.
        n_wrapped: how many trees had no constituents.
        n_rewritten: how many constituents had labels that were rewritten.
        n_not_right, n_not_left: sums of the rows' (:class:`ShardRow`).
        documents: the file and number of rows of each document in turn, if known. The first one (of 0 rows if
            it ends before) goes on with the last document of the rows before, if that is of the same file.
    """

    table: pa.Table
    n_words: int
    n_unknown: int
    n_wrapped: int = 0
    n_rewritten: int = 0
    n_not_right: int = 0
    n_not_left: int = 0
    documents: tuple[tuple[str, int], ...] = ()

    def __len__(self) -> int:
        return int(self.table.num_rows)

    def __reduce__(self) -> tuple[Any, ...]:
        return _load_rows, (table_bytes(self.table), *self.counts())

    def counts(self) -> tuple[int, ...]:
        """``n_words`` and the counts after it."""
        return tuple(getattr(self, field.name) for field in fields(self) if field.name.startswith("n_"))


def _load_rows(data: pa.Buffer, *counts: Any) -> EncodedRows:
    return EncodedRows(load_table(data), *counts)


def table_bytes(table: pa.Table) -> pa.Buffer:
    """A table for another process; for a slice only its own rows, unlike pickle."""
    import pyarrow as pa

    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, table.schema) as stream:
        stream.write_table(table)
    return sink.getvalue()


def load_table(data: pa.Buffer) -> pa.Table:
    """The table given to :func:`table_bytes`, without a copy."""
    import pyarrow as pa

    with pa.ipc.open_stream(data) as stream:
        return stream.read_all()


def pack_rows(rows: Sequence[ShardRow], settings: ShardSettings) -> EncodedRows:
    """Convert single rows to columns."""
    constituents = None
    if settings.constituents == "labelled":
        found = [row.constituents for row in rows if row.constituents is not None]
        flat = Constituents(*(_joined([getattr(some, name) for some in found]) for name in CONSTITUENTS))
        constituents = flat, np.cumsum([0, *(len(some.labels) for some in found)])
    offsets = np.cumsum([0, *(len(row.attach) for row in rows)])
    return make_rows(
        string_array([row.text for row in rows]),
        _joined([row.encoding.ids for row in rows]),
        _joined([row.attach for row in rows]),
        _joined([row.encoding.word for row in rows]),
        offsets,
        n_words=sum(row.n_words for row in rows),
        n_unknown=sum(row.encoding.n_unknown for row in rows),
        constituents=constituents,
        graphs=None if settings.arcs == "none" else [row.graph for row in rows if row.graph is not None],
        n_wrapped=sum(row.wrapped for row in rows),
        n_rewritten=sum(row.n_rewritten for row in rows),
        n_not_right=sum(row.n_not_right for row in rows),
        n_not_left=sum(row.n_not_left for row in rows),
        documents=_documents(rows),
    )


def make_rows(
    text: pa.StringArray,
    tokens: NDArray[np.int32],
    attach: NDArray[np.int32],
    word: NDArray[np.int32],
    offsets: ArrayLike,
    *,
    constituents: tuple[Constituents, NDArray[np.int64]] | None = None,
    graphs: Sequence[Graph] | None = None,
    **counts: Any,
) -> EncodedRows:
    """Make R rows from flat columns.

    Args:
        text: (R) the words of each row between single spaces.
        tokens, attach, word: int32 (n_1 + … + n_R), see :mod:`pdtools.shards.format`.
        offsets: int (R + 1), where the rows begin in these, and the last one ends.
        constituents: the constituents of all rows, and int64 (R + 1), the index at which each row's labels
            begin.
        graphs: the dependencies of each of the R rows.
        counts: the other fields of :class:`EncodedRows`.
    """
    import pyarrow as pa

    ends = np.asarray(offsets, dtype=np.int32)
    columns = {"tokens": (tokens, ends), "attach": (attach, ends), "word": (word, ends)}
    if constituents is not None:
        flat, bounds = constituents
        inside = ends - 2 * np.arange(len(ends), dtype=np.int32)  # without ROOT and EOS
        columns["labels"] = flat.labels, bounds.astype(np.int32)
        columns |= {"opens": (flat.opens, inside), "closes": (flat.closes, inside)}
    if graphs is not None:
        arcs_inside = np.cumsum([0, *map(len, graphs)]).astype(np.int32)
        nodes = [graph.heads for graph in graphs], [graph.dependents for graph in graphs]
        columns |= {name: (_joined(some), arcs_inside) for name, some in zip(ARCS, nodes, strict=True)}
    lists = {
        name: pa.ListArray.from_arrays(arrow_array(bounds), arrow_array(values))
        for name, (values, bounds) in columns.items()
    }
    return EncodedRows(pa.table({"text": text, **lists}), **counts)


def _documents(rows: Sequence[ShardRow]) -> tuple[tuple[str, int], ...]:
    found = [(row.file, 0) for row in rows[:1]]
    for row in rows:
        if row.begins or row.file != found[-1][0]:
            found.append((row.file, 0))
        found[-1] = (row.file, found[-1][1] + 1)
    return tuple(found)


def _joined(parts: Sequence[NDArray[np.int32]]) -> NDArray[np.int32]:
    return np.concatenate([np.zeros(0, np.int32), *parts])


def pack_windows(rows: Iterable[EncodedRows], settings: ShardSettings, root_id: int) -> Iterator[EncodedRows]:
    """Pack sentences, in order, into windows: a window takes the next one of its document if it fits.

    The windows do not depend on how many sentences come at once.

    Args:
        rows: sentences, none longer than a window.
        settings: the length of windows, and the definition of documents.
        root_id: the token before every sentence.
    """
    import pyarrow as pa

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
            table = pa.concat_tables([waiting, table]).combine_chunks()
            found = np.concatenate([numbers, found])
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
    tokens, attach, word = (flat_lists(table[name])[1][kept] for name in ("tokens", "attach", "word"))
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
    return np.diff(flat_lists(lists)[0])


def flat_lists(lists: pa.ChunkedArray) -> tuple[Int64, Int32]:
    """The beginnings of some lists, and the last one's end; and their values, concatenated."""
    import pyarrow.compute as pc

    lengths = numpy_array(pc.list_value_length(lists), np.int32)
    offsets = np.concatenate([[0], np.cumsum(lengths, dtype=np.int64)])
    return offsets, numpy_array(pc.list_flatten(lists), np.int32)
