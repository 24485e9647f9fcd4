"""Scores that are functions of sums over items."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from pdtools.evaluation.results import check_columns

if TYPE_CHECKING:
    import numpy as np
    import pyarrow as pa
    from numpy.typing import NDArray


@dataclass(frozen=True, kw_only=True)
class Sums:
    """Sums of columns of items; see :class:`pdtools.evaluation.record.ItemSums`.

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
    score: Callable[[NDArray[np.float64]], NDArray[np.float64]]
    only: tuple[str, str] | None = None
    items: str = "sentences"
    is_share: bool = False

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
