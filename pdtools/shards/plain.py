"""Conversion of trees to rows one by one: the reference for the fast path."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import replace

import numpy as np

from pdtools.shards.format import MOST_PACKED, ShardSettings
from pdtools.shards.rows import ShardRow
from pdtools.shards.written import graph_beside, written_sentence
from pdtools.tokenization import Sentence, Tokenizer, UnknownWordError, join_words
from pdtools.trees import (
    Constituents,
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
    sentence_layout,
    unescape,
)

NO_WORDS = "no words"
NOT_PARSED = "not parsed: a flat placeholder"
UNKNOWN_WORDS = "words outside the vocabulary"
TOO_LONG = f"more than {MOST_PACKED:,} tokens with ROOT and EOS, too many for a packed tape (--tape none)"
OVER_WINDOW = "longer than the window"


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
    factor = settings.factor
    attach = sentence_layout(expand_attachments(attachments(usable, factor), counts, factor))
    text = " ".join(sentence.words)
    if text.count(" ") >= n_words:  # in a word, as trees have them
        text = " ".join(word.replace(" ", "\u00a0") for word in sentence.words)
    row = ShardRow(text, encoding, attach, n_words)
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
