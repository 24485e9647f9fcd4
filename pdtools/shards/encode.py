"""Conversion of chunks of tree files to rows or word counts, without Python work per node or token."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from functools import lru_cache
from typing import TYPE_CHECKING, Any, get_args

import numpy as np
from numpy.typing import NDArray

from pdtools.files import ExcludedInput
from pdtools.files.arrow import arrow_array, join_lists
from pdtools.files.typed_values import as_type
from pdtools.jobs import Work
from pdtools.shards.format import MOST_PACKED, ShardSettings
from pdtools.shards.plain import (
    NO_WORDS,
    OVER_WINDOW,
    TOO_LONG,
    UNKNOWN_WORDS,
    graph_beside,
    labels_of,
    row_of_source,
    usable_sentences,
    usable_tree,
)
from pdtools.shards.rows import EncodedRows, ShardRow, load_table, make_rows, pack_rows, table_bytes
from pdtools.tokenization import Sentence, Tokenizer, WordTable, count_words
from pdtools.trees import (
    UNKNOWN_TAG,
    ChunkConstituents,
    Constituents,
    FileChunk,
    Graph,
    SourcedTree,
    TreeArrays,
    chunk_constituents,
    cut_chunks,
    expand_attachments,
    expand_constituents,
    parse_chunk,
    unescape,
)
from pdtools.trees.arrays import attachments_between
from pdtools.trees.tree import Factor

if TYPE_CHECKING:
    import pyarrow as pa

_ABOUT = b"pdtools.piece"  # the key of the schema metadata for data outside of columns

Bool = NDArray[np.bool_]
Int32 = NDArray[np.int32]
Int64 = NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class ChunksOf:
    """The chunks of files; can be iterated over again and again."""

    files: Sequence[str]

    def __iter__(self) -> Iterator[FileChunk]:
        return cut_chunks(self.files)


@dataclass(frozen=True, slots=True, eq=False)
class ChunkRows:
    """The rows of a chunk, its excluded trees, and the rows' documents (see :class:`EncodedRows`)."""

    n_trees: int
    rows: EncodedRows
    excluded: tuple[ExcludedInput, ...]
    documents: tuple[tuple[str, int], ...]

    def __len__(self) -> int:
        return self.n_trees


@dataclass(frozen=True, slots=True, eq=False)
class EncodeWork(Work[FileChunk, ChunkRows | None]):
    """Makes the rows of chunks, kept as an Arrow IPC stream.

    The result is None where :func:`parse_chunk`'s is.

    Rows are equal to :func:`pdtools.shards.plain.row_of_tree`'s, and made by it where a word's tokens depend
    on its neighbours, as in ``raw`` style.
    """

    tokenizer: Tokenizer
    settings: ShardSettings

    @property
    def _labelled(self) -> bool:
        return self.settings.constituents == "labelled" and self.tokenizer.text_style == "ptb"

    @property
    def _table(self) -> WordTable:
        return _word_table(self.tokenizer)

    def __call__(self, chunk: FileChunk) -> ChunkRows | None:
        arrays = parse_chunk(chunk, self.settings.factor, with_nodes=self._labelled)
        if arrays is None:
            return None
        rows, reasons = (self._rows if self.tokenizer.takes_single_words else self._plain_rows)(arrays)
        kept = np.ones(len(arrays), dtype=bool)
        kept[list(reasons)] = False
        at_blanks = self.settings.documents == "blank"
        ends = arrays.blank_lines() if at_blanks else []
        for i in ends:
            del reasons[i]
        excluded = tuple(ExcludedInput(reason, *arrays.place(i)) for i, reason in sorted(reasons.items()))
        return ChunkRows(len(arrays), rows, excluded, arrays.documents(kept, ends, at_blanks=at_blanks))

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

    def _plain_rows(self, arrays: TreeArrays) -> tuple[EncodedRows, dict[int, str]]:
        made = [row_of_source(arrays.source(i), self.tokenizer, self.settings) for i in range(len(arrays))]
        rows = pack_rows([row for row in made if isinstance(row, ShardRow)], self.settings)
        return rows, {i: row for i, row in enumerate(made) if isinstance(row, str)}

    def _rows(self, arrays: TreeArrays) -> tuple[EncodedRows, dict[int, str]]:
        numbers, words = self._table.look_up(arrays.words())
        sentences = arrays.sentences
        # The attachments that are written; and those of either binarization, to compare if groups are kept.
        every_r = [arrays.attachments]
        if self.settings.factor == "given":
            every_r += [attachments_between(arrays.between, sentences, each) for each in get_args(Factor)]
        constituents = chunk_constituents(arrays) if self._labelled else None
        reasons = unusable_trees(arrays)
        counts = self._table.counts[numbers]  # (w) tokens of each word
        missing = np.flatnonzero(counts == 0)
        for i in np.unique(np.searchsorted(sentences, missing, side="right") - 1).tolist():
            reasons.setdefault(i, UNKNOWN_WORDS)
        n_tokens = np.diff(np.concatenate([[0], np.cumsum(counts)])[sentences])  # (s)
        if self.settings.tape == "packed":
            for i in np.flatnonzero(n_tokens + 2 > MOST_PACKED).tolist():
                reasons.setdefault(i, TOO_LONG)
        if self.settings.layout == "window":
            for i in np.flatnonzero(n_tokens + 1 > self.settings.window).tolist():
                reasons.setdefault(i, OVER_WINDOW)
        if reasons:
            lengths = np.diff(sentences)
            kept = np.ones(len(arrays), dtype=bool)
            kept[list(reasons)] = False
            inside = np.repeat(kept, lengths)
            numbers, words = numbers[inside], words.filter(arrow_array(inside))
            every_r = [r[inside] for r in every_r]
            sentences = np.concatenate([[0], np.cumsum(lengths[kept])])
            constituents = constituents and constituents.kept(kept, inside)
        graphs = None
        if self.settings.arcs != "none":
            places = (arrays.place(i)[:2] for i in range(len(arrays)) if i not in reasons)
            graphs = [
                graph_beside(*place, n) for place, n in zip(places, np.diff(sentences).tolist(), strict=True)
            ]
        return self._assemble(numbers, words, every_r, sentences, constituents, graphs), reasons

    def _assemble(
        self,
        numbers: Int32,
        words: pa.StringArray,
        every_r: Sequence[Int32],
        sentences: Int64,
        constituents: ChunkConstituents | None,
        graphs: list[Graph] | None,
    ) -> EncodedRows:
        """The rows of many sentences at once.

        Args:
            numbers: int32 (w), the words' indices in the table.
            words: (w), their text.
            every_r: each int32 (w), their attachments, counted from the beginning of each sentence; then
                those of trees binarized right and left, if the written ones are to be compared with these.
            sentences: int64 (s + 1), their beginnings, and the last one's end.
            constituents: their constituents, if the shards have them.
            graphs: (s) their dependencies, likewise.
        """
        n_rows, n_words = len(sentences) - 1, len(numbers)
        # ROOT and EOS are words of their own: a row of n words has n + 2.
        begins = sentences + 2 * np.arange(n_rows + 1)  # (s + 1)
        roots, ends = begins[:-1], begins[1:] - 1  # (s)
        lengths = np.diff(begins)
        is_word = np.ones(n_words + 2 * n_rows, dtype=bool)
        is_word[roots] = is_word[ends] = False
        sequence = np.empty(len(is_word), dtype=np.int32)
        sequence[is_word], sequence[roots], sequence[ends] = numbers, WordTable.ROOT, WordTable.EOS
        word = np.arange(-1, len(is_word) - 1, dtype=np.int32)
        word -= np.repeat(begins[:-1], lengths).astype(np.int32)
        word[ends] = -1
        tokens, counts = self._table.tokens(sequence)
        token_begins = np.concatenate([[0], np.cumsum(counts)])[begins]

        def attached(r: Int32, branching: Factor) -> Int32:
            attach = np.zeros(len(is_word), dtype=np.int32)  # ROOT and EOS attach to ROOT
            attach[is_word] = r + np.int32(1)
            if len(tokens) > len(sequence):
                attach += np.repeat(begins[:-1], lengths).astype(np.int32)
                attach = expand_attachments(attach, counts, branching)
                attach -= np.repeat(token_begins[:-1], np.diff(token_begins)).astype(np.int32)
            return attach

        attach = attached(every_r[0], self.settings.branching)
        if len(tokens) > len(sequence):
            word = np.repeat(word, counts)
        more: dict[str, Any] = {
            f"n_not_{factor}": int((attach != attached(r, factor)).sum())
            for factor, r in zip(get_args(Factor), every_r[1:], strict=False)
        }
        if constituents is not None:
            more["constituents"] = self._over_tokens(constituents, numbers), constituents.bounds
            more["n_wrapped"] = int(constituents.wrapped.sum())
            more["n_rewritten"] = int(constituents.rewritten.sum())
        return make_rows(
            join_lists(words, sentences.astype(np.int32)),
            tokens,
            attach,
            word,
            token_begins,
            n_words=n_words,
            n_unknown=int(np.count_nonzero(self._table.unknown[numbers])),
            graphs=graphs,
            **more,
        )

    def _over_tokens(self, constituents: ChunkConstituents, numbers: Int32) -> Constituents:
        """Convert constituents over words to constituents over tokens, with the tokenizer's label indices."""
        flat = constituents.flat
        known = self.tokenizer.label_ids
        labels = np.array([known.get(name, -1) for name in constituents.names], dtype=np.int32)[flat.labels]
        opens, closes = expand_constituents(flat.opens, flat.closes, self._table.counts[numbers])
        return Constituents(labels, opens, closes)


@dataclass(frozen=True, slots=True)
class _About:
    """The metadata of a chunk's rows."""

    n_trees: int
    counts: tuple[int, ...]
    left_out: tuple[ExcludedInput, ...]
    documents: tuple[tuple[str, int], ...]


@lru_cache(maxsize=1)  # a worker gets its work anew with each chunk
def _word_table(tokenizer: Tokenizer) -> WordTable:
    return WordTable(tokenizer)


@dataclass(frozen=True, slots=True, eq=False)
class ChunkWords:
    """The words and labels of a chunk, with their counts.

    Attributes:
        n_trees: number of trees.
        counts: counts of words, without escapes; empty in ``raw`` style.
        labels: counts of constituents' labels.
        sentences: in ``raw`` style, the words.
    """

    n_trees: int
    counts: Mapping[str, int]
    labels: Mapping[str, int]
    sentences: tuple[Sentence, ...] = ()

    def __len__(self) -> int:
        return self.n_trees


@dataclass(frozen=True, slots=True)
class CountWork(Work[FileChunk, ChunkWords | None]):
    """Counts the words and labels of chunks; the result is None where :func:`parse_chunk`'s is.

    Attributes:
        text_style: the words' style; None: they are not counted.
        labels: whether labels are counted.
    """

    kept, may_be_none = ChunkWords, True
    text_style: str | None
    labels: bool

    def __call__(self, chunk: FileChunk) -> ChunkWords | None:
        arrays = parse_chunk(chunk, with_nodes=self.labels)
        if arrays is None:
            return None
        kept = np.ones(len(arrays), dtype=bool)
        kept[list(unusable_trees(arrays))] = False
        labels = _count_labels(arrays, kept) if self.labels else {}
        if self.text_style == "raw":
            trees = (arrays.source(i) for i in np.flatnonzero(kept).tolist())
            sentences = tuple(usable_sentences(trees, "raw"))
            return ChunkWords(len(arrays), {}, labels, sentences)
        words = _count_words(arrays, kept) if self.text_style == "ptb" else {}
        return ChunkWords(len(arrays), words, labels)

    def of_tree(self, sourced: SourcedTree) -> ChunkWords:
        """The same of one tree."""
        labels = Counter(labels_of(sourced.tree)) if self.labels else {}
        sentences = tuple(usable_sentences([sourced], self.text_style)) if self.text_style else ()
        if self.text_style == "raw":
            return ChunkWords(1, {}, labels, sentences)
        return ChunkWords(1, Counter(word for each in sentences for word in each.words), labels)

    def digest(self, chunk: FileChunk) -> str:
        return chunk.digest()


def _count_words(arrays: TreeArrays, kept: Bool) -> dict[str, int]:
    """The number of occurrences of each word, without escapes, in the kept trees (s)."""
    words = arrays.words()
    if not kept.all():
        words = words.filter(arrow_array(np.repeat(kept, np.diff(arrays.sentences))))
    counts: Counter[str] = Counter()
    for word, count in count_words(words).items():
        counts[unescape(word)] += count
    return counts


def _count_labels(arrays: TreeArrays, kept: Bool) -> dict[str, int]:
    """The number of occurrences of each constituent label in the kept trees (s)."""
    found = chunk_constituents(arrays).kept(kept, np.repeat(kept, np.diff(arrays.sentences)))
    counts = np.bincount(found.flat.labels, minlength=len(found.names)).tolist()
    return {name: count for name, count in zip(found.names, counts, strict=True) if count}


def unusable_trees(arrays: TreeArrays) -> dict[int, str]:
    """The trees that :func:`pdtools.shards.plain.usable_tree` refuses, and why."""
    lengths = np.diff(arrays.sentences)
    reasons = dict.fromkeys(np.flatnonzero(lengths == 0).tolist(), NO_WORDS)
    for i in _maybe_placeholders(arrays, lengths):
        refused = usable_tree(arrays.source(i).tree)
        if isinstance(refused, str):
            reasons[i] = refused
    return reasons


def _maybe_placeholders(arrays: TreeArrays, lengths: Int64) -> list[int]:
    """The trees that may be flat with all words tagged ``XX``, however they are binarized."""
    text = np.frombuffer(arrays.data, dtype=np.uint8)
    first, second = text[arrays.tag_starts], text[arrays.tag_starts + 1]  # at least a space follows a tag
    maybe: Bool = (first == ord(UNKNOWN_TAG[0])) & (second == ord(UNKNOWN_TAG[1]))
    maybe |= first == ord("|")  # bars at the beginning do not count
    if not maybe.any():
        return []
    k = np.arange(len(maybe)) - np.repeat(arrays.sentences[:-1], lengths)
    ends = k == np.repeat(lengths, lengths) - 1
    maybe &= attachments_between(arrays.between, arrays.sentences, "right") == np.where(ends, 0, k)
    before = np.concatenate([[0], np.cumsum(maybe)])[arrays.sentences]
    return np.flatnonzero((np.diff(before) == lengths) & (lengths > 0)).tolist()
