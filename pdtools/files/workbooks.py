"""The first sheet of an Excel workbook (``.xlsx``), in bounded memory, with what each cell holds."""

from __future__ import annotations

import io
import posixpath
import re
import zipfile
from bisect import bisect_left, bisect_right
from collections.abc import Iterator
from datetime import date, datetime, time, timedelta
from typing import IO, Any
from xml.parsers import expat

from pdtools.errors import InputError
from pdtools.files.inputs import read_bytes
from pdtools.files.packed import open_data

# Limits of the format, and on what is kept of one sheet.
_ROWS, _COLUMNS = 1 << 20, 1 << 14
_MOST_CELLS, _MOST_CHARS, _MOST_CHARS_OF_A_CELL = 1 << 24, 1 << 28, 1 << 20
_MOST_BYTES, _DEEPEST = 1 << 31, 64
_PLACE = re.compile(r"([A-Z]{1,3})([0-9]{1,10})")
# A character in hexadecimal, as Excel writes those that XML cannot hold; NUL and halves of pairs stay.
_ESCAPED = re.compile(r"_x(?!0000|[dD][89a-fA-F])([0-9a-fA-F]{4})_")
_OF_DATES = {*range(14, 23), *range(27, 37), *range(45, 48), *range(50, 59)}
_NO_PART_OF_A_DATE = re.compile(r'"[^"]*"|\\.|_.|\*.|\[(?![hms]+\])[^\]]*\]|General', re.IGNORECASE)


def workbook_rows(name: str) -> tuple[list[list[Any]], str]:
    """The rows of a workbook's first sheet, as wide as its header, the first row that is not blank.

    Values are text, numbers, truth values, dates and times, also those of formulas; None in an empty cell.
    A merged cell's value is repeated in each cell that it covers, in rows with cells of their own. A blank
    row is empty.

    Returns:
        The rows, and a description of what was read: the sheet's name if there are several.

    Raises:
        InputError: if it is no workbook; for a formula whose value the file does not hold, a cell to the
            right of the header, and a sheet that would fill the memory.
    """
    try:
        with zipfile.ZipFile(io.BytesIO(read_bytes(name))) as archive:
            return _Workbook(name, archive).rows()
    except InputError:
        raise
    except Exception as error:  # whatever a damaged archive of XML makes of it
        raise InputError(f"not a workbook: {error}", file=name) from error


class _Workbook:
    """The parts of a workbook, by the types of the relations between them."""

    def __init__(self, name: str, archive: zipfile.ZipFile) -> None:
        self._name, self._archive = name, archive
        self._texts: dict[str, str] = {}  # equal texts are kept once
        self._chars = 0
        (self._book,) = self._related("", "officeDocument").values()

    def _related(self, part: str, kind: str) -> dict[str, str]:
        """The parts of a type that a part refers to, by the identifiers of the relations."""
        folder, base = posixpath.split(part)
        found = {}
        for tag, attributes, _ in self._elements(posixpath.join(folder, "_rels", f"{base}.rels")):
            if tag == "Relationship" and attributes and attributes["Type"].endswith(f"/{kind}"):
                target = posixpath.normpath(posixpath.join("/", folder, attributes["Target"]))
                found[attributes["Id"]] = target.lstrip("/")
        return found

    def _elements(self, part: str) -> Iterator[tuple[str, dict[str, str] | None, str]]:
        """Starts of elements, with their attributes, and ends, with None and the text before them."""
        place = f"{self._name}/{part}"
        try:
            member = self._archive.getinfo(part)
        except KeyError:
            raise InputError(f"not a workbook: there is no {part} in it", file=self._name) from None
        with open_data(self._archive, member, place) as stream:
            yield from _elements(stream, place)

    def _kept(self, text: str) -> str:
        """A text without Excel's escapes; equal ones are the same object."""
        text = _ESCAPED.sub(lambda found: chr(int(found[1], 16)), text)
        if text not in self._texts:
            self._chars += len(text)
            if self._chars > _MOST_CHARS:
                raise InputError(f"more than {_MOST_CHARS} characters in its cells", file=self._name)
        return self._texts.setdefault(text, text)

    def _strings(self) -> list[str]:
        """The texts that cells refer to by their numbers."""
        strings: list[str] = []
        for part in self._related(self._book, "sharedStrings").values():
            parts: list[str] = []
            is_phonetic = False
            for tag, attributes, text in self._elements(part):
                if tag == "rPh":
                    is_phonetic = attributes is not None
                elif attributes is None and tag == "t" and not is_phonetic:
                    parts.append(text)
                elif attributes is None and tag == "si":
                    strings.append(self._kept("".join(parts)))
                    parts = []
        return strings

    def _date_styles(self) -> set[int]:
        """The numbers of the styles that show a number as a date or a time."""
        dates, own = {*_OF_DATES}, list[int]()
        is_own = False
        for part in self._related(self._book, "styles").values():
            for tag, attributes, _ in self._elements(part):
                if tag == "cellXfs":
                    is_own = attributes is not None
                elif attributes and tag == "numFmt":
                    shown = _NO_PART_OF_A_DATE.sub("", attributes["formatCode"])
                    change = dates.add if re.search("[dmyhs]", shown, re.IGNORECASE) else dates.discard
                    change(int(attributes["numFmtId"]))
                elif attributes is not None and tag == "xf" and is_own:
                    own.append(int(attributes.get("numFmtId", 0)))
        return {i for i, number in enumerate(own) if number in dates}

    def rows(self) -> tuple[list[list[Any]], str]:
        """See :func:`workbook_rows`."""
        known = self._related(self._book, "worksheet")
        named: list[tuple[str, str]] = []
        is_1904 = False
        for tag, attributes, _ in self._elements(self._book):
            if tag == "workbookPr" and attributes:
                is_1904 = attributes.get("date1904") in ("1", "true")
            elif tag == "sheet" and attributes:
                relation = next(value for key, value in attributes.items() if key.endswith(":id"))
                named += [(attributes["name"], known[relation])] if relation in known else []
        title, part = named[0]
        rows, areas = self._cells(part, self._strings(), self._date_styles(), is_1904)
        form = "a workbook"
        if len(named) > 1:
            form += f", of whose {len(named)} sheets the first ({title}) is read"
        return self._filled(rows, areas), form

    def _cells(
        self, part: str, strings: list[str], dates: set[int], is_1904: bool
    ) -> tuple[dict[int, list[Any]], list[str]]:
        """The rows with cells, by number, each as long as it has any, and the areas of merged cells."""
        rows: dict[int, list[Any]] = {}
        areas: list[str] = []
        row = column = n_cells = 0
        cell: dict[str, str] = {}
        value: str | None = None
        own: list[Any] = []
        is_formula = is_phonetic = False
        for tag, attributes, text in self._elements(part):
            if tag == "c" and attributes is not None:
                cell, value, is_formula = attributes, None, False
            elif tag in ("v", "t") and attributes is None:
                value = text if tag == "v" or value is None else value + text * (not is_phonetic)
            elif tag == "f":
                is_formula = True
            elif tag == "rPh":
                is_phonetic = attributes is not None
            elif tag == "row" and attributes is not None:
                before, column, own = row, 0, []
                row = int(attributes.get("r", row + 1))
                if not before < row <= _ROWS:
                    raise ValueError(f"row {row} after row {before}; a sheet has {_ROWS} rows")
            elif tag == "row" and own:
                rows[row] = own
                n_cells += len(own)
                if n_cells > _MOST_CELLS:
                    raise InputError(f"more than {_MOST_CELLS} cells", file=self._name)
            elif tag == "mergeCell" and attributes:
                areas.append(attributes["ref"])
            elif tag == "c":
                column = _place(cell["r"])[0] if "r" in cell else column + 1
                # An empty value is one of a formula of text; openpyxl writes one for each that it has not.
                if is_formula and (value is None or (value == "" and cell.get("t") != "str")):
                    reason = f"the file does not hold the value of the formula in column {_letters(column)}"
                    hint = "open it in a spreadsheet program, and save it there"
                    raise InputError(reason, file=self._name, line=row, hint=hint)
                if value is not None and column > len(own):
                    own += [None] * (column - 1 - len(own))
                    own.append(self._value(cell, value, strings, dates, is_1904))
        return rows, areas

    def _value(
        self, cell: dict[str, str], value: str, strings: list[str], dates: set[int], is_1904: bool
    ) -> Any:
        kind = cell.get("t", "n")
        if kind == "s":
            if int(value) < 0:
                raise IndexError(f"no text has the number {value}")
            return strings[int(value)]
        if kind == "b":
            return value in ("1", "true")
        if kind == "d":
            return datetime.fromisoformat(value.removesuffix("Z"))
        if kind != "n":
            return self._kept(value)
        if value == "":
            return None
        number = float(value)
        if int(cell.get("s", 0)) in dates and 0 <= number < 2958466:  # the year 10,000
            return _date(number, is_1904)
        return int(number) if number.is_integer() and abs(number) < 1e15 else number

    def _filled(self, rows: dict[int, list[Any]], areas: list[str]) -> list[list[Any]]:
        """All rows, as wide as the header or blank, with the values of merged cells wherever these reach."""
        rows = {number: row for number, row in rows.items() if not all(map(_is_blank, row))}
        if not rows:
            return []
        numbers = list(rows)
        top, header = numbers[0], rows[numbers[0]]
        while _is_blank(header[-1]):
            header.pop()
        ends = [area.partition(":") for area in areas]
        boxes = [(_place(one), _place(other or one)) for one, _, other in ends]
        over = [last for (first, upper), (last, _) in boxes if upper == top and first <= len(header)]
        header += [None] * (max(over, default=0) - len(header))
        width = len(header)
        if len(rows) * width > _MOST_CELLS:
            raise InputError(f"more than {_MOST_CELLS} cells", file=self._name)
        for number, row in rows.items():
            if beyond := [i for i in range(width, len(row)) if not _is_blank(row[i])]:
                reason = f"no column has a name above the cell {_letters(beyond[0] + 1)}{number}"
                hint = f"name it in row {top}, the first that is not empty, or delete the cell"
                raise InputError(reason, file=self._name, line=number, hint=hint)
            row[width:] = [None] * (width - len(row))
        n_filled = 0
        for (first, upper), (last, lower) in boxes:
            value = rows[upper][first - 1] if upper in rows and first <= width else None
            size = max(0, min(last, width) - first + 1)
            for number in numbers[bisect_left(numbers, upper) : bisect_right(numbers, lower)]:
                rows[number][first - 1 : first - 1 + size] = [value] * size
                n_filled += 1 + size
                if n_filled > _MOST_CELLS:
                    raise InputError(f"merged cells cover more than {_MOST_CELLS} cells", file=self._name)
        return [rows.get(number, []) for number in range(1, numbers[-1] + 1)]


def _is_blank(value: Any) -> bool:
    return value is None or not str(value).strip()


def _elements(stream: IO[bytes], place: str) -> Iterator[tuple[str, dict[str, str] | None, str]]:
    parser = expat.ParserCreate()
    parser.buffer_text = True
    found: list[tuple[str, dict[str, str] | None, str]] = []
    text: list[str] = []
    depth = n_bytes = 0

    def start(tag: str, attributes: dict[str, str]) -> None:
        nonlocal depth
        depth += 1
        if depth > _DEEPEST:
            raise InputError("elements within elements without an end", file=place)
        text.clear()
        found.append((tag.rpartition(":")[2], attributes, ""))

    def end(tag: str) -> None:
        nonlocal depth
        depth -= 1
        found.append((tag.rpartition(":")[2], None, "".join(text)))
        text.clear()

    def refuse(*_: object) -> None:
        raise InputError("a document type, which a workbook has none of", file=place)

    parser.StartElementHandler, parser.EndElementHandler = start, end
    parser.CharacterDataHandler, parser.StartDoctypeDeclHandler = text.append, refuse
    while block := stream.read(1 << 16):
        n_bytes += len(block)
        parser.Parse(block)
        if n_bytes > _MOST_BYTES or sum(map(len, text)) > _MOST_CHARS_OF_A_CELL:
            what = "in it" if n_bytes > _MOST_BYTES else "in a cell"
            raise InputError(f"longer than what is read {what}", file=place)
        yield from found
        found.clear()
    parser.Parse(b"", True)
    yield from found


def _place(reference: str) -> tuple[int, int]:
    """The column and the row of a cell, both from 1: 2 and 7 for ``B7``."""
    if not (found := _PLACE.fullmatch(reference)):
        raise ValueError(f"{reference!r} is no cell")
    column = 0
    for letter in found[1]:
        column = 26 * column + ord(letter) - ord("A") + 1
    if column > _COLUMNS or not 0 < int(found[2]) <= _ROWS:
        raise ValueError(f"{reference} is no cell: a sheet has {_COLUMNS} columns, {_ROWS} rows")
    return column, int(found[2])


def _letters(column: int) -> str:
    letters = ""
    while column:
        column, rest = divmod(column - 1, 26)
        letters = chr(ord("A") + rest) + letters
    return letters


def _date(number: float, is_1904: bool) -> date | time | datetime:
    """The date, time or both that a number of days stands for."""
    # Excel counts a 29 February 1900, which there was not.
    start = datetime(1904, 1, 1) if is_1904 else datetime(1899, 12, 31 if number < 60 else 30)
    found = start + timedelta(seconds=round(number * 86400))
    if number < 1:
        return found.time()
    return found.date() if number.is_integer() else found
