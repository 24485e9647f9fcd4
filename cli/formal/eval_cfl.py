"""``pdtools eval-cfl``: how far is a model from the exact entropy of a context-free language?"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Annotated, Any

import typer

from pdtools.errors import InputError
from pdtools.files import Rejects
from pdtools.jobs.devices import pick_device

from ..evaluating import Evaluating
from ..options import (
    BeamOptions,
    DeviceOption,
    LatexOption,
    MaxBatchOption,
    ResultOptions,
    ResultsFolderOption,
    ThreadsOption,
    models_folder,
    option_blocks,
)
from ..outputs import check_picture
from ..panels import output_option

if TYPE_CHECKING:
    from pdtools.formal.grammar import Grammar


@option_blocks(without=("word_beam", "fast_track"))
def eval_cfl(
    shards: Annotated[str, typer.Argument(metavar="SHARDS", help="Folder that generate cfl --shards wrote.")],
    beam: BeamOptions,
    options: ResultOptions,
    model: Annotated[
        str | None, models_folder(help="A checkpoint or a run. Without it, only the bound is computed.")
    ] = None,
    output: ResultsFolderOption = None,
    plot: Annotated[
        str | None, output_option("--plot", metavar="FILE", help="A figure by length: .svg, .pdf or .png.")
    ] = None,
    beside: Annotated[
        list[str] | None,
        typer.Option(metavar="RESULTS", help="--plot: also draw results of other models on this language."),
    ] = None,
    max_batch: MaxBatchOption = None,
    device: DeviceOption = "auto",
    threads: ThreadsOption = 0,
    latex: LatexOption = False,
) -> None:
    """Compare a model's cross-entropy with the exact one of the language, overall and by length.

    Cross-entropies are in nats per symbol, counting the end of the string. The difference is 0 for a perfect
    model. By length, the bound is conditioned on the length, which the model has to predict, as in figure 2
    of DuSell and Chiang (2022).

    \b
    Example:
      pdtools eval-cfl shards/test --model runs/dyck -o results/dyck --plot dyck.svg
      pdtools eval-cfl shards/test --model runs/lstm --plot both.svg --beside results/dyck
      pdtools eval-cfl shards/valid
    """
    from pdtools.evaluation.formal.cfl import evaluate_cfl, language_of
    from pdtools.models import load_checkpoint
    from pdtools.report.evaluations import draw_by_length
    from pdtools.shards import ShardSet

    inputs = {"strings": shards, "model": model}
    evaluating = Evaluating.begin(output, options, inputs, also=beside or (), latex=latex)
    if plot:
        sources = [*inputs.values(), *(beside or [])]
        check_picture(plot, overwrite=options.overwrite, inputs=sources, output=output)
    if plot and model is None:
        raise typer.BadParameter("--plot needs a --model")
    if beside and not plot:
        raise typer.BadParameter("--beside goes with --plot")
    strings = ShardSet.open(shards)
    others = {other: _earlier(other, language_of(strings).grammar) for other in beside or []}
    loaded = load_checkpoint(model, pick_device(device, threads)) if model else None
    results = evaluate_cfl(
        strings,
        loaded,
        search=replace(beam.search, max_batch=max_batch),
        rejects=Rejects("fail", hint=None),
        progress=evaluating.bar("strings"),
    )
    evaluating.deliver(results)
    if plot:
        y = "cross-entropy difference (nats a symbol)"
        draw_by_length(plot, {str(model): results.scores, **others}, "difference", x="tokens", y=y)


def _earlier(folder: str, grammar: Grammar) -> Mapping[str, Any]:
    """Another model's scores, on strings of the same grammar, of any lengths.

    Raises:
        InputError: if the folder has no such scores.
    """
    from pdtools.evaluation.results import read_results

    document, _ = read_results(folder)
    settings = document["settings"]
    if settings.get("task") != "cfl" or settings["model"] is None:
        raise InputError("not results of pdtools eval-cfl --model", file=folder)
    if settings["language"]["rules"] != grammar.text:
        name = settings["language"]["grammar"]
        raise InputError(f"these are results of another grammar: {name}, with its rules", file=folder)
    scores: Mapping[str, Any] = document["scores"]
    return scores
