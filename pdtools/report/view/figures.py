"""A page's figures and tables as files for papers: SVG, PDF, LaTeX, CSV."""

from __future__ import annotations

import hashlib
import re
from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from unicodedata import combining, normalize

from pdtools.files import atomic_directory, atomic_table, write_json
from pdtools.report.tables import latex_table
from pdtools.report.view.charts import Spec
from pdtools.report.view.vega import draw

MADE = "figures.json"
_LONGEST = 100  # number of letters of a name that are kept
_DIGEST = re.compile(r"-[0-9a-fA-F]{8}$")


@dataclass(frozen=True, kw_only=True)
class Figures:
    """A page's figures and tables for papers, by file names.

    Attributes:
        charts: specifications of Vega-Lite, each drawn as SVG and PDF.
        tables: headings and rows, each written as LaTeX (booktabs) and CSV.
        digits: decimals of each row of some tables in LaTeX; two for others.
        drawings: other pictures, as SVG; drawn as PDF too.
        sources: other LaTeX.
    """

    charts: Mapping[str, Spec]
    tables: Mapping[str, tuple[Sequence[str], Sequence[Sequence[Any]]]]
    digits: Mapping[str, Sequence[int]] = field(default_factory=dict)
    drawings: Mapping[str, str] = field(default_factory=dict)
    sources: Mapping[str, str] = field(default_factory=dict)


def write_figures(
    folder: str | Path, figures: Figures, made: Mapping[str, Any], *, overwrite: bool = False
) -> list[str]:
    """Write a folder of figures; it appears whole or not at all.

    Args:
        folder: the folder to be made.
        figures: its content.
        made: provenance, kept in ``figures.json``.
        overwrite: whether the folder may exist.

    Returns:
        The names of the files.
    """
    pictures = draw(figures.charts, figures.drawings)
    stems = file_names([*pictures, *figures.tables, *figures.sources])
    with atomic_directory(folder, kind="figures", overwrite=overwrite) as temporary:
        for name, picture in pictures.items():
            for kind, content in picture.items():
                (temporary / f"{stems[name]}.{kind}").write_bytes(content)
        for name, (columns, rows) in figures.tables.items():
            latex = latex_table(columns, _with_p(columns, rows), digits=figures.digits.get(name, 2))
            (temporary / f"{stems[name]}.tex").write_text(latex, "utf-8")
            with atomic_table(
                temporary / f"{stems[name]}.csv", [_cell(column) for column in columns]
            ) as write:
                for row in rows:
                    write([_cell(cell) for cell in row])
        for name, text in figures.sources.items():
            (temporary / f"{stems[name]}.tex").write_text(text, "utf-8")
        files = sorted(path.name for path in temporary.iterdir())
        write_json(temporary / MADE, {"provenance": made})
    return files


def _with_p(columns: Sequence[str], rows: Sequence[Sequence[Any]]) -> list[list[Any]]:
    """Rows whose p (columns ``p``, ``p_holm``) have two digits, whatever the decimals of the others."""
    is_p = [name in ("p", "p_holm") for name in columns]
    return [
        [f"{cell:.2g}" if p and cell is not None else cell for p, cell in zip(is_p, row, strict=True)]
        for row in rows
    ]


def _cell(value: Any) -> Any:
    """A cell for CSV: names of files may have bytes that are no UTF-8."""
    text = "" if value is None else value
    return text.encode("utf-8", "backslashreplace").decode() if isinstance(text, str) else text


def file_names(names: Collection[str]) -> dict[str, str]:
    """A safe, unique file name for each name, acceptable to file systems and LaTeX, whatever its case.

    A name that loses characters gets a digest at its end, which is always the same. So does each of several
    names that differ only in case.
    """
    folded = Counter(name.casefold() for name in set(names))
    found = {}
    for name in names:
        letters = "".join(each for each in normalize("NFKD", name) if not combining(each))
        kept = re.sub(r"[^A-Za-z0-9._-]+", "-", letters).strip("-._")
        stem = kept[:_LONGEST] or "figure"
        # A name that ends like a digest could be another's.
        if stem != name or folded[name.casefold()] > 1 or _DIGEST.search(stem):
            stem += f"-{hashlib.sha256(name.encode('utf-8', 'surrogatepass')).hexdigest()[:8]}"
        found[name] = stem
    return found
