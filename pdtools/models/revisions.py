"""The checkpoints that a run kept, as revisions: a folder for each, to be a branch of a repository.

BabyLM's pipeline asks for branches such as ``chck_1M`` of a repository on the Hugging Face hub, for the model
after one million words, and ``main`` for the last word. transformers takes no revision of a local folder; so
each is a folder of its own, which ``hf upload`` makes a branch.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from pdtools import __version__
from pdtools.errors import InputError, PdtoolsError
from pdtools.files import read_json, remove_stale, write_json
from pdtools.files.manifest import MANIFEST, growing, paths_below
from pdtools.models.checkpoint import BEST_FOLDER, CONFIG_FILE, checkpoint_folder
from pdtools.provenance.revision import code_digest

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
