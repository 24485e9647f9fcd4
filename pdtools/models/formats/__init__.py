"""Models of other programs, imported as checkpoints: a registry of their formats, one file each."""

from __future__ import annotations

import contextlib
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from pdtools.errors import InputError, PdtoolsError
from pdtools.files import atomic_directory, write_json
from pdtools.files.source import sha256_file
from pdtools.models.checkpoint import check_shapes, write_checkpoint
from pdtools.models.export import TRAINING_FILE
from pdtools.models.formats import released_pushdown
from pdtools.models.formats.base import Format, Imported
from pdtools.models.registry import empty_model, make_config
from pdtools.provenance.hub import name_of_snapshot, snapshot
from pdtools.provenance.model_names import check_no_hub_name

FORMATS: dict[str, Format] = {form.name: form for form in (released_pushdown.FORMAT,)}

# Keys of the configuration that a user decides; the source decides the others.
_FREE = re.compile(r"normalize|.*dropout")

__all__ = ["FORMATS", "Format", "Imported", "downloaded", "format_of", "import_model"]


def downloaded(name: str, *, bars: bool = False) -> Path:
    """The folder of a model of the hub in one of the formats; missing files are downloaded.

    Raises:
        InputError: if it is in none, or cannot be downloaded; as of the last format.
    """
    *others, last = FORMATS.values()
    for form in others:
        with contextlib.suppress(InputError):
            return snapshot(name, files=form.files, bars=bars)
    return snapshot(name, files=last.files, bars=bars)


def format_of(folder: str | Path) -> Format:
    """The format of the model in a folder.

    Raises:
        InputError: if it has the files of none.
    """
    check_no_hub_name(folder)
    for form in FORMATS.values():
        if all(Path(folder, name).is_file() for name in form.files):
            return form
    if not Path(folder).is_dir():
        raise InputError("not a folder" if Path(folder).exists() else "no such folder", file=folder)
    known = "; ".join(f"{' and '.join(form.files)} ({form.about})" for form in FORMATS.values())
    raise InputError(f"no model of a known format here: {known}", file=folder)


def import_model(
    source: str | Path,
    output: str | Path,
    *,
    tokenizer: str | Path | None = None,
    text_style: str = "ptb",
    options: Mapping[str, Any] | None = None,
    provenance: Mapping[str, Any] | None = None,
    overwrite: bool = False,
) -> Imported:
    """Write a model of another program as a checkpoint.

    Args:
        source: its folder, one of the hub's cache included.
        output: the checkpoint's folder.
        tokenizer: the folder of its tokenizer; by default the source.
        text_style: how words become text for it.
        options: keys of its configuration that are to differ: ``normalize``, and dropouts.
        provenance: a description of this run; ``training.json`` holds it, and the source's digests.
        overwrite: replace an existing folder.

    Raises:
        InputError: for a source or tokenizer that cannot be read as what it should be.
        PdtoolsError: for other options, or other values of them.
    """
    form = format_of(source)
    found = form.read(Path(source), Path(tokenizer or source), text_style)
    config = make_config(found.kind, {**found.options, **(options or {})})
    if fixed := [name for name in options or () if not _FREE.fullmatch(name)]:
        raise PdtoolsError(f"config.{fixed[0]} is read off the source: set only normalize and dropouts")
    check_shapes(found.kind, config, found.weights, Path(source, form.files[0]))
    record = {
        "format": form.name,
        "source": name_of_snapshot(source) or str(source),
        "sha256": {name: sha256_file(Path(source, name)) for name in form.files},
    }
    with atomic_directory(output, kind="checkpoint", overwrite=overwrite) as folder:
        model = empty_model(found.kind, config)
        shards = {"layout": "sentence", "factor": "right", "text_style": text_style}
        write_checkpoint(
            folder, model, found.tokenizer, shards=shards, trained={}, weights=found.weights, stub=True
        )
        write_json(folder / TRAINING_FILE, {"imported": record, "provenance": dict(provenance or {})})
    return Imported(found.kind, config, form.notes(config))
