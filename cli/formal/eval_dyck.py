"""``pdtools eval-dyck``: which bracket has to be closed?"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from pdtools.files import Rejects, expand_inputs

from ..evaluating import Evaluating
from ..options import LatexOption, ModelOption, ResultsFolderOption, RunOptions, option_blocks
from ..panels import input_option
from ..running import model_settings

if TYPE_CHECKING:
    from pdtools.evaluation.results import Results


@option_blocks(without=("bos", "dtype", "word_beam", "fast_track", "trees"))
def eval_dyck(
    prefixes: Annotated[
        list[str], typer.Argument(metavar="PREFIXES...", help="TSV files of generate dyck-prefixes.")
    ],
    model: ModelOption,
    run: RunOptions,
    output: ResultsFolderOption = None,
    strings: Annotated[
        str | None,
        input_option(
            "--strings",
            metavar="SHARDS",
            help="Whole strings: compare the model's entropy on them with the exact one.",
        ),
    ] = None,
    limit: Annotated[
        int | None,
        input_option("--limit", min=1, metavar="N", help="Only the first N prefixes of each file."),
    ] = None,
    latex: LatexOption = False,
) -> None:
    """Predict the closing bracket after prefixes of bracket strings; accuracy by file, dependency and depth.

    The model chooses among all closing brackets. If it has a tape, their probabilities are summed over a beam
    of attachments. The choice is also made with the attachments given.

    The work is done in chunks: by --workers, in the jobs of an array (--shard), or on a Dask cluster
    (--scheduler). The result is the same. --resume continues a run that was killed.

    \b
    Example:
      pdtools eval-dyck dependency-50.tsv depth.tsv --model runs/dyck --beam 50 -o results/dyck
      pdtools eval-dyck depth.tsv --model runs/dyck --strings shards/valid -o results/depth --resume
    """
    from pdtools.evaluation.chunks import InChunks
    from pdtools.evaluation.formal.dyck import evaluate_closing, evaluate_entropy
    from pdtools.formal.bracket_prefixes import read_prefixes
    from pdtools.jobs import independent_passes
    from pdtools.jobs.workers import Workers
    from pdtools.shards import ShardSet

    inputs = {
        **{f"prefixes {i}": file for i, file in enumerate(prefixes)},
        "model": model,
        "strings": strings,
    }
    evaluating = Evaluating.begin(output, run, inputs, latex=latex)
    files = expand_inputs(prefixes, (".tsv", ".csv"))
    sets = {Path(file).name.partition(".")[0]: read_prefixes(file)[:limit] for file in files}
    if len(sets) < len(files):
        raise typer.BadParameter("files of the same name: their scores could not be told apart")
    shards = ShardSet.open(strings) if strings else None
    settings = model_settings(evaluating.plan, model, run)
    loaded = settings.load_checkpoint()
    with (
        evaluating.chunks("closing: with leads and ends", **settings.for_job()) as job,
        Workers(evaluating.plan.workers) as processes,
    ):

        def compare() -> dict[str, float] | None:
            if shards is None:
                return None
            return evaluate_entropy(
                shards,
                loaded,
                search=settings.search,
                rejects=Rejects("fail", hint=None),
                progress=evaluating.bar("strings"),
                in_chunks=InChunks(settings, evaluating.plan, job, "strings", processes),
            )

        def close() -> Results:
            return evaluate_closing(
                sets,
                loaded,
                search=settings.search,
                progress=evaluating.bar("prefixes"),
                in_chunks=InChunks(settings, evaluating.plan, job, "prefixes", processes),
            )

        entropy, results = independent_passes(compare, close)
        results.settings["limit"] = limit
        if entropy:
            results.scores["entropy"] = entropy
        evaluating.deliver(results, inputs=dict(zip(sets, files, strict=True)) | evaluating.inputs)
