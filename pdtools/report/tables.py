"""Tables: aligned plain text that fits a terminal, Markdown; shares as shades."""

from __future__ import annotations

import shutil
import sys
from collections.abc import Iterable, Sequence
from typing import IO

from pdtools.visible import visible

Cell = str | int | float | None
WIDTH = 80
"""Columns of what is printed into a pipe."""
_GAP = "  "
_SHADES = " ░▒▓█"


def print_table(
    columns: Sequence[str],
    rows: Iterable[Sequence[Cell]],
    *,
    title: str = "",
    stream: IO[str] | None = None,
    digits: int = 2,
) -> None:
    """Print a table, no wider than the terminal, or than 80 columns where there is none.

    If it does not fit, its first column is made narrower, and what is too long for it stands on a line of its
    own.

    Args:
        columns: their headings.
        rows: cells; numbers stand on the right, floats with ``digits`` decimals, None is a dash.
        title: a line above it.
        stream: where to; standard output by default.
        digits: decimals of floats.
    """
    stream = sys.stdout if stream is None else stream
    columns, title = [visible(name) for name in columns], visible(title)
    body = [list(row) for row in rows]
    numeric = [
        all(isinstance(row[i], (int, float)) or row[i] is None for row in body) for i in range(len(columns))
    ]
    texts = [[_text(cell, digits) for cell in row] for row in body]
    width = shutil.get_terminal_size().columns if stream.isatty() else WIDTH
    lines = _aligned([list(columns), *texts], numeric, width)
    stream.write("".join(f"{line}\n" for line in ([title] if title else []) + lines))


def _text(cell: Cell, digits: int) -> str:
    if cell is None:
        return "-"
    return f"{cell:.{digits}f}" if isinstance(cell, float) else visible(str(cell))


def _aligned(rows: list[list[str]], numeric: list[bool], width: int) -> list[str]:
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    left = width - len(_GAP.join(" " * each for each in widths[1:])) - len(_GAP)
    widths[0] = min(widths[0], max(left, len(rows[0][0])))
    lines = []
    for row in rows:
        if len(row[0]) > widths[0]:
            lines.append(row[0])
            row = ["", *row[1:]]
        cells = (
            cell.rjust(wide) if right else cell.ljust(wide)
            for cell, wide, right in zip(row, widths, numeric, strict=True)
        )
        lines.append(_GAP.join(cells).rstrip())
    return lines


def markdown_table(rows: Iterable[Sequence[str]]) -> str:
    """Rows of cells as Markdown, the headings' line of dashes among them."""
    return "".join("| " + " | ".join(row) + " |\n" for row in rows)


def listed(parts: Sequence[str]) -> str:
    """Words as in a sentence: one, two and three."""
    return f"{', '.join(parts[:-1])} and {parts[-1]}" if len(parts) > 1 else "".join(parts)


def shade(share: float) -> str:
    """A share of 1 as two characters, darker for more; blank below 10 %."""
    return 2 * _SHADES[min(int(share * len(_SHADES) + 0.5), len(_SHADES) - 1)]
