"""``pdtools eval-blimp``: minimal pairs."""

from __future__ import annotations

from typing import Annotated

import typer

from pdtools.search.options import AUTO

from .arguments import pick_source
from .evaluating import Evaluating
from .external import external_scorer, write_for_others
from .options import (
    COMPARING,
    ContextOptions,
    DetailsOption,
    EvaluatedModelOption,
    ExternalOptions,
    LatexOption,
    ResultsFolderOption,
    RunOptions,
    option_blocks,
)
from .outputs import required_output
from .panels import input_option
from .running import model_settings, read_context


@option_blocks(without=("stride",), said=COMPARING)
def eval_blimp(
    context: typer.Context,
    data: Annotated[
        str,
        typer.Argument(metavar="DATA", help="A folder of .jsonl or .tsv files, one such file, or BLiMP.zip."),
    ],
    run: RunOptions,
    external: ExternalOptions,
    reading: ContextOptions,
    model: EvaluatedModelOption = None,
    output: ResultsFolderOption = None,
    limit: Annotated[
        int | None,
        input_option("--limit", min=1, help="Only the first pairs of each paradigm, at most this many."),
    ] = None,
    details: DetailsOption = False,
    latex: LatexOption = False,
) -> None:
    """Score minimal pairs: is the good sentence strictly more probable than the bad one?

    Accuracies are given by paradigm, phenomenon and field, and overall (the mean over paradigms). A tie is
    not correct. Pairs with a sentence that the model cannot score are excluded and counted.

    Pairs of your own need only sentence_good and sentence_bad: as keys of every line (.jsonl), or as columns
    that the first line names (.tsv). Their paradigm is the name of the file.

    For a model outside pdtools, --write-sentences writes every sentence (paradigm, pair, side, text; the good
    one first). --surprisals reads the model's surprisals of these sentences, and sums all tokens of each,
    including a row for its end. Columns, --nats, --on-error and alignment are as in pdtools eval-sg. --limit
    has to be the same both times.

    --beam auto scores every pair with a narrow search first. If wider searches could change the outcome, it
    widens the search, up to a beam of 300 (items.parquet has the beam used). A few outcomes may differ from
    those with beam 300 throughout.

    With --context, the same sentences (one per line of FILE) are read before both members of every pair. If
    not all fit, the last ones are read. This works for models of windows (pdtools tapes --layout window) and
    Hugging Face models.

    The work is done in chunks: by --workers, in the jobs of an array (--shard), or on a Dask cluster
    (--scheduler). The result is the same. --resume continues a run that was killed.

    \b
    Example:
      pdtools eval-blimp BLiMP.zip --model runs/pushdown -o results/blimp --beam auto
      pdtools eval-blimp my-pairs.tsv --model runs/pushdown -o results/my-pairs
      pdtools eval-blimp BLiMP.zip --write-sentences sentences.txt --text-only
      pdtools eval-blimp BLiMP.zip --surprisals surprisals.tsv -o results/other
    """
    sources = {
        "--model": model,
        "--surprisals": external.surprisals,
        "--write-sentences": external.write_sentences,
    }
    pick_source(context, sources)
    if external.write_sentences is not None:
        from pdtools.evaluation.blimp.pairs import PairFiles
        from pdtools.evaluation.external.sentence_files import BLIMP_COLUMNS, blimp_sentences

        write_for_others(
            external, run, {"data": data}, lambda: blimp_sentences(PairFiles(data, limit)), BLIMP_COLUMNS
        )
        return

    from pdtools.evaluation.blimp.evaluate import evaluate_blimp
    from pdtools.evaluation.blimp.pairs import PairFiles
    from pdtools.evaluation.external.sentence_files import BLIMP_COLUMNS, blimp_sentences, place_names

    evaluating = Evaluating.begin(
        required_output(output),
        run,
        {"data": data, "model": model, "trees": run.trees, "surprisals": external.surprisals},
        also=[reading.preceding],
        latex=latex,
    )
    preceding = read_context(reading, documents=False)
    pairs = PairFiles(data, limit)
    if model is not None:
        settings = model_settings(evaluating.plan, model, run, context=preceding)
        with evaluating.model(settings, compares=True) as scorer:
            progress = evaluating.bar("pairs" if run.beam == AUTO else "sentences")
            results = evaluate_blimp(pairs, scorer, progress)
            evaluating.deliver(results, details=details)
    else:
        scored = external_scorer(external, place_names(BLIMP_COLUMNS, blimp_sentences(pairs)))
        results = evaluate_blimp(pairs, scored, evaluating.bar("sentences"), in_order=True)
        evaluating.deliver(results, details=details)
    evaluating.say_what_is_unknown(results, "pairs")
