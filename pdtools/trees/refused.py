"""Refusal of trees in which ids, comments or empty leaves would be read as words.

Historical treebanks (Penn-Helsinki, YCOE, IcePaHC, Keyaki) keep a tree's id and comments in brackets of their
own. They, and treebanks whose tags were removed, write empty leaves without the tag ``-NONE-``. The label
above tells these from words: ``(NP-SBJ *pro*)`` is empty, ``(NN *sigh*)`` is a word. Trees with discontinuous
constituents number their leaves: ``0=the``.
"""

from __future__ import annotations

import re

import numpy as np

from pdtools.trees.tree import Tree

FOREIGN_LABELS = ("ID", "METADATA", "CODE")
EMPTY_LEAF = "an empty leaf without the tag -NONE-"
NUMBERED_LEAVES = "leaves with numbers, such as 0=The: parse --from discbracket reads them"

# A category, and after it no letter: a function, an index or a number may follow.
_PHRASE = re.compile(
    r"(?:WH?)?(?:NP|PP|ADJP|ADVP|QP)(?![^\W\d_])"
    r"|(?:CP|IP|VP|NX|NUMP|CONJP|INTJ|INTP|PRN|PRT|FRAG|UCP|RRC|S|SBARQ?|SINV|SQ)(?![^\W\d_])"
)
_ZERO = re.compile(r"(?:C|P|SBAR|WH?[A-Z]+P)(?![^\W\d_])")
_NUMBERED = re.compile(r"[0-9]+=.+")
_STARS = re.compile(r"\*(?:-\d+|[^*]+\*(?:-.+)?)?")


def refused_form(tree: Tree) -> tuple[str, str] | None:
    """The reason why a tree is refused, and advice; None for other trees."""
    for label in FOREIGN_LABELS:
        if label in tree.labels or label in tree.tags:
            return f"({label} …) is no part of a tree: parse --from penn-historical reads it", ""
    for k, (tag, word) in enumerate(zip(tree.tags, tree.words, strict=True)):
        if word[0] in "*0" and is_empty_leaf(tag or _phrase_of(tree, k), word) and (tag or word != "*"):
            leaf = f"({tag} {word}): ({tag} (-NONE- {word}))" if tag else f"{word}: (-NONE- {word})"
            return EMPTY_LEAF, f"{leaf} would be read"
        if word.startswith("0=") and all(map(_NUMBERED.fullmatch, tree.words)):
            return NUMBERED_LEAVES, ""
    return None


def is_empty_leaf(label: str, word: str) -> bool:
    """Return whether a leaf is empty, given its text and the label directly above it."""
    if word == "0":
        return _ZERO.match(label) is not None
    return _STARS.fullmatch(word) is not None and _PHRASE.match(label) is not None


def _phrase_of(tree: Tree, k: int) -> str:
    """The label of the smallest constituent around a word."""
    around = np.flatnonzero((tree.starts <= k) & (k < tree.ends))
    return tree.labels[around[-1]] if len(around) else ""
