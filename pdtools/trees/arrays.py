"""Many bracketed trees as arrays: words, sentences and attachments, without Python work per node.

Only the ordinary form is read here: balanced UTF-8 brackets in which every word has a bracket of its
own, ``(DT the)``, every bracket holds a word, and no tree is too long. Everything else is left to
:func:`pdtools.trees.read_trees`, which knows the faults.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, fields
from functools import cached_property
from itertools import accumulate
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from pdtools.files import source_of
from pdtools.files.arrow import arrow_array
from pdtools.trees.chunks import FileChunk, cut_chunks, last_tree
from pdtools.trees.reader import MAX_TREE_CHARS, SourcedTree
from pdtools.trees.transforms import FOREIGN_LABELS, TRACE_TAGS, is_empty_leaf
from pdtools.trees.tree import BLANK_LINE, Binarization, Factor, Tree

if TYPE_CHECKING:
    import pyarrow as pa

Bool = NDArray[np.bool_]
Int32 = NDArray[np.int32]
Int64 = NDArray[np.int64]
Bytes = NDArray[np.uint8]

_STRETCH_BYTES = 1 << 18
_PLACES = {
    *("tree_starts", "tree_ends", "word_starts", "word_ends", "tag_starts"),
    *("label_starts", "label_ends"),
}

_OPEN, _CLOSE, _NEWLINE = ord("("), ord(")"), ord("\n")
_SPACES = b" \t\n\r\f\v"
_TRACES = [tag.encode() for tag in TRACE_TAGS]
_FOREIGN = [label.encode() for label in FOREIGN_LABELS]
_SECOND = np.zeros(256, dtype=np.uint8)  # the second letter of labels that begin with a letter
for _label in _FOREIGN:
    _SECOND[_label[0]] = _label[1]


@dataclass(frozen=True, eq=False)
class Nodes:
    """The m constituents of some trees as written, in pre-order, tree by tree.

    Nodes made by binarization and nodes without words (but traces) are not among them; wrappers are, and
    unary chains are kept.

    Attributes:
        label_starts, label_ends: int64 (m), each label is ``data[start:end]``.
        opens, closes: int32 (w), the numbers of constituents that open just before and close just after a
            word.
    """

    label_starts: Int64
    label_ends: Int64
    opens: Int32
    closes: Int32


@dataclass(frozen=True, eq=False)
class TreeArrays:
    """The s trees of a chunk of files, with the w words that are no traces.

    Attributes:
        chunk: the chunk that was read.
        data: its contents, concatenated: the bytes that the offsets count in.
        tree_starts, tree_ends: int64 (s), each tree's brackets are ``data[start:end]``.
        sentences: int64 (s + 1), the words of tree i are ``sentences[i]`` to ``sentences[i + 1]``; a tree
            of traces only has none.
        word_starts, word_ends: int64 (w), each word as the treebank writes it is ``data[start:end]``.
        tag_starts: int64 (w), the beginning of each word's tag.
        between: int32 (w), the fewest brackets open between a word and the next; -1 after the last one.
        attachments: int32 (w), ``attachments(normalize(tree), factor)`` of each tree, concatenated; if
            binarization is ``given``, those of the tree with its groups.
        nodes: the constituents, if requested.
    """

    chunk: FileChunk
    data: bytes
    tree_starts: Int64
    tree_ends: Int64
    sentences: Int64
    word_starts: Int64
    word_ends: Int64
    tag_starts: Int64
    between: Int32
    attachments: Int32
    nodes: Nodes | None = None

    def __len__(self) -> int:
        return len(self.tree_starts)

    def words(self) -> pa.StringArray:
        """The w words, as the treebank writes them."""
        return self.texts(self.word_starts, self.word_ends)

    def texts(self, starts: Int64, ends: Int64) -> pa.StringArray:
        """The texts ``data[start:end]`` (n), given in the order of their places."""
        import pyarrow as pa

        # Strings that lie one behind the other: what stands between the texts, and the texts.
        n = len(starts)
        bounds = np.empty(2 * n + 2, dtype=np.int32)
        bounds[0], bounds[-1] = 0, len(self.data)
        bounds[1:-1:2], bounds[2:-1:2] = starts, ends
        stretches = pa.StringArray.from_buffers(2 * n + 1, pa.py_buffer(bounds), pa.py_buffer(self.data))
        return stretches.take(arrow_array(np.arange(1, 2 * n + 1, 2, dtype=np.int32)))

    def place(self, index: int) -> tuple[str, int, str]:
        """A tree's file, first line and text, as in a SourcedTree."""
        number, line = self._file_numbers[index], int(self._lines[index])
        text = self.data[self.tree_starts[index] : self.tree_ends[index]].decode("utf-8")
        return self.chunk.files[number], line, text.replace("\r\n", "\n")

    def blank_lines(self) -> list[int]:
        """Indices of the trees that stand for blank lines (:func:`pdtools.trees.placeholder`)."""
        empty = np.flatnonzero(np.diff(self.sentences) == 0).tolist()
        starts, ends, blank = self.tree_starts, self.tree_ends, BLANK_LINE.encode()
        return [i for i in empty if self.data[starts[i] : ends[i]] == blank]

    def documents(
        self, kept: Bool, ends: Iterable[int] = (), *, at_blanks: bool
    ) -> tuple[tuple[str, int], ...]:
        """The documents of the trees: for each, its file and its number of kept trees.

        Args:
            kept: bool (s), which trees count.
            ends: trees that end a document.
            at_blanks: whether documents end at blank lines too, and not only at ends of files. Then the
                last one may have no trees: the chunk ends with a blank line.
        """
        begins = np.diff(self._file_numbers, prepend=self._file_numbers[0]) != 0  # (s)
        last = []
        if at_blanks:
            # Only white space separates trees: two line ends make a blank line.
            starts = np.append(self.tree_starts, len(self.data))
            before = np.searchsorted(self._newlines, starts) - np.searchsorted(
                self._newlines, np.append(0, self.tree_ends)
            )
            begins |= before[:-1] > 1
            begins[list(ends)] = True
            last = [(self.chunk.files[-1], 0)] if before[-1] > 1 else []
        of_document = np.cumsum(begins)  # (s)
        counts = np.bincount(of_document, weights=kept).astype(int).tolist()
        firsts = np.searchsorted(of_document, np.arange(len(counts)))
        names = [self.chunk.files[i] for i in self._file_numbers[firsts].tolist()]
        return (*zip(names, counts, strict=True), *last)

    @cached_property
    def _file_starts(self) -> Int64:
        return np.array([0, *accumulate(map(len, self.chunk.contents or ()))])[:-1]

    @cached_property
    def _file_numbers(self) -> Int64:
        """Int64 (s), the index of each tree's file in the chunk."""
        return np.searchsorted(self._file_starts, self.tree_starts, side="right") - 1

    @cached_property
    def _lines(self) -> Int64:
        """Int64 (s), the line of its file that each tree starts on."""
        before = np.searchsorted(self._newlines, self._file_starts)[self._file_numbers]
        return np.searchsorted(self._newlines, self.tree_starts) - before + self.chunk.first_line

    @cached_property
    def _newlines(self) -> Int64:
        """Int64, positions of the line ends in the data."""
        return np.flatnonzero(np.frombuffer(self.data, dtype=np.uint8) == _NEWLINE)

    def source(self, index: int) -> SourcedTree:
        """One tree, as :func:`pdtools.trees.read_trees` gives it."""
        file, line, text = self.place(index)
        return SourcedTree(Tree.from_brackets(text), file, line, text)


def parse_chunk(
    chunk: FileChunk, factor: Binarization = "right", *, with_nodes: bool = False
) -> TreeArrays | None:
    """The trees of a chunk; None if they are not all in the ordinary form, or there are none."""
    if chunk.contents is None:
        return None
    data = b"".join(chunk.contents)
    parts: list[dict[str, NDArray[Any]]] = []
    start = n_words = 0
    while start < len(data):
        # A stretch is a part that ends before a tree, short enough for its arrays to stay in the cache.
        end = start + _STRETCH_BYTES
        stretch = data[start:end]
        if end < len(data) and (cut := last_tree(stretch)) and not stretch[:cut].isspace():
            stretch = stretch[:cut]
        elif end < len(data):
            stretch = data[start:]
        part = _parse(stretch, factor, with_nodes)
        if part is None:
            return None
        for name in _PLACES & part.keys():
            part[name] += start
        part["sentences"] += n_words
        parts.append(part)
        start, n_words = start + len(stretch), n_words + len(part["attachments"])
    if not parts:
        return None
    joined = {name: np.concatenate([part[name] for part in parts]) for name in parts[0]}
    if not _are_in_files(joined["tree_starts"], joined["tree_ends"], chunk.contents):
        return None
    joined["sentences"] = np.append(joined["sentences"], n_words)
    nodes = Nodes(**{field.name: joined.pop(field.name) for field in fields(Nodes)}) if with_nodes else None
    return TreeArrays(chunk=chunk, data=data, nodes=nodes, **joined)


def count_trees(files: Iterable[str]) -> int | None:
    """The number of trees in files, in a tenth of the time that reading them takes.

    None if a file can be read only once, reading takes long, or not all trees are in the ordinary form.
    """
    number, files = 0, list(files)
    if any(source_of(file).is_far for file in files):
        return None
    for chunk in cut_chunks(files):
        arrays = parse_chunk(chunk)
        if arrays is None:
            return None
        number += len(arrays)
    return number


def _parse(data: bytes, factor: Binarization, with_nodes: bool) -> dict[str, NDArray[Any]] | None:
    """The fields of a :class:`TreeArrays` of these bytes, ``sentences`` without its last entry."""
    text = np.frombuffer(data, dtype=np.uint8)  # (bytes)
    # Events are brackets and the first bytes of labels and words.
    brackets = (text & 0xFE) == _OPEN
    inside = ~(brackets | _are_spaces(text))
    is_event = brackets
    is_event[:1] |= inside[:1]
    is_event[1:] |= inside[1:] > inside[:-1]
    at = np.flatnonzero(is_event)  # (events) where each begins
    first_bytes = text[at]  # (events)
    opens, closes = first_bytes == _OPEN, first_bytes == _CLOSE
    # A text that does not follow an opening bracket is a word.
    is_word = ~(opens | closes)
    is_word[1:] &= ~opens[:-1]
    leaves = np.flatnonzero(is_word)  # (leaves) the events of all words, traces too
    if not len(leaves) or not opens[0] or not _is_ordinary(opens, closes, leaves) or not _is_text(data):
        return None
    steps = opens.view(np.int8) - closes.view(np.int8)
    depths = np.cumsum(steps, dtype=np.int32)  # (events) brackets open after each
    if depths[-1] != 0 or depths.min() < 0:
        return None
    lasts = np.flatnonzero(depths == 0)  # (trees) the events that end them
    tree_ends = at[lasts] + 1
    tree_starts = at[np.concatenate([[0], lasts[:-1] + 1])]
    if (tree_ends - tree_starts).max() > MAX_TREE_CHARS:
        return None
    artificial = _artificial_nodes(data, text, at, opens)
    artificial = artificial[depths[artificial] > 1]  # the top node stays, whatever its label
    grouped = depths
    if len(artificial):
        depths = np.cumsum(_without(steps, opens, closes, depths, artificial), dtype=np.int32)

    # A leaf is followed by closing brackets until the next one opens, where the fewest are open.
    turns = np.flatnonzero(closes[:-1] & opens[1:])
    last_events = np.append(turns, len(depths) - 1)
    between, among = depths[last_events], grouped[last_events]  # (leaves) without artificial nodes, and with
    kept, with_traces = ~_are_traces(text, at[leaves - 1]), leaves
    if not kept.all():
        between, among = _over_traces(between, kept), _over_traces(among, kept)
        leaves = leaves[kept]
    if _are_refused(data, text, at, first_bytes, leaves):
        return None
    sentences = np.concatenate([[0], np.searchsorted(leaves, lasts)])
    last_words = sentences[1:][np.diff(sentences) > 0] - 1
    between[last_words] = among[last_words] = -1
    nodes = {}
    if with_nodes:
        is_node = opens.copy()
        is_node[with_traces - 2] = is_node[artificial] = False  # (DT the) is none
        nodes = _nodes(text, at, opens, np.flatnonzero(is_node), depths, with_traces, kept, between)
    return {
        **nodes,
        "tree_starts": tree_starts,
        "tree_ends": tree_ends,
        "sentences": sentences[:-1],
        "word_starts": at[leaves],
        "word_ends": _ends(text, at[leaves + 1]),
        "tag_starts": at[leaves - 1],
        "between": between,
        "attachments": attachments_between(among, sentences, "right")
        if factor == "given"
        else attachments_between(between, sentences, factor),
    }


def _nodes(
    text: Bytes,
    at: Int64,
    opens: Bool,
    nodes: Int64,
    depths: Int32,
    leaves: Int64,
    kept: Bool,
    between: Int32,
) -> dict[str, NDArray[Any]]:
    """The fields of :class:`Nodes`, from the events (``at``, ``opens``, ``depths``) of some bytes.

    Args:
        nodes: the events that open constituents, with or without words in them.
        leaves: the events of words and traces.
        kept: bool, which of these are words.
        between: int32 (w), see :class:`TreeArrays`.
    """
    words = leaves[kept]
    over = depths[words] - np.int32(1)  # (w) constituents over each word
    after = np.maximum(between, 0)  # (w) constituents over it and the next word
    before = np.append(np.int32(0), after[:-1])[: len(over)]
    if len(words) < len(leaves):
        nodes = nodes[_are_filled(nodes, depths[nodes], words, leaves[~kept], over, before)]
    has_label = ~opens[nodes + 1]
    return {
        "label_starts": np.where(has_label, at[nodes + 1], at[nodes] + 1),
        "label_ends": _ends(text, at[nodes + 1 + has_label]),
        "opens": over - before,
        "closes": over - after,
    }


def _are_filled(nodes: Int64, depths: Int32, words: Int64, traces: Int64, over: Int32, before: Int32) -> Bool:
    """Return which constituents, given by their opening events and depths, have words in them.

    Constituents between two words have words, unless traces are there too. Then the word is in the last one
    of each depth that is open at it, but not at the word before; the others are closed again before it.
    """
    gaps = np.unique(np.searchsorted(words, traces))  # the words before which there are traces
    events = np.concatenate([[-1], words, [np.iinfo(np.int64).max]])
    first, past = np.searchsorted(nodes, events[gaps]), np.searchsorted(nodes, events[gaps + 1])
    doubtful, word = ranges(first, past - first), np.repeat(gaps, past - first)
    depths = depths[doubtful]
    order = np.lexsort((depths, word))  # stable: of the same word and depth, in their order
    is_last = np.ones(len(order), dtype=bool)
    is_last[:-1] = (np.diff(word[order]) != 0) | (np.diff(depths[order]) != 0)
    filled = np.ones(len(nodes), dtype=bool)
    filled[doubtful[order]] = is_last
    filled[doubtful] &= (depths > np.append(before, 0)[word]) & (depths <= np.append(over, 0)[word])
    return filled


def ranges(starts: Int64, lengths: Int64) -> Int64:
    """The concatenated ranges ``start, …, start + length - 1``."""
    return np.repeat(starts - np.cumsum(lengths) + lengths, lengths) + np.arange(lengths.sum())


def _are_spaces(text: Bytes) -> Bool:
    # In unsigned bytes, only 9 to 13 stay below 5.
    return (text == ord(" ")) | (text - np.uint8(ord("\t")) < 5)


def _is_ordinary(opens: Bool, closes: Bool, leaves: Int64) -> bool:
    """Return whether every word is between a label and a closing bracket, and every bracket holds a word."""
    if leaves[0] < 2 or leaves[-1] + 1 == len(opens) or not closes[leaves + 1].all():
        return False
    before = leaves - 1  # a label: no bracket, and an opening one before it
    if (opens[before] | closes[before]).any() or not opens[before - 1].all():
        return False
    # A closing bracket follows a word or another one: as many follow a word as there are words.
    follows = closes[1:] & closes[:-1]
    return int(np.count_nonzero(follows)) + len(leaves) == int(np.count_nonzero(closes))


def _is_text(data: bytes) -> bool:
    """Return whether these bytes are UTF-8 without NULs."""
    try:
        return (data.isascii() or bool(data.decode("utf-8"))) and b"\0" not in data
    except UnicodeDecodeError:
        return False


def _are_in_files(tree_starts: Int64, tree_ends: Int64, contents: tuple[bytes, ...]) -> bool:
    """Return whether no tree is in two files, and no file without trees."""
    file_ends = np.array(list(accumulate(map(len, contents))))
    first = np.searchsorted(file_ends, tree_starts, side="right")  # (trees) the file of each
    last = np.searchsorted(file_ends, tree_ends, side="left")
    return bool((first == last).all() and first[0] == 0 and first[-1] == len(contents) - 1) and bool(
        (np.diff(first) <= 1).all()
    )


def _are_traces(text: Bytes, tags: Int64) -> Bool:
    """Return which tags, given by their beginnings, are traces' tags. A space follows each tag."""
    found = text[tags] == ord("-")
    maybe = np.flatnonzero(found)
    found[maybe] = False
    for tag in _TRACES:
        same = maybe
        for place, letter in enumerate(tag[1:], 1):
            same = same[text[tags[same] + place] == letter]
        found[same[_are_spaces(text[tags[same] + len(tag)])]] = True
    return found


def _are_refused(data: bytes, text: Bytes, at: Int64, first_bytes: Bytes, leaves: Int64) -> bool:
    """Return whether a tree has a form that :func:`pdtools.trees.transforms.refused_form` refuses.

    Args:
        leaves: the events of words, without traces.
    """
    begins = first_bytes == _FOREIGN[0][0]
    for label in _FOREIGN[1:]:
        begins |= first_bytes == label[0]
    labels = np.flatnonzero(begins)
    labels = labels[text[at[labels] + 1] == _SECOND[first_bytes[labels]]]
    labels = labels[first_bytes[labels - 1] == _OPEN]
    if any(data[at[i] : at[i + 1]].strip(_SPACES) in _FOREIGN for i in labels.tolist()):
        return True
    firsts = first_bytes[leaves]
    zeros = leaves[firsts == ord("0")]
    after = text[at[zeros] + 1]
    if (after == ord("=")).any():  # perhaps a leaf with its number
        return True
    zeros = zeros[(after == _CLOSE) | _are_spaces(after)]
    for leaf in [*leaves[firsts == ord("*")].tolist(), *zeros.tolist()]:
        tag, word = (data[at[i] : at[i + 1]].strip(_SPACES).decode() for i in (leaf - 1, leaf))
        if is_empty_leaf(tag, word):
            return True
    return False


def _over_traces(between: Int32, kept: Bool) -> Int32:
    """The fewest brackets open between kept leaves, from the values between all leaves."""
    places = np.flatnonzero(kept)
    fewest: Int32 = np.minimum.reduceat(between, places) if len(places) else between[:0]
    return fewest


def _ends(text: Bytes, ends: Int64) -> Int64:
    """The ends of texts, from the next brackets or texts after them, perhaps after spaces."""
    loose = np.flatnonzero(_are_spaces(text[ends - 1]))
    ends = ends.copy()
    while len(loose):
        ends[loose] -= 1
        loose = loose[_are_spaces(text[ends[loose] - 1])]
    return ends


def _artificial_nodes(data: bytes, text: Bytes, at: Int64, opens: Bool) -> Int64:
    """The opening brackets of nodes that binarization made (``VP|<NP-PP>``)."""
    if b"|" not in data:
        return np.zeros(0, dtype=np.int64)
    bars = np.flatnonzero((text[:-1] == ord("|")) & (text[1:] == ord("<")))
    events = np.searchsorted(at, bars, side="right") - 1
    if not len(events):
        return events
    events = events[np.append(True, events[1:] != events[:-1])]
    ends = _ends(text, at[events + 1])
    # The label of a node, and not of a word: another bracket opens after it.
    return events[(text[ends - 1] == ord(">")) & opens[events - 1] & opens[events + 1]] - 1


def _without(
    steps: NDArray[np.int8], opens: Bool, closes: Bool, depths: Int32, nodes: Int64
) -> NDArray[np.int8]:
    """The steps in depth that remain when nodes, given by their opening brackets, are removed."""
    # Among the brackets of one depth, every opening one is followed by its closing one.
    brackets = np.flatnonzero(opens | closes)
    level = (depths + closes)[brackets]
    if level.max() < np.iinfo(np.int16).max:
        level = level.astype(np.int16)  # is sorted faster
    pairs = brackets[np.argsort(level, kind="stable")].reshape(-1, 2)
    closing = np.empty(len(steps), dtype=np.int64)
    closing[pairs[:, 0]] = pairs[:, 1]
    steps = steps.copy()
    steps[nodes] = 0
    steps[closing[nodes]] = 0
    return steps


def attachments_between(between: Int32, sentences: Int64, factor: Factor) -> Int32:
    """The attachments of many trees at once (the design's span rule, without spans).

    The fewest brackets open between two words are the depth of the smallest constituent over both. So,
    right-branching, the widest constituent that ends at word i reaches back over the words that more brackets
    separate from their next than separate i from its next, and its first child ends at the first one with the
    fewest. Left-branching, a constituent is split at the last one with the fewest.

    Args:
        between: int32 (w), the fewest brackets open between a word and the next; -1 at sentences' ends.
        sentences: int64 (s + 1), where sentences begin among the words.
        factor: how nodes of more than two children are binarized.
    """
    n = len(between)
    r = np.arange(n, dtype=np.int32)
    inside = np.flatnonzero(between >= 0)
    # The next word with fewer brackets (left: no more): over all words with no fewer, in ever longer leaps.
    goes_on = np.greater_equal if factor == "right" else np.greater
    leaps = np.arange(1, n + 1)
    active = inside
    while len(active):
        active = active[goes_on(between[leaps[active]], between[active])]
        leaps[active] = leaps[leaps[active]]
    backwards = inside[::-1]
    r[leaps[backwards]] = backwards  # for repeated indices numpy keeps the last value: the first word
    r -= np.repeat(sentences[:-1], np.diff(sentences)).astype(np.int32)
    return r
