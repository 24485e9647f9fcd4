"""Tables as commands print them."""

from __future__ import annotations

import re

_GAP = re.compile(r"  +")


def tables(printed: str) -> list[tuple[list[str], list[list[str]]]]:
    """The printed tables: headers and rows. A line of one cell is no row, and ends a table."""
    found: list[tuple[list[str], list[list[str]]]] = []
    for line in printed.split("\n"):
        cells = _GAP.split(line.strip())
        if len(cells) < 2 or line.startswith(" "):
            found.append(([], []))
        elif not found or not found[-1][0] or cells[0] == "pair":  # directly below the groups
            found.append((cells, []))
        else:
            found[-1][1].append(cells)
    return [table for table in found if table[0]]


def latex_tables(printed: str) -> list[tuple[list[str], list[list[str]]]]:
    """The same of LaTeX, as cells of plain text."""
    found: list[tuple[list[str], list[list[str]]]] = []
    for part in printed.split(r"\begin{tabular}")[1:]:
        lines = [line.removesuffix(r" \\") for line in part.splitlines() if line.endswith(r" \\")]
        header, *rows = (
            [plain_cell(cell.strip()) for cell in re.split(r"(?<!\\)&", line)]
            for line in lines
            if "multicolumn" not in line
        )
        found.append((header, rows))
    return found


def plain_cell(cell: str) -> str:
    """A cell of LaTeX as plain text has it."""
    text = re.sub(r"\$(\S+)\\cdot10\^\{(-?)(\d+)\}\$", lambda f: f"{f[1]}e{f[2] or '+'}{int(f[3]):02}", cell)
    text = re.sub(r"\$([+-])\$", r"\1", text).replace(r"$\pm$", "±").replace("{[}", "[")
    return "-" if text == "--" else re.sub(r"\\([%_&#])", r"\1", text)


def percent(score: float | None) -> str:
    """A fraction of 1 as tables show it."""
    return "-" if score is None else f"{100 * score:.2f}"
