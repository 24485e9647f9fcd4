"""Sums of a score's tokens over spans of characters: words, regions, units, scored parts of strings.

Every place that reads spans has its rules, which it names in :func:`read_spans`:

========================  ==========  ===================================  ==============================
place                     ``by``      rows that belong to no span          a span in which no token begins
========================  ==========  ===================================  ==============================
words of ``surprisal``    following   none: ends are a span of their own   no row; the word before has the
                                      (``end_span``)                       tokens that reach into it
regions of suites         visible     ends                                 0
units of stimuli          visible     ends; blanks at the end (``until``)  NaN if it has characters
words of reading times    preceding   ends; blanks at the end (``until``)  NaN; as are both words that share a
                                                                           token (``reach``)
scored parts of strings   reach       the end; tokens of the context;      the string has no score
                                      line feeds belong (``line_feeds``)
words of recorded scores  preceding   (:func:`span_at` alone)
========================  ==========  ===================================  ==============================

``visible``: a token belongs to the span of its first character that is no space; ``following``,
``preceding``: to the span of its first character, and if that lies between two spans, to the one after or
before; ``reach``: to the last span that it has characters of, or where it stands without characters.
``words``: to the word that the score says, if the spans are of another spelling of the text.

Surprisals corrected for spaces (:meth:`SpanTokens.surprisal`) include the space after a word, and not the one
before (Oh and Schuler 2024; Pimentel and Meister 2024, equation 9): ``words`` says that every span ends
a word, ``parts`` that one may end within a word, and then has no space after it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from pdtools.search.scores import SentenceScore, is_unknown

Int = NDArray[np.int64]
Float = NDArray[np.float64]
Spans = Sequence[tuple[int, int]] | Int
By = Literal["visible", "following", "preceding", "reach", "words"]


def span_at(
    text: str, spans: Spans, starts: Sequence[int] | Int, by: By, ends: Sequence[int] | Int = ()
) -> Int:
    """The span of each token, int64 (k,); −1: none (by ``reach``, or if no span has characters).

    Args:
        text: the text whose characters the other arguments refer to.
        spans: int (n, 2), start and end of spans in their order; without characters, they have tokens by
            ``reach`` alone.
        starts, ends: the k tokens' first characters, and the ones after their last (for ``reach``).
        by: see the module; not ``words``.
    """
    spans, starts = _pairs(spans), np.asarray(starts, np.int64)
    if by == "reach":
        stops = np.asarray(ends, np.int64)
        stands = np.searchsorted(spans[:, 0], starts, side="right") - 1
        return np.where(stops > starts, np.searchsorted(spans[:, 0], stops) - 1, stands)
    filled = np.flatnonzero(spans[:, 1] > spans[:, 0])
    if not len(filled):
        return np.full(len(starts), -1)
    begins = spans[filled, 0]
    if by == "visible":
        place = np.append(np.arange(len(text)), len(text))
        place[:-1][_are_spaces(text)] = len(text)
        starts = np.minimum.accumulate(place[::-1])[::-1][starts]
    found = np.maximum(np.searchsorted(begins, starts, side="right") - 1, 0)
    if by == "following":
        found += (starts >= spans[filled[found], 1]) & (found + 1 < len(filled))
    return filled[found]


@dataclass(frozen=True, slots=True)
class SpanTokens:
    """Tokens of a score that belong to n spans.

    Attributes:
        score: the score, m rows.
        spans: int64 (n, 2).
        rows, span: int64 (k,), the rows that belong to spans, and the span of each.
        empty: the sum over a span that has characters, but no tokens.
    """

    score: SentenceScore
    spans: Int
    rows: Int
    span: Int
    empty: float

    @property
    def n_tokens(self) -> Int:
        """The number of tokens of each span, int64 (n,)."""
        return np.bincount(self.span, minlength=len(self.spans))

    @property
    def first(self) -> Int:
        """The first row of each span, int64 (n,); −1 if it has none."""
        return self._placed(self.rows[::-1], self.span[::-1])

    @property
    def last(self) -> Int:
        """The last row of each span, int64 (n,); −1 if it has none."""
        return self._placed(self.rows, self.span)

    def _placed(self, rows: Int, span: Int) -> Int:
        found = np.full(len(self.spans), -1)
        found[span] = rows
        return found

    @property
    def reach(self) -> Int:
        """The last span that each of the k tokens has visible characters of, or its own, int64 (k,)."""
        text = self.score.text
        visible = np.where(_are_spaces(text), 0, np.arange(1, len(text) + 1))
        stops = np.append(0, np.maximum.accumulate(visible))[np.asarray(self.score.ends, np.int64)[self.rows]]
        filled = np.flatnonzero(self.spans[:, 1] > self.spans[:, 0])
        last = np.maximum(np.searchsorted(self.spans[filled, 0], stops) - 1, 0)
        return np.maximum(filled[last], self.span)

    @property
    def crossing(self) -> Int:
        """The number of tokens of each span that reach beyond its end, int64 (n,)."""
        return np.bincount(self.span[self.reach > self.span], minlength=len(self.spans))

    @property
    def unknown(self) -> NDArray[np.bool_]:
        """Bool (k,), the tokens that stand for unknown words."""
        score, found = self.score, np.zeros(len(self.rows), bool)
        for k, i in enumerate(self.rows.tolist() if score.n_unknown else ()):
            token = score.tokens[i]
            found[k] = is_unknown(token) and token != score.text[score.starts[i] : score.ends[i]]
        return found

    def sum(self, values: Float) -> Float:
        """The sums of the rows' values over the spans: float64 (m,) to (n,)."""
        n = len(self.spans)
        found = np.bincount(self.span, values[self.rows], n).astype(np.float64)
        found[(self.n_tokens == 0) & (self.spans[:, 1] > self.spans[:, 0])] = self.empty
        return found

    def first_of(self, values: Any) -> Float:
        """The values of the spans' first rows, (m,) to float64 (n,); NaN if there is none."""
        first = self.first
        return np.where(first >= 0, np.asarray(values, np.float64)[first], np.nan)

    def surprisal(self, spaces: Literal["words", "parts"] | None = None) -> Float:
        """The surprisals of the spans, float64 (n,), nats.

        Args:
            spaces: correct them for spaces (see the module), if the score has the measures for it.
        """
        found = -self.sum(self.score.logprobs)
        if spaces is None or "begins" not in self.score.measures:
            return found
        begins, ends = self.score.measures["begins"], self.score.measures["ends"]
        there = np.flatnonzero(self.n_tokens)
        first, last = self.first[there], self.last[there]
        ended = ends[last]
        if spaces == "parts":  # a unit that ends within a word has no space after it
            ended = np.where(np.append(begins[first[1:]], 1) != 0, ended, 0.0)
        found[there] += begins[first] - ended
        return found


def read_spans(
    score: SentenceScore,
    spans: Spans,
    by: By,
    *,
    empty: float = 0.0,
    until: int | None = None,
    end_span: bool = False,
    line_feeds: bool = False,
) -> SpanTokens:
    """Find the tokens of spans, by the rules of the place that asks (see the module).

    Args:
        score: the score of a text.
        spans: int (n, 2), start and end of spans in it, in their order.
        by: the span that a token belongs to.
        empty: see :class:`SpanTokens`.
        until: tokens that begin at or after this character belong to no span; None: all belong to one.
        end_span: whether a last span, without characters, is added for the rows that belong to no word.
        line_feeds: whether rows that belong to no word are tokens as others, but for end-of-sentence.
    """
    spans, words = _pairs(spans), np.asarray(score.words, np.int64)
    starts, ends = np.asarray(score.starts, np.int64), np.asarray(score.ends, np.int64)
    taken = np.arange(len(words)) < len(words) - score.eos if line_feeds else words >= 0
    if until is not None:
        taken &= starts < until
    rows = np.flatnonzero(taken)
    span = words[rows] if by == "words" else span_at(score.text, spans, starts[rows], by, ends[rows])
    rows, span = rows[span >= 0], span[span >= 0]
    if end_span:
        others = np.flatnonzero(~taken)
        rows, span = np.append(rows, others), np.append(span, np.full(len(others), len(spans)))
        spans = np.append(spans, [[len(score.text)] * 2], 0)
    return SpanTokens(score, spans, rows, span, empty)


def _pairs(spans: Spans) -> Int:
    return np.asarray(spans, np.int64).reshape(-1, 2)


def _are_spaces(text: str) -> NDArray[np.bool_]:
    return np.fromiter((letter.isspace() for letter in text), bool, len(text))
