"""TreeReg in plain Python, node by node down a tree, after its definition."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence

from pdtools.trees import Tree

# A tree over tokens: a token's number, or the children.
Nested = int | tuple["Nested", "Nested"]


def binary_trees(first: int, last: int) -> Iterator[Nested]:
    """Every binary tree over tokens first..last."""
    if first == last:
        yield first
    for split in range(first, last):
        for left in binary_trees(first, split):
            for right in binary_trees(split + 1, last):
                yield left, right


def brackets(tree: Nested) -> Tree:
    """The tree with words t1, t2, …"""

    def text(node: Nested) -> str:
        return f"(XX t{node})" if isinstance(node, int) else f"(X {text(node[0])} {text(node[1])})"

    return Tree.from_brackets(text(tree))


def edge(tree: Nested, child: int) -> int:
    """The first (child 0) or last (child -1) token of a tree."""
    return tree if isinstance(tree, int) else edge(tree[child], child)


def residual(h: Sequence[Sequence[float]], i: int, j: int) -> float:
    """O[i, j] of states h[1], h[2], …: the part of h_j that is orthogonal to h_i."""
    if i == 0:
        return 0.0
    square = sum(x * x for x in h[i])
    along = sum(x * y for x, y in zip(h[i], h[j], strict=True)) / square if square else 0.0
    return math.sqrt(sum((y - along * x) ** 2 for x, y in zip(h[i], h[j], strict=True)))


def split_score(h: Sequence[Sequence[float]], a: int, q: int, b: int) -> float:
    """S(q) of a node over tokens a..b."""
    return residual(h, a - 1, q) + residual(h, q, q + 1) + residual(h, q, b)


def terms(tree: Nested, h: Sequence[Sequence[float]], begins_word: Sequence[bool]) -> Iterator[float]:
    """The cross-entropy of every node with two candidates or more.

    Args:
        h: states, ROOT's first.
        begins_word: for each token (ROOT first), whether it is the first of a word.
    """
    if isinstance(tree, int):
        return
    left, right = tree
    a, b, gold = edge(tree, 0), edge(tree, -1), edge(left, -1)
    candidates = [q for q in range(a, b) if begins_word[q + 1]]
    if len(candidates) >= 2:
        scores = {q: split_score(h, a, q, b) for q in candidates}
        top = max(scores.values())
        yield top + math.log(sum(math.exp(score - top) for score in scores.values())) - scores[gold]
    yield from terms(left, h, begins_word)
    yield from terms(right, h, begins_word)
