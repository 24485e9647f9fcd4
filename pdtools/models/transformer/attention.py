"""One multi-head attention; what is special about a model is a list of terms added to its scores."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import cast

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from pdtools.models.kernels.block_attention import block_attention, native_takes
from pdtools.models.kernels.decoding import attend_to_entries, decodes_in_c
from pdtools.models.kernels.dropout import Dropout
from pdtools.models.kernels.fused_works import kernels_work
from pdtools.models.kernels.grammar_attention import grammar_attention, masked_grammar_attention
from pdtools.models.kernels.ranged_attention import ranged_attention
from pdtools.models.kernels.terms import Terms
from pdtools.models.transformer.cache import Cache
from pdtools.models.transformer.score_terms import (
    DepthPositions,
    DepthScores,
    RelativePositions,
    ScoreInputs,
    ScoreTerm,
)
from pdtools.models.transformer.view import KERNEL_DEPTHS

Rotation = Callable[[Tensor, int], Tensor]

# What the kernels take on CUDA: whole tiles of numbers.
KERNEL_HEAD_SIZES = (16, 32, 64, 128)

# Up to this many positions, attention weights are kept for the backward pass on the CPU.
KEPT_LENGTH = 64

# From this many positions on, attention without terms is trained faster in C, with long and short vectors.
NATIVE_LENGTH = 128


class Attention(nn.Module):
    """Multi-head self-attention with score terms.

    Args:
        bias: whether queries, keys, values and the output have biases.
        rotate: what turns queries and keys by their positions, the first of which is terms.
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
            mixed = self._attend_to_cache(q, cache, terms, key_map, inputs, dropout)
        mixed = mixed.transpose(1, 2).reshape(batch, queries, d_model)
        return self.output_dropout(self.output(mixed))

    def _attend_to_cache(
        self,
        q: Tensor,
        cache: Cache,
        terms: Sequence[ScoreTerm],
        key_map: Tensor,
        inputs: ScoreInputs,
        dropout: float,
    ) -> Tensor:
        """From queries of the newest tokens (R, H, 1, d_head) to all so far: (R, H, 1, d_head)."""
        if _is_in_place(q, cache, terms, inputs, dropout):
            k = q.expand(-1, -1, cache.entries.shape[1], -1)  # terms look at its shape alone
            given = _given(terms, q, k, key_map, inputs)
            if inputs.visible is not None:
                given = given._replace(seen=inputs.visible[:, :, 0])
            return attend_to_entries(q[:, :, 0], cache.values, cache.entries, given)[:, :, None]
        blocks = []
        for rows in cache.blocks():
            k, v = self._by_head(cache.read(rows))  # (r, H, K, d_head)
            blocks.append(attend(q[rows], k, v, terms, key_map, inputs.of(rows), dropout))
        return torch.cat(blocks)

    def weights(self, x: Tensor, inputs: ScoreInputs, *, without: str | None = None) -> Tensor:
        """The attention weights within x (B, N, D), by the plain formulation: (B, H, N, N).

        Args:
            without: a score term by its name; the scores are made without it. Queries and keys stay.
        """
        qkv = self.qkv(x)  # (B, N, 3D)
        if self.rotate is not None:
            qkv = self._rotated(qkv, first=0)
        q, k, _ = self._by_head(qkv)  # (B, H, N, d_head) each
        key_map = self.qkv.weight.view(3, x.shape[2], x.shape[2])[1]  # (D, D)
        scores = q @ k.transpose(2, 3)
        for term in cast(Sequence[ScoreTerm], self.terms):
            if term.name != without:
                scores = scores + term(q, k, key_map, inputs)
        scores = scores / math.sqrt(q.shape[3])
        seen = inputs.seen(self.heads)
        if seen is not None:
            scores = scores.masked_fill(~seen, -math.inf)
        return scores.softmax(3)

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
    if inputs.sees_stack:
        (term,) = cast(Sequence[DepthPositions], terms)
        learned = term.vectors(k.shape[2]), term.content_bias, term.position_bias
        if inputs.on_stack is not None:
            return grammar_attention(q, k, v, inputs.on_stack, *learned, dropout)
        assert inputs.depth_difference is not None
        assert inputs.visible is not None
        return masked_grammar_attention(q, k, v, inputs.depth_difference, inputs.visible, *learned)
    if inputs.innermost is not None:
        return ranged_attention(q, k, v, inputs.innermost, dropout)
    in_blocks = inputs.causal is not None and _has_blocks(q, k, v, terms, dropout)
    if in_blocks or (inputs.causal is not None and _has_kernel(q, terms)):
        given = _given(terms, q, k, key_map, inputs)
        return (_attend_in_blocks if in_blocks else _attend_in_kernel)(q, k, v, given, dropout)
    bias = inputs.visible if not terms else _bias(q, k, terms, key_map, inputs)
    is_causal = bias is None and inputs.causal is not None
    return F.scaled_dot_product_attention(q, k, v, attn_mask=bias, dropout_p=dropout, is_causal=is_causal)


def _given(terms: Sequence[ScoreTerm], q: Tensor, k: Tensor, key_map: Tensor, inputs: ScoreInputs) -> Terms:
    """What is added, as kernels take it."""
    shares = [term.tensors(q, k, key_map, inputs) for term in terms]
    return Terms(**{name: tensor for share in shares for name, tensor in share.items()})


def _in_kernels(terms: Sequence[ScoreTerm]) -> bool:
    """Whether kernels for CPUs compute all of these terms, each of which they know once."""
    return all(term.kernels != "none" for term in terms) and len({type(term) for term in terms}) == len(terms)


def _is_in_place(
    q: Tensor, cache: Cache, terms: Sequence[ScoreTerm], inputs: ScoreInputs, dropout: float
) -> bool:
    """Whether C attends to a cache where it lies, with terms that it knows."""
    return (
        (inputs.tape is None or inputs.tape.dtype == torch.uint8)
        and not dropout
        and (inputs.depth_difference is not None or _in_kernels(terms))
        and decodes_in_c(q, cache.values)
    )


def _has_blocks(q: Tensor, k: Tensor, v: Tensor, terms: Sequence[ScoreTerm], dropout: float) -> bool:
    """Whether :func:`block_attention` computes this, and faster than torch: measured on CPUs only."""
    if not terms and not dropout:
        is_narrow = torch.is_autocast_enabled("cpu")
        return q.shape[2] >= NATIVE_LENGTH and not is_narrow and native_takes(q, k, v, Terms())
    return (
        q.device.type == "cpu"
        and (q.dtype in (torch.float32, torch.float64) or torch.is_autocast_enabled("cpu"))
        and _in_kernels(terms)
    )


def _attend_in_blocks(q: Tensor, k: Tensor, v: Tensor, terms: Terms, dropout: float) -> Tensor:
    # Torch keeps the weights of such attention too; depths alone are held to the memory of fused attention.
    has_more = any(name not in ("table", "tape") for name, x in terms._asdict().items() if x is not None)
    keeps = (has_more or dropout > 0) and k.shape[2] <= KEPT_LENGTH
    return block_attention(q, k, v, terms, dropout=dropout, keep_weights=keeps)


def _has_kernel(q: Tensor, terms: Sequence[ScoreTerm]) -> bool:
    """Whether the fused kernels for CUDA take this, and work here."""
    has_distances = any(isinstance(term, RelativePositions) for term in terms)
    return _kernel_takes(q, terms) and kernels_work(q.device, q.dtype, q.shape[3], has_distances)


def _kernel_takes(q: Tensor, terms: Sequence[ScoreTerm]) -> bool:
    return (
        q.device.type == "cuda"
        and q.dtype != torch.float64
        and q.shape[3] in KERNEL_HEAD_SIZES
        and bool(terms)
        and all(term.kernels == "all" for term in terms)
        and len({type(term) for term in terms}) == len(terms)
        and all(
            term.embedding.num_embeddings <= KERNEL_DEPTHS for term in terms if isinstance(term, DepthScores)
        )
    )


def _attend_in_kernel(q: Tensor, k: Tensor, v: Tensor, terms: Terms, dropout: float) -> Tensor:
    from pdtools.models.kernels.fused_attention import fused_attention

    # In mixed precision biases would make them float32.
    keyed = q if terms.content_bias is None else (q + terms.content_bias).to(q.dtype)
    p = None if terms.position_bias is None else (q + terms.position_bias).to(q.dtype)
    # (H, N, d_head), the nearest first
    r = None if terms.distance is None else terms.distance.flip(1).to(q.dtype)
    by_depth = None if terms.table is None else q @ terms.table.transpose(1, 2)  # (B, H, N, depths)
    slopes = None if terms.alibi is None else terms.alibi.float()
    return fused_attention(keyed, k, v, by_depth, terms.tape, slopes, dropout, p=p, r=r)


def _bias(q: Tensor, k: Tensor, terms: Sequence[ScoreTerm], key_map: Tensor, inputs: ScoreInputs) -> Tensor:
    """All terms, of which there are some, scaled and masked: (B, H, Q, K)."""
    bias = cast(Tensor, sum(term(q, k, key_map, inputs) for term in terms)) / math.sqrt(q.shape[-1])
    if inputs.causal is not None:
        bias = bias.masked_fill(~inputs.causal, float("-inf"))
    if inputs.visible is not None:
        bias = bias.masked_fill(~inputs.visible, float("-inf"))
    return bias.to(q.dtype)
