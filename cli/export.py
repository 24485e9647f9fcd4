"""``pdtools export``: a checkpoint to give to others."""

from __future__ import annotations

from enum import Enum
from pathlib import Path
from typing import Annotated

import typer

from .console import message, print_json
from .options import JsonOption, OverwriteOption, QuietOption, named_model
from .outputs import check_target
from .panels import input_option, output_option


class ExportedType(str, Enum):
    """What weights are written as."""

    float32 = "float32"
    float16 = "float16"
    bfloat16 = "bfloat16"


def export(
    model: Annotated[
        str,
        typer.Argument(
            metavar="MODEL", callback=named_model, help="A checkpoint, or a run of pdtools train."
        ),
    ],
    output: Annotated[str, output_option("--output", "-o", metavar="DIR", help="The folder to write.")],
    dtype: Annotated[
        ExportedType, typer.Option("--dtype", help="Type of the weights; float16 takes half the space.")
    ] = ExportedType.float32,
    results: Annotated[
        list[str] | None,
        input_option(
            "--results", metavar="DIR", help="Results of the model, whose scores the card lists; repeatable."
        ),
    ] = None,
    about: Annotated[str | None, input_option("--about", help="A paragraph for the card.")] = None,
    overwrite: OverwriteOption = False,
    as_json: JsonOption = False,
    quiet: QuietOption = False,
) -> None:
    """Write a model to give to others: weights, tokenizer, how it was trained, and a model card.

    The folder is a checkpoint, which every command takes as --model. The classes AutoModelForCausalLM and
    AutoTokenizer of transformers load it too, in any program where pdtools is installed: with
    trust_remote_code=True, for a file of a few lines that imports pdtools, or after "import pdtools.hf"
    without. README.md, the card, is made from what the run recorded, which is in training.json, and from
    --results.

    \b
    Example:
      pdtools export runs/pushdown -o to-share/pushdown
      pdtools export runs/pushdown -o to-share/pushdown --dtype float16 --results results/blimp
    """
    from pdtools.models import load_checkpoint
    from pdtools.models.export import export_checkpoint, training_of
    from pdtools.report.model_card import model_card

    check_target(output, folder=True, overwrite=overwrite, inputs=[model, *(results or [])], quiet=quiet)
    loaded = load_checkpoint(model)
    card = model_card(
        loaded,
        name=Path(output).resolve().name,
        training=training_of(loaded.folder),
        results=results or [],
        about=about,
    )
    export_checkpoint(loaded, output, card=card, dtype=dtype.value, overwrite=overwrite)
    size = sum(path.stat().st_size for path in Path(output).iterdir())
    if as_json:
        from pdtools.provenance import provenance

        print_json({"output": output, "bytes": size, "provenance": provenance({"model": model})})
    message(f"{output}: {size / 1e6:.2f} MB", quiet=quiet)
