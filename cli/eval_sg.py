"""``pdtools eval-sg``: syntactic generalization test suites."""

from __future__ import annotations

from typing import Annotated

import typer

from pdtools.files import check_output
from pdtools.search.scores import DEFAULT_BEAM

from .common import (
    BeamOption,
    BosOption,
    DeviceOption,
    JsonOption,
    MaxBatchOption,
    OverwriteOption,
    QuietOption,
    ScoredModelOption,
    ThreadsOption,
    bar,
    message,
    pick_device,
    print_json,
)


def eval_sg(
    suites: Annotated[str, typer.Argument(metavar="SUITES", help="A folder of .json files, one, or a zip.")],
    model: ScoredModelOption,
    output: Annotated[
        str,
        typer.Option("--output", "-o", metavar="DIR", help="results.json, items.parquet, regions.parquet."),
    ],
    beam: BeamOption = DEFAULT_BEAM,
    bos: BosOption = True,
    max_batch: MaxBatchOption = None,
    device: DeviceOption = "auto",
    threads: ThreadsOption = 0,
    overwrite: OverwriteOption = False,
    as_json: JsonOption = False,
    quiet: QuietOption = False,
) -> None:
    """Score test suites in SyntaxGym's format: do the surprisals of regions satisfy the predictions?

    A suite's score is the mean over its items, a circuit's the mean of its suites. sg_31 is the mean of
    the 31 suites of Hu et al. (2020); the other conventions in use stand beside it.

    \b
    Example:
      pdtools eval-sg sg_suites.zip --model runs/pushdown -o results/sg --beam 300
    """
    from pdtools.evaluation.results import write_results
    from pdtools.evaluation.sg import evaluate_sg
    from pdtools.evaluation.suites import read_suites
    from pdtools.provenance import provenance
    from pdtools.report.evaluations import print_sg
    from pdtools.search import load_scorer

    check_output(output, overwrite=overwrite)
    found = read_suites(suites)
    scorer = load_scorer(model, beam=beam, device=pick_device(device, threads), bos=bos, max_batch=max_batch)
    results = evaluate_sg(found, scorer, bar("sentences", quiet=quiet))
    made = provenance({"suites": suites, "model": model})
    write_results(output, results, made, overwrite=overwrite)
    if as_json:
        print_json(results.document(made))
    else:
        print_sg(results)
    if left_out := results.counts["items_unscorable"]:
        message(f"{left_out} items could not be scored (items.parquet says why)", quiet=quiet)
    if unknown := results.counts["sentences_with_unknown_words"]:
        message(f"{unknown} sentences have words that the model reads as <unk>", quiet=quiet)
