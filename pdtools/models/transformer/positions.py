"""Positions in a transformer: score terms, rotations, and embeddings."""

from __future__ import annotations

import torch
from torch import Tensor

from pdtools.models.transformer.config import TransformerConfig
from pdtools.models.transformer.score_terms import (
    DepthPositions,
    LinearPositions,
    RelativePositions,
    ScoreInputs,
    ScoreTerm,
    shift_to_keys,
    sinusoids_of,
)


class TwoSidedPositions(RelativePositions):
    """Transformer-XL's relative positions if queries see keys on both sides: distances of either sign."""

    form = ()

    def vectors(self, keys: int) -> Tensor:
        """W_R R of the distances keys - 1, …, 0, …, 1 - keys: (H, 2 K - 1, d_head)."""
        return self._vectors(torch.arange(keys - 1, -keys, -1, device=self.distance_map.weight.device))

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
    if config.positions == "relative" and config.relative_to == "depths":
        return [DepthPositions(config.d_model, config.heads, dropout=config.position_dropout)]
    if config.positions == "relative":
        is_masked = config.objective == "masked"
        relative = TwoSidedPositions if is_masked else RelativePositions
        if not config.as_released:
            dropout, biases = config.position_dropout, config.position_biases
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
