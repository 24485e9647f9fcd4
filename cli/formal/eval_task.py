"""``pdtools eval-task``: what follows from a string?"""

from __future__ import annotations

from typing import Annotated

import typer

from pdtools.files import expand_inputs
from pdtools.jobs.devices import pick_device

from ..evaluating import Evaluating
from ..options import (
    DeviceOption,
    LatexOption,
    MaxBatchOption,
    ModelOption,
    ResultOptions,
    ResultsFolderOption,
    SeedOption,
    ThreadsOption,
    option_blocks,
)
from ..outputs import check_picture
from ..panels import output_option


@option_blocks()
def eval_task(
    pairs: Annotated[list[str], typer.Argument(metavar="PAIRS...", help="TSV files of generate task.")],
    model: ModelOption,
    options: ResultOptions,
    output: ResultsFolderOption = None,
    plot: Annotated[
        str | None,
        output_option("--plot", metavar="FILE", help="A figure of accuracy by length (.svg, .pdf, .png)."),
    ] = None,
    teacher_forced: Annotated[
        bool,
        typer.Option(
            "--teacher-forced",
            help="Causal models: predict each symbol after the correct ones, not after the predicted ones.",
        ),
    ] = False,
    dropout: Annotated[
        bool, typer.Option("--dropout", help="Leave dropout on, as the released code does.")
    ] = False,
    max_batch: MaxBatchOption = None,
    seed: SeedOption = 0,
    device: DeviceOption = "auto",
    threads: ThreadsOption = 0,
    latex: LatexOption = False,
) -> None:
    """Predict y from x with a model of pdtools train --task; accuracy of y's symbols, by length and on
    average.

    A masked model predicts all of y at once. A causal model predicts one symbol after the other, each time
    the most probable one given those that it chose before. Generate the pairs with pdtools generate task.

    \b
    Example:
      pdtools eval-task rs.tsv --model runs/rs -o results/rs --plot rs.svg
    """
    from pdtools.evaluation.formal.transduction import DEFAULT_BATCH, evaluate_task, task_of
    from pdtools.formal.transduction_data import read_pairs
    from pdtools.models import load_checkpoint
    from pdtools.report.evaluations import draw_by_length

    files = expand_inputs(pairs, (".tsv", ".csv"))
    inputs = {"model": model, **{f"pairs_{i}": file for i, file in enumerate(files, 1)}}
    evaluating = Evaluating.begin(output, options, inputs, also=pairs, latex=latex)
    if plot:
        check_picture(plot, overwrite=options.overwrite, inputs=[*inputs.values(), *pairs], output=output)
    loaded = load_checkpoint(model, pick_device(device, threads))
    task, _ = task_of(loaded)
    results = evaluate_task(
        read_pairs(task, *files),
        loaded,
        decoding="teacher-forced" if teacher_forced else "greedy",
        dropout=dropout,
        seed=seed,
        max_batch=max_batch or DEFAULT_BATCH,
        progress=evaluating.bar("lengths"),
    )
    evaluating.deliver(results)
    if plot:
        label = f"{results.settings['formal_task']}, {results.settings['objective']}"
        y = "symbols of y right (percent)"
        draw_by_length(plot, {label: results.scores}, "accuracy", x="symbols of x", y=y)
