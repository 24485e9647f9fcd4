"""Scores against the specification's figures, pandas' correlations, and counting."""

from __future__ import annotations

import itertools

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pdtools.prompts.tasks import (
    WRONG,
    PromptTask,
    Score,
    accuracy,
    f1,
    main_score,
    pearson,
    read_task,
    scores_of,
    spearman,
)


def test_the_figures_of_the_specification() -> None:
    gold, predicted = np.array([1, 0, 0, 1]), np.array([1, 1, 0, 1])
    assert accuracy(gold, predicted) == 0.75
    assert f1(gold, predicted) == pytest.approx(0.8)
    gold, predicted = np.array([1.0, 3, 2, 5]), np.array([1.0, 2, 3, 4])
    assert spearman(gold, predicted) == pytest.approx(0.8)
    assert pearson(gold, predicted) == pytest.approx(0.8315, rel=2e-6, abs=5e-5)


@given(st.lists(st.tuples(st.integers(0, 4), st.integers(-8, 8)), min_size=2, max_size=30))
def test_correlations_are_those_of_pandas(pairs: list[tuple[int, int]]) -> None:
    gold, predicted = (np.array(values, dtype=float) / 3 for values in zip(*pairs, strict=True))
    for ours, name in ((pearson, "pearson"), (spearman, "spearman")):
        if gold.std() == 0 or predicted.std() == 0:
            assert ours(gold, predicted) is None
        else:
            # pandas' own Spearman asks scipy: ranks are its, too.
            a, b = pd.Series(gold), pd.Series(predicted)
            wanted = a.rank().corr(b.rank()) if name == "spearman" else a.corr(b)
            assert ours(gold, predicted) == pytest.approx(wanted, abs=1e-9)


@pytest.mark.parametrize("score", [pearson, spearman])
@pytest.mark.parametrize("n", [1, 2, 3, 7, 10, 100])
@pytest.mark.parametrize("constant", [0.0, 0.1, 0.3, 5.1, -2.7, 1 / 3, 1e-200, 1e200, 1e-320])
def test_what_does_not_vary_has_no_correlation(score: Score, n: int, constant: float) -> None:
    same, vary = np.full(n, constant), np.arange(n) / 7
    assert score(same, vary) is None
    assert score(vary, same) is None
    assert score(same, same) is None


@pytest.mark.parametrize("scale", [1e-300, 1e-160, 1e-8, 1, 1e160, 1e300])
@pytest.mark.parametrize("offset", [0, 3])
def test_correlations_of_numbers_of_any_size(scale: float, offset: float) -> None:
    a, b = np.array([1.0, 3, 2, 5]), np.array([1.0, 2, 3, 4]) + offset
    assert pearson(a * scale, b) == pytest.approx(pearson(a, b), rel=1e-12)
    assert pearson(b, a * scale) == pytest.approx(pearson(a, b), rel=1e-12)
    assert pearson(a, -a * scale) == pytest.approx(-1, rel=1e-12)
    assert pearson(a, a) == 1  # not above it


def test_one_number_that_is_other_by_a_hair_varies() -> None:
    almost = np.array([0.1, 0.1, np.nextafter(0.1, 1)])
    assert pearson(almost, np.array([0.0, 0, 1])) == pytest.approx(1)


def test_f1_of_all_small_cases() -> None:
    for n in (1, 2, 3):
        for labels in itertools.product((0, 1), (WRONG, 0, 1), repeat=n):
            gold, predicted = np.array(labels[::2]), np.array(labels[1::2])
            pairs = list(zip(gold, predicted, strict=True))
            found, wanted = sum(p == 1 for p in predicted), sum(g == 1 for g in gold)
            right = sum(p == g == 1 for g, p in pairs)
            if found + wanted == 0:
                assert f1(gold, predicted) is None
            elif right:
                precision, recall = right / found, right / wanted
                assert f1(gold, predicted) == pytest.approx(2 * precision * recall / (precision + recall))
            else:
                assert f1(gold, predicted) == 0


def test_each_task_has_its_scores() -> None:
    names = {name: list(scores_of(read_task(name))) for name in ("rte", "mrpc", "sst5", "stsb")}
    assert names == {
        "rte": ["accuracy"],
        "mrpc": ["f1", "accuracy"],
        "sst5": ["accuracy"],
        "stsb": ["spearman", "pearson"],
    }
    assert main_score(read_task("stsb"), np.ones(3), np.arange(3)) == 0  # gold does not vary


@pytest.mark.parametrize("positive", ["no", "maybe", "yes", "unsure"])
def test_f1_is_that_of_the_label_that_the_task_names(positive: str) -> None:
    answers = {"no": "No", "maybe": "Perhaps", "yes": "Yes", "unsure": "Hm"}
    parts, answer = ("A: {a}.",), "B: {label}"
    task = PromptTask(name="x", parts=parts, answer=answer, answers=answers, metric="f1", positive=positive)
    at = task.labels.index(positive)
    others = [i for i in range(4) if i != at]
    gold = np.array([at, at, at, *others, others[0]])
    predicted = np.array([at, WRONG, others[1], at, others[1], others[2], others[0]])
    assert scores_of(task)["f1"](gold, predicted) == pytest.approx(2 * 1 / (3 + 2))
    assert main_score(task, gold, predicted) == pytest.approx(2 / 5)
    assert scores_of(task)["accuracy"](gold, predicted) == pytest.approx(4 / 7)
    every = {label: f1(gold, predicted, i) for i, label in enumerate(task.labels)}
    assert len({value for label, value in every.items() if label != positive} - {every[positive]}) > 0
