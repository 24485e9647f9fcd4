"""``pdtools export``: a checkpoint to give to others."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

from pdtools.files import watch_inputs

from .console import message, print_json
from .options import ResultOptions, command, named_model
from .running import check_target

if TYPE_CHECKING:
    from pdtools.models.export import ExportedDtype


ExportedType = Literal["float32", "float16", "bfloat16"]


@command("Write a model to share, with a model card.")
def export(
    model: Annotated[str, typer.Argument(callback=named_model)],
    output: str,
    options: ResultOptions,
    dtype: ExportedType = "float32",
    results: list[str] | None = None,
    about: str | None = None,
    revisions: bool = False,
) -> None:
    """Write a model to share: weights, tokenizer, how it was trained, and a model card.

    \b
    Example:
      pdtools export runs/pushdown -o to-share/pushdown
      pdtools export runs/pushdown -o to-share/pushdown --dtype float16 --results results/blimp

    Every command takes the folder as --model, and so does AutoModelForCausalLM of transformers. README.md is
    the card, made from what the run recorded and from --results.

    Arguments:
        model (MODEL): A checkpoint, or a run of pdtools train.

    Input:
        results (DIR): Results of the model, for the card; repeatable.
        about: A paragraph for the card.

    Output:
        output (-o DIR): The folder to write.
        revisions: Write the best checkpoint and those that train.keep_at kept.

    Options:
        dtype: Type of the weights; float16 takes half the space.
    """
    write = partial(_write, dtype=dtype, about=about)
    report: dict[str, Any] = {}
    if not revisions:
        check_target(output, folder=True, overwrite=options.overwrite, inputs=[model, *(results or [])])
        write(model, output, results=results or [], overwrite=options.overwrite)
        said = output
    else:
        if options.overwrite:
            raise typer.BadParameter(
                "--revisions continues a folder and never replaces one: leave out --overwrite"
            )
        report["revisions"] = _write_revisions(model, output, results or [], dtype, about, write)
        said = f"{output}: {', '.join(report['revisions'])}"
    size = sum(path.stat().st_size for path in Path(output).rglob("*") if path.is_file())
    if options.as_json:
        from pdtools.provenance import provenance

        print_json({"output": output, **report, "bytes": size, "provenance": provenance({"model": model})})
    message(f"{said}: {size / 1e6:.2f} MB")


def _write(
    model: str | Path,
    output: str | Path,
    *,
    results: list[str],
    dtype: ExportedDtype,
    about: str | None,
    name: str | None = None,
    overwrite: bool = False,
) -> None:
    from pdtools.models import load_checkpoint
    from pdtools.models.export import export_checkpoint, training_of
    from pdtools.report.model_card import model_card

    loaded = load_checkpoint(model)
    card = model_card(
        loaded,
        name=name or Path(output).resolve().name,
        training=training_of(loaded.folder),
        results=results,
        about=about,
    )
    export_checkpoint(loaded, output, card=card, dtype=dtype, overwrite=overwrite)


def _write_revisions(
    run: str, output: str, results: list[str], dtype: str, about: str | None, write: Callable[..., None]
) -> list[str]:
    """Write the missing revisions; return the names of all."""
    from pdtools.models.export import MAIN, revisions_of, revisions_to_write
    from pdtools.provenance import fingerprint

    found = revisions_of(run)
    watch_inputs([*found.values(), *results])
    made_of = {"model": {name: fingerprint(folder) for name, folder in found.items()}}
    how = {"dtype": dtype, "about": about, "results": results}
    for name in revisions_to_write(output, list(found), {**made_of, **how}):
        of_this = results if name == MAIN else []
        write(found[name], Path(output, name), results=of_this, name=Path(output).resolve().name)
    return list(found)
