"""Flat trees in place of sentences without a parse, so that lines of trees and of text correspond."""

from __future__ import annotations

import unicodedata
from collections.abc import Sequence

from pdtools.trees.transforms import TRACE_TAG
from pdtools.trees.tree import UNKNOWN_LABEL, UNKNOWN_TAG, Tree, escape, flat_tree

UNUSABLE_WORD = "\N{REPLACEMENT CHARACTER}"  # in a placeholder, replaces a word that no tree can hold

BLANK_LINE = f"({UNKNOWN_LABEL} ({TRACE_TAG} *))"
"""The placeholder for a line without words."""

_ASCII_SPACE = frozenset(" \t\n\r\f\v")
# White space, controls and formatting characters, all invisible to a reader.
_INVISIBLE = frozenset(("Zs", "Zl", "Zp", "Cc", "Cf"))


def placeholder(words: Sequence[str]) -> Tree:
    """The flat tree ``(X (XX w1) (XX w2) …)`` in place of a sentence without a parse.

    A blank line becomes ``(X (-NONE- *))``: a tree that every reader takes, whose only leaf is a trace.
    A word that no tree can hold (white space, lone surrogates) becomes U+FFFD.
    """
    if not words:
        return flat_tree(["*"], [TRACE_TAG])
    return flat_tree([UNUSABLE_WORD if word_problem(word) else escape(word) for word in words])


def is_placeholder(tree: Tree) -> bool:
    """Return whether a tree is the placeholder of a sentence without a parse.

    One or two words have no other tree than the flat one: it only counts as a placeholder if a word had
    to be replaced.
    """
    flat = tree.labels == (UNKNOWN_LABEL,) and set(tree.tags) == {UNKNOWN_TAG}
    return flat and (len(tree) > 2 or UNUSABLE_WORD in tree.words)


def sentence_problem(words: Sequence[str]) -> str | None:
    """The reason why no parser could parse this sentence, or ``None``.

    Such words make neural parsers fail, or, worse, shift the words after them by one unnoticed.
    """
    if not words:
        return "no words"
    for word in words:
        problem = word_problem(word)
        if problem:
            return problem
    return None


def word_problem(word: str) -> str | None:
    """The reason why a word cannot be in a tree, or ``None``."""
    if any("\ud800" <= character <= "\udfff" for character in word):
        return "a word that is not valid Unicode (a lone surrogate)"
    if all(unicodedata.category(character) in _INVISIBLE for character in word):
        return "a word without visible characters"
    if not _ASCII_SPACE.isdisjoint(word):
        return "a word with white space in it"
    return None
