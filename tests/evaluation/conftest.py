"""Fixtures: a scorer whose words are tokens, their log-probabilities a function of their letters."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from itertools import pairwise
from typing import Any

import numpy as np
import pytest

from pdtools.search.scores import SentenceScore, Unscorable
from pdtools.tokenization import Sentence, split_words


class WordScorer:
    """Scores each word by a function of it; words in ``unknown`` make a sentence unscorable."""

    def __init__(
        self,
        logprob: Callable[[str], float] = lambda word: -float(len(word)),
        *,
        eos: float | None = -1.0,
        unknown: frozenset[str] = frozenset(),
        text_style: str | None = "ptb",
        subwords: int = 1,
    ) -> None:
        self.settings: dict[str, Any] = {"kind": "test", "text_style": text_style}
        self.logprob, self.eos, self.unknown, self.subwords = logprob, eos, unknown, subwords
        self.seen: list[str] = []

    def score(self, sentences: Sequence[str | Sentence]) -> Iterator[SentenceScore | Unscorable]:
        for sentence in sentences:
            s = split_words(sentence, "ptb") if isinstance(sentence, str) else sentence
            self.seen.append(s.text)
            missing = [word for word in s.words if word in self.unknown]
            if missing:
                yield Unscorable(s.text, f"words unknown to the model: {', '.join(missing)}")
                continue
            rows: list[tuple[str, int, int, int, float]] = []
            for i, (word, start, end) in enumerate(zip(s.words, s.starts, s.ends, strict=True)):
                edges = np.linspace(start, end, min(self.subwords, end - start) + 1).astype(int)
                for a, b in pairwise(edges):
                    rows.append((s.text[a:b], i, int(a), int(b), self.logprob(word) / (len(edges) - 1)))
            if self.eos is not None:
                rows.append(("<eos>", -1, len(s.text), len(s.text), self.eos))
            tokens, words, starts, ends, logprobs = zip(*rows, strict=True)
            yield SentenceScore(
                s.text, tokens, words, starts, ends, np.array(logprobs), 0, self.eos is not None
            )


@pytest.fixture(scope="session")
def word_scorer() -> type[WordScorer]:
    """The class of test scorers."""
    return WordScorer
