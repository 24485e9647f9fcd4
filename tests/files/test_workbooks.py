"""Workbooks of Excel: the values of all kinds of cells, against another reader, and what is refused."""

from __future__ import annotations

import resource
import zipfile
from datetime import date, datetime, time
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from toy_workbooks import cell, rows_of, write_workbook

from pdtools.errors import InputError
from pdtools.files.workbooks import workbook_rows

HEADER = ["item", "word"]


def values(path: Path, *cells: object, **parts: str) -> list[Any]:
    """The second cells of rows below a header."""
    book = write_workbook(path / "t.xlsx", rows_of(HEADER, *([1, each] for each in cells)), **parts)
    return [row[1] for row in workbook_rows(str(book))[0][1:]]


def test_texts(tmp_path: Path) -> None:
    """Escaped characters are themselves, and what is escaped to stay as it is stays; no phonetic texts."""
    strings = "<si><r><t>ab</t></r><r><t>_x000D_\ncd</t></r></si><si><t>x</t><rPh><t>y</t></rPh></si>"
    shared = ['<c t="s"><v>0</v></c>', '<c t="s"><v>1</v></c>', '<c t="str"><f>A1</f><v>a_x0009_b</v></c>']
    shared += ['<c t="str"><f>""</f><v></v></c>']
    assert values(tmp_path, *shared, "_x005F_x000D_", "_x0000_ _xD83D_ _x00e9_", "", strings=strings) == [
        *("ab\r\ncd", "x", "a\tb", "", "_x000D_", "_x0000_ _xD83D_ é", "")
    ]
    assert values(tmp_path, "<c><v></v></c>", "z") == [None, "z"]
    parts = "<r><t>東</t></r><r><t>京</t></r><rPh><t>トウキョウ</t></rPh>"  # in the cell itself
    assert values(tmp_path, f'<c t="inlineStr"><is>{parts}</is></c>', "z") == ["東京", "z"]


def test_numbers_and_dates(tmp_path: Path) -> None:
    formats = '<numFmt numFmtId="164" formatCode="yyyy\\-mm"/>'
    formats += '<numFmt numFmtId="165" formatCode="0.0&quot;d&quot;[Red]"/>'
    xfs = "".join(f'<xf numFmtId="{n}"/>' for n in (0, 14, 164, 165, 20))
    styles = f"<numFmts>{formats}</numFmts><cellStyleXfs><xf/></cellStyleXfs><cellXfs>{xfs}</cellXfs>"
    cells = [f'<c s="{style}"><v>46143.25</v></c>' for style in range(4)]
    cells += ['<c s="1"><v>46143</v></c>', '<c s="4"><v>0.5</v></c>', '<c s="1"><v>59</v></c>']
    moment = datetime(2026, 5, 1, 6)
    expected = [46143.25, moment, moment, 46143.25, date(2026, 5, 1), time(12), date(1900, 2, 28)]
    assert values(tmp_path, *cells, styles=styles) == expected
    seconds = [
        f'<c s="4"><v>{days}</v></c>' for days in (0.524259259259259, 46143.52425925926)
    ]  # a little less
    assert values(tmp_path, *seconds, styles=styles) == [time(12, 34, 56), datetime(2026, 5, 1, 12, 34, 56)]
    later = date(2030, 5, 2)
    for said, day in {"1": later, "true": later, "0": expected[4], "false": expected[4]}.items():
        found = values(tmp_path, *cells[4:5], styles=styles, book=f'<workbookPr date1904="{said}"/>')
        assert found == [day]
    truths = {"1": True, "true": True, "0": False, "false": False}
    said_so = [f'<c t="b"><v>{said}</v></c>' for said in truths]
    assert values(tmp_path, *said_so) == list(truths.values())
    found = values(tmp_path, 3, 0.5, 1e-7, 12345678901234567890, True, '<c t="d"><v>2026-05-01</v></c>')
    assert [*map(repr, found[:5]), found[5]] == [
        *("3", "0.5", "1e-07", "1.2345678901234567e+19", "True"),
        datetime(2026, 5, 1),
    ]


def test_merged_cells_among_blank_rows(tmp_path: Path) -> None:
    """Rows keep the numbers of the spreadsheet; blank ones stay blank."""
    rows = rows_of([None], HEADER, [1, "x"], [None, " "], [None, "y"])
    merged = '<mergeCells><mergeCell ref="A3:A9"/></mergeCells>'
    book = write_workbook(tmp_path / "t.xlsx", rows, after=merged)
    assert workbook_rows(str(book))[0] == [[], HEADER, [1, "x"], [], [1, "y"]]
    wide = '<mergeCells><mergeCell ref="B2:C2"/></mergeCells>'  # a name above two columns
    book = write_workbook(tmp_path / "t.xlsx", rows_of([None], HEADER, [1, "x", "y"]), after=wide)
    assert workbook_rows(str(book))[0] == [[], [*HEADER, "word"], [1, "x", "y"]]


@settings(max_examples=60)
@given(
    cells=st.lists(st.lists(st.sampled_from([None, 1, "x"]), min_size=5, max_size=5), min_size=2, max_size=5),
    drawn=st.lists(
        st.tuples(st.integers(0, 4), st.integers(0, 2), st.integers(0, 4), st.integers(0, 2)), max_size=4
    ),
)
def test_merged_cells_anywhere(
    cells: list[list[object]],
    drawn: list[tuple[int, int, int, int]],
    tmp_path_factory: pytest.TempPathFactory,
) -> None:
    """Each has the first one's value, in rows with something; the header is as wide as its merged cells."""
    cells[0][0] = "name"
    areas: list[tuple[int, int, int, int]] = []
    taken: set[tuple[int, int]] = set()
    for top, more_rows, left, more_columns in drawn:
        bottom, right = min(top + more_rows, len(cells) - 1), min(left + more_columns, 4)
        own = {(row, column) for row in range(top, bottom + 1) for column in range(left, right + 1)}
        if len(own) > 1 and not own & taken:
            taken |= own
            areas.append((top, left, bottom, right))
            for row, column in own - {(top, left)}:
                cells[row][column] = None
    width = max(i for i, cell in enumerate(cells[0], 1) if cell is not None)
    width = max([width, *(right + 1 for top, left, _, right in areas if top == 0 and left < width)])
    if any(cell is not None for row in cells for cell in row[width:]):
        return  # which is refused
    expected: list[list[object]] = [
        list(row[:width]) if any(cell is not None for cell in row) else [] for row in cells
    ]
    while not expected[-1]:
        expected.pop()
    for top, left, bottom, right in areas:
        for row in range(top, min(bottom + 1, len(expected))):
            for column in range(left, min(right + 1, width)):
                if expected[row]:
                    expected[row][column] = cells[top][left]
    merged = "".join(
        f'<mergeCell ref="{"ABCDE"[left]}{top + 1}:{"ABCDE"[right]}{bottom + 1}"/>'
        for top, left, bottom, right in areas
    )
    file = tmp_path_factory.mktemp("merged") / "t.xlsx"
    write_workbook(file, rows_of(*cells), after=f"<mergeCells>{merged}</mergeCells>")
    assert workbook_rows(str(file))[0] == expected


def test_as_openpyxl_reads_them(tmp_path: Path) -> None:
    openpyxl = pytest.importorskip("openpyxl")
    book = openpyxl.Workbook()
    rows = [["a", "b", "c"], [1, "x", 2.5], [True, "é\n&", datetime(2026, 5, 1, 6, 30)], [None, "y", -3]]
    for row in rows:
        book.active.append(row)
    book.active["A4"].number_format = "0.00%"
    book.active.append([None, None, None])
    book.active.append([1e-9, 123456789012, "z"])
    book.save(tmp_path / "t.xlsx")
    read = [list(row) if any(row) else [] for row in book.active.iter_rows(values_only=True)]
    assert workbook_rows(str(tmp_path / "t.xlsx"))[0] == read


FORMULA = "<c><f>A1&amp;B1</f></c>"
ALL = '<mergeCell ref="A2:XFD1048576"/>' * 200


def at(row: int, *cells: str) -> str:
    """A row with its number."""
    return f'<row r="{row}">{"".join(cells)}</row>'


@pytest.mark.parametrize(
    ("rows", "said"),
    [
        (rows_of([1, "x"], [2, FORMULA]), r"t\.xlsx:3: the file does not hold the value .* column B \(open"),
        (rows_of(["x", "y"], [None, FORMULA]), r"t\.xlsx:3: the file does not hold the value .* column B"),
        (
            at(1048576, cell("x", "XFD1048576")),
            r"t\.xlsx:1048576: .* name above the cell XFD1048576 \(name it",
        ),
        (rows_of([1, "<c><f>A1</f><v/></c>"]), r"t\.xlsx:2: the file does not hold the value"),
        (rows_of([1, "x", None, "note"]), r"t\.xlsx:2: no column has a name above the cell D2"),
        (at(10**9, cell("x")), "not a workbook: row 1000000000 after row 1; a sheet has 1048576 rows"),
        (at(1, cell("x")), "not a workbook: row 1 after row 1"),
        (rows_of([1, cell("x", "XFE2")]), "not a workbook: XFE2 is no cell"),
        (rows_of([1, cell("x", "2B")]), "not a workbook: '2B' is no cell"),
        (rows_of(*([i, i] for i in range(1 << 14))), "more than 32768 cells"),
        (rows_of(*([i, f"{i:04}" * 250] for i in range(40))), "more than 32768 characters in its cells"),
        (rows_of([1, "a" * 3_000_000]), "longer than what is read in a cell|more than 100 times"),
        (rows_of([1, '<c t="s"><v>-1</v></c>']), "not a workbook: no text has the number -1"),
        ("<a>" * 100, "elements within elements"),
        (rows_of(*([i, i] for i in range(99))) + f"</sheetData>{ALL}<sheetData>", "merged cells cover more"),
        (rows_of(*([cell(i, f"AAA{i + 2}")] for i in range(99))), "more than 32768 cells"),
    ],
)
@pytest.mark.linux
def test_refused_in_bounded_memory(
    rows: str, said: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for limit in ("_MOST_CELLS", "_MOST_CHARS"):
        monkeypatch.setattr(f"pdtools.files.workbooks.{limit}", 1 << 15)
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    with pytest.raises(InputError, match=said):
        workbook_rows(str(write_workbook(tmp_path / "t.xlsx", rows_of(HEADER) + rows)))
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 1 << 16


def test_blank_cells_beside_the_header_and_blank_sheets(tmp_path: Path) -> None:
    for rows, read in (
        ([[None], ["item", "word", " ", None], [1, "x", None]], [[], HEADER, [1, "x"]]),
        ([[None, " "]], []),
        ([], []),
    ):
        book = write_workbook(tmp_path / "t.xlsx", rows_of(*rows))
        assert workbook_rows(str(book))[0] == read
    with zipfile.ZipFile(tmp_path / "u.xlsx", "w") as archive, zipfile.ZipFile(book) as whole:
        for name in whole.namelist():
            if name != "xl/worksheet.xml":
                archive.writestr(name, whole.read(name))
    with pytest.raises(InputError, match=r"not a workbook: there is no xl/worksheet\.xml in it"):
        workbook_rows(str(tmp_path / "u.xlsx"))


def test_a_document_type_is_refused(tmp_path: Path) -> None:
    """It would define entities that unpack to gigabytes."""
    book = write_workbook(tmp_path / "t.xlsx", rows_of(HEADER))
    with zipfile.ZipFile(tmp_path / "u.xlsx", "w") as archive, zipfile.ZipFile(book) as known:
        for name in known.namelist():
            defined = b'<!DOCTYPE a [<!ENTITY x "y">]>' * (name == "xl/worksheet.xml")
            archive.writestr(name, defined + known.read(name))
    with pytest.raises(InputError, match=r"u\.xlsx/xl/worksheet\.xml: a document type"):
        workbook_rows(str(tmp_path / "u.xlsx"))
