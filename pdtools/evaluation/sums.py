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
"""Sums (…, m) to scores (…); NaN where there is none."""


def of_sums(score: SumScore) -> Statistic:
    """A score that is a function of sums over items, on samples of these."""

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
        columns: of the items, what is added up.
        score: sums (…, m) to the score (…).
        only: of items whose column is so.
        items: what an item is, in the plural.
        is_share: whether the first column says that an item is right.
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
        """What each item adds; None if the table does not have it.

        Raises:
            InputError: if a column holds something else.
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
