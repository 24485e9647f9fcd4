"""Coverage of intervals over seeds and items for the true difference, in simulations.

Two models of the same items; items are hard or easy for both, seeds of a model differ. ``here`` is how
pdtools compare makes intervals (docs/reference/commands/compare.md); ``items`` lets the seeds be as they are;
``resampled`` draws seeds and items with replacement and takes percentiles, as a hierarchical bootstrap does.
Then how often intervals of groups of any size miss: of two that do not differ, which is how often p is below
.05, and of one group's mean.

    python benchmarks/seed_intervals.py
"""

from __future__ import annotations

import numpy as np

from pdtools.evaluation.bootstrap import interval, of_sums
from pdtools.evaluation.comparison.statistics import Spread, common_variance, resample
from pdtools.report.tables import print_table

REPETITIONS, SAMPLES, ITEMS, TRUTH = 500, 200, 300, 0.04
NULLS = 4000  # simulations without a difference

_SHARE = of_sums(lambda sums: np.asarray(sums[..., 0] / sums[..., 1]))


def one(
    seeds: int, spread: float, rng: np.random.Generator
) -> tuple[tuple[float, float], tuple[float, float], tuple[float, float]]:
    """The three intervals of one simulated pair of models."""
    hard = rng.normal(0, 0.15, ITEMS)
    means = np.array([[0.6 + gain + rng.normal(0, spread)] for gain in (0.0, TRUTH) for _ in range(seeds)])
    right = (rng.random((2 * seeds, ITEMS)) < np.clip(means + hard, 0, 1)).T.astype(float)
    counts = np.stack([right, np.ones_like(right)], -1)
    units, runs = np.zeros(ITEMS, np.int64), np.eye(2 * seeds)

    resampled = resample(counts, units, _SHARE, runs, rng, SAMPLES)
    drawn = resampled.drawn[0]  # (samples, runs)
    mine, other = drawn[:, :seeds], drawn[:, seeds:]
    items = other.mean(1) - mine.mean(1)
    chosen = rng.integers(0, seeds, (2, SAMPLES, seeds))
    both = np.take_along_axis(other, chosen[1], 1).mean(1) - np.take_along_axis(mine, chosen[0], 1).mean(1)
    a, b = (right[:, :seeds].mean(0), right[:, seeds:].mean(0))
    common = sum(
        common_variance(resampled.variances[0, of].tolist(), float(drawn[:, of].mean(1).var(ddof=1)))
        for of in (slice(seeds), slice(seeds, None))
    )
    spread = Spread.of(float(items.var(ddof=1)), a.tolist(), b.tolist(), both=common)
    here = spread.interval(float(b.mean() - a.mean()))
    return here, interval(items), interval(both)


def misses(sizes: tuple[int, ...], seeds: float, hard: float | None, rng: np.random.Generator) -> bool:
    """Return whether the interval of a mean of runs, or of the difference of two such, misses the truth.

    Args:
        sizes: runs of each group.
        seeds: the deviation of a run's accuracy over seeds.
        hard: the deviation of items' difficulty for a group; None: there are no items, but scores.
        rng: source of the runs.
    """
    groups = [0.6 + rng.normal(0, seeds, size) for size in sizes]
    spread = Spread.of(0.0, *(group.tolist() for group in groups))
    centre = float(groups[0].mean() - (groups[1].mean() if len(sizes) > 1 else 0.6))
    if hard is not None:
        levels = np.concatenate([each[:, None] + rng.normal(0, hard, ITEMS) for each in groups])
        right = (rng.random(levels.shape) < levels).T.astype(float)
        counts = np.stack([right, np.ones_like(right)], -1)
        of = [slice(sizes[0]), slice(sizes[0], None)][: len(sizes)]
        weights = np.zeros((len(levels), len(of)))
        for group, members in enumerate(of):
            weights[members, group] = 1 / sizes[group]
        whole = np.zeros(ITEMS, np.int64)
        found = resample(counts, whole, _SHARE, weights, rng, SAMPLES)
        means, drawn = found.scores[0], found.drawn[0]
        both = sum(
            common_variance(found.variances[0, members].tolist(), float(drawn[:, group].var()))
            for group, members in enumerate(of)
        )
        difference = drawn @ np.array([1, -1][: len(of)])
        spread = Spread.of(float(difference.var()), *(means[each].tolist() for each in of), both=both)
        centre = float(means @ weights @ np.array([1, -1][: len(of)])) - (0.6 if len(of) == 1 else 0)
    low, high = spread.interval(centre)
    return not low <= 0 <= high


def print_misses() -> None:
    """Print a table of how often intervals miss, in percent; 5 is wanted."""
    kinds = {"no items": (0.03, None), "5 points": (0.03, 0.05), "25 points": (0.03, 0.25)}
    rows = []
    for sizes in ((2, 1), (3, 1), (5, 1), (2, 2), (3, 3), (2,), (3,), (5,)):
        rng = np.random.default_rng(sizes)
        shares = [
            100 * sum(misses(sizes, *kind, rng) for _ in range(NULLS)) / NULLS for kind in kinds.values()
        ]
        rows.append((" and ".join(map(str, sizes)), *shares))
    print_table(["runs", *kinds], rows, digits=1)


def main() -> None:
    """Print a table of coverages, in percent, of which 95 is wanted; then one of misses."""
    rows = []
    for spread in (0.01, 0.03):
        for seeds in (2, 3, 5, 10):
            rng = np.random.default_rng(seeds)
            found = [one(seeds, spread, rng) for _ in range(REPETITIONS)]
            covered = [
                100 * float(np.mean([low <= TRUTH <= high for low, high in each]))
                for each in zip(*found, strict=True)
            ]
            rows.append((f"{100 * spread:.0f} points", seeds, *covered))
    print_table(["deviation of seeds", "seeds", "here", "items", "resampled"], rows, digits=1)
    print_misses()


if __name__ == "__main__":
    main()
