"""Alignment of a model's tokens with the words of a reading-time corpus, by their characters."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from pdtools.evaluation.external.word_alignment import is_unknown
from pdtools.search.scores import SentenceScore, Unscorable
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

    A word's surprisal is the sum of its tokens' surprisals, its entropy its first token's. A token without
    characters of its own (a space) belongs to the next word. A word that shares a token with another
    word, that is not covered by tokens, or whose tokens have no score, has no values.

    Args:
        written: the text and its words.
        scored: each part's first character in the text, and its score, whose characters count from there.
        spaces: whether surprisals are corrected with the measures ``begins`` and ``ends``: if the
            model marks the space before a word, log p(word) lacks the end of the word, and includes the end
            of the word before (Oh and Schuler 2024; Pimentel and Meister 2024, equation 9).
    """
    starts, ends = np.array(written.starts), np.array(written.ends)
    n = len(starts)
    reasons: dict[int, str] = {}
    covered = np.zeros(len(written.text) + 1, dtype=np.int64)
    sums: dict[str, Float] = {}
    seen = np.full(n, -1)
    for at, score in scored:
        if isinstance(score, Unscorable):
            inside = (starts >= at) & (ends <= at + len(score.text))
            reasons |= dict.fromkeys(np.flatnonzero(inside).tolist(), score.reason)
            continue
        own = np.flatnonzero(np.array(score.words) >= 0)  # ends of sentences belong to no word
        first, last = np.array(score.starts)[own] + at, np.array(score.ends)[own] + at
        own, first, last = (each[first < len(written.text)] for each in (own, first, last))
        word = np.searchsorted(starts, first, side="right") - 1
        reach = np.searchsorted(starts, np.maximum(last - 1, first), side="right") - 1
        for i in np.flatnonzero(reach > word).tolist():
            reasons |= dict.fromkeys(range(int(word[i]), int(reach[i]) + 1), CROSSING)
        for place, i in zip(word.tolist(), own.tolist(), strict=True):
            token = score.tokens[i]
            if score.n_unknown and is_unknown(token) and token != score.text[score.starts[i] : score.ends[i]]:
                reasons.setdefault(place, UNKNOWN)
        np.add.at(covered, first, 1)
        np.add.at(covered, last, -1)
        begins = np.flatnonzero(np.diff(word, prepend=-1))
        finishes = np.append(begins[1:], len(word)) - 1
        of = word[begins]
        for name, values in _values(score, own, word, begins, finishes, n, spaces).items():
            sums.setdefault(name, np.full(n, np.nan))[of] = values[of]
        if score.seen is not None:
            seen[of] = np.array(score.seen)[own][begins]
    gaps = np.flatnonzero((covered.cumsum()[:-1] == 0) & ~_is_space(written.text))
    for place in np.unique(np.searchsorted(starts, gaps, side="right") - 1).tolist():
        reasons.setdefault(place, UNCOVERED)
    without = sorted(reasons)
    for values in sums.values():
        values[without] = np.nan
    return WordValues(sums, reasons, seen)


def _values(
    score: SentenceScore,
    own: NDArray[np.int64],
    word: NDArray[np.int64],
    begins: NDArray[np.int64],
    finishes: NDArray[np.int64],
    n: int,
    spaces: bool,
) -> Mapping[str, Float]:
    """A part's values for all n words, by predictor; 0 for words without tokens in it."""

    def summed(values: Float) -> Float:
        return np.bincount(word, values[own], minlength=n).astype(np.float64)

    def of_words(values: Float, tokens: NDArray[np.int64]) -> Float:
        found = np.zeros(n)
        found[word[tokens]] = values[own][tokens]
        return found

    measures = score.measures
    logprobs = summed(score.logprobs)
    if spaces and "begins" in measures:
        logprobs = logprobs + of_words(measures["ends"], finishes) - of_words(measures["begins"], begins)
    found = {"surprisal": -logprobs * PER_NAT}
    if "entropy" in measures:
        found["entropy"] = of_words(measures["entropy"], begins) * PER_NAT
    if "attachment" in measures:
        found["attachment"] = summed(measures["attachment"]) * PER_NAT
    if "closed" in measures:
        found["closed"] = summed(measures["closed"])
    return found


def _is_space(text: str) -> NDArray[np.bool_]:
    return np.fromiter((letter.isspace() for letter in text), bool, len(text))
