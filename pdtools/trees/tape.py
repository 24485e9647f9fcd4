"""The stack tape (Murty et al. 2023, section 3.1).

W_k[j] is the number of binary nodes [a, b] with a ≤ j ≤ b ≤ k: row k is the state after token k's own
reduces, and what token k attends with.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

_DEEPEST_STORED = 255
# Limits on rows whose tapes are made together: enough to make a step's cost small, of nearly the same
# length, and in little memory.
_MOST_ROWS, _LEAST_FILLED, _MOST_BYTES = 2000, 0.7, 1 << 25
_TRANSPOSED_AT_ONCE = 64  # bytes of each row: a line of the cache


def tape(attach: ArrayLike) -> NDArray[np.int32]:
    """The tape of a row of tokens, step by step (Algorithm 1 without a stack of objects).

    Every token keeps its slot of the stack; attaching to slot m reduces all slots above m.

    Args:
        attach: int (n), legal attachments in any layout.

    Returns:
        int32 (n, n), row k is W_k, zero above the diagonal.
    """
    targets = np.asarray(attach)
    n = len(targets)
    rows = np.zeros((n, n), dtype=np.int32)
    depth = np.zeros(n, dtype=np.int32)  # W_k
    slot = np.zeros(n, dtype=np.int32)
    height = 0
    for k, target in enumerate(targets.tolist()):
        if target == k:
            slot[k] = height
            height += 1
        else:
            reached = int(slot[target])
            # Token k takes part in every reduce, just as the tokens in the top slot do.
            slot[k] = height - 1
            inside = slot[: k + 1]
            depth[: k + 1] += np.maximum(0, inside - reached + 1)
            np.minimum(inside, reached, out=inside)
            height = reached + 1
        rows[k] = depth
    return rows


def packed_tapes(attach: ArrayLike, offsets: ArrayLike) -> tuple[NDArray[np.uint8], NDArray[np.int64], int]:
    """The tapes of many rows at once.

    Args:
        attach: int (n_1 + … + n_R), the attachments of R rows, concatenated, legal in any layout, counted
            from the beginning of each row.
        offsets: int (R + 1), the beginning of each row, and the last one's end.

    Returns:
        packed: uint8, the lower triangle of each row's tape, row k in k + 1 bytes, concatenated; depths above
            255 are stored as 255.
        offsets: int64 (R + 1), their beginnings, and the last one's end.
        deepest: the deepest entry of all, not saturated.
    """
    targets, begins = np.asarray(attach, dtype=np.int64), np.asarray(offsets)
    lengths = np.diff(begins)
    sizes = lengths * (lengths + 1) // 2
    places = np.concatenate([[0], np.cumsum(sizes, dtype=np.int64)])
    packed = np.empty(places[-1], dtype=np.uint8)
    over, across = _node_counts(targets, begins)
    order = np.argsort(-lengths, kind="stable")
    falling = -lengths[order]
    first = 0
    while first < len(order) and falling[first]:
        n = -int(falling[first])
        # A row is filled up with the entries that follow it: they come after all of its own.
        similar = int(np.searchsorted(falling, -int(n * _LEAST_FILLED), side="right"))
        most = max(1, min(_MOST_ROWS, _MOST_BYTES // (n * (n + 1) // 2)))
        batch = order[first : min(similar, first + most)]
        tokens = np.minimum(begins[batch] + np.arange(n)[:, None], len(targets) - 1)  # (n, B)
        triangles = _packed_batch(over.take(tokens), across.take(tokens))
        starts, ends = places[batch].tolist(), places[batch + 1].tolist()
        for row, start, end in zip(triangles, starts, ends, strict=True):
            packed[start:end] = row[: end - start]
        first += len(batch)
    return packed, places, int(over.max(initial=0))


def deepest_of(attach: ArrayLike, offsets: ArrayLike) -> int:
    """The deepest entry of the tapes of many rows: see :func:`packed_tapes`."""
    over, _ = _node_counts(np.asarray(attach, dtype=np.int64), np.asarray(offsets))
    return int(over.max(initial=0))


def _node_counts(attach: NDArray[Any], begins: NDArray[Any]) -> tuple[NDArray[Any], NDArray[Any]]:
    """The number of a row's binary nodes over each token, and over it and the next one.

    Args:
        attach: int (n_1 + … + n_R), see :func:`packed_tapes`.
        begins: int (R + 1).

    Returns:
        Two arrays (n_1 + … + n_R), in the smallest type that holds them.
    """
    lengths = np.diff(begins)
    firsts = np.repeat(begins[:-1], lengths)
    # First token of the top constituent after each token: the same as its target's, in ever
    # longer leaps.
    start = attach + firsts
    moving = np.flatnonzero(start != np.arange(len(start)))
    while len(moving):
        there = start[moving]
        further = start[there]
        start[moving] = further
        moving = moving[further != there]
    # The height of the stack: the constituent below another ends before it. The same leaps.
    height = np.ones(len(start), dtype=np.int32)
    below = start - 1
    active = np.flatnonzero(start != firsts)
    below[start == firsts] = -1
    while len(active):
        there = below[active]
        height[active] += height[there]
        there = below[there]
        below[active] = there
        active = active[there >= 0]
    # All constituents except the final stack's become the left child of a node.
    is_left = np.ones(len(start), dtype=bool)
    current = begins[1:][lengths > 0] - 1
    lasts = current
    while len(current):
        is_left[current] = False
        current = start[current[start[current] != firsts[current]]] - 1
    begun = np.bincount(start[is_left], minlength=len(start))  # the nodes that begin at each token
    # Nodes begun less those ended: each of these makes one of two constituents.
    across = np.cumsum(begun) + height
    across -= np.arange(len(start))
    across -= np.repeat(across[lasts], lengths[lengths > 0])
    over = begun
    over[1:] += across[:-1]
    kind = next(k for k in (np.uint8, np.uint16, np.int32) if over.max(initial=0) <= np.iinfo(k).max)
    return over.astype(kind), across.astype(kind)


def _packed_batch(over: NDArray[Any], across: NDArray[Any]) -> NDArray[np.uint8]:
    """Packed tapes (B, n (n + 1) / 2) of rows of one length, from their node counts (n, B).

    The nodes over token j that are complete at step k are all over j except those that reach beyond k,
    which number the fewest over two neighbours from j on, up to k and the token after it.
    """
    n, n_rows = over.shape
    packed = np.empty((n * (n + 1) // 2, n_rows), dtype=np.uint8)
    for k in range(n):
        fewest = across[: k + 1]
        np.minimum(fewest[:k], fewest[k], out=fewest[:k])
        rows = packed[k * (k + 1) // 2 :][: k + 1]
        if over.dtype == np.uint8:
            np.subtract(over[: k + 1], fewest, out=rows)
        else:
            rows[:] = np.minimum(over[: k + 1] - fewest, _DEEPEST_STORED)
    if n_rows == 1:  # perhaps a long one: no copy
        return packed.T
    triangles = np.empty((n_rows, len(packed)), dtype=np.uint8)
    for first in range(0, len(packed), _TRANSPOSED_AT_ONCE):
        part = slice(first, first + _TRANSPOSED_AT_ONCE)
        triangles[:, part] = packed[part].T
    return triangles
