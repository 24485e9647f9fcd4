"""From surprisals to regressions: known effects are found, exclusions counted, words the same for all."""

from __future__ import annotations

import dataclasses
import itertools
import math
import re
from typing import Any

import numpy as np
import pytest

from pdtools.errors import PdtoolsError
from pdtools.evaluation.reading.evaluate import (
    BEFORE,
    EDGE,
    NO_FREQUENCY,
    NO_TIME,
    Regression,
    evaluate_reading,
)
from pdtools.evaluation.reading.scoring import ModelWords, WordValues
from pdtools.evaluation.reading.times import Columns, ReadingTimes, TimedText
from pdtools.evaluation.results import ITEMS
from pdtools.search.model import ModelSettings
from pdtools.stimuli.surprisals import named_models

N_TEXTS, N_WORDS, SUBJECTS = 12, 60, 4
SMALL = {"samples": 500, "seed": 3}
NOISE_COLUMNS = ["surprisal_noise", "surprisal_noise_before_1", "surprisal_noise_before_2"]


def texts() -> tuple[TimedText, ...]:
    rng = np.random.default_rng(0)
    return tuple(
        TimedText(
            f"text {i}",
            1,
            tuple("x" * n for n in rng.integers(1, 12, N_WORDS)),
            np.arange(N_WORDS) // 15,
        )
        for i in range(N_TEXTS)
    )


def model(
    name: str, values: np.ndarray, reasons: dict[int, str] | None = None, **more: np.ndarray
) -> ModelWords:
    """A model whose surprisals are rows of an array, (texts, words), all counted for reasons."""
    words = tuple(
        WordValues(
            {"surprisal": row.copy(), **{key: each[i] for key, each in more.items()}},
            {k - i * len(row): why for k, why in (reasons or {}).items() if k // len(row) == i},
            np.full(len(row), -1),
        )
        for i, row in enumerate(values)
    )
    for place in reasons or {}:
        words[place // len(values[0])].values["surprisal"][place % len(values[0])] = math.nan
    return ModelWords(name, {"kind": "toy"}, words)


def times_of(every: tuple[TimedText, ...], values: np.ndarray, noise: float = 40.0) -> ReadingTimes:
    """Times of all words by all subjects: (texts, words) and noise of the subjects."""
    rng = np.random.default_rng(1)
    n = values.size
    word = np.tile(np.arange(n), SUBJECTS)
    time = values.reshape(-1)[word] + noise * rng.normal(size=len(word))
    subject = np.repeat(np.arange(SUBJECTS), n)
    return ReadingTimes(every, word, subject, time, tuple(f"s{i}" for i in range(SUBJECTS)), 0, Columns())


def lengths(every: tuple[TimedText, ...]) -> np.ndarray:
    return np.array([[len(word) for word in text.words] for text in every], float)


def test_known_effects_are_found_in_milliseconds_a_bit() -> None:
    every, rng = texts(), np.random.default_rng(2)
    surprisal, other = rng.gamma(2, 3, (2, N_TEXTS, N_WORDS))
    effect = 300 + 5 * lengths(every) + 4 * surprisal
    effect[:, 1:] += 2 * surprisal[:, :-1]
    effect[:, 2:] += 1 * surprisal[:, :-2]
    times = times_of(every, effect)
    models = [model("good", surprisal), model("noise", other)]
    results = evaluate_reading(times, models, frequency=None, regression=Regression(**SMALL))
    good, noise = (results.scores["by_model"][name] for name in ("good", "noise"))
    found = good["coefficients"]["surprisal"]
    for truth, estimate in zip((4, 2, 1), found["by_word_before"], strict=True):
        assert estimate["low"] < truth < estimate["high"]
    assert found["sum"]["low"] < 7 < found["sum"]["high"]
    assert good["delta_ll"] > good["low"] > 0.1
    assert good["p"] == pytest.approx(1 / 501)
    assert good["high"] > good["delta_ll"]
    assert abs(noise["delta_ll"]) < 0.02
    (pair,) = results.scores["pairs"]
    assert (pair["a"], pair["b"]) == ("good", "noise")
    assert pair["difference"] == pytest.approx(noise["delta_ll"] - good["delta_ll"])
    assert pair["high"] < 0
    assert results.settings["folds"] == 10
    formula = results.settings["models"]["good"]["lme4"]
    assert formula.startswith("time ~ length + length_before_1 + length_before_2 + surprisal_good + ")
    assert formula.endswith(" + (1 + surprisal_good || subject) + (1 | item:word_number)")
    names = set(re.findall(r"[a-z]\w+", formula))
    assert names == set(results.table("observations").column_names) - {"word", *NOISE_COLUMNS}


def test_exclusions_are_counted_each_once() -> None:
    every, rng = texts(), np.random.default_rng(5)
    surprisal = rng.gamma(2, 3, (N_TEXTS, N_WORDS))
    times = times_of(every, np.full((N_TEXTS, N_WORDS), 300.0))
    times.time[(times.word == 5)] = 5000  # nobody read it in a plausible time
    times.time[0] = 3
    a, b = (
        model("a", surprisal, {7: "gone", N_WORDS + 7: "gone"}),
        model("b", surprisal[::-1], {8: "crossing"}),
    )
    frequency = {"x" * n: -(n**1.5) for n in range(1, 11)}.get  # 11 letters: unknown
    results = evaluate_reading(times, [a, b], frequency=frequency, regression=Regression(**SMALL))
    items = results.table(ITEMS).to_pandas()
    reasons = items.excluded.fillna("").to_numpy()
    unknown = np.array([len(word) == 11 for word in items.word])
    edge = np.isin(np.tile(np.arange(N_WORDS) % 15, N_TEXTS), [0, 14])
    for word in range(len(reasons)):
        place = word % N_WORDS
        before = range(max(0, place - 2), place)
        missing = any(unknown[word - place + i] for i in before)
        missing |= any(word - place + i in (7, 8, N_WORDS + 7) for i in before)
        expected = (
            NO_TIME
            if word == 5
            else EDGE
            if edge[word]
            else NO_FREQUENCY
            if unknown[word]
            else {7: "a: gone", N_WORDS + 7: "a: gone", 8: "b: crossing"}.get(
                word, BEFORE if missing or place < 2 else ""
            )
        )
        assert reasons[word] == expected, word
    left_out = results.counts["words_left_out"]
    assert sum(left_out.values()) + results.counts["words_regressed"] == len(reasons)
    assert results.counts["observations_left_out"] == {"no time": 0, "below 100 ms": 1, "above 3000 ms": 4}
    with_edges = evaluate_reading(
        times, [a, b], frequency=None, regression=Regression(edges=True, spillover=0, **SMALL)
    )
    assert with_edges.counts["words_left_out"] == {NO_TIME: 1, "a: gone": 2, "b: crossing": 1}


@pytest.mark.parametrize(("least", "most"), [(100.0, 3000.0), (0.0, 300.5), (250.25, 251.0)])
def test_times_at_the_bounds_are_in(least: float, most: float) -> None:
    """Each word of the second half is read in the least time, the most, just less than it, and just more."""
    every, rng = texts(), np.random.default_rng(8)
    surprisal = rng.gamma(2, 3, (N_TEXTS, N_WORDS))
    inside = least + (most - least) * rng.random((N_TEXTS, N_WORDS))
    times = times_of(every, inside, noise=0)
    half = len(times.time) // SUBJECTS // 2
    edges = [least, most, math.nextafter(least, -1), math.nextafter(most, math.inf)]
    for subject, edge in enumerate(edges):
        times.time[(times.word >= half) & (times.subject == subject)] = edge
    regression = Regression(least=least, most=most, spillover=0, **SMALL)
    results = evaluate_reading(times, [model("m", surprisal)], frequency=None, regression=regression)
    items = results.table(ITEMS).to_pandas()
    assert (items.subjects[:half] == SUBJECTS).all()
    assert (items.subjects[half:] == 2).all()
    assert items.time[half:].to_numpy() == pytest.approx((least + most) / 2)
    left_out = results.counts["observations_left_out"]
    assert (left_out[f"below {least:g} ms"], left_out[f"above {most:g} ms"]) == (half, half)
    observations = results.table("observations").to_pandas()
    assert observations.time.between(least, most).all()
    assert {least, most} <= set(observations.time)


def test_tests_are_over_items_and_over_words() -> None:
    """Of few items all changes of signs are enumerated; words are far more, and say more."""
    every, rng = texts()[:6], np.random.default_rng(9)
    good, better = rng.gamma(2, 3, (2, 6, N_WORDS))
    slopes = np.arange(6)[:, None]  # so that the words of an item gain alike
    times = times_of(every, 300 + 8 * good + 2 * slopes * better)
    models = [model("a", good), model("b", better)]
    results = evaluate_reading(times, models, frequency=None, regression=Regression(**SMALL))
    kept = results.table(ITEMS).to_pandas().dropna(subset=["fold"])
    (pair,) = results.scores["pairs"]
    of_models = results.scores["by_model"]
    for found, difference in (
        (of_models["a"], kept.logprob_a - kept.logprob_baseline),
        (of_models["b"], kept.logprob_b - kept.logprob_baseline),
        (pair, kept.logprob_b - kept.logprob_a),
    ):
        sums = difference.groupby(kept.item).sum().to_numpy()
        signs = np.array(list(itertools.product([1, -1], repeat=6)))
        assert found["p"] == np.mean(np.abs(signs @ sums) >= abs(sums.sum()) - 1e-9)
        assert found["p_observations"] < found["p"]
        counts = difference.groupby(kept.item).count().to_numpy()
        chosen = np.random.default_rng(0).integers(6, size=(20_000, 6))
        means = sums[chosen].sum(1) / counts[chosen].sum(1)
        low, high = np.quantile(means, [0.025, 0.975])
        spread = high - low
        assert (found["low"], found["high"]) == pytest.approx((low, high), abs=0.15 * spread)


def test_items_may_be_single_sentences_and_fewer_than_folds() -> None:
    """As in SAP: each item begins and ends a sentence, and of four items there are four folds."""
    every = tuple(dataclasses.replace(text, sentences=np.zeros(N_WORDS, np.int64)) for text in texts()[:4])
    surprisal = np.random.default_rng(11).gamma(2, 3, (4, N_WORDS))
    times = times_of(every, 300 + surprisal)
    regression = Regression(spillover=0, **SMALL)
    results = evaluate_reading(times, [model("m", surprisal)], frequency=None, regression=regression)
    items = results.table(ITEMS).to_pandas()
    assert items.word_number[items.excluded == EDGE].tolist() == [1, N_WORDS] * 4
    assert results.counts["words_left_out"] == {EDGE: 8}
    assert results.settings["folds"] == 4
    assert set(items.fold.dropna()) == {0, 1, 2, 3}


def test_predictors_that_a_model_lacks_are_excluded_and_said() -> None:
    every, rng = texts(), np.random.default_rng(6)
    surprisal, closed = rng.gamma(2, 3, (2, N_TEXTS, N_WORDS))
    times = times_of(every, 300 + 4 * surprisal)
    both = Regression(predictors=("surprisal", "closed"), **SMALL)
    models = [model("strings", surprisal), model("trees", surprisal, closed=closed)]
    results = evaluate_reading(times, models, frequency=None, regression=both)
    assert results.settings["models"]["strings"]["predictors"] == ["surprisal"]
    assert set(results.scores["by_model"]["trees"]["coefficients"]) == {"surprisal", "closed"}
    with pytest.raises(PdtoolsError, match="strings: the model has no closed"):
        evaluate_reading(
            times, models, frequency=None, regression=Regression(predictors=("closed",), **SMALL)
        )


def test_a_spill_over_from_before_the_first_word() -> None:
    """From further back than there are words, too."""
    every, values = (TimedText("a", 1, tuple("abcdefgh"), np.zeros(8, np.int64)),), np.arange(8.0)[None]
    times = times_of(every, 300 + values)
    times.time[0] = 5000
    for spillover in (8, 9, 12):
        far = Regression(spillover=spillover, edges=True, **SMALL)
        said = f"no word is left to regress: {BEFORE}: 8; times above 3000 ms: 1$"
        with pytest.raises(PdtoolsError, match=said):
            evaluate_reading(times, [model("m", values)], frequency=None, regression=far)


@pytest.mark.parametrize(
    "wrong",
    [
        *({"predictors": ()}, {"predictors": ("surprisal", "length")}, {"spillover": -1}, {"folds": 1}),
        *({"least": -1.0}, {"least": 300.0, "most": 300.0}, {"least": 400.0, "most": 300.0}),
    ],
)
def test_regressions_that_make_no_sense(wrong: dict[str, Any]) -> None:
    with pytest.raises(PdtoolsError, match="predictors are some of|spillover must be at least 0"):
        Regression(**wrong)
    Regression(spillover=0, folds=2, least=0.0, most=1.0)


def test_names_of_models() -> None:
    folders = ["runs/base", "other/base", "runs/gpt-2/checkpoint", "runs/x/best", "y/last", "---"]
    found = named_models([ModelSettings(model_dir=folder) for folder in folders], [])
    assert [each.name for each in found] == ["base (1)", "base (2)", "gpt-2", "x", "y", "---"]
    columns = [ModelWords(each.name, {}, ()).column for each in found]
    assert columns == ["base_1", "base_2", "gpt_2", "x", "y", "model"]
    beams = named_models([ModelSettings(model_dir="a")], [1, 30])
    assert [(each.name, each.settings.search.beam, each.only_if_searched) for each in beams] == [
        ("a, beam 1", 1, False),
        ("a, beam 30", 30, True),
    ]
