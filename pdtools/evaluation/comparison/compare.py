"""Two models on the same items: differences, and whether they could be chance."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pdtools.errors import InputError, PdtoolsError
from pdtools.evaluation.comparison.comparability import comparability
from pdtools.evaluation.results import check_columns, read_results
from pdtools.evaluation.sg.circuits import LEFT_OUT

if TYPE_CHECKING:
    import numpy as np
    import pyarrow as pa
    from numpy.typing import NDArray

DEFAULT_SAMPLES = 10_000
_CONFIDENCE = 0.95
_INTEGERS = ("item", "prediction")


class _OtherItems(PdtoolsError):
    """Two runs are not over the same items."""


@dataclass(frozen=True, kw_only=True)
class _Task:
    """How the items of an evaluation are recognised and grouped.

    Attributes:
        key: the columns that name an item.
        content: columns that have to agree for items of one name.
        unit: what the overall score is a mean of.
        levels: coarser groups, means of their units.
    """

    key: tuple[str, ...]
    content: tuple[str, ...]
    unit: str
    levels: tuple[str, ...]


_TASKS = {
    "blimp": _Task(
        key=("paradigm", "pair"),
        content=("sentence_good", "sentence_bad"),
        unit="paradigm",
        levels=("field", "phenomenon"),
    ),
    "sg": _Task(key=("suite", "item", "prediction"), content=("formula",), unit="suite", levels=("circuit",)),
}


@dataclass(frozen=True, kw_only=True, slots=True)
class Difference:
    """The scores a and b of one group of items in two runs, as fractions of 1.

    Attributes:
        level, name: which group.
        items: how many items both runs have scored.
        a, b: the scores, over those items: the mean of the group's units (paradigms, suites).
        low, high: 95% interval of b − a, by a bootstrap over items, paired and stratified by unit.
        only_a, only_b: items that only one of them has right.
        p: McNemar's exact test on those, two-sided.
    """

    level: str
    name: str
    items: int
    a: float
    b: float
    low: float
    high: float
    only_a: int
    only_b: int
    p: float

    @property
    def difference(self) -> float:
        """b − a."""
        return self.b - self.a


def compare_runs(
    a: str | Path, b: str | Path, *, seed: int = 0, samples: int = DEFAULT_SAMPLES
) -> dict[str, Any]:
    """Compare two results folders of ``eval-blimp`` or ``eval-sg``, item by item.

    Items that one run could not score are left out of both, and counted. Of SG, the first prediction of
    each suite counts, and the suites that the SG score leaves out are not part of ``overall``.

    Args:
        a, b: the folders.
        seed: of the bootstrap.
        samples: bootstrap samples.

    Returns:
        ``task``, ``groups`` (a :class:`Difference` each: overall, then by level), ``counts``, ``settings``,
        and ``notes``: in words, what differs in how the two were made and changes their scores.

    Raises:
        PdtoolsError: if the two are not runs over the same items.
    """
    import numpy as np

    (document_a, table_a), (document_b, table_b) = read_results(a), read_results(b)
    task_name = _task_name(document_a, a)
    if _task_name(document_b, b) != task_name:
        raise PdtoolsError(f"{a} and {b} are results of different evaluations")
    task = _TASKS[task_name]
    compared = comparability(document_a, document_b)
    notes = compared.notes
    try:  # the items name what is not the same, if they know
        columns = _paired(table_a, table_b, task, a, b)
    except _OtherItems as error:
        raise PdtoolsError("; ".join([str(error), *notes])) from None
    if compared.refused is not None:
        raise InputError(f"results of {compared.refused} than {a}", file=b)
    counted = np.array([prediction == 1 for prediction in columns["prediction"]])
    known = np.array(
        [x is not None and y is not None for x, y in zip(columns["a"], columns["b"], strict=True)]
    )
    keep = np.flatnonzero(counted & known)
    if not len(keep):
        raise PdtoolsError(f"{a} and {b} have no item that both could score")
    some = f"only the {len(keep)} of {int(counted.sum())} items that both could score"
    left_out = [some] if len(keep) < counted.sum() else []
    right_a = np.array([columns["a"][i] for i in keep], dtype=np.int8)
    right_b = np.array([columns["b"][i] for i in keep], dtype=np.int8)
    rng = np.random.default_rng(seed)
    groups = [
        _difference(
            level, name, members, [columns[task.unit][i] for i in keep], right_a, right_b, rng, samples
        )
        for level, name, members in _groups(
            task, {c: [columns[c][i] for i in keep] for c in (*task.levels, task.unit)}
        )
    ]
    return {
        "task": task_name,
        "groups": groups,
        "notes": notes + left_out,
        "counts": {"items": int(counted.sum()), "items_compared": len(keep)},
        "settings": {
            "seed": seed,
            "bootstrap_samples": samples,
            "confidence": _CONFIDENCE,
            "test": "McNemar, exact, two-sided",
        },
    }


def mcnemar(only_a: int, only_b: int) -> float:
    """Two-sided exact p of McNemar's test: is one of two discordant counts larger than chance makes it?"""
    n, k = only_a + only_b, min(only_a, only_b)
    tail = term = 1  # binomial coefficients, as exact integers: floats underflow from n = 1,100 on
    for i in range(k):
        term = term * (n - i) // (i + 1)
        tail += term
    return min(1.0, 2 * tail / 2**n)


def _task_name(document: dict[str, Any], folder: str | Path) -> str:
    task = document.get("settings", {}).get("task")
    if task not in _TASKS:
        raise InputError("not results of eval-blimp or eval-sg", file=folder)
    return str(task)


def _paired(
    table_a: pa.Table, table_b: pa.Table, task: _Task, a: str | Path, b: str | Path
) -> dict[str, list[Any]]:
    """Columns of the items, in the order of the first table, with both runs' results as ``a`` and ``b``."""
    wanted = (*dict.fromkeys((*task.key, *task.content, task.unit, *task.levels)), "correct")
    rows: list[dict[tuple[Any, ...], dict[str, Any]]] = []
    for table, folder in ((table_a, a), (table_b, b)):
        kinds = {name: "integers" if name in _INTEGERS else "strings" for name in wanted}
        check_columns(table, {**kinds, "correct": "booleans"}, folder)
        for name in (*task.key, task.unit):
            if table[name].null_count:
                raise InputError(f"items: column {name} has a null", file=folder)
        listed = table.select(list(wanted)).to_pylist()
        rows.append({tuple(row[name] for name in task.key): row for row in listed})
        if len(rows[-1]) < len(listed):
            raise InputError(f"items: two with the same {', '.join(task.key)}", file=folder)
    first, second = rows
    if first.keys() != second.keys():
        key = min(first.keys() ^ second.keys(), key=lambda key: tuple(map(str, key)))
        raise _OtherItems(f"{a} and {b} are not about the same items: only one has {' '.join(map(str, key))}")
    for key, row in first.items():
        if any(row[name] != second[key][name] for name in task.content):
            raise _OtherItems(f"{a} and {b}: item {' '.join(map(str, key))} is not the same in both")
    columns = {name: [row[name] for row in first.values()] for name in wanted}
    columns.setdefault("prediction", [1] * len(first))
    columns["a"] = columns.pop("correct")
    columns["b"] = [second[key]["correct"] for key in first]
    return columns


def _groups(task: _Task, columns: dict[str, list[Any]]) -> list[tuple[str, str, NDArray[np.int64]]]:
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


def _difference(
    level: str,
    name: str,
    members: NDArray[np.int64],
    units: Sequence[str],
    right_a: NDArray[np.int8],
    right_b: NDArray[np.int8],
    rng: np.random.Generator,
    samples: int,
) -> Difference:
    import numpy as np

    a, b = right_a[members], right_b[members]
    unit = np.unique([units[i] for i in members], return_inverse=True)[1]
    totals = []
    resampled = np.zeros(samples)
    for u in range(unit.max() + 1):
        inside = unit == u
        n = int(inside.sum())
        difference = b[inside].astype(int) - a[inside]
        totals.append((a[inside].mean(), b[inside].mean()))
        # A bootstrap sample of n paired differences is a multinomial draw of how often each value occurs.
        shares = np.array([(difference == value).sum() for value in (-1, 0, 1)]) / n
        drawn = rng.multinomial(n, shares, size=samples)  # (samples, 3)
        resampled += (drawn[:, 2] - drawn[:, 0]) / n
    resampled /= len(totals)
    low, high = np.quantile(resampled, [(1 - _CONFIDENCE) / 2, (1 + _CONFIDENCE) / 2])
    only_a, only_b = int(((a == 1) & (b == 0)).sum()), int(((a == 0) & (b == 1)).sum())
    return Difference(
        level=level,
        name=name,
        items=len(members),
        a=float(np.mean([x for x, _ in totals])),
        b=float(np.mean([y for _, y in totals])),
        low=float(low),
        high=float(high),
        only_a=only_a,
        only_b=only_b,
        p=mcnemar(only_a, only_b),
    )
