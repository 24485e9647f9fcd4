"""The bootstrap over items: scores that are functions of items, mostly of sums, on samples of these."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from pdtools.evaluation.record import Statistic
from pdtools.evaluation.results import check_columns

if TYPE_CHECKING:
    import numpy as np
    import pyarrow as pa
    from numpy.typing import NDArray

CONFIDENCE = 0.95
FEWEST = 10
"""The fewest items whose bootstrap is given as an interval: those of fewer are too narrow, or of no width."""
FEW_ITEMS = (
    f"no interval over items: it takes {FEWEST}, and one more for each paradigm or suite but the first"
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


SumScore = Callable[["NDArray[np.float64]"], "NDArray[np.float64]"]
"""Scores (…) from sums (…, m); NaN where undefined."""


def of_sums(score: SumScore) -> Statistic:
    """Make a statistic on samples of items from a function of sums over them."""

    def statistic(numbers: NDArray[np.float64], times: NDArray[np.int64] | None) -> NDArray[np.float64]:
        if times is None:
            return score(numbers.sum(0, keepdims=True))
        return score((times @ numbers.reshape(len(numbers), -1)).reshape(len(times), *numbers.shape[1:]))

    return statistic


@dataclass(frozen=True, kw_only=True)
class Sums:
    """Sums of columns of items; see :class:`pdtools.evaluation.record.ItemScore`.

    Attributes:
        key: the column that names an item.
        columns: the items' columns to be summed.
        score: the function from sums (…, m) to the score (…).
        only: a column's required value, to select items.
        items: the name of items, in the plural.
        is_share: whether the first column tells that an item is right.
    """

    key: str
    columns: tuple[str, ...]
    score: SumScore
    only: tuple[str, str] | None = None
    items: str = "sentences"
    is_share: bool = False
    content = ()

    @property
    def statistic(self) -> Statistic:
        """See :class:`pdtools.evaluation.record.ItemScore`."""
        return of_sums(self.score)

    def read(self, table: pa.Table, folder: str | Path) -> dict[int, tuple[float, ...]] | None:
        """The numbers of each item, to be summed; None if the table lacks them.

        Raises:
            InputError: if a column holds values of another kind.
        """
        import pyarrow.compute as pc

        if not {self.key, *self.columns, *(self.only or ())[:1]} <= set(table.column_names):
            return None
        check_columns(table, {self.key: "integers", **dict.fromkeys(self.columns, "numbers")}, folder)
        if self.only is not None:
            name, value = self.only
            check_columns(table, {name: "strings"}, folder)
            table = table.filter(pc.equal(table[name], value))
        if any(table[name].null_count for name in self.columns):
            return None
        rows = zip(*(table[name].to_pylist() for name in self.columns), strict=True)
        return dict(zip(table[self.key].to_pylist(), rows, strict=True))
