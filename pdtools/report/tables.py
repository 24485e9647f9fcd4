"""Tables: drawn on a terminal, aligned plain text in a pipe, Markdown; shares as shades."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Sequence
from typing import IO

Cell = str | int | float | None
_SHADES = " ░▒▓█"


def print_table(
    columns: Sequence[str],
    rows: Iterable[Sequence[Cell]],
    *,
    title: str = "",
    stream: IO[str] | None = None,
    digits: int = 2,
) -> None:
    """Print a table.

    Args:
        columns: their headings.
        rows: cells; numbers stand on the right, floats with ``digits`` decimals, None is a dash.
        title: a line above it.
        stream: where to; standard output by default.
        digits: decimals of floats.
    """
    stream = sys.stdout if stream is None else stream
    body = [list(row) for row in rows]
    numeric = [
        all(isinstance(row[i], (int, float)) or row[i] is None for row in body) for i in range(len(columns))
    ]
    texts = [[_text(cell, digits) for cell in row] for row in body]
    if stream.isatty():
        _draw(columns, texts, numeric, title, stream)
    else:
        _align(columns, texts, numeric, title, stream)


def _text(cell: Cell, digits: int) -> str:
    if cell is None:
        return "-"
    return f"{cell:.{digits}f}" if isinstance(cell, float) else str(cell)


def _align(
    columns: Sequence[str], texts: list[list[str]], numeric: list[bool], title: str, stream: IO[str]
) -> None:
    widths = [max(len(row[i]) for row in [list(columns), *texts]) for i in range(len(columns))]
    lines = [
        "  ".join(
            cell.rjust(width) if right else cell.ljust(width)
            for cell, width, right in zip(row, widths, numeric, strict=True)
        ).rstrip()
        for row in [list(columns), *texts]
    ]
    stream.write("".join(f"{line}\n" for line in ([title] if title else []) + lines))


def _draw(
    columns: Sequence[str], texts: list[list[str]], numeric: list[bool], title: str, stream: IO[str]
) -> None:
    from rich.console import Console
    from rich.table import Table

    table = Table(title=title or None, title_justify="left")
    for name, right in zip(columns, numeric, strict=True):
        table.add_column(name, justify="right" if right else "left", overflow="fold")
    for row in texts:
        table.add_row(*row)
    Console(file=stream, markup=False, highlight=False, emoji=False).print(table)


def markdown_table(rows: Iterable[Sequence[str]]) -> str:
    """Rows of cells as Markdown, the headings' line of dashes among them."""
    return "".join("| " + " | ".join(row) + " |\n" for row in rows)


def shade(share: float) -> str:
    """A share of 1 as two characters, darker for more; blank below 10 %."""
    return 2 * _SHADES[min(int(share * len(_SHADES) + 0.5), len(_SHADES) - 1)]
