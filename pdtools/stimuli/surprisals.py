"""A model's surprisals for the regions, or words, of a table's sentences."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import groupby
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from pdtools.errors import InputError
from pdtools.evaluation.benchmark.outcomes import regions_of
from pdtools.evaluation.external.word_alignment import is_unknown
from pdtools.files import Rejects
from pdtools.search.checkpoint_scorer import ParsedScore
from pdtools.search.contexts import DOCUMENT, Context, joined, parts_of, with_documents
from pdtools.search.inputs import SourcedLine, read_sentence
from pdtools.search.scores import SentenceScore, Unscorable
from pdtools.search.surprisal import PER_NAT, Unit
from pdtools.stimuli.sentences import Stimuli
from pdtools.tokenization import Sentence, split_spaces

Float = NDArray[np.float64]
Source = Literal["text", "tokens"]


def unit_values(score: SentenceScore, spans: Sequence[tuple[int, int]]) -> dict[str, Float]:
    """Sum a sentence's scores over its units, which cover all of it.

    A token belongs to the unit of its first character that is no space; end-of-sentence to none.

    Args:
        score: the sentence's score.
        spans: n, the character spans of units.

    Returns:
        float64 (n,) each: ``surprisal``, nats: the sum over the unit's tokens, NaN if it has characters, but
        no token begins in it; ``n_tokens``; ``unknown``: number of unknown words among them; ``crossing``:
        number that reach beyond its end; ``last``: the row of its last token, −1 if there is none. As far as
        the score has them ``attachment`` (nats) and ``closed``, summed too, and ``entropy`` (nats) and
        ``seen`` of the unit's first token. With the measures ``begins`` and ``ends`` surprisals are
        corrected: they include the space after a word, and not the one before
        (:func:`pdtools.evaluation.reading.alignment.align`).
    """
    n = len(spans)
    starts, ends = np.array(score.starts, np.int64), np.array(score.ends, np.int64)
    own = np.flatnonzero((np.array(score.words, np.int64) >= 0) & (starts < len(score.text)))
    unit = np.array(regions_of(score.text, spans, starts[own].tolist()), np.int64)
    bounds = [spans[place][1] for place in unit.tolist()]
    crossing = [
        bool(score.text[bound:end].strip()) for bound, end in zip(bounds, ends[own].tolist(), strict=True)
    ]
    unknown = [
        score.n_unknown > 0
        and is_unknown(score.tokens[i])
        and score.tokens[i] != score.text[starts[i] : ends[i]]
        for i in own.tolist()
    ]

    def summed(values: Any) -> Float:
        return np.bincount(unit, np.asarray(values, np.float64), minlength=n).astype(np.float64)

    found = {"surprisal": -summed(score.logprobs[own]), "n_tokens": summed(np.ones(len(own)))}
    found |= {"unknown": summed(unknown), "crossing": summed(crossing)}
    measures = score.measures
    found |= {name: summed(measures[name][own]) for name in ("attachment", "closed") if name in measures}
    begins = np.flatnonzero(np.diff(unit, prepend=-1))
    for name, values in (("entropy", measures.get("entropy")), ("seen", score.seen)):
        if values is not None:
            found[name] = np.full(n, np.nan)
            found[name][unit[begins]] = np.asarray(values, np.float64)[own][begins]
    finishes = np.append(begins[1:], len(unit))[: len(begins)] - 1
    if "begins" in measures:
        spaces = measures["begins"][own]
        # A unit that ends within a word has no space after it.
        ended = np.where(np.append(spaces[finishes[:-1] + 1], 1) != 0, measures["ends"][own][finishes], 0.0)
        found["surprisal"][unit[begins]] += spaces[begins] - ended
    found["last"] = np.full(n, -1.0)
    found["last"][unit[finishes]] = own[finishes]
    empty = np.array([end > start for start, end in spans], bool) & (found["n_tokens"] == 0)
    for name in ("surprisal", "attachment", "closed"):
        if name in found:
            found[name][empty] = np.nan
    return found


@dataclass
class Surprisals:
    """A model's surprisals for all units (U) of stimuli.

    Attributes:
        stimuli: the table.
        source: the form of its sentences: running text, or words between spaces.
        unit: the unit of surprisal, attachment and entropy.
        rejects: takes the sentences that have no score.
        values: float64 (U,) each, see :func:`unit_values`; NaN for sentences without a score.
        parses: the best hypothesis after each unit; None if there are none.
        corrects_spaces: whether a surprisal was corrected for spaces.
    """

    stimuli: Stimuli
    source: Source
    unit: Unit
    rejects: Rejects
    values: dict[str, Float] = field(default_factory=dict)
    parses: list[str] | None = None
    corrects_spaces: bool = False
    _style: str | None = None
    _same: dict[str, list[int]] = field(default_factory=dict)
    _documents: list[range] = field(default_factory=list)

    def parts(
        self, context: Context, scorer: Mapping[str, Any]
    ) -> Iterator[tuple[tuple[int, int], Sentence]]:
        """The texts that a model reads, each with its first sentence and number of sentences.

        Equal sentences are read once, unless they stand in documents.

        Args:
            context: the text to be read before sentences.
            scorer: settings of its scorer.
        """
        stimuli, self._style = self.stimuli, scorer["text_style"]
        if context.stride is not None or context.of == DOCUMENT:
            names = stimuli.documents or [str(i) for i in range(len(stimuli.texts))]
            grouped = (list(own) for _, own in groupby(range(len(names)), key=names.__getitem__))
            for own in grouped:
                sentences = [self._sentence(i) for i in own]
                if context.stride is not None:
                    yield (own[0], len(own)), joined(sentences)
                    continue
                lines = (
                    SourcedLine(each, each, names[own[0]], i) for i, each in zip(own, sentences, strict=True)
                )
                for i, line in zip(own, with_documents(lines, scorer["window"]), strict=True):
                    yield (i, 1), line.sentence
            return
        for i, text in enumerate(stimuli.texts):
            self._same.setdefault(text, []).append(i)
        for own in self._same.values():
            yield (own[0], 1), self._sentence(own[0])

    def _sentence(self, number: int) -> Sentence:
        return read_sentence(self.stimuli.texts[number], self.source, self._style)

    def add(self, place: tuple[int, int], found: SentenceScore | ParsedScore | Unscorable) -> None:
        """Add the score of one of the :meth:`parts`.

        Raises:
            InputError: if it has no score, and ``rejects`` says so.
        """
        first, number = place
        parsed = found if isinstance(found, ParsedScore) else None
        score = parsed.score if parsed is not None else found
        assert not isinstance(score, ParsedScore)
        if number > 1:
            own = range(first, first + number)
            parts = parts_of(score, [self._sentence(i) for i in own])
            for i, part in zip(own, parts, strict=True):
                self._add_one(i, part, None)
            return
        for i in self._same.get(self.stimuli.texts[first], [first]):
            self._add_one(i, score, parsed)

    def _add_one(self, number: int, score: SentenceScore | Unscorable, parsed: ParsedScore | None) -> None:
        stimuli = self.stimuli
        own = slice(int(stimuli.first[number]), int(stimuli.first[number + 1]))
        if isinstance(score, Unscorable):
            if stimuli.texts[number].strip():
                sheet, row = stimuli.sheet, int(stimuli.row[number])
                self.rejects.add(score.reason, file=sheet.name, line=sheet.numbers[row], text=score.text)
            return
        scale = PER_NAT[self.unit]
        self.corrects_spaces |= "begins" in score.measures
        for name, values in unit_values(score, self._spans(number, score)).items():
            if name == "last":
                if parsed is not None:
                    self.parses = self.parses or [""] * len(stimuli.start)
                    self.parses[own] = [parsed.incremental[int(i)] if i >= 0 else "" for i in values]
                continue
            if name not in self.values:
                self.values[name] = np.full(len(stimuli.start), np.nan)
            self.values[name][own] = values * (scale if name in ("surprisal", "attachment", "entropy") else 1)

    def _spans(self, number: int, score: SentenceScore) -> list[tuple[int, int]]:
        """The character spans of a sentence's units in the text that the model reads."""
        spans, text = self.stimuli.spans(number), self.stimuli.texts[number]
        if score.text == text:
            return spans
        written, read = split_spaces(text.replace("\t", " ")), self._sentence(number)
        starts = dict(zip(written.starts, read.starts, strict=True))
        ends = dict(zip(written.ends, read.ends, strict=True))
        found = []
        for start, end in spans:
            if end > start and not (start in starts and end in ends):
                sheet, row = self.stimuli.sheet, int(self.stimuli.row[number])
                reason = f"a region ends within a word: {text[max(0, start - 10) : end]!r}"
                hint = "words are between spaces with --from tokens"
                raise InputError(reason, file=sheet.name, line=sheet.numbers[row], hint=hint)
            found.append((starts[start], ends[end]) if end > start else (0, 0))  # without tokens anywhere
        return found

    @property
    def n_crossing(self) -> int:
        """The number of tokens that reach over the end of their unit."""
        return int(np.nansum(self.values.get("crossing", np.zeros(0))))
