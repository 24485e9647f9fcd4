"""Tests, intervals and corrections against closed forms and brute force."""

from __future__ import annotations

import itertools
import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pdtools.evaluation.comparison.statistics import (
    Spread,
    bootstrap_p,
    common_variance,
    deviation,
    holm,
    resample,
)
from pdtools.evaluation.student import student_quantile


@given(
    st.lists(st.sampled_from([0.0, 1e-5, 0.004, 0.01, 0.012, 0.03, 0.2, 0.5, 1.0]), min_size=1, max_size=7)
)
def test_holm_rejects_what_its_steps_reject(ps: list[float]) -> None:
    """Step by step: from the smallest p, reject while p ≤ α / (how many are left)."""
    corrected = holm(ps)
    for alpha in (1e-4, 0.009, 0.05, 0.11, 0.6):
        rejected = set()
        for left, place in zip(
            range(len(ps), 0, -1), sorted(range(len(ps)), key=lambda i: ps[i]), strict=True
        ):
            if left * ps[place] > alpha:
                break
            rejected.add(place)
        # Of equal p one may be where the steps end: they are rejected together.
        values = {ps[i] for i in rejected if all(j in rejected for j in range(len(ps)) if ps[j] == ps[i])}
        assert {ps[i] for i in range(len(ps)) if corrected[i] <= alpha} == values
    assert all(p <= c <= 1 for p, c in zip(ps, corrected, strict=True))


def test_spread_by_hand() -> None:
    """Welch's t and Satterthwaite's degrees of freedom, with no variance over items."""
    a, b = (1.0, 2.0, 3.0), (4.0, 8.0)
    assert (deviation(a), deviation(b), deviation((5.0,))) == (1.0, pytest.approx(math.sqrt(8)), None)
    spread = Spread.of(0.0, a, b)
    assert spread.error == pytest.approx(math.sqrt(1 / 3 + 8 / 2))
    assert spread.freedom == pytest.approx((1 / 3 + 4) ** 2 / ((1 / 3) ** 2 / 2 + 4**2 / 1))
    half = student_quantile(0.975, spread.freedom) * spread.error
    assert spread.interval(4.0) == pytest.approx((4.0 - half, 4.0 + half))
    assert Spread.of(0.25, (5.0,), (6.0,)).error == 0.5
    assert Spread.of(0.25, (5.0,), (6.0,)).freedom == math.inf
    assert (Spread.of(0.0, a, a).p(0.0), Spread.of(0.0, (1.0,)).p(0.0), Spread.of(0.0, (1.0,)).p(1.0)) == (
        1,
        1,
        0,
    )


def f1(sums: np.ndarray) -> np.ndarray:
    return 200 * sums[..., 0] / (sums[..., 1] + sums[..., 2])


def test_resampled_sums_are_those_of_all_samples() -> None:
    """Two runs, four sentences: every sample of four, with replacement, is as probable as another."""
    counts = np.array(
        [[[1, 2, 3], [2, 2, 3]], [[0, 1, 1], [1, 1, 1]], [[4, 5, 5], [3, 5, 4]], [[1, 2, 3], [2, 2, 3]]],
        float,
    )
    mean_of_both = np.array([[1.0, 0.5], [0.0, 0.5]])  # the first run; the mean of both
    found = resample(counts, np.zeros(4, np.int64), f1, mean_of_both, np.random.default_rng(0), 40_000)
    assert found.scores[0] == pytest.approx([200 * 6 / (10 + 12), 200 * 8 / (10 + 11)])
    every = [
        f1(counts[list(sample)].sum(0)) @ mean_of_both for sample in itertools.product(range(4), repeat=4)
    ]
    for group in range(2):
        exact = np.array(every)[:, group]
        drawn = found.drawn[0, :, group]
        assert {round(x, 9) for x in drawn} == {round(x, 9) for x in exact}
        for value in np.unique(np.round(exact, 9)):
            share = (np.round(exact, 9) == value).mean()
            error = math.sqrt(share * (1 - share) / len(drawn))
            assert (np.round(drawn, 9) == value).mean() == pytest.approx(share, abs=5 * error)
    differences = np.array(every)[:, 1] - np.array(every)[:, 0]
    exact_p = 2 * min((differences <= 0).mean(), (differences >= 0).mean())
    assert bootstrap_p(found.drawn[0, :, 1] - found.drawn[0, :, 0]) == pytest.approx(
        min(1, exact_p), abs=0.01
    )


def test_variances_of_runs_are_those_of_all_samples() -> None:
    counts = np.array([[[1, 2, 3], [2, 2, 3]], [[0, 1, 1], [1, 1, 1]], [[4, 5, 5], [3, 5, 4]]], float)
    found = resample(counts, np.zeros(3, np.int64), f1, np.eye(2), np.random.default_rng(0), 40_000)
    every = [f1(counts[list(sample)].sum(0)) for sample in itertools.product(range(3), repeat=3)]
    assert found.variances[0] == pytest.approx(np.var(every, axis=0), rel=0.05)
    assert found.variances[0] == pytest.approx(found.drawn[0].var(0))


def test_what_two_variances_have_in_common() -> None:
    """Runs whose variance over items is A + I have a mean of A + I / S."""
    assert common_variance([5.0, 5.0, 5.0], 3.0) == pytest.approx(1.0)  # A 2, I 3
    assert common_variance([5.0], 5.0) == common_variance([4.0, 6.0], 5.5) == 0.0  # one run; by chance
    assert Spread.of(3.0, (1.0, 3.0), both=1.0).error == pytest.approx(math.sqrt(3 + 1 - 1))
    assert Spread.of(3.0, (1.0, 3.0), both=3.5).error == pytest.approx(math.sqrt(3))


def test_units_are_resampled_each_by_itself() -> None:
    """Of a unit whose items are alike nothing varies, whatever the other does."""
    counts = np.array([[[1.0, 1.0]], [[1.0, 1.0]], [[0.0, 1.0]], [[1.0, 1.0]]])
    ratio = lambda sums: sums[..., 0] / sums[..., 1]  # noqa: E731
    found = resample(counts, np.array([0, 0, 1, 1]), ratio, np.eye(1), np.random.default_rng(1), 500)
    assert found.scores[:, 0].tolist() == [1.0, 0.5]
    assert set(found.drawn[0, :, 0]) == {1.0}
    assert set(found.drawn[1, :, 0]) == {0.0, 0.5, 1.0}


@pytest.mark.parametrize("n_seeds", [2, 4])
def test_intervals_over_seeds_and_items_cover(n_seeds: int) -> None:
    """Two models of the same items: each has seeds that differ, items are hard or easy for all of them."""
    rng = np.random.default_rng(n_seeds)
    n_items, repetitions, covered = 80, 300, 0
    truth = 0.06
    for _ in range(repetitions):
        hard = rng.normal(0, 0.15, n_items)
        runs = [
            np.clip(0.6 + gain + hard + rng.normal(0, 0.05), 0, 1)
            for gain in (0.0, truth)
            for _ in range(n_seeds)
        ]
        right = (rng.random((2 * n_seeds, n_items)) < np.array(runs)).T.astype(float)
        counts = np.stack([right, np.ones_like(right)], -1)
        groups = np.kron(np.eye(2), np.full((n_seeds, 1), 1 / n_seeds))
        ratio = lambda sums: sums[..., 0] / sums[..., 1]  # noqa: E731
        found = resample(counts, np.zeros(n_items, np.int64), ratio, groups, rng, 200)
        a, b = found.scores[0, :n_seeds], found.scores[0, n_seeds:]
        drawn = found.drawn[0, :, 1] - found.drawn[0, :, 0]
        both = sum(
            common_variance(found.variances[0, of].tolist(), float(found.drawn[0, :, g].var(ddof=1)))
            for g, of in enumerate((slice(n_seeds), slice(n_seeds, None)))
        )
        spread = Spread.of(float(drawn.var(ddof=1)), a.tolist(), b.tolist(), both=both)
        low, high = spread.interval(b.mean() - a.mean())
        covered += low <= truth <= high
    assert 0.92 <= covered / repetitions <= 0.99
