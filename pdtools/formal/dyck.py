"""Dyck(k, m): well-nested strings of k bracket types, nested at most m deep (Murty et al. 2023, section 4.1).

The automaton (as in the authors' code) tracks the depth d and the open brackets:

- d = 0: the string ends with probability 1/2, or one of the k openers follows, 1/2k each;
- 0 < d < m: the closer of the innermost open bracket with 1/2, or one of the k openers, 1/2k each;
- d = m: the closer.

With a minimum length, as in the authors' code, a string cannot end before it: at depth 0 an opener follows,
1/k each. Strings that are longer than wanted, or have longer dependencies, are rejected. Probabilities stay
exact (:mod:`pdtools.formal.dyck_exact`).
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
from pdtools.formal.dyck_exact import Expectations, expectations
from pdtools.formal.language import Int32, Int64, StringArrays

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

    def __post_init__(self) -> None:
        least = {"brackets": 1, "depth": 1, "min_length": 0, "max_length": 0, "max_dependency": 1}
        for name, bound in least.items():
            value, most = getattr(self, name), _MOST[name]
            if value is not None and not bound <= value <= most:
                wanted = f"at least {bound}" if value < bound else f"at most {most:,}"
                raise PdtoolsError(f"Dyck: {name} must be {wanted}, not {value}")

    @property
    def name(self) -> str:
        """The name ``dyck``."""
        return "dyck"

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
        """Exact length, entropy and share of accepted drafts under the conditions."""
        return expectations(
            self.brackets,
            self.depth,
            min_length=self.min_length,
            max_length=self.max_length,
            max_dependency=self.max_dependency,
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
