"""Conversion of dependencies to constituents: crossing arcs are lifted, heads span their descendants."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from pdtools.trees.forms.base import leaf_label
from pdtools.trees.projection import Spans, project
from pdtools.trees.tree import Tree

TOP_LABEL = "ROOT"
"""The label of the node above several roots."""


def constituents(words: Sequence[str], tags: Sequence[str], parents: list[int]) -> tuple[Tree, int]:
    """The tree of dependencies, and the number of arcs lifted for it.

    Args:
        words, tags: (n), words as leaves; a tag ``_`` is an unknown one.
        parents: (n), changed in place.

    Raises:
        InputError: see :func:`pdtools.trees.projection.project`.
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
    return Tree(
        words=tuple(words),
        tags=tuple(tags),
        labels=tuple(labels),
        starts=np.array(starts, dtype=np.int32),
        ends=np.array(ends, dtype=np.int32),
    )
