"""Context-free languages: strings of a weighted grammar by length, with exact probabilities.

As in DuSell and Chiang (2020, 2022): lengths come from a range, uniformly over those that the language has,
and strings from the grammar given their length. Both draws are exact.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Literal, get_args

import numpy as np
from numpy.typing import NDArray

from pdtools.errors import PdtoolsError
from pdtools.formal.grammar import Grammar, parse_grammar
from pdtools.formal.grammar_normal import (
    Float,
    LengthTable,
    NormalForm,
    length_table,
    log_probabilities,
    normal_form,
)
from pdtools.formal.language import Int64, StringArrays
from pdtools.jobs.devices import memory_of

Lengths = Literal["drawn", "in turn"]
# Number of batches drawn together. Changing it changes the strings of a seed.
_BATCHES_AT_ONCE = 1000
# Bytes for strings drawn at once: each token, and each symbol yet to be expanded (int64 each).
_TOKEN_BYTES = 16
# Limit on tabulated divisions of lengths, over all rules: some GiB.
_MOST_DIVISIONS = 1 << 27


@dataclass(frozen=True, kw_only=True)
class ContextFree:
    """Strings of a grammar in a range of lengths, a :class:`pdtools.formal.Language`.

    Attributes:
        grammar: the grammar.
        shortest, longest: tokens of a string.
        batch: number of consecutive strings of one length.
        lengths: ``drawn``: each batch draws its length, uniformly over the language's lengths; ``in turn``: a
            batch of every length, the shortest first, and again.
    """

    grammar: Grammar
    shortest: int = 40
    longest: int = 80
    batch: int = 10
    lengths: Lengths = "drawn"
    name = "cfl"

    def __post_init__(self) -> None:
        if not 0 <= self.shortest <= self.longest:
            raise PdtoolsError(
                f"lengths must be at least 0, the shortest first, not {self.shortest} to {self.longest}"
            )
        if self.batch < 1:
            raise PdtoolsError(f"a batch has at least 1 string, not {self.batch}")
        if self.lengths not in get_args(Lengths):
            raise PdtoolsError(f"lengths are {' or '.join(get_args(Lengths))}, not {self.lengths}")
        if np.count_nonzero(self.normal.pair_weights) * self.longest**2 // 2 > _MOST_DIVISIONS:
            raise PdtoolsError(
                f"grammar {self.grammar.name}: strings of up to {self.longest} tokens are too long to draw"
                " exactly: choose other lengths"
            )
        if not len(self.valid_lengths):
            raise PdtoolsError(
                f"grammar {self.grammar.name} has no string of {self.shortest} to {self.longest} tokens:"
                " choose other lengths"
            )

    @classmethod
    def from_settings(cls, settings: Mapping[str, Any]) -> ContextFree:
        """The language of :attr:`settings`, as a manifest keeps them.

        Raises:
            PdtoolsError: if they are not such settings.
        """
        try:
            kept = dict(settings)
            name, rules = str(kept.pop("grammar")), str(kept.pop("rules"))
            lines = enumerate(rules.splitlines(), 1)
            return cls(grammar=parse_grammar(lines, name, f"grammar {name}"), **kept)
        except (KeyError, TypeError) as error:
            raise PdtoolsError(f"not the settings of a context-free language: {error}") from None

    @property
    def settings(self) -> dict[str, Any]:
        """The attributes; the grammar as its name and its rules."""
        return {
            "grammar": self.grammar.name,
            "rules": self.grammar.text,
            "shortest": self.shortest,
            "longest": self.longest,
            "batch": self.batch,
            "lengths": self.lengths,
        }

    @cached_property
    def vocabulary(self) -> tuple[str, ...]:
        """The grammar's tokens, in the order of its rules."""
        return self.grammar.vocabulary

    @cached_property
    def normal(self) -> NormalForm:
        """The grammar as arrays."""
        return normal_form(self.grammar)

    @cached_property
    def table(self) -> LengthTable:
        """Inside probabilities of all lengths up to the longest."""
        return length_table(self.normal, self.longest)

    @cached_property
    def valid_lengths(self) -> Int64:
        """The lengths in the range for which the language has strings, int64, rising."""
        total = self.log_length_probabilities[self.shortest :]
        return np.flatnonzero(np.isfinite(total)) + self.shortest

    @property
    def log_length_probabilities(self) -> Float:
        """Compute log p_G(n) of all lengths n from 0 on under the grammar: (longest + 1), nats."""
        return self.table.symbols[self.normal.start]

    def batches(self, seed: int) -> Iterator[StringArrays]:
        """Strings without end.

        Raises:
            PdtoolsError: if the strings drawn at once do not fit in this machine's memory.
        """
        n_lengths = _BATCHES_AT_ONCE if self.lengths == "drawn" else len(self.valid_lengths)
        size = self.batch * n_lengths * (self.longest + 1) * _TOKEN_BYTES
        if size > memory_of("cpu"):
            raise PdtoolsError(
                f"not enough memory: {self.batch} strings of each of {n_lengths} lengths, drawn at once, may"
                f" take {size / 2**30:,.0f} GiB: draw fewer of a length"
            )
        sampler = LengthSampler(self.normal, self.table)
        number = 0
        while True:
            rng = np.random.default_rng([seed, number])
            if self.lengths == "drawn":
                drawn = rng.choice(self.valid_lengths, size=_BATCHES_AT_ONCE)
            else:
                drawn = self.valid_lengths
            lengths = np.repeat(drawn, self.batch)
            offsets = np.concatenate([[0], np.cumsum(lengths)])
            yield StringArrays(sampler.draw(lengths, rng), offsets)
            number += 1

    def log_probability(self, tokens: Sequence[str]) -> float:
        """Exact, in nats: log p of the length, uniform over the range, and of the string given it."""
        return float(self.log_probabilities([tokens])[0]) - math.log(len(self.valid_lengths))

    def log_probabilities(self, strings: Sequence[Sequence[str]]) -> Float:
        """Compute log p(string | its length) exactly, nats, for many strings: log p_G(w) − log p_G(|w|).

        Returns:
            (strings); -inf outside the language or the range.
        """
        number = {token: i for i, token in enumerate(self.vocabulary)}
        arrays = [np.array([number.get(token, -1) for token in string], dtype=np.int64) for string in strings]
        lengths = np.array([len(string) for string in strings], dtype=np.int64)
        valid = np.isin(lengths, self.valid_lengths)
        found = np.full(len(strings), -np.inf)
        members = np.flatnonzero(valid)
        found[members] = log_probabilities(self.normal, [arrays[i] for i in members.tolist()])
        found[members] -= self.log_length_probabilities[lengths[members]]
        return found


# --- exact sampling: all parts of all derivations are expanded at once -------------------------


@dataclass(frozen=True, eq=False)
class _Choices:
    """Distributions over options, concatenated: distribution d has ``edges[d]`` to ``edges[d + 1]``."""

    cumulated: NDArray[np.float64]
    edges: Int64
    last: Int64  # the last possible option of each distribution

    @classmethod
    def of(cls, weights: NDArray[np.float64], sizes: Int64) -> _Choices:
        """Make distributions from options' weights, and their sizes; one may be without weight."""
        edges = np.concatenate([[0], np.cumsum(sizes)])
        possible = np.flatnonzero(weights > 0)
        before_end = np.searchsorted(possible, edges[1:]) - 1
        last = possible[before_end] if len(possible) else np.zeros(len(sizes), dtype=np.int64)
        return cls(np.concatenate([[0.0], np.cumsum(weights)]), edges, last)

    def draw(self, which: Int64, rng: np.random.Generator) -> Int64:
        """Draw one option from each named distribution, numbered over all distributions."""
        low, high = self.cumulated[self.edges[which]], self.cumulated[self.edges[which + 1]]
        point = low + rng.random(len(which)) * (high - low)
        found = np.searchsorted(self.cumulated, point, side="right") - 1
        # Rounding may reach the upper end.
        return np.minimum(found, self.last[which])


class LengthSampler:
    """Draws strings of a grammar, given their lengths, with exactly the grammar's relative probabilities.

    A part of a derivation is a symbol and a length. It first draws the end of its chain, then the end's pair
    of symbols together with the division of the length; both in proportion to their inside probabilities.

    Args:
        normal: the grammar.
        table: inside probabilities up to the longest length to be drawn.
    """

    def __init__(self, normal: NormalForm, table: LengthTable) -> None:
        number, longest = len(normal.names), table.symbols.shape[1] - 1
        self._number, self._start = number, normal.start
        self._token_of = np.full(number, -1, dtype=np.int64)
        self._token_of[normal.tokens] = np.arange(len(normal.tokens))
        # Chains, in order of their first symbols; ends by length, chain (L, C).
        begin, self._end = np.nonzero(normal.chains)
        with np.errstate(invalid="ignore"):
            chain_weights = np.log(normal.chains[begin, self._end])
            ends = chain_weights + table.heads.T[1:, self._end] - table.symbols.T[1:, begin]
        self._ends = _Choices.of(_exp(ends).ravel(), np.tile(np.bincount(begin, minlength=number), longest))
        # Rules of two symbols, in order of their left-hand sides; divisions by length, rule, left length.
        left, self._pair = np.nonzero(normal.pair_weights)
        rule_weights = np.log(normal.pair_weights[left, self._pair])
        self._pairs = normal.pairs
        rules_of = np.bincount(left, minlength=number)
        first, second = normal.pairs[self._pair].T
        weights, sizes, self._blocks = [np.zeros(0)], [np.zeros(number, dtype=np.int64)], [0, 0]
        for length in range(2, longest + 1):
            with np.errstate(invalid="ignore"):
                divisions = (
                    table.symbols[first, 1:length]
                    + table.symbols[second, length - 1 : 0 : -1]
                    + (rule_weights - table.heads[left, length])[:, None]
                )  # (R, length - 1)
            weights.append(_exp(divisions).ravel())
            sizes.append(rules_of * (length - 1))
            self._blocks.append(self._blocks[-1] + len(left) * (length - 1))
        self._divisions = _Choices.of(np.concatenate(weights), np.concatenate(sizes))

    def draw(self, lengths: Int64, rng: np.random.Generator) -> NDArray[np.int32]:
        """Draw the tokens of a string of each of these lengths, concatenated.

        Args:
            lengths: int64 (strings), each a length that the language has.
            rng: the random generator.

        Returns:
            int32 (sum of the lengths), indices of the vocabulary.
        """
        tokens = np.full(int(lengths.sum()), -1, dtype=np.int32)
        place = np.cumsum(lengths) - lengths  # beginning of each part in ``tokens``
        place, length = place[lengths > 0], lengths[lengths > 0]
        symbol = np.full(len(place), self._start)
        blocks = np.array(self._blocks)
        while len(place):
            ends = self._ends.draw((length - 1) * self._number + symbol, rng)
            symbol = self._end[ends % len(self._end)]
            done = length == 1
            tokens[place[done]] = self._token_of[symbol[done]]
            place, length, symbol = place[~done], length[~done], symbol[~done]
            chosen = self._divisions.draw((length - 1) * self._number + symbol, rng) - blocks[length - 1]
            rule, left_length = np.divmod(chosen, length - 1)
            left_length = left_length + 1
            first, second = self._pairs[self._pair[rule]].T
            place = np.concatenate([place, place + left_length])
            symbol = np.concatenate([first, second])
            length = np.concatenate([left_length, length - left_length])
        return tokens


def _exp(logs: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return exp, 0 for a distribution that does not exist (its total is 0)."""
    return np.exp(np.where(np.isnan(logs), -np.inf, logs))
