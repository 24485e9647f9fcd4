"""``pdtools eval-sg``: syntactic generalization test suites."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from pdtools.files import expand_inputs

from .arguments import pick_source
from .evaluating import Evaluating
from .options import (
    COMPARING,
    ContextOptions,
    DetailsOption,
    EvaluatedModelOption,
    ExternalOptions,
    LatexOption,
    ResultOptions,
    ResultsFolderOption,
    RunOptions,
    Style,
    option_blocks,
)
from .panels import input_option
from .strings import evaluate_strings

if TYPE_CHECKING:
    from pdtools.evaluation.sg.suites import SuiteItems


@option_blocks(without=("stride",), said=COMPARING)
def eval_sg(
    context: typer.Context,
    suites: Annotated[
        list[str],
        typer.Argument(
            metavar="SUITES",
            help="A folder of .json files, one such file, or a zip; or the files for --from-items.",
        ),
    ],
    run: RunOptions,
    external: ExternalOptions,
    reading: ContextOptions,
    model: EvaluatedModelOption = None,
    from_items: Annotated[
        bool,
        input_option(
            "--from-items", help="Instead of a model: aggregate results per item (CSV files, zips of them)."
        ),
    ] = False,
    output: ResultsFolderOption = None,
    text_style: Annotated[
        Style,
        input_option(
            "--text-style", help="How the sentences are written: as in a treebank, or as people write."
        ),
    ] = Style.ptb,
    details: DetailsOption = False,
    latex: LatexOption = False,
) -> None:
    """Score test suites in SyntaxGym's format: do the surprisals of regions satisfy the predictions?

    A suite's score is the mean over its items, a circuit's score the mean over its suites. sg_31 is the mean
    of the 31 suites of Hu et al. (2020). Other conventions in use are reported beside it.

    For a model outside pdtools, --write-sentences writes every sentence (suite, item, string, text).
    --surprisals reads the model's surprisals of these sentences, in the columns that pdtools surprisal
    writes: sentence_id (the sentence's line, from 1, not counting the header), token, surprisal (bits unless
    --nats), start and end (character offsets in the text). Without start and end, as in LM-Zoo's output,
    tokens are aligned with the words of the text. A sentence without rows, or with tokens that do not fit it,
    stops the command. With --on-error skip, its item is excluded and counted. --text-style says how the
    sentences were written for the model.

    --from-items aggregates tables with the columns model (name_corpus_seed), suite, item, correct. It gives
    the scores of each run and their means over seeds. The seeds of a model named ngram are combined by
    majority vote.

    --beam auto scores every item with a narrow search first. If wider searches could change a prediction, it
    widens the search, up to a beam of 300 (items.parquet has the beam used). It reads no sentence beyond the
    last region that a prediction needs. A few outcomes may differ from those with beam 300 throughout.

    With --context, the same sentences (one per line of FILE) are read before every sentence. If not all fit,
    the last ones are read. This works for models of windows (pdtools tapes --layout window) and Hugging Face
    models.

    The work is done in chunks: by --workers, in the jobs of an array (--shard), or on a Dask cluster
    (--scheduler). The result is the same. --resume continues a run that was killed.

    \b
    Example:
      pdtools eval-sg sg_suites.zip --model runs/pushdown -o results/sg --beam auto
      pdtools eval-sg sg_suites.zip --write-sentences sentences.txt --text-only
      pdtools eval-sg sg_suites.zip --surprisals surprisals.tsv -o results/other
      pdtools eval-sg --from-items results-1.csv results-2.csv
    """
    sources = {
        "--model": model,
        "--surprisals": external.surprisals,
        "--write-sentences": external.write_sentences,
        "--from-items": from_items,
    }
    pick_source(context, sources)
    if from_items:
        _aggregate(suites, output, run, latex=latex)
        return
    if len(suites) > 1:
        raise typer.BadParameter("several SUITES: only --from-items takes several files")
    score_suites(
        suites[0], run, external, reading, model, output, text_style=text_style, details=details, latex=latex
    )


def score_suites(
    suites: str,
    run: RunOptions,
    external: ExternalOptions,
    reading: ContextOptions,
    model: str | None,
    output: str | None,
    *,
    text_style: Style = Style.ptb,
    details: bool,
    latex: bool,
) -> None:
    """Score suites with a model or with external surprisals, or write their sentences."""

    def read() -> SuiteItems:
        from pdtools.evaluation.sg.suites import SuiteFiles, SuiteItems

        return SuiteItems(SuiteFiles(suites))

    evaluate_strings(
        read,
        {"suites": suites},
        run,
        external,
        reading,
        model,
        output,
        text_style=text_style.value,
        details=details,
        latex=latex,
    )


def _aggregate(inputs: list[str], output: str | None, run: RunOptions, *, latex: bool) -> None:
    from pdtools.evaluation.sg.item_results import aggregate_items
    from pdtools.report.evaluations import print_sg_runs

    files = expand_inputs(inputs, [".csv", ".zip"])
    # One process does it, whatever the options for others.
    options = ResultOptions(overwrite=run.overwrite, as_json=run.as_json, quiet=run.quiet)
    evaluating = Evaluating.begin(output, options, {file: file for file in files}, latex=latex)
    results = aggregate_items(files)
    evaluating.deliver(results, show=print_sg_runs)
    for name, number in results.counts["items_missing"].items():
        evaluating.say(f"{name}: {number} items that other runs have are missing")
