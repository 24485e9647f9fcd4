"""Tables: text with tabs or commas between cells, Excel workbooks, Parquet."""

from __future__ import annotations

import contextlib
import csv
import os
import re
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pdtools.errors import InputError, PdtoolsError
from pdtools.files.inputs import MAX_DOCUMENT_BYTES, read_bytes, read_lines
from pdtools.files.outputs import atomic_text
from pdtools.files.packed import check_packed, ending, has_ending
from pdtools.files.source import Source, is_stream, source_of

if TYPE_CHECKING:
    import pyarrow as pa
    import pyarrow.parquet as pq

_BREAK = re.compile(r"\r?\n")


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

        write = csv.writer(stream, lineterminator="\n").writerow if ending(path) == ".csv" else write_tsv
        write(columns)
        yield write


def read_table(path: str | Path) -> Iterator[tuple[int, list[str]]]:
    """The cells of every line of a table, its header too, with the line's number; quotes are CSV's alone.

    Raises:
        InputError: see :class:`Delimited`.
    """
    kind, delimiter = ("csv", ",") if ending(path) == ".csv" else ("tsv", "\t")
    return iter(Delimited(path, kind, delimiter=delimiter, quoted=kind == "csv"))


def by_column(
    lines: Iterator[tuple[int, Sequence[Any]]],
    file: str | Path,
    wanted: Sequence[str] = (),
    *,
    header: bool = True,
    blanks: bool = False,
) -> Iterator[tuple[int, dict[str, Any]]]:
    """The rows of a table by the columns of its header, with their lines' numbers.

    Args:
        lines: the cells of each line, with its number.
        file: its name for messages.
        wanted: columns that it has to have.
        header: whether it has one; else columns are called 1, 2, …
        blanks: whether a line without cells is an empty row, or passed over.

    Raises:
        InputError: for a header that lacks a column or has one twice, and a row of another length.
    """
    columns: list[str] | None = None
    if header:
        number, found = next(((number, cells) for number, cells in lines if not _is_blank(cells)), (1, []))
        columns = [cell_text(each).strip() for each in found]
        if missing := [name for name in wanted if name not in columns]:
            hint = "commas" if ending(file) == ".csv" else "tabs"
            reason = f"no column {', '.join(missing)} in the header"
            raise InputError(reason, file=file, line=number, hint=hint)
        if twice := next((name for name in columns if name and columns.count(name) > 1), None):
            raise InputError(f"two columns {twice!r} in the header", file=file, line=number)
    for number, cells in lines:
        is_one_of_several = len(cells) == 1 and len(columns or cells) > 1
        if _is_blank(cells) or (is_one_of_several and not cell_text(cells[0]).strip()):
            if blanks:
                yield number, {}
            continue
        columns = columns or [str(i) for i in range(1, len(cells) + 1)]
        if len(cells) != len(columns):
            where = "the header" if header else "the first line"
            reason = f"{len(cells)} columns, {where} has {len(columns)}"
            raise InputError(reason, file=file, line=number)
        yield number, dict(zip(columns, cells, strict=True))


def _is_blank(cells: Sequence[Any]) -> bool:
    return all(cell is None for cell in cells)


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


# --- tables of others --------------------------------------------------------------------------

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
        name: str | Path,
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
        return _sheet_of_parquet(name)
    rows: Iterator[tuple[int, list[Any]]]
    if kind == ".xlsx":
        from pdtools.files.workbooks import workbook_rows

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


def _sheet_of_parquet(name: str) -> Sheet:
    import pyarrow.parquet as pq

    with _parquet(name) as stream:
        file = pq.ParquetFile(stream)
        _check_sizes(file, file.schema_arrow.names, name)
        table = file.read()
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


# --- Parquet ------------------------------------------------------------------------------------

_ROWS_AT_ONCE, _BYTES_OF_VALUE = 1 << 10, 8


def parquet_rows(
    name: str, columns: Collection[str] | None = None, check: Callable[[Sequence[str]], object] = len
) -> Iterator[tuple[int, dict[str, Any]]]:
    """The rows of a Parquet file by column, with their numbers, few at a time.

    A text that many rows share is in memory once, as in a packed row group.

    Args:
        name: the file.
        columns: all that are needed; None: all there are.
        check: given the names of all columns; it may refuse them.

    Raises:
        InputError: for a file that is not Parquet, or unpacks to much more data than text does.
    """
    import pyarrow as pa
    import pyarrow.parquet as pq

    number = 0
    with _parquet(name) as stream:
        schema = pq.read_schema(stream)
        check(schema.names)
        needed = [each for each in schema.names if columns is None or each in columns]
        flat = [each for each in needed if not pa.types.is_nested(schema.field(each).type)]
        file = pq.ParquetFile(stream, read_dictionary=flat)
        _check_sizes(file, needed, name)
        for batch in file.iter_batches(_ROWS_AT_ONCE, columns=needed):
            for cells in zip(*batch.columns, strict=True):
                number += 1
                try:
                    values = [cell.as_py() for cell in cells]
                except UnicodeDecodeError as error:
                    raise InputError("text that is not UTF-8", file=name, line=number) from error
                yield number, dict(zip(needed, values, strict=True))


@contextlib.contextmanager
def parquet_errors(file: str | Path, hint: str | None = None) -> Iterator[None]:
    """Turn pyarrow's errors on an unreadable file into errors that name it."""
    import pyarrow as pa

    try:
        yield
    except (pa.ArrowException, OSError) as error:
        raise InputError(f"not Parquet: {str(error).splitlines()[0]}", file=file, hint=hint) from error


@contextlib.contextmanager
def _parquet(name: str) -> Iterator[pa.NativeFile]:
    """The bytes of a Parquet file."""
    import pyarrow as pa

    source_of(name).check()
    is_plain = type(source_of(name)) is Source and has_ending(name, ".parquet")
    with (
        parquet_errors(name),
        pa.OSFile(os.fsencode(name)) if is_plain else pa.BufferReader(read_bytes(name)) as stream,
    ):
        yield stream


def _check_sizes(file: pq.ParquetFile, columns: Collection[str], name: str) -> None:
    """Refuse a file whose columns unpack to much more data than text does."""
    about = file.metadata
    for group in range(about.num_row_groups):
        for i in range(about.num_columns):
            column = about.row_group(group).column(i)
            own, _, is_nested = column.path_in_schema.partition(".")
            if own in columns:
                # In lists, few bytes may encode many equal values.
                values = _BYTES_OF_VALUE * column.num_values if is_nested else 0
                unpacked = max(column.total_uncompressed_size, values)
                check_packed(unpacked, column.total_compressed_size, name, MAX_DOCUMENT_BYTES)
