"""Least squares and its tests against statsmodels, scipy, a closed form, and effects that are known."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable

import numpy as np
import pytest

from pdtools.errors import PdtoolsError
from pdtools.evaluation.reading.regression import (
    bootstrap_mean,
    fit,
    folds_of,
    held_out,
    permutation_p,
    sums_of,
)

Explained = Callable[[np.ndarray], np.ndarray]
RNG = np.random.default_rng(0)


def design(n: int, p: int, rng: np.random.Generator) -> np.ndarray:
    """Ones, and predictors that go together, on very different scales."""
    mixed = rng.normal(size=(n, p - 1)) @ rng.normal(size=(p - 1, p - 1)) * 10.0 ** np.arange(p - 1)
    return np.column_stack([np.ones(n), mixed + 5])


def test_as_statsmodels() -> None:
    linear = pytest.importorskip("statsmodels.regression.linear_model")
    x = design(120, 6, RNG)
    y = x @ RNG.normal(size=6) + 3 * RNG.normal(size=120)
    mine, theirs = fit(x, y), linear.OLS(y, x).fit()
    np.testing.assert_allclose(mine.coefficients, theirs.params, rtol=1e-8)
    for i, weights in enumerate(np.eye(6)):
        estimate = mine.combined(weights)
        assert estimate.error == pytest.approx(theirs.bse[i], rel=1e-8)
        assert estimate.p == pytest.approx(theirs.pvalues[i], rel=1e-6, abs=1e-12)
        np.testing.assert_allclose(estimate.interval(), theirs.conf_int()[i], rtol=1e-7)
    weights = np.array([0, 1, 1, 0, 0, 0.5])
    test = theirs.t_test(weights)
    assert mine.combined(weights).value == pytest.approx(test.effect.item(), rel=1e-8)
    assert mine.combined(weights).error == pytest.approx(test.sd.item(), rel=1e-8)
    assert mine.logprobs(x, y).sum() == pytest.approx(theirs.llf, rel=1e-10)


def test_one_predictor_in_closed_form() -> None:
    x, y = np.array([0.0, 1, 2, 5]), np.array([200.0, 220, 230, 310])
    mine = fit(np.column_stack([np.ones(4), x]), y)
    slope = ((x - x.mean()) * (y - y.mean())).sum() / ((x - x.mean()) ** 2).sum()
    residuals = y - y.mean() - slope * (x - x.mean())
    assert mine.coefficients == pytest.approx([y.mean() - slope * x.mean(), slope])
    error = math.sqrt((residuals**2).sum() / 2 / ((x - x.mean()) ** 2).sum())
    assert mine.combined([0, 1]).error == pytest.approx(error)


def test_known_effects_lie_in_their_intervals() -> None:
    """200 simulations at once: 95% intervals hold the truth in about 95% of them, each and their sum."""
    rng = np.random.default_rng(7)
    n, simulations = 300, 200
    surprisal = rng.gamma(2, 4, n + 2)
    x = np.column_stack([np.ones(n), rng.integers(1, 12, n), surprisal[2:], surprisal[1:-1], surprisal[:-2]])
    truth = np.array([250, 3, 4, 2, 1.0])
    found = fit(x, (x @ truth)[:, None] + 60 * rng.normal(size=(n, simulations)))
    for weights in (*np.eye(5), np.array([0, 0, 1, 1, 1])):
        low, high = found.combined(weights).interval()
        covered = np.mean((low <= weights @ truth) & (weights @ truth <= high))
        assert 0.90 <= covered <= 0.99  # 3 standard deviations of a share of 200 about 0.95
        assert np.mean(found.combined(weights).value) == pytest.approx(weights @ truth, rel=0.05)


def test_held_out_likelihood_is_that_of_a_fit_without_the_fold() -> None:
    x, items = design(60, 3, RNG), np.repeat(np.arange(12), 5)
    y = x @ np.array([200, 1, 2]) + RNG.normal(size=60)
    folds = folds_of(items, 4, np.random.default_rng(1))
    found = held_out(x, y, folds, ["1", "a", "b"])
    for fold in range(4):
        inside = folds == fold
        assert len(set(items[inside])) == 3
        assert not set(items[inside]) & set(items[~inside])
        coefficients, residual, *_ = np.linalg.lstsq(x[~inside], y[~inside], rcond=None)
        deviation = math.sqrt(residual[0] / (~inside).sum())
        z = (y[inside] - x[inside] @ coefficients) / deviation
        expected = -0.5 * z**2 - math.log(deviation * math.sqrt(2 * math.pi))
        np.testing.assert_allclose(found[inside], expected, rtol=1e-9)


def test_items_are_held_out_together_by_chance() -> None:
    """Any two of 8 items are in the same of 4 folds in a seventh of all draws."""
    folds = np.array([folds_of(np.arange(8), 4, np.random.default_rng(seed)) for seed in range(2000)])
    for other in range(1, 8):
        assert np.mean(folds[:, 0] == folds[:, other]) == pytest.approx(1 / 7, abs=0.03)


def test_what_helps_helps_on_held_out_items_and_noise_does_not() -> None:
    rng = np.random.default_rng(3)
    items = np.repeat(np.arange(40), 10)
    ones, cause, noise = np.ones(400), rng.normal(size=400), rng.normal(size=400)
    y = (300 + 10 * cause)[:, None] + 40 * rng.normal(size=(400, 200))
    folds = folds_of(items, 10, rng)
    base = held_out(ones[:, None], y, folds, ["1"])
    helps, hurts = (
        (held_out(np.column_stack([ones, column]), y, folds, ["1", "x"]) - base).mean()
        for column in (cause, noise)
    )
    assert helps == pytest.approx(0.5 * math.log(1 + (10 / 40) ** 2), abs=0.006)
    assert -0.01 < hurts < 0


def test_a_useless_predictor_is_named() -> None:
    ones = np.ones(10)
    x = np.column_stack([ones, np.arange(10), 2 * np.arange(10)])
    with pytest.raises(PdtoolsError, match="predictor twice is constant, or a sum of others"):
        fit(x, ones, ["1", "once", "twice"])
    with pytest.raises(PdtoolsError, match="2 observations are too few for 3"):
        fit(x[:2], ones[:2])
    with pytest.raises(PdtoolsError, match="one item"):
        folds_of(np.zeros(5, np.int64), 10, RNG)


@pytest.mark.parametrize(
    "explained",
    [
        lambda x: 0 * x[:, 0],
        lambda x: 0 * x[:, 0] + 300.1,
        lambda x: 300 + 5 * x[:, 1],
        lambda x: x.sum(1) / 3,
    ],
    ids=["0", "constant", "one predictor", "all predictors"],
)
@pytest.mark.parametrize("where", ["everywhere", "in all folds but one"])
def test_times_without_noise_have_no_likelihood(explained: Explained, where: str) -> None:
    rng = np.random.default_rng(6)
    x, folds = design(60, 3, rng), np.repeat(np.arange(4), 15)
    y = explained(x) * (1 + 1e-15 * rng.normal(size=60))  # rounding errors of means
    if where != "everywhere":
        y[folds == 2] += 40 * rng.normal(size=15)
    with pytest.raises(PdtoolsError, match="the times do not vary, or the predictors explain all"):
        held_out(x, y, folds, ["1", "a", "b"])
    noisy = y + 1e-4 * (1 + abs(y)) * rng.normal(size=60)  # of whole milliseconds, it is more
    assert np.isfinite(held_out(x, noisy, folds, ["1", "a", "b"])).all()
    with pytest.raises(PdtoolsError, match="the times do not vary"):  # nor has one response among several
        held_out(x, np.column_stack([noisy, y, noisy]), folds, ["1", "a", "b"])


@pytest.mark.parametrize("n", [3, 8])
def test_permutations_are_all_tried_where_they_are_few(n: int) -> None:
    differences = np.random.default_rng(n).normal(0.6, 1, n)
    signs = np.array(list(itertools.product([1, -1], repeat=n)))
    expected = np.mean(np.abs(signs @ differences) >= abs(differences.sum()) - 1e-12)
    assert permutation_p(differences, RNG, 1000) == expected
    drawn = permutation_p(np.concatenate([differences, np.zeros(20)]), np.random.default_rng(0), 20_000)
    assert drawn == pytest.approx(expected, abs=0.012)


@pytest.mark.parametrize("n", [30, 41])
@pytest.mark.parametrize("samples", [100, 257])
def test_drawn_permutations_and_the_observed_one_are_counted(n: int, samples: int) -> None:
    """No sign change of so many is as extreme as the observed one, which is; of zeros all are."""
    rng = np.random.default_rng(0)
    assert permutation_p(np.full(n, 0.25), rng, samples) == 1 / (samples + 1)
    assert permutation_p(np.zeros(n), rng, samples) == 1
    one = np.eye(1, n)[0]  # the sign of one value makes no difference
    assert permutation_p(-one, rng, samples) == 1


def test_permutation_p_is_uniform_without_an_effect() -> None:
    rng = np.random.default_rng(5)
    found = [permutation_p(rng.normal(size=15), rng, 400) for _ in range(300)]
    assert np.mean(np.array(found) <= 0.05) == pytest.approx(0.05, abs=0.035)
    assert np.mean(found) == pytest.approx(0.5, abs=0.06)


def test_bootstrap_means_are_over_the_observations_that_are_drawn() -> None:
    """Items have unlike numbers of observations, and a mean is over as many as were drawn."""
    groups = np.repeat([3, 5, 7, 9], [1, 3, 2, 10])
    rng = np.random.default_rng(1)
    assert bootstrap_mean(np.full(16, 3.25), groups, rng, 500) == (3.25, 3.25)
    values = rng.normal(size=16)
    of_group = [values[groups == group] for group in (3, 5, 7, 9)]
    samples = itertools.product(of_group, repeat=4)  # all 256, equally probable
    means = np.array([np.concatenate(sample).mean() for sample in samples])
    low, high = bootstrap_mean(values, groups, rng, 20_000)
    assert (low, high) == pytest.approx(
        np.quantile(np.repeat(means, 1000), [0.025, 0.975]).tolist(), abs=0.02
    )


def test_bootstrap_draws_whole_items() -> None:
    groups = np.repeat(np.arange(50), 4)
    rng = np.random.default_rng(2)
    item = rng.normal(size=50)
    low, high = bootstrap_mean(item[groups], groups, rng, 4000)  # observations of an item are all the same
    assert high - low == pytest.approx(2 * 1.96 * item.std() / math.sqrt(50), rel=0.1)
    sums, counts = sums_of(np.arange(6.0), np.array([9, 9, 2, 2, 2, 5]))
    assert (sums.tolist(), counts.tolist()) == ([9, 5, 1], [3, 1, 2])


def test_neither_small_predictors_nor_small_residuals_are_nothing() -> None:
    """A predictor in other units is as good, and times that are known to a part in 10⁷ have a likelihood."""
    rng = np.random.default_rng(3)
    x = np.column_stack([np.ones(40), rng.normal(size=40)])
    y = 300 + 4 * x[:, 1] + 1e-5 * rng.normal(size=40)
    folds = np.arange(40) % 4
    plain = held_out(x, y, folds, ["one", "x"])
    assert np.isfinite(plain).all()
    small = x * [1, 1e-12]
    np.testing.assert_allclose(held_out(small, y, folds, ["one", "x"]), plain, rtol=1e-6)
    assert fit(small, y).coefficients == pytest.approx(fit(x, y).coefficients * [1, 1e12])
