"""Excel workbooks of a few cells, written as XML, as no library writes them."""

from __future__ import annotations

import zipfile
from pathlib import Path

_TYPES = "http://schemas.openxmlformats.org/officeDocument/2006/relationships"


def cell(value: object, place: str = "") -> str:
    """A cell of a value: text, a number, a truth value, or the content of the cell as XML."""
    where = f' r="{place}"' * bool(place)
    if isinstance(value, bool):
        return f'<c{where} t="b"><v>{int(value)}</v></c>'
    if value is None or isinstance(value, (int, float)):
        return f"<c{where}>{'' if value is None else f'<v>{value}</v>'}</c>"
    if str(value).startswith("<c"):
        return str(value)
    return f'<c{where} t="inlineStr"><is><t xml:space="preserve">{value}</t></is></c>'


def rows_of(*rows: list[object]) -> str:
    """Rows of cells."""
    return "".join(f"<row>{''.join(map(cell, row))}</row>" for row in rows)


def write_workbook(
    path: Path, rows: str, *, after: str = "", strings: str = "", styles: str = "", book: str = ""
) -> Path:
    """Write a workbook of one sheet, whose parts are given as XML."""
    parts = {"worksheet": f"<worksheet><sheetData>{rows}</sheetData>{after}</worksheet>"}
    parts |= {"sharedStrings": f"<sst>{strings}</sst>", "styles": f"<styleSheet>{styles}</styleSheet>"}
    relations = "".join(f'<Relationship Id="{k}" Type="{_TYPES}/{k}" Target="{k}.xml"/>' for k in parts)
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        of_book = f'<Relationship Id="b" Type="{_TYPES}/officeDocument" Target="/xl/book.xml"/>'
        archive.writestr("_rels/.rels", f"<Relationships>{of_book}</Relationships>")
        archive.writestr("xl/_rels/book.xml.rels", f"<Relationships>{relations}</Relationships>")
        sheet = '<sheets><sheet name="One" sheetId="1" r:id="worksheet"/></sheets>'
        archive.writestr("xl/book.xml", f'<workbook xmlns:r="{_TYPES}">{book}{sheet}</workbook>')
        for kind, text in parts.items():
            archive.writestr(f"xl/{kind}.xml", text)
    return path
