"""Brackets whose leaves have their places in the sentence: ``(S (NP 0=The 2=dog) (VP 1=barks))``."""

from __future__ import annotations

import re

from pdtools.errors import InputError
from pdtools.trees.forms.base import (
    Counts,
    ExcludedByRule,
    Form,
    ReadOptions,
    ReadTree,
    TreeText,
    leaf,
    leaf_label,
)
from pdtools.trees.forms.brackets import Bracket, brackets, cut_brackets
from pdtools.trees.forms.discontinuous import ROOT_LABEL, Node, continuous
from pdtools.trees.transforms import WRAPPERS

_LEAF = re.compile(r"([0-9]+)=(.+)", re.DOTALL)
_FIRST_LEAF = re.compile(r"\([^\s()]*\s+([^\s()]+)")


def _looks_like(text: str) -> bool:
    if not text.lstrip().startswith("("):
        return False
    first = _FIRST_LEAF.search(text)
    return first is not None and _LEAF.fullmatch(first[1]) is not None


def _read(block: TreeText, options: ReadOptions, counts: Counts) -> list[ReadTree | ExcludedByRule]:
    found: list[ReadTree | ExcludedByRule] = []
    for top in brackets(block.text):
        words: dict[int, str] = {}
        n_nodes, tree = _nodes(top, words)
        if not words:
            raise InputError("no words")
        if len(words) != max(words) + 1:
            raise InputError(f"{len(words)} leaves, but one has the number {max(words)}")
        if tree.word >= 0 or tree.label not in WRAPPERS:
            n_nodes, tree = n_nodes + 1, Node(ROOT_LABEL, children=[tree])
        found += continuous(tree, n_nodes, [words[k] for k in range(len(words))], options, counts)
    return found


def _nodes(top: Bracket, words: dict[int, str]) -> tuple[int, Node]:
    """The number of constituents in brackets, and the outermost; brackets around one leaf are its tag."""
    root, n_nodes = Node(""), 0
    agenda: list[tuple[Bracket, Node]] = [(top, root)]
    while agenda:
        bracket, parent = agenda.pop()
        label = leaf_label(bracket.label)
        if len(bracket.children) == 1 and isinstance(leaf_text := bracket.children[0], str):
            parent.children.append(Node(label, _word(leaf_text, words)))
            continue
        node = Node(label if bracket.label else "")
        n_nodes += 1
        parent.children.append(node)
        for child in bracket.children:
            if isinstance(child, str):
                node.children.append(Node("", _word(child, words)))
            else:
                agenda.append((child, node))
    return n_nodes, root.children[0]


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
