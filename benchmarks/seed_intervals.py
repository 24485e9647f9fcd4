"""How often intervals over seeds and items hold the true difference, in simulations.

Two models of the same items; items are hard or easy for both, seeds of a model differ. ``here`` is how
pdtools compare makes intervals (docs/reference/scoring.md); ``items`` lets the seeds be as they are;
``resampled`` draws seeds and items with replacement and takes percentiles, as a hierarchical bootstrap does.

    python benchmarks/seed_intervals.py
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from pdtools.evaluation.comparison.statistics import Spread, common_variance, interval, resample
from pdtools.report.tables import print_table

REPETITIONS, SAMPLES, ITEMS, TRUTH = 500, 200, 300, 0.04


def one(
    seeds: int, spread: float, rng: np.random.Generator
) -> tuple[tuple[float, float], tuple[float, float], tuple[float, float]]:
    """The three intervals of one simulated pair of models."""
    hard = rng.normal(0, 0.15, ITEMS)
    means = np.array([[0.6 + gain + rng.normal(0, spread)] for gain in (0.0, TRUTH) for _ in range(seeds)])
    right = (rng.random((2 * seeds, ITEMS)) < np.clip(means + hard, 0, 1)).T.astype(float)
    counts = np.stack([right, np.ones_like(right)], -1)
    units, runs = np.zeros(ITEMS, np.int64), np.eye(2 * seeds)

    def share(sums: NDArray[np.float64]) -> NDArray[np.float64]:
        return np.asarray(sums[..., 0] / sums[..., 1])

    resampled = resample(counts, units, share, runs, rng, SAMPLES)
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


def main() -> None:
    """Print a table of coverages, in percent; 95 is wanted."""
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


if __name__ == "__main__":
    main()
