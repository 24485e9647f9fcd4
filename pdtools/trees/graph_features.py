"""Features of dependency graphs that a model reads beside words: degree, depth, distance (Huang et al. 2026).

Nodes are 0, the root, and words 1 … m; arcs go from heads to dependents. An arc belongs to its later end t,
and is there from word t on. Shapes: B graphs, M = m + 1 nodes, t the newest word.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

# The features in their order.
FEATURES = ("degree", "depth", "distance")
# The length of a missing path: two of them still fit into int16.
FAR = 16_000
# Costs of a step of a path, from a head to its dependent and back, in depths and in distances.
COSTS = ((1, 1), (10, 1))


class GraphFeatures(NamedTuple):
    """Features of word j after word t, int16 (B, M, M); 0 for j > t, and for words that no path leads to.

    Attributes:
        degree: 10 · dependents + heads.
        depth: 1 + arcs of the shortest path from the root, whatever their directions.
        distance: cheapest path from t to j; 10 a step to a dependent, 1 a step to a head.
    """

    degree: NDArray[np.int16]
    depth: NDArray[np.int16]
    distance: NDArray[np.int16]


def graph_features(adjacency: NDArray[np.bool_]) -> GraphFeatures:
    """Compute the features after every word, in m steps of array operations.

    All new arcs touch t. With o and b the costs of t's arcs from and to t, and X the cheapest paths before t,
    f = min_i (o_i + X[i]) and g = min_i (X[:, i] + b_i) are the paths from and to t, and all others become
    min(X, g[:, None] + f).

    Args:
        adjacency: bool (B, M, M), ``[b, h, d]`` for an arc from h to d; no self-loops.
    """
    batch, nodes, _ = adjacency.shape
    paths = np.full((2, batch, nodes, nodes), FAR, dtype=np.int16)  # shortest, and cheapest
    paths[:, :, range(nodes), range(nodes)] = 0
    degree = np.zeros((batch, nodes), dtype=np.int16)
    found = np.zeros((3, batch, nodes, nodes), dtype=np.int16)
    found[1, :, 0, 0] = 1
    for t in range(1, nodes):
        is_head, is_dependent = adjacency[:, :t, t], adjacency[:, t, :t]  # (B, t)
        degree[:, :t] += is_head * np.int16(10) + is_dependent
        degree[:, t] = is_dependent.sum(1) * 10 + is_head.sum(1)
        rows, old = np.nonzero(is_head | is_dependent)  # (arcs,), in the order of rows
        if len(rows):
            touched, first = np.unique(rows, return_index=True)
            for x, (down, up) in zip(paths, COSTS, strict=True):
                # The cheaper one, if there are arcs both ways.
                out = np.where(is_head[rows, old], up, down).astype(np.int16)  # (arcs,)
                back = np.where(is_dependent[rows, old], up, down).astype(np.int16)
                f = np.minimum.reduceat(x[rows, old, :t] + out[:, None], first)  # (touched, t)
                g = np.minimum.reduceat(x[rows, :t, old] + back[:, None], first)
                x[touched, t, :t], x[touched, :t, t] = f, g
                x[touched, :t, :t] = np.minimum(x[touched, :t, :t], g[:, :, None] + f[:, None, :])
            np.minimum(paths, FAR, out=paths)
        found[0, :, t, : t + 1] = degree[:, : t + 1]
        found[1, :, t, : t + 1] = _or_0(paths[0, :, 0, : t + 1] + 1)
        found[2, :, t, : t + 1] = _or_0(paths[1, :, t, : t + 1])
    return GraphFeatures(*found)


def _or_0(lengths: NDArray[np.int16]) -> NDArray[np.int16]:
    return np.where(lengths < FAR, lengths, np.int16(0))
