"""One layer of a transformer and its positions: attention whose scores have terms, a feed-forward network.

The implementation of attention is picked by :mod:`pdtools.models.transformer.backends`.

Shapes: B sentences or R hypotheses, N positions, Q queries, K keys, H heads, D numbers, d_head of each head.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import cast

import torch
from torch import Tensor, nn

from pdtools.models.kernels.dropout import Dropout
from pdtools.models.kernels.native_gelu import Gelu
from pdtools.models.transformer.backends import IN_CACHE, AttentionWork, attend
from pdtools.models.transformer.cache import Cache
from pdtools.models.transformer.config import Activation, TransformerConfig
from pdtools.models.transformer.score_terms import (
    DepthPositions,
    LinearPositions,
    RelativePositions,
    ScoreInputs,
    ScoreTerm,
    shift_to_keys,
    sinusoids_of,
)
from pdtools.models.transformer.stack_attention import StackAttention, StackCache

Rotation = Callable[[Tensor, int], Tensor]


class Attention(nn.Module):
    """Multi-head self-attention with score terms.

    Args:
        bias: whether queries, keys, values and the output have biases.
        rotate: the function that rotates queries and keys by their positions; its second argument is the
            first position.
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
        """Attend from queries of the newest tokens (R, H, 1, d_head) to all so far: (R, H, 1, d_head)."""
        keys = q.expand(-1, -1, cache.entries.shape[1], -1)  # terms look at its shape alone
        step = AttentionWork(q, keys, keys, terms, key_map, inputs, dropout, cache)
        if IN_CACHE.takes(step):
            return IN_CACHE.attend(step)
        blocks = []
        for rows in cache.blocks():
            k, v = self._by_head(cache.read(rows))  # (r, H, K, d_head)
            blocks.append(attend(q[rows], k, v, terms, key_map, inputs.of(rows), dropout))
        return torch.cat(blocks)

    def weights(self, x: Tensor, inputs: ScoreInputs, *, without: str | None = None) -> Tensor:
        """The attention weights within x (B, N, D), by the plain formulation: (B, H, N, N).

        Args:
            without: a score term by its name; the scores are computed without it. Queries and keys stay.
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
        """Return queries, keys and values with queries and keys rotated: (B, Q, 3D)."""
        assert self.rotate is not None
        by_head = self._by_head(qkv)  # (3, B, H, Q, d_head)
        turned = self.rotate(by_head[:2].flatten(0, 1), first).view(by_head[:2].shape)
        return torch.cat([turned, by_head[2:]]).permute(1, 3, 0, 2, 4).reshape(qkv.shape)

    def _by_head(self, side_by_side: Tensor) -> Tensor:
        """Queries, keys and values of all heads (B, K, x·D), as they lie in memory: (x, B, H, K, d_head)."""
        batch, keys, _ = side_by_side.shape
        d_head = self.qkv.in_features // self.heads
        return side_by_side.view(batch, keys, -1, self.heads, d_head).permute(2, 0, 3, 1, 4)


class Block(nn.Module):
    """Attention and a feed-forward network, each added to its input, before or after a layer norm.

    Args:
        config: the configuration of the model.
        terms: added to the attention scores.
        has_stack: whether stack attention follows, added to its input without a norm.
    """

    def __init__(self, config: TransformerConfig, terms: Sequence[ScoreTerm], *, has_stack: bool) -> None:
        super().__init__()
        self.is_post_norm = config.norm == "post"
        self.attention_norm = nn.LayerNorm(config.d_model, eps=config.norm_eps)
        self.attention = Attention(
            config.d_model,
            config.heads,
            config.attention_dropout,
            config.output_dropout,
            terms,
            bias=config.attention_bias,
            rotate=rotate if config.positions == "rotary" else None,
        )
        self.feed_forward_norm = nn.LayerNorm(config.d_model, eps=config.norm_eps)
        self.feed_forward = nn.Sequential(
            nn.Linear(config.d_model, config.d_ff),
            nn.Sequential(activation(config.activation), Dropout(config.feed_forward_dropout))
            if config.feed_forward_dropout
            else activation(config.activation),
            nn.Linear(config.d_ff, config.d_model),
            Dropout(config.output_dropout),
        )
        self.stack = StackAttention(config.d_model) if has_stack else None

    def forward(
        self,
        x: Tensor,
        inputs: ScoreInputs,
        cache: Cache | None = None,
        stack_cache: StackCache | None = None,
    ) -> Tensor:
        """Compute the output (B, N, D); with caches, for the next position of hypotheses (R, 1, D)."""
        if self.is_post_norm:
            x = self.attention_norm(x + self.attention(x, inputs, cache))
            x = self.feed_forward_norm(x + self.feed_forward(x))
        else:
            x = x + self.attention(self.attention_norm(x), inputs, cache)
            x = x + self.feed_forward(self.feed_forward_norm(x))
        return x if self.stack is None else x + self.stack(x, stack_cache)


def activation(name: Activation) -> nn.Module:
    """Return the activation function of that name."""
    if name == "relu":
        return nn.ReLU()
    return Gelu() if name == "gelu" else nn.GELU()


class TwoSidedPositions(RelativePositions):
    """Transformer-XL's relative positions if queries see keys on both sides: distances of either sign."""

    form = ()

    def vectors(self, keys: int) -> Tensor:
        """W_R R of the distances keys - 1, …, 0, …, 1 - keys: (H, 2 K - 1, d_head)."""
        distances = torch.arange(keys - 1, -keys, -1, device=self.distance_map.weight.device)
        return self._mapped(sinusoids_of(distances, self.d_model, self.timescale))

    def forward(self, q: Tensor, k: Tensor, key_map: Tensor, inputs: ScoreInputs) -> Tensor:
        keys = k.shape[2]
        r = self.vectors(keys).transpose(1, 2)  # (H, d_head, 2 N - 1)
        by_distance = torch.einsum("bhqd,hdk->bhqk", q + self.position_bias, r)  # (B, H, N, 2 N - 1)
        content = self.content_bias @ k.transpose(2, 3)  # (B, H, 1, N)
        return content + shift_to_keys(by_distance)[..., :keys]


class TiltedLinearPositions(LinearPositions):
    """ALiBi's penalty on distance as in stack attention's released code: half a step less for the past.

    Without the half, a model that sees both sides cannot tell them apart by it. The code's causal models
    have it too: there it makes the token itself count less.
    """

    form = ()

    def distance(self, i_minus_j: Tensor) -> Tensor:
        """See :meth:`LinearPositions.distance`."""
        return i_minus_j.abs() - 0.5 * (i_minus_j > 0)


def position_terms(config: TransformerConfig) -> list[ScoreTerm]:
    """Return the score terms by which each layer knows positions."""
    dropout = config.input_dropout if config.drops_positions else 0.0
    if config.positions == "relative" and config.relative_to == "depths":
        return [DepthPositions(config.d_model, config.heads, dropout=dropout)]
    if config.positions == "relative":
        is_masked = config.objective == "masked"
        relative = TwoSidedPositions if is_masked else RelativePositions
        if not config.as_released:
            biases = config.position_biases
            return [relative(config.d_model, config.heads, dropout=dropout, biases=biases)]
        nearest = 0 if is_masked else 1
        scale = config.sincos_timescale
        return [relative(config.d_model, config.heads, timescale=scale, nearest=nearest, deviation=0.02)]
    if config.positions == "alibi":
        linear = TiltedLinearPositions if config.as_released else LinearPositions
        return [linear(config.heads)]
    return []


def sincos_positions(config: TransformerConfig, first: int, count: int, lengths: Tensor) -> Tensor:
    """Sinusoidal embeddings of the positions ``first``, first + 1, … of rows.

    Args:
        config: with positions "sincos"; as released, positions are counted down to 1 at the end of a row.
        lengths: int64 (B,), the lengths of whole rows.

    Returns:
        float (B or 1, count, D).
    """
    positions = torch.arange(first, first + count, device=lengths.device)[None]  # (1, count)
    if config.as_released:
        positions = lengths[:, None] - positions  # (B, count)
    return sinusoids_of(positions, config.d_model, config.sincos_timescale)


def rotate(x: Tensor, first: int) -> Tensor:
    """Rotary positions (Su et al. 2021, section 3.2.2): rotate pairs of neighbouring values by the position.

    Args:
        x: float (B, H, N, d_head), queries or keys of the positions ``first``, first + 1, ….
        first: the first position.

    Returns:
        The same shape; products of queries and keys depend on differences of positions only.
    """
    n, d_head = x.shape[2:]
    table = sinusoids_of(torch.arange(first, first + n, device=x.device), d_head).to(x.dtype)  # (N, d_head)
    sine, cosine = table.split(d_head // 2, dim=1)  # (N, d_head / 2) each
    even, odd = x[..., ::2], x[..., 1::2]  # (B, H, N, d_head / 2) each
    return torch.stack([even * cosine - odd * sine, even * sine + odd * cosine], dim=-1).flatten(3)
