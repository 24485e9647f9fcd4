"""``pdtools inspect``: what a model does inside while it reads a string."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from pdtools.files import check_output

from .common import (
    DeviceOption,
    JsonOption,
    ModelOption,
    OverwriteOption,
    ThreadsOption,
    pick_device,
    print_json,
)

PICTURES = (".svg", ".png", ".pdf")


def inspect(
    text: Annotated[str, typer.Argument(metavar="TEXT", help="Words between spaces; of a task the x.")],
    model: ModelOption,
    output: Annotated[
        str | None, typer.Option("--output", "-o", metavar="FILE", help="A picture: .svg, .png or .pdf.")
    ] = None,
    device: DeviceOption = "cpu",
    threads: ThreadsOption = 0,
    overwrite: OverwriteOption = False,
    as_json: JsonOption = False,
) -> None:
    """Look at the stacks of a model with stack attention while it reads a string.

    For each layer and position: how likely each token is on top of the stack (the attention map, darker for
    more), the likeliest action with its probability, and the stack that these actions would make. A model
    of a task gets x, and answers; its answer stands beside the tokens.

    \b
    Example:
      pdtools inspect "a b b a a" --model runs/rs
      pdtools inspect "a b b a a" --model runs/rs -o maps.svg
    """
    if output and Path(output).suffix not in PICTURES:
        raise typer.BadParameter(f"a picture's name ends in {', '.join(PICTURES)}")
    if output:
        check_output(output, overwrite=overwrite)

    from pdtools.evaluation.inspection import inspect_stacks
    from pdtools.report.stack_maps import draw_stacks, print_stacks
    from pdtools.search.scorer import load_model

    found = inspect_stacks(load_model(model, device=pick_device(device, threads)), text)
    if output:
        draw_stacks(output, found)
    if as_json:
        print_json(found.as_json())
    elif not output:
        print_stacks(found)
