"""Intervals over items: those of a binomial and of the central limit theorem, and where there are none."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest

from pdtools.evaluation.bootstrap import Sums, bootstrap, drawn_scores, interval, of_sums
from pdtools.evaluation.classification.evaluate import intervals
from pdtools.evaluation.classification.record import item_score


def test_intervals_are_those_of_the_mean() -> None:
    """An accuracy's bootstrap is a binomial over n, whose quantiles are known."""
    gold, predicted = np.zeros(100, dtype=int), np.repeat([0, 1], 50)
    found = intervals({"accuracy": item_score("accuracy", None)}, gold, predicted, seed=1, samples=4000)
    assert found["accuracy"] == pytest.approx([0.40, 0.60], abs=0.011)
    nothing = intervals({"f1": item_score("f1", 1)}, gold, gold, seed=1, samples=10)
    assert nothing == {"f1": None}


@pytest.mark.parametrize(("items", "has_interval"), [(1, False), (9, False), (10, True)])
def test_fewer_than_ten_items_give_no_interval(items: int, has_interval: bool) -> None:
    gold, predicted = np.zeros(items, dtype=int), np.arange(items) % 2
    found = intervals({"accuracy": item_score("accuracy", None)}, gold, predicted, seed=1, samples=100)
    assert (found["accuracy"] is not None) == has_interval


@pytest.mark.parametrize(("other", "has_interval"), [(1, False), (0, True)])
def test_a_score_that_less_than_half_of_the_samples_have_has_no_interval(
    other: int, has_interval: bool
) -> None:
    """Numbers vary in samples that have the one item which differs: both do in 0.41 of them, each in 0.65."""
    gold, predicted = np.zeros(10), np.zeros(10)
    gold[0] = predicted[other] = 1
    for name in ("pearson", "spearman"):
        found = intervals({name: item_score(name, None)}, gold, predicted, seed=1, samples=400)
        assert (found[name] is not None) == has_interval


def test_what_is_drawn_are_pairs_of_gold_and_predicted() -> None:
    gold = np.arange(10.0)
    scores = {name: item_score(name, None) for name in ("pearson", "spearman")}
    found = intervals(scores, gold, 2 * gold + 4, seed=3, samples=50)
    assert found == {name: pytest.approx([1, 1]) for name in scores}


def test_intervals_of_a_mean_are_those_of_the_central_limit_theorem() -> None:
    values = np.random.default_rng(2).normal(size=200)
    mean = of_sums(lambda sums: sums[..., 0] / 200)
    found = interval(bootstrap(values[:, None], mean, np.random.default_rng(1), 6000))
    error = 1.96 * values.std() / np.sqrt(200)
    assert found == pytest.approx((values.mean() - error, values.mean() + error), abs=0.007)


def test_samples_in_which_a_run_has_no_score_are_excluded() -> None:
    """The second run's score is the mean of the items that it has: of one in three."""
    numbers = np.array([[[1.0, 1], [0, 0]], [[0, 1], [0, 0]], [[1, 1], [1, 1]]])
    ratio = of_sums(lambda sums: sums[..., 0] / np.where(sums[..., 1] > 0, sums[..., 1], np.nan))
    found = np.concatenate(list(drawn_scores(numbers, ratio, np.random.default_rng(1), 3000)))
    assert np.isfinite(found).all()
    assert len(found) / 3000 == pytest.approx(1 - (2 / 3) ** 3, abs=0.03)
    assert (found[:, 1] == 1).all()


def test_intervals_depend_on_the_seed_alone() -> None:
    gold, predicted = np.arange(30.0), np.arange(30.0) ** 2 % 17
    of_items = {"pearson": item_score("pearson", None)}
    one, again, other = (intervals(of_items, gold, predicted, seed=s, samples=50) for s in (1, 1, 2))
    assert one == again != other


@pytest.mark.parametrize(("second", "found"), [(2.5, {1: (0.5, 3), 2: (2.5, 4)}), (None, None)])
def test_items_that_lack_a_number_have_no_sums(
    second: float | None, found: dict[int, tuple[float, ...]] | None
) -> None:
    table = pa.table({"item": [1, 2], "bits": [0.5, second], "words": [3, 4]})
    sums = Sums(key="item", columns=("bits", "words"), score=lambda sums: sums[..., 0])
    assert sums.read(table, "there") == found
