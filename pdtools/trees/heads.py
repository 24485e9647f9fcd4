"""Binarization outward from heads, for trees made from dependencies.

Such trees are flat: the factoring determines most of their attachments. Right-factoring groups the
last children of a node, whatever they are; here a head is grouped with its dependents to the right, the
nearest first, and then with its dependents to the left.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from pdtools.errors import InputError
from pdtools.trees.transforms import MAX_LABEL_CHARS, TOO_WIDE, children_of, with_nodes
from pdtools.trees.tree import Tree


def binarize_from_heads(tree: Tree, heads: NDArray[np.int32]) -> Tree:
    """Give every constituent at most two children, with the labels of :func:`pdtools.trees.binarize`.

    Args:
        tree: a tree in which no arc crosses a constituent.
        heads: int32 (n), each word's head, -1 for the root.

    Raises:
        InputError: if the new labels are too long, see :func:`pdtools.trees.binarize`.
    """
    added: list[tuple[str, int, int]] = []
    parents = heads.tolist()
    n_chars = 0
    nodes = zip(tree.labels, tree.starts.tolist(), tree.ends.tolist(), children_of(tree), strict=True)
    for label, start, end, children in nodes:
        if len(children) < 3:
            continue
        head = start
        while start <= parents[head] < end:
            head = parents[head]
        first = next(i for i, child in enumerate(children) if child[1] <= head < child[2])
        last = first
        for _ in range(len(children) - 2):
            if last + 1 < len(children):
                last += 1
            else:
                first -= 1
            grouped = children[first : last + 1]
            added.append(
                (f"{label}|<{'-'.join(name for name, _, _ in grouped)}>", grouped[0][1], grouped[-1][2])
            )
            n_chars += len(added[-1][0])
            if n_chars > MAX_LABEL_CHARS:
                raise InputError(TOO_WIDE)
    return with_nodes(tree, added)
