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


def percent(score: float | None) -> str:
    """A fraction of 1 as tables show it."""
    return "-" if score is None else f"{100 * score:.2f}"
