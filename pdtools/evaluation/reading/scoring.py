"""Models' scores for the words of reading-time texts; in chunks, for several processes."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from pdtools.errors import PdtoolsError
from pdtools.evaluation.reading.alignment import WordValues, align
from pdtools.evaluation.reading.times import NO_TIME, ReadingTimes, TimedText
from pdtools.evaluation.results import Progress, no_progress
from pdtools.jobs import JobFolder, Plan, cut, map_chunks
from pdtools.provenance.hub import name_of_snapshot
from pdtools.search.contexts import joined, with_documents
from pdtools.search.inputs import SourcedLine, read_sentence
from pdtools.search.model import Chunk, ModelSettings, ModelWork
from pdtools.search.options import DOCUMENT
from pdtools.search.scores import Measure, SentenceScore, Unscorable
from pdtools.tokenization import Sentence


@dataclass(frozen=True, kw_only=True)
class NamedModel:
    """A model, or one of its beams.

    Attributes:
        name: its name.
        column: the name's form in names of columns.
        settings: its settings.
        only_if_searched: whether it is excluded if its scores need no search, and so no beam.
    """

    name: str
    column: str
    settings: ModelSettings
    only_if_searched: bool = False


def measures_of(predictors: Sequence[str], spaces: bool) -> tuple[Measure, ...]:
    """The measures that scorers have to add for predictors, and for the correction of spaces."""
    wanted: dict[Measure, bool] = {
        "entropy": "entropy" in predictors,
        "spaces": spaces,
        "structure": not {"attachment", "closed"}.isdisjoint(predictors),
    }
    return tuple(measure for measure, is_wanted in wanted.items() if is_wanted)


def named_models(settings: Sequence[ModelSettings], beams: Sequence[int]) -> list[NamedModel]:
    """Models named by their folders; with beams, one for each beam of each model that searches.

    A folder ``checkpoint`` or the like is named by its parent; equal names are numbered.
    """
    named: list[tuple[str, ModelSettings, bool]] = []
    for each in settings:
        name = name_of(each.model_dir)
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
        made.append(NamedModel(name=name, column=_plain(name), settings=each, only_if_searched=only))
    return made


def name_of(folder: str) -> str:
    """The name of a model: its folder's, its run's if the folder is a part of one, or its name on the hub."""
    path = Path(folder).resolve()
    if (hub := name_of_snapshot(path)) is not None:
        return hub.partition("@")[0].rpartition("/")[2]
    return path.parent.name if path.name in ("checkpoint", "best", "last") else path.name


@dataclass(frozen=True)
class ModelWords:
    """A model's values for all words.

    Attributes:
        model: which.
        settings: the scorer's settings.
        words: the words of each text.
        corrects_spaces: whether its surprisals are corrected for the spaces before words, which action
            models, and sums over proposal trees, cannot.
    """

    model: NamedModel
    settings: dict[str, Any]
    words: tuple[WordValues, ...]
    corrects_spaces: bool = False


def external_words(times: ReadingTimes) -> list[ModelWords]:
    """Surprisals of words from columns of the table: each (:attr:`Columns.surprisal`) is a model, in bits.

    Raises:
        PdtoolsError: if a cell is not a number, or a word has two.
    """
    names = (times.columns.surprisal or "").split(",") if times.columns.surprisal else []
    made = []
    for name in names:
        bits = np.full(len(times.text_of_word), np.nan)
        for word, cell in zip(times.word.tolist(), times.label(name).tolist(), strict=True):
            if cell in NO_TIME:
                continue
            try:
                value = float(cell)
            except ValueError as error:
                raise PdtoolsError(f"{name} is {cell!r}, not a number of bits") from error
            if not np.isnan(bits[word]) and bits[word] != value:
                raise PdtoolsError(f"{name} is {cell} and {bits[word]:g} of the same word")
            bits[word] = value
        model = NamedModel(name=name, column=_plain(name), settings=ModelSettings(model_dir=name))
        ends = np.cumsum([len(text.words) for text in times.texts])[:-1]
        words = [WordValues({"surprisal": own}, {}, np.full(len(own), -1)) for own in np.split(bits, ends)]
        made.append(ModelWords(model, {"kind": "column", "column": name}, tuple(words)))
    return made


def _plain(name: str) -> str:
    """A name in the form for names of columns."""
    column = "_".join("".join(c if c.isascii() and c.isalnum() else " " for c in name).split())
    return column or "model"


def score_words(
    texts: Sequence[TimedText],
    models: Sequence[NamedModel],
    *,
    spaces: bool = False,
    plan: Plan,
    job: JobFolder | None = None,
    progress: Progress = no_progress,
) -> list[ModelWords]:
    """Score the words of texts with several models.

    Sentences are read as in :class:`pdtools.search.options.Context`: each alone, after others, or (with a
    stride) each text as one: by a Hugging Face model, its sentences with a space between them; by others, as
    lines of a document.

    Args:
        texts: the items.
        models: from :func:`named_models`; excluded ones have no result.
        spaces: see :func:`pdtools.evaluation.reading.alignment.align`.
        plan, job: how the chunks are distributed and kept.
        progress: wraps the iterator over the scored parts.
    """
    settings: dict[int, dict[str, Any]] = {}
    scored: dict[int, list[list[tuple[int, SentenceScore | Unscorable]]]] = {}

    def parts(number: int, scorer: Mapping[str, Any]) -> Iterator[tuple[tuple[int, int], Sentence]]:
        for i, text in enumerate(texts):
            yield from (((i, at), sentence) for at, sentence in _parts(text, models[number].settings, scorer))

    for number, (text, at), score in progress(score_parts(models, parts, settings, plan=plan, job=job), None):
        scored.setdefault(number, [[] for _ in texts])[text].append((at, score))
    return [
        ModelWords(
            model,
            settings[number],
            tuple(
                align(text.written, own, spaces=spaces)
                for text, own in zip(texts, scored[number], strict=True)
            ),
            corrects_spaces=spaces and _knows_spaces(scored[number]),
        )
        for number, model in enumerate(models)
        if number in settings
    ]


def _knows_spaces(scores: Iterable[Sequence[tuple[int, SentenceScore | Unscorable]]]) -> bool:
    return any(
        isinstance(score, SentenceScore) and "begins" in score.measures for own in scores for _, score in own
    )


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
        parts_of: gives a model's input, by its number and its scorer's settings: places, sentences.
        settings: filled with the scorers' settings, by the numbers of models.
        plan, job: how the chunks are distributed and kept.
        parses: whether the best incremental parses are added to scores.

    Yields:
        A model's number, the place of a part, and its score (:class:`ParsedScore` with parses).
    """
    models = [replace(model, settings=replace(model.settings, parses=parses)) for model in models]
    asked = tuple(model.settings for model in models)
    work = ModelWork(asked, "score_with_parses" if parses else "score")
    for chunk, scores in map_chunks(work, _chunks(models, parts_of, settings), plan, job):
        for place, score in zip(chunk.places, scores, strict=True):
            yield chunk.model, place, score


def _chunks(
    models: Sequence[NamedModel],
    parts_of: Callable[[int, Mapping[str, Any]], Iterable[tuple[tuple[int, int], Sentence]]],
    settings: dict[int, dict[str, Any]],
) -> Iterator[Chunk]:
    for number, model in enumerate(models):
        scorer = model.settings.load()
        if model.only_if_searched and scorer.settings["beam"] is None:
            continue
        settings[number] = dict(scorer.settings)
        for chunk in cut(parts_of(number, scorer.settings), scorer.look_ahead):
            places, sentences = zip(*chunk, strict=True)
            yield Chunk(sentences, number, places)


def _parts(text: TimedText, model: ModelSettings, scorer: Mapping[str, Any]) -> list[tuple[int, Sentence]]:
    """The parts scored together, as the model reads them, with the place of their first character."""
    written = text.written
    first = np.flatnonzero(np.diff(text.sentences, prepend=-1))
    last = np.append(first[1:], len(text.words)) - 1
    spans = [(written.starts[a], written.ends[b]) for a, b in zip(first, last, strict=True)]
    sentences = [read_sentence(written.text[a:b], "text", scorer["text_style"]) for a, b in spans]
    if model.context.stride is not None:
        return [(0, written if scorer["kind"] == "huggingface" else joined(sentences))]
    if model.context.of == DOCUMENT:
        lines = (SourcedLine(each, each, text.item, i) for i, each in enumerate(sentences, 1))
        sentences = [line.sentence for line in with_documents(lines, scorer["window"])]
    return [(start, sentence) for (start, _), sentence in zip(spans, sentences, strict=True)]
