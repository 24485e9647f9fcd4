"""Rows of spreadsheets: CSV with commas or semicolons, TSV, and Excel workbooks."""

from __future__ import annotations

import csv
import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import islice
from typing import Any

from pdtools.errors import InputError
from pdtools.files.inputs import read_bytes, read_lines
from pdtools.files.names import ending
from pdtools.files.tables import unquoting
from pdtools.files.workbooks import workbook_rows

_DELIMITERS = {"tsv": "\t", "csv": ","}
_DELIMITER_LINE = re.compile(r'"?sep=(.)"?', re.IGNORECASE)  # which Excel reads before the header


class Delimited:
    """The rows of CSV or TSV, with the numbers of their (last) lines.

    Args:
        name: a file.
        kind: ``csv`` or ``tsv``, or another one, which is read as the latter.
        delimiter: between cells; None: the kind's own, or for CSV the one that a first line ``sep=;`` names,
            or a semicolon if the header has more.
        quoted: whether cells may be in quotes; None: only in CSV, and quotes that a program wrote around
            cells of TSV are undone (:func:`pdtools.files.tables.unquoting`).
        skip: lines before the header.

    Attributes:
        delimiter: between cells.
        doubt: about quotes of TSV, for people; empty: none.

    Raises:
        InputError: during iteration, with the line, for a cell whose quotes are not closed.
    """

    def __init__(
        self,
        name: str,
        kind: str,
        *,
        delimiter: str | None = None,
        quoted: bool | None = None,
        skip: int = 0,
    ) -> None:
        self._lines: Iterator[tuple[int, str]] = islice(read_lines(name), skip, None)
        self._name, self._kind = name, kind
        self._quoted = kind == "csv" if quoted is None else quoted
        self._number, self._first = next(self._lines, (1, ""))
        if kind == "csv" and (said := _DELIMITER_LINE.fullmatch(self._first)):
            delimiter = delimiter or said[1]
            self._number, self._first = next(self._lines, (2, ""))
        self.delimiter = delimiter or _DELIMITERS.get(kind, "\t")
        if kind == "csv" and delimiter is None and self._first.count(";") > self._first.count(","):
            self.delimiter = ";"
        self._undo: Callable[[str], str] = str
        self.doubt = ""
        if kind == "tsv" and quoted is None:
            lines = list(self._lines)
            self._lines = iter(lines)
            self._undo, self.doubt = unquoting([self._first, *(line for _, line in lines)], self.delimiter)

    def __iter__(self) -> Iterator[tuple[int, list[str]]]:
        try:
            for cells in csv.reader(
                self._each(),
                delimiter=self.delimiter,
                strict=True,
                quoting=csv.QUOTE_MINIMAL if self._quoted else csv.QUOTE_NONE,
            ):
                yield self._number, [*map(self._undo, cells)]
        except csv.Error as error:
            # Python's own message is about how files are opened.
            what = "a carriage return that ends no line" if "new-line" in str(error) else error
            reason = f"not {self._kind.upper()}: {what}"
            raise InputError(reason, file=self._name, line=self._number) from error

    def _each(self) -> Iterator[str]:
        yield self._first + "\n"
        for number, line in self._lines:
            self._number = number
            yield line + "\n"


@dataclass(frozen=True, kw_only=True)
class Sheet:
    """A table with a header, column by column.

    Attributes:
        name: the name of its file.
        form: the form of its file, for people: ``CSV with semicolons``.
        columns: their names, as they stand there: some may be empty, or the same.
        cells: for each column, the cells of all rows (n): strings in text files, any values in others.
        numbers: the numbers of the rows (n), as a spreadsheet counts them.
        table: the same as pandas' or Arrow's, if it was given as such.
    """

    name: str
    form: str
    columns: tuple[str, ...]
    cells: Sequence[Sequence[Any]]
    numbers: Sequence[int]
    table: Any = None

    def texts(self, column: int) -> list[str]:
        """The cells of a column as text."""
        return [cell_text(value) for value in self.cells[column]]


SHEETS = (".csv", ".tsv", ".xlsx", ".parquet")
"""Endings of files that are tables."""
_DECIMAL = re.compile(r"[-+]?\d+(,\d+)?")


def cell_text(value: Any) -> str:
    """A cell as text: nothing of an empty one, whole numbers without a point."""
    if isinstance(value, str):
        return value
    if value is None or value != value:
        return ""
    if isinstance(value, float) and value.is_integer():
        return str(int(value))
    return str(value)


def read_sheet(name: str) -> Sheet:
    """A table whose file ends in one of :data:`SHEETS`. Blank rows are passed over.

    In CSV with semicolons, columns of numbers with decimal commas get points. In TSV, quotes that a
    program wrote around cells are undone.

    Raises:
        InputError: with the row, for one that does not fit the header, or without a header.
    """
    kind = ending(name)
    if kind == ".parquet":
        return _parquet(name)
    rows: Iterator[tuple[int, list[Any]]]
    if kind == ".xlsx":
        of_sheet, form = workbook_rows(name)
        rows = enumerate(of_sheet, start=1)
    else:
        found = Delimited(name, kind[1:])
        form = "TSV" if kind == ".tsv" else "CSV with semicolons" if found.delimiter == ";" else "CSV"
        form += f", {found.doubt}" if found.doubt else ""
        rows = enumerate((cells for _, cells in found), start=1)
    rows = ((number, row) for number, row in rows if any(cell_text(value).strip() for value in row))
    _, header = next(rows, (1, []))
    if not header:
        raise InputError("there is no header", file=name)
    columns = tuple(cell_text(each).strip() for each in header)
    cells: list[list[Any]] = [[] for _ in columns]
    numbers: list[int] = []
    same: list[dict[Any, Any]] = [{} for _ in columns]  # equal texts are kept once
    for number, row in rows:
        if len(row) != len(columns):
            reason = f"{len(row)} cells, where the header has {len(columns)}"
            raise InputError(reason, file=name, line=number)
        numbers.append(number)
        for column, known, value in zip(cells, same, row, strict=True):
            column.append(known.setdefault(value, value) if isinstance(value, str) else value)
    if form == "CSV with semicolons":
        cells = [_with_points(column) for column in cells]
    return Sheet(name=name, form=form, columns=columns, cells=cells, numbers=numbers)


def _with_points(column: list[str]) -> list[str]:
    if any("," in cell for cell in column) and all(not c or _DECIMAL.fullmatch(c) for c in column):
        return [cell.replace(",", ".") for cell in column]
    return column


def _parquet(name: str) -> Sheet:
    import pyarrow as pa
    import pyarrow.parquet as pq

    try:
        table = pq.ParquetFile(pa.BufferReader(read_bytes(name))).read()
    except (pa.ArrowException, OSError) as error:
        raise InputError(f"not Parquet: {str(error).splitlines()[0]}", file=name) from error
    cells = [column.to_pylist() for column in table.columns]
    numbers = range(1, table.num_rows + 1)
    return Sheet(
        name=name,
        form="Parquet",
        columns=tuple(table.column_names),
        cells=cells,
        numbers=numbers,
        table=table,
    )
