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

    \b
    Example:
      pdtools eval-sg sample/sg/mini_npz.json --model demo -o results/npz
          Syntactic generalization (percent)  accuracy  items  scored  ties
          overall                               100.00     20      20     0
      pdtools eval-sg sg_suites.zip --model runs/pushdown -o results/sg --beam auto
      pdtools eval-sg sg_suites.zip --write-sentences sentences.txt
      pdtools eval-sg sg_suites.zip --surprisals surprisals.tsv -o results/other
      pdtools eval-sg --from-items results-1.csv results-2.csv

    A suite's score is the mean over its items, a circuit's the mean over its suites. Items with a sentence
    that cannot be scored are excluded and counted.

    With the third and fourth call, a model outside pdtools computes the surprisals. --from-items only
    aggregates results per item (model, suite, item, correct).

    Arguments:
        suites (SUITES): A folder of .json files, one file, or a zip; or files of --from-items.

    Input:
        from_items: Instead of a model: aggregate results per item (CSV files, zips).
        text_style: Style of the sentences: as in a treebank, or as people write.
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
