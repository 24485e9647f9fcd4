"""Trees whose constituents may have gaps, and their conversion to trees without.

Punctuation attached to the root moves first: else it would split every constituent around it. Then children
outside of their parent's main block are raised, or every block becomes a constituent.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from operator import attrgetter

from pdtools.errors import InputError
from pdtools.trees.forms.form import Counts, ReadOptions, ReadTree
from pdtools.trees.transforms import WRAPPERS
from pdtools.trees.tree import Tree, unescape

ROOT_LABEL = "VROOT"
_LETTER_OR_DIGIT = re.compile(r"[^\W_]")
DISCONTINUOUS = "discontinuous constituents"


class Node:
    """A constituent, or a word.

    Attributes:
        label: the constituent's label, or the word's tag.
        word: its place in the sentence; -1 for constituents.
        edge: the label of the edge to its parent, such as HD or hd of a head; empty without an edge.
        children: in any order; empty for words.
        first, last, n_words: range and number of the words below it, set by :func:`_measure`.
    """

    __slots__ = ("children", "edge", "first", "label", "last", "n_words", "word")

    def __init__(self, label: str, word: int = -1, children: Sequence[Node] = ()) -> None:
        self.label = label
        self.word = self.first = self.last = word
        self.edge = ""
        self.children = list(children) if word < 0 else _NONE
        self.n_words = 1


_NONE: list[Node] = []
_first = attrgetter("first")


def continuous(
    root: Node, n_nodes: int, words: list[str], options: ReadOptions, counts: Counts
) -> list[ReadTree | str]:
    """Convert a discontinuous tree into one without gaps.

    Args:
        root: the whole sentence; it is changed. If labelled as a wrapper (VROOT), it is no constituent, but
            only carries the others.
        n_nodes: number of constituents, including the root.
        words: (n), as leaves.

    Raises:
        InputError: if a constituent has no words, or a node is not connected to the root.
    """
    nodes = _measure(root)
    if root.n_words != len(words) or len(nodes) != n_nodes:
        raise InputError("a word or constituent that does not hang on the root")
    if options.punctuation == "move" and root.label in WRAPPERS and _move_punctuation(root, nodes, words):
        nodes = _measure(root)
    gaps = [node for node in nodes if node.last - node.first >= node.n_words]
    if gaps:
        if options.discontinuous == "skip":
            return [DISCONTINUOUS]
        changed = "raised" if options.discontinuous == "raise" else "split"
        counts[f"sentences with constituents {changed}"] += 1
        counts[f"constituents {changed}"] += len(gaps)
        (_raise if options.discontinuous == "raise" else _split)(root)
    return [ReadTree(_tree(root, words))]


def _post_order(root: Node) -> list[Node]:
    """All constituents, children before parents."""
    found, agenda = [], [root]
    while agenda:
        node = agenda.pop()
        if node.word < 0:
            found.append(node)
            agenda.extend(node.children)
    found.reverse()
    return found


def _measure(root: Node) -> list[Node]:
    """Set the extent of all constituents, and return them, children before parents."""
    nodes = _post_order(root)
    for node in nodes:
        if not node.children:
            raise InputError(f"a constituent without words ({node.label})")
        first, last, n_words = 1 << 60, -1, 0
        for child in node.children:
            if child.first < first:
                first = child.first
            if child.last > last:
                last = child.last
            n_words += child.n_words
        node.first, node.last, node.n_words = first, last, n_words
    return nodes


def _move_punctuation(root: Node, nodes: list[Node], words: list[str]) -> bool:
    """Move punctuation on the root to the lowest constituent with words on both sides; return if any moved.

    Among several, it goes to the one with the fewest words, then the leftmost.
    """
    loose = [
        child
        for child in root.children
        if child.word >= 0
        and (child.label.startswith("$") or not _LETTER_OR_DIGIT.search(unescape(words[child.word])))
    ]
    moved = False
    for mark in loose:
        around = [
            node for node in nodes if node is not root and node.first < mark.word < node.last
        ]  # children before parents, so the lowest of a unary chain is the first
        if around:
            root.children.remove(mark)
            min(around, key=lambda node: (node.n_words, node.first)).children.append(mark)
            moved = True
    return moved


def _blocks(node: Node) -> Iterator[list[Node]]:
    """The children of a node, each without gaps, grouped into contiguous stretches."""
    node.children.sort(key=_first)
    block: list[Node] = []
    for child in node.children:
        if block and child.first > block[-1].last + 1:
            yield block
            block = []
        block.append(child)
    yield block


def _head(node: Node) -> Node | None:
    """The first child whose edge is a head's, else the last noun kernel (NK, of NP and PP in TIGER)."""
    children = sorted(node.children, key=_first)
    heads = [child for child in children if child.edge in ("HD", "hd")]
    kernels = [child for child in children if child.edge == "NK"]
    return heads[0] if heads else kernels[-1] if kernels else None


def _raise(root: Node) -> None:
    """Keep the block of each constituent's head, or the longest, and hand the others to its parent."""
    nodes = _post_order(root)
    parents = {id(child): node for node in nodes for child in node.children}
    heads = [_head(node) for node in nodes]  # before any child is raised
    for node, head in zip(nodes, heads, strict=True):
        blocks = list(_blocks(node))
        if len(blocks) > 1:
            kept = next((block for block in blocks if head in block), None)
            if kept is None:
                kept = max(blocks, key=lambda block: (block[-1].last - block[0].first, -block[0].first))
            parent = parents[id(node)]
            for block in blocks:
                if block is not kept:
                    for child in block:
                        parents[id(child)] = parent
                        parent.children.append(child)
            node.children = kept
        node.first, node.last = node.children[0].first, node.children[-1].last


def _split(root: Node) -> None:
    """Make each block of a constituent a constituent."""
    for node in _post_order(root):
        parts: list[Node] = []
        for child in node.children:
            parts += child.children if child.word == _SPLIT else [child]
        node.children = parts
        blocks = list(_blocks(node))
        if len(blocks) > 1:
            node.children = [Node(node.label, children=block) for block in blocks]
            for part in node.children:
                part.first, part.last = part.children[0].first, part.children[-1].last
            node.word = _SPLIT
        else:
            node.first, node.last = node.children[0].first, node.children[-1].last


_SPLIT = -2  # in place of a word's index: the node's children are to take its place


def _tree(root: Node, words: list[str]) -> Tree:
    """The tree of nodes without gaps; a wrapper over a single constituent is dropped."""
    while root.label in WRAPPERS and len(root.children) == 1:
        root = root.children[0]
    tags = [""] * len(words)
    labels: list[str] = []
    starts: list[int] = []
    ends: list[int] = []
    agenda = [root]
    while agenda:
        node = agenda.pop()
        if node.word >= 0:
            tags[node.word] = node.label
            continue
        labels.append(node.label)
        starts.append(node.first)
        ends.append(node.last + 1)
        node.children.sort(key=_first, reverse=True)
        agenda.extend(node.children)
    return Tree.of(words, tags, labels, starts, ends)
