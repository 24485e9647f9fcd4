"""``pdtools import``: a model of another program as a checkpoint."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from .console import is_quiet, message, print_json
from .options import ResultOptions, Style, command, named_tokenizer
from .running import check_target


@command("Read a model that another program has saved.")
def import_model(
    source: str,
    output: str,
    options: ResultOptions,
    tokenizer: Annotated[str | None, typer.Option(callback=named_tokenizer)] = None,
    text_style: Style = "ptb",
    settings: list[str] | None = None,
) -> None:
    """Import a model that another program has saved: DIR is a checkpoint, as every command takes it.

    \b
    Example:
      pdtools import hf:smurty/pushdown-bllip --tokenizer hf:gpt2 -o bllip-lg
      pdtools import downloads/ --tokenizer gpt2/ -o bllip-lg --set config.normalize=allowed

    It reads the Pushdown LM that Murty et al. (2023) released: model.pt, a file of torch.save, and vocab.pkl.
    Nothing in these files is executed.

    Arguments:
        source (SOURCE): A folder, or hf:OWNER/NAME[@REVISION], with model.pt and vocab.pkl.

    Input:
        tokenizer (DIR): GPT-2's tokenizer: a folder, or hf:gpt2 (default: SOURCE).

    Output:
        output (-o DIR): The folder to write.

    Options:
        text_style: Words as in Penn's treebank (its training), or as people write.
        settings (--set KEY=VALUE): config.normalize=allowed, or a dropout (repeatable).
    """
    from pdtools.provenance.hub import IMPORTED, PREFIX, snapshot

    check_target(output, folder=True, overwrite=options.overwrite, inputs=[tokenizer])
    from pdtools.models.registry import model_name
    from pdtools.models.released_pushdown import import_model, notes
    from pdtools.provenance import provenance
    from pdtools.training.recipe import config_settings

    folder = source
    if source.startswith(PREFIX):
        folder = str(snapshot(source, files=IMPORTED, bars=not is_quiet()))
        message(f"{source}: commit {Path(folder).name}")
    check_target(output, folder=True, overwrite=options.overwrite, inputs=[folder], says=False)
    about = provenance({"source": folder, **({} if tokenizer is None else {"tokenizer": tokenizer})})
    config = import_model(
        folder,
        output,
        tokenizer=tokenizer,
        text_style=text_style,
        options=config_settings(settings or []),
        provenance=about,
        overwrite=options.overwrite,
    )
    for note in notes(config):
        message(note)
    kind = model_name(config)
    shape = {name: getattr(config, name) for name in ("layers", "d_model", "vocab_size")}
    if options.as_json:
        print_json({"output": output, "model": kind, **shape, "provenance": about})
    sizes = ", ".join(f"{name} {value}" for name, value in shape.items())
    message(f"{output}: {kind}, {sizes}")
