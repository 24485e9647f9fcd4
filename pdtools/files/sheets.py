"""Rows of spreadsheets: CSV with commas or semicolons, TSV, and Excel workbooks."""

from __future__ import annotations

import csv
import io
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import islice
from typing import IO, Any

from pdtools.errors import InputError, how_to_install
from pdtools.files.inputs import read_bytes, read_lines

_COMPRESSED = (".gz", ".zst")
_DELIMITERS = {"tsv": "\t", "csv": ","}


def ending(name: str) -> str:
    """The file name's ending in lower case, before any compression suffix: ``csv``."""
    return plain_name(name).rpartition(".")[2].lower()


def plain_name(name: str) -> str:
    """A file name without its compression suffix."""
    for each in _COMPRESSED:
        name = name.removesuffix(each)
    return name


class Delimited:
    """The rows of CSV or TSV, with the numbers of their (last) lines.

    Args:
        name: a file.
        kind: ``csv`` or ``tsv``, or another one, which is read as the latter.
        delimiter: between cells; None: the kind's own, or for CSV a semicolon if the header has more.
        quoted: whether cells may be in quotes; None: only in CSV, and quotes around a whole cell of TSV are
            undone.
        skip: lines before the header.

    Attributes:
        delimiter: between cells.

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
        self._lines = islice(read_lines(name), skip, None)
        self._name, self._kind = name, kind
        self._quoted = kind == "csv" if quoted is None else quoted
        self._undone = kind == "tsv" and quoted is None
        self._number, self._first = next(self._lines, (1, ""))
        self.delimiter = delimiter or _DELIMITERS.get(kind, "\t")
        if kind == "csv" and delimiter is None and self._first.count(";") > self._first.count(","):
            self.delimiter = ";"

    def __iter__(self) -> Iterator[tuple[int, list[str]]]:
        try:
            for cells in csv.reader(
                self._each(),
                delimiter=self.delimiter,
                strict=True,
                quoting=csv.QUOTE_MINIMAL if self._quoted else csv.QUOTE_NONE,
            ):
                yield self._number, [*map(unquoted, cells)] if self._undone else cells
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


def workbook_rows(name: str) -> tuple[list[list[Any]], str]:
    """The rows of a workbook's first sheet: values, also of formulas; None in an empty cell.

    A merged cell's value is repeated in each cell that it covers.

    Returns:
        The rows, and a description of what was read: the sheet's name if there are several.

    Raises:
        InputError: if it is no workbook, or the package openpyxl is not installed.
    """
    try:
        import openpyxl
    except ImportError as error:
        hint = f"{how_to_install('xlsx')}; or save it as .csv"
        raise InputError("this needs the package openpyxl", file=name, hint=hint) from error
    try:
        book = openpyxl.load_workbook(io.BytesIO(read_bytes(name)), read_only=True, data_only=True)
        sheet = book.worksheets[0]
        sheet.reset_dimensions()  # some programs write them wrong
        rows = [[*row] for row in sheet.iter_rows(values_only=True)]
        with sheet._get_source() as source:  # openpyxl does not read the areas of merged cells in this mode
            merged = _merged_areas(source)
    except InputError:
        raise
    except Exception as error:  # whatever a damaged archive of XML makes of it
        raise InputError(f"not a workbook: {error}", file=name) from error
    width = max(map(len, rows), default=0)
    for row in rows:
        row += [None] * (width - len(row))
    for area in merged:
        first, top, last, bottom = openpyxl.utils.range_boundaries(area.decode())
        value = rows[top - 1][first - 1] if top <= len(rows) and first <= width else None
        for row in rows[top - 1 : bottom]:
            row[first - 1 : min(last, width)] = [value] * (min(last, width) - first + 1)
    form = "a workbook"
    if len(book.worksheets) > 1:
        form += f", of whose {len(book.worksheets)} sheets the first ({sheet.title}) is read"
    return rows, form


def _merged_areas(source: IO[bytes]) -> list[bytes]:
    """The areas of merged cells, such as ``A1:B2``, which stand behind all cells in a sheet's XML."""
    held = b""
    while block := source.read(1 << 20):
        held = (held if b"mergeCells" in held else held[-16:]) + block
    return re.findall(rb'mergeCell\s[^>]*?ref="([A-Z0-9:]+)"', held)


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


SHEETS = ("csv", "tsv", "xlsx", "parquet")
"""Endings of files that are tables."""
_QUOTED = re.compile(r'"(?:[^"]|"")*"')
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
    """A table whose file ends in one of :data:`SHEETS`. Rows without any cell are passed over.

    In CSV with semicolons, columns of numbers with decimal commas get points. In TSV, quotes around a whole
    cell are undone.

    Raises:
        InputError: with the row, for one that does not fit the header, or without a header.
    """
    kind = ending(name)
    if kind == "parquet":
        return _parquet(name)
    rows: Iterator[tuple[int, list[Any]]]
    if kind == "xlsx":
        of_sheet, form = workbook_rows(name)
        rows = enumerate(of_sheet, start=1)
    else:
        found = Delimited(name, kind)
        form = "TSV" if kind == "tsv" else "CSV with semicolons" if found.delimiter == ";" else "CSV"
        rows = enumerate((cells for _, cells in found), start=1)
    _, header = next(((n, cells) for n, cells in rows if any(map(cell_text, cells))), (1, []))
    if not header:
        raise InputError("there is no header", file=name)
    columns = tuple(cell_text(each).strip() for each in header)
    cells: list[list[Any]] = [[] for _ in columns]
    numbers: list[int] = []
    same: list[dict[Any, Any]] = [{} for _ in columns]  # equal texts are kept once
    for number, row in rows:
        if not row or (kind == "xlsx" and not any(map(cell_text, row))):
            continue
        if len(row) != len(columns):
            reason = f"{len(row)} cells, where the header has {len(columns)}"
            raise InputError(reason, file=name, line=number)
        numbers.append(number)
        for column, known, value in zip(cells, same, row, strict=True):
            column.append(known.setdefault(value, value) if isinstance(value, str) else value)
    if form == "CSV with semicolons":
        cells = [_with_points(column) for column in cells]
    return Sheet(name=name, form=form, columns=columns, cells=cells, numbers=numbers)


def unquoted(cell: str) -> str:
    """A cell of TSV without the quotes around all of it, as Excel writes them."""
    return cell[1:-1].replace('""', '"') if cell[:1] == '"' and _QUOTED.fullmatch(cell) else cell


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
