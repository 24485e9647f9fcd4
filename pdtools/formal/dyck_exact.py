"""Exact figures of the Dyck automaton under conditions, by dynamic programming over lengths.

A string is a sequence of top-level pairs. With a(l) the probability that a pair opened at depth 0 spans l
tokens, u(n), the probability of standing at depth 0 after n tokens, is sum_l w(n - l) a(l) u(n - l). There
w(j), the probability of an opener after j tokens at depth 0, is 1 below the minimum length and 1/2 from
there on. A string has length n with probability (1 - w(n)) u(n). Dependencies over the cap are excluded from
a(l): the longest one of a string is a top-level pair's, l - 1. A string of n tokens, v of them forced (an
opener, as the string may not end yet; a closer at depth m), has 2^-(n + 1 - v) k^(-n/2): expected n and v
give the entropy.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

Float64 = NDArray[np.float64]


@dataclass(frozen=True, kw_only=True)
class Expectations:
    """Exact figures of a language.

    Attributes:
        acceptance: the share of the automaton's strings that meet the conditions on maximums.
        mean_length: expected tokens of a string, without its end; NaN if no string meets the conditions.
        entropy_per_string: nats; NaN likewise.
        entropy_per_token: nats, the end of the string counted as a token. Its exponential is the lowest
            perplexity that a model can have.
    """

    acceptance: float
    mean_length: float
    entropy_per_string: float
    entropy_per_token: float


def expectations(
    brackets: int,
    depth: int,
    *,
    min_length: int = 0,
    max_length: int | None = None,
    max_dependency: int | None = None,
) -> Expectations:
    """Expected length and entropy of Dyck(brackets, depth), see :class:`pdtools.formal.Dyck`.

    The free automaton has 2m tokens, and m (2 ln 2 + ln k) nats.
    """
    if max_length is None:
        acceptance, tokens, forced = _unbounded(depth, min_length, max_dependency)
    else:
        at_zero, seen = _at_depth_zero(depth, max_length, min_length, max_dependency)
        fits = np.arange(max_length + 1) >= min_length
        acceptance = float(at_zero[fits].sum()) / 2
        tokens = float((at_zero * np.arange(max_length + 1))[fits].sum()) / 2
        forced = float(seen[fits].sum()) / 2
    if acceptance <= 0:
        return Expectations(
            acceptance=0.0, mean_length=math.nan, entropy_per_string=math.nan, entropy_per_token=math.nan
        )
    mean_length, mean_forced = tokens / acceptance, forced / acceptance
    choices = mean_length + 1 - mean_forced
    entropy = choices * math.log(2) + mean_length / 2 * math.log(brackets) + math.log(acceptance)
    return Expectations(
        acceptance=acceptance,
        mean_length=mean_length,
        entropy_per_string=entropy,
        entropy_per_token=entropy / (mean_length + 1),
    )


def length_probabilities(
    depth: int, longest: int, *, min_length: int = 0, max_dependency: int | None = None
) -> Float64:
    """The distribution of the length without a cap on it, up to ``longest``.

    Returns:
        float64 (longest + 1); the rest of the probability belongs to longer strings.
    """
    at_zero, _ = _at_depth_zero(depth, longest, min_length, max_dependency)
    accepted = expectations(1, depth, min_length=min_length, max_dependency=max_dependency).acceptance
    probabilities = at_zero / 2 / accepted
    probabilities[:min_length] = 0
    return probabilities


def _pairs(depth: int, longest: int) -> tuple[Float64, Float64]:
    """Pairs opened at depth 0: the probability of each span, and the same times its tokens at depth m.

    Returns:
        Two of float64 (longest + 1).
    """
    spans = np.zeros(longest + 1)
    visits = np.zeros(longest + 1)
    reached = np.zeros(depth + 2)  # by depth; the pair is open
    seen = np.zeros(depth + 2)  # times the tokens at depth m so far
    reached[1] = 1
    seen[1] = depth == 1
    closing = np.full(depth + 2, 0.5)
    closing[depth] = 1
    opening = 1 - closing
    for n in range(2, longest + 1):
        spans[n], visits[n] = reached[1] * closing[1], seen[1] * closing[1]
        reached, seen = (_step(now, opening, closing, depth) for now in (reached, seen))
        if depth > 1:
            seen[depth] += reached[depth]
    return spans, visits


def _step(now: Float64, opening: Float64, closing: Float64, depth: int) -> Float64:
    after = np.zeros_like(now)
    after[2 : depth + 1] = now[1:depth] * opening[1:depth]
    after[1:depth] += now[2 : depth + 1] * closing[2 : depth + 1]
    return after


def _at_depth_zero(
    depth: int, horizon: int, min_length: int, max_dependency: int | None
) -> tuple[Float64, Float64]:
    """The probability u(n) of depth 0 after n tokens, and the same times the expected forced tokens so far.

    Returns:
        Two of float64 (horizon + 1).
    """
    spans, visits = _pairs(depth, horizon)
    if max_dependency is not None:
        spans[max_dependency + 2 :] = 0
        visits[max_dependency + 2 :] = 0
    early = np.arange(horizon + 1) < min_length
    weight = np.where(early, 1.0, 0.5)
    at_zero = np.zeros(horizon + 1)
    seen = np.zeros(horizon + 1)
    at_zero[0] = 1
    for n in range(2, horizon + 1, 2):
        before = (weight * at_zero)[n - 2 :: -1]  # for spans 2, 3, … n
        seen_before = (weight * (seen + early * at_zero))[n - 2 :: -1]
        at_zero[n] = spans[2 : n + 1] @ before
        seen[n] = spans[2 : n + 1] @ seen_before + visits[2 : n + 1] @ before
    return at_zero, seen


def _unbounded(depth: int, min_length: int, max_dependency: int | None) -> tuple[float, float, float]:
    """The probability of strings of any length, and the same times their expected (forced) tokens."""
    pair = _pair_moments(depth, max_dependency)  # for any span: (3)
    arrived = np.array([1.0, 0.0, 0.0])  # at depth 0 for the first time with the minimum length: 1, n, v
    if min_length:
        at_zero, seen = _at_depth_zero(depth, min_length - 1, min_length, max_dependency)
        spans, visits = _pairs(depth, min_length)
        capped = min_length if max_dependency is None else max_dependency + 1
        spans[capped + 1 :] = 0
        visits[capped + 1 :] = 0
        within = np.stack([spans, spans * np.arange(min_length + 1), visits])
        too_short = within.cumsum(axis=1)  # (3, min_length + 1)
        arrived = np.zeros(3)
        for j in range(0, min_length, 2):
            some, length, deepest = pair - too_short[:, min_length - 1 - j]
            forced = seen[j] + at_zero[j]
            arrived += (
                at_zero[j] * some,
                at_zero[j] * (j * some + length),
                forced * some + at_zero[j] * deepest,
            )
    # The rest is a geometric series in the number of pairs.
    some, length, deepest = pair
    total = arrived[0] / (1 - some / 2)
    tokens = (arrived[1] + length / 2 * total) / (1 - some / 2)
    forced = (arrived[2] + deepest / 2 * total) / (1 - some / 2)
    return float(total / 2), float(tokens / 2), float(forced / 2)


def _pair_moments(depth: int, max_dependency: int | None) -> Float64:
    """Sums over a pair's spans l: of a(l), of l a(l), and of a(l) times the expected tokens at depth m."""
    if max_dependency is None:
        return np.array([1.0, 2.0 * depth, 1.0])
    spans, visits = _pairs(depth, max_dependency + 1)
    return np.array([spans.sum(), np.arange(len(spans)) @ spans, visits.sum()])
