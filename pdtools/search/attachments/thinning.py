"""Unbiased thinning: few weighted hypotheses drawn from many, with weights preserved in expectation.

The optimal resampling of Fearnhead and Clifford (2003, "On-line inference for hidden Markov models via
particle filters"), for hypotheses that are all different: weights above some c stay as they are,
each other one stays with probability weight/c and then weighs c. No other unbiased way to keep so many
changes the weights less, in squares.
"""

from __future__ import annotations

import hashlib

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor


def thin(weights: Tensor, most: Tensor, uniform: Tensor) -> Tensor:
    """Keep at most ``most`` hypotheses of each row, with weights preserved in expectation.

    The draw is systematic, along the row: similar hypotheses should be neighbours.

    Args:
        weights: float64 (P, C), log; −inf where there is no hypothesis.
        most: int64 (P,), at least 1. A row with fewer keeps all, unchanged.
        uniform: float64 (P,), a random number in (0, 1) for each row.

    Returns:
        float64 (P, C), log weights; −inf for dropped ones.
    """
    top = weights.amax(1, keepdim=True)  # (P, 1)
    weight = (weights - top.where(top > -torch.inf, 0.0)).exp()  # (P, C)
    threshold = _threshold(weight, most)  # (P, 1), c
    share = torch.where(weight > threshold, 0.0, weight / threshold).nan_to_num(0.0)  # to be drawn by
    passed = (share.cumsum(1) - uniform[:, None]).floor()  # (P, C), whole numbers that were passed
    before = torch.cat([(-uniform[:, None]).floor(), passed[:, :-1]], 1)
    drawn = torch.where(passed > before, threshold.log() + top, -torch.inf)
    return torch.where(weight > threshold, weights, drawn)


def _threshold(weight: Tensor, most: Tensor) -> Tensor:
    """The c of each row for which Σ min(1, weight/c) is ``most``, (P, 1); 0 for rows of no more than that."""
    largest_first = weight.sort(1, descending=True).values  # (P, C)
    rest = largest_first.flip(1).cumsum(1).flip(1)  # (P, C), summed from here on
    left = most[:, None] - torch.arange(weight.shape[1], device=weight.device)  # (P, C), still to be kept
    fits = (left > 0) & (largest_first * left <= rest)
    certain = fits.to(torch.uint8).argmax(1, keepdim=True)  # (P, 1), the first that need not stay
    found = rest.gather(1, certain) / left.gather(1, certain)
    return found.masked_fill(((weight > 0).sum(1) <= most)[:, None], 0.0)


def uniform_of(seed: int, prefix: NDArray[np.integer]) -> float:
    """A random number in (0, 1) that depends only on the seed and on the tokens read."""
    content = seed.to_bytes(16, "little") + prefix.astype("<i8").tobytes()
    digest = hashlib.blake2b(content, digest_size=6).digest()
    return (int.from_bytes(digest, "little") + 0.5) / 2.0**48
