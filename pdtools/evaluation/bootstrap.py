"""The bootstrap over items: scores on samples of items, and their interval."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from pdtools.evaluation.record import Statistic

CONFIDENCE = 0.95
FEWEST = 10
"""The fewest items whose bootstrap is given as an interval: those of fewer are too narrow, or of no width."""
FEW_ITEMS = (
    f"no interval over items: with fewer than {FEWEST}, beyond one of each unit, it would be too narrow"
)
_AT_ONCE = 1 << 21  # numbers of a bootstrap in memory at the same time


def drawn_scores(
    numbers: NDArray[np.float64], statistic: Statistic, rng: np.random.Generator, samples: int
) -> Iterator[NDArray[np.float64]]:
    """Draw bootstrap samples of items, with replacement, and score every run on each.

    Args:
        numbers: (items, R, m), the numbers of each item in each run.
        statistic: computes a score from them.
        rng: source of the samples.
        samples: number of samples.

    Yields:
        (some samples, R), scores of every run on the same samples; without samples on which a run has none.
    """
    import numpy as np

    n, n_runs, n_numbers = numbers.shape
    # Equal items are drawn together: their counts are multinomial.
    kinds, times = np.unique(numbers.reshape(n, -1), axis=0, return_counts=True)
    step = max(1, _AT_ONCE // max(len(kinds), n_runs * n_numbers))
    for first in range(0, samples, step):
        taken = rng.multinomial(n, times / n, size=min(step, samples - first))  # (step, kinds)
        scores = statistic(kinds.reshape(-1, n_runs, n_numbers), taken)
        yield scores[np.isfinite(scores).all(1)]


def bootstrap(
    numbers: NDArray[np.float64], statistic: Statistic, rng: np.random.Generator, samples: int
) -> NDArray[np.float64]:
    """Bootstrap scores of one run, whose items have the numbers (items, m), on samples that have a score."""
    import numpy as np

    return np.concatenate(list(drawn_scores(numbers[:, None], statistic, rng, samples)))[:, 0]


def are_few(items: int, units: int = 1) -> bool:
    """Return whether items are too few for an interval; of a unit, the first adds nothing to its width."""
    return items - units < FEWEST - 1


def interval(drawn: NDArray[np.float64]) -> tuple[float, float]:
    """The percentile interval of a bootstrap's samples."""
    import numpy as np

    low, high = np.quantile(drawn, [(1 - CONFIDENCE) / 2, (1 + CONFIDENCE) / 2])
    return float(low), float(high)
