"""Conversion of trees to attachments, one integer per token, and back.

The attachment r_k is the last token of the constituent that token k reduces with, or k if it only shifts
(Murty et al. 2023, section 3.1): the last token of the left child of the widest binary node that ends at k.
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence

import numpy as np
from numpy.typing import ArrayLike, NDArray

from pdtools.trees.tree import UNKNOWN_LABEL, UNKNOWN_TAG, Factor, Tree, check_factor, escape

Int32 = NDArray[np.int32]


def attachments(tree: Tree, factor: Factor = "right") -> Int32:
    """The attachments of a tree's words, as if it were binarized with this factoring.

    Args:
        tree: any tree over n words; unary chains and branching above two are allowed.
        factor: how nodes with more than two children are binarized.

    Returns:
        int32 (n), r[k] in 0..k; r[k] == k means shift only.
    """
    check_factor(factor)
    n = len(tree)
    r = np.arange(n, dtype=np.int32)
    # If an index repeats, numpy keeps the last value; reversed pre-order makes that the widest node.
    if factor == "right":
        wide = tree.ends - tree.starts > 1
        starts, ends = tree.starts[wide], tree.ends[wide]  # (m) nodes over two words or more
        distinct = np.ones(len(starts), dtype=bool)  # one node of each unary chain counts
        distinct[1:] = (starts[1:] != starts[:-1]) | (ends[1:] != ends[:-1])
        starts, ends = starts[distinct], ends[distinct]
        # A node's first child is the next node if that starts at the same word, else a single word.
        first_child_end = starts + 1
        nested = np.flatnonzero(starts[:-1] == starts[1:])
        first_child_end[nested] = ends[nested + 1]
        r[ends[::-1] - 1] = first_child_end[::-1] - 1
    else:
        # Position s > 0 starts exactly one non-first child: the widest node there. Its left sibling
        # precedes it in the parent, with last token s - 1.
        widest_end = np.arange(1, n + 1, dtype=np.int32)
        widest_end[tree.starts[::-1]] = tree.ends[::-1]
        s = np.arange(n - 1, 0, -1, dtype=np.int32)
        r[widest_end[s] - 1] = s - 1
    return r


def expand_attachments(r: ArrayLike, lengths: ArrayLike, factor: Factor = "right") -> Int32:
    """Attachments of tokens, where word k consists of ``lengths[k]`` tokens that form a subtree (appendix C).

    Args:
        r: int (n), attachments of the words.
        lengths: int (n), tokens of each word, at least one.
        factor: how the subtree over a word's tokens branches.

    Returns:
        int32 (sum of lengths).

    Raises:
        ValueError: if the lengths differ or a word has no tokens.
    """
    check_factor(factor)
    words, counts = np.asarray(r, dtype=np.int32), np.asarray(lengths, dtype=np.int32)
    if words.shape != counts.shape or (counts < 1).any():
        raise ValueError("every word needs its number of tokens, at least one")
    last = np.cumsum(counts, dtype=np.int32) - 1  # (n) last token of each word
    first = last - counts + 1
    expanded = np.arange(counts.sum(), dtype=np.int32)
    if factor == "left":
        expanded -= 1
        expanded[first] = first
    within = first if factor == "right" else np.maximum(last - 1, first)
    shifts = words == np.arange(len(words))
    expanded[last] = np.where(shifts, within, last[words])
    return expanded


def sentence_layout(r: ArrayLike) -> Int32:
    """Attachments of the row ``ROOT w_1 … w_m EOS``: every token moves up by one, EOS reduces everything.

    Args:
        r: int (m), attachments of the tokens, counted from 0.

    Returns:
        int32 (m + 2).
    """
    tokens = np.asarray(r, dtype=np.int32)
    return np.concatenate([np.zeros(1, np.int32), tokens + 1, np.zeros(1, np.int32)]).astype(np.int32)


def spans_from_attachments(attach: ArrayLike) -> tuple[Int32, Int32, Int32]:
    """The binary nodes that a sequence of attachments builds, and the remaining stack.

    Args:
        attach: int (n), legal attachments in any layout.

    Returns:
        starts, ends: int32, one entry per binary node in the order of reduction, covering [start, end).
        stack: int32, the first token of each constituent left on the stack, from the bottom.

    Raises:
        ValueError: if an attachment is not the last token of a constituent on the stack.
    """
    starts: list[int] = []
    ends: list[int] = []
    stack: list[int] = []  # first token of each constituent; it ends where the next one starts
    for k, target in enumerate(np.asarray(attach).tolist()):
        first = k
        last = k  # last token of the constituent reduced most recently
        while last != target:
            last = first - 1
            if last < target or not stack:
                raise ValueError(
                    f"token {k} cannot attach to {target}: no constituent on the stack ends there"
                )
            first = stack.pop()
            starts.append(first)
            ends.append(k + 1)
        stack.append(first)
    return np.array(starts, np.int32), np.array(ends, np.int32), np.array(stack, np.int32)


def tree_from_attachments(r: ArrayLike, words: Sequence[str], tags: Sequence[str] | None = None) -> Tree:
    """The binary tree described by the attachments of n words.

    Constituents left on the stack at the end become right-branching. Constituents are labelled ``X``; tags
    default to ``XX``.

    Raises:
        ValueError: if there are no words, the lengths differ, or an attachment is illegal.
    """
    starts, ends, stack = spans_from_attachments(r)
    n = len(words)
    if n == 0 or n != len(np.asarray(r)) or (tags is not None and len(tags) != n):
        raise ValueError("a tree needs as many attachments and tags as words, at least one")
    starts = np.concatenate([starts, stack[:-1]])
    ends = np.concatenate([ends, np.full(len(stack) - 1, n, np.int32)])
    order = np.lexsort((-ends, starts))
    tags = [UNKNOWN_TAG] * n if tags is None else tags
    return Tree.of(words, tags, [UNKNOWN_LABEL] * len(starts), starts[order], ends[order])


def merge_subwords(tree: Tree, word_of_token: ArrayLike, words: Sequence[str]) -> Tree:
    """Turn a tree over tokens into a binary tree over words (appendix C).

    Constituents whose two edges are word edges are kept; a word whose tokens ended up in different
    constituents is attached right-branching. Labelled ``X``, tagged ``XX``.

    Args:
        tree: a tree over t tokens.
        word_of_token: int (t), which word each token belongs to: 0, 0, 1, 2, 2 …
        words: the words.

    Raises:
        ValueError: if the tokens do not belong to exactly these words, in order.
    """
    merged = constituents_of_words(tree, word_of_token, words)
    return tree_from_attachments(attachments(merged), words)


def constituents_of_words(tree: Tree, word_of_token: ArrayLike, words: Sequence[str]) -> Tree:
    """The constituents of a tree over tokens whose edges are word edges, with their labels; tagged ``XX``.

    Arguments and errors are as for :func:`merge_subwords`.
    """
    word = np.asarray(word_of_token, dtype=np.int64)
    if (
        len(word) != len(tree)
        or not np.array_equal(np.unique(word), np.arange(len(words)))
        or (np.diff(word) < 0).any()
    ):
        raise ValueError("the tokens do not belong to these words in order")
    edge = np.concatenate(
        [[True], word[1:] != word[:-1], [True]]
    )  # (t + 1) is there a word edge before token j
    index = np.append(word, len(words)).astype(np.int32)  # (t + 1) the word that starts at an edge
    kept = edge[tree.starts] & edge[tree.ends]
    labels = itertools.compress(tree.labels, kept.tolist())
    starts, ends = index[tree.starts[kept]], index[tree.ends[kept]]
    return Tree.of(words, [UNKNOWN_TAG] * len(words), labels, starts, ends)


def stack_text(attach: NDArray[np.int32], tokens: Sequence[str]) -> str:
    """The constituents on the stack after some tokens, left to right, such as ``(X the dog) barks``.

    Args:
        attach: int32[t + 1] in the sentence layout, ROOT first. With t = n + 1, end-of-sentence reduces
            everything, and is itself omitted.
        tokens: the sentence's tokens, without ROOT.
    """
    stack: list[tuple[int, str]] = []  # (last token, brackets) of each constituent
    for k, target in enumerate(attach.tolist()[1:], start=1):
        if target == 0:  # end-of-sentence
            parts = [text for _, text in stack]
            while len(parts) > 1:
                parts[-2:] = [f"(X {parts[-2]} {parts[-1]})"]
            return parts[0] if parts else ""
        last, text = k, escape(tokens[k - 1])
        while last != target:
            last, left = stack.pop()
            text = f"(X {left} {text})"
        stack.append((k, text))
    return " ".join(text for _, text in stack)
