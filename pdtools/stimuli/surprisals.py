"""Models' surprisals for the regions, or words, of a table's sentences."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import groupby
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from pdtools.errors import InputError
from pdtools.files import Rejects
from pdtools.jobs import JobFolder, Plan, cut, map_chunks
from pdtools.provenance.hub import name_of
from pdtools.search.contexts import joined, parts_of, with_documents
from pdtools.search.inputs import SourcedLine, read_sentence
from pdtools.search.model import Chunk, ModelSettings, ModelWork
from pdtools.search.options import DOCUMENT, Context
from pdtools.search.parses import ParsedScore
from pdtools.search.scores import SentenceScore, Unscorable, marked
from pdtools.search.spans import read_spans
from pdtools.search.surprisal import PER_NAT, Unit
from pdtools.stimuli.table import Stimuli
from pdtools.tokenization import Sentence, split_spaces

Float = NDArray[np.float64]
Source = Literal["text", "tokens"]


def unit_values(score: SentenceScore, spans: Sequence[tuple[int, int]]) -> dict[str, Float]:
    """Sum a sentence's scores over its units, by the rules of :mod:`pdtools.search.spans`.

    Args:
        score: the sentence's score.
        spans: n, the character spans of units.

    Returns:
        float64 (n,) each: ``surprisal``, nats: the sum over the unit's tokens, NaN if it has characters, but
        no token begins in it; ``n_tokens``; ``unknown``: number of unknown words among them; ``crossing``:
        number that reach beyond its end; ``last``: the row of its last token, −1 if there is none. As far as
        the score has them ``attachment`` (nats) and ``closed``, summed too, and ``entropy`` (nats) and
        ``seen`` of the unit's first token. Surprisals are corrected for spaces if the score has the measures
        for it.
    """
    read, measures = read_spans(score, spans, "visible", empty=np.nan, until=len(score.text)), score.measures
    unknown = np.bincount(read.span[read.unknown], minlength=len(spans))
    found: dict[str, Any] = {"surprisal": read.surprisal("parts"), "n_tokens": read.n_tokens}
    found |= {"unknown": unknown, "crossing": read.crossing, "last": read.last}
    found |= {name: read.sum(measures[name]) for name in ("attachment", "closed") if name in measures}
    firsts = {"entropy": measures.get("entropy"), "seen": score.seen}
    found |= {name: read.first_of(values) for name, values in firsts.items() if values is not None}
    return {name: values.astype(np.float64) for name, values in found.items()}


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

    def parts(self, context: Context, about: Mapping[str, Any]) -> Iterator[tuple[tuple[int, int], Sentence]]:
        """The texts that a model reads, each with its first sentence and number of sentences.

        Equal sentences are read once, unless they stand in documents.

        Args:
            context: the text to be read before sentences.
            about: settings of its model.
        """
        stimuli, self._style = self.stimuli, about["text_style"]
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
                for i, line in zip(own, with_documents(lines, about["window"]), strict=True):
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
    def bits(self) -> Float:
        """The units' surprisals in bits, whatever ``unit`` is: float64 (U,)."""
        found = self.values.get("surprisal", np.full(len(self.stimuli.start), np.nan))
        return found * (PER_NAT["bits"] / PER_NAT[self.unit])

    @property
    def n_crossing(self) -> int:
        """The number of tokens that reach over the end of their unit."""
        return int(np.nansum(self.values.get("crossing", np.zeros(0))))


# --- several models ----------------------------------------------------------------------------


@dataclass(frozen=True, kw_only=True)
class NamedModel:
    """A model, or one of its beams.

    Attributes:
        name: its name.
        settings: its settings.
        only_if_searched: whether it is excluded if its scores need no search, and so no beam.
    """

    name: str
    settings: ModelSettings
    only_if_searched: bool = False


def named_models(settings: Sequence[ModelSettings], beams: Sequence[int]) -> list[NamedModel]:
    """Models named by their folders; with beams, one for each beam of each model that searches.

    A folder ``checkpoint`` or the like is named by its parent; equal names are numbered; masked models are
    marked.
    """
    named: list[tuple[str, ModelSettings, bool]] = []
    for each in settings:
        name = marked(name_of(each.model_dir), pseudo=each.is_pseudo)
        if not beams:
            named.append((name, each, False))
        for i, beam in enumerate(beams):
            searched = replace(each, search=replace(each.search, beam=beam))
            named.append((f"{name}, beam {beam}", searched, i > 0))
    total, used = Counter(name for name, _, _ in named), Counter[str]()
    made = []
    for name, each, only in named:
        used[name] += 1
        name = f"{name} ({used[name]})" if total[name] > 1 else name
        made.append(NamedModel(name=name, settings=each, only_if_searched=only))
    return made


def score_parts(
    models: Sequence[NamedModel],
    parts_of: Callable[[int, Mapping[str, Any]], Iterable[tuple[tuple[int, int], Sentence]]],
    settings: dict[int, dict[str, Any]],
    *,
    plan: Plan,
    job: JobFolder | None = None,
    parses: bool = False,
) -> Iterator[tuple[int, tuple[int, int], Any]]:
    """Score parts of texts, with one model after the other.

    Args:
        models: from :func:`named_models`.
        parts_of: gives a model's input, by its number and its settings: places, sentences.
        settings: filled with the models' settings, by their numbers.
        plan, job: how the chunks are distributed and kept.
        parses: whether the best incremental parses are added to scores.

    Yields:
        A model's number, the place of a part, and its score (:class:`ParsedScore` with parses).
    """
    models = [replace(model, settings=replace(model.settings, parses=parses)) for model in models]

    def chunks() -> Iterator[Chunk]:
        for number, named in enumerate(models):
            model = named.settings.load()
            if named.only_if_searched and model.settings["beam"] is None:
                continue
            settings[number] = dict(model.settings)
            for chunk in cut(parts_of(number, model.settings), model.look_ahead):
                places, sentences = zip(*chunk, strict=True)
                yield Chunk(sentences, number, places)

    asked = tuple(model.settings for model in models)
    work = ModelWork(asked, "score_with_parses" if parses else "score")
    for chunk, scores in map_chunks(work, chunks(), plan, job):
        for place, score in zip(chunk.places, scores, strict=True):
            yield chunk.model, place, score
