"""Dropout, with random numbers that cost little on a CPU."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.autograd.function import once_differentiable

# Torch's dropout draws a whole random number for each value, which took a tenth of a small model's training
# step; four values share one here, so that the probability is a multiple of 1 / LEVELS.
LEVELS = 1 << 16


def dropped_levels(probability: float) -> int:
    """The number of ``LEVELS`` for which a value is dropped, for a probability below 1: never all."""
    return min(round(probability * LEVELS), LEVELS - 1)


def random_levels(shape: Sequence[int], generator: torch.Generator | None = None) -> Tensor:
    """Uniform random int16 on the CPU, four from each 64-bit draw."""
    count = math.prod(shape)
    draws = torch.empty(-(-count // 4), dtype=torch.int64)
    return draws.random_(-(2**63), None, generator=generator).view(torch.int16)[:count].view(*shape)


def multipliers(levels: Tensor, probability: float, dtype: torch.dtype) -> Tensor:
    """The factors of dropout: 0, or the one that preserves the mean."""
    dropped = dropped_levels(probability)
    kept = torch.empty(levels.shape, dtype=dtype)
    torch.ge(levels, dropped - LEVELS // 2, out=kept)
    return kept.mul_(LEVELS / (LEVELS - dropped))


class Dropout(nn.Module):
    """Zeroes values at random in training, and scales the others up (Srivastava et al. 2014).

    Args:
        probability: that a value is zeroed, from 0 to below 1.
    """

    def __init__(self, probability: float) -> None:
        super().__init__()
        self.probability = probability

    def forward(self, x: Tensor) -> Tensor:
        """The same shape."""
        if not self.training:
            return x
        if dropped_levels(self.probability) == 0 or x.device.type != "cpu":
            return F.dropout(x, self.probability)
        return _Dropout.apply(x, self.probability)


class _Dropout(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: Tensor, probability: float) -> Tensor:
        levels = random_levels(x.shape)
        ctx.save_for_backward(levels)
        ctx.probability = probability
        return multipliers(levels, probability, x.dtype).mul_(x)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor | None, ...]:
        (levels,) = ctx.saved_tensors
        return multipliers(levels, ctx.probability, grad.dtype).mul_(grad), None
