"""``pdtools data``: treebanks and benchmarks by name, from where their authors publish them; a sample."""

from __future__ import annotations

from typing import Annotated

import typer

from .console import counter, message, print_json
from .options import JsonOption, OverwriteOption, PanelledCommand, QuietOption
from .outputs import check_target
from .panels import output_option

app = typer.Typer(
    no_args_is_help=True, rich_markup_mode=None, help="Download treebanks and benchmarks by name."
)


@app.command("list", cls=PanelledCommand, short_help="List the data sets.")
def list_datasets(as_json: JsonOption = False) -> None:
    """List the data sets that pdtools data get takes: name, download, licence, content.

    \b
    Example:
      pdtools data list
    """
    from dataclasses import asdict

    from pdtools.provenance.datasets import bundled, read_dataset

    found = [read_dataset(name) for name in bundled()]
    if as_json:
        print_json([{**asdict(each), "size": each.size} for each in found])
        return
    width = max(len(each.name) for each in found) + 2
    for each in found:
        size = f"{each.size / 1e6:5.1f} MB" if each.size else " bundled"
        typer.echo(f"{each.name:<{width}}{size}  {each.title}: {each.about}")
        typer.echo(f"{'':<{width + 10}}{each.terms}")


@app.command("get", cls=PanelledCommand, short_help="Download a data set.")
def get(
    name: Annotated[str, typer.Argument(metavar="NAME", help="One of pdtools data list, or a TOML file.")],
    output: Annotated[
        str | None, output_option("--output", "-o", metavar="DIR", help="The folder (default: the name).")
    ] = None,
    overwrite: OverwriteOption = False,
    as_json: JsonOption = False,
    quiet: QuietOption = False,
) -> None:
    """Download a data set, check every file's size and SHA-256, and unpack it.

    The data set sample comes with pdtools: it is copied, without a network.

    The licence is printed first, and kept beside the data in SOURCE.txt. If the download is stopped, the same
    command continues it. If the data are there already, nothing is done.

    \b
    Example:
      pdtools data get sample
      pdtools data get blimp
      pdtools eval-blimp blimp --model english
    """
    from pdtools.jobs.plan import Done
    from pdtools.provenance.datasets import get_dataset, is_here, read_dataset

    dataset = read_dataset(name)
    folder = output or dataset.name
    report = {"output": folder, "name": dataset.name, "licence": dataset.terms, "bytes": dataset.size}
    message(f"{dataset.title} ({dataset.home}), licence: {dataset.terms}", quiet=quiet)
    if is_here(dataset, folder):
        raise Done(f"{folder}: there already, every file as it should be", {**report, "done": "already"})
    check_target(folder, folder=True, overwrite=overwrite, inputs=[], quiet=quiet)
    with counter(dataset.name, total=lambda: dataset.size, label="bytes", quiet=quiet) as progress:
        get_dataset(dataset, folder, overwrite=overwrite, progress=progress)
    if as_json:
        print_json({**report, "done": "now"})
    message(f"{folder}: {dataset.gives}", quiet=quiet)
