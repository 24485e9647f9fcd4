"""``pdtools inspect``: what a model does inside while it reads a string."""

from __future__ import annotations

from functools import partial
from typing import Annotated

import typer

from pdtools.errors import PdtoolsError

from .arguments import parse_range
from .console import print_json, warn
from .options import DeviceOption, JsonOption, ModelOption, OverwriteOption, ThreadsOption
from .outputs import check_picture
from .running import pick_device


def inspect(
    text: Annotated[str, typer.Argument(metavar="TEXT", help="Words separated by spaces; for a task, x.")],
    model: ModelOption,
    output: Annotated[
        str | None,
        typer.Option(
            "--output", "-o", rich_help_panel="Output", metavar="FILE", help="A picture: .svg, .png or .pdf."
        ),
    ] = None,
    layers: Annotated[
        str | None, typer.Option(metavar="N,M-K", help="Stack attention: these layers only (default: all).")
    ] = None,
    device: DeviceOption = "cpu",
    threads: ThreadsOption = 0,
    overwrite: OverwriteOption = False,
    as_json: JsonOption = False,
) -> None:
    """Look at the stacks of a model while it reads a string.

    Stack attention: for each layer and position, the probability that each token is on top of the stack (the
    attention map; darker is higher), the probabilities of push, pop and no-op, the likeliest of them, and the
    stack that these actions would make. A model of a task reads x and answers; its answer is shown beside
    the tokens.

    Recurrent models: surprisal (of a masked model of a task, which reads x: its answer) and shares of actions
    after each token; for a nondeterministic stack, also what is on top, and the highest-weight run of its
    automaton as a trace, indented by the stack's height.

    \b
    Example:
      pdtools inspect "a b b a a" --model runs/rs
      pdtools inspect "a b b a a" --model runs/rs -o maps.svg --layers 1,3-4
      pdtools inspect "0 1 1 # 1 1 0" --model runs/rns
    """
    if output:
        check_picture(output, overwrite=overwrite, inputs=[model])
    chosen = None if layers is None else {n for part in layers.split(",") for n in parse_range(part.strip())}

    from pdtools.inspection.recurrent import inspect_run
    from pdtools.inspection.stack_attention import inspect_stacks
    from pdtools.models import RecurrentLM
    from pdtools.report.stack_maps import draw_stacks, print_stacks
    from pdtools.report.stack_runs import draw_run, print_run
    from pdtools.search.scorer import load_model

    loaded = load_model(model, device=pick_device(device, threads))
    if isinstance(loaded.model, RecurrentLM):
        if chosen is not None:
            raise PdtoolsError(f"--layers is for stack attention: {model} is a recurrent model")
        view = inspect_run(loaded, text)
        document, draw, show = view.as_json(), partial(draw_run, view=view), partial(print_run, view)
    else:
        found = inspect_stacks(loaded, text, chosen)
        document, draw = found.as_json(), partial(draw_stacks, inspection=found)
        show = partial(print_stacks, found)
    warn(loaded.described)
    if output:
        draw(output)
    if as_json:
        print_json(document)
    elif not output:
        show()
