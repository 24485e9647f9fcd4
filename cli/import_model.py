"""``pdtools import``: a model of another program as a checkpoint."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from .console import message, print_json
from .options import JsonOption, OverwriteOption, QuietOption, Style, named_tokenizer
from .outputs import check_target
from .panels import input_option, output_option


def import_model(
    source: Annotated[
        str,
        typer.Argument(
            metavar="SOURCE",
            help="A folder with model.pt and vocab.pkl, or hf:OWNER/NAME[@REVISION] of the hub.",
        ),
    ],
    output: Annotated[str, output_option("--output", "-o", metavar="DIR", help="The folder to write.")],
    tokenizer: Annotated[
        str | None,
        input_option(
            "--tokenizer",
            metavar="DIR",
            callback=named_tokenizer,
            help="GPT-2's tokenizer: a folder, or hf:gpt2 (default: SOURCE).",
        ),
    ] = None,
    text_style: Annotated[
        Style,
        typer.Option(
            "--text-style",
            help="How words become text: as in Penn's treebank, as in its training, or as people write.",
        ),
    ] = Style.ptb,
    settings: Annotated[
        list[str] | None,
        typer.Option(
            "--set",
            metavar="KEY=VALUE",
            help="config.normalize=allowed, or a dropout of the configuration (repeatable).",
        ),
    ] = None,
    overwrite: OverwriteOption = False,
    as_json: JsonOption = False,
    quiet: QuietOption = False,
) -> None:
    """Import a model that another program has saved: DIR is a checkpoint, as every command takes it.

    The Pushdown LM that Murty et al. (2023) released is read as it is: model.pt, a file of torch.save, and
    vocab.pkl. Nothing in these files is executed. training.json says what was imported, with SHA-256 sums.

    \b
    Example:
      pdtools import hf:smurty/pushdown-bllip --tokenizer hf:gpt2 -o bllip-lg
      pdtools import downloads/ --tokenizer gpt2/ -o bllip-lg --set config.normalize=allowed
    """
    from pdtools.provenance.hub import IMPORTED, PREFIX, snapshot

    check_target(output, folder=True, overwrite=overwrite, inputs=[tokenizer], quiet=quiet)
    from pdtools.models.registry import model_name
    from pdtools.models.released_pushdown import import_model, notes
    from pdtools.provenance import provenance
    from pdtools.training.recipe import config_settings

    folder = source
    if source.startswith(PREFIX):
        folder = str(snapshot(source, files=IMPORTED, bars=not quiet))
        message(f"{source}: commit {Path(folder).name}", quiet=quiet)
    check_target(output, folder=True, overwrite=overwrite, inputs=[folder], quiet=True)
    about = provenance({"source": folder, **({} if tokenizer is None else {"tokenizer": tokenizer})})
    config = import_model(
        folder,
        output,
        tokenizer=tokenizer,
        text_style=text_style.value,
        options=config_settings(settings or []),
        provenance=about,
        overwrite=overwrite,
    )
    for note in notes(config):
        message(note, quiet=quiet)
    kind = model_name(config)
    shape = {name: getattr(config, name) for name in ("layers", "d_model", "vocab_size")}
    if as_json:
        print_json({"output": output, "model": kind, **shape, "provenance": about})
    sizes = ", ".join(f"{name} {value}" for name, value in shape.items())
    message(f"{output}: {kind}, {sizes}", quiet=quiet)
