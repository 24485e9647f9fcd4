"""Recognition of folders that pdtools has written; no other folder is ever replaced.

Earlier versions wrote no lists of files. Their folders are recognized by the names here, to which nothing
is added: a new kind of folder says itself what it holds (:mod:`pdtools.files.manifest`).
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pdtools.errors import PdtoolsError
from pdtools.files.inputs import read_json
from pdtools.files.manifest import (
    LEFT_OVER_BELOW,
    NOT_WRITTEN,
    Manifest,
    is_listed,
    paths_below,
    read_manifest,
)

_TABLES = "items|observations|regions|scores|strings"
_TOKENIZER = r"tokenizer\.json|tokenizer_config\.json"
_OF_RUN = r"best|last|step-\d+"  # checkpoints in the folder of a run
_STATE = r"trainer(/(state\.(json|safetensors)|SHA256SUMS))?"
_CHECKPOINT = rf"config\.json|model\.safetensors|SHA256SUMS|{_TOKENIZER}|{_STATE}"
_EXPORTED = r"README\.md|training\.json"
_FIGURES = "figures.json"


@dataclass(frozen=True, kw_only=True)
class _Kind:
    """The file names of one kind of older folder.

    Attributes:
        name: its name.
        needed: files that each has; if the first is JSON, these ``keys`` too.
        parts: a pattern of the paths of all files and folders that pdtools writes there.
    """

    name: str
    needed: tuple[str, ...]
    keys: frozenset[str] = frozenset()
    parts: str

    def description(self, folder: Path) -> str | None:
        """The folder's kind, for a message; None if it is not of this kind."""
        if not all((folder / name).is_file() for name in self.needed):
            return None
        if not self.keys:
            return self.name
        try:
            document = read_json(folder / self.needed[0])
        except PdtoolsError:
            return None
        if not isinstance(document, dict) or not self.keys <= document.keys():
            return None
        return self.name + command_of(document)

    def is_whole(self, folder: Path) -> bool:
        """Return whether a folder is of this kind and has all required files."""
        return self.description(folder) is not None

    def problem(self, path: str, folder: Path) -> str | None:
        """The reason why a relative path in a folder is not from pdtools; None if it is."""
        return None if re.fullmatch(self.parts, path) or LEFT_OVER_BELOW.fullmatch(path) else NOT_WRITTEN


def command_of(document: dict[str, Any]) -> str:
    """`` of COMMAND``, the command that made results, or empty if they do not say."""
    provenance = document.get("provenance")
    command = provenance.get("command") if isinstance(provenance, dict) else None
    name = command[1] if isinstance(command, list) and len(command) > 1 else None
    found = isinstance(name, str) and "scores" in document and re.fullmatch(r"eval-[a-z]{2,9}", name)
    return f" of {name}" if found else ""


_RUN = _Kind(
    name="the training run",
    needed=("run.json",),
    keys=frozenset({"recipe", "data"}),
    parts=rf"run\.json|(metrics|samples|rejects)\.jsonl|({_OF_RUN})(/({_CHECKPOINT}))?"
    r"|tensorboard(/events\.out\.tfevents\.[^/]*)?",
)
_KINDS = (
    _Kind(
        name="the results",
        needed=("results.json", "items.parquet"),
        keys=frozenset({"scores", "counts", "settings", "provenance"}),
        parts=rf"results\.json|rejects\.jsonl|({_TABLES})\.parquet",
    ),
    _Kind(
        name="the shards",
        needed=("manifest.json",),
        keys=frozenset({"format", "parts", "tokenizer"}),
        parts=rf"README\.md|manifest\.json|rejects\.jsonl|part-\d+\.parquet|{_TOKENIZER}",
    ),
    _RUN,
    _Kind(
        name="the checkpoint",
        needed=("config.json", "model.safetensors"),
        keys=frozenset({"format_version", "model", "tokenizer", "shards"}),
        parts=rf"{_CHECKPOINT}|{_EXPORTED}",
    ),
    _Kind(
        name="the trees of parse --split",
        needed=("rejects.jsonl", "train.trees", "valid.trees"),
        parts=r"(train|valid|test)\.trees(\.(text|arcs))?|rejects\.jsonl",
    ),
)


def written_as(folder: Path) -> str | None:
    """The kind of a folder that pdtools wrote, such as ``the results of eval-blimp``; None if empty.

    Raises:
        PdtoolsError: if it holds anything that pdtools did not write, naming it.
    """
    first = next(paths_below(folder), None)
    if first is None:
        return None
    for kind in _found(folder):
        if (description := kind.description(folder)) is not None:
            check_all_ours(folder, kind)
            return description
    raise PdtoolsError(
        f"{folder}: holds {first}: not a folder that pdtools wrote, so it is not replaced"
        " (choose another name)"
    )


def check_all_ours(folder: Path, kind: _Kind | Manifest) -> None:
    """Refuse a folder of a kind that holds files pdtools did not write.

    Raises:
        PdtoolsError: naming the file.
    """
    for path, problem in _problems(folder, kind):
        raise PdtoolsError(f"{folder}: holds {path}, {problem} (move it, or choose another name)")


def _found(folder: Path) -> tuple[_Kind | Manifest, ...]:
    """The possible kinds of a folder: its own list, or all kinds of older folders."""
    manifest = _list_of(folder)
    return _KINDS if manifest is None else (manifest,)


def _list_of(folder: Path) -> Manifest | None:
    """The list of files that a folder has; among older folders, only figures have one."""
    if (manifest := read_manifest(folder)) is not None:
        return manifest
    try:
        document = read_json(folder / _FIGURES)
    except (PdtoolsError, OSError):
        return None
    if not isinstance(document, dict) or not document.keys() >= {"figures", "provenance"}:
        return None
    listed = document["figures"] if isinstance(document["figures"], dict) else {}
    files = {path: entry for path, entry in listed.items() if is_listed(entry)}
    return Manifest(kind="figures", files=files, list_file=_FIGURES)


def _problems(folder: Path, kind: _Kind | Manifest) -> Iterator[tuple[str, str]]:
    """Paths in a folder of a kind that are not from pdtools, and why.

    Folders in one that grows may have lists of their own; one that is whole lists what is in them itself.
    """
    inner: dict[str, Manifest] = {}
    grows = isinstance(kind, _Kind) or kind.parts is not None
    for path in paths_below(folder):
        above = next((name for name in inner if path.startswith(f"{name}/")), None)
        if above is not None:
            problem = inner[above].problem(path.removeprefix(f"{above}/"), folder / above)
        else:
            problem = kind.problem(path, folder)
            if grows and (folder / path).is_dir() and (found := read_manifest(folder / path)) is not None:
                inner[path] = found
        if problem is not None:
            yield path, problem


def holds_others(folder: Path, kind: Manifest | None = None) -> bool:
    """Return whether a folder holds files that do not belong to a kind, or to any kind."""
    kinds = _found(folder) if kind is None else (kind,)
    return all(any(_problems(folder, each)) for each in kinds)


def is_whole(output: Path) -> bool:
    """Return whether an output seems complete: a folder of a known kind, or a file that is not empty."""
    if output.is_dir():
        return any(kind.is_whole(output) for kind in _found(output))
    return output.is_file() and output.stat().st_size > 0


def is_part_of(folder: Path, path: str) -> bool:
    """Return whether pdtools wrote a folder and the given relative path in it."""
    names = path.split("/")
    for n in range(len(names)):  # folders in it may have lists of their own
        place, rest = folder.joinpath(*names[:n]), "/".join(names[n:])
        if (manifest := _list_of(place)) is not None and manifest.names(rest):
            return True
    return any(kind.description(folder) is not None and kind.problem(path, folder) is None for kind in _KINDS)


def is_unfinished_run(folder: Path) -> bool:
    """Return whether this is a training run that was stopped: its state, if any, has no end."""
    if _RUN.description(folder) is None:
        return False
    try:
        state = read_json(folder / "last" / "trainer" / "state.json")
    except PdtoolsError:
        return not (folder / "last").exists()
    return isinstance(state, dict) and state.get("finished", "") is None


def is_checkpoint_of_a_run(folder: Path) -> bool:
    """Return whether this is ``best/``, ``last/`` or ``step-N/`` of a training run."""
    return re.fullmatch(_OF_RUN, folder.name) is not None and _RUN.description(folder.parent) is not None
