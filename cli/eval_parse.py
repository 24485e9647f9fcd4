"""``pdtools eval-parse``: bracketing scores."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Literal

import typer

from pdtools.errors import InputError, visible
from pdtools.files import STDIO, Kind, check_kind, count_lines, is_stream

from .console import bar, message
from .evaluating import Evaluating
from .options import ResultOptions, command
from .running import check_form

if TYPE_CHECKING:
    from pdtools.evaluation.parsing.prm import Parameters
    from pdtools.evaluation.results import Results


Binarization = Literal["right", "left", "none"]


TreeFormat = Literal["table", "evalb", "jsonl"]


@command("Recall, precision and F1 of predicted trees, like EVALB.")
def eval_parse(
    gold: str,
    predicted: str,
    options: ResultOptions,
    output: str | None = None,
    prm: str | None = None,
    unlabeled: bool = False,
    binarize: Binarization = "none",
    excluded: str | None = None,
    form: TreeFormat = "table",
    latex: bool = False,
) -> None:
    """Compute recall, precision and F1 of predicted trees against gold trees, by EVALB's rules.

    \b
    Example:
      pdtools eval-parse test.trees right.trees --unlabeled
          Bracketing, unlabeled (percent)
          score                   all  up to 40 words
          f1                    42.74           42.74
          recall                39.57           39.57
          precision             46.46           46.46
      pdtools eval-parse gold.trees predicted.trees --prm COLLINS.prm --format evalb
      pdtools eval-parse gold.trees parsed.trees --unlabeled --binarize right \\
          --left-out parsed.trees.rejects.jsonl

    Trees of pdtools decode have no labels and need --unlabeled. The last example is the measure of the
    Pushdown Layers paper.

    Arguments:
        gold (GOLD): Trees, one per line; or dependencies: CoNLL-U, .sdp.
        predicted (PREDICTED): Trees, one per line, in the same order.

    Options:
        prm (FILE): EVALB's parameters (default: delete punctuation, traces, TOP).
        unlabeled: Compare spans, not labels; gold tags say what is punctuation, whatever tags PREDICTED has.
        binarize: Compare the nodes of the binarized trees.
        excluded (--left-out FILE): rejects.jsonl of decode: exclude and count its lines.
        form (--format): The scores; EVALB's own table; or a line of JSON for each sentence.
    """
    import dataclasses

    from pdtools.evaluation.parsing.dependencies import evaluate_dependencies
    from pdtools.evaluation.parsing.evaluate import evaluate_parse, read_excluded
    from pdtools.evaluation.parsing.prm import COMMON, read_parameters
    from pdtools.evaluation.results import ITEMS
    from pdtools.trees.forms import form_of, refuse_for

    if gold == predicted == STDIO:
        raise typer.BadParameter("only one of GOLD and PREDICTED can be standard input")
    check_form(as_json=options.as_json, latex=latex)
    if latex and form != "table":
        raise typer.BadParameter("--latex prints the table of the scores: leave --format out")
    if form == "jsonl" and options.as_json:
        raise typer.BadParameter("--json prints the scores, --format jsonl the sentences: one of them")
    found, other = form_of(gold), form_of(predicted)
    if found is not None and found.name in ("conllu", "sdp"):
        if other is not found and Path(predicted).exists() and not is_stream(predicted):
            reason = f"{'not' if other is None else f'{other.title}, not'} {found.title}, as {gold} is"
            raise InputError(reason, file=predicted)
        if prm or excluded or unlabeled or binarize != "none" or form == "evalb":
            raise typer.BadParameter(
                "--prm, --unlabeled, --binarize, --left-out and --format evalb are for trees in brackets"
            )
        evaluating = Evaluating.begin(output, options, {"gold": gold, "predicted": predicted}, latex=latex)
        results = evaluate_dependencies(gold, predicted, found.name, progress=bar("sentences"))
        evaluating.deliver(results, show=_print_rows if form == "jsonl" else None)
        if results.settings["aligned_by"] == "words":
            message("the characters differ: words are aligned by lower-cased forms, not by tokens")
        if results.counts["several_roots"]:
            message(f"{results.counts['several_roots']} gold sentences have several roots")
        if results.counts["no_trees"]:
            message(f"{results.counts['no_trees']} predicted sentences have heads that form no tree")
        return
    for trees in (gold, predicted):
        refuse_for(Kind.TREES, [trees], trees_are_checked=False)
        check_kind(trees, Kind.TREES)
    parameters = COMMON if prm is None else read_parameters(prm)
    if unlabeled:
        parameters = dataclasses.replace(parameters, labeled=False)
    if form == "evalb":
        if options.as_json or output or excluded:
            raise typer.BadParameter(
                "--format evalb prints a table and nothing else: no --json, -o or --left-out with it"
            )
        _print_evalb(gold, predicted, parameters, binarize)
        return
    inputs = {"gold": gold, "predicted": predicted, "prm": prm, "left_out": excluded}
    evaluating = Evaluating.begin(output, options, inputs, latex=latex)
    results = evaluate_parse(
        gold,
        predicted,
        parameters,
        binarize=binarize,
        excluded=read_excluded(excluded) if excluded else None,
        progress=bar("sentences", lambda: count_lines([gold])),
    )
    evaluating.deliver(results, show=_print_rows if form == "jsonl" else None)
    errors, placeholders = results.counts["errors"], results.counts["placeholders"]
    if errors:
        limit = f", more than MAX_ERROR {parameters.max_error}" if errors > parameters.max_error else ""
        reasons = results.table(ITEMS)["reason"].to_pylist()
        broken = sum(bool(reason) and reason.startswith(("gold: ", "predicted: ")) for reason in reasons)
        what = [*["are no trees"] * (broken > 0), *["differ in their words"] * (broken < errors)]
        others = 2 * (errors - broken) > results.counts["sentences"] and parameters.labeled
        hint = " (words are deleted by their tags; with --unlabeled, by the gold ones)" if others else ""
        message(f"{errors} sentences {' or '.join(what)} and were not scored{limit}{hint}")
    if placeholders:
        message(
            f"{placeholders} predicted trees look like placeholders (flat, without tags) and were scored;"
            " --left-out excludes them"
        )


def _print_evalb(gold: str, predicted: str, parameters: Parameters, binarize: Binarization) -> None:
    from pdtools.evaluation.parsing.evaluate import NO_LABELS, PreparationCounts, compare_files
    from pdtools.report.evalb import TooManyErrors, evalb_lines

    counts = PreparationCounts()
    rows = compare_files(gold, predicted, parameters, binarize=binarize, verbatim=True, counts=counts)
    try:
        for line, is_error in evalb_lines(rows, parameters):
            print(visible(line) if is_error else line, file=sys.stderr if is_error else sys.stdout)
    except TooManyErrors:
        raise typer.Exit(1) from None
    if parameters.labeled and counts.lack_labels:
        message(f"{predicted}: {NO_LABELS}")


def _print_rows(results: Results) -> None:
    """Print one JSON object for each sentence."""
    import json

    from pdtools.evaluation.results import ITEMS

    for row in results.table(ITEMS).to_pylist():
        print(json.dumps(row, ensure_ascii=False))
