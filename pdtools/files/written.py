"""Folders that pdtools has written, known by their files: no other folder is ever replaced."""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pdtools.errors import PdtoolsError
from pdtools.files.inputs import read_json, sha256_file
from pdtools.files.system import MAKER

RESULT_TABLES = ("items", "observations", "regions", "scores")
"""Names of tables that evaluations may write beside their ``results.json``; there are no others."""

# What systems and killed processes leave in any folder.
_LEFT_OVER = rf"\.nfs[0-9a-f]{{24}}|\.DS_Store|(\.[^/]+\.{MAKER}\.(tmp|old)|\.(best|last)\.(old|new))(/.*)?"
_TOKENIZER = r"tokenizer\.json|tokenizer_config\.json"
_OF_RUN = r"best|last|step-\d+"  # checkpoints in the folder of a run
_STATE = r"trainer(/(state\.(json|safetensors)|SHA256SUMS))?"
_CHECKPOINT = rf"config\.json|model\.safetensors|SHA256SUMS|{_TOKENIZER}|{_STATE}"
_EXPORTED = r"README\.md|training\.json"


@dataclass(frozen=True, kw_only=True)
class _Kind:
    """What a folder of one kind holds.

    Attributes:
        name: what it is.
        needed: files that each has; of the first, if it is JSON, these ``keys`` too.
        parts: matches the paths in it of all files and folders that pdtools writes there.
        listed: the key in the first of these files of what else is there: of each file its ``size`` and
            ``sha256``, so that a list cannot name files that it was not made with.
    """

    name: str
    needed: tuple[str, ...]
    keys: frozenset[str] = frozenset()
    parts: str
    listed: str | None = None

    def description(self, folder: Path) -> str | None:
        """What the folder is; None if it is nothing of this kind."""
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
        return self.name + _command(document)

    def holds(self, paths: Iterable[str], folder: Path) -> Iterator[bool]:
        """Of each relative path in a folder, whether pdtools writes a file or folder there."""
        pattern = re.compile(f"{self.parts}|{_LEFT_OVER}|.*/({_LEFT_OVER})")
        files = self.listed_in(folder)
        return (
            pattern.fullmatch(path) is not None or _is_as_listed(folder / path, files.get(path))
            for path in paths
        )

    def listed_in(self, folder: Path) -> dict[str, Any]:
        """What the folder's list says of each file; nothing, if there is none."""
        if self.listed is None:
            return {}
        try:
            document = read_json(folder / self.needed[0])
        except (PdtoolsError, OSError):
            return {}
        files = document.get(self.listed) if isinstance(document, dict) else None
        return files if isinstance(files, dict) else {}


def as_listed(file: Path) -> dict[str, Any]:
    """What a list says of a file that was just written."""
    return {"size": file.stat().st_size, "sha256": sha256_file(file)}


def _is_as_listed(file: Path, listed: Any) -> bool:
    """Whether a file is the one that was listed; None: it was not."""
    if not isinstance(listed, dict) or not file.is_file() or file.is_symlink():
        return False
    return file.stat().st_size == listed.get("size") and sha256_file(file) == listed.get("sha256")


def _command(document: dict[str, Any]) -> str:
    """The command that results are of, if they say so."""
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
        parts=rf"results\.json|rejects\.jsonl|({'|'.join(RESULT_TABLES)})\.parquet",
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
        parts=r"(train|valid|test)\.trees(\.text)?|rejects\.jsonl",
    ),
    _Kind(
        name="the figures",
        needed=("figures.json",),
        keys=frozenset({"figures", "provenance"}),
        parts=r"figures\.json",
        listed="figures",
    ),
)
JOB = _Kind(
    name="the unfinished run",
    needed=("job.json",),
    keys=frozenset({"format", "command", "settings"}),
    parts=r"job\.json|lock(-\d+-of-\d+)?|[a-z]+(/\d+-[0-9a-f]+\.zst)?",
)


def written_as(folder: Path, kinds: tuple[_Kind, ...] = _KINDS) -> str | None:
    """What pdtools wrote as a folder, such as ``the results of eval-blimp``; None if it is empty.

    Raises:
        PdtoolsError: if it holds anything that pdtools did not write, naming it.
    """
    first = next(paths_below(folder), None)
    if first is None:
        return None
    for kind in kinds:
        if (description := kind.description(folder)) is not None:
            paths = list(paths_below(folder))
            for path, is_ours in zip(paths, kind.holds(paths, folder), strict=True):
                if not is_ours:
                    is_listed = path in kind.listed_in(folder)
                    reason = "is not as pdtools wrote it" if is_listed else "pdtools did not write there"
                    raise PdtoolsError(
                        f"{folder}: holds {path}, which {reason} (move it, or choose another name)"
                    )
            return description
    raise PdtoolsError(
        f"{folder}: holds {first}: not a folder that pdtools wrote, so it is not replaced"
        " (choose another name)"
    )


def holds_others(folder: Path, kinds: tuple[_Kind, ...] = _KINDS) -> bool:
    """Whether there are other files than those of one kind; it may lack those that each has."""
    return not any(all(kind.holds(paths_below(folder), folder)) for kind in kinds)


def is_whole(output: Path) -> bool:
    """Whether this may be an output of a command: a folder of a known kind, or a file that is not empty."""
    if output.is_dir():
        return any(kind.description(output) is not None for kind in _KINDS)
    return output.is_file() and output.stat().st_size > 0


def is_part_of(folder: Path, path: str) -> bool:
    """Whether pdtools wrote the folder, and what is at this relative path in it."""
    return any(kind.description(folder) is not None and all(kind.holds([path], folder)) for kind in _KINDS)


def is_checkpoint_of_a_run(folder: Path) -> bool:
    """Whether this is ``best/``, ``last/`` or ``step-N/`` of a training run."""
    return re.fullmatch(_OF_RUN, folder.name) is not None and _RUN.description(folder.parent) is not None


def paths_below(folder: Path) -> Iterator[str]:
    """Relative paths of all in a folder, sorted, a folder before what is in it; but for what is left over."""
    for path, folders, files in os.walk(folder):
        folders.sort()
        for name in sorted([*folders, *files]):
            relative = os.path.relpath(os.path.join(path, name), folder).replace(os.sep, "/")
            if not re.fullmatch(_LEFT_OVER, name):
                yield relative
