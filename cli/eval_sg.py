"""``pdtools eval-sg``: syntactic generalization test suites."""

from __future__ import annotations

from typing import TYPE_CHECKING

import typer

from pdtools.files import expand_inputs

from .console import message
from .evaluating import Evaluating, evaluate_strings, pick_source
from .options import ResultOptions, StringOptions, Style, command

if TYPE_CHECKING:
    from pdtools.evaluation.sg.suites import SuiteItems


@command("Score test suites in SyntaxGym's format.", without=("stride",))
def eval_sg(
    context: typer.Context,
    suites: list[str],
    asked: StringOptions,
    from_items: bool = False,
    text_style: Style = "ptb",
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

    \b
    Example:
      pdtools eval-sg sg_suites.zip --model runs/pushdown -o results/sg --beam auto
      pdtools eval-sg sg_suites.zip --write-sentences sentences.txt
      pdtools eval-sg sg_suites.zip --surprisals surprisals.tsv -o results/other
      pdtools eval-sg --from-items results-1.csv results-2.csv

    Arguments:
        suites (SUITES): A folder of .json files, one such file, or a zip; or the files for --from-items.

    Input:
        from_items: Instead of a model: aggregate results per item (CSV files, zips of them).
        text_style: How the sentences are written: as in a treebank, or as people write.
    """
    pick_source(context, asked, {"--from-items": from_items})
    if from_items:
        _aggregate(suites, asked)
    elif len(suites) > 1:
        raise typer.BadParameter("several SUITES: only --from-items takes several files")
    else:
        score_suites(suites[0], asked, text_style)


def score_suites(suites: str, asked: StringOptions, text_style: Style = "ptb") -> None:
    """Score suites with a model or with external surprisals, or write their sentences."""

    def read() -> SuiteItems:
        from pdtools.evaluation.sg.suites import SuiteFiles, SuiteItems

        return SuiteItems(SuiteFiles(suites))

    evaluate_strings(read, {"suites": suites}, asked, text_style=text_style)


def _aggregate(inputs: list[str], asked: StringOptions) -> None:
    from pdtools.evaluation.sg.item_results import aggregate_items
    from pdtools.report.evaluations import print_sg_runs

    files = expand_inputs(inputs, [".csv", ".zip"])
    # One process does it, whatever the options for others.
    options = ResultOptions(overwrite=asked.overwrite, as_json=asked.as_json)
    evaluating = Evaluating.begin(asked.output, options, {file: file for file in files}, latex=asked.latex)
    results = aggregate_items(files)
    evaluating.deliver(results, show=print_sg_runs)
    for name, number in results.counts["items_missing"].items():
        message(f"{name}: {number} items that other runs have are missing")
