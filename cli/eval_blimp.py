"""``pdtools eval-blimp``: minimal pairs."""

from __future__ import annotations

from functools import partial
from typing import Annotated

import typer

from pdtools.search.scores import DEFAULT_BEAM

from .arguments import pick_source
from .console import bar, message, print_json
from .options import (
    BeamOption,
    BosOption,
    DetailsOption,
    DeviceOption,
    Dtype,
    DtypeOption,
    EvaluatedModelOption,
    JsonOption,
    MaxBatchOption,
    OnError,
    OverwriteOption,
    QuietOption,
    RecordedNatsOption,
    RecordedOnErrorOption,
    ResumeOption,
    SchedulerOption,
    ShardOption,
    SurprisalsOption,
    TextOnlyOption,
    ThreadsOption,
    WorkersOption,
    WriteSentencesOption,
)
from .outputs import check_json_output, check_output_or_done, check_target, deliver, required_output
from .work import make_plan, model_settings, piecewise_scorer


def eval_blimp(
    context: typer.Context,
    data: Annotated[
        str,
        typer.Argument(metavar="DATA", help="A folder of .jsonl or .tsv files, one such file, or BLiMP.zip."),
    ],
    model: EvaluatedModelOption = None,
    surprisals: SurprisalsOption = None,
    write_sentences: WriteSentencesOption = None,
    output: Annotated[
        str | None, typer.Option("--output", "-o", metavar="DIR", help="results.json, items.parquet.")
    ] = None,
    limit: Annotated[
        int | None,
        typer.Option("--limit", min=1, help="Only the first pairs of each paradigm, at most this many."),
    ] = None,
    text_only: TextOnlyOption = False,
    nats: RecordedNatsOption = False,
    on_error: RecordedOnErrorOption = OnError.fail,
    beam: BeamOption = DEFAULT_BEAM,
    bos: BosOption = True,
    max_batch: MaxBatchOption = None,
    dtype: DtypeOption = Dtype.float32,
    device: DeviceOption = "auto",
    threads: ThreadsOption = 0,
    workers: WorkersOption = 1,
    shard: ShardOption = None,
    scheduler: SchedulerOption = None,
    resume: ResumeOption = False,
    overwrite: OverwriteOption = False,
    details: DetailsOption = False,
    as_json: JsonOption = False,
    quiet: QuietOption = False,
) -> None:
    """Score minimal pairs: is the good sentence strictly more probable than the bad one?

    Accuracies by paradigm, phenomenon and field, and overall (the mean of the paradigms). A tie is not
    correct. Pairs with a sentence that the model cannot score are left out and counted.

    Pairs of your own need nothing but sentence_good and sentence_bad: as keys of every line (.jsonl) or as
    the columns that the first line names (.tsv). Their paradigm is the name of the file.

    For a model outside of pdtools, --write-sentences writes every sentence (paradigm, pair, side, text: the
    good one first), and --surprisals reads the model's surprisals for them: those of all tokens of a
    sentence, including a row for its end, are added up. Columns, --nats, --on-error and alignment are as in
    pdtools eval-sg. --limit has to be the same both times.

    Work is done in pieces: by --workers, in the jobs of an array (--shard), or on a Dask cluster
    (--scheduler), with the same result; --resume continues a killed run.

    \b
    Example:
      pdtools eval-blimp BLiMP.zip --model runs/pushdown -o results/blimp --beam 50
      pdtools eval-blimp my-pairs.tsv --model runs/pushdown -o results/my-pairs
      pdtools eval-blimp BLiMP.zip --write-sentences sentences.txt --text-only
      pdtools eval-blimp BLiMP.zip --surprisals surprisals.tsv -o results/other
    """
    sources = {"--model": model, "--surprisals": surprisals, "--write-sentences": write_sentences}
    pick_source(context, sources)
    if write_sentences is not None:
        _write(
            data,
            limit,
            write_sentences,
            text_only=text_only,
            overwrite=overwrite,
            as_json=as_json,
            quiet=quiet,
        )
        return

    from pdtools.evaluation.blimp import evaluate_blimp, evaluate_recorded_blimp
    from pdtools.evaluation.blimp_pairs import PairFiles
    from pdtools.evaluation.sentence_files import BLIMP_COLUMNS, blimp_sentences, place_names
    from pdtools.evaluation.surprisal_files import RecordedScorer
    from pdtools.provenance import provenance
    from pdtools.report.evaluations import print_blimp

    show = partial(print_blimp, details=details)
    output = required_output(output)
    plan = make_plan(workers, shard, scheduler, resume)
    inputs = [data, model, surprisals]
    check_output_or_done(output, plan, folder=True, overwrite=overwrite, inputs=inputs, quiet=quiet)
    pairs = PairFiles(data, limit)
    if model is not None:
        settings = model_settings(
            plan,
            model,
            beam=beam,
            bos=bos,
            max_batch=max_batch,
            dtype=dtype,
            device=device,
            threads=threads,
        )
        with piecewise_scorer(output, settings, plan, overwrite=overwrite, quiet=quiet) as scorer:
            results = evaluate_blimp(pairs, scorer, bar("sentences", quiet=quiet))
            made = provenance({"data": data, "model": model})
            deliver(results, made, output, show, overwrite=overwrite, as_json=as_json)
    else:
        assert surprisals is not None
        recorded = RecordedScorer(
            surprisals,
            place_names(BLIMP_COLUMNS, blimp_sentences(pairs)),
            unit="nats" if nats else "bits",
            on_error=on_error.value,
        )
        results = evaluate_recorded_blimp(pairs, recorded, bar("sentences", quiet=quiet))
        made = provenance({"data": data, "surprisals": surprisals})
        deliver(results, made, output, show, overwrite=overwrite, as_json=as_json)
    if left_out := results.counts["pairs_unscorable"]:
        message(f"{left_out} pairs could not be scored (items.parquet says why)", quiet=quiet)
    if unknown := results.counts["sentences_with_unknown_words"]:
        message(f"{unknown} sentences have words that the model reads as <unk>", quiet=quiet)


def _write(
    data: str,
    limit: int | None,
    output: str,
    *,
    text_only: bool,
    overwrite: bool,
    as_json: bool,
    quiet: bool,
) -> None:
    from pdtools.evaluation.blimp_pairs import PairFiles
    from pdtools.evaluation.sentence_files import BLIMP_COLUMNS, blimp_sentences, write_sentences
    from pdtools.provenance import provenance

    check_json_output(as_json, output)
    check_target(output, folder=False, overwrite=overwrite, inputs=[data])
    sentences = blimp_sentences(PairFiles(data, limit))
    number = write_sentences(sentences, BLIMP_COLUMNS, output, text_only=text_only, overwrite=overwrite)
    if as_json:
        print_json({"counts": {"sentences": number}, "provenance": provenance({"data": data})})
    message(f"{number} sentences written", quiet=quiet)
