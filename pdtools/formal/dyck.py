"""Dyck(k, m): well-nested strings of k bracket types, nested at most m deep (Murty et al. 2023, section 4.1).

The automaton (as in the authors' code) tracks the depth d and the open brackets:

- d = 0: the string ends with probability 1/2, or one of the k openers follows, 1/2k each;
- 0 < d < m: the closer of the innermost open bracket with 1/2, or one of the k openers, 1/2k each;
- d = m: the closer.

With a minimum length, as in the authors' code, a string cannot end before it: at depth 0 an opener follows,
1/k each. Strings that are longer than wanted, or have longer dependencies, are rejected. Probabilities stay
exact, by dynamic programming over lengths: a string is a sequence of top-level pairs. With a(l) the
probability that a pair opened at depth 0 spans l tokens, u(n), the probability of standing at depth 0 after n
tokens, is sum_l w(n - l) a(l) u(n - l). There w(j), the probability of an opener after j tokens at depth 0,
is 1 below the minimum length and 1/2 from there on. A string has length n with probability (1 - w(n)) u(n).
Dependencies over the cap are excluded from a(l): the longest one of a string is a top-level pair's, l - 1.
A string of n tokens, v of them forced (an opener, as the string may not end yet; a closer at depth m), has
2^-(n + 1 - v) k^(-n/2): expected n and v give the entropy.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pdtools.errors import PdtoolsError
from pdtools.formal.language import Int32, Int64, StringArrays

Float64 = NDArray[np.float64]

# Changing it changes the strings of a seed.
_DRAFTS_PER_BATCH = 1 << 16
_LEAST_ACCEPTANCE = 1e-6

# Conditions by name. The released validation strings have no fewer than 6 tokens and no dependency over 27.
DYCK_SETTINGS: dict[str, dict[str, int]] = {
    "released-like": {"min_length": 6, "max_dependency": 27},
    "free": {},
}

# Limits for which the vocabulary and the exact entropy are made at once.
_MOST = {"brackets": 10**6, "depth": 10**4, "min_length": 10**5, "max_length": 10**5, "max_dependency": 10**5}


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


@dataclass(frozen=True, kw_only=True)
class Dyck:
    """The language, a :class:`pdtools.formal.Language`. Tokens are ``(1`` … ``(k`` and ``)1`` … ``)k``.

    Attributes:
        brackets: k, the number of bracket types.
        depth: m, the most brackets open at once.
        min_length: tokens of the shortest string.
        max_length: tokens of the longest string; None: any.
        max_dependency: the largest distance between an opener and its closer (1 if adjacent); None: any.
    """

    brackets: int = 20
    depth: int = 10
    min_length: int = 0
    max_length: int | None = None
    max_dependency: int | None = None
    name = "dyck"

    def __post_init__(self) -> None:
        least = {"brackets": 1, "depth": 1, "min_length": 0, "max_length": 0, "max_dependency": 1}
        for name, bound in least.items():
            value, most = getattr(self, name), _MOST[name]
            if value is not None and not bound <= value <= most:
                wanted = f"at least {bound}" if value < bound else f"at most {most:,}"
                raise PdtoolsError(f"Dyck: {name} must be {wanted}, not {value}")

    @property
    def settings(self) -> dict[str, Any]:
        """The attributes by name."""
        return asdict(self)

    @cached_property
    def vocabulary(self) -> tuple[str, ...]:
        """Openers by type, then closers by type: index t opens and k + t closes type t + 1."""
        types = range(1, self.brackets + 1)
        return (*(f"({t}" for t in types), *(f"){t}" for t in types))

    @cached_property
    def expectations(self) -> Expectations:
        """Exact length, entropy and share of accepted drafts under the conditions.

        The free automaton has 2m tokens, and m (2 ln 2 + ln k) nats.
        """
        if self.max_length is None:
            acceptance, tokens, forced = _unbounded(self.depth, self.min_length, self.max_dependency)
        else:
            at_zero, seen = _at_depth_zero(self.depth, self.max_length, self.min_length, self.max_dependency)
            lengths = np.arange(self.max_length + 1)
            fits = lengths >= self.min_length
            acceptance = float(at_zero[fits].sum()) / 2
            tokens = float((at_zero * lengths)[fits].sum()) / 2
            forced = float(seen[fits].sum()) / 2
        if acceptance <= 0:
            return Expectations(
                acceptance=0.0, mean_length=math.nan, entropy_per_string=math.nan, entropy_per_token=math.nan
            )
        mean_length, mean_forced = tokens / acceptance, forced / acceptance
        choices = mean_length + 1 - mean_forced
        entropy = choices * math.log(2) + mean_length / 2 * math.log(self.brackets) + math.log(acceptance)
        return Expectations(
            acceptance=acceptance,
            mean_length=mean_length,
            entropy_per_string=entropy,
            entropy_per_token=entropy / (mean_length + 1),
        )

    def batches(self, seed: int) -> Iterator[StringArrays]:
        """Strings with attachments, without end.

        Raises:
            PdtoolsError: if fewer than one in a million of the automaton's strings are short enough.
        """
        self._check_acceptance()
        number = 0
        while True:
            rng = np.random.default_rng([seed, number])
            yield self._batch(rng)
            number += 1

    def log_probability(self, tokens: Sequence[str]) -> float:
        """Exact log-probability in nats, given the conditions; -inf for a string outside the language."""
        self._check_acceptance()
        try:
            attach = dyck_attachments(tokens)
        except ValueError:
            return -math.inf
        openers = np.array([token[0] == "(" for token in tokens], dtype=bool)
        depths = np.cumsum(np.where(openers, 1, -1))  # (n) after each token
        dependencies = np.arange(len(tokens)) - attach
        longest = math.inf if self.max_length is None else self.max_length
        furthest = math.inf if self.max_dependency is None else self.max_dependency
        if (
            not set(tokens) <= set(self.vocabulary)
            or not self.min_length <= len(tokens) <= longest
            or (len(tokens) and depths[-1] != 0)
            or depths.max(initial=0) > self.depth
            or dependencies.max(initial=0) > furthest
        ):
            return -math.inf
        # Every token and the end are a choice between two, except the closer at the greatest depth and the
        # opener of a string that may not end yet.
        at_zero = np.flatnonzero(np.concatenate([[0], depths]) == 0)
        forced = int((depths == self.depth).sum()) + int((at_zero < self.min_length).sum())
        choices = len(tokens) + 1 - forced
        free = -choices * math.log(2) - len(tokens) // 2 * math.log(self.brackets)
        return free - math.log(self.expectations.acceptance)

    def _check_acceptance(self) -> None:
        if self.expectations.acceptance < _LEAST_ACCEPTANCE:
            conditions = ", ".join(
                f"{name} {value}" for name, value in self.settings.items() if value is not None
            )
            raise PdtoolsError(f"Dyck: (almost) no string meets these conditions: {conditions}")

    def _batch(self, rng: np.random.Generator) -> StringArrays:
        opens, offsets = self._skeletons(rng)  # (T) bool, (S + 1)
        partner = _partners(opens)  # (T)
        closers = np.flatnonzero(~opens)
        tokens = np.empty(len(opens), dtype=np.int32)
        tokens[opens] = rng.integers(self.brackets, size=len(closers), dtype=np.int32)
        tokens[closers] = tokens[partner[closers]] + self.brackets
        starts = np.repeat(offsets[:-1], np.diff(offsets))  # (T) the beginning of each token's string
        attach = np.where(opens, np.arange(len(opens)), partner) - starts
        return StringArrays(tokens, offsets, attach.astype(np.int32))

    def _skeletons(self, rng: np.random.Generator) -> tuple[NDArray[np.bool_], Int64]:
        """Strings without bracket types: whether each token opens, and the beginnings of strings.

        All drafts advance together. A draft that can no longer meet the conditions stops early: the longest
        dependency of a string belongs to a bracket opened at depth 0.
        """
        longest = np.iinfo(np.int64).max if self.max_length is None else self.max_length
        furthest = np.iinfo(np.int64).max if self.max_dependency is None else self.max_dependency
        active = np.arange(_DRAFTS_PER_BATCH)
        depth = np.zeros(_DRAFTS_PER_BATCH, dtype=np.int64)
        outermost = np.zeros(_DRAFTS_PER_BATCH, dtype=np.int64)  # position of the opener at depth 0
        lengths = np.full(_DRAFTS_PER_BATCH, -1, dtype=np.int64)  # -1: not accepted
        steps: list[tuple[Int64, NDArray[np.bool_]]] = []  # the drafts that got another token; does it open
        while len(active):
            n = len(steps)  # tokens so far
            opens = rng.integers(2, size=len(active), dtype=np.uint8) == 1
            if n < self.min_length:
                opens |= depth == 0
            ended = ~opens & (depth == 0)
            lengths[active[ended]] = n
            opens &= depth < self.depth
            outermost = np.where(depth == 0, n, outermost)
            depth = depth + np.where(opens, 1, -1)
            hopeless = (depth > 0) & (n + 1 - outermost > furthest)
            kept = ~ended & ~hopeless & (depth <= longest - n - 1)
            active, depth, outermost = active[kept], depth[kept], outermost[kept]
            steps.append((active, opens[kept]))
        accepted = lengths >= 0
        offsets = np.concatenate([[0], np.cumsum(lengths[accepted])])
        start = np.full(_DRAFTS_PER_BATCH, -1, dtype=np.int64)
        start[accepted] = offsets[:-1]
        flat = np.empty(offsets[-1], dtype=bool)
        for n, (drafts, opens) in enumerate(steps):
            first = start[drafts]
            used = first >= 0
            flat[first[used] + n] = opens[used]
        return flat, offsets


def _partners(opens: NDArray[np.bool_]) -> Int64:
    """The position of each bracket's partner in concatenated well-nested strings.

    Between two brackets of the same depth lie only deeper ones: at each depth openers and closers alternate.
    """
    after = np.cumsum(np.where(opens, 1, -1), dtype=np.int64)
    depth = np.where(opens, after, after + 1).astype(np.int16)  # the pair's, from 1
    order = np.argsort(depth, kind="stable")
    partner = np.empty(len(opens), dtype=np.int64)
    partner[order[0::2]] = order[1::2]
    partner[order[1::2]] = order[0::2]
    return partner


def dyck_attachments(tokens: Sequence[str]) -> Int32:
    """The attachments of a string of brackets, or of a prefix of one.

    An opener shifts. A closer attaches to its opener, a constituent of one token, which reduces everything
    between them. Adjacent pairs stay apart until the end of the string.

    Args:
        tokens: ``(1``, ``)1`` and so on, any types, any depth.

    Returns:
        int32 (tokens), counted from 0.

    Raises:
        ValueError: if a token is no bracket, or closes one that is not open.
    """
    attach = np.arange(len(tokens), dtype=np.int32)
    stack: list[tuple[int, str]] = []
    for k, token in enumerate(tokens):
        if token[:1] == "(":
            stack.append((k, token[1:]))
        elif token[:1] == ")" and stack and stack[-1][1] == token[1:]:
            attach[k] = stack.pop()[0]
        else:
            raise ValueError(f"token {k}, {token!r}, is no opener and does not close the innermost bracket")
    return attach


# --- exact figures -----------------------------------------------------------------------------


def length_probabilities(
    depth: int, longest: int, *, min_length: int = 0, max_dependency: int | None = None
) -> Float64:
    """The distribution of the length without a cap on it, up to ``longest``.

    Returns:
        float64 (longest + 1); the rest of the probability belongs to longer strings.
    """
    at_zero, _ = _at_depth_zero(depth, longest, min_length, max_dependency)
    accepted, _, _ = _unbounded(depth, min_length, max_dependency)
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
