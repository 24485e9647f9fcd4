"""Trees into rows one by one: the plain formulation, which says what the fast one has to give."""

from __future__ import annotations

import numpy as np

from pdtools.shards.format import MOST_PACKED, ShardSettings
from pdtools.shards.rows import ShardRow
from pdtools.tokenization import Sentence, Tokenizer, UnknownWordError, join_words
from pdtools.trees import (
    Tree,
    attachments,
    expand_attachments,
    is_placeholder,
    normalize,
    sentence_layout,
    unescape,
)

NO_WORDS = "no words"
NOT_PARSED = "not parsed: a flat placeholder"
UNKNOWN_WORDS = "words outside the vocabulary"
TOO_LONG = f"more than {MOST_PACKED:,} tokens with ROOT and EOS, too many for a packed tape (--tape none)"


def usable_tree(tree: Tree) -> Tree | str:
    """A tree as the shards take it, or why they don't.

    Args:
        tree: as a treebank has it, or binarized by ``pdtools parse``: the outcome is the same.

    Returns:
        The tree normalized and unbinarized; or the reason to leave it out: traces are all it had, or it is
        the flat tree ``(X (XX word) ...)`` that ``pdtools parse`` writes for a sentence without a parse.
    """
    plain = normalize(tree)
    if plain is None:
        return NO_WORDS
    return NOT_PARSED if is_placeholder(plain) else plain


def sentence_of(tree: Tree, text_style: str) -> Sentence:
    """The words of a tree, without escapes, as a sentence in a text style."""
    return join_words([unescape(word) for word in tree.words], text_style)


def row_of_tree(tree: Tree, tokenizer: Tokenizer, settings: ShardSettings) -> ShardRow | str:
    """The row of a tree, or why there is none."""
    usable = usable_tree(tree)
    if isinstance(usable, str):
        return usable
    sentence = sentence_of(usable, tokenizer.text_style)
    try:
        encoding = tokenizer.encode(sentence)
    except UnknownWordError:
        return UNKNOWN_WORDS
    if settings.tape == "packed" and len(encoding.ids) > MOST_PACKED:
        return TOO_LONG
    n_words = len(sentence.words)
    pieces = np.bincount(encoding.word[1:-1], minlength=n_words)  # (words,) tokens of each word
    factor = settings.factor
    attach = sentence_layout(expand_attachments(attachments(usable, factor), pieces, factor))
    return ShardRow(" ".join(sentence.words), encoding, attach, n_words)
