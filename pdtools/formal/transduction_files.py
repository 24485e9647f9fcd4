"""Pairs of a transduction task as files: tables with the columns ``length``, ``x`` and ``y``."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path

import numpy as np

from pdtools.errors import InputError
from pdtools.files import atomic_table, read_table
from pdtools.formal.transductions import StringPairs, Task

_COLUMNS = ("length", "x", "y")
_SHOWN = 12  # symbols of a right answer shown in a message about a wrong one


def write_pairs(
    task: Task, drawn: Iterable[StringPairs], path: str | Path, *, overwrite: bool = True
) -> dict[str, int]:
    """Write pairs as a table: the length of x, x and y (symbols between single spaces, no padding).

    Args:
        task: the task.
        drawn: pairs of any lengths.
        path: the file, see :func:`pdtools.files.atomic_table`.
        overwrite: see :func:`pdtools.files.atomic_path`.

    Returns:
        Counts: ``pairs``, and ``symbols`` of x and y together.
    """
    counts = {"pairs": 0, "symbols": 0}
    with atomic_table(path, _COLUMNS, overwrite=overwrite) as write:
        for pairs in drawn:
            for x, y in task.strings(pairs):
                write((len(x), " ".join(x), " ".join(y)))
                counts["pairs"] += 1
                counts["symbols"] += len(x) + len(y)
    return counts


def read_pairs(task: Task, *paths: str | Path) -> dict[int, StringPairs]:
    """Read tables of :func:`write_pairs`.

    Every line is checked: symbols, lengths, and that y is the answer to x.

    Returns:
        Pairs by the length of x, shortest first, in the order of the files.

    Raises:
        InputError: a line that is no pair of the task: its file and number.
    """
    number_of = {symbol: number for number, symbol in enumerate(task.symbols)}
    found: dict[int, list[tuple[list[int], list[int]]]] = {}
    for path in paths:
        lines = read_table(path)
        if tuple(next(lines, (1, []))[1]) != _COLUMNS:
            reason = f"no header {' '.join(_COLUMNS)} (tabs between them)"
            raise InputError(reason, file=path, line=1, hint="pdtools generate task writes such files")
        rows = 0
        for number, cells in lines:
            rows += 1
            try:
                x, y = _parse(task, number_of, cells)
            except ValueError as error:
                reason = f"no pair of the task {task.name}: {error}"
                raise InputError(reason, file=path, line=number) from None
            found.setdefault(len(x), []).append((x, y))
        if not rows:
            raise InputError("no pairs in it", file=path)
    return {length: _as_arrays(task, found[length]) for length in sorted(found)}


def _parse(task: Task, number_of: Mapping[str, int], fields: Sequence[str]) -> tuple[list[int], list[int]]:
    """The symbols' numbers of one line; a ValueError describes a fault."""
    if len(fields) != len(_COLUMNS):
        raise ValueError(f"{len(fields)} fields, not length, x and y with tabs between them")
    length, x, y = fields[0], fields[1].split(" "), fields[2].split(" ")
    if length != str(len(x)):
        raise ValueError(f"x has {len(x)} symbols, not {length}")
    if len(x) < task.shortest:
        raise ValueError(f"x has at least {task.shortest} symbols")
    for symbols, known in ((x, task.symbols), (y, task.outputs)):
        unknown = [symbol for symbol in symbols if symbol not in known]
        if unknown:
            raise ValueError(f"{unknown[0]!r} is none of {' '.join(known)}")
    most = task.output_length(len(x))
    if len(y) > most:
        raise ValueError(f"y has {len(y)} symbols, at most {most} are possible")
    numbers = [number_of[symbol] for symbol in x]
    try:
        answer = task.answer(numbers)
    except ValueError as error:
        raise ValueError(f"x: {error}") from None
    wanted = [task.symbols[number] for number in answer]
    if y != wanted:
        shown = " ".join(wanted) if len(wanted) <= _SHOWN else " ".join((*wanted[:_SHOWN], "..."))
        raise ValueError(f"y has to be {shown}")
    return numbers, answer


def _as_arrays(task: Task, pairs: list[tuple[list[int], list[int]]]) -> StringPairs:
    longest = task.output_length(len(pairs[0][0]))
    y = np.full((len(pairs), longest), task.padding)
    for i, (_, symbols) in enumerate(pairs):
        y[i, : len(symbols)] = symbols
    return StringPairs(
        x=np.array([x for x, _ in pairs]), y=y, counted=np.array([len(symbols) for _, symbols in pairs])
    )
