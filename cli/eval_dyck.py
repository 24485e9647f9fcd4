"""``pdtools eval-dyck``: which bracket has to be closed?"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from pdtools.files import STDIO, Rejects, expand_inputs
from pdtools.search.scores import DEFAULT_BEAM

from .console import bar
from .options import (
    BeamOption,
    DeviceOption,
    JsonOption,
    MaxBatchOption,
    ModelOption,
    OverwriteOption,
    QuietOption,
    ResumeOption,
    SchedulerOption,
    ShardOption,
    ThreadsOption,
    WorkersOption,
)
from .outputs import check_output_or_done, deliver
from .work import kept_pieces, make_plan, model_settings

if TYPE_CHECKING:
    from pdtools.evaluation.results import Results


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
        typer.Option(
            "--strings", metavar="SHARDS", help="Whole strings, for a comparison with the exact entropy."
        ),
    ] = None,
    limit: Annotated[
        int | None,
        typer.Option("--limit", min=1, metavar="N", help="Only the first N prefixes of each file."),
    ] = None,
    beam: BeamOption = DEFAULT_BEAM,
    margin: Annotated[
        float | None,
        typer.Option(
            "--margin",
            min=0,
            metavar="NATS",
            help="Drop hypotheses that are this much less probable than the best.",
        ),
    ] = None,
    max_batch: MaxBatchOption = None,
    device: DeviceOption = "auto",
    threads: ThreadsOption = 0,
    workers: WorkersOption = 1,
    shard: ShardOption = None,
    scheduler: SchedulerOption = None,
    resume: ResumeOption = False,
    overwrite: OverwriteOption = False,
    as_json: JsonOption = False,
    quiet: QuietOption = False,
) -> None:
    """Choose the closing bracket after prefixes of bracket strings; accuracy by file, dependency and depth.

    The model chooses among all closing brackets; if it has a tape, their probabilities are summed over a
    beam of attachments. The choice is also made with the attachments given.

    Work is done in pieces: by --workers, in the jobs of an array (--shard), or on a Dask cluster
    (--scheduler), with the same result; --resume continues a killed run.

    \b
    Example:
      pdtools eval-dyck dependency-50.tsv depth.tsv --model runs/dyck --beam 50 -o results/dyck
      pdtools eval-dyck depth.tsv --model runs/dyck --strings shards/valid -o results/depth --resume
    """
    from pdtools.evaluation.dyck import Search, evaluate_closing, evaluate_entropy
    from pdtools.evaluation.pieces import InPieces
    from pdtools.formal import read_prefixes
    from pdtools.jobs import independent_passes
    from pdtools.provenance import provenance
    from pdtools.report.evaluations import print_closing
    from pdtools.search.work import model_settings_for_job
    from pdtools.shards import ShardSet
    from pdtools.workers import Workers

    target = output or STDIO
    plan = make_plan(workers, shard, scheduler, resume)
    read = [*prefixes, model, strings]
    check_output_or_done(target, plan, folder=True, overwrite=overwrite, inputs=read, quiet=quiet)
    files = expand_inputs(prefixes, (".tsv", ".csv"))
    sets = {Path(file).name.partition(".")[0]: read_prefixes(file)[:limit] for file in files}
    if len(sets) < len(files):
        raise typer.BadParameter("files of the same name: their scores could not be told apart")
    shards = ShardSet.open(strings) if strings else None
    settings = model_settings(plan, model, beam=beam, max_batch=max_batch, device=device, threads=threads)
    loaded = settings.load_model()
    described = {
        "work": "closing: with leads and ends",
        "margin": margin,
        **model_settings_for_job(settings),
    }
    with (
        kept_pieces(target, described, plan, overwrite=overwrite, quiet=quiet) as job,
        Workers(plan.workers) as processes,
    ):

        def compare() -> dict[str, float] | None:
            if shards is None:
                return None
            return evaluate_entropy(
                shards,
                loaded,
                beam=beam,
                max_batch=max_batch,
                rejects=Rejects("fail", hint=None),
                progress=bar("strings", quiet=quiet),
                in_pieces=InPieces(settings, plan, job, "strings", processes),
            )

        def close() -> Results:
            return evaluate_closing(
                sets,
                loaded,
                search=Search(beam=beam, margin=margin, max_batch=max_batch),
                progress=bar("prefixes", quiet=quiet),
                in_pieces=InPieces(settings, plan, job, "prefixes", processes),
            )

        entropy, results = independent_passes(compare, close)
        results.settings["limit"] = limit
        if entropy:
            results.scores["entropy"] = entropy
        inputs = {**dict(zip(sets, files, strict=True)), "model": model}
        made = provenance(inputs | ({"strings": str(strings)} if strings else {}))
        deliver(results, made, output, print_closing, overwrite=overwrite, as_json=as_json)
