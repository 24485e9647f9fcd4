"""Conversion of trees to rows one by one: the reference for the fast path.

Sentences as they were written, and dependency arcs, are in files beside trees (:mod:`pdtools.trees.chunks`).
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator
from dataclasses import replace
from functools import lru_cache
from pathlib import Path
from typing import get_args

import numpy as np
from numpy.typing import NDArray

from pdtools.errors import InputError
from pdtools.shards.format import MOST_PACKED, ShardSettings
from pdtools.shards.rows import ShardRow
from pdtools.tokenization import Sentence, Tokenizer, UnknownWordError, aligned, join_words
from pdtools.trees import (
    Constituents,
    Graph,
    SourcedTree,
    Tree,
    attachments,
    bare_tree,
    expand_attachments,
    expand_constituents,
    is_placeholder,
    labelled,
    normalize,
    opens_and_closes,
    path_beside,
    sentence_layout,
    unescape,
)
from pdtools.trees.transforms import remove_traces
from pdtools.trees.tree import Factor

NO_WORDS = "no words"
NOT_PARSED = "not parsed: a flat placeholder"
UNKNOWN_WORDS = "words outside the vocabulary"
TOO_LONG = f"more than {MOST_PACKED:,} tokens with ROOT and EOS, too many for a packed tape (--tape none)"
OVER_WINDOW = "longer than the window"
_HINT = "pdtools parse writes both: delete it, or parse again"


def usable_tree(tree: Tree) -> Tree | str:
    """A tree in the shards' form, or the reason to exclude it.

    Args:
        tree: a treebank's tree, or binarized by ``pdtools parse``: the outcome is the same.

    Returns:
        The tree normalized and unbinarized; or the reason to exclude it: traces are all it had, or it is
        the flat tree ``(X (XX word) ...)`` that ``pdtools parse`` writes for a sentence without a parse.
    """
    plain = normalize(tree)
    if plain is None:
        return NO_WORDS
    return NOT_PARSED if is_placeholder(plain) else plain


def sentence_of(tree: Tree, text_style: str) -> Sentence:
    """The words of a tree, without escapes, as a sentence in a text style."""
    return join_words([unescape(word) for word in tree.words], text_style)


def usable_sentences(trees: Iterable[SourcedTree], text_style: str) -> Iterator[Sentence]:
    """The sentences of usable trees; in ``raw`` style as they were written, if known."""
    for sourced in trees:
        usable = usable_tree(sourced.tree)
        if isinstance(usable, Tree):
            yield _sentence_of_source(sourced, usable, text_style)


def _sentence_of_source(sourced: SourcedTree, usable: Tree, text_style: str) -> Sentence:
    written = written_sentence(sourced, usable) if text_style == "raw" else None
    return written or sentence_of(usable, text_style)


def row_of_source(sourced: SourcedTree, tokenizer: Tokenizer, settings: ShardSettings) -> ShardRow | str:
    """The row of a tree with its place, from which the written sentence may be found."""
    usable = usable_tree(sourced.tree)
    if isinstance(usable, str):
        return usable
    sentence = _sentence_of_source(sourced, usable, tokenizer.text_style)
    row = _row(sourced.tree, usable, sentence, tokenizer, settings)
    if settings.arcs == "none" or isinstance(row, str):
        return row
    return replace(row, graph=graph_beside(sourced.file, sourced.line, row.n_words))


def row_of_tree(
    tree: Tree, tokenizer: Tokenizer, settings: ShardSettings, sentence: Sentence | None = None
) -> ShardRow | str:
    """The row of a tree, or why there is none; ``sentence``: its words as written, if known."""
    usable = usable_tree(tree)
    if isinstance(usable, str):
        return usable
    return _row(tree, usable, sentence or sentence_of(usable, tokenizer.text_style), tokenizer, settings)


def _row(
    tree: Tree, usable: Tree, sentence: Sentence, tokenizer: Tokenizer, settings: ShardSettings
) -> ShardRow | str:
    try:
        encoding = tokenizer.encode(sentence)
    except UnknownWordError:
        return UNKNOWN_WORDS
    if settings.tape == "packed" and len(encoding.ids) > MOST_PACKED:
        return TOO_LONG
    if settings.layout == "window" and len(encoding.ids) - 1 > settings.window:
        return OVER_WINDOW
    n_words = len(sentence.words)
    counts = np.bincount(encoding.word[1:-1], minlength=n_words)  # (words,) tokens of each word
    binarized = (remove_traces(tree) if settings.factor == "given" else None) or usable

    def attached(over: Tree, branching: Factor) -> NDArray[np.int32]:
        return sentence_layout(expand_attachments(attachments(over, branching), counts, branching))

    attach = attached(binarized, settings.branching)
    text = " ".join(sentence.words)
    if text.count(" ") >= n_words:  # in a word, as trees have them
        text = " ".join(word.replace(" ", "\u00a0") for word in sentence.words)
    row = ShardRow(text, encoding, attach, n_words)
    if settings.factor == "given":
        not_right, not_left = (int((attach != attached(usable, each)).sum()) for each in get_args(Factor))
        row = replace(row, n_not_right=not_right, n_not_left=not_left)
    if settings.constituents == "none":
        return row
    whole = labelled(usable)
    labels = np.array([tokenizer.label_ids.get(label, -1) for label in whole.labels], dtype=np.int32)
    opens, closes = expand_constituents(*opens_and_closes(whole), counts)
    return replace(
        row,
        constituents=Constituents(labels, opens, closes),
        wrapped=not usable.labels,
        n_rewritten=_rewritten_labels(tree),
    )


def labels_of(tree: Tree) -> tuple[str, ...]:
    """The labels of a tree's constituents, for the vocabulary; empty if the tree has no row."""
    usable = usable_tree(tree)
    return () if isinstance(usable, str) else labelled(usable).labels


def _rewritten_labels(tree: Tree) -> int:
    """The number of constituents whose labels hold ``|``, without those made by binarization."""
    if not any("|" in label for label in tree.labels):
        return 0
    bare = bare_tree(tree)
    return 0 if bare is None else sum("|" in label for label in bare.labels)


def written_sentence(sourced: SourcedTree, usable: Tree) -> Sentence | None:
    """The sentence of a tree as it was written, in ``raw`` style; None without a file of sentences.

    Args:
        sourced: the tree with its place.
        usable: the same without traces.

    Raises:
        InputError: if that file has no such line, or a sentence with other words.
    """
    path = path_beside(sourced.file, "text")
    if path is None or not path.is_file():
        return None
    text = _line_of(path, sourced.line)
    sentence = None if text is None else aligned([unescape(word) for word in usable.words], text, "raw")
    if sentence is None:
        reason = f"not the sentence of the tree on line {sourced.line} of {sourced.file}"
        raise InputError(reason, file=path, line=sourced.line, hint=_HINT)
    return sentence


def graph_beside(trees: str, line: int, n_words: int) -> Graph:
    """The dependencies of a tree.

    Args:
        trees: a file that has a file of arcs beside it.
        line: the tree's line, from 1.
        n_words: the tree's number of words, without traces.

    Raises:
        InputError: if that file has no such line, or arcs for another number of words.
    """
    path = path_beside(trees, "arcs")
    assert path is not None
    reason = f"ends before line {line}, which the tree on line {line} of {trees} needs"
    if (text := _line_of(path, line)) is not None:
        try:
            return Graph.from_text(text, n_words)
        except InputError as error:
            reason = f"not the arcs of the tree on line {line} of {trees}: {error.reason}"
    raise InputError(reason, file=path, line=line, hint=_HINT)


def _line_of(path: Path, line: int) -> str | None:
    """A line of a file, from 1; None behind its end."""
    status = path.stat()
    data, ends = _lines(os.fspath(path), status.st_mtime_ns, status.st_size)
    if line > len(ends):
        return None
    start = int(ends[line - 2]) + 1 if line > 1 else 0
    return data[start : ends[line - 1]].tobytes().decode("utf-8", "replace")


@lru_cache(maxsize=4)
def _lines(path: str, changed: int, size: int) -> tuple[NDArray[np.uint8], NDArray[np.int64]]:
    """The bytes of a file, and the positions of its line ends; a file that ``changed`` is read again."""
    data = np.memmap(path, np.uint8, "r") if size else np.zeros(0, np.uint8)
    return data, np.flatnonzero(data == ord("\n"))
