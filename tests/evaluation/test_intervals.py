"""Student's t against closed forms, tables, binomial tails and scipy."""

from __future__ import annotations

import math
from fractions import Fraction

import pytest

from pdtools.evaluation.intervals import incomplete_beta, student_p, student_quantile


def test_student_of_one_two_and_many_degrees_of_freedom() -> None:
    for t in (0.0, 0.3, 1.0, 2.5, 40.0, 1e4):
        assert student_p(t, 1) == pytest.approx(1 - 2 * math.atan(t) / math.pi, abs=1e-12)  # Cauchy's
        assert student_p(t, 2) == pytest.approx(1 - t / math.sqrt(2 + t * t), abs=1e-12)
        for freedom in (math.inf, 2e6):
            assert student_p(-t, 9.9e5) == pytest.approx(student_p(t, freedom), rel=2e-6, abs=1e-6)
            assert student_p(-t, freedom) == student_p(t, freedom)
    assert [round(student_quantile(0.975, n), 3) for n in (1, 2, 5, 30, 1e7)] == [
        *(12.706, 4.303, 2.571, 2.042, 1.960)  # the tables of every textbook
    ]
    for freedom in (1.3, 2.0, 7.7):
        assert student_p(student_quantile(0.975, freedom), freedom) == pytest.approx(0.05, abs=1e-12)


@pytest.mark.parametrize(("a", "b"), [(1, 1), (2, 3), (5, 2), (7, 7)])
def test_incomplete_beta_is_a_binomial_tail(a: int, b: int) -> None:
    for x in (Fraction(1, 10), Fraction(1, 2), Fraction(9, 10)):
        n = a + b - 1
        tail = sum(math.comb(n, k) * x**k * (1 - x) ** (n - k) for k in range(a, n + 1))
        assert incomplete_beta(a, b, float(x)) == pytest.approx(float(tail), abs=1e-13)


def test_incomplete_beta_from_end_to_end() -> None:
    assert [incomplete_beta(2.5, 0.5, x) for x in (-0.1, 0.0, 1.0, 1.1)] == [0, 0, 1, 1]
    assert incomplete_beta(3, 3, 0.5) == pytest.approx(0.5, abs=1e-15)


@pytest.mark.parametrize("freedom", [1, 3, 30, 5000, 400_000])
def test_as_scipy(freedom: int) -> None:
    stats = pytest.importorskip("scipy.stats")
    for t in (-40.0, -2, -0.1, 0, 0.5, 3, 12):
        assert student_p(t, freedom) == pytest.approx(2 * stats.t.sf(abs(t), freedom), rel=1e-9, abs=1e-15)
    assert student_quantile(0.975, freedom) == pytest.approx(stats.t.ppf(0.975, freedom), rel=1e-9)
