"""The stack tape (Murty et al. 2023, section 3.1).

W_k[j] is the number of binary nodes [a, b] with a ≤ j ≤ b ≤ k: row k is the state after token k's own
reduces, and what token k attends with.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike, NDArray

_DEEPEST_STORED = 255


def tape(attach: ArrayLike) -> NDArray[np.int32]:
    """The tape of a row of tokens, step by step (Algorithm 1 without a stack of objects).

    Every token keeps the slot of the stack that it lies in; attaching to slot m reduces all slots above m.

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


def tape_from_spans(starts: ArrayLike, ends: ArrayLike, n: int) -> NDArray[np.int32]:
    """The tape from all binary nodes at once: a 2-D difference array and its cumulative sum.

    Args:
        starts, ends: int (m), binary nodes covering tokens [start, end); a node over one token is none.
        n: number of tokens.

    Returns:
        int32 (n, n), row k is W_k, zero above the diagonal.
    """
    first, past = np.asarray(starts), np.asarray(ends)
    difference = np.zeros((n, n + 1), dtype=np.int32)
    np.add.at(difference, (past - 1, first), 1)
    np.add.at(difference, (past - 1, past), -1)
    return difference[:, :n].cumsum(axis=1, dtype=np.int32).cumsum(axis=0, dtype=np.int32)


def max_depth(tape: NDArray[np.int32]) -> int:
    """The deepest entry of a tape, not saturated; 0 for an empty one."""
    return int(tape.max(initial=0))


def pack_tape(tape: NDArray[np.int32]) -> bytes:
    """The lower triangle of a tape (n, n), row k in k + 1 bytes; depths above 255 are stored as 255."""
    n = len(tape)
    return np.minimum(tape[np.tril_indices(n)], _DEEPEST_STORED).astype(np.uint8).tobytes()


def unpack_tape(packed: bytes, n: int) -> NDArray[np.uint8]:
    """The inverse of :func:`pack_tape`.

    Returns:
        uint8 (n, n), zero above the diagonal.

    Raises:
        ValueError: if the bytes are not the triangle of n tokens.
    """
    if len(packed) != n * (n + 1) // 2:
        raise ValueError(f"a packed tape of {n} tokens has {n * (n + 1) // 2} bytes, not {len(packed)}")
    rows = np.zeros((n, n), dtype=np.uint8)
    rows[np.tril_indices(n)] = np.frombuffer(packed, dtype=np.uint8)
    return rows
