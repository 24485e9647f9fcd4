"""Evaluation of how well models' surprisals predict reading times, beyond word length and frequency."""

from __future__ import annotations

import itertools
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from functools import partial
from typing import TYPE_CHECKING, Any, Literal, get_args

import numpy as np
from numpy.typing import NDArray

from pdtools.errors import PdtoolsError
from pdtools.evaluation.bootstrap import CONFIDENCE
from pdtools.evaluation.reading.effects import (
    EFFECTS,
    ConditionPair,
    Design,
    chosen,
    effects_table,
    predicted_effects,
)
from pdtools.evaluation.reading.regression import (
    Coefficient,
    Float,
    bootstrap_mean,
    fit,
    folds_of,
    for_new,
    held_out,
    permutation_p,
    sums_of,
)
from pdtools.evaluation.reading.scoring import ModelWords
from pdtools.evaluation.reading.times import ReadingTimes
from pdtools.evaluation.results import ITEMS, Results
from pdtools.stimuli.columns import values_before
from pdtools.stimuli.frequency import Frequency, frequencies_of

if TYPE_CHECKING:
    import pyarrow as pa

Predictor = Literal["surprisal", "entropy", "attachment", "closed"]
PREDICTORS: tuple[Predictor, ...] = get_args(Predictor)
DEFAULT_SAMPLES = 10_000
# Reasons why words are excluded from the regressions.
NO_TIME = "no reading time"
EDGE = "first or last word of its sentence"
NO_FREQUENCY = "no frequency"
BEFORE = "the words before it have no values"


@dataclass(frozen=True, kw_only=True)
class Regression:
    """Options of the regressions.

    Attributes:
        predictors: the models', each for the word and the words before it.
        spillover: number of words before a word that predict its time too.
        edges: whether first and last words of sentences are included.
        least, most: milliseconds; times below and above are excluded.
        folds: number of parts, of whole items, that are held out in turn.
        seed: for folds, bootstrap and permutations.
        samples: for bootstrap and permutations.
        fit: the observations regressed (:func:`pdtools.evaluation.reading.effects.chosen`); None: all.
        predict: effects that are then predicted.
    """

    predictors: tuple[Predictor, ...] = ("surprisal",)
    spillover: int = 2
    edges: bool = False
    least: float = 100.0
    most: float = 3000.0
    folds: int = 10
    seed: int = 0
    samples: int = DEFAULT_SAMPLES
    fit: str | None = None
    predict: tuple[ConditionPair, ...] = ()

    def __post_init__(self) -> None:
        if not self.predictors or set(self.predictors) - set(PREDICTORS):
            raise PdtoolsError(f"predictors are some of {', '.join(PREDICTORS)}")
        if self.spillover < 0 or self.folds < 2 or not 0 <= self.least < self.most:
            raise PdtoolsError(
                "spillover must be at least 0, folds at least 2, and the shortest time below the longest"
            )


@dataclass(frozen=True)
class _Table:
    """A table with a row for each word: W words in all texts.

    Attributes:
        columns: by name, float64 (W,); NaN where missing.
        lagged: by name, a word's own value and the values of the words before it in its text, (W, 1 +
            spill-over).
        excluded: the reason why each is not in the regressions; empty if it is.
    """

    columns: dict[str, Float]
    lagged: dict[str, Float]
    excluded: NDArray[np.object_]

    @property
    def kept(self) -> NDArray[np.int64]:
        """Indices of the included words."""
        return np.flatnonzero(self.excluded == "")


def evaluate_reading(
    times: ReadingTimes, models: Sequence[ModelWords], *, frequency: Frequency | None, regression: Regression
) -> Results:
    """Regress reading times on properties of the words, and on models' predictors.

    The times are means over subjects, without implausible ones. The baseline has a word's length
    (characters) and log2 frequency; each model's regression adds its predictors; all use the previous words'
    values too. All regressions use the same words, for which every model has values.

    Args:
        times: a corpus of reading times.
        models: from :func:`pdtools.evaluation.reading.scoring.score_words`.
        frequency: frequencies of words; None: the baseline has no frequency.
        regression: its options, and the tests'.

    Returns:
        ``scores``: ``baseline_logprob`` (nats per observation, held out), ``by_model`` (``delta_ll``: nats
        per observation above it; its interval, from items drawn with replacement; ``p``, of swapping
        regressions within whole items, and ``p_observations``; coefficients) and ``pairs`` of models. Tables:
        ``items`` (a row per word), ``observations`` (a row per subject and word, for mixed-effects models),
        and with predicted effects ``effects`` (:func:`pdtools.evaluation.reading.effects.effects_table`).

    Raises:
        PdtoolsError: if too few words are left, or a predictor does not vary.
    """
    counts: dict[str, Any] = {"observations": len(times.time) + times.without_time}
    plausible = (times.time >= regression.least) & (times.time <= regression.most)
    counts["observations_left_out"] = {
        "no time": times.without_time,
        f"below {regression.least:g} ms": int((times.time < regression.least).sum()),
        f"above {regression.most:g} ms": int((times.time > regression.most).sum()),
    }
    fitted = np.ones(len(plausible), bool)
    if regression.fit is not None:
        fitted = chosen(times, regression.fit)
        counts["observations_left_out"]["not to be fitted"] = int((plausible & ~fitted).sum())
    table, used = _words(times, plausible & fitted, models, frequency, regression)
    rng = np.random.default_rng(regression.seed)
    kept = table.kept
    item = times.group_of_word[kept]
    response = table.columns["time"][kept]
    counts |= {
        "items": len(times.texts),
        "groups": len({text.group or text.item for text in times.texts}),
        "subjects": None if times.columns.subject is None else len(times.subjects),
        "words": len(table.excluded),
        "words_regressed": len(kept),
        "observations_regressed": int(table.columns["subjects"][kept].sum()),
        "words_left_out": dict(Counter(table.excluded[table.excluded != ""].tolist())),
        "sentences": sum(int(text.sentences[-1]) + 1 for text in times.texts),
    }
    if not len(kept):
        reasons = [f"{reason}: {n}" for reason, n in counts["words_left_out"].items()]
        reasons += [f"times {reason}: {n}" for reason, n in counts["observations_left_out"].items() if n]
        raise PdtoolsError(f"no word is left to regress: {'; '.join(reasons)}")
    folds = folds_of(item, regression.folds, rng)
    base_names = ["length"] + ["log_frequency"] * (frequency is not None)
    observed = None
    if times.columns.subject is not None:
        taken = np.flatnonzero(plausible & fitted & (table.excluded[times.word] == ""))
        observed = np.searchsorted(kept, times.word[taken]), times.subject[taken], times.time[taken]
    base, names = _design(table, base_names, kept)
    baseline = held_out(base, response, folds, names)
    logprobs: dict[str, Float] = {}
    designs: list[Design] = []
    scores: dict[str, Any] = {"baseline_logprob": float(baseline.mean()), "by_model": {}, "pairs": []}
    for model in models:
        own = [f"{name}_{model.column}" for name in used[model.name]]
        target, target_names = _design(table, [*base_names, *own], kept)
        found = held_out(target, response, folds, target_names)
        logprobs[model.name] = found
        conversion = fit(target, response, target_names)
        if regression.predict:
            every, _ = _design(table, [*base_names, *own], np.arange(len(table.excluded)))
            bits = f"surprisal_{model.column}"
            place = target_names.index(bits) if bits in target_names else None
            designs.append(Design(model.name, every, place))
        scores["by_model"][model.name] = {
            "delta_ll": float((found - baseline).mean()),
            **_tested(found - baseline, item, rng, regression.samples),
            "coefficients": {
                predictor: _coefficients(
                    conversion.combined,
                    partial(for_new, conversion, target, response, item, observed),
                    target_names,
                    column,
                    regression.spillover,
                )
                for predictor, column in zip(used[model.name], own, strict=True)
            },
        }
    for a, b in itertools.combinations(logprobs, 2):
        difference = logprobs[b] - logprobs[a]
        scores["pairs"].append(
            {
                "a": a,
                "b": b,
                "difference": float(difference.mean()),
                **_tested(difference, item, rng, regression.samples),
            }
        )
    if regression.predict:
        scores["effects"] = predicted_effects(
            times,
            plausible,
            fitted,
            kept,
            designs,
            regression.predict,
            seed=regression.seed,
            samples=regression.samples,
        )
    by_column = {model.column: logprobs[model.name] for model in models}
    tables = {
        ITEMS: _items(times, table, kept, folds, {"baseline": baseline, **by_column}),
        "observations": _observations(times, table, plausible & fitted),
    }
    if "effects" in scores:
        tables[EFFECTS] = effects_table(scores["effects"])
    return Results(
        scores=scores,
        counts=counts,
        settings=_settings(times, models, used, frequency, regression, base_names, int(folds.max()) + 1),
        tables=tables,
    )


def _words(
    times: ReadingTimes,
    plausible: NDArray[np.bool_],
    models: Sequence[ModelWords],
    frequency: Frequency | None,
    regression: Regression,
) -> tuple[_Table, dict[str, tuple[Predictor, ...]]]:
    """All words with their predictors, and the predictors that each model has."""
    words = [word for text in times.texts for word in text.words]
    text = times.text_of_word
    subjects = np.bincount(times.word[plausible], minlength=len(words)).astype(np.float64)
    total = np.bincount(times.word[plausible], times.time[plausible], minlength=len(words))
    columns: dict[str, Float] = {
        "time": np.divide(total, subjects, out=np.full(len(words), np.nan), where=subjects > 0),
        "subjects": subjects,
        "length": np.array([float(len(word)) for word in words]),
    }
    predicting = ["length"]
    if frequency is not None:
        columns["log_frequency"] = np.array(frequencies_of(words, frequency))
        predicting.append("log_frequency")
    excluded = np.full(len(words), "", dtype=object)

    def exclude(which: Any, reason: str) -> None:
        excluded[which & (excluded == "")] = reason

    exclude(subjects == 0, NO_TIME)
    if not regression.edges:
        sentence = np.concatenate([each.sentences for each in times.texts])
        turns = (np.diff(sentence, prepend=-1) != 0) | (np.diff(text, prepend=-1) != 0)
        exclude(turns | np.append(turns[1:], True), EDGE)
    if frequency is not None:
        exclude(np.isnan(columns["log_frequency"]), NO_FREQUENCY)
    used: dict[str, tuple[Predictor, ...]] = {}
    for model in models:
        there = set().union(*(set(each.values) for each in model.words))
        used[model.name] = tuple(name for name in regression.predictors if name in there)
        if not used[model.name] and there:
            asked = ", ".join(regression.predictors)
            raise PdtoolsError(f"{model.name}: the model has no {asked} of words")
        offset = 0
        for each in model.words:
            for place, reason in each.reasons.items():
                if excluded[offset + place] == "":
                    excluded[offset + place] = f"{model.name}: {reason}"
            offset += len(each.seen)
        for name in used[model.name]:
            column = f"{name}_{model.column}"
            values = np.concatenate(
                [each.values.get(name, np.full(len(each.seen), np.nan)) for each in model.words]
            )
            exclude(np.isinf(values), f"{model.name}: infinite {name}")
            columns[column] = np.where(np.isinf(values), np.nan, values)
            predicting.append(column)
    lags = range(1 + regression.spillover)
    lagged = {
        name: np.column_stack([values_before(columns[name], text, lag) for lag in lags])
        for name in predicting
    }
    for values in lagged.values():
        exclude(np.isnan(values).any(1), BEFORE)
    return _Table(columns, lagged, excluded), used


def _design(table: _Table, names: Sequence[str], kept: NDArray[np.int64]) -> tuple[Float, list[str]]:
    """The predictors as a matrix with a column of ones, and the names of its columns."""
    values = [table.lagged[name][kept] for name in names]
    titles = [
        _column(name, lag) for name, each in zip(names, values, strict=True) for lag in range(each.shape[1])
    ]
    return np.column_stack([np.ones(len(kept)), *values]), ["intercept", *titles]


def _column(name: str, lag: int) -> str:
    return f"{name}_before_{lag}" if lag else name


def _tested(
    differences: Float, item: NDArray[np.int64], rng: np.random.Generator, samples: int
) -> dict[str, float]:
    low, high = bootstrap_mean(differences, item, rng, samples)
    return {
        "low": low,
        "high": high,
        "p": permutation_p(sums_of(differences, item)[0], rng, samples),
        "p_observations": permutation_p(differences, rng, samples),
    }


def _coefficients(
    combined: Callable[[Float], Coefficient],
    for_new: Callable[[Float], Coefficient],
    names: Sequence[str],
    column: str,
    spillover: int,
) -> dict[str, Any]:
    """Coefficients of the word and the words before it, in milliseconds per unit, and their sum.

    The sum has a second estimate, ``for_new`` items and subjects, for times that are predicted from it.
    """
    own = [names.index(_column(column, lag)) for lag in range(1 + spillover)]
    ones = np.eye(len(names))
    return {
        "sum": {
            **_as_json(combined(ones[own].sum(0))),
            "for_new": _as_json(for_new(ones[own].sum(0))),
        },
        "by_word_before": [_as_json(combined(ones[place])) for place in own],
    }


def _as_json(estimate: Coefficient) -> dict[str, float]:
    low, high = estimate.interval()
    return {
        "value": float(estimate.value),
        "error": float(estimate.error),
        "low": float(low),
        "high": float(high),
        "p": estimate.p,
    }


def _settings(
    times: ReadingTimes,
    models: Sequence[ModelWords],
    used: Mapping[str, tuple[Predictor, ...]],
    frequency: Frequency | None,
    regression: Regression,
    base_names: Sequence[str],
    folds: int,
) -> dict[str, Any]:
    return {
        "task": "reading",
        "text_sha256": times.sha256,
        **asdict(regression),
        "folds": folds,
        "columns": asdict(times.columns),
        "sentence_ends": "punctuation" if times.columns.sentence is None else times.columns.sentence,
        "baseline": list(base_names),
        "models": {
            model.name: {
                **model.settings,
                "column": model.column,
                "predictors": list(used[model.name]),
                "spaces_corrected": model.corrects_spaces,
                "lme4": _lme4(times, base_names, used[model.name], model.column, regression),
            }
            for model in models
        },
        "log_base": "nats an observation; surprisal, entropy, attachment and frequency: bits",
        "confidence": CONFIDENCE,
    }


def _lme4(
    times: ReadingTimes, base: Sequence[str], predictors: Sequence[str], column: str, regression: Regression
) -> str:
    """The mixed-effects model of a model's regression in lme4's notation, for the table ``observations``."""
    own = [f"{name}_{column}" for name in predictors]
    fixed = [_column(name, lag) for name in (*base, *own) for lag in range(1 + regression.spillover)]
    groups = f"(1 + {' + '.join(own)} || subject) + (1 | item:word_number)"
    if times.columns.subject is None:  # words have one time each
        groups = "(1 | item)"
    if times.columns.group is not None:
        groups += " + (1 | item_group)"
    return f"time ~ {' + '.join(fixed)} + {groups}"


def _places(times: ReadingTimes) -> dict[str, list[Any]]:
    return {
        "item": [text.item for text in times.texts for _ in text.words],
        "word_number": [text.first + i for text in times.texts for i in range(len(text.words))],
        "word": [word for text in times.texts for word in text.words],
    }


def _items(
    times: ReadingTimes,
    table: _Table,
    kept: NDArray[np.int64],
    folds: NDArray[np.int64],
    logprobs: Mapping[str, Float],
) -> pa.Table:
    """A row per word.

    Columns:
        item, word_number, word: identify the word.
        sentence: its sentence, from 1.
        time, subjects: mean in milliseconds over subjects with plausible times, and their number.
        length: characters.
        log_frequency: log2 of the share of all words.
        surprisal_M, entropy_M, attachment_M: model M's values for the word, in bits.
        closed_M: constituents that the word closes.
        excluded: the reason why the word is not in the regressions; null if it is.
        fold: the fold in which it is held out.
        logprob_baseline, logprob_M: log density of its mean time then, nats.
    """
    import pyarrow as pa

    def spread(values: NDArray[Any]) -> pa.Array:
        found = np.zeros(len(table.excluded), values.dtype)
        found[kept] = values
        return pa.array(found, mask=table.excluded != "")

    columns: dict[str, Any] = dict(_places(times))
    columns["sentence"] = np.concatenate([text.sentences for text in times.texts]) + 1
    columns |= {name: pa.array(values, from_pandas=True) for name, values in table.columns.items()}
    unknown = np.full(len(table.excluded), times.columns.subject is None)
    columns["subjects"] = pa.array(table.columns["subjects"].astype(np.int64), mask=unknown)
    columns["excluded"] = [reason or None for reason in table.excluded]
    columns["fold"] = spread(folds)
    columns |= {f"logprob_{name}": spread(values) for name, values in logprobs.items()}
    return pa.table(columns)


def _observations(times: ReadingTimes, table: _Table, plausible: NDArray[np.bool_]) -> pa.Table:
    """A row per subject and word in the regressions, with all predictors.

    Columns:
        item, word_number, word, subject, time: as in the input, like all its other columns.
        item_group: with ``--column item=A+B`` or ``group=``: the group that versions of an item share.
        length, log_frequency, surprisal_M: the predictors; of words before it ``…_before_1`` and so on.
    """
    import pyarrow as pa

    taken = np.flatnonzero(plausible & (table.excluded[times.word] == ""))
    word = times.word[taken]
    columns: dict[str, Any] = {
        name: pa.array(values).take(pa.array(word)) for name, values in _places(times).items()
    }
    if times.columns.subject is not None:
        columns["subject"] = pa.array(times.subjects).take(pa.array(times.subject[taken]))
    if times.columns.group is not None:
        groups = pa.array([text.group for text in times.texts])
        columns["item_group"] = groups.take(pa.array(times.text_of_word[word]))
    columns["time"] = times.time[taken]
    for name, values in table.lagged.items():
        columns |= {_column(name, lag): values[word, lag] for lag in range(values.shape[1])}
    columns |= {name: cells[taken] for name, cells in times.labels.items() if name not in columns}
    return pa.table(columns)
