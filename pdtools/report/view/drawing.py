"""How a page draws an evaluation: a list of its items, and what only this evaluation has."""

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
"""The list of items, as the page's script takes it: its ``groups``; of each item its ``group``, its ``id``
and its ``texts`` by name, of which the first ``listed`` stand in the list, and all below an item if
``unfolded``; of each model ``outcomes`` (1, 0, None; or numbers), and perhaps ``margins``, surprisals of
``tokens`` (of texts' ``sides``) or ``regions``, the ``pair`` of texts that are compared, and a ``note``."""

MOST_WITH_TOKENS = 5_000
"""Items whose tokens' surprisals a page holds."""
BITS = 1 / math.log(2)
"""Bits in a nat."""


@dataclass(frozen=True, kw_only=True)
class Drawing:
    """The drawing of an evaluation, which its record names.

    Attributes:
        key: the columns that name an item, where the record has no outcomes.
        columns: of the items what is drawn, beside what comparisons read, and what they hold.
        optional: the same of columns that may be missing.
        items: the list of items, from a row for each (``@i`` ends the columns of model i) and the results;
            None: there is no list.
        outcome: the column that models agree or disagree in.
        is_right: whether items are right or wrong, not numbers.
        parts: what else a section holds, and what is packed beside it, from the results and those rows.
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
    """The drawing that a record names; without one, items that are right or wrong are listed."""
    if record.drawing is not None:
        module, _, name = record.drawing.partition(":")
        found: Drawing = getattr(import_module(module), name)
        return found
    if record.outcomes is None:
        return Drawing()
    of_texts = dict.fromkeys((f"surprisals_{name}" for name in record.outcomes.content), "tokens")
    return Drawing(items=partial(listed_items, record.outcomes), optional=of_texts)


def listed_items(outcomes: Outcomes, items: pd.DataFrame, of_task: Sequence[Loaded]) -> Items:
    """Items that are right or wrong: units are their groups, ``content`` are their texts."""
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
    """Surprisals of the tokens of these texts, in bits, of the models that have them; perhaps nothing."""
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
    """Tokens, and their surprisals in bits; None of a sentence without a score (pandas' NaN)."""
    if not isinstance(rows, Iterable):
        return None
    listed = list(rows)
    nats = [row["surprisal"] for row in listed]
    return [
        [str(row["token"]) for row in listed],
        [None if each is None else rounded(each * BITS, 2) for each in nats],
    ]


def grouped(column: pd.Series) -> Items:
    """The different groups, and which of them each item is in."""
    names, group = np.unique(column.to_numpy(str), return_inverse=True)
    return {"groups": names.tolist(), "group": group.tolist()}


def column_of(items: pd.DataFrame, name: str) -> pd.Series:
    """A column that all models have alike."""
    return items[name] if name in items else items[f"{name}@0"]


def outcomes_of(column: pd.Series) -> list[int | None]:
    """Right or wrong; None where there is no score."""
    return [None if value is None or value != value else int(value) for value in column.tolist()]


def numbers_of(column: pd.Series, digits: int) -> list[float | None]:
    """Rounded numbers; None where there is none."""
    return [None if value != value else value for value in column.astype(float).round(digits).tolist()]


def rounded(value: float, digits: int = 4) -> float:
    """A number as pages hold it."""
    return round(float(value), digits)


def check_there(
    table: pa.Table, columns: Mapping[str, str], optional: Mapping[str, str], folder: Path, what: str
) -> None:
    """:func:`check_columns` of columns that have to be there, and of those that may be missing.

    Raises:
        InputError: see there.
    """
    there = {name: kind for name, kind in optional.items() if name in table.column_names}
    check_columns(table, {**columns, **there}, folder, what=what)
