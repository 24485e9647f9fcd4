"""Labelled constituents as numbers, for models that write the tree into the string.

Constituents are nodes of the normalized tree, not binarized; collapsed chains (``S+VP``) are expanded
again. Tags are excluded. A constituent without a label is an ``X``, as is one put around a tree without any.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from pdtools.files.arrow import numpy_array
from pdtools.trees.arrays import TreeArrays, ranges
from pdtools.trees.transforms import WRAPPERS, clean_label, expand_unaries
from pdtools.trees.tree import UNKNOWN_LABEL, UNKNOWN_TAG, Tree, flat_tree

Bool = NDArray[np.bool_]
Int32 = NDArray[np.int32]
Int64 = NDArray[np.int64]


@dataclass(frozen=True, slots=True, eq=False)
class Constituents:
    """The m constituents over n tokens (or words) of a sentence, or of many sentences, concatenated.

    Attributes:
        labels: int32 (m), in pre-order, indices in a vocabulary of labels; -1 is none of them.
        opens: int32 (n), the number that open just before each token.
        closes: int32 (n), the number that close just after it.
    """

    labels: Int32
    opens: Int32
    closes: Int32


def labelled(tree: Tree) -> Tree:
    """A normalized tree with the constituents and labels defined above."""
    if not tree.labels:
        return flat_tree(tree.words, tree.tags)
    chains = expand_unaries(tree)
    return replace(chains, labels=tuple(label or UNKNOWN_LABEL for label in chains.labels))


def opens_and_closes(tree: Tree) -> tuple[Int32, Int32]:
    """The numbers of constituents that open before, and close after, each word: int32 (n) twice."""
    n = len(tree)
    opens, closes = np.bincount(tree.starts, minlength=n), np.bincount(tree.ends - 1, minlength=n)
    return opens.astype(np.int32), closes.astype(np.int32)


def tree_from_constituents(
    labels: Sequence[str], opens: ArrayLike, closes: ArrayLike, words: Sequence[str]
) -> Tree:
    """Build a tree from constituents; words are tagged ``XX``.

    Args:
        labels: (m), in pre-order.
        opens, closes: int (n), see :class:`Constituents`.
        words: (n).

    Raises:
        ValueError: unless openers and closers match, and there are as many labels as constituents.
    """
    starts: list[int] = []
    path: list[int] = []  # open constituents
    ends = [0] * len(labels)
    for k, (n_open, n_close) in enumerate(zip(np.asarray(opens), np.asarray(closes), strict=True)):
        path += range(len(starts), len(starts) + n_open)
        starts += [k] * n_open
        if n_close > len(path) or len(starts) > len(labels):
            raise ValueError("more closes than opens, or fewer labels than constituents")
        for _ in range(n_close):
            ends[path.pop()] = k + 1
    if path or len(starts) != len(labels):
        raise ValueError("more opens than closes, or more labels than constituents")
    return Tree.of(words, [UNKNOWN_TAG] * len(words), labels, starts, ends)


def expand_constituents(opens: Int32, closes: Int32, lengths: ArrayLike) -> tuple[Int32, Int32]:
    """Convert openers and closers of words to tokens': at a word's first token, and at its last.

    Args:
        opens, closes: int32 (w).
        lengths: int (w), the number of tokens of each word, at least one.

    Returns:
        opens, closes: int32 (n).
    """
    past = np.cumsum(lengths)
    n = int(past[-1]) if len(past) else 0
    if n == len(opens):
        return opens, closes
    token_opens, token_closes = np.zeros(n, np.int32), np.zeros(n, np.int32)
    token_opens[past - lengths], token_closes[past - 1] = opens, closes
    return token_opens, token_closes


@dataclass(frozen=True, eq=False)
class ChunkConstituents:
    """The m constituents of the s trees, with w words, of a chunk.

    Attributes:
        names: the labels that occur.
        flat: the constituents of all trees; labels are indices in ``names``, tokens are words.
        bounds: int64 (s + 1), the first constituent of each tree, and the end of the last tree's.
        wrapped: bool (s), which trees had none.
        rewritten: int64 (s), the number of constituents of each tree whose labels held ``|``.
    """

    names: tuple[str, ...]
    flat: Constituents
    bounds: Int64
    wrapped: Bool
    rewritten: Int64

    def kept(self, trees: Bool, words: Bool) -> ChunkConstituents:
        """The constituents of some trees (s), given with their words (w)."""
        flat = self.flat
        some = Constituents(
            flat.labels[np.repeat(trees, np.diff(self.bounds))], flat.opens[words], flat.closes[words]
        )
        bounds = _sums(np.diff(self.bounds)[trees])
        return ChunkConstituents(self.names, some, bounds, self.wrapped[trees], self.rewritten[trees])


def chunk_constituents(arrays: TreeArrays) -> ChunkConstituents:
    """The constituents, as in :func:`labelled`, of each tree of a chunk that was read with its nodes."""
    nodes, sentences = arrays.nodes, arrays.sentences
    assert nodes is not None
    encoded = arrays.texts(nodes.label_starts, nodes.label_ends).dictionary_encode()
    written = encoded.dictionary.to_pylist()
    numbers = numpy_array(encoded.indices, np.int32)  # (nodes) places in ``written``
    opens, closes = nodes.opens.copy(), nodes.closes.copy()
    filled = sentences[1:] > sentences[:-1]  # (s) trees that have words
    firsts, lasts = sentences[:-1][filled], sentences[1:][filled] - 1

    is_wrapper = np.array([label in WRAPPERS for label in written], dtype=bool)[numbers]
    begins = _sums(opens)[firsts]  # (filled) their top nodes
    n_outer = _outer_wrappers(is_wrapper, begins, _most_wrappers(arrays.between, opens, firsts, lasts))
    if n_outer.any():
        opens[firsts] -= n_outer.astype(np.int32)
        closes[lasts] -= n_outer.astype(np.int32)
        numbers = np.delete(numbers, ranges(begins, n_outer))

    bars = np.flatnonzero(np.array(["|" in label for label in written], dtype=bool)[numbers])
    tree_of_bar = np.searchsorted(_sums(opens)[sentences], bars, side="right") - 1
    rewritten = np.bincount(tree_of_bar, minlength=len(arrays))
    chains = [[part or UNKNOWN_LABEL for part in clean_label(label).split("+")] for label in written]
    names = tuple(dict.fromkeys([*(name for chain in chains for name in chain), UNKNOWN_LABEL]))
    place = {name: i for i, name in enumerate(names)}
    parts = np.array([place[name] for chain in chains for name in chain], dtype=np.int32)
    lengths = np.array([len(chain) for chain in chains], dtype=np.int64)
    if len(parts) == len(written):
        labels = parts[numbers]
    else:
        n_parts = lengths[numbers]
        labels = parts[ranges(_sums(lengths)[numbers], n_parts)]
        start, end = _spans(opens, closes)
        opens = np.bincount(start, n_parts, len(opens)).astype(np.int32)
        closes = np.bincount(end, n_parts, len(closes)).astype(np.int32)

    bare = opens[firsts] == 0  # a tree of one word
    if bare.any():
        words = firsts[bare]
        labels = np.insert(labels, _sums(opens)[words], place[UNKNOWN_LABEL])
        opens[words] = closes[words] = 1
    wrapped = filled.copy()
    wrapped[filled] = bare
    flat = Constituents(labels, opens, closes)
    return ChunkConstituents(names, flat, _sums(opens)[sentences], wrapped, rewritten)


def _most_wrappers(between: Int32, opens: Int32, firsts: Int64, lasts: Int64) -> Int64:
    """The number of nodes of each tree that are over all its words and have one child."""
    inside = np.where(between < 0, np.iinfo(np.int32).max, between)
    whole = np.minimum.reduceat(inside, firsts) if len(firsts) else inside[:0]
    return np.where(firsts == lasts, opens[firsts], whole - 1)


def _outer_wrappers(is_wrapper: Bool, begins: Int64, most: Int64) -> Int64:
    """The number of nested wrappers at the top of each tree, at most ``most``."""
    n_outer = np.zeros(len(begins), dtype=np.int64)
    active = np.flatnonzero(most > 0)
    while len(active):
        active = active[is_wrapper[begins[active] + n_outer[active]]]
        n_outer[active] += 1
        active = active[n_outer[active] < most[active]]
    return n_outer


def _spans(opens: Int32, closes: Int32) -> tuple[Int64, Int64]:
    """The first and the last word of each constituent, int64 (m) twice."""
    start, end = (np.repeat(np.arange(len(counts)), counts) for counts in (opens, closes))
    places = np.arange(len(start))
    # The number open around each when it opens, and when it closes: at one depth, the i-th that opens is
    # the i-th that closes.
    opening = places - _sums(closes)[start]
    closing = _sums(opens)[end + 1] - 1 - places
    if len(opening) and opening.max() < np.iinfo(np.int16).max:
        opening, closing = opening.astype(np.int16), closing.astype(np.int16)  # are sorted faster
    last = np.empty_like(end)
    last[np.argsort(opening, kind="stable")] = end[np.argsort(closing, kind="stable")]
    return start, last


def _sums(counts: NDArray[Any]) -> Int64:
    """Cumulative sums with a leading 0: int64 (n + 1)."""
    return np.concatenate([[0], np.cumsum(counts, dtype=np.int64)])
