"""Exact sampling of strings of given lengths: all parts of all derivations are expanded at once."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from pdtools.formal.grammar_inside import LengthTable
from pdtools.formal.grammar_normal import NormalForm

Int64 = NDArray[np.int64]


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
