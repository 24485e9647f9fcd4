"""``pdtools data``: treebanks and benchmarks by name, from where their authors publish them; a sample."""

from __future__ import annotations

import typer

from .console import counter, message, print_json
from .options import ResultOptions, command
from .running import check_target
from .signatures import group

app = group(
    "data", "Download treebanks and benchmarks by name.", "Download treebanks and benchmarks by name."
)


@command("List the data sets.", app=app, name="list")
def list_datasets(as_json: bool = False) -> None:
    """List the data sets that pdtools data get takes: name, download, licence, content.

    \b
    Example:
      pdtools data list
          blimp                2.4 MB  BLiMP: minimal pairs of English (Warstadt et al. 2020)
                                       CC BY 4.0
    """
    from dataclasses import asdict

    from pdtools.provenance.datasets import DATA_SETS, read_dataset

    found = [read_dataset(name) for name in DATA_SETS.names]
    if as_json:
        print_json([{**asdict(each), "size": each.size} for each in found])
        return
    width = max(len(each.name) for each in found) + 2
    for each in found:
        size = f"{each.size / 1e6:5.1f} MB" if each.size else " bundled"
        typer.echo(f"{each.name:<{width}}{size}  {each.title}: {each.about}")
        typer.echo(f"{'':<{width + 10}}{each.terms}")


@command("Download a data set.", app=app, name="get")
def get(
    name: str,
    options: ResultOptions,
    output: str | None = None,
) -> None:
    """Download a data set, check every file's size and SHA-256, and unpack it.

    \b
    Example:
      pdtools data get sample
          Sample (pdtools.data), licence: Apache-2.0
          sample: treebank, text, blimp, sg, scripts
      pdtools data get blimp

    The licence is printed first, and kept beside the data in SOURCE.txt. The same command continues a
    download that was stopped. The data set sample comes with pdtools and needs no network.

    Arguments:
        name (NAME): One of pdtools data list, or a TOML file.

    Output:
        output (-o DIR): The folder (default: the name).
    """
    from pdtools.jobs.plan import Done
    from pdtools.provenance.datasets import get_dataset, is_here, read_dataset

    dataset = read_dataset(name)
    folder = output or dataset.name
    report = {"output": folder, "name": dataset.name, "licence": dataset.terms, "bytes": dataset.size}
    message(f"{dataset.title} ({dataset.home}), licence: {dataset.terms}")
    if is_here(dataset, folder):
        raise Done(f"{folder}: there already, every file as it should be", {**report, "done": "already"})
    check_target(folder, folder=True, overwrite=options.overwrite, inputs=[])
    with counter(dataset.name, total=lambda: dataset.size, label="bytes") as progress:
        get_dataset(dataset, folder, overwrite=options.overwrite, progress=progress)
    if options.as_json:
        print_json({**report, "done": "now"})
    message(f"{folder}: {dataset.gives}")
