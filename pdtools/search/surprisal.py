"""Surprisal of every token or word of a sentence, and the best incremental parse."""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import tee
from typing import TYPE_CHECKING, Literal

from pdtools.errors import InputError
from pdtools.files import Rejects, atomic_table, write_rejects
from pdtools.search.contexts import documents_of, joined, parts_of
from pdtools.search.inputs import SourcedLine
from pdtools.search.scores import Measure, SentenceScore, Unscorable
from pdtools.search.spans import By, read_spans
from pdtools.tokenization import Sentence

if TYPE_CHECKING:
    from pdtools.search.model import Model

Unit = Literal["bits", "nats"]
PER_NAT = {"bits": 1 / math.log(2), "nats": 1.0}


@dataclass(frozen=True, slots=True)
class SurprisalRow:
    """One token or word.

    Attributes:
        number: its number in the sentence, from 1.
        text: the token, or the word's stretch of the text.
        start, end: its characters in the sentence.
        surprisal: in the requested unit.
        parse: the best hypothesis after it; None if not requested.
        seen: number of tokens read before it (a word: before its first token); None: all of the sentence.
        entropy: the entropy of the distribution before it (a word: before its first token), in the unit; None
            if not requested.
        rank: a token's rank in that distribution, from 1; None for words, and if not requested.
    """

    number: int
    text: str
    start: int
    end: int
    surprisal: float
    parse: str | None
    seen: int | None = None
    entropy: float | None = None
    rank: int | None = None


def columns(
    *, words: bool = False, parses: bool = False, seen: bool = False, measures: Sequence[Measure] = ()
) -> dict[str, str]:
    """The columns of a table of surprisals by name, with the attributes of rows that they hold.

    Columns:
        sentence_id: line of the input, from 1; precedes the returned columns.
        token_id, token: number, from 1, and text of the token (with ``--words``: ``word_id``, ``word``).
        start, end: its characters in the sentence.
        surprisal: bits, or nats with ``--nats``.
        entropy: entropy of the distribution before the token (for a word, its first token), in the same unit.
        rank: the token's rank in that distribution, from 1.
        parse: the best hypothesis after it.
        seen: with ``--context`` or ``--stride``: number of tokens read before it.
    """
    unit = "word" if words else "token"
    found = {f"{unit}_id": "number", unit: "text", "start": "start", "end": "end", "surprisal": "surprisal"}
    wanted = [name for name in ("entropy", "rank") if name in measures] + ["parse"] * parses + ["seen"] * seen
    return found | {name: name for name in wanted}


def token_rows(
    score: SentenceScore, unit: Unit = "bits", incremental: Sequence[str] | None = None
) -> Iterator[SurprisalRow]:
    """One row per scored token, including end-of-sentence if the model has one.

    Args:
        score: a sentence's score.
        unit: bits or nats.
        incremental: the parse after each of them (:attr:`pdtools.search.parses.ParsedScore.incremental`).
    """
    entropies, ranks = score.measures.get("entropy"), score.measures.get("rank")
    for i, logprob in enumerate(score.logprobs.tolist()):
        yield SurprisalRow(
            number=score.first_token + i,
            text=score.tokens[i],
            start=score.starts[i],
            end=score.ends[i],
            surprisal=-logprob * PER_NAT[unit],
            parse=None if incremental is None else incremental[i],
            seen=None if score.seen is None else score.seen[i],
            entropy=None if entropies is None else float(entropies[i]) * PER_NAT[unit],
            rank=None if ranks is None else int(ranks[i]),
        )


def word_rows(
    score: SentenceScore, written: Sentence, unit: Unit = "bits", incremental: Sequence[str] | None = None
) -> Iterator[SurprisalRow]:
    """One row per word, the sum of its tokens' surprisals, and one for end-of-sentence.

    A token belongs to the word of its first visible character. So a word in which no token begins has no row:
    its surprisal is in the row of the word before it. The parse is the one after the word's last token. If
    the first token has no score, the first row covers the rest of its word.

    Args:
        score: a sentence's score.
        written: its words, or text words, and the text that the rows' characters refer to
            (:attr:`pdtools.search.inputs.SourcedLine.written`).
        unit: see :func:`token_rows`.
        incremental: see :func:`token_rows`.
    """
    rows = list(token_rows(score, unit, incremental))
    # A model that reads another text reads the same words in another spelling.
    by: By = "following" if score.text == written.text else "words"
    found = read_spans(score, list(zip(written.starts, written.ends, strict=True)), by, end_span=True)
    spans = zip(
        [*written.starts, len(written.text)],
        [*written.ends, len(written.text)],
        found.first.tolist(),
        found.last.tolist(),
        (found.surprisal() * PER_NAT[unit]).tolist(),
        strict=True,
    )
    for number, (start, end, first, last, surprisal) in enumerate(spans, start=1):
        if first < 0:
            continue
        if first == 0 and score.first_token > 1:
            start = max(start, end - (rows[last].end - rows[first].start))
        yield SurprisalRow(
            number=number,
            text=rows[first].text if number > len(written.words) else written.text[start:end],
            start=start,
            end=end,
            surprisal=surprisal,
            parse=rows[last].parse,
            seen=rows[first].seen,
            entropy=rows[first].entropy,
        )


@dataclass(frozen=True, slots=True)
class SentenceSurprisal:
    """The rows of the sentence on one line of the input (numbered from 1); none if it has no score."""

    number: int
    rows: tuple[SurprisalRow, ...]
    scored: bool


def surprisals(
    lines: Iterable[SourcedLine],
    model: Model,
    *,
    rejects: Rejects,
    unit: Unit = "bits",
    words: bool = False,
    parses: bool = False,
    documents: bool = False,
) -> Iterator[SentenceSurprisal]:
    """Surprisals of sentences: one result for each line, in order, lazily. Blank lines have no rows.

    Args:
        lines: from :func:`pdtools.search.inputs.read_inputs`.
        model: from :func:`pdtools.search.load_model`; with ``parses``, asked for these.
        rejects: takes the sentences that cannot be scored, with the reason.
        unit: bits or nats.
        words: rows of words (for running text: text words) instead of tokens, see :func:`word_rows`.
        parses: add the best incremental parse.
        documents: whether the lines of a document are read as one text.

    Raises:
        InputError: at the first sentence that cannot be scored, if ``rejects`` says so.
    """
    lines, again = tee(lines)
    results = _in_documents(again, model) if documents else _scores(again, model, parses)
    for number, (line, found) in enumerate(zip(lines, results, strict=True), start=1):
        if isinstance(found, Unscorable):
            if line.sentence.words:
                rejects.add(found.reason, file=line.file, line=line.line, text=found.text)
            yield SentenceSurprisal(number=number, rows=(), scored=False)
        else:
            score, incremental = found
            rows = (
                word_rows(score, line.written, unit, incremental)
                if words
                else token_rows(score, unit, incremental)
            )
            yield SentenceSurprisal(number=number, rows=tuple(rows), scored=True)


_Scored = tuple[SentenceScore, Sequence[str] | None] | Unscorable


def _in_documents(lines: Iterator[SourcedLine], model: Model) -> Iterator[_Scored]:
    documents, again = tee(documents_of(lines))
    found = model.score(joined([line.sentence for line in document]) for document in again)
    for document, score in zip(documents, found, strict=True):
        for part in parts_of(score, [line.sentence for line in document]):
            yield part if isinstance(part, Unscorable) else (part, None)


def _scores(lines: Iterator[SourcedLine], model: Model, parses: bool) -> Iterator[_Scored]:
    sentences = (line.sentence for line in lines)
    if not parses:
        for score in model.score(sentences):
            yield score if isinstance(score, Unscorable) else (score, None)
        return
    for found in model.score_with_parses(sentences):
        yield found if isinstance(found, Unscorable) else (found.score, found.incremental)


@dataclass(frozen=True, slots=True)
class SurprisalCounts:
    """The numbers of lines, of scored lines, and of their rows."""

    sentences: int
    scored: int
    rows: int


def write_surprisals(
    results: Iterable[SentenceSurprisal], output: str, *, rejects: Rejects, of_rows: Mapping[str, str]
) -> SurprisalCounts:
    """Write surprisals as a table with a header (:func:`pdtools.files.atomic_table`), whole or not at all.

    Args:
        results: from :func:`surprisals`.
        output: a file.
        rejects: written beside it.
        of_rows: the columns after ``sentence_id``, from :func:`columns`.

    Raises:
        InputError: if there is no sentence at all.
    """
    sentences = scored = rows = 0
    # A pipe gets no header of a table that will not come.
    results = iter(results)
    first = next(results, None)
    if first is None:
        raise InputError("there is no sentence in the input")
    with atomic_table(output, ["sentence_id", *of_rows]) as write:
        for result in itertools.chain([first], results):
            sentences += 1
            scored += result.scored
            rows += len(result.rows)
            for row in result.rows:
                cells = [result.number, *(getattr(row, name) for name in of_rows.values())]
                # Adding 0 makes 0 of -0.
                write([f"{round(each, 8) + 0.0:.8f}" if isinstance(each, float) else each for each in cells])
        write_rejects(output, rejects)
    return SurprisalCounts(sentences=sentences, scored=scored, rows=rows)
