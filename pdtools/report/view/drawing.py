"""The drawing of an evaluation on a page: a list of its items, and its own charts."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np

from pdtools.evaluation.results import check_columns

if TYPE_CHECKING:
    from pathlib import Path

    import pandas as pd
    import pyarrow as pa

    from pdtools.report.view.loaded import Loaded

Items = dict[str, Any]
"""The list of items for the page's script.

It has its ``groups``; for each item its ``group``, its ``id`` and its ``texts`` by name, of which the first
``listed`` are in the list, and all below an item if ``unfolded``; for each model ``outcomes`` (1, 0, None; or
numbers), and perhaps ``margins``, surprisals of ``tokens`` (of texts' ``sides``) or ``regions``, the ``pair``
of compared texts, and a ``note``.
"""


@dataclass(frozen=True, kw_only=True)
class Drawing:
    """The drawing of an evaluation, which its record names.

    Attributes:
        key: the columns that name an item, if the record has no outcomes.
        columns: columns of the items to be drawn, besides those that comparisons read, and their contents.
        optional: the same for columns that may be missing.
        items: makes the list of items from a row for each (``@i`` ends the columns of model i) and the
            results; None: there is no list.
        outcome: the column in which models agree or disagree.
        is_right: whether items are right or wrong, not numbers.
        parts: makes further contents of a section, and data packed beside it, from the results and those
            rows.
    """

    key: tuple[str, ...] = ()
    columns: Mapping[str, str] = field(default_factory=dict)
    optional: Mapping[str, str] = field(default_factory=dict)
    items: Callable[[pd.DataFrame, Sequence[Loaded]], Items] | None = None
    outcome: str = "correct"
    is_right: bool = True
    parts: Callable[[Sequence[Loaded], pd.DataFrame | None], tuple[dict[str, Any], dict[str, Any]]] | None = (
        None
    )

    def check(self, table: pa.Table, folder: Path) -> None:
        """Refuse a table of items that cannot be drawn.

        Raises:
            InputError: see :func:`check_columns`.
        """
        there = {name: kind for name, kind in self.optional.items() if name in table.column_names}
        check_columns(table, {**self.columns, **there}, folder)


def grouped(column: pd.Series) -> Items:
    """The different groups, and the group of each item."""
    names, group = np.unique(column.to_numpy(str), return_inverse=True)
    return {"groups": names.tolist(), "group": group.tolist()}


def column_of(items: pd.DataFrame, name: str) -> pd.Series:
    """A column with equal values for all models."""
    return items[name] if name in items else items[f"{name}@0"]


def outcomes_of(column: pd.Series) -> list[int | None]:
    """Right or wrong; None without a score."""
    return [None if value is None or value != value else int(value) for value in column.tolist()]


def numbers_of(column: pd.Series, digits: int) -> list[float | None]:
    """Rounded numbers; None where missing."""
    return [None if value != value else value for value in column.astype(float).round(digits).tolist()]


def rounded(value: float, digits: int = 4) -> float:
    """A number rounded for a page."""
    return round(float(value), digits)
