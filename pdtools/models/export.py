"""Export of a checkpoint for others: a folder that pdtools and transformers load, with a card."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any, Literal, get_args

import torch

from pdtools.errors import PdtoolsError
from pdtools.files import atomic_directory, read_json, write_json
from pdtools.models.checkpoint import LoadedModel, write_checkpoint

TRAINING_FILE, CARD_FILE = "training.json", "README.md"
# Number formats of exported weights; they are always read into single precision.
ExportedDtype = Literal["float32", "float16", "bfloat16"]


def training_of(folder: Path) -> dict[str, Any] | None:
    """The record of a checkpoint's training: ``training.json`` of an export, else ``run.json`` of its run."""
    for path in (folder / TRAINING_FILE, folder.parent / "run.json"):
        if path.is_file():
            found = read_json(path)
            return found if isinstance(found, dict) else None
    return None


def export_checkpoint(
    loaded: LoadedModel,
    output: str | Path,
    *,
    card: str,
    dtype: ExportedDtype = "float32",
    overwrite: bool = False,
) -> None:
    """Write a folder with the checkpoint, ``training.json`` if its training is known, and a card.

    Args:
        loaded: the checkpoint.
        output: the folder.
        card: the text of ``README.md``.
        dtype: for floating-point weights.
        overwrite: replace an existing folder.

    Raises:
        PdtoolsError: if there is no such type, weights do not fit it, or the folder may not be written.
    """
    if dtype not in get_args(ExportedDtype):
        raise PdtoolsError(f"weights are written as {', '.join(get_args(ExportedDtype))}, not {dtype!r}")
    kind = getattr(torch, dtype)
    weights = {
        name: values.to(kind) if values.is_floating_point() else values
        for name, values in loaded.model.state_dict().items()
    }
    if not all(bool(values.isfinite().all()) for values in weights.values()):
        raise PdtoolsError(
            f"{loaded.folder}: some weights are too large for {dtype}: try bfloat16, or float32"
        )
    training = training_of(loaded.folder)
    with atomic_directory(output, kind="checkpoint", overwrite=overwrite) as folder:
        config = loaded.config
        write_checkpoint(
            folder,
            loaded.model,
            loaded.tokenizer,
            shards=config["shards"],
            trained=loaded.trained,
            weights=weights,
            stub=True,
        )
        if training is not None:
            write_json(folder / TRAINING_FILE, training)
        (folder / CARD_FILE).write_text(card, encoding="utf-8", newline="\n")


def front_matter(values: dict[str, Any]) -> str:
    """The lines between ``---`` at the beginning of a card; JSON values, which YAML has too."""
    return "\n".join(["---", *(f"{key}: {json.dumps(value)}" for key, value in values.items()), "---", ""])
