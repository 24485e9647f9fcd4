"""Spans of characters, each place's rules against a loop over the characters of tokens."""

from __future__ import annotations

import math
from collections.abc import Callable
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pdtools.evaluation.benchmark.item_set import NamedSpan, String
from pdtools.evaluation.benchmark.outcomes import Part, part_of
from pdtools.evaluation.reading.scoring import align
from pdtools.search.scores import SentenceScore
from pdtools.search.spans import SpanTokens, read_spans, span_at
from pdtools.search.surprisal import word_rows
from pdtools.stimuli.surprisals import unit_values
from pdtools.tokenization import split_spaces

texts = st.text("ab \u00a0\n", min_size=1, max_size=12).filter(str.strip)


def score(text: str, tokens: list[tuple[int, int]], eos: bool = True) -> SentenceScore:
    """Tokens of −1, −2, −4, … nats, so that a sum tells which ones are in it; a line feed is of no word."""
    n = len(text)
    rows = [*tokens, *([(n, n)] * eos)]
    feeds = [text[a:b] == "\n" for a, b in tokens]
    return SentenceScore(
        text=text,
        tokens=tuple(text[a:b] for a, b in rows),
        words=(*(-1 if feed else 0 for feed in feeds), *([-1] * eos)),
        starts=tuple(a for a, _ in rows),
        ends=tuple(b for _, b in rows),
        logprobs=-(2.0 ** np.arange(len(rows))),
        n_unknown=0,
        eos=eos,
        measures={"begins": -(3.0 ** np.arange(len(rows))), "ends": -(5.0 ** np.arange(len(rows)))},
    )


@st.composite
def scores(draw: st.DrawFn) -> SentenceScore:
    """Tokens in order, some without characters, some with blanks at their edges, with gaps between them."""
    text = draw(texts)
    edges = sorted(draw(st.lists(st.integers(0, len(text)), max_size=12)))
    tokens = [(a, b) for a, b in pairwise(edges) if draw(st.integers(0, 4))]
    return score(text, tokens, not tokens or draw(st.booleans()))


@st.composite
def stretches(draw: st.DrawFn, text: str) -> list[tuple[int, int]]:
    """Spans that cover a text, some without characters."""
    edges = [0, *sorted(draw(st.lists(st.integers(0, len(text)), max_size=4))), len(text)]
    return list(pairwise(edges))


def sums(found: SentenceScore, n: int, place: Callable[[int], int | None]) -> list[list[int]]:
    """The rows of each span."""
    rows: list[list[int]] = [[] for _ in range(n)]
    for i in range(len(found.tokens)):
        if (span := place(i)) is not None:
            rows[span].append(i)
    return rows


def nats(rows: list[list[int]]) -> list[float]:
    return [float(sum(2**i for i in own)) for own in rows]


def visible(text: str, spans: list[tuple[int, int]], start: int) -> int:
    """The span of the first character from ``start`` on that is no space; the last one if there is none."""
    filled = [i for i, (a, b) in enumerate(spans) if b > a]
    seen = next((k for k in range(start, len(text)) if not text[k].isspace()), len(text))
    return next((i for i in filled if spans[i][0] <= seen < spans[i][1]), filled[-1])


@given(scores(), st.data())
def test_regions(found: SentenceScore, data: st.DataObject) -> None:
    spans = data.draw(stretches(found.text))
    expected = sums(
        found,
        len(spans),
        lambda i: visible(found.text, spans, found.starts[i]) if found.words[i] >= 0 else None,
    )
    regions = tuple(NamedSpan(number, *span, "") for number, span in enumerate(spans, start=1))
    part = part_of(String(found.text, regions=regions), found)
    assert isinstance(part, Part)
    scored = part.spans[: len(spans)]
    assert [(span.bits or 0) * math.log(2) for span in scored] == pytest.approx(nats(expected))
    assert [span.tokens for span in scored] == [len(own) for own in expected]
    assert len(part.spans) - len(spans) == found.eos


@given(scores(), st.data())
def test_units(found: SentenceScore, data: st.DataObject) -> None:
    text, spans = found.text, data.draw(stretches(found.text))

    def place(i: int) -> int | None:
        there = found.words[i] >= 0 and found.starts[i] < len(text)
        return visible(text, spans, found.starts[i]) if there else None

    expected = sums(found, len(spans), place)
    units = unit_values(found, spans)
    assert units["n_tokens"].tolist() == [len(own) for own in expected]
    assert units["last"].tolist() == [own[-1] if own else -1 for own in expected]
    crossing = [
        sum(bool(text[end : found.ends[i]].strip()) for i in own)
        for own, (_, end) in zip(expected, spans, strict=True)
    ]
    assert units["crossing"].tolist() == crossing
    for own, value, (start, end) in zip(expected, units["surprisal"].tolist(), spans, strict=True):
        if not own:
            assert math.isnan(value) if end > start else value == 0
            continue
        # No token's ``begins`` is 0 here: every unit ends a word.
        assert value == pytest.approx(sum(2**i for i in own) - 3 ** own[0] + 5 ** own[-1])


@given(scores())
def test_words(found: SentenceScore) -> None:
    """A row for each word that a token begins in, or in the spaces before it; ends have their own."""
    written = split_spaces(found.text)
    n = len(written.words)
    if not n:
        return
    expected = sums(found, n + 1, lambda i: written.word_at(found.starts[i]) if found.words[i] >= 0 else n)
    rows = list(word_rows(found, written, "nats"))
    assert [row.number for row in rows] == [i for i, own in enumerate(expected, start=1) if own]
    assert [row.surprisal for row in rows] == pytest.approx([x for x in nats(expected) if x])


@given(scores())
def test_words_of_reading_times(found: SentenceScore) -> None:
    """A character between words is the word's before; words that share a token have no value."""
    written = split_spaces(found.text)
    n = len(written.words)
    if not n:
        return

    def place(i: int) -> int | None:
        if found.words[i] < 0 or found.starts[i] >= len(found.text):
            return None
        return max([0, *(k for k in range(n) if written.starts[k] <= found.starts[i])])

    expected = sums(found, n, place)
    read = read_spans(
        found,
        list(zip(written.starts, written.ends, strict=True)),
        "preceding",
        empty=math.nan,
        until=len(found.text),
    )
    values = [float(sum(2**i for i in own)) if own else math.nan for own in expected]
    assert read.surprisal() == pytest.approx(values, nan_ok=True)
    corrected = [
        x - 3 ** own[0] + 5 ** own[-1] if own else math.nan for x, own in zip(values, expected, strict=True)
    ]
    assert read.surprisal("words") == pytest.approx(corrected, nan_ok=True)
    shared = set()
    for word, own in enumerate(expected):
        for i in own:
            seen = [c for c in range(found.starts[i], found.ends[i]) if not found.text[c].isspace()]
            inside = [k for k in range(n) if any(written.starts[k] <= c < written.ends[k] for c in seen)]
            last = max(inside, default=word)
            shared |= set(range(word, last + 1)) if last > word else set()
    result = align(written, [(0, found)])
    assert {i for i, why in result.reasons.items() if why == "a token reaches over its edge"} == shared


@given(scores(), st.data())
def test_scored_parts(found: SentenceScore, data: st.DataObject) -> None:
    """All tokens that reach past the context, and what stands where it ends; no end after a context."""
    start = data.draw(st.none() | st.integers(0, len(found.text) - 1))
    string = String(found.text, start)
    part = part_of(string, found)
    rows = range(len(found.tokens) - (found.eos and start is not None))
    edges = list(zip(found.starts, found.ends, strict=True))
    taken = [i for i in rows if start is None or edges[i][1] > start or edges[i] == (start, start)]
    if start is not None and not (taken and found.text[start:].strip()):
        assert not isinstance(part, Part)
    else:
        assert isinstance(part, Part)
        assert (part.tokens, -part.logprob) == (len(taken), pytest.approx(sum(2**i for i in taken)))


@given(scores())
def test_recorded_words(found: SentenceScore) -> None:
    written = split_spaces(found.text)
    spans = list(zip(written.starts, written.ends, strict=True))
    expected = [max([0, *(k for k, (a, _) in enumerate(spans) if a <= start)]) for start in found.starts]
    assert span_at(found.text, spans, found.starts, "preceding").tolist() == (
        expected if spans else [-1] * len(expected)
    )


def test_tokens_that_straddle_a_boundary_belong_where_they_begin() -> None:
    def regions(tokens: list[tuple[int, int]], spans: list[tuple[int, int]]) -> SpanTokens:
        return read_spans(score("The dog ran ", tokens), spans, "visible")

    found = regions([(0, 3), (3, 6), (6, 10), (10, 11)], [(0, 7), (7, 7), (8, 11)])
    assert found.surprisal().tolist() == [7.0, 0.0, 8.0]  # the third covers "g ra"
    assert found.crossing.tolist() == [1, 0, 0]
    assert regions([(0, 7), (7, 11)], [(0, 7), (8, 11)]).surprisal().tolist() == [1.0, 2.0]
    at_the_end = regions([(0, 3), (3, 7), (11, 12), (12, 12)], [(0, 3), (4, 11)])
    assert at_the_end.surprisal().tolist() == [1.0, 14.0]  # tokens of spaces at the end


def test_a_unit_that_ends_within_a_word_has_no_space_after_it() -> None:
    found = score("barking dog", [(0, 4), (4, 7), (7, 11)])
    found.measures["begins"][1] = 0  # type: ignore[index]
    read = read_spans(found, [(0, 4), (4, 7), (8, 11)], "visible")
    assert read.surprisal("parts").tolist() == [1 - 1, 2 - 0 + 5, 4 - 9 + 25]
    assert read.surprisal("words").tolist() == [1 - 1 + 1, 2 - 0 + 5, 4 - 9 + 25]
