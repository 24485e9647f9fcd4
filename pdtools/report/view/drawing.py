"""The drawing of an evaluation on a page: a list of its items, and its own charts."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from importlib import import_module
from typing import TYPE_CHECKING, Any

import numpy as np

from pdtools.evaluation.record import Evaluation, Outcomes
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

MOST_WITH_TOKENS = 5_000
"""The number of items whose tokens' surprisals a page holds."""
BITS = 1 / math.log(2)
"""Bits in a nat."""


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
        check_there(table, self.columns, self.optional, folder, "items")


def drawing_of(record: Evaluation) -> Drawing:
    """The drawing that a record names; else a list of items that are right or wrong."""
    if record.drawing is not None:
        module, _, name = record.drawing.partition(":")
        found: Drawing = getattr(import_module(module), name)
        return found
    if record.outcomes is None:
        return Drawing()
    of_texts = dict.fromkeys((f"surprisals_{name}" for name in record.outcomes.content), "tokens")
    return Drawing(items=partial(listed_items, record.outcomes), optional=of_texts)


def listed_items(outcomes: Outcomes, items: pd.DataFrame, of_task: Sequence[Loaded]) -> Items:
    """The list of items that are right or wrong: units are their groups, ``content`` are their texts."""
    texts = {name: _texts(column_of(items, name)) for name in outcomes.content}
    rest = [name for name in outcomes.key if name != outcomes.unit] or [outcomes.unit]
    names = [column_of(items, name).astype(str).tolist() for name in rest]
    return {
        **grouped(column_of(items, outcomes.unit)),
        "id": [" ".join(each) for each in zip(*names, strict=True)],
        "texts": texts,
        "listed": len(texts),
        "outcomes": [outcomes_of(items[f"correct@{i}"]) for i in range(len(of_task))],
        **tokens_of(items, of_task, outcomes.content),
    }


def _texts(column: pd.Series) -> list[str | None]:
    return [str(text) if known else None for text, known in zip(column, column.notna(), strict=True)]


def tokens_of(items: pd.DataFrame, of_task: Sequence[Loaded], names: Sequence[str]) -> Items:
    """Surprisals of these texts' tokens, in bits, for models that have them; perhaps none."""
    sides = [name for name in names if any(f"surprisals_{name}@{i}" in items for i in range(len(of_task)))]
    with_tokens = [
        i for i in range(len(of_task)) if sides and all(f"surprisals_{side}@{i}" in items for side in sides)
    ]
    if not with_tokens:
        return {}
    shown = items.head(MOST_WITH_TOKENS)
    tokens = {
        str(i): [
            [*map(_token_bits, of_item)]
            for of_item in zip(*(shown[f"surprisals_{side}@{i}"] for side in sides), strict=True)
        ]
        for i in with_tokens
    }
    return {"sides": sides, "tokens": tokens}


def _token_bits(rows: Any) -> list[Any] | None:
    """Tokens, and their surprisals in bits; None for a sentence without a score (pandas' NaN)."""
    if not isinstance(rows, Iterable):
        return None
    listed = list(rows)
    nats = [row["surprisal"] for row in listed]
    return [
        [str(row["token"]) for row in listed],
        [None if each is None else rounded(each * BITS, 2) for each in nats],
    ]


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


def check_there(
    table: pa.Table, columns: Mapping[str, str], optional: Mapping[str, str], folder: Path, what: str
) -> None:
    """Run :func:`check_columns` for required columns, and for optional ones that are there.

    Raises:
        InputError: see there.
    """
    there = {name: kind for name, kind in optional.items() if name in table.column_names}
    check_columns(table, {**columns, **there}, folder, what=what)
