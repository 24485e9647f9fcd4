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

from pdtools.errors import PdtoolsError
from pdtools.formal.grammar import Grammar, parse_grammar
from pdtools.formal.grammar_inside import Float, LengthTable, length_table, log_probabilities
from pdtools.formal.grammar_normal import NormalForm, normal_form
from pdtools.formal.grammar_sample import LengthSampler
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
    def name(self) -> str:
        """The name ``cfl``."""
        return "cfl"

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
