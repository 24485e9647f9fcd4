"""Models' scores for the words of reading-time texts, aligned with them by their characters."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pdtools.errors import PdtoolsError
from pdtools.evaluation.reading.times import NO_TIME, ReadingTimes, TimedText
from pdtools.evaluation.results import Progress, no_progress
from pdtools.jobs import JobFolder, Plan
from pdtools.provenance.origin import identify
from pdtools.search.contexts import joined, with_documents
from pdtools.search.inputs import SourcedLine, read_sentence
from pdtools.search.model import ModelSettings
from pdtools.search.options import DOCUMENT
from pdtools.search.scores import Measure, SentenceScore, Unscorable
from pdtools.search.spans import SpanTokens, read_spans
from pdtools.stimuli.surprisals import NamedModel, score_parts
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
    is_space = np.fromiter(map(str.isspace, written.text), bool, len(written.text))
    gaps = np.flatnonzero((covered.cumsum()[:-1] == 0) & ~is_space)
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


def measures_of(predictors: Sequence[str], spaces: bool) -> tuple[Measure, ...]:
    """The measures that models have to add for predictors, and for the correction of spaces."""
    wanted: dict[Measure, bool] = {
        "entropy": "entropy" in predictors,
        "spaces": spaces,
        "structure": not {"attachment", "closed"}.isdisjoint(predictors),
    }
    return tuple(measure for measure, is_wanted in wanted.items() if is_wanted)


@dataclass(frozen=True)
class ModelWords:
    """A model's values for all words.

    Attributes:
        name: the model's name.
        settings: the model's settings.
        words: the words of each text.
        corrects_spaces: whether its surprisals are corrected for the spaces before words, which action
            models, and sums over proposal trees, cannot.
    """

    name: str
    settings: dict[str, Any]
    words: tuple[WordValues, ...]
    corrects_spaces: bool = False

    @property
    def column(self) -> str:
        """The name in the form for names of columns."""
        column = "_".join("".join(c if c.isascii() and c.isalnum() else " " for c in self.name).split())
        return column or "model"


def external_words(times: ReadingTimes) -> list[ModelWords]:
    """Surprisals of words from columns of the table: each (:attr:`Columns.surprisal`) is a model, in bits.

    Words that nobody has a time for have theirs too: they are predictors of the words after them.

    Raises:
        PdtoolsError: if a cell is not a number, or a word has two.
    """
    names = (times.columns.surprisal or "").split(",") if times.columns.surprisal else []
    made = []
    for name in names:
        bits = np.full(len(times.text_of_word), np.nan)
        cells = [*times.label(name), *times.label(name, untimed=True)]
        for word, cell in zip([*times.word.tolist(), *times.untimed_word.tolist()], cells, strict=True):
            if cell in NO_TIME:
                continue
            try:
                value = float(cell)
            except ValueError as error:
                raise PdtoolsError(f"{name} is {cell!r}, not a number of bits") from error
            if not np.isnan(bits[word]) and bits[word] != value:
                raise PdtoolsError(f"{name} is {cell} and {bits[word]:g} of the same word")
            bits[word] = value
        ends = np.cumsum([len(text.words) for text in times.texts])[:-1]
        words = [WordValues({"surprisal": own}, {}, np.full(len(own), -1)) for own in np.split(bits, ends)]
        made.append(ModelWords(name, {"kind": "column", "column": name}, tuple(words)))
    return made


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
        spaces: see :func:`pdtools.evaluation.reading.scoring.align`.
        plan, job: how the chunks are distributed and kept.
        progress: wraps the iterator over the scored parts.
    """
    settings: dict[int, dict[str, Any]] = {}
    scored: dict[int, list[list[tuple[int, SentenceScore | Unscorable]]]] = {}

    def parts(number: int, about: Mapping[str, Any]) -> Iterator[tuple[tuple[int, int], Sentence]]:
        for i, text in enumerate(texts):
            yield from (((i, at), sentence) for at, sentence in _parts(text, models[number].settings, about))

    for number, (text, at), score in progress(score_parts(models, parts, settings, plan=plan, job=job), None):
        scored.setdefault(number, [[] for _ in texts])[text].append((at, score))
    return [
        ModelWords(
            model.name,
            {**settings[number], **_weights(model.settings)},
            tuple(
                align(text.written, own, spaces=spaces)
                for text, own in zip(texts, scored[number], strict=True)
            ),
            corrects_spaces=spaces
            and any(
                isinstance(score, SentenceScore) and "begins" in score.measures
                for own in scored[number]
                for _, score in own
            ),
        )
        for number, model in enumerate(models)
        if number in settings
    ]


def _weights(model: ModelSettings) -> dict[str, Any]:
    """The SHA-256 of a model's weights, if it has files."""
    return {key: value for key, value in identify(model.model_dir).items() if key == "sha256"}


def _parts(text: TimedText, model: ModelSettings, about: Mapping[str, Any]) -> list[tuple[int, Sentence]]:
    """The parts scored together, as the model reads them, with the place of their first character."""
    written = text.written
    first = np.flatnonzero(np.diff(text.sentences, prepend=-1))
    last = np.append(first[1:], len(text.words)) - 1
    spans = [(written.starts[a], written.ends[b]) for a, b in zip(first, last, strict=True)]
    sentences = [read_sentence(written.text[a:b], "text", about["text_style"]) for a, b in spans]
    if model.context.stride is not None:
        return [(0, written if about["kind"] == "huggingface" else joined(sentences))]
    if model.context.of == DOCUMENT:
        lines = (SourcedLine(each, each, text.item, i) for i, each in enumerate(sentences, 1))
        sentences = [line.sentence for line in with_documents(lines, about["window"])]
    return [(start, sentence) for (start, _), sentence in zip(spans, sentences, strict=True)]
