"""One multi-head attention; what is special about a model is a list of terms added to its scores."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import cast

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from pdtools.models.block_attention import Depths, Distances, OpenTokens, block_attention
from pdtools.models.cache import Cache
from pdtools.models.dropout import Dropout
from pdtools.models.kernels import kernels_work
from pdtools.models.score_terms import (
    DepthScores,
    LinearPositions,
    RelativePositions,
    ScoreInputs,
    ScoreTerm,
    StackDistances,
)

Rotation = Callable[[Tensor, int], Tensor]

# What the kernels take: tapes of one byte a cell, and on CUDA whole tiles of numbers.
KERNEL_DEPTHS = 256
KERNEL_HEAD_SIZES = (16, 32, 64, 128)

# Up to this many positions, attention weights are kept for the backward pass on the CPU.
KEPT_LENGTH = 64


class Attention(nn.Module):
    """Multi-head self-attention with score terms.

    Args:
        bias: whether queries, keys, values and the output have biases.
        rotate: what turns queries and keys by their positions, the first of which is given.
    """

    def __init__(
        self,
        d_model: int,
        heads: int,
        dropout: float,
        output_dropout: float,
        terms: Sequence[ScoreTerm],
        *,
        bias: bool = True,
        rotate: Rotation | None = None,
    ) -> None:
        super().__init__()
        self.heads = heads
        self.dropout = dropout
        self.rotate = rotate
        self.qkv = nn.Linear(d_model, 3 * d_model, bias=bias)
        self.output = nn.Linear(d_model, d_model, bias=bias)
        self.output_dropout = Dropout(output_dropout)
        self.terms = nn.ModuleList(terms)

    def forward(self, x: Tensor, inputs: ScoreInputs, cache: Cache | None = None) -> Tensor:
        """Attend within x (B, Q, D); with a cache, from the new token x (R, 1, D) to all so far."""
        batch, queries, d_model = x.shape
        qkv = self.qkv(x)  # (B, Q, 3D)
        if self.rotate is not None:
            qkv = self._rotated(qkv, first=0 if cache is None else cache.past.position)
        q, k, v = self._by_head(qkv)  # (B, H, Q, d_head) each
        key_map = self.qkv.weight.view(3, d_model, d_model)[1]  # (D, D)
        terms = cast(Sequence[ScoreTerm], self.terms)
        dropout = self.dropout if self.training else 0.0
        if cache is None:
            mixed = attend(q, k, v, terms, key_map, inputs, dropout)
        else:
            cache.write(qkv[:, 0, d_model:])
            blocks = []
            for rows in cache.blocks():
                k, v = self._by_head(cache.read(rows))  # (r, H, K, d_head)
                blocks.append(attend(q[rows], k, v, terms, key_map, inputs.of(rows), dropout))
            mixed = torch.cat(blocks)  # (R, H, 1, d_head)
        mixed = mixed.transpose(1, 2).reshape(batch, queries, d_model)
        return self.output_dropout(self.output(mixed))

    def _rotated(self, qkv: Tensor, first: int) -> Tensor:
        """The same with queries and keys turned: (B, Q, 3D)."""
        assert self.rotate is not None
        by_head = self._by_head(qkv)  # (3, B, H, Q, d_head)
        turned = self.rotate(by_head[:2].flatten(0, 1), first).view(by_head[:2].shape)
        return torch.cat([turned, by_head[2:]]).permute(1, 3, 0, 2, 4).reshape(qkv.shape)

    def _by_head(self, side_by_side: Tensor) -> Tensor:
        """Queries, keys and values of all heads (B, K, x·D), as they lie in memory: (x, B, H, K, d_head)."""
        batch, keys, _ = side_by_side.shape
        d_head = self.qkv.in_features // self.heads
        return side_by_side.view(batch, keys, -1, self.heads, d_head).permute(2, 0, 3, 1, 4)


def attend(
    q: Tensor,
    k: Tensor,
    v: Tensor,
    terms: Sequence[ScoreTerm],
    key_map: Tensor,
    inputs: ScoreInputs,
    dropout: float = 0.0,
) -> Tensor:
    """Attention with score terms, by what is fastest for these terms on this device.

    Args:
        q: (B, H, Q, d_head).
        k, v: (B, H, K, d_head).
        terms: to add to the scores.
        key_map: (D, D), the weight of the layer's key projection.
        inputs: of this pass.
        dropout: of the attention weights.

    Returns:
        (B, H, Q, d_head).
    """
    if inputs.causal is not None and _has_blocks(q, terms, dropout):
        return _attend_in_blocks(q, k, v, terms, key_map, inputs, dropout)
    if inputs.causal is not None and _has_kernel(q, terms):
        return _attend_in_kernel(q, k, v, terms, key_map, inputs, dropout)
    bias = inputs.real if not terms else _bias(q, k, terms, key_map, inputs)
    is_causal = bias is None and inputs.causal is not None
    return F.scaled_dot_product_attention(q, k, v, attn_mask=bias, dropout_p=dropout, is_causal=is_causal)


def _has_blocks(q: Tensor, terms: Sequence[ScoreTerm], dropout: float) -> bool:
    """Whether :func:`block_attention` computes this, and faster than torch: measured on CPUs only."""
    kinds = {type(term) for term in terms}
    return (
        q.device.type == "cpu"
        and (q.dtype in (torch.float32, torch.float64) or torch.is_autocast_enabled("cpu"))
        and bool(terms or dropout)
        and kinds <= {RelativePositions, LinearPositions, DepthScores, StackDistances}
        and len(kinds) == len(terms)
    )


def _attend_in_blocks(
    q: Tensor,
    k: Tensor,
    v: Tensor,
    terms: Sequence[ScoreTerm],
    key_map: Tensor,
    inputs: ScoreInputs,
    dropout: float,
) -> Tensor:
    distances = depths = open_tokens = fixed = None
    for term in terms:
        if isinstance(term, RelativePositions):
            r = term.vectors(k.shape[2])  # (H, N, d_head)
            distances = Distances(u=term.content_bias, v=term.position_bias, r=r)
        elif isinstance(term, LinearPositions):
            fixed = term(q, k, key_map, inputs)  # (H, N, N)
        elif isinstance(term, DepthScores):
            assert inputs.tape is not None
            depths = Depths(table=term.vectors(key_map), tape=inputs.tape[:, 0])
        elif isinstance(term, StackDistances):
            assert inputs.stack_distance is not None
            slopes = term.scaled_slopes(q.shape[3])[:, 0, 0]  # (H)
            open_tokens = OpenTokens(slopes=slopes, number=inputs.stack_distance[:, 0])
    # Torch keeps the weights of such attention too; depths alone are held to the memory of fused attention.
    has_more = any(term is not None for term in (distances, open_tokens, fixed))
    keeps = (has_more or dropout > 0) and k.shape[2] <= KEPT_LENGTH
    return block_attention(
        q,
        k,
        v,
        distances=distances,
        depths=depths,
        open_tokens=open_tokens,
        fixed=fixed,
        dropout=dropout,
        keep_weights=keeps,
    )


def _has_kernel(q: Tensor, terms: Sequence[ScoreTerm]) -> bool:
    """Whether the fused kernels for CUDA take this, and work here."""
    has_distances = any(isinstance(term, RelativePositions) for term in terms)
    return _kernel_takes(q, terms) and kernels_work(q.device, q.dtype, q.shape[3], has_distances)


def _kernel_takes(q: Tensor, terms: Sequence[ScoreTerm]) -> bool:
    kinds = {type(term) for term in terms}
    return (
        q.device.type == "cuda"
        and q.dtype != torch.float64
        and q.shape[3] in KERNEL_HEAD_SIZES
        and bool(terms)
        and kinds <= {RelativePositions, LinearPositions, DepthScores}
        and len(kinds) == len(terms)
        and all(
            term.embedding.num_embeddings <= KERNEL_DEPTHS for term in terms if isinstance(term, DepthScores)
        )
    )


def _attend_in_kernel(
    q: Tensor,
    k: Tensor,
    v: Tensor,
    terms: Sequence[ScoreTerm],
    key_map: Tensor,
    inputs: ScoreInputs,
    dropout: float,
) -> Tensor:
    from pdtools.models.fused_attention import fused_attention

    by_depth = tape = slopes = p = r = None
    keyed = q
    for term in terms:
        if isinstance(term, RelativePositions):
            # In mixed precision the biases would make them float32.
            keyed, p = ((q + bias).to(q.dtype) for bias in (term.content_bias, term.position_bias))
            r = term.vectors(k.shape[2]).flip(1).to(q.dtype)  # (H, N, d_head), the nearest first
        elif isinstance(term, LinearPositions):
            slopes = term.slopes.view(-1).float()  # (H)
        elif isinstance(term, DepthScores):
            assert inputs.tape is not None
            by_depth, tape = term.by_depth(q, key_map), inputs.tape[:, 0]
    return fused_attention(keyed, k, v, by_depth, tape, slopes, dropout, p=p, r=r)


def _bias(q: Tensor, k: Tensor, terms: Sequence[ScoreTerm], key_map: Tensor, inputs: ScoreInputs) -> Tensor:
    """All terms, of which there are some, scaled and masked: (B, H, Q, K)."""
    bias = cast(Tensor, sum(term(q, k, key_map, inputs) for term in terms)) / math.sqrt(q.shape[-1])
    if inputs.causal is not None:
        bias = bias.masked_fill(~inputs.causal, float("-inf"))
    if inputs.real is not None:
        bias = bias.masked_fill(~inputs.real, float("-inf"))
    return bias.to(q.dtype)
