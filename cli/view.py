"""``pdtools view``: one HTML file that shows sentences under models, training runs, or results."""

from __future__ import annotations

from typing import Annotated, Any

import typer

from pdtools.errors import InputError
from pdtools.files import Kind, kind_of

from .console import message, print_json
from .options import JsonOption, OverwriteOption, QuietOption, SeedOption
from .outputs import check_different, check_target


def view(
    paths: Annotated[
        list[str] | None,
        typer.Argument(metavar="PATH", help="Results folders (of any number of models), or runs."),
    ] = None,
    output: Annotated[
        str | None,
        typer.Option(
            "--output", "-o", rich_help_panel="Output", metavar="FILE", help="The page, an HTML file."
        ),
    ] = None,
    figures: Annotated[
        str | None,
        typer.Option(
            "--figures",
            rich_help_panel="Output",
            metavar="DIR",
            help="Every figure as SVG and PDF, every table as LaTeX and CSV.",
        ),
    ] = None,
    title: Annotated[
        str | None, typer.Option("--title", rich_help_panel="Output", help="Of the page.")
    ] = None,
    most_mb: Annotated[
        float,
        typer.Option("--max-mb", min=0, rich_help_panel="Output", help="Refuse to write a larger page."),
    ] = 20,
    seed: SeedOption = 0,
    overwrite: OverwriteOption = False,
    as_json: JsonOption = False,
    quiet: QuietOption = False,
) -> None:
    """Make one HTML file that shows what happened; it opens anywhere, and needs no network.

    Results: the scores of any number of models with intervals, differences with p corrected for their number,
    test suites by region, and the items one by one.

    Runs: losses, accuracies, learning rate, speed, of several runs together.

    \b
    Example:
      pdtools view results/base results/pushdown -o results.html
      pdtools view runs/* -o runs.html --figures figures
    """
    if output is None and figures is None:
        raise typer.BadParameter("name the page with -o, a folder for figures with --figures, or both")
    given = list(paths or [])
    if not given:
        raise typer.BadParameter("name folders of results, or of runs")
    check_different(*(name for name in (output, figures) if name))
    check_target(output, folder=False, overwrite=overwrite, inputs=given, quiet=quiet)
    check_target(figures, folder=True, overwrite=overwrite, inputs=given, quiet=quiet)

    from pdtools.files import atomic_text
    from pdtools.provenance import provenance
    from pdtools.report.view import results, runs
    from pdtools.report.view.figures import write_figures
    from pdtools.report.view.page import check_size, render

    module: Any
    if all(map(runs.is_run, given)):
        module, page = runs, runs.runs_page(given, title=title)
    else:
        if wrong := [path for path in given if kind_of(path) not in (Kind.RESULTS, Kind.SEVERAL_RESULTS)]:
            raise InputError("neither results nor a run of pdtools train", file=wrong[0])
        module, page = results, results.results_page(given, title=title, seed=seed)
    made = provenance({str(i): path for i, path in enumerate(given)})
    report: dict[str, Any] = {
        "kind": page.kind,
        "notes": list(page.notes),
        "output": output,
        "figures": figures,
    }
    if output:
        text = render(page, made)
        said = check_size(text, int(most_mb * 1e6))
        with atomic_text(output) as stream:
            stream.write(text)
        report["bytes"] = len(text.encode())
        for note in [*page.notes, *([said] if said else [])]:
            message(f"{output}: {note}", quiet=quiet)
    if figures:
        report["files"] = write_figures(
            figures, module.figures(page), module.tables(page), made, overwrite=overwrite
        )
    if as_json:
        print_json({**report, "provenance": made})
