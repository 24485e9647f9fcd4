"""Intervals of accuracies and means."""

from __future__ import annotations

import math
from collections.abc import Sequence

from pdtools.evaluation.student import student_quantile

_Z = 1.959963984540054  # the normal quantile for 95%


def wilson(right: int, n: int) -> tuple[float, float]:
    """The 95% interval of a share, right of n (Wilson 1927)."""
    share, z2 = right / n, _Z * _Z
    middle = (share + z2 / (2 * n)) / (1 + z2 / n)
    half = _Z * math.sqrt(share * (1 - share) / n + z2 / (4 * n * n)) / (1 + z2 / n)
    return middle - half, middle + half


def of_mean(shares: Sequence[tuple[int, int]]) -> tuple[float, float, float]:
    """The unweighted mean of several shares, each (right, n), and its 95% interval.

    The interval recovers the variances from the shares' own (MOVER, Zou and Donner 2008): for one share it is
    Wilson's.

    Returns:
        The mean, the lower and the upper limit.
    """
    values = [right / n for right, n in shares]
    limits = [wilson(right, n) for right, n in shares]
    mean = sum(values) / len(values)
    down = math.sqrt(sum((value - low) ** 2 for value, (low, _) in zip(values, limits, strict=True)))
    up = math.sqrt(sum((high - value) ** 2 for value, (_, high) in zip(values, limits, strict=True)))
    return mean, mean - down / len(values), mean + up / len(values)


def half_width(deviation: float, n: int) -> float:
    """Half of the 95% interval of a mean of n numbers with this standard deviation, by Student's t."""
    return student_quantile(0.975, n - 1) * deviation / math.sqrt(n) if n > 1 else 0.0
