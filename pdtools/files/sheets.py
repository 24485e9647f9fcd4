"""Rows of tables as spreadsheets have them: CSV with commas or semicolons, TSV, Excel's workbooks."""

from __future__ import annotations

import csv
import io
import re
from collections.abc import Iterator
from itertools import islice
from typing import IO, Any

from pdtools.errors import InputError
from pdtools.files.inputs import read_bytes, read_lines

_COMPRESSED = (".gz", ".zst")
_DELIMITERS = {"tsv": "\t", "csv": ","}


def ending(name: str) -> str:
    """The ending of a file's name without that of a compression, in lower case: ``csv``."""
    return plain_name(name).rpartition(".")[2].lower()


def plain_name(name: str) -> str:
    """A name without the ending of a compression."""
    for each in _COMPRESSED:
        name = name.removesuffix(each)
    return name


class Delimited:
    """The rows of CSV or TSV, with the numbers of their (last) lines.

    Args:
        name: a file.
        kind: ``csv`` or ``tsv``, or another one, which is read as the latter.
        delimiter: between cells; None: that of the kind; of CSV a semicolon, if the header has more of these.
        quoted: whether cells may be in quotes; None: those of CSV.
        skip: lines before the header.

    Attributes:
        delimiter: between cells.

    Raises:
        InputError: while it is gone through, with the line, for a cell whose quotes are not closed.
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
        self._number, self._first = next(self._lines, (1, ""))
        self.delimiter = delimiter or _DELIMITERS.get(kind, "\t")
        if kind == "csv" and delimiter is None and self._first.count(";") > self._first.count(","):
            self.delimiter = ";"

    def __iter__(self) -> Iterator[tuple[int, list[str]]]:
        quoting = csv.QUOTE_MINIMAL if self._quoted else csv.QUOTE_NONE
        try:
            for cells in csv.reader(self._each(), delimiter=self.delimiter, strict=True, quoting=quoting):
                yield self._number, cells
        except csv.Error as error:
            reason = f"not {self._kind.upper()}: {error}"
            raise InputError(reason, file=self._name, line=self._number) from error

    def _each(self) -> Iterator[str]:
        yield self._first + "\n"
        for number, line in self._lines:
            self._number = number
            yield line + "\n"


def workbook_rows(name: str) -> list[list[Any]]:
    """The rows of a workbook's first sheet: values, those of formulas too; None in an empty cell.

    A merged cell's value stands in each of the cells that it covers.

    Raises:
        InputError: if it is no workbook, or the package openpyxl is not installed.
    """
    try:
        import openpyxl
    except ImportError as error:
        hint = "pip install 'pushdown-tools[xlsx]', or save it as .csv"
        raise InputError("this needs the package openpyxl", file=name, hint=hint) from error
    try:
        book = openpyxl.load_workbook(io.BytesIO(read_bytes(name)), read_only=True, data_only=True)
        sheet = book.worksheets[0]
        sheet.reset_dimensions()  # some programs write them wrong
        rows = [[*row] for row in sheet.iter_rows(values_only=True)]
        with sheet._get_source() as source:  # where merged cells are is not read by openpyxl in this mode
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
    return rows


def _merged_areas(source: IO[bytes]) -> list[bytes]:
    """The areas of merged cells, such as ``A1:B2``, which stand behind all cells in a sheet's XML."""
    held = b""
    while block := source.read(1 << 20):
        held = (held if b"mergeCells" in held else held[-16:]) + block
    return re.findall(rb'mergeCell\s[^>]*?ref="([A-Z0-9:]+)"', held)
