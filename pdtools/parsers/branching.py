"""A backend of purely branching trees: every constituent is a word and the rest. A baseline for F1."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from pdtools.parsers.base import ParseFailure, Parser
from pdtools.trees import UNKNOWN_LABEL, UNKNOWN_TAG, Tree, escape, sentence_problem


@dataclass(frozen=True, slots=True)
class Branching:
    """A backend (:data:`pdtools.parsers.base.BACKENDS`), and its own :class:`pdtools.parsers.Parser`.

    Attributes:
        to_the_right: whether the rest is right of its word, or left of it.
    """

    to_the_right: bool

    def load(self, model: str | None, device: str) -> Parser:
        """Return itself: there is no model to load."""
        return self

    def model_files(self, model: str | None) -> list[str]:
        """Return no files: there is no model."""
        return []

    def parse(self, sentences: Sequence[Sequence[str]]) -> Iterator[Tree | ParseFailure]:
        """See :meth:`pdtools.parsers.Parser.parse`."""
        for words in sentences:
            problem = sentence_problem(words)
            yield ParseFailure(problem) if problem else self._tree(words)

    def _tree(self, words: Sequence[str]) -> Tree:
        n = len(words)
        number = max(n - 1, 1)  # the number of constituents
        cut, whole = np.arange(number, dtype=np.int32), np.zeros(number, dtype=np.int32)
        return Tree(
            words=tuple(map(escape, words)),
            tags=(UNKNOWN_TAG,) * n,
            labels=(UNKNOWN_LABEL,) * number,
            starts=cut if self.to_the_right else whole,
            ends=(whole if self.to_the_right else -cut) + np.int32(n),
        )


RIGHT, LEFT = Branching(to_the_right=True), Branching(to_the_right=False)
