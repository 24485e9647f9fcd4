"""Alignment of a model's tokens with the words of a reading-time corpus, by their characters."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from pdtools.search.scores import SentenceScore, Unscorable
from pdtools.search.spans import SpanTokens, read_spans
from pdtools.tokenization import Sentence

Float = NDArray[np.float64]
PER_NAT = 1 / np.log(2)
# Reasons why a word has no surprisal.
CROSSING = "a token reaches over its edge"
UNCOVERED = "no token for all of it"
UNKNOWN = "read as an unknown word"


@dataclass(frozen=True)
class WordValues:
    """A model's values for the words of a text.

    Attributes:
        values: by predictor, float64 (words,); NaN if there is none. Surprisal and entropy are in bits.
        reasons: the reason why a word has none, by its index.
        seen: int64 (words,), number of tokens read before each; −1: all before it in its sentence.
    """

    values: dict[str, Float]
    reasons: dict[int, str]
    seen: NDArray[np.int64]


def align(
    written: Sentence, scored: Sequence[tuple[int, SentenceScore | Unscorable]], *, spaces: bool = False
) -> WordValues:
    """Convert the scores of a text's parts to values of its words.

    A word's surprisal is the sum of its tokens' surprisals, its entropy its first token's
    (:mod:`pdtools.search.spans`). A word that shares a token with another word, that is not covered by
    tokens, or whose tokens have no score, has no values.

    Args:
        written: the text and its words.
        scored: each part's first character in the text, and its score, whose characters count from there.
        spaces: whether surprisals are corrected for spaces, if the model marks the space before a word.
    """
    starts, ends = np.array(written.starts), np.array(written.ends)
    words, n = np.stack([starts, ends], 1), len(starts)
    reasons: dict[int, str] = {}
    covered = np.zeros(len(written.text) + 1, dtype=np.int64)
    sums: dict[str, Float] = {}
    seen = np.full(n, -1)
    for at, score in scored:
        if isinstance(score, Unscorable):
            inside = (starts >= at) & (ends <= at + len(score.text))
            reasons |= dict.fromkeys(np.flatnonzero(inside).tolist(), score.reason)
            continue
        read = read_spans(score, words - at, "preceding", empty=np.nan, until=len(written.text) - at)
        word, reach = read.span, read.reach
        for i in np.flatnonzero(reach > word).tolist():
            reasons |= dict.fromkeys(range(int(word[i]), int(reach[i]) + 1), CROSSING)
        for place in word[read.unknown].tolist():
            reasons.setdefault(place, UNKNOWN)
        np.add.at(covered, np.array(score.starts, np.int64)[read.rows] + at, 1)
        np.add.at(covered, np.array(score.ends, np.int64)[read.rows] + at, -1)
        of = np.unique(word)
        for name, values in _values(read, spaces).items():
            sums.setdefault(name, np.full(n, np.nan))[of] = values[of]
        if score.seen is not None:
            seen[of] = np.array(score.seen)[read.first[of]]
    gaps = np.flatnonzero((covered.cumsum()[:-1] == 0) & ~_is_space(written.text))
    for place in np.unique(np.searchsorted(starts, gaps, side="right") - 1).tolist():
        reasons.setdefault(place, UNCOVERED)
    without = sorted(reasons)
    for values in sums.values():
        values[without] = np.nan
    return WordValues(sums, reasons, seen)


def _values(read: SpanTokens, spaces: bool) -> Mapping[str, Float]:
    """A part's values for all words, by predictor."""
    measures = read.score.measures
    found = {"surprisal": read.surprisal("words" if spaces else None) * PER_NAT}
    if "entropy" in measures:
        found["entropy"] = read.first_of(measures["entropy"]) * PER_NAT
    if "attachment" in measures:
        found["attachment"] = read.sum(measures["attachment"]) * PER_NAT
    if "closed" in measures:
        found["closed"] = read.sum(measures["closed"])
    return found


def _is_space(text: str) -> NDArray[np.bool_]:
    return np.fromiter((letter.isspace() for letter in text), bool, len(text))
