"""Scores that are functions of items, mostly of sums over these."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from pdtools.evaluation.record import Statistic
from pdtools.evaluation.results import check_columns

if TYPE_CHECKING:
    import numpy as np
    import pyarrow as pa
    from numpy.typing import NDArray


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
