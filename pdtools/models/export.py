"""Export of a checkpoint for others: a folder that pdtools and transformers load, with a card."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Literal, get_args

import torch

from pdtools import __version__
from pdtools.errors import InputError, PdtoolsError
from pdtools.files import atomic_directory, read_json, remove_stale, write_json
from pdtools.files.manifest import MANIFEST, growing, paths_below
from pdtools.models.checkpoint import (
    BEST_FOLDER,
    CONFIG_FILE,
    LoadedModel,
    checkpoint_folder,
    write_checkpoint,
)
from pdtools.provenance.origin import code_digest

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


# --- the checkpoints that a run kept, as revisions --------------------------------------------

# BabyLM's pipeline asks for branches such as chck_1M of a repository on the Hugging Face hub, for the model
# after one million words, and main for the last word. transformers takes no revision of a local folder; so
# each is a folder of its own, which hf upload makes a branch.


MAIN, RECORD = "main", "revisions.json"
_KEPT = re.compile(r"step-(\d+)")


def revisions_of(run: str | Path) -> dict[str, Path]:
    """The checkpoints of a run by the names of revisions, in the order of training; ``main`` is the best one.

    Checkpoints kept after a number of words (``train.keep_at``) are named as in BabyLM, such as ``chck_1M``;
    one kept for several numbers has several names. Others are named as their folders, ``step-N``.

    Raises:
        InputError: if the folder is no run, or kept no checkpoint.
    """
    run = Path(run)
    if not (run / "run.json").is_file():
        raise InputError("not a run of pdtools train, whose kept checkpoints are the revisions", file=run)
    kept = [(int(match[1]), path) for path in run.iterdir() if (match := _KEPT.fullmatch(path.name))]
    if not kept:
        raise InputError("no kept checkpoints", file=run, hint="train.keep_at says when a run keeps one")
    found: dict[str, Path] = {}
    for _, folder in sorted(kept):
        config = read_json(checkpoint_folder(folder) / CONFIG_FILE)
        words = config.get("kept_at_words") if isinstance(config, dict) else None
        found |= dict.fromkeys([f"chck_{_short(number)}" for number in words or ()] or [folder.name], folder)
    return {**found, MAIN: run / BEST_FOLDER}


def _short(number: int) -> str:
    """Format a number as 1M or 250k: with the largest unit that leaves an integer."""
    for unit, letter in ((10**6, "M"), (10**3, "k")):
        if number % unit == 0:
            return f"{number // unit}{letter}"
    return str(number)


def revisions_to_write(output: str | Path, names: Sequence[str], about: Mapping[str, Any]) -> Iterator[str]:
    """Begin or continue a folder of revisions, and yield the revisions that it does not hold yet.

    Args:
        output: the folder. Each revision is to appear in it whole.
        names: the names of all revisions.
        about: their sources and settings; recorded, and compared with the record.

    Raises:
        PdtoolsError: if the folder holds something else.
    """
    now = f"{__version__}, code {code_digest()}"
    folder, recorded = Path(output), {**about, "revisions": list(names), "pdtools": now}
    if (folder / RECORD).is_file():
        found = read_json(folder / RECORD)
        if found != recorded:
            reason = "that were made of something else, or otherwise"
            if isinstance(found, dict) and {**found, "pdtools": now} == recorded:
                reason = f"of pdtools {found.get('pdtools')}, and this is {now}"
            raise PdtoolsError(f"{output}: holds revisions {reason} (delete it, or choose another name)")
    elif {*paths_below(folder)} - {MANIFEST}:
        raise PdtoolsError(f"{output}: exists already (choose another name)")
    else:
        folder.mkdir(parents=True, exist_ok=True)
        write_json(folder / MANIFEST, growing("exported revisions"))
        write_json(folder / RECORD, recorded)
    for name in names:
        remove_stale(folder / name)
        if not (folder / name).is_dir():
            yield name
