"""Brackets whose leaves have their places in the sentence: ``(S (NP 0=The 2=dog) (VP 1=barks))``."""

from __future__ import annotations

import re

from pdtools.errors import InputError
from pdtools.trees.forms.discontinuous import ROOT_LABEL, Node, continuous
from pdtools.trees.forms.form import (
    CLOSED_TOO_OFTEN,
    TOKEN,
    UNBALANCED,
    Counts,
    Form,
    ReadOptions,
    ReadTree,
    TreeText,
    cut_brackets,
)
from pdtools.trees.transforms import WRAPPERS
from pdtools.trees.tree import leaf, leaf_label

_LEAF = re.compile(r"([0-9]+)=(.+)", re.DOTALL)
_FIRST_LEAF = re.compile(r"\([^\s()]*\s+([^\s()]+)")


def _looks_like(text: str) -> bool:
    if not text.lstrip().startswith("("):
        return False
    first = _FIRST_LEAF.search(text)
    return first is not None and _LEAF.fullmatch(first[1]) is not None


def _read(block: TreeText, options: ReadOptions, counts: Counts) -> list[ReadTree | str]:
    found: list[ReadTree | str] = []
    for top, words, n_nodes in _trees(block.text):
        if not words:
            raise InputError("no words")
        if len(words) != max(words) + 1:
            raise InputError(f"{len(words)} leaves, but one has the number {max(words)}")
        tree = top
        if tree.word >= 0 or tree.label not in WRAPPERS:
            n_nodes, tree = n_nodes + 1, Node(ROOT_LABEL, children=[tree])
        found += continuous(tree, n_nodes, [words[k] for k in range(len(words))], options, counts)
    return found


def _trees(text: str) -> list[tuple[Node, dict[int, str], int]]:
    """Each tree of a text, with its words by their numbers, and its number of constituents.

    Brackets around one leaf are its tag. Text between trees is an error.
    """
    found: list[tuple[Node, dict[int, str], int]] = []
    words: dict[int, str] = {}
    path, n_nodes = [Node("")], 0  # the tree's holder, and the open constituents
    for match in TOKEN.finditer(text):
        tag, word, opening, label, closing, bare = match.groups()
        inside = path[-1].children
        if word is not None:
            inside.append(Node(leaf_label(tag), _word(word, words)))
        elif opening:
            inside.append(Node(leaf_label(label) if label else ""))
            path.append(inside[-1])
            n_nodes += 1
        elif closing:
            path.pop()
            if not path:
                raise InputError(CLOSED_TOO_OFTEN)
        elif len(path) > 1:
            inside.append(Node("", _word(bare, words)))
        elif bare.strip("\ufeff"):
            raise InputError("text between trees", line=text.count("\n", 0, match.start()) + 1)
        if len(path) == 1 and path[0].children:
            found.append((path[0].children.pop(), words, n_nodes))
            words, n_nodes = {}, 0
    if len(path) > 1:
        raise InputError(UNBALANCED)
    return found


def _word(text: str, words: dict[int, str]) -> int:
    match = _LEAF.fullmatch(text)
    if match is None:
        raise InputError(f"the leaf {text[:40]!r} has no number, as in 0=The")
    place = int(match[1][:9])
    if place in words:
        raise InputError(f"two leaves have the number {place}")
    words[place] = leaf(match[2].replace("#LRB#", "(").replace("#RRB#", ")"))
    return place


FORM = Form(
    name="discbracket",
    title="brackets with numbered leaves",
    suffixes=(".discbracket", ".dbr", ".disc"),
    looks_like=_looks_like,
    cut=cut_brackets,
    read=_read,
)
