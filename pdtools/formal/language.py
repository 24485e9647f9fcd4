"""The interface of formal languages: a seeded source of strings."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

Int32 = NDArray[np.int32]
Int64 = NDArray[np.int64]


@dataclass(frozen=True, slots=True, eq=False)
class StringArrays:
    """Many strings, concatenated: string i has the tokens ``offsets[i]`` to ``offsets[i + 1]``.

    Attributes:
        tokens: int32 (all tokens), indices of the language's vocabulary.
        offsets: int64 (strings + 1), from 0.
        attach: int32 (all tokens), attachments counted from 0 in each string, legal as in
            :func:`pdtools.trees.attachments`; ``attach[k] == k`` is shift only. None: the language has no
            structure.
    """

    tokens: Int32
    offsets: Int64
    attach: Int32 | None = None

    def __len__(self) -> int:
        return len(self.offsets) - 1

    @property
    def lengths(self) -> Int64:
        """The number of each string's tokens: int64 (strings)."""
        return np.diff(self.offsets)

    def first(self, number: int) -> StringArrays:
        """The first strings, at most ``number``."""
        offsets = self.offsets[: number + 1]
        stop = offsets[-1]
        return StringArrays(self.tokens[:stop], offsets, None if self.attach is None else self.attach[:stop])


@dataclass(frozen=True, slots=True, eq=False)
class FormalString:
    """One string: its tokens, and attachments int32 (tokens) if the language has them."""

    tokens: tuple[str, ...]
    attach: Int32 | None = None


class Language(Protocol):
    """A source of strings over a fixed vocabulary."""

    @property
    def name(self) -> str:
        """The name on the command line: ``dyck``."""

    @property
    def settings(self) -> dict[str, Any]:
        """The settings that determine the distribution, JSON-ready."""

    @property
    def vocabulary(self) -> tuple[str, ...]:
        """Every token that a string may hold; none contains a space."""

    def batches(self, seed: int) -> Iterator[StringArrays]:
        """Endless independent draws, in batches of any size; the same seed gives the same strings."""

    def log_probability(self, tokens: Sequence[str]) -> float | None:
        """Exact log-probability of a complete string, in nats; -inf outside the language; None: not known."""


def draw(language: Language, number: int, seed: int) -> Iterator[StringArrays]:
    """The first ``number`` strings of a seed, in batches; a larger number extends a smaller one's."""
    for batch in language.batches(seed):
        if number <= 0:
            return
        taken = batch.first(number)
        number -= len(taken)
        yield taken


def strings(language: Language, number: int, seed: int) -> Iterator[FormalString]:
    """The first ``number`` strings of a seed, one by one."""
    vocabulary = language.vocabulary
    for batch in draw(language, number, seed):
        tokens = batch.tokens.tolist()
        edges = batch.offsets.tolist()
        for start, stop in pairwise(edges):
            words = tuple(vocabulary[token] for token in tokens[start:stop])
            yield FormalString(words, None if batch.attach is None else batch.attach[start:stop])
