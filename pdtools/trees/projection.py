"""Heads of words as trees: order, depths, spans, the lifting of arcs that cross others, constituents.

Words are numbers from 0; a word's parent is its head, -1 for a root.
"""

from __future__ import annotations

import heapq
from collections.abc import Sequence

from pdtools.errors import InputError
from pdtools.trees.tree import Tree, leaf_label

MOST_LIFTED_WORDS = 1_000
TOP_LABEL = "ROOT"
"""The label of the node above several roots."""
Spans = tuple[list[int], list[int]]


def bottom_up(parents: Sequence[int]) -> list[int]:
    """The words in an order in which each comes before its head.

    Raises:
        InputError: for a cycle; for a word that is its own head.
    """
    if (own := next((k for k, parent in enumerate(parents) if parent == k), None)) is not None:
        raise InputError(f"word {own + 1} is its own head")
    waiting = [0] * (len(parents) + 1)  # dependents still to come; the last entry is for -1
    for parent in parents:
        waiting[parent] += 1
    order = [k for k in range(len(parents)) if not waiting[k]]
    for k in order:  # which grows
        parent = parents[k]
        waiting[parent] -= 1
        if not waiting[parent] and parent >= 0:
            order.append(parent)
    if len(order) < len(parents):
        raise InputError("the heads form a cycle")
    return order


def depths(parents: Sequence[int]) -> list[int]:
    """The number of arcs between each word and its root; errors as in :func:`bottom_up`."""
    found = [0] * len(parents)
    for k in reversed(bottom_up(parents)):
        if parents[k] >= 0:
            found[k] = found[parents[k]] + 1
    return found


def spans(parents: Sequence[int], order: Sequence[int]) -> Spans | None:
    """The first and last word that each word dominates, including itself; None if one has a gap.

    Args:
        parents: (n).
        order: (n), see :func:`bottom_up`.
    """
    firsts, lasts = list(range(len(parents))), list(range(len(parents)))
    sizes = [1] * len(parents)
    for k in order:
        parent, first, last = parents[k], firsts[k], lasts[k]
        if last - first >= sizes[k]:
            return None
        if parent >= 0:
            sizes[parent] += sizes[k]
            if first < firsts[parent]:
                firsts[parent] = first
            if last > lasts[parent]:
                lasts[parent] = last
    return firsts, lasts


def project(parents: list[int]) -> tuple[int, Spans]:
    """Lift arcs until none crosses another; return the number of lifts, and the resulting spans.

    An arc is lifted, to the head of its head, if a word between its ends is no descendant of the head: the
    shortest first, and among these the one with the leftmost dependent (Nivre and Nilsson 2005). A dependent
    of a root becomes one more root.

    Args:
        parents: (n), changed in place.

    Raises:
        InputError: as in :func:`bottom_up`, or if more than ``MOST_LIFTED_WORDS`` words need it.
    """
    order = bottom_up(parents)
    found = spans(parents, order)
    n_lifted = 0
    if found is None:
        n_lifted = _lift(parents, order)
        found = spans(parents, bottom_up(parents))
    assert found is not None
    return n_lifted, found


def _lift(parents: list[int], order: Sequence[int]) -> int:
    if len(parents) > MOST_LIFTED_WORDS:
        raise InputError(f"crossing arcs in a sentence of more than {MOST_LIFTED_WORDS:,} words")
    below = [1 << k for k in range(len(parents))]  # the words that each word dominates, as bits
    dependents: list[list[int]] = [[] for _ in range(len(parents) + 1)]  # the last entry is for -1
    for k in order:
        if parents[k] >= 0:
            below[parents[k]] |= below[k]
            dependents[parents[k]].append(k)
    waiting: list[tuple[int, int]] = []  # arcs to be lifted: length, dependent

    def crosses(k: int) -> bool:
        head = parents[k]
        first, last = (k, head) if k < head else (head, k)
        return head >= 0 and ((1 << last) - (1 << first + 1)) & ~below[head] != 0

    def look_at(k: int) -> None:
        if crosses(k):
            heapq.heappush(waiting, (abs(k - parents[k]), k))

    for k in range(len(parents)):
        look_at(k)
    n_lifted = 0
    while waiting:
        length, k = heapq.heappop(waiting)
        head = parents[k]
        if abs(k - head) != length or not crosses(k):
            continue  # lifted already
        n_lifted += 1
        parents[k] = parents[head]
        dependents[head].remove(k)
        dependents[parents[k]].append(k)
        below[head] &= ~below[k]
        look_at(k)
        for other in dependents[head]:
            look_at(other)
    return n_lifted


def constituents(words: Sequence[str], tags: Sequence[str], parents: list[int]) -> tuple[Tree, int]:
    """The tree of dependencies, and the number of arcs lifted for it.

    Args:
        words, tags: (n), words as leaves; a tag ``_`` is an unknown one.
        parents: (n), changed in place.

    Raises:
        InputError: see :func:`project`.
    """
    n_lifted, found = project(parents)
    return tree_of_spans(words, [leaf_label("X" if tag == "_" else tag) for tag in tags], found), n_lifted


def tree_of_spans(words: Sequence[str], tags: Sequence[str], found: Spans) -> Tree:
    """The flat tree in which each word with dependents spans all it dominates, labelled with its tag + ``P``.

    A node ``ROOT`` spans several roots.

    Args:
        words, tags: (n).
        found: see :func:`spans`.
    """
    n = len(words)
    firsts, lasts = found
    heads = [k for k in range(n) if firsts[k] < lasts[k]]
    heads.sort(key=lambda k: firsts[k] * n - lasts[k])  # no two have one span
    labels, starts, ends = (
        [tags[k] + "P" for k in heads],
        [firsts[k] for k in heads],
        [lasts[k] + 1 for k in heads],
    )
    if n > 1 and (not heads or ends[0] - starts[0] < n):
        labels, starts, ends = [TOP_LABEL, *labels], [0, *starts], [n, *ends]
    return Tree.of(words, tags, labels, starts, ends)
