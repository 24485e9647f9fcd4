"""``pdtools eval-sg``: syntactic generalization test suites."""

from __future__ import annotations

from functools import partial
from typing import Annotated

import typer

from pdtools.files import expand_inputs
from pdtools.search.scores import AUTO

from .arguments import pick_source
from .console import bar, message
from .options import (
    ContextOptions,
    DetailsOption,
    EvaluatedModelOption,
    LatexOption,
    RecordedOptions,
    RunOptions,
    Style,
    option_blocks,
)
from .outputs import check_form, check_output_or_done, check_target, deliver, required_output
from .recorded import recorded_scorer, write_for_others
from .running import make_plan, model_settings, piecewise_by_beam, read_context


@option_blocks(without=("stride",))
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
    recorded: RecordedOptions,
    reading: ContextOptions,
    model: EvaluatedModelOption = None,
    from_items: Annotated[
        bool,
        typer.Option(
            "--from-items",
            rich_help_panel="Input",
            help="Instead of a model: aggregate results per item (CSV files, zips of them).",
        ),
    ] = False,
    output: Annotated[
        str | None,
        typer.Option(
            "--output",
            "-o",
            rich_help_panel="Output",
            metavar="DIR",
            help="results.json, items.parquet, regions.parquet.",
        ),
    ] = None,
    text_style: Annotated[
        Style,
        typer.Option(
            "--text-style",
            rich_help_panel="Input",
            help="How the sentences are written: words spaced, or as people write.",
        ),
    ] = Style.ptb,
    details: DetailsOption = False,
    latex: LatexOption = False,
) -> None:
    """Score test suites in SyntaxGym's format: do the surprisals of regions satisfy the predictions?

    A suite's score is the mean over its items, a circuit's the mean of its suites. sg_31 is the mean of
    the 31 suites of Hu et al. (2020); other conventions in use are reported beside it.

    For a model outside of pdtools, --write-sentences writes every sentence (suite, item, condition, text),
    and --surprisals reads the model's surprisals for them: rows of sentence_id (the sentence's line, from 1,
    not counting the header), token, surprisal (bits unless --nats), and start and end (character offsets in
    the text), as pdtools surprisal writes them. Without start and end, as in LM-Zoo's output, tokens are
    aligned with the words of the text. A sentence that has no rows, or whose tokens do not fit it, stops the
    command; with --on-error skip its item is left out and counted. --text-style says how the sentences were
    written for the model.

    --from-items aggregates tables with the columns model (name_corpus_seed), suite, item, correct into the
    scores of each run and their means over seeds. The seeds of a model named ngram are
    combined into one by majority vote.

    --beam auto scores every item with a narrow search, and those of which a prediction could still change
    with wider ones, up to a beam of 300 (items.parquet says which), and no sentence beyond the last region
    that a prediction needs. A few outcomes may differ from those with 300 throughout.

    With --context the same sentences (one a line of FILE) are read before every sentence, as many of the last
    ones as fit: by models of windows (pdtools tapes --layout window) and Hugging Face models.

    Work is done in pieces: by --workers, in the jobs of an array (--shard), or on a Dask cluster
    (--scheduler), with the same result; --resume continues a killed run.

    \b
    Example:
      pdtools eval-sg sg_suites.zip --model runs/pushdown -o results/sg --beam auto
      pdtools eval-sg sg_suites.zip --write-sentences sentences.txt --text-only
      pdtools eval-sg sg_suites.zip --surprisals surprisals.tsv -o results/other
      pdtools eval-sg --from-items results-1.csv results-2.csv
    """
    sources = {
        "--model": model,
        "--surprisals": recorded.surprisals,
        "--write-sentences": recorded.write_sentences,
        "--from-items": from_items,
    }
    pick_source(context, sources)
    check_form(as_json=run.as_json, latex=latex)
    if from_items:
        _aggregate(suites, output, run, latex=latex)
        return
    if len(suites) > 1:
        raise typer.BadParameter("several SUITES: only --from-items takes several files")
    if recorded.write_sentences is not None:
        from pdtools.evaluation.recorded.sentence_files import SG_COLUMNS, sg_sentences
        from pdtools.evaluation.sg.suites import SuiteFiles

        write_for_others(
            recorded,
            run,
            {"suites": suites[0]},
            lambda: sg_sentences(SuiteFiles(suites[0]), text_style.value),
            SG_COLUMNS,
        )
        return

    from pdtools.evaluation.recorded.sentence_files import SG_COLUMNS, place_names, sg_sentences
    from pdtools.evaluation.sg.evaluate import evaluate_sg
    from pdtools.evaluation.sg.suites import SuiteFiles
    from pdtools.provenance import provenance
    from pdtools.report.evaluations import print_sg

    show = partial(print_sg, details=details)
    output = required_output(output)
    plan = make_plan(run)
    inputs = [*suites, model, run.trees, reading.preceding, recorded.surprisals]
    check_output_or_done(output, plan, folder=True, overwrite=run.overwrite, inputs=inputs, quiet=run.quiet)
    preceding = read_context(reading, documents=False)
    found = SuiteFiles(suites[0])
    if model is not None:
        settings = model_settings(plan, model, run, context=preceding)
        unit = "items" if run.beam == AUTO else "sentences"
        with piecewise_by_beam(output, settings, plan, overwrite=run.overwrite, quiet=run.quiet) as scorer:
            results = evaluate_sg(found, scorer, bar(unit, quiet=run.quiet))
            made = provenance({"suites": suites[0], "model": model, **run.trees_read})
            deliver(results, made, output, show, overwrite=run.overwrite, as_json=run.as_json, latex=latex)
    else:
        places = place_names(SG_COLUMNS, sg_sentences(found))
        scored = recorded_scorer(recorded, places, text_style.value)
        results = evaluate_sg(found, scored, bar("sentences", quiet=run.quiet))
        made = provenance({"suites": suites[0], "surprisals": str(recorded.surprisals)})
        deliver(results, made, output, show, overwrite=run.overwrite, as_json=run.as_json, latex=latex)
    if left_out := results.counts["items_unscorable"]:
        message(f"{left_out} items could not be scored (items.parquet says why)", quiet=run.quiet)
    if unknown := results.counts["sentences_with_unknown_words"]:
        message(f"{unknown} sentences have words that the model reads as <unk>", quiet=run.quiet)


def _aggregate(inputs: list[str], output: str | None, run: RunOptions, *, latex: bool) -> None:
    from pdtools.evaluation.sg.many_runs import aggregate_items
    from pdtools.provenance import provenance
    from pdtools.report.evaluations import print_sg_runs

    files = expand_inputs(inputs, [".csv", ".zip"])
    check_target(output, folder=True, overwrite=run.overwrite, inputs=files, quiet=run.quiet)
    results = aggregate_items(files)
    made = provenance({file: file for file in files})
    deliver(results, made, output, print_sg_runs, overwrite=run.overwrite, as_json=run.as_json, latex=latex)
    for name, number in results.counts["items_missing"].items():
        message(f"{name}: {number} items that other runs have are missing", quiet=run.quiet)
