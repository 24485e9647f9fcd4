"""Tests, intervals and corrections against closed forms and brute force."""

from __future__ import annotations

import itertools
import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pdtools.evaluation.bootstrap import of_sums
from pdtools.evaluation.comparison.statistics import (
    Spread,
    bootstrap_p,
    common_variance,
    deviation,
    holm,
    resample,
)
from pdtools.evaluation.intervals import student_p, student_quantile


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
    rng = np.random.default_rng(0)
    found = resample(counts, np.zeros(4, np.int64), of_sums(f1), mean_of_both, rng, 40_000)
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
    rng = np.random.default_rng(0)
    found = resample(counts, np.zeros(3, np.int64), of_sums(f1), np.eye(2), rng, 40_000)
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
    found = resample(counts, np.array([0, 0, 1, 1]), of_sums(ratio), np.eye(1), np.random.default_rng(1), 500)
    assert found.scores[:, 0].tolist() == [1.0, 0.5]
    assert set(found.drawn[0, :, 0]) == {1.0}
    assert set(found.drawn[1, :, 0]) == {0.0, 0.5, 1.0}


@pytest.mark.parametrize("sizes", [[30, 30, 30], [60, 20, 10]])
def test_a_mean_of_units_varies_as_its_samples_do(sizes: list[int]) -> None:
    """Of units that are drawn each by itself it varies by their variances, by the squares of their shares."""
    rng = np.random.default_rng(2)
    right = rng.random((90, 2)) < 0.6
    counts = np.stack([right, np.ones_like(right)], -1).astype(float)
    ratio = lambda sums: sums[..., 0] / sums[..., 1]  # noqa: E731
    units = np.repeat(np.arange(3), sizes)
    weights = None if len(set(sizes)) == 1 else np.array(sizes)
    found = resample(counts, units, of_sums(ratio), np.eye(2), rng, 20_000).mean_of(np.arange(3), weights)
    assert found.scores[0] == pytest.approx(right.mean(0))
    assert found.drawn[0].mean(0) == pytest.approx(right.mean(0), rel=0.01)
    assert found.variances[0] == pytest.approx(found.drawn[0].var(0), rel=0.05)
    shares = np.stack([right[units == unit].mean(0) for unit in range(3)])
    expected = sum(size * share * (1 - share) for size, share in zip(sizes, shares, strict=True)) / 90**2
    assert found.variances[0] == pytest.approx(expected, rel=0.05)


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
        found = resample(counts, np.zeros(n_items, np.int64), of_sums(ratio), groups, rng, 200)
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


# Variances over items, and how rarely intervals may miss: they are wide where variances have much in common.
NOISE = [(0, 0, 0.04), (0.1, 0, 0.03), (0.3, 0.5, 0.02), (0, 2, 0.01)]


def missed(of_a: int, of_b: int, items: float, apart: float, n: int = 1000) -> float:
    """The share of 95% intervals without the true difference of two models (of b = 0: the true mean of one).

    The variance over seeds is 1; ``items`` is that over items which all runs have in common, ``apart`` that
    over items of a single run.
    """
    rng = np.random.default_rng([of_a, of_b, round(10 * items), round(10 * apart)])
    common = rng.normal(0, math.sqrt(items), n)
    runs = rng.normal(0, math.sqrt(1 + apart), (n, of_a + of_b))
    a, b = runs[:, :of_a], runs[:, of_a:]
    both = [apart / runs for runs in (of_a, of_b) if runs > 1]  # what `common_variance` gives
    variance = items + apart * sum(1 / runs for runs in (of_a, of_b) if runs)
    found = 0
    for i in range(n):
        of_groups = [group.tolist() for group in (a[i], b[i]) if len(group)]
        spread = Spread.of(variance, *of_groups, both=sum(both))
        centre = float(a[i].mean() - (b[i].mean() if of_b else 0) + common[i])
        low, high = spread.interval(centre)
        found += not low <= 0 <= high
        if i < 10:  # p says the same
            assert (spread.p(centre) < 0.05) == (not low <= 0 <= high)
    return found / n


@pytest.mark.parametrize(("items", "apart", "least"), NOISE)
@pytest.mark.parametrize("runs", [2, 3, 5])
def test_a_single_run_against_several(runs: int, items: float, apart: float, least: float) -> None:
    """Under the null p is below .05 as often as it says, or less: up to .32 if the one does not vary."""
    assert least < missed(runs, 1, items, apart) < 0.07


@pytest.mark.parametrize(("runs", "most"), [(2, 0.14), (5, 0.06)])
def test_the_mean_of_a_group(runs: int, most: float) -> None:
    """How often intervals of few runs miss where items vary little, as the page of compare says."""
    assert most - 0.03 < missed(runs, 0, 0.05, 0, n=2000) < most


def test_a_single_run_varies_as_the_others_do() -> None:
    """By hand: s² = 4 of three runs, 4/3 + 4 with two degrees of freedom."""
    several, one = (1.0, 3.0, 5.0), (9.0,)
    for spread in (Spread.of(0.0, several, one), Spread.of(0.0, one, several)):
        error = math.sqrt(4 * (1 / 3 + 1))
        assert spread.error == pytest.approx(error)
        low, high = spread.interval(6.0)
        assert (low, high) == pytest.approx((6 - 4.302652730 * error, 6 + 4.302652730 * error))
        assert spread.p(6.0) == pytest.approx(student_p(6 / error, 2))
        assert spread.p(high - 6) == pytest.approx(0.05)
    # What item and seed have together is in both variances of the single run, too: thrice that of the mean.
    assert Spread.of(2.0, several, one, both=0.25).error == pytest.approx(math.sqrt(16 / 3 + 2 - 0.25 - 0.75))
    half = (1.959963985 * 1 + 4.302652730 * 16 / 3) / math.sqrt(1 + 16 / 3)  # items without what is in both
    assert Spread.of(2.0, several, one, both=0.25).interval(0.0)[1] == pytest.approx(half)
    with_items = Spread.of(8 / 3, several, one)
    half = (1.959963985 * 8 / 3 + 4.302652730 * 16 / 3) / math.sqrt(8)
    assert with_items.interval(0.0) == pytest.approx((-half, half))
    assert (with_items.p(half), with_items.p(0.0)) == pytest.approx((0.05, 1))
    assert with_items.p(1e6) < 1e-9
    few = Spread.of(8 / 3, several, one, items_freedom=4)  # items vary by Student's t too
    half = (student_quantile(0.975, 4) * 8 / 3 + 4.302652730 * 16 / 3) / math.sqrt(8)
    assert few.interval(0.0) == pytest.approx((-half, half))
    assert few.p(half) == pytest.approx(0.05)
    # Seeds that are alike leave the items, which have no part less than their own.
    assert Spread.of(4.0, (1.0, 1.0), (3.0,), both=1.5).interval(0.0)[1] == pytest.approx(2 * 1.959963985)
    assert Spread.of(4.0, (1.0, 1.0), (3.0,)).p(2.0) == pytest.approx(student_p(1.0, math.inf))
