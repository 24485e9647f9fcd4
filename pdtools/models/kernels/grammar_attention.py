"""Attention of Transformer Grammars (Sartran et al. 2022): from integers, without a mask.

A position sees the stack, or, if a constituent is composed, that constituent: eleven keys of eighty in
sentences of newspapers. In training it is computed in C if there is a compiler
(:mod:`pdtools.models.kernels.native_attention`), for these keys alone.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache, cached_property

import torch
import torch.nn.functional as F
from torch import Tensor

from pdtools.models.kernels.block_attention import block_attention
from pdtools.models.kernels.native_attention import AttentionKernel, Tensors, type_in_c
from pdtools.models.kernels.self_test import agrees, dropped_twice, with_gradients
from pdtools.models.kernels.terms import Terms

# The differences of depth, query's minus key's, that are distinguished; others are clipped to these.
NEAREST, FARTHEST = -1, 62
DISTANCES = FARTHEST - NEAREST + 1

_DTYPES = (torch.float32, torch.float64)
_LEARNED = ("distance", "content_bias", "position_bias")

# r, the vectors W_R R of relative positions NEAREST to FARTHEST: float (H, DISTANCES, d_head); and the biases
# u and v of Transformer-XL (Dai et al. 2019, section 3.3): float (H, 1, d_head).
Learned = tuple[Tensor, Tensor, Tensor]


def _cells(tensors: Tensors) -> dict[str, int]:
    keys = tensors["keys"]
    assert keys is not None
    return {"cells": len(keys)}


def _weights_shape(tensors: Tensors) -> tuple[int, ...]:
    q = tensors["q"]
    assert q is not None
    return (q.shape[1], _cells(tensors)["cells"])


IN_C = AttentionKernel(
    name="grammar_attention",
    inputs=("offsets", "keys", "distances", "q", "k", "v", *_LEARNED),
    learned=_LEARNED,
    kept="weights",
    kept_shape=_weights_shape,
    sizes=_cells,
)


@dataclass(frozen=True)
class Visible:
    """Keys that each query of a batch sees, concatenated: computed once, for all layers and heads.

    Attributes:
        offsets: int64 (B N + 1), the index at which the keys of each query begin.
        keys: int32 (cells), ascending for each query, positions in its row; always with the query itself.
        distances: uint8 (cells), relative positions: 0 for ``NEAREST``, up to ``DISTANCES`` - 1.
        n: positions in a row.
    """

    offsets: Tensor
    keys: Tensor
    distances: Tensor
    n: int

    @cached_property
    def dense(self) -> tuple[Tensor, Tensor]:
        """Relative positions, uint8 (B, N, N), and visible keys, bool (B, N, N), for torch's operations."""
        rows = len(self.offsets) - 1
        row = torch.arange(rows, device=self.keys.device).repeat_interleave(self.offsets.diff())
        distances = torch.zeros(rows, self.n, dtype=torch.uint8, device=self.keys.device)
        seen = torch.zeros_like(distances, dtype=torch.bool)
        distances[row, self.keys.long()] = self.distances
        seen[row, self.keys.long()] = True
        shape = (rows // max(self.n, 1), self.n, self.n)
        return distances.view(shape), seen.view(shape)


def visible_keys(pop: Tensor, compose: Tensor, depth: Tensor, mirrored: Tensor | None = None) -> Visible:
    """Return the keys that positions of Transformer Grammars see: themselves, and those not popped before.

    Args:
        pop: int (B, N), the COMPOSE step that removes a position from the stack; the row's length or more if
            none does, at most the position itself if it is never on the stack. Padding, at the end, may have
            any.
        compose: bool (B, N), True for COMPOSE steps, which see only the items that they pop.
        depth: int (B, N), open constituents, the one that the position opens or closes included.
        mirrored: bool (B, N), COMPOSE steps whose distances 0 and -1 to other keys are exchanged: arcs to the
            left, whose dependent is the lower item. None without such steps.
    """
    batch, n = pop.shape
    row = torch.arange(n, device=pop.device)
    # Each key with all positions from itself to the one that pops it: twice as many as see it.
    positions = (pop.clamp(max=n - 1) - row).clamp(min=0).flatten() + 1  # (B N)
    first = positions.cumsum(0) - positions
    key = torch.arange(batch * n, device=pop.device).repeat_interleave(positions)
    query = key + torch.arange(len(key), device=pop.device) - first[key]
    popped, i = pop.flatten()[key], query % n
    seen = torch.where(compose.flatten()[query], popped == i, popped > i) | (query == key)
    query, order = query[seen].sort(stable=True)
    key = key[seen][order]
    levels = depth.flatten()
    distance = levels[query] - levels[key]
    if mirrored is not None:
        distance = torch.where(mirrored.flatten()[query] & (query != key), -1 - distance, distance)
    counts = query.bincount(minlength=batch * n)
    return Visible(
        offsets=F.pad(counts.cumsum(0), (1, 0)),
        keys=(key % n).int(),
        distances=(distance.clamp(NEAREST, FARTHEST) - NEAREST).to(torch.uint8),
        n=n,
    )


def grammar_attention(
    q: Tensor, k: Tensor, v: Tensor, visible: Visible, learned: Learned, dropout: float = 0.0
) -> Tensor:
    """Attention to visible keys j only, with scores (q_i·k_j + u·k_j + (q_i + v)·r_ij) / sqrt(d_head).

    Args:
        q, k, v: float (B, H, N, d_head).
        visible: the visible keys of this batch.
        learned: r, u and v.
        dropout: the share of attention weights dropped.

    Returns:
        float (B, H, N, d_head).
    """
    how = _by_lists if native_takes(q, k, v, learned) else _by_torch
    return how(q, k, v, visible, learned, dropout)


def _by_lists(q: Tensor, k: Tensor, v: Tensor, visible: Visible, learned: Learned, dropout: float) -> Tensor:
    """Compute :func:`grammar_attention` in C."""
    lists = {name: getattr(visible, name) for name in ("offsets", "keys", "distances")}
    return IN_C({**lists, "q": q, "k": k, "v": v, **dict(zip(_LEARNED, learned, strict=True))}, dropout)


def _by_torch(q: Tensor, k: Tensor, v: Tensor, visible: Visible, learned: Learned, dropout: float) -> Tensor:
    """Compute :func:`grammar_attention` without lists: in blocks of rows on CPUs, elsewhere with a mask."""
    distance, content_bias, position_bias = learned
    distances, seen = visible.dense
    if q.device.type == "cpu" and (q.dtype in _DTYPES or torch.is_autocast_enabled("cpu")):
        # A relative position is to a query as a depth is in pushdown layers, but for the query's bias.
        terms = Terms(content_bias=content_bias - position_bias, table=distance, tape=distances, seen=seen)
        return block_attention(q + position_bias, k, v, terms, dropout=dropout)
    return masked_grammar_attention(q, k, v, distances[:, None], seen[:, None], learned, dropout)


def masked_grammar_attention(
    q: Tensor,
    k: Tensor,
    v: Tensor,
    distances: Tensor,
    seen: Tensor,
    learned: Learned,
    dropout: float = 0.0,
) -> Tensor:
    """Compute :func:`grammar_attention` for Q queries with any K keys: float (B, H, Q, d_head).

    Args:
        q: float (B, H, Q, d_head).
        k, v: float (B, H, K, d_head).
        distances: int (B, 1, Q, K), relative positions: 0 for ``NEAREST``, up to ``DISTANCES`` - 1.
        seen: bool (B, 1, Q, K), True for visible keys.
        learned, dropout: see :func:`grammar_attention`.
    """
    distance, content_bias, position_bias = learned
    # einsum folds batch and queries into one matrix; matmul would first copy the distances for every row.
    by_distance = torch.einsum("bhqd,htd->bhqt", q + position_bias, distance) / math.sqrt(q.shape[3])
    bias = by_distance.gather(3, distances.long().expand(-1, q.shape[1], -1, -1))
    bias = bias.masked_fill_(~seen, -math.inf)
    return F.scaled_dot_product_attention(q + content_bias, k, v, attn_mask=bias, dropout_p=dropout)


def native_takes(q: Tensor, k: Tensor, v: Tensor, learned: Learned) -> bool:
    """Return whether the functions in C can compute this and work here: they serve training alone."""
    dtype, heads, d_head = type_in_c(q, k, v, *learned), q.shape[1], q.shape[3]
    fits = [x.shape for x in learned] == [(heads, length, d_head) for length in (DISTANCES, 1, 1)]
    return dtype is not None and fits and _native_works(dtype)


@cache
def _native_works(dtype: torch.dtype) -> bool:
    """Return whether the functions in C compile, and agree with torch's operations.

    Args:
        dtype: float32 or float64.
    """
    if IN_C.library(dtype) is None:
        return False
    heads, n, d_head = 2, 40, 8

    def pairs(random: torch.Generator) -> Iterator[tuple[Tensor, Tensor]]:
        def normal(*shape: int) -> Tensor:
            return torch.randn(shape, generator=random, dtype=dtype).requires_grad_()

        pop, depth = (torch.randint(n, (2, n), generator=random) for _ in range(2))
        visible = visible_keys(pop, depth % 3 == 0, depth)
        q, k, v = (normal(2, heads, n, d_head) for _ in range(3))
        learned = (normal(heads, DISTANCES, d_head), normal(heads, 1, d_head), normal(heads, 1, d_head))
        weight = normal(2, heads, n, d_head).detach()
        both = (how(q, k, v, visible, learned, 0.0) for how in (_by_lists, _by_torch))
        yield from zip(*(with_gradients(each, weight, [q, k, v, *learned]) for each in both), strict=True)
        yield dropped_twice(_by_lists(q, k, v, visible, learned, 0.5), weight, v)

    tolerance = 1e-10 if dtype == torch.float64 else 1e-3
    return agrees(pairs, "attention to constituents is", "in C", tolerance=tolerance)
