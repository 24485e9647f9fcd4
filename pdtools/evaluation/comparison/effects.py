"""Effects of a factorial design within items: main effects and interactions, with intervals and tests."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations, product
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pdtools.evaluation.bootstrap import are_few, bootstrap, interval, of_sums
from pdtools.evaluation.comparison.statistics import Spread, common_variance
from pdtools.evaluation.intervals import student_quantile
from pdtools.stimuli.columns import MILLISECONDS

Float = NDArray[np.float64]
_Z = student_quantile(0.975, math.inf)


@dataclass(frozen=True)
class Factor:
    """A factor of a design; the first of its levels is the reference, which is subtracted."""

    name: str
    levels: tuple[str, ...]


@dataclass(frozen=True, eq=False)
class Contrast:
    """A main effect or an interaction, with one degree of freedom.

    Attributes:
        effect: the names of its factors, with × between them.
        contrast: its levels, each less the reference: ``(amb − unamb) × (long − short)``.
        name: a short name that is unique in its design.
        weights: float64 (C,), of the cells of the design, the last factor varying fastest.
    """

    effect: str
    contrast: str
    name: str
    weights: Float

    def of_items(self, values: Float) -> Float:
        """The contrast (…) of values (…, C) in the cells; NaN where a cell that it needs is."""
        needed = self.weights != 0
        found: Float = values[..., needed] @ self.weights[needed]
        return found


def cells(factors: Sequence[Factor]) -> list[tuple[str, ...]]:
    """The cells of a design, as levels of its factors, the last one varying fastest."""
    return list(product(*(factor.levels for factor in factors)))


def contrasts(factors: Sequence[Factor]) -> list[Contrast]:
    """All main effects, then interactions of two factors, of three, and so on.

    A main effect is a level less the reference, averaged over the levels of the other factors. An interaction
    of two is the difference of such differences, also so averaged. A factor of k levels has k − 1 of them.
    """
    found = []
    for size in range(1, len(factors) + 1):
        for own in combinations(range(len(factors)), size):
            two_levels = all(len(factors[place].levels) == 2 for place in own)
            for chosen in product(*(range(1, len(factors[place].levels)) for place in own)):
                at = dict(zip(own, chosen, strict=True))
                weights = np.ones(1)
                for place, factor in enumerate(factors):
                    own_weights = _weights(len(factor.levels), at.get(place))
                    weights = np.multiply.outer(weights, own_weights).ravel()
                effect = " × ".join(factors[place].name for place in own)
                parts = [
                    f"{factors[place].levels[level]} \N{MINUS SIGN} {factors[place].levels[0]}"
                    for place, level in at.items()
                ]
                contrast = parts[0] if size == 1 else " × ".join(f"({part})" for part in parts)
                name = effect if size > 1 and two_levels else f"{effect}: {contrast}"
                found.append(Contrast(effect, contrast, name, weights))
    return found


def pairs(factor: Factor, *, with_first: bool = False) -> list[Contrast]:
    """The differences of each two levels of a factor, the later less the earlier; or all less the first."""
    found = []
    for earlier, later in combinations(range(len(factor.levels)), 2):
        if earlier and with_first:
            continue
        weights = np.zeros(len(factor.levels))
        weights[[earlier, later]] = -1, 1
        name = f"{factor.levels[later]} \N{MINUS SIGN} {factor.levels[earlier]}"
        found.append(Contrast(factor.name, name, name, weights))
    return found


def _weights(levels: int, chosen: int | None) -> Float:
    """The mean over a factor's levels, or the chosen one less the first."""
    if chosen is None:
        return np.full(levels, 1 / levels)
    weights = np.zeros(levels)
    weights[[0, chosen]] = -1, 1
    return weights


@dataclass(frozen=True, kw_only=True)
class Estimate:
    """A mean over items, with its 95% intervals and test; None where items or seeds do not vary.

    Attributes:
        value: the mean, in the unit of the values.
        low, high: its interval by Student's t, over items; with several seeds over these too.
        boot_low, boot_high: its interval by a bootstrap over items, with the models as they are.
        t, df, p: Student's t, its degrees of freedom, and two-sided p. One model less several seeds of
            another has p of two such distributions, and no df.
        items: number of items.
        runs: number of models, such as seeds.
    """

    value: float
    low: float | None = None
    high: float | None = None
    boot_low: float | None = None
    boot_high: float | None = None
    t: float | None = None
    df: float | None = None
    p: float | None = None
    items: int
    runs: int


@dataclass(frozen=True, kw_only=True, eq=False)
class Effect:
    """A contrast of one group of models, or its difference between two groups.

    Attributes:
        contrast: the main effect or interaction.
        model: the name of the group.
        less: the group that is subtracted; None: none is.
        values: float64 (I,), of the items; NaN for those that are left out.
        estimate: their mean.
        ms: predicted milliseconds, see :func:`in_milliseconds`; None without slopes.
    """

    contrast: Contrast
    model: str
    less: str | None
    values: Float
    estimate: Estimate
    ms: tuple[float, float | None, float | None] | None = None

    def row(self) -> dict[str, Any]:
        """The columns of tables, but for the region.

        Columns:
            model: the model, or the group of models that differ in their seeds; ``b − a`` for a difference.
            effect: names of the factors, with × between them in an interaction.
            contrast: levels less their references.
            bits: the effect: the mean over items.
            low, high: its 95% interval by Student's t over items; with several seeds over these too.
            boot_low, boot_high: its 95% percentile interval by a bootstrap over items; none below ten.
            t, df, p: Student's t, its degrees of freedom, two-sided p.
            items, left_out: number of items with all conditions that the effect needs, and of the others.
            seeds: number of models in the group, of both groups for a difference.
            ms, ms_low, ms_high: if the table has these columns: the predicted effect in milliseconds, and its
                95% interval, with the errors of slopes and of items.
        """
        of = self.estimate
        model = self.model if self.less is None else f"{self.model} \N{MINUS SIGN} {self.less}"
        named = [model, self.contrast.effect, self.contrast.contrast, of.value]
        left_out = len(self.values) - of.items
        cells = [*named, *(getattr(of, name) for name in _ESTIMATED), of.items, left_out, of.runs]
        return dict(zip(EFFECT, cells, strict=True)) | dict(zip(MILLISECONDS, self.ms or (), strict=False))


_ESTIMATED = ("low", "high", "boot_low", "boot_high", "t", "df", "p")
EFFECT = ("model", "effect", "contrast", "bits", *_ESTIMATED, "items", "left_out", "seeds")
"""The columns of :meth:`Effect.row`."""


def effects(
    values: Float,
    design: Sequence[Contrast],
    groups: Mapping[str, Sequence[int]],
    differences: Sequence[tuple[str, str]] = (),
    *,
    seed: int = 0,
    samples: int = 10_000,
    slopes: Float | None = None,
) -> list[Effect]:
    """Each contrast of each group of models, then the differences between groups.

    Args:
        values: float64 (M, I, C), of each model, item and cell of the design; NaN where there is none.
        design: see :func:`contrasts`.
        groups: by name, the models that differ only in their seeds.
        differences: (a, b): the names of two groups, for b less a, paired over items.
        seed, samples: for the bootstrap.
        slopes: float64 (M, 2), see :func:`in_milliseconds`; None: there are none.

    Returns:
        Effects without a single item that has all cells are left out.
    """
    found = []
    for first, second in [*((None, name) for name in groups), *differences]:
        sides = ([] if first is None else [groups[first]]) + [groups[second]]
        for contrast in design:
            runs = [contrast.of_items(values[list(members)]) for members in sides]
            means = [of_runs.mean(0) for of_runs in runs]
            of_items = means[-1] - means[0] if len(means) > 1 else means[0]
            if np.isfinite(of_items).any():
                of_sides = [slopes[list(members)] for members in sides] if slopes is not None else []
                found.append(
                    Effect(
                        contrast=contrast,
                        model=second,
                        less=first,
                        values=of_items,
                        estimate=estimate_of(runs, seed=seed, samples=samples),
                        ms=in_milliseconds(runs, of_sides) if of_sides else None,
                    )
                )
    return found


def estimate_of(runs: Sequence[Float], *, seed: int = 0, samples: int = 10_000) -> Estimate:
    """The mean over items of one group of models, or of the second less the first, paired over items.

    The error of a single model is that over items. With several seeds, it has their variance too, as in
    comparisons of results (:class:`~pdtools.evaluation.comparison.statistics.Spread`).

    Args:
        runs: one or two of float64 (S, I), a value of each model and item; items with NaN are left out.
        seed, samples: for the bootstrap (0: none), which below ten items is not drawn.
    """
    known = np.isfinite(np.concatenate(runs)).all(0)
    runs = [of_runs[:, known] for of_runs in runs]
    n, n_runs = int(known.sum()), sum(map(len, runs))
    signs = (-1, 1) if len(runs) > 1 else (1,)
    shares = np.concatenate([np.full(len(of), sign / len(of)) for sign, of in zip(signs, runs, strict=True)])
    together = np.concatenate(runs)  # (R, n)
    of_items = shares @ together
    value = float(of_items.mean())
    if n < 2:
        return Estimate(value=value, items=n, runs=n_runs)
    both = sum(common_variance([_of_mean(run) for run in of], _of_mean(of.mean(0))) for of in runs)
    scores = [of.mean(1).tolist() for of in runs]
    spread = Spread.of(_of_mean(of_items), *scores, both=both, items_freedom=n - 1)
    found: dict[str, float] = {}
    # Rounding makes equal contrasts differ in their last digits.
    if spread.error > 1e-12 * max(1.0, float(np.abs(together).max())):
        low, high = spread.interval(value)
        found = {"low": low, "high": high, "t": value / spread.error, "p": spread.p(value)}
        if not spread.is_borrowed:
            found["df"] = spread.freedom if spread.seeds else n - 1
        if samples and not are_few(n):
            numbers = np.stack([of_items, np.ones(n)], 1)
            mean = of_sums(lambda sums: sums[..., 0] / sums[..., 1])
            drawn = bootstrap(numbers, mean, np.random.default_rng(seed), samples)
            found["boot_low"], found["boot_high"] = interval(drawn)
    return Estimate(value=value, **found, items=n, runs=n_runs)


def in_milliseconds(
    runs: Sequence[Float], slopes: Sequence[Float]
) -> tuple[float, float | None, float | None]:
    """An effect in milliseconds, by slopes that were fitted to other items: the value and its 95% interval.

    The variance of a slope b times a difference d, which are independent, is b² var(d) + d² var(b) + var(b)
    var(d); the last term, beyond the delta method's, matters where both may be 0. Each variance is recovered
    from its own interval (MOVER), so that it keeps its degrees of freedom: with half-widths w, w² = b² w(d)²
    + d² w(b)² + (w(b) w(d) / z)², where z is the normal quantile, so that the last term is rather too large.
    The slopes of a group's models are of one corpus and share their errors, which add up. Slopes of two
    groups are taken as independent: they share a corpus too, so the interval of a difference is rather too
    wide.

    Args:
        runs: one or two of float64 (S, I), see :func:`estimate_of`, in bits.
        slopes: for each of them float64 (S, 2): milliseconds a bit of each model, and half of its interval.

    Returns:
        The value and the ends of its interval, which are None if that in bits has none.
    """
    known = np.isfinite(np.concatenate(runs)).all(0)
    values, halves = (
        [of[:, known] * own[:, [column]] for of, own in zip(runs, slopes, strict=True)] for column in (0, 1)
    )
    found = estimate_of(values, samples=0)
    if found.low is None or found.high is None:
        return found.value, None, None
    squares = ((found.high - found.low) / 2) ** 2
    for of in halves:
        error = estimate_of([of], samples=0)
        squares += error.value**2 + (((error.high or 0) - (error.low or 0)) / 2 / _Z) ** 2
    return found.value, found.value - math.sqrt(squares), found.value + math.sqrt(squares)


def _of_mean(values: Float) -> float:
    """The variance of the mean of values (n,)."""
    return float(values.var(ddof=1)) / len(values)
