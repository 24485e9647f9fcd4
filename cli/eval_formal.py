"""``pdtools eval-formal``: how well do models know formal languages?"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import typer

from pdtools.files import Rejects, expand_inputs
from pdtools.jobs.devices import pick_device

from .console import bar
from .evaluating import Evaluating
from .options import (
    BeamOptions,
    ModelName,
    Natural,
    Positive,
    ResultOptions,
    RunOptions,
    Threads,
    command,
)
from .running import check_picture, model_settings
from .signatures import group

if TYPE_CHECKING:
    from pdtools.evaluation.results import Results

app = group(
    "eval-formal",
    "Evaluate models of formal languages: brackets, entropies, tasks.",
    "Evaluate models of formal languages.",
)


@command(
    "Predict closing brackets in long or deep bracket strings.",
    app=app,
    without=("bos", "pll", "dtype", "trees"),
)
def dyck(
    prefixes: list[str],
    model: ModelName,
    run: RunOptions,
    output: str | None = None,
    strings: str | None = None,
    limit: Positive | None = None,
    latex: bool = False,
) -> None:
    """Predict the closing bracket after prefixes of bracket strings; accuracy by file, dependency and depth.

    \b
    Example:
      pdtools eval-formal dyck dependency-50.tsv --model runs/dyck --beam 50 -o results/dyck
      pdtools eval-formal dyck depth.tsv --model runs/dyck --strings shards/valid -o results/depth

    The model chooses among all closing brackets. If it has a tape, their probabilities are summed over a beam
    of attachments.

    Arguments:
        prefixes (PREFIXES): TSV files of generate dyck-prefixes.

    Input:
        strings (SHARDS): Whole strings: compare the model's entropy on them with the exact one.
        limit (N): Only the first N prefixes of each file.
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
                progress=bar("strings"),
                in_chunks=InChunks(settings, evaluating.plan, job, "strings", processes),
            )

        def close() -> Results:
            return evaluate_closing(
                sets,
                loaded,
                search=settings.search,
                progress=bar("prefixes"),
                in_chunks=InChunks(settings, evaluating.plan, job, "prefixes", processes),
            )

        entropy, results = independent_passes(compare, close)
        results.settings["limit"] = limit
        if entropy:
            results.scores["entropy"] = entropy
        evaluating.deliver(results, inputs=dict(zip(sets, files, strict=True)) | evaluating.inputs)


@command("Compare a model's cross-entropy with a language's exact one.", app=app)
def cfl(
    context: typer.Context,
    shards: str,
    beam: BeamOptions,
    options: ResultOptions,
    model: ModelName | None = None,
    output: str | None = None,
    plot: str | None = None,
    device: str = "auto",
    threads: Threads = 0,
    latex: bool = False,
) -> None:
    """Compare a model's cross-entropy with the exact one of the language, overall and by length.

    \b
    Example:
      pdtools eval-formal cfl shards/hardest
          hardest: cross-entropy, nats a symbol
          strings  model   bound  difference
             1000      -  1.4392           -
      pdtools eval-formal cfl shards/test --model runs/rns -o results/rns --plot rns.svg

    Cross-entropies count the end of the string. The difference is 0 for a perfect model. Without a model,
    only the bound is computed.

    Arguments:
        shards (SHARDS): Folder that generate cfl --shards wrote.

    Output:
        plot (FILE): A figure by length: .svg, .pdf or .png.
    """
    from pdtools.evaluation.formal.cfl import evaluate_cfl
    from pdtools.models import load_checkpoint
    from pdtools.report.evaluations import draw_by_length
    from pdtools.shards import ShardSet

    beam.check_model(context, model)
    inputs = {"strings": shards, "model": model}
    evaluating = Evaluating.begin(output, options, inputs, latex=latex)
    if plot:
        check_picture(plot, overwrite=options.overwrite, inputs=[*inputs.values()], output=output)
    if plot and model is None:
        raise typer.BadParameter("--plot needs a --model")
    strings = ShardSet.open(shards)
    loaded = load_checkpoint(model, pick_device(device, threads)) if model else None
    results = evaluate_cfl(
        strings,
        loaded,
        search=beam.search,
        rejects=Rejects("fail", hint=None),
        progress=bar("strings"),
    )
    evaluating.deliver(results)
    if plot:
        y = "cross-entropy difference (nats a symbol)"
        draw_by_length(plot, {str(model): results.scores}, "difference", x="tokens", y=y)


@command("Predict y from x with a model of pdtools train --task.", app=app)
def task(
    pairs: list[str],
    model: ModelName,
    options: ResultOptions,
    output: str | None = None,
    plot: str | None = None,
    dropout: bool = False,
    seed: Natural = 0,
    device: str = "auto",
    threads: Threads = 0,
    latex: bool = False,
) -> None:
    """Predict y from x with a model of pdtools train --task; accuracy of y's symbols, by length and on
    average.

    \b
    Example:
      pdtools eval-formal task rs.tsv --model runs/rs -o results/rs --plot rs.svg

    A masked model predicts all of y at once, a causal model one symbol after the other.

    Arguments:
        pairs (PAIRS): TSV files of generate task.

    Output:
        plot (FILE): A figure of accuracy by length (.svg, .pdf, .png).

    Options:
        dropout: Leave dropout on, as the released code does.
    """
    from pdtools.evaluation.formal.transduction import evaluate_task, task_of
    from pdtools.formal.transduction_data import read_pairs
    from pdtools.models import load_checkpoint
    from pdtools.report.evaluations import draw_by_length

    files = expand_inputs(pairs, (".tsv", ".csv"))
    inputs = {"model": model, **{f"pairs_{i}": file for i, file in enumerate(files, 1)}}
    evaluating = Evaluating.begin(output, options, inputs, also=pairs, latex=latex)
    if plot:
        check_picture(plot, overwrite=options.overwrite, inputs=[*inputs.values(), *pairs], output=output)
    loaded = load_checkpoint(model, pick_device(device, threads))
    trained, _ = task_of(loaded)
    results = evaluate_task(
        read_pairs(trained, *files),
        loaded,
        dropout=dropout,
        seed=seed,
        progress=bar("lengths"),
    )
    evaluating.deliver(results)
    if plot:
        label = f"{results.settings['formal_task']}, {results.settings['objective']}"
        y = "symbols of y right (percent)"
        draw_by_length(plot, {label: results.scores}, "accuracy", x="symbols of x", y=y)
