"""Student's t: tails and quantiles, with the standard library alone."""

from __future__ import annotations

import math
from functools import lru_cache

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
