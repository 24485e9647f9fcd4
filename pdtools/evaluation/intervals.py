"""Intervals of shares and means, and Student's t, with the standard library alone."""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import lru_cache

_Z = 1.959963984540054  # the normal quantile for 95%
_NORMAL = 1e6  # degrees of freedom with which Student's t is normal, to within 1e-6
_TERMS = 1000  # limit on the terms of a continued fraction; most end after a dozen


def student_p(t: float, freedom: float) -> float:
    """P(|T| ≥ |t|) of Student's t."""
    if freedom > _NORMAL:
        return math.erfc(abs(t) / math.sqrt(2))
    return incomplete_beta(freedom / 2, 0.5, freedom / (freedom + t * t))


@lru_cache(maxsize=256)
def student_quantile(share: float, freedom: float) -> float:
    """The quantile of Student's distribution for a share of at least 1/2."""
    low, high = 0.0, 1.0
    while student_p(high, freedom) > 2 * (1 - share):
        high *= 2
    for _ in range(100):
        middle = (low + high) / 2
        low, high = (middle, high) if student_p(middle, freedom) > 2 * (1 - share) else (low, middle)
    return high


def incomplete_beta(a: float, b: float, x: float) -> float:
    """The regularized incomplete beta function I_x(a, b), by its continued fraction (DLMF 8.17.22)."""
    if x <= 0 or x >= 1:
        return float(x >= 1)
    if x > (a + 1) / (a + b + 2):  # the fraction converges slowly, its complement's fast
        return 1 - incomplete_beta(b, a, 1 - x)
    front = math.exp(
        math.lgamma(a + b) - math.lgamma(a) - math.lgamma(b) + a * math.log(x) + b * math.log1p(-x)
    )
    # 1 + d_1 / (1 + d_2 / (1 + …)) from the front, until it does not change (the modified Lentz algorithm).
    fraction = above = 1.0
    below, change, k = 0.0, 2.0, 0
    while abs(change - 1) > 1e-15 and k < _TERMS:
        k += 1
        m = k // 2
        if k % 2:
            d = -(a + m) * (a + b + m) * x / ((a + 2 * m) * (a + 2 * m + 1))
        else:
            d = m * (b - m) * x / ((a + 2 * m - 1) * (a + 2 * m))
        above, below = 1 + d / above, 1 / (1 + d * below)
        change = above * below
        fraction *= change
    return front / (a * fraction)


def wilson(right: float, n: int) -> tuple[float, float]:
    """The 95% interval of a share, right of n (Wilson 1927)."""
    share, z2 = right / n, _Z * _Z
    middle = (share + z2 / (2 * n)) / (1 + z2 / n)
    half = _Z * math.sqrt(share * (1 - share) / n + z2 / (4 * n * n)) / (1 + z2 / n)
    return max(0.0, middle - half), min(1.0, middle + half)


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
