"""Items of evaluations: their identity across results, and the numbers that their scores are sums of."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pdtools.errors import InputError, PdtoolsError
from pdtools.evaluation.record import MARGIN, Outcomes
from pdtools.evaluation.results import STRINGS_TABLE, check_columns, read_table

if TYPE_CHECKING:
    import numpy as np
    import pyarrow as pa
    from numpy.typing import NDArray

_KINDS = {"item": "names", "prediction": "integers"}
_OF_STRINGS = {
    "item": "names",
    "string": "strings",
    "region": "integers",
    "context": "strings",
    "text": "strings",
}


class ItemMismatchError(PdtoolsError):
    """Two runs are not over the same items."""


@dataclass(frozen=True, kw_only=True)
class RunItems:
    """The items of one run.

    Attributes:
        folder: the folder of the results.
        places: the row of each item, by its key.
        columns: the items' columns, by name; ``correct`` is None for an item without a score, and
            ``margin_bits``, of results that have it, for one without a margin. ``strings``, of results that
            have them: the texts of its strings.
    """

    folder: str | Path
    places: Mapping[tuple[Any, ...], int]
    columns: Mapping[str, list[Any]]

    @property
    def has_margins(self) -> bool:
        """Return whether an item has a margin: with ``--beam auto``, for one, none has."""
        return any(margin is not None for margin in self.columns.get(MARGIN, ()))


def read_items(table: pa.Table, folder: str | Path, outcomes: Outcomes) -> RunItems:
    """Read the items of an evaluation with right and wrong answers.

    Raises:
        InputError: for items that are not in the evaluation's form.
    """
    kinds = {name: _KINDS.get(name, "strings") for name in outcomes.columns}
    has_margins = outcomes.margin is not None and MARGIN in table.column_names
    kinds |= {"correct": "booleans"} | ({MARGIN: "numbers"} if has_margins else {})
    check_columns(table, kinds, folder)
    for name in (*outcomes.key, outcomes.unit):
        if table[name].null_count:
            raise InputError(f"items: column {name} has a null", file=folder)
    columns = {
        name: table[name].to_pylist() for name in (*outcomes.columns, *([MARGIN] if has_margins else []))
    }
    keys = list(zip(*(columns[name] for name in outcomes.key), strict=True))
    places = {key: place for place, key in enumerate(keys)}
    if len(places) < len(keys):
        raise InputError(f"items: two with the same {', '.join(outcomes.key)}", file=folder)
    if (strings := read_table(folder, STRINGS_TABLE, [outcomes.unit, *_OF_STRINGS])) is not None:
        check_columns(strings, {outcomes.unit: "strings", **_OF_STRINGS}, folder, what="strings")
        texts: dict[tuple[Any, ...], list[tuple[Any, ...]]] = {}
        listed = [strings[name].to_pylist() for name in (outcomes.unit, *_OF_STRINGS)]
        for unit, item, role, region, context, text in zip(*listed, strict=True):
            if region is not None or text:  # not the end, which only some models count
                texts.setdefault((unit, item), []).append((role, region, context, text))
        of_items = zip(columns[outcomes.unit], columns["item"], strict=True)
        columns[STRINGS_TABLE] = [texts.get(each) for each in of_items]
    return RunItems(folder=folder, places=places, columns=columns)


def check_same(first: RunItems, other: RunItems, outcomes: Outcomes) -> None:
    """Refuse a run over other items.

    Raises:
        ItemMismatchError: naming an item that only one of the two has, or that differs between them.
    """
    if first.places.keys() != other.places.keys():
        key = min(first.places.keys() ^ other.places.keys(), key=lambda key: tuple(map(str, key)))
        raise ItemMismatchError(
            f"{first.folder} and {other.folder} are not about the same items: only one has {_named(key)}"
        )
    both = first.columns.keys() & other.columns.keys() & {STRINGS_TABLE}
    for key, place in first.places.items():
        there = other.places[key]
        content = (*outcomes.content, *both)
        if any(first.columns[name][place] != other.columns[name][there] for name in content):
            raise not_the_same(_named(key), first.folder, other.folder)


def not_the_same(item: str, first: str | Path, other: str | Path) -> ItemMismatchError:
    """An error for an item that two runs describe differently."""
    return ItemMismatchError(f"{first} and {other}: item {item} is not the same in both")


def _named(key: tuple[Any, ...]) -> str:
    return " ".join(map(str, key))


def in_all(runs: Sequence[RunItems], column: str) -> list[list[Any]]:
    """A column of items in runs: (items, runs), items in the order of the first run."""
    return [[run.columns[column][run.places[key]] for run in runs] for key in runs[0].places]


def which_count(items: RunItems) -> NDArray[np.bool_]:
    """Mask of the items that count, bool (items): for SG, first predictions."""
    import numpy as np

    predictions = items.columns.get("prediction") or [1] * len(items.places)
    return np.array([prediction == 1 for prediction in predictions], dtype=bool)


def groups_of(
    outcomes: Outcomes, columns: Mapping[str, Sequence[Any]]
) -> list[tuple[str, str, NDArray[np.int64]]]:
    """Groups of items as (level, name, indices of items), overall first."""
    import numpy as np

    units = np.array(columns[outcomes.unit])
    in_overall = np.array([unit not in outcomes.outside for unit in units], dtype=bool)
    groups = [("overall", "", np.flatnonzero(in_overall))]
    for level in outcomes.levels:
        names = np.array(columns[level], dtype=object)
        groups += [
            (level, name, np.flatnonzero((names == name) & in_overall))
            for name in sorted(set(names[in_overall]) - {None})
        ]
    groups += [(outcomes.unit, str(name), np.flatnonzero(units == name)) for name in np.unique(units)]
    return [group for group in groups if len(group[2])]


def shares(sums: NDArray[np.float64]) -> NDArray[np.float64]:
    """The share of right answers, in percent."""
    return 100 * means(sums)


def means(sums: NDArray[np.float64]) -> NDArray[np.float64]:
    """The mean of a number."""
    return sums[..., 0] / sums[..., 1]
