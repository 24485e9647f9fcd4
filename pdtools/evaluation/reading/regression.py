"""Ordinary least squares, held-out likelihoods, and tests that use them, with numpy alone.

Times may be one column, or several with the same predictors (simulations): all are computed at once.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from pdtools.errors import PdtoolsError
from pdtools.evaluation.bootstrap import CONFIDENCE, bootstrap, interval, of_sums
from pdtools.evaluation.intervals import student_p, student_quantile

Float = NDArray[np.float64]
# Residuals of so small a share of the times are rounding errors.
_ROUNDING = 1e-9
# A column that the others explain up to this share of its length is collinear.
_COLLINEAR = 1e-9
# Limit on the signs of a permutation test in memory at once.
_MOST_SIGNS = 1 << 24


@dataclass(frozen=True)
class Fit:
    """A regression of n times on p predictors, including the intercept.

    Attributes:
        coefficients: float64 (p,) or (p, s), in times per unit of each predictor.
        covariance: float64 (p, p), (XᵀX)⁻¹; times ``variance`` it is the covariance of the coefficients.
        residual_sum: Σ of squared residuals, () or (s,).
        n: number of observations.
    """

    coefficients: Float
    covariance: Float
    residual_sum: Float
    n: int

    @property
    def freedom(self) -> int:
        """Residual degrees of freedom, n − p."""
        return self.n - len(self.covariance)

    @property
    def variance(self) -> Float:
        """The unbiased variance of the noise: RSS / (n − p)."""
        return self.residual_sum / self.freedom

    def combined(self, weights: Sequence[float] | Float) -> Coefficient:
        """A weighted sum of coefficients, with weights (p,)."""
        weights = np.asarray(weights, dtype=np.float64)
        value = weights @ self.coefficients
        error = np.sqrt(weights @ self.covariance @ weights * self.variance)
        return Coefficient(value, error, self.freedom)

    def logprobs(self, predictors: Float, times: Float) -> Float:
        """Log densities, nats, of times under the fit (its noise by maximum likelihood, RSS / n)."""
        variance = self.residual_sum / self.n
        residuals = times - predictors @ self.coefficients
        density: Float = -0.5 * (np.log(2 * math.pi * variance) + residuals**2 / variance)
        return density


@dataclass(frozen=True)
class Coefficient:
    """An estimate of a coefficient, or of a sum of some: value, standard error, degrees of freedom."""

    value: Float
    error: Float
    freedom: int

    def interval(self, confidence: float = CONFIDENCE) -> tuple[Float, Float]:
        """Student-t confidence interval."""
        reach = student_quantile((1 + confidence) / 2, self.freedom) * self.error
        return self.value - reach, self.value + reach

    @property
    def p(self) -> float:
        """Two-sided p of the value 0, for one column of times."""
        return student_p(float(self.value / self.error), self.freedom)


def fit(predictors: Float, times: Float, names: Sequence[str] | None = None) -> Fit:
    """Least squares by a QR decomposition.

    Args:
        predictors: float64 (n, p), with a column of ones.
        times: float64 (n,) or (n, s).
        names: the columns' names, for messages.

    Raises:
        PdtoolsError: if there are too few observations, or a column is constant or a sum of others.
    """
    n, p = predictors.shape
    if n <= p:
        raise PdtoolsError(f"{n} observations are too few for {p} coefficients")
    scale = np.sqrt((predictors**2).sum(0))
    q, r = np.linalg.qr(predictors / np.where(scale > 0, scale, 1.0))  # (n, p), (p, p)
    idle = np.flatnonzero(np.abs(np.diag(r)) < _COLLINEAR)
    if len(idle):
        name = names[idle[0]] if names else f"number {idle[0] + 1}"
        raise PdtoolsError(
            f"the predictor {name} is constant, or a sum of others: its effect cannot be estimated"
        )
    inverse = np.linalg.inv(r) / scale[:, None]  # (p, p)
    coefficients = inverse @ (q.T @ times)
    residuals = times - predictors @ coefficients
    return Fit(coefficients, inverse @ inverse.T, (residuals**2).sum(0), n)


def for_new(
    model: Fit,
    predictors: Float,
    times: Float,
    groups: NDArray[np.int64],
    observed: tuple[NDArray[np.int64], NDArray[np.int64], Float] | None,
    weights: Float,
) -> Coefficient:
    """A weighted sum of coefficients, with its error for other items, and for other subjects.

    Unlike :meth:`Fit.combined`, this allows for noise and effects that the words of an item share, and for
    subjects who differ in their effects. Each item, and each subject, is left out in turn (the jackknife).
    Both variances have the noise of single words in them, so it is subtracted from their sum once, as in
    two-way clustering.

    Args:
        model: the fit of these predictors (n, p) and mean times (n,).
        predictors, times: see :func:`fit`.
        groups: int64 (n,), the item of each observation.
        observed: the times (m,) that the means are over, with the index of their word among the n, and that
            of their subject; None: subjects are not known.
        weights: float64 (p,).
    """
    number, group = np.unique(groups, return_inverse=True)
    scale = np.sqrt((predictors**2).sum(0))
    x, residuals = predictors / scale, times - predictors @ model.coefficients
    gram = x.T @ x
    changes = np.empty(len(number))
    for g in range(len(number)):
        own = group == g
        without = np.linalg.pinv(gram - x[own].T @ x[own], hermitian=True)
        changes[g] = (weights / scale) @ without @ (x[own].T @ residuals[own])
    variances, freedom = [_jackknife(changes)], len(number) - 1
    if observed is not None and len(subjects := np.unique(observed[1])) > 1:
        word, subject, time = observed
        others = np.bincount(word, minlength=len(times))[word] - 1
        # Without a subject, the mean time of a word changes by this much; a word of one subject alone stays.
        moved = np.divide(times[word] - time, others, out=np.zeros(len(time)), where=others > 0)
        influence = predictors @ (model.covariance @ weights)  # (n,), of a word's time on the sum
        of_subjects: Float = np.bincount(subject, influence[word] * moved).astype(np.float64)
        variances.append(_jackknife(of_subjects[subjects]))
        noise = float(weights @ model.covariance @ weights * model.variance)
        variances.append(sum(variances) - noise)
        freedom = min(freedom, len(subjects) - 1)
    return Coefficient(weights @ model.coefficients, np.sqrt(max(variances)), freedom)


def _jackknife(changes: Float) -> float:
    """The variance of an estimate that changes so when each of k groups is left out."""
    return float((len(changes) - 1) / len(changes) * (changes**2).sum())


def folds_of(groups: NDArray[np.int64], folds: int, rng: np.random.Generator) -> NDArray[np.int64]:
    """The fold in which each observation is held out: whole groups, equally many in each fold.

    Args:
        groups: int64 (n,), the item of each observation.
        folds: number of folds; at most the number of items.

    Raises:
        PdtoolsError: if there is only one item.
    """
    names, group = np.unique(groups, return_inverse=True)
    if len(names) < 2:
        raise PdtoolsError("all observations belong to one item: folds by item need at least two")
    fold = np.empty(len(names), np.int64)
    fold[rng.permutation(len(names))] = np.arange(len(names)) % min(folds, len(names))
    return fold[group]


def held_out(predictors: Float, times: Float, folds: NDArray[np.int64], names: Sequence[str]) -> Float:
    """Log densities of times under the fit of the other folds, nats: (n,) or (n, s).

    Raises:
        PdtoolsError: if a fit leaves nothing unexplained (all times are equal, say); see :func:`fit` too.
    """
    found = np.empty_like(times)
    for fold in np.unique(folds):
        inside = folds == fold
        model = fit(predictors[~inside], times[~inside], names)
        if (model.residual_sum <= _ROUNDING**2 * (times[~inside] ** 2).sum(0)).any():
            raise PdtoolsError(
                "the times do not vary, or the predictors explain all of it: their likelihood is undefined"
                " (is --column time the right one?)"
            )
        found[inside] = model.logprobs(predictors[inside], times[inside])
    return found


def sums_of(values: Float, groups: NDArray[np.int64]) -> tuple[Float, NDArray[np.int64]]:
    """Sum and number of the values of each group."""
    _, group = np.unique(groups, return_inverse=True)
    return np.bincount(group, values).astype(np.float64), np.bincount(group).astype(np.int64)


def bootstrap_mean(
    values: Float, groups: NDArray[np.int64], rng: np.random.Generator, samples: int
) -> tuple[float, float]:
    """The interval of a mean over observations, with whole groups drawn with replacement."""
    numbers = np.array(sums_of(values, groups)).T  # (groups, 2)
    return interval(bootstrap(numbers, of_sums(lambda sums: sums[..., 0] / sums[..., 1]), rng, samples))


def permutation_p(differences: Float, rng: np.random.Generator, samples: int) -> float:
    """Two-sided p of a paired permutation test: could the signs of these differences be chance?

    All 2ⁿ sign changes are tried if they are no more than ``samples``; else so many are drawn, and the
    observed one counts among them (p is never 0).
    """
    n = len(differences)
    observed = abs(differences.sum()) * (1 - 1e-12)  # a margin for rounding of an equal sum
    if 2**n <= samples:
        numbers = np.arange(2**n)[:, None] >> np.arange(n) & 1  # (2ⁿ, n)
        return float(np.mean(np.abs((1 - 2 * numbers) @ differences) >= observed))
    reached = 0
    step = max(1, _MOST_SIGNS // n)
    for first in range(0, samples, step):
        rows = min(step, samples - first)
        bits = np.unpackbits(
            np.frombuffer(rng.bytes(rows * (-(-n // 8))), np.uint8).reshape(rows, -1), axis=1
        )
        flipped = bits[:, :n] @ differences.astype(np.float64)  # Σ of those that change their sign
        reached += int((np.abs(differences.sum() - 2 * flipped) >= observed).sum())
    return (reached + 1) / (samples + 1)
