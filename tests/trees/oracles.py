"""Plain recursive definitions to compare with, and the trees to compare on."""

from __future__ import annotations

from collections.abc import Iterator
from functools import cache
from typing import Any

import numpy as np
from hypothesis import strategies as st
from numpy.typing import ArrayLike, NDArray

from pdtools.trees import Tree

# A binary tree is a token's number, or a pair of binary trees. An n-ary one is a list instead of a pair.
Binary = Any


@cache
def binary_trees(first: int, past: int) -> tuple[Binary, ...]:
    """All binary trees over the tokens first..past-1."""
    if past - first == 1:
        return (first,)
    return tuple(
        (left, right)
        for middle in range(first + 1, past)
        for left in binary_trees(first, middle)
        for right in binary_trees(middle, past)
    )


def tokens(tree: Any) -> list[int]:
    return [tree] if isinstance(tree, int) else [token for child in tree for token in tokens(child)]


def binarized(tree: Any, factor: str) -> Binary:
    """Collapse unaries and binarize, by definition."""
    if isinstance(tree, int):
        return tree
    children = [binarized(child, factor) for child in tree]
    if len(children) == 1:
        return children[0]
    if factor == "right":
        result = children[-1]
        for child in reversed(children[:-1]):
            result = (child, result)
    else:
        result = children[0]
        for child in children[1:]:
            result = (result, child)
    return result


def nodes(tree: Binary) -> Iterator[Binary]:
    """The binary nodes, parents first."""
    if not isinstance(tree, int):
        yield tree
        for child in tree:
            yield from nodes(child)


def attachments_by_definition(tree: Binary) -> list[int]:
    """r_k: the last token of the left child of the widest binary node that ends at k, else k."""
    r = tokens(tree)
    for node in reversed(list(nodes(tree))):
        r[tokens(node)[-1]] = tokens(node[0])[-1]
    return r


def algorithm_1(attach: list[int]) -> list[list[int]]:
    """The stack tape as the paper prints it: a stack of lists of tokens, one row per token."""
    n = len(attach)
    tape = [0] * n
    stack: list[list[int]] = []
    rows = []
    for k in range(n):
        constituent = [k]
        if attach[k] != k:
            while True:
                top = stack.pop()
                constituent = top + constituent
                for token in constituent:
                    tape[token] += 1
                if top[-1] == attach[k]:
                    break
        stack.append(constituent)
        rows.append(list(tape))
    return rows


def tape_by_counting(tree: Binary, n: int) -> list[list[int]]:
    """W_k[j]: how many binary nodes that end at k or before hold j."""
    spans = [set(tokens(node)) for node in nodes(tree)]
    return [[sum(j in span and max(span) <= k for span in spans) for j in range(n)] for k in range(n)]


def tape_from_spans(starts: ArrayLike, ends: ArrayLike, n: int) -> NDArray[np.int32]:
    """The tape from all binary nodes at once: a 2-D difference array and its cumulative sum."""
    first, past = np.asarray(starts), np.asarray(ends)
    difference = np.zeros((n, n + 1), dtype=np.int32)
    np.add.at(difference, (past - 1, first), 1)
    np.add.at(difference, (past - 1, past), -1)
    return difference[:, :n].cumsum(axis=1, dtype=np.int32).cumsum(axis=0, dtype=np.int32)


def packed(tape: ArrayLike) -> bytes:
    """The lower triangle of a tape (n, n), row k in k + 1 bytes; depths above 255 are stored as 255."""
    rows = np.minimum(tape, 255).astype(np.uint8)
    return rows[np.tril_indices(len(rows))].tobytes()


def legal_sequences(n: int) -> list[list[int]]:
    """Every sequence of n legal attachments: each token attaches to the end of a constituent, or shifts."""
    found: list[tuple[list[int], list[int]]] = [([], [])]  # attachments so far; last tokens on the stack
    for k in range(n):
        found = [
            ([*attach, target], [*(stack if target == k else stack[: stack.index(target)]), k])
            for attach, stack in found
            for target in [*stack, k]
        ]
    return [attach for attach, _ in found]


def to_tree(tree: Any, tag: str = "T") -> Tree:
    """The nested form as a Tree: constituents are labelled by their size, words w0, w1, …"""

    def brackets(node: Any) -> str:
        if isinstance(node, int):
            return f"({tag} w{node})"
        return f"(N{len(node)} {' '.join(brackets(child) for child in node)})"

    return Tree.from_brackets(brackets(tree))


def from_tree(tree: Tree) -> Any:
    """The nested form of a Tree, by recursion over its nltk conversion."""
    counter = iter(range(len(tree)))

    def nested(node: Any) -> Any:
        if isinstance(node, str) or (len(node) == 1 and isinstance(node[0], str)):
            return next(counter)
        return [nested(child) for child in node]

    root = tree.to_nltk()
    return nested(root)


@st.composite
def nested_trees(draw: st.DrawFn, max_words: int = 14) -> Any:
    """n-ary trees with unary chains, numbered from left to right."""
    shape = draw(
        st.recursive(
            st.none(), lambda children: st.lists(children, min_size=1, max_size=5), max_leaves=max_words
        )
    )
    counter = iter(range(10**6))

    def number(node: Any) -> Any:
        return next(counter) if node is None else [number(child) for child in node]

    return number(shape)


_LABELS = st.sampled_from(["S", "NP", "VP", "NP-SBJ-1", "NP=2", "PP-LOC", "X", "-LRB-", "ADVP"])
_TAGS = st.sampled_from(["NN", "PRP$", "-LRB-", ",", "``", "-NONE-", "."])
_WORDS = st.text(
    st.characters(exclude_characters="() \t\n\r\f\v\\", exclude_categories=["Cs", "Z", "Cc"]),
    min_size=1,
    max_size=4,
)


@st.composite
def treebank_trees(draw: st.DrawFn, bare_words: bool = True) -> Tree:
    """Labelled trees whose leaves are preterminals or, now and then, bare words."""

    def brackets(node: Any, siblings: int) -> str:
        if isinstance(node, int):
            word = draw(_WORDS)
            return (
                word
                if bare_words and siblings > 1 and draw(st.integers(0, 9)) == 0
                else f"({draw(_TAGS)} {word})"
            )
        children = " ".join(brackets(child, len(node)) for child in node)
        return f"({draw(_LABELS)} {children})"

    return Tree.from_brackets(brackets(draw(nested_trees()), 1))
