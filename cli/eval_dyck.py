"""``pdtools eval-dyck``: which bracket has to be closed?"""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from pdtools.files import Rejects, check_output, expand_inputs
from pdtools.search.scores import DEFAULT_BEAM

from .common import (
    BeamOption,
    DeviceOption,
    JsonOption,
    MaxBatchOption,
    ModelOption,
    OverwriteOption,
    QuietOption,
    ThreadsOption,
    bar,
    deliver,
    pick_device,
)


def eval_dyck(
    prefixes: Annotated[
        list[str], typer.Argument(metavar="PREFIXES...", help="TSV files of generate dyck-prefixes.")
    ],
    model: ModelOption,
    output: Annotated[
        str | None, typer.Option("--output", "-o", metavar="DIR", help="results.json, items.parquet.")
    ] = None,
    strings: Annotated[
        str | None,
        typer.Option("--strings", metavar="SHARDS", help="Whole strings, to compare with the exact entropy."),
    ] = None,
    limit: Annotated[
        int | None,
        typer.Option("--limit", min=1, metavar="N", help="Only the first N prefixes of each file."),
    ] = None,
    beam: BeamOption = DEFAULT_BEAM,
    margin: Annotated[
        float | None,
        typer.Option(
            "--margin", min=0, metavar="NATS", help="Drop hypotheses so much less probable than the best."
        ),
    ] = None,
    max_batch: MaxBatchOption = None,
    device: DeviceOption = "auto",
    threads: ThreadsOption = 0,
    overwrite: OverwriteOption = False,
    as_json: JsonOption = False,
    quiet: QuietOption = False,
) -> None:
    """Choose the closing bracket after prefixes of bracket strings; accuracy by file, dependency and depth.

    The model chooses among all closing brackets, their probabilities summed over a beam of attachments
    where it has a tape. The same is done with the attachments given.

    \b
    Example:
      pdtools eval-dyck dependency-50.tsv depth.tsv --model runs/dyck --beam 50 -o results/dyck
      pdtools eval-dyck depth.tsv --model runs/dyck --strings shards/valid
    """
    from pdtools.evaluation.dyck import Search, evaluate_closing, evaluate_entropy
    from pdtools.formal import read_prefixes
    from pdtools.models import load_checkpoint
    from pdtools.provenance import provenance
    from pdtools.report.evaluations import print_closing
    from pdtools.shards import ShardSet

    if output:
        check_output(output, overwrite=overwrite, inputs=[*prefixes, model, *([strings] if strings else [])])
    files = expand_inputs(prefixes, (".tsv",))
    sets = {Path(file).name.partition(".")[0]: read_prefixes(file)[:limit] for file in files}
    if len(sets) < len(files):
        raise typer.BadParameter("files of the same name: their scores could not be told apart")
    shards = ShardSet.open(strings) if strings else None
    loaded = load_checkpoint(model, pick_device(device, threads))
    show = bar("prefixes", quiet=quiet)
    results = evaluate_closing(
        sets, loaded, search=Search(beam=beam, margin=margin, max_batch=max_batch), progress=show
    )
    inputs = {**dict(zip(sets, files, strict=True)), "model": model}
    if shards is not None:
        show = bar("strings", quiet=quiet)
        results.scores["entropy"] = evaluate_entropy(
            shards, loaded, beam=beam, max_batch=max_batch, rejects=Rejects("fail"), progress=show
        )
        inputs["strings"] = str(strings)
    deliver(results, provenance(inputs), output, print_closing, overwrite=overwrite, as_json=as_json)
