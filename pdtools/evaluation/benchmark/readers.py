"""Readers of files that are no tables: each takes a file's name and gives rows with their numbers."""

from __future__ import annotations

import csv
import io
import pickle
from collections.abc import Callable, Iterator, Mapping
from typing import Any, ClassVar, NoReturn

from pdtools.errors import InputError
from pdtools.files import read_bytes, read_lines

Lines = Iterator[tuple[int, Mapping[str, Any] | None]]


class _Named(dict[str, Any]):
    """A dict whose keys are strings. Hashing a deeply nested tuple would overflow the stack of C."""

    __slots__ = ()

    def __setitem__(self, key: str, value: Any) -> None:
        if not isinstance(key, str):
            raise pickle.UnpicklingError("a key that is no string")
        super().__setitem__(key, value)


def _load_dict(unpickler: Any) -> None:
    items, made = unpickler.pop_mark(), _Named()
    for key, value in zip(items[::2], items[1::2], strict=True):
        made[key] = value
    unpickler.append(made)


def _refuse_set(_: Any) -> NoReturn:
    raise pickle.UnpicklingError("a set, which is no plain data")


class _Plain(pickle._Unpickler):
    """An unpickler of dict, list, tuple and str: everything that calls functions by name is refused.

    The one of Python, since that of C allocates as much memory as a damaged file says.
    """

    def find_class(self, module: str, name: str) -> NoReturn:
        """Refuse every name."""
        raise pickle.UnpicklingError(f"{module}.{name}, which is no plain data")

    dispatch: ClassVar[dict[int, Any]] = {
        **pickle._Unpickler.dispatch,
        pickle.EMPTY_DICT[0]: lambda self: self.append(_Named()),
        pickle.DICT[0]: _load_dict,
        pickle.EMPTY_SET[0]: _refuse_set,
        pickle.FROZENSET[0]: _refuse_set,
    }


def lm_syneval(name: str) -> Lines:
    """LM_syneval's templates: conditions, each a list of tuples, a right sentence and one or two wrong ones.

    Rows have condition, right, wrong, and which, the number of the wrong one.
    """
    try:
        data = _Plain(io.BytesIO(read_bytes(name)), encoding="utf-8").load()
    except Exception as error:  # damaged data may raise anything
        raise InputError(f"not a pickle of plain data: {error}", file=name) from error
    is_plain = isinstance(data, dict) and all(isinstance(tuples, list) for tuples in data.values())
    number = 0
    for condition, tuples in data.items() if is_plain else [("", [()])]:
        for each in tuples:
            number += 1
            if not isinstance(each, tuple) or len(each) < 2 or not all(isinstance(s, str) for s in each):
                raise InputError("not conditions with tuples of sentences", file=name, line=number)
            for which, wrong in enumerate(each[1:], start=1):
                about = {"condition": condition, "right": each[0], "wrong": wrong, "which": str(which)}
                yield number, about


def climp(name: str) -> Lines:
    """CLiMP's tables: a header of numbers, and rows whose longest cell is a sentence; or sentences."""
    try:
        rows = csv.reader((line for _, line in read_lines(name)), strict=True)
        has_header = False
        for cells in rows:
            if rows.line_num == 1 and len(cells) > 1:
                has_header = not cells[0] and all(cell.isdecimal() for cell in cells[1:])
                if has_header:
                    continue
            if len(cells) > 1 and not has_header:
                reason = "neither a header of numbers (,0,1,2) nor sentences alone"
                raise InputError(reason, file=name, line=rows.line_num)
            text = max(cells, key=len, default="")
            yield rows.line_num, {"sentence": text} if text else None
    except csv.Error as error:
        raise InputError(f"not CSV: {error}", file=name) from error


def linzen(name: str) -> Lines:
    """Linzen et al.'s aligned files: ``.gold`` (place, two forms, attractors), and ``.text`` beside it.

    Rows have prefix, right, wrong, attractors.
    """
    texts = read_lines(name.removesuffix(".gold") + ".text")
    for number, line in read_lines(name):
        cells, (_, text) = line.split("\t"), next(texts, (0, ""))
        words = text.split(" ")
        if len(cells) < 4 or not cells[0].isdecimal() or int(cells[0]) >= len(words):
            raise InputError("not a place in its sentence, two forms and a number", file=name, line=number)
        prefix, found = " ".join(words[: int(cells[0])]), words[int(cells[0])]
        if found.lower() != cells[1].lower():
            raise InputError(f"the sentence has {found!r}, not {cells[1]!r}", file=name, line=number)
        yield number, {"prefix": prefix, "right": cells[1], "wrong": cells[2], "attractors": cells[3]}


READERS: Mapping[str, Callable[[str], Lines]] = {"lm_syneval": lm_syneval, "climp": climp, "linzen": linzen}
