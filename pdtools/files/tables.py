"""Tables as text files: cells between tabs, or commas where the file's name ends in ``.csv``."""

from __future__ import annotations

import contextlib
import csv
import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path

from pdtools.errors import InputError, PdtoolsError
from pdtools.files.inputs import read_lines
from pdtools.files.names import ending
from pdtools.files.outputs import atomic_text
from pdtools.files.source import is_stream

_BREAK = re.compile(r"\r?\n")


def is_csv(path: str | Path) -> bool:
    """Return whether a table's file name ends in ``.csv``, also before a compression suffix."""
    return ending(path) == ".csv"


def check_table_name(path: str | Path, kinds: Sequence[str] = (".csv", ".tsv")) -> None:
    """Refuse a file name whose ending is of no kind of table that is written; none, and ``.txt``, mean TSV.

    Raises:
        PdtoolsError: naming ``kinds``.
    """
    if not is_stream(path) and ending(path) not in (*kinds, ".txt", ""):
        *first, last = kinds
        raise PdtoolsError(f"{path}: tables are written as {', '.join(first)} or {last}")


@contextlib.contextmanager
def atomic_table(
    path: str | Path, columns: Sequence[str], *, overwrite: bool = True
) -> Iterator[Callable[[Sequence[object]], object]]:
    """A function that writes a row's cells to a table with a header, whole or not at all.

    In TSV nothing is quoted: a line break in a cell becomes a blank, and a tab or carriage return ``\\t`` or
    ``\\r``. In CSV cells are quoted where they need to be. For ``overwrite`` see
    :func:`pdtools.files.atomic_path`.
    """
    with atomic_text(path, overwrite=overwrite) as stream:

        def write_tsv(cells: Sequence[object]) -> None:
            texts = (_BREAK.sub(" ", str(cell)).replace("\t", "\\t").replace("\r", "\\r") for cell in cells)
            stream.write("\t".join(texts) + "\n")

        write = csv.writer(stream, lineterminator="\n").writerow if is_csv(path) else write_tsv
        write(columns)
        yield write


def read_table(path: str | Path) -> Iterator[tuple[int, list[str]]]:
    """The cells of every line of a table, its header too, with the line's number; see :func:`read_lines`.

    Raises:
        InputError: also where quotes of CSV are not closed, or not alone in their cell.
    """
    for number, line in read_lines(path):
        try:
            cells = next(csv.reader([line], strict=True), []) if is_csv(path) else line.split("\t")
        except csv.Error as error:
            raise InputError(f"not CSV: {error}", file=path, line=number) from error
        yield number, cells or [""]


def by_column(
    lines: Iterator[tuple[int, list[str]]], wanted: Sequence[str], file: str | Path
) -> Iterator[tuple[int, dict[str, str]]]:
    """The rows of a table by the columns of its header, with their lines' numbers; blank lines are none.

    Args:
        lines: as :func:`read_table` gives them.
        wanted: columns that it has to have.
        file: its name for messages.

    Raises:
        InputError: for a header that lacks a column or has one twice, and a row of another length.
    """
    number, columns = next(lines, (1, [""]))
    if missing := [name for name in wanted if name not in columns]:
        hint = "commas" if is_csv(file) else "tabs"
        reason = f"no column {', '.join(missing)} in the header"
        raise InputError(reason, file=file, line=number, hint=hint)
    if twice := next((name for name in columns if name and columns.count(name) > 1), None):
        raise InputError(f"two columns {twice!r} in the header", file=file, line=number)
    for number, cells in lines:
        if cells == [""]:
            continue
        if len(cells) != len(columns):
            reason = f"{len(cells)} columns, the header has {len(columns)}"
            raise InputError(reason, file=file, line=number)
        yield number, dict(zip(columns, cells, strict=True))


_QUOTED = re.compile(r'"(?:[^"]|"")*"')  # a whole cell in quotes, its own quotes doubled
_QUOTED_BY_R = re.compile(r'"(?:[^"\\]|""|\\.)*"')  # or with backslashes before its own


def unquoting(lines: Iterable[str], delimiter: str = "\t") -> tuple[Callable[[str], str], str]:
    """How to undo the quotes that a program wrote around cells of TSV, and keep those of the text.

    R and others quote all cells of text, the header's too. Excel, pandas and readr quote only cells that need
    it: with a quote, which is doubled; Excel those with a comma too. So the quotes are a program's only if
    all cells with a quote are of that form. Two quotes alone are an empty cell in any file.

    Args:
        lines: the lines of a file, its header first.
        delimiter: between cells.

    Returns:
        A function from a cell to its text, and a doubt about it, for people; empty: none.
    """
    lines = (line for line in lines if line)
    if all(map(_QUOTED_BY_R.fullmatch, next(lines, "").split(delimiter))):
        return _unquoted_of_r, ""
    doubled = around_comma = bare_comma = False
    for line in lines:
        if '"' not in line and "," not in line:
            continue
        for cell in line.split(delimiter):
            if '"' not in cell or cell == '""':
                bare_comma |= "," in cell
            elif not _QUOTED.fullmatch(cell) or not ('""' in cell[1:-1] or "," in cell):
                return _filled, ""
            elif '""' in cell[1:-1]:
                doubled = True
            else:
                around_comma = True
    if not (doubled or around_comma) or (around_comma and bare_comma):
        return _filled, ""
    return _unquoted, "" if doubled else "quotes around cells with commas are taken for those of Excel"


def _filled(cell: str) -> str:
    return "" if cell == '""' else cell


def _unquoted(cell: str) -> str:
    return cell[1:-1].replace('""', '"') if _QUOTED.fullmatch(cell) else cell


def _unquoted_of_r(cell: str) -> str:
    return cell[1:-1].replace('""', '"').replace('\\"', '"') if _QUOTED_BY_R.fullmatch(cell) else cell
