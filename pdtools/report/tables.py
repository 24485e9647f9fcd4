"""Tables: aligned plain text that fits a terminal, LaTeX, Markdown; shares as shades."""

from __future__ import annotations

import math
import re
import shutil
import sys
import textwrap
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from typing import IO

from pdtools.errors import visible

Cell = str | int | float | None


class Number(str):
    """A formatted cell that is right-aligned, as numbers are."""

    __slots__ = ()


WIDTH = 80
"""The width of output into a pipe, in columns."""
_GAP = "  "
_SHADES = " ░▒▓█"
_IS_LATEX = ContextVar("_IS_LATEX", default=False)


@contextmanager
def latex_tables(wanted: bool = True) -> Iterator[None]:
    """While the block runs, print tables as LaTeX, and the text between them as its comments."""
    token = _IS_LATEX.set(wanted)
    try:
        yield
    finally:
        _IS_LATEX.reset(token)


def percent(score: float | None) -> float | None:
    """A fraction of 1 as a percentage."""
    return None if score is None else 100 * score


def print_note(text: str) -> None:
    """Print a line that belongs to a table, in lines no wider than one."""
    mark = "% " if _IS_LATEX.get() else ""
    print(textwrap.fill(mark + visible(text), WIDTH, subsequent_indent=mark + "  ", break_long_words=False))


def print_table(
    columns: Sequence[str],
    rows: Iterable[Sequence[Cell]],
    *,
    title: str = "",
    stream: IO[str] | None = None,
    digits: int | Sequence[int] = 2,
    footnotes: Sequence[str] = (),
) -> None:
    """Print a table, no wider than the terminal, or than 80 columns without one; or as LaTeX.

    If it does not fit, its first column is narrowed, and its longer cells get lines of their own.

    Args:
        columns: their headings.
        rows: cells; numbers are right-aligned, floats have ``digits`` decimals, None is a dash.
        title: a line above it.
        stream: the output stream; standard output by default.
        digits: number of decimals; for each row, if there are several. A nonzero number that would print as 0
            has more.
        footnotes: lines below it.
    """
    stream = sys.stdout if stream is None else stream
    if _IS_LATEX.get():
        stream.write(latex_table(columns, rows, title=title, digits=digits, footnotes=footnotes))
        return
    columns, title = [visible(name) for name in columns], visible(title)
    body = [list(row) for row in rows]
    numeric = _numeric(body, len(columns))
    texts = [[_text(cell, n) for cell in row] for row, n in zip(body, _of_rows(digits, body), strict=True)]
    width = shutil.get_terminal_size().columns if stream.isatty() else WIDTH
    lines = _aligned([list(columns), *texts], numeric, width)
    stream.write("".join(f"{line}\n" for line in [*([title] if title else []), *lines, *footnotes]))


def _numeric(body: Sequence[Sequence[Cell]], columns: int) -> list[bool]:
    """True for columns that hold only numbers."""
    kinds = (int, float, Number)
    return [all(isinstance(row[i], kinds) or row[i] is None for row in body) for i in range(columns)]


def latex_table(
    columns: Sequence[str],
    rows: Iterable[Sequence[Cell]],
    *,
    title: str = "",
    digits: int | Sequence[int] = 2,
    footnotes: Sequence[str] = (),
) -> str:
    """A table for LaTeX, with the rules of its package booktabs; arguments as for :func:`print_table`."""
    body = [list(row) for row in rows]
    kinds = "".join("r" if right else "l" for right in _numeric(body, len(columns)))
    lines = [f"% {visible(title)}"] if title else []
    lines += [f"\\begin{{tabular}}{{{kinds}}}", r"\toprule", _latex_row(columns), r"\midrule"]
    lines += [
        _latex_row(["--" if cell is None else _text(cell, n) for cell in row])
        for row, n in zip(body, _of_rows(digits, body), strict=True)
    ]
    lines.append(r"\bottomrule")
    lines += [
        rf"\multicolumn{{{len(columns)}}}{{l}}{{\footnotesize {latex_text(visible(note))}}} \\"
        for note in footnotes
    ]
    lines.append(r"\end{tabular}")
    return "".join(f"{line}\n" for line in lines)


def _latex_row(cells: Sequence[str]) -> str:
    # Text after a line break would be its argument if it began with a bracket or a star.
    escaped = [re.sub(r"^([\[*])", r"{\1}", latex_text(visible(cell))) for cell in cells]
    return " & ".join(escaped) + r" \\"


LATEX = {
    **{sign: f"\\{sign}" for sign in "&%$#_{}"},
    "\\": r"\textbackslash{}",
    "~": r"\textasciitilde{}",
    "^": r"\textasciicircum{}",
    "<": r"\textless{}",
    ">": r"\textgreater{}",
    "|": r"\textbar{}",
}
"""Signs that mean something in LaTeX."""
_LATEX = {
    **LATEX,
    "±": r"$\pm$",
    "Δ": r"$\Delta$",
    "†": r"$^\dagger$",
    "‡": r"$^\ddagger$",
    "\N{MINUS SIGN}": "$-$",
}


def latex_text(text: str) -> str:
    """Text escaped for LaTeX; the signs of numbers, and powers of ten, as mathematics."""
    escaped = "".join(_LATEX.get(sign, sign) for sign in text)
    escaped = re.sub(
        r"(?<![\w.])(\d+(?:\.\d+)?)e([+-])0*(\d+)(?![\w.])",
        lambda found: rf"${found[1]}\cdot10^{{{found[2].strip('+')}{found[3]}}}$",
        escaped,
    )
    return re.sub(r"(?<![\w.^{])([+-])(?=\d)", r"$\1$", escaped)


def _of_rows(digits: int | Sequence[int], rows: Sequence[object]) -> Sequence[int]:
    return [digits] * len(rows) if isinstance(digits, int) else digits


def _text(cell: Cell, digits: int) -> str:
    if cell is None:
        return "-"
    return decimal(cell, digits) if isinstance(cell, float) else visible(str(cell))


def decimal(number: float, digits: int, sign: str = "") -> str:
    """A number with fixed decimals; one that would print as 0 has two digits, as a power of ten if small.

    Args:
        number: any.
        digits: number of decimals.
        sign: ``+``: positive numbers have a sign too.
    """
    text = f"{number:{sign}.{digits}f}"
    return f"{number:{sign}.2g}" if number and not float(text) else text


def scores_table(
    scores: Mapping[str, Mapping[str, tuple[float, float | None]]], runs: Mapping[str, int]
) -> tuple[list[str], list[list[Cell]]]:
    """One table for a paper, models × scores: means and standard deviations over seeds.

    Args:
        scores: by name, the mean and the deviation of each group that has the score.
        runs: number of runs of each group, in the order of the rows.

    Returns:
        Headings and rows; with numbers of runs, if some group has several.
    """
    digits = {score: decimals(*(mean for mean, _ in of.values())) for score, of in scores.items()}
    several = any(n > 1 for n in runs.values())

    def cell(score: str, mean: float, deviation: float | None) -> Number:
        """``71.20 ± 0.53``; the mean of one run has no deviation."""
        of_runs = "" if deviation is None else f" ± {decimal(deviation, digits[score])}"
        return Number(decimal(mean, digits[score]) + of_runs)

    rows: list[list[Cell]] = [
        [
            name,
            *([n] if several else []),
            *(cell(score, *of[name]) if name in of else None for score, of in scores.items()),
        ]
        for name, n in runs.items()
    ]
    return ["model", *(["runs"] if several else []), *scores], rows


def decimals(*numbers: float | None) -> int:
    """The number of decimals for numbers shown together.

    Two; for numbers below 1 four, or enough for three digits of the smallest, up to eight.
    """
    sizes = [abs(number) for number in numbers if number]
    if not sizes or max(sizes) >= 1:
        return 2
    return min(max(4, 2 - math.floor(math.log10(min(sizes)))), 8)


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
    """Rows of cells as Markdown, including the line of dashes below the headings."""
    return "".join("| " + " | ".join(row) + " |\n" for row in rows)


def listed(parts: Sequence[str]) -> str:
    """Words as in a sentence: one, two and three."""
    return f"{', '.join(parts[:-1])} and {parts[-1]}" if len(parts) > 1 else "".join(parts)


def shade(share: float) -> str:
    """A share of 1 as two characters, darker for more; blank below 10 %."""
    return 2 * _SHADES[min(int(share * len(_SHADES) + 0.5), len(_SHADES) - 1)]
