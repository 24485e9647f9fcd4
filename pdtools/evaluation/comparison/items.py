"""The items of evaluations: how they are recognised in several results, and what their scores add up from."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pdtools.errors import InputError, PdtoolsError
from pdtools.evaluation.record import Outcomes, evaluations
from pdtools.evaluation.results import check_columns

if TYPE_CHECKING:
    import numpy as np
    import pyarrow as pa
    from numpy.typing import NDArray

_INTEGERS = ("item", "prediction")


class OtherItemsError(PdtoolsError):
    """Two runs are not over the same items."""


@dataclass(frozen=True, kw_only=True)
class Answered:
    """The items of an evaluation, and which of them each run has right.

    Attributes:
        columns: what is known of them, by name; ``prediction`` is 1 of items that have no number there.
        correct: of each run, in the order of the columns; None where an item has no score.
    """

    columns: Mapping[str, list[Any]]
    correct: tuple[list[bool | None], ...]

    def scored(self) -> tuple[NDArray[np.bool_], NDArray[np.bool_]]:
        """Which items count (of SG, first predictions), and which of these every run has scored."""
        import numpy as np

        counted = np.array([prediction == 1 for prediction in self.columns["prediction"]], dtype=bool)
        known = np.array([None not in each for each in zip(*self.correct, strict=True)], dtype=bool)
        return counted, counted & known


def columns_read() -> set[str]:
    """The columns of items that comparisons read, of all evaluations."""
    found = {"status"}
    for record in evaluations().values():
        found.update(record.columns, record.outcomes.columns if record.outcomes else ())
    return found


def read_outcomes(tables: Sequence[pa.Table], folders: Sequence[str | Path], outcomes: Outcomes) -> Answered:
    """The items of several runs, in the order of the first.

    Raises:
        InputError: for items that are not what the evaluation writes.
        OtherItemsError: if they are not the same in all runs.
    """
    first, columns = _by_key(tables[0], folders[0], outcomes)
    correct = [columns.pop("correct")]
    for table, folder in zip(tables[1:], folders[1:], strict=True):
        places, other = _by_key(table, folder, outcomes)
        if first.keys() != places.keys():
            key = min(first.keys() ^ places.keys(), key=lambda key: tuple(map(str, key)))
            named = " ".join(map(str, key))
            raise OtherItemsError(
                f"{folders[0]} and {folder} are not about the same items: only one has {named}"
            )
        for key, place in first.items():
            if any(columns[name][place] != other[name][places[key]] for name in outcomes.content):
                named = " ".join(map(str, key))
                raise OtherItemsError(f"{folders[0]} and {folder}: item {named} is not the same in both")
        correct.append([other["correct"][places[key]] for key in first])
    columns.setdefault("prediction", [1] * len(first))
    return Answered(columns=columns, correct=tuple(correct))


def _by_key(
    table: pa.Table, folder: str | Path, outcomes: Outcomes
) -> tuple[dict[tuple[Any, ...], int], dict[str, list[Any]]]:
    kinds = {name: "integers" if name in _INTEGERS else "strings" for name in outcomes.columns}
    check_columns(table, {**kinds, "correct": "booleans"}, folder)
    for name in (*outcomes.key, outcomes.unit):
        if table[name].null_count:
            raise InputError(f"items: column {name} has a null", file=folder)
    columns = {name: table[name].to_pylist() for name in outcomes.columns}
    keys = list(zip(*(columns[name] for name in outcomes.key), strict=True))
    places = {key: place for place, key in enumerate(keys)}
    if len(places) < len(keys):
        raise InputError(f"items: two with the same {', '.join(outcomes.key)}", file=folder)
    return places, columns


def groups_of(
    outcomes: Outcomes, columns: Mapping[str, Sequence[Any]]
) -> list[tuple[str, str, NDArray[np.int64]]]:
    """(level, name, indices of items), overall first."""
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
    """Right answers of all, in percent."""
    return 100 * sums[..., 0] / sums[..., 1]
