"""A page's figures and tables as files for papers: SVG, PDF, LaTeX, CSV."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from pdtools.files import atomic_directory, atomic_table, write_json
from pdtools.files.written import as_listed
from pdtools.report.tables import latex_table
from pdtools.report.view.charts import Spec
from pdtools.report.view.page import vl_convert

MANIFEST = "figures.json"


@dataclass(frozen=True, kw_only=True)
class Figures:
    """What a page has for papers, by names of files.

    Attributes:
        charts: specifications of Vega-Lite, each drawn as SVG and PDF.
        tables: headings and rows, each written as LaTeX (booktabs) and CSV.
        drawings: other pictures, as SVG; drawn as PDF too.
        sources: other LaTeX.
    """

    charts: Mapping[str, Spec]
    tables: Mapping[str, tuple[Sequence[str], Sequence[Sequence[Any]]]]
    drawings: Mapping[str, str] = field(default_factory=dict)
    sources: Mapping[str, str] = field(default_factory=dict)


def write_figures(
    folder: str | Path, figures: Figures, made: Mapping[str, Any], *, overwrite: bool = False
) -> list[str]:
    """Write a folder of figures; it appears whole or not at all.

    Args:
        folder: to be made.
        figures: what goes into it.
        made: provenance, kept in ``figures.json``.
        overwrite: whether the folder may exist.

    Returns:
        The names of the files.
    """
    converter = vl_convert()
    pictures = {name: converter.vegalite_to_svg(chart) for name, chart in figures.charts.items()}
    pictures |= figures.drawings
    with atomic_directory(folder, overwrite=overwrite) as temporary:
        for name, svg in pictures.items():
            (temporary / f"{file_name(name)}.svg").write_text(svg, "utf-8")
            (temporary / f"{file_name(name)}.pdf").write_bytes(converter.svg_to_pdf(svg))
        for name, (columns, rows) in figures.tables.items():
            (temporary / f"{file_name(name)}.tex").write_text(latex_table(columns, rows), "utf-8")
            with atomic_table(temporary / f"{file_name(name)}.csv", columns) as write:
                for row in rows:
                    write(["" if cell is None else cell for cell in row])
        for name, text in figures.sources.items():
            (temporary / f"{file_name(name)}.tex").write_text(text, "utf-8")
        files = {path.name: as_listed(path) for path in sorted(temporary.iterdir())}
        write_json(temporary / MANIFEST, {"figures": files, "provenance": made})
    return list(files)


def file_name(name: str) -> str:
    """A name without what file systems and LaTeX do not like."""
    return re.sub(r"[^A-Za-z0-9._-]+", "-", name).strip("-._") or "figure"
