"""``pdtools eval-blimp``: minimal pairs."""

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


def eval_blimp(
    data: Annotated[str, typer.Argument(metavar="DATA", help="A folder of .jsonl files, one, or BLiMP.zip.")],
    model: ScoredModelOption,
    output: Annotated[
        str, typer.Option("--output", "-o", metavar="DIR", help="results.json, items.parquet.")
    ],
    limit: Annotated[
        int | None, typer.Option("--limit", min=1, help="Only the first so many pairs of each paradigm.")
    ] = None,
    beam: BeamOption = DEFAULT_BEAM,
    bos: BosOption = True,
    max_batch: MaxBatchOption = None,
    device: DeviceOption = "auto",
    threads: ThreadsOption = 0,
    overwrite: OverwriteOption = False,
    as_json: JsonOption = False,
    quiet: QuietOption = False,
) -> None:
    """Score minimal pairs: is the good sentence strictly more probable than the bad one?

    Accuracies by paradigm, phenomenon and field, and overall (the mean of the paradigms). A tie is not
    right. Pairs with a sentence that the model cannot score are left out and counted.

    \b
    Example:
      pdtools eval-blimp BLiMP.zip --model runs/pushdown -o results/blimp --beam 50
    """
    from pdtools.evaluation.blimp import evaluate_blimp, read_pairs
    from pdtools.evaluation.results import write_results
    from pdtools.provenance import provenance
    from pdtools.report.evaluations import print_blimp
    from pdtools.search import load_scorer

    check_output(output, overwrite=overwrite)
    pairs = read_pairs(data, limit)
    scorer = load_scorer(model, beam=beam, device=pick_device(device, threads), bos=bos, max_batch=max_batch)
    results = evaluate_blimp(pairs, scorer, bar("sentences", quiet=quiet))
    made = provenance({"data": data, "model": model})
    write_results(output, results, made, overwrite=overwrite)
    if as_json:
        print_json(results.document(made))
    else:
        print_blimp(results)
    if left_out := results.counts["pairs_unscorable"]:
        message(f"{left_out} pairs could not be scored (items.parquet says why)", quiet=quiet)
    if unknown := results.counts["sentences_with_unknown_words"]:
        message(f"{unknown} sentences have words that the model reads as <unk>", quiet=quiet)
