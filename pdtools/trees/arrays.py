"""Whole files of bracketed trees as arrays: words, sentences, attachments, without Python work per node.

Only the ordinary form is read here: balanced UTF-8 brackets in which every word stands in a bracket of its
own, ``(DT the)``, and every bracket holds a word. Whatever else a file holds is left to
:func:`pdtools.trees.read_trees`, which knows what is wrong with it.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import accumulate, islice

import numpy as np
from numpy.typing import NDArray

from pdtools.errors import InputError
from pdtools.files import Rejects, is_stream, read_blocks
from pdtools.trees.reader import SourcedTree, read_trees
from pdtools.trees.transforms import TRACE_TAG
from pdtools.trees.tree import Tree

Int32 = NDArray[np.int32]
Int64 = NDArray[np.int64]

_BLOCK_BYTES = 1 << 23
_BYTE_ORDER_MARK = b"\xef\xbb\xbf"
_TRACE = np.frombuffer(TRACE_TAG.encode(), dtype=np.uint8)

# What a byte is, and what an event is: a bracket, or the first byte of a label or word.
_TEXT, _SPACE, _OPEN, _CLOSE = range(4)
_LABEL, _WORD = 0, 1
_CLASS_OF_BYTE = bytes(
    _SPACE if byte in b" \t\n\r\f\v" else {ord("("): _OPEN, ord(")"): _CLOSE}.get(byte, _TEXT)
    for byte in range(256)
)
_CLASSES = np.frombuffer(_CLASS_OF_BYTE, dtype=np.uint8)
_MAY_FOLLOW = np.zeros((4, 4), dtype=bool)  # [event, the next event] in the ordinary form
for _pair in (
    (_OPEN, _OPEN),
    (_OPEN, _LABEL),
    (_LABEL, _OPEN),
    (_LABEL, _WORD),
    (_WORD, _CLOSE),
    (_CLOSE, _CLOSE),
    (_CLOSE, _OPEN),
):
    _MAY_FOLLOW[_pair] = True
_STEP = np.zeros(4, dtype=np.int8)
_STEP[_OPEN], _STEP[_CLOSE] = 1, -1


@dataclass(frozen=True, slots=True, eq=False)
class TreeArrays:
    """The s trees of some files, or of a part of one, with the w words that are no traces.

    Attributes:
        files: the names of the files.
        data: the bytes that the offsets count in.
        file_numbers: int64 (s), which of the files each tree is from.
        lines: int64 (s), the line of its file (from 1) that each tree starts on.
        tree_starts, tree_ends: int64 (s), each tree's brackets are ``data[start:end]``.
        sentences: int64 (s + 1), the words of tree i are ``sentences[i]`` to ``sentences[i + 1]``; a tree
            of traces only has none.
        word_starts, word_ends: int64 (w), each word as the treebank writes it is ``data[start:end]``.
        tag_starts: int64 (w), where its tag begins.
        attachments: int32 (w), what ``attachments(normalize(tree))`` is for each tree, one after the other.
    """

    files: tuple[str, ...]
    data: bytes
    file_numbers: Int64
    lines: Int64
    tree_starts: Int64
    tree_ends: Int64
    sentences: Int64
    word_starts: Int64
    word_ends: Int64
    tag_starts: Int64
    attachments: Int32

    def __len__(self) -> int:
        return len(self.lines)

    def packed_words(self) -> tuple[NDArray[np.uint8], Int32]:
        """The words one after the other, in UTF-8, as Arrow's strings are laid out.

        Returns:
            uint8 (bytes of all words), and int32 (w + 1), where each word begins and the last one ends.
        """
        lengths = self.word_ends - self.word_starts
        offsets = np.concatenate([[0], np.cumsum(lengths)])
        places = np.arange(offsets[-1]) + np.repeat(self.word_starts - offsets[:-1], lengths)
        return np.frombuffer(self.data, dtype=np.uint8)[places], offsets.astype(np.int32)

    def source(self, index: int) -> SourcedTree:
        """One of the trees, as :func:`pdtools.trees.read_trees` gives it."""
        data = self.data[self.tree_starts[index] : self.tree_ends[index]]
        text = data.decode("utf-8").replace("\r\n", "\n")
        file = self.files[self.file_numbers[index]]
        return SourcedTree(Tree.from_brackets(text), file, int(self.lines[index]), text)


def read_arrays(
    files: Iterable[str], rejects: Rejects, *, block_bytes: int = _BLOCK_BYTES
) -> Iterator[TreeArrays | SourcedTree]:
    """Read the trees of files, one after the other, many at once.

    From where a file leaves the ordinary form, its trees come one by one, as
    :func:`pdtools.trees.read_trees` reads them; so do the trees of standard input and of pipes, which cannot
    be read twice.

    Args:
        files: paths (``-``: standard input); compressed by suffix.
        rejects: takes what cannot be read.
        block_bytes: how much is looked at together: a part of a file, or several files.

    Raises:
        InputError: as :func:`pdtools.trees.read_trees` does.
    """
    group: list[tuple[str, bytes]] = []
    group_bytes = 0
    for file in files:
        blocks = iter(()) if is_stream(file) else read_blocks(file, block_bytes)
        try:
            first = next(blocks, None)
        except InputError:
            first = None  # the plain reader says so when its turn comes
        if first is not None and len(first) < block_bytes:
            group.append((file, first.removeprefix(_BYTE_ORDER_MARK)))
            group_bytes += len(first)
        if first is None or group_bytes >= block_bytes or len(first) == block_bytes:
            yield from _read_group(group, rejects)
            group, group_bytes = [], 0
        if first is None:
            yield from read_trees([file], rejects)
        elif len(first) == block_bytes:
            yield from _read_long(file, first, blocks, rejects)
    yield from _read_group(group, rejects)


def _read_group(group: list[tuple[str, bytes]], rejects: Rejects) -> Iterator[TreeArrays | SourcedTree]:
    """The trees of short files: all at once, or else file by file."""
    files = tuple(file for file, _ in group)
    arrays = _parse(files, [data for _, data in group])
    if arrays is not None:
        yield arrays
    elif len(group) > 1:
        for file, data in group:
            yield from _read_group([(file, data)], rejects)
    else:
        yield from read_trees(files, rejects)


def _read_long(
    file: str, first: bytes, blocks: Iterator[bytes], rejects: Rejects
) -> Iterator[TreeArrays | SourcedTree]:
    """The trees of a long file, block by block as long as it keeps the ordinary form."""
    n_read, line = 0, 1
    data, whole = first.removeprefix(_BYTE_ORDER_MARK), False
    while True:
        arrays = _parse((file,), [data], first_line=line, whole=whole)
        if arrays is None:
            yield from islice(read_trees([file], rejects), n_read, None)
            return
        yield arrays
        if whole:
            return
        n_read += len(arrays)
        line += arrays.data.count(b"\n")
        try:
            block = next(blocks, b"")
        except InputError:
            block = b"("  # damaged: nothing that balances, so the plain reader takes over
        whole = len(block) < len(first)
        # What was left out may go on here.
        data = data[len(arrays.data) :] + block


def _parse(
    files: tuple[str, ...], contents: Sequence[bytes], *, first_line: int = 1, whole: bool = True
) -> TreeArrays | None:
    """The trees of some files; None if they are not in the ordinary form.

    Args:
        files: the names of the files.
        contents: what is in each.
        first_line: the line that the first content begins on.
        whole: whether the last tree ends here; if not, it is left out, and others that share a line with it.
    """
    data = b"".join(contents)
    classes = np.frombuffer(data.translate(_CLASS_OF_BYTE), dtype=np.uint8)  # (bytes)
    is_text = classes == _TEXT
    is_event = classes > _SPACE
    is_event[:1] |= is_text[:1]
    is_event[1:] |= is_text[1:] > is_text[:-1]
    at = np.flatnonzero(is_event)  # (events) where each begins
    kinds = classes[at]  # (events)
    if not len(kinds) or kinds[0] != _OPEN:
        return None
    # A text that does not follow an opening bracket is a word.
    kinds[1:] += (kinds[1:] == _TEXT) & (kinds[:-1] != _OPEN)
    depths = np.cumsum(_STEP[kinds], dtype=np.int32)  # (events) brackets open after each
    firsts = np.flatnonzero((depths == 1) & (kinds == _OPEN))  # (trees) the events that begin them
    newlines = np.flatnonzero(np.frombuffer(data, dtype=np.uint8) == ord("\n"))
    if not whole:
        # End before a tree that begins a line: the rest of a line can still be wrong for all that is in it.
        later = firsts[1:]
        begins_line = np.searchsorted(newlines, at[later]) > np.searchsorted(newlines, at[later - 1])
        n_kept = 1 + np.flatnonzero(begins_line)[-1:]
        if not len(n_kept):
            return None
        end, firsts = firsts[n_kept[0]], firsts[: n_kept[0]]
        data, at, kinds, depths = data[: at[end]], at[:end], kinds[:end], depths[:end]
    ordinary = depths[-1] == 0 and depths.min() == 0 and _MAY_FOLLOW[kinds[:-1], kinds[1:]].all()
    if not ordinary or not _is_utf8(data):
        return None
    lasts = np.flatnonzero(depths == 0)  # (trees) the events that end them
    file_starts = np.array([0, *accumulate(map(len, contents))])[:-1]  # (files)
    file_numbers = np.searchsorted(file_starts, at[firsts], side="right") - 1
    last_numbers = np.searchsorted(file_starts, at[lasts], side="right") - 1
    if (file_numbers != last_numbers).any() or len(np.unique(file_numbers)) < len(files):
        return None  # a tree over two files, or a file without trees

    words = np.flatnonzero(kinds == _WORD)
    words = words[~_are_traces(data, at[words - 1])]
    sentences = np.concatenate([[0], np.searchsorted(words, lasts)])
    word_ends = at[words + 1]
    while (is_loose := classes[word_ends - 1] == _SPACE).any():
        word_ends -= is_loose
    lines_before = np.searchsorted(newlines, file_starts)  # (files)
    return TreeArrays(
        files=files,
        data=data,
        file_numbers=file_numbers,
        lines=np.searchsorted(newlines, at[firsts]) - lines_before[file_numbers] + first_line,
        tree_starts=at[firsts],
        tree_ends=at[lasts] + 1,
        sentences=sentences,
        word_starts=at[words],
        word_ends=word_ends,
        tag_starts=at[words - 1],
        attachments=_attachments(_original_depths(data, at, kinds, depths), words, sentences),
    )


def _is_utf8(data: bytes) -> bool:
    try:
        data.decode("utf-8")
    except UnicodeDecodeError:
        return False
    return True


def _are_traces(data: bytes, tags: Int64) -> NDArray[np.bool_]:
    """Which of the tags, given by where they begin, are ``-NONE-``. After a tag there is a space at least."""
    text = np.frombuffer(data, dtype=np.uint8)
    found = text[tags] == _TRACE[0]
    maybe = np.flatnonzero(found)
    places = tags[maybe, None] + np.arange(len(_TRACE) + 1)
    letters = text[np.minimum(places, len(text) - 1)]  # (maybe, 7)
    found[maybe] = (letters[:, :-1] == _TRACE).all(axis=1) & (_CLASSES[letters[:, -1]] == _SPACE)
    return found


def _original_depths(data: bytes, at: Int64, kinds: NDArray[np.uint8], depths: Int32) -> Int32:
    """The brackets open after each event, without those that binarization made (``VP|<NP-PP>``)."""
    text = np.frombuffer(data, dtype=np.uint8)
    if b"|<" not in data:
        return depths
    bars = np.flatnonzero((text[:-1] == ord("|")) & (text[1:] == ord("<")))
    events = np.unique(np.searchsorted(at, bars, side="right") - 1)
    # A label ends before the next event and before the space between, if there is any.
    ends = at[events + 1]
    while (is_loose := _CLASSES[text[ends - 1]] == _SPACE).any():
        ends -= is_loose
    artificial = events[(text[ends - 1] == ord(">")) & (kinds[events - 1] == _OPEN)] - 1  # opening brackets
    # Of the brackets of one depth every opening one is followed by the one that closes it.
    brackets = np.flatnonzero(kinds >= _OPEN)
    level = depths[brackets] + (kinds[brackets] == _CLOSE)
    if level.max() < np.iinfo(np.int16).max:
        level = level.astype(np.int16)  # is sorted faster
    pairs = brackets[np.argsort(level, kind="stable")].reshape(-1, 2)
    closing = np.empty(len(kinds), dtype=np.int64)
    closing[pairs[:, 0]] = pairs[:, 1]
    step = _STEP[kinds]
    step[artificial] = 0
    step[closing[artificial]] = 0
    return np.cumsum(step, dtype=np.int32)


def _attachments(depths: Int32, words: Int64, sentences: Int64) -> Int32:
    """The attachments of many trees at once, right-branching (the design's span rule, without spans).

    The fewest brackets open between two words are the depth of the smallest constituent over both. So the
    widest constituent that ends at word i reaches back over the words that more brackets separate from
    their next than separate i from its next, and its first child ends at the first one with the fewest.

    Args:
        depths: int32 (events), the brackets open after each event.
        words: int64 (w), the words' events.
        sentences: int64 (s + 1), where sentences begin among the words.
    """
    n = len(words)
    if not n:
        return np.zeros(0, dtype=np.int32)
    between = np.minimum.reduceat(depths, words)  # (w) the fewest open between a word and the next
    between[sentences[1:][np.diff(sentences) > 0] - 1] = -1  # the last words of sentences
    # The next word with fewer brackets: over all that is known to have no fewer, in ever longer leaps.
    leaps = np.arange(1, n + 1)
    active = np.flatnonzero(between >= 0)
    while len(active):
        active = active[between[leaps[active]] >= between[active]]
        leaps[active] = leaps[leaps[active]]
    r = np.arange(n, dtype=np.int32)
    inside = np.flatnonzero(between >= 0)[::-1]
    r[leaps[inside]] = inside  # where an index repeats, numpy keeps the last value: the first word
    counts = np.diff(sentences)
    r -= np.repeat(sentences[:-1], counts).astype(np.int32)
    return r
