"""Surprisal of every token or word of a sentence, with the best incremental parse beside it."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from pdtools.search.scores import SentenceScore
from pdtools.trees import escape

Unit = Literal["bits", "nats"]
_PER_NAT = {"bits": 1 / math.log(2), "nats": 1.0}


@dataclass(frozen=True, slots=True)
class SurprisalRow:
    """One token or word.

    Attributes:
        number: its place in the sentence, from 1.
        text: the token, or the word's stretch of the text.
        start, end: its characters in the sentence.
        surprisal: in the unit that was asked for.
        parse: the constituents on the stack of the best hypothesis after it; None if not asked for.
    """

    number: int
    text: str
    start: int
    end: int
    surprisal: float
    parse: str | None


def token_rows(
    score: SentenceScore, unit: Unit = "bits", incremental: Sequence[NDArray[np.int32]] | None = None
) -> Iterator[SurprisalRow]:
    """One row per scored token, end-of-sentence included where the model has one.

    Args:
        score: of a sentence.
        unit: bits or nats.
        incremental: attachments after each token (:attr:`pdtools.search.BeamResult.incremental`).
    """
    for i, logprob in enumerate(score.logprobs.tolist()):
        parse = None if incremental is None else stack_text(incremental[i + 1], score.tokens)
        yield SurprisalRow(
            number=score.first_token + i,
            text=score.tokens[i],
            start=score.starts[i],
            end=score.ends[i],
            surprisal=-logprob * _PER_NAT[unit],
            parse=parse,
        )


def word_rows(
    score: SentenceScore, unit: Unit = "bits", incremental: Sequence[NDArray[np.int32]] | None = None
) -> Iterator[SurprisalRow]:
    """One row per word, the sum of its tokens' surprisals, and one for end-of-sentence.

    The parse is the one after the word's last token. Arguments as of :func:`token_rows`.
    """
    rows = list(token_rows(score, unit, incremental))
    edges = [i for i in range(len(rows)) if i == 0 or score.words[i] != score.words[i - 1]]
    for first, stop in zip(edges, [*edges[1:], len(rows)], strict=True):
        start, end = rows[first].start, rows[stop - 1].end
        is_eos = score.words[first] < 0
        yield SurprisalRow(
            number=score.words[first - 1] + 2 if is_eos else score.words[first] + 1,
            text=rows[first].text if is_eos else score.text[start:end],
            start=start,
            end=end,
            surprisal=sum(row.surprisal for row in rows[first:stop]),
            parse=rows[stop - 1].parse,
        )


def stack_text(attach: NDArray[np.int32], tokens: Sequence[str]) -> str:
    """The constituents on the stack after some tokens, left to right, such as ``(X the dog) barks``.

    Args:
        attach: int32[t + 1] in the sentence layout, ROOT first. With t = n + 1, end-of-sentence reduces
            everything, and is left out itself.
        tokens: the sentence's, without ROOT.
    """
    stack: list[tuple[int, str]] = []  # (last token, brackets) of each constituent
    for k, target in enumerate(attach.tolist()[1:], start=1):
        if target == 0:  # end-of-sentence
            parts = [text for _, text in stack]
            while len(parts) > 1:
                parts[-2:] = [f"(X {parts[-2]} {parts[-1]})"]
            return parts[0] if parts else ""
        last, text = k, escape(tokens[k - 1])
        while last != target:
            last, left = stack.pop()
            text = f"(X {left} {text})"
        stack.append((k, text))
    return " ".join(text for _, text in stack)
