"""The items of evaluations: how they are recognised in several results, and what their scores add up from."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pdtools.errors import InputError, PdtoolsError
from pdtools.evaluation.results import check_columns
from pdtools.evaluation.sg.circuits import LEFT_OUT

if TYPE_CHECKING:
    import numpy as np
    import pyarrow as pa
    from numpy.typing import NDArray

_INTEGERS = ("item", "prediction")


class OtherItemsError(PdtoolsError):
    """Two runs are not over the same items."""


@dataclass(frozen=True, kw_only=True)
class Task:
    """How the items of an evaluation that are right or wrong are recognised and grouped.

    Attributes:
        score: what the overall score is called, with its unit.
        key: the columns that name an item.
        content: columns that have to agree for items of one name.
        unit: what the overall score is a mean of.
        levels: coarser groups, means of their units.
    """

    score: str
    key: tuple[str, ...]
    content: tuple[str, ...]
    unit: str
    levels: tuple[str, ...]

    @property
    def columns(self) -> tuple[str, ...]:
        """All that is read of the items."""
        return (*dict.fromkeys((*self.key, *self.content, self.unit, *self.levels)), "correct")


TASKS = {
    "blimp": Task(
        score="BLiMP accuracy (%)",
        key=("paradigm", "pair"),
        content=("sentence_good", "sentence_bad"),
        unit="paradigm",
        levels=("field", "phenomenon"),
    ),
    "sg": Task(
        score="SG score, mean of suites (%)",
        key=("suite", "item", "prediction"),
        content=("formula",),
        unit="suite",
        levels=("circuit",),
    ),
}


@dataclass(frozen=True, kw_only=True)
class Outcomes:
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


def read_outcomes(tables: Sequence[pa.Table], folders: Sequence[str | Path], task: Task) -> Outcomes:
    """The items of several runs, in the order of the first.

    Raises:
        InputError: for items that are not what the evaluation writes.
        OtherItemsError: if they are not the same in all runs.
    """
    first, columns = _by_key(tables[0], folders[0], task)
    correct = [columns.pop("correct")]
    for table, folder in zip(tables[1:], folders[1:], strict=True):
        places, other = _by_key(table, folder, task)
        if first.keys() != places.keys():
            key = min(first.keys() ^ places.keys(), key=lambda key: tuple(map(str, key)))
            named = " ".join(map(str, key))
            raise OtherItemsError(
                f"{folders[0]} and {folder} are not about the same items: only one has {named}"
            )
        for key, place in first.items():
            if any(columns[name][place] != other[name][places[key]] for name in task.content):
                named = " ".join(map(str, key))
                raise OtherItemsError(f"{folders[0]} and {folder}: item {named} is not the same in both")
        correct.append([other["correct"][places[key]] for key in first])
    columns.setdefault("prediction", [1] * len(first))
    return Outcomes(columns=columns, correct=tuple(correct))


def _by_key(
    table: pa.Table, folder: str | Path, task: Task
) -> tuple[dict[tuple[Any, ...], int], dict[str, list[Any]]]:
    kinds = {name: "integers" if name in _INTEGERS else "strings" for name in task.columns}
    check_columns(table, {**kinds, "correct": "booleans"}, folder)
    for name in (*task.key, task.unit):
        if table[name].null_count:
            raise InputError(f"items: column {name} has a null", file=folder)
    columns = {name: table[name].to_pylist() for name in task.columns}
    keys = list(zip(*(columns[name] for name in task.key), strict=True))
    places = {key: place for place, key in enumerate(keys)}
    if len(places) < len(keys):
        raise InputError(f"items: two with the same {', '.join(task.key)}", file=folder)
    return places, columns


def groups_of(task: Task, columns: Mapping[str, Sequence[Any]]) -> list[tuple[str, str, NDArray[np.int64]]]:
    """(level, name, indices of items), overall first."""
    import numpy as np

    units = np.array(columns[task.unit])
    in_overall = ~np.isin(units, sorted(LEFT_OUT))
    groups = [("overall", "", np.flatnonzero(in_overall))]
    for level in task.levels:
        names = np.array(columns[level], dtype=object)
        groups += [
            (level, name, np.flatnonzero((names == name) & in_overall))
            for name in sorted(set(names[in_overall]) - {None})
        ]
    groups += [(task.unit, str(name), np.flatnonzero(units == name)) for name in np.unique(units)]
    return [group for group in groups if len(group[2])]


# --- scores that are made of sums over items ------------------------------------------------------


@dataclass(frozen=True, kw_only=True)
class Sums:
    """A score of sums over items.

    Attributes:
        key: the column that names an item.
        columns: of the items, what is added up.
        score: sums (…, m) to the score (…).
        only: of items whose column is so.
    """

    key: str
    columns: tuple[str, ...]
    score: Callable[[NDArray[np.float64]], NDArray[np.float64]]
    only: tuple[str, str] | None = None

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


def shares(sums: NDArray[np.float64]) -> NDArray[np.float64]:
    """Right answers of all, in percent."""
    return 100 * sums[..., 0] / sums[..., 1]


def _f1(sums: NDArray[np.float64]) -> NDArray[np.float64]:
    """Of matched, gold and predicted brackets: 2 · matched / (gold + predicted), in percent."""
    import numpy as np

    return 200 * sums[..., 0] / np.maximum(sums[..., 1] + sums[..., 2], 1)


def _perplexity(sums: NDArray[np.float64]) -> NDArray[np.float64]:
    """Of log-probabilities and words."""
    import numpy as np

    return np.exp(-sums[..., 0] / np.maximum(sums[..., 1], 1))


def _perplexity_without_ends(sums: NDArray[np.float64]) -> NDArray[np.float64]:
    """Of log-probabilities and words, and of how much of them is ends of sentences."""
    import numpy as np

    return np.exp(-(sums[..., 0] - sums[..., 2]) / np.maximum(sums[..., 1] - sums[..., 3], 1))


F1 = Sums(key="line", columns=("matched", "gold", "predicted"), score=_f1, only=("status", "scored"))
PERPLEXITIES = {
    "ppl_word_given_trees": Sums(key="id", columns=("given_tree", "words"), score=_perplexity),
    "ppl_word_marginal": Sums(key="id", columns=("marginal", "words"), score=_perplexity),
    "ppl_token_masked": Sums(key="id", columns=("masked", "tokens"), score=_perplexity),
    "ppl_word_without_eos_given_trees": Sums(
        key="id", columns=("given_tree", "words", "end_given_tree", "ends"), score=_perplexity_without_ends
    ),
    "ppl_word_without_eos_marginal": Sums(
        key="id", columns=("marginal", "words", "end_marginal", "ends"), score=_perplexity_without_ends
    ),
}
