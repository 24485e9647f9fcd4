"""``pdtools.json``: the files that a folder was written with, or the names that a growing one may hold."""

from __future__ import annotations

import json
import os
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

from pdtools.errors import PdtoolsError
from pdtools.files.checksums import CHECKSUMS_FILE, read_checksums
from pdtools.files.inputs import read_json
from pdtools.files.source import sha256_file
from pdtools.files.system import MAKER

MANIFEST = "pdtools.json"
_FORMAT = "pdtools folder"
# Kinds of folders that grow: a pattern of the relative paths in each. A file says its kind only: a pattern in
# a stranger's file could allow any path. Subfolders that appear whole have lists of their own.
_GROWING = {
    "training run": r"run\.json|(metrics|samples|rejects)\.jsonl|best|last|step-\d+"
    r"|tensorboard(/events\.out\.tfevents\.[^/]*)?",
    "exported revisions": r"revisions\.json|main|chck_\d+[Mk]?|step-\d+",
}
# Reasons why a file is not from pdtools.
NOT_WRITTEN = "which pdtools did not write there"
OTHERWISE = "which is not as pdtools wrote it"
# Names that systems and killed processes leave in any folder.
_LEFT_OVER = rf"\.nfs[0-9a-f]{{24}}|\.DS_Store|(\.[^/]+\.{MAKER}\.(tmp|old)|\.(best|last)\.(old|new))(/.*)?"
LEFT_OVER_BELOW = re.compile(f"{_LEFT_OVER}|.*/({_LEFT_OVER})")
# Larger files are not read again to tell whether they changed if nobody has touched them since.
ALWAYS_READ = 1 << 20


@dataclass(frozen=True, kw_only=True)
class Manifest:
    """The content of ``pdtools.json``.

    Attributes:
        kind: the folder's kind, such as ``results``.
        files: ``size`` and ``sha256`` of each file, by relative path; empty for a folder that grows.
        parts: for a folder that grows, a pattern of the relative paths allowed in it.
        list_file: the name of the list file.
    """

    kind: str
    files: Mapping[str, Any] = field(default_factory=dict)
    parts: re.Pattern[str] | None = None
    list_file: str = MANIFEST

    def description(self, folder: Path) -> str | None:
        """The folder's kind, for a message."""
        return f"the {self.kind}"

    def names(self, path: str) -> bool:
        """Return whether pdtools writes a file or folder of this relative path here."""
        return (
            path == self.list_file
            or path in self.files
            or LEFT_OVER_BELOW.fullmatch(path) is not None
            or (self.parts is not None and self.parts.fullmatch(path) is not None)
            or self._has_folder(path)
        )

    def _has_folder(self, path: str) -> bool:
        return any(name.startswith(f"{path}/") for name in self.files)

    def problem(self, path: str, folder: Path) -> str | None:
        """The reason why a relative path in the folder is not from pdtools; None if it is."""
        if not self.names(path):
            return NOT_WRITTEN
        if path in self.files:
            is_ours = self._is_as_listed(path, folder)
        else:
            is_ours = (folder / path).is_dir() or not self._has_folder(path)
        return None if is_ours else OTHERWISE

    def is_whole(self, folder: Path) -> bool:
        """Return whether all listed files exist."""
        return all((folder / path).is_file() for path in self.files)

    def is_as_written(self, folder: Path) -> bool:
        """Return whether all listed files exist, unchanged since they were written."""
        return all(self._is_as_listed(path, folder) for path in self.files)

    def _is_as_listed(self, path: str, folder: Path) -> bool:
        file, listed = folder / path, self.files[path]
        if file.is_symlink() or not file.is_file():
            return False
        status, then = file.stat(), (folder / self.list_file).stat()
        if status.st_size != listed["size"]:
            return False
        touched = max(status.st_mtime_ns, status.st_ctime_ns)
        if status.st_size > ALWAYS_READ and touched < min(then.st_mtime_ns, then.st_ctime_ns):
            return True
        return bool(sha256_file(file) == listed["sha256"])


def write_manifest(folder: Path, kind: str, sums: Mapping[str, str]) -> None:
    """Write the list of files of a complete folder that still has a temporary name.

    Args:
        folder: the folder with the files.
        kind: the folder's kind.
        sums: known SHA-256 sums of files, by relative path; ``SHA256SUMS`` has others.
    """
    known, files = dict(sums), {}
    for path in paths_below(folder):
        if path.rpartition("/")[2] == CHECKSUMS_FILE:
            above = path.removesuffix(CHECKSUMS_FILE)
            known |= {above + name: digest for name, digest in read_checksums(folder / path).items()}
    for path in paths_below(folder):
        file = folder / path
        if file.is_file():
            files[path] = {"size": file.stat().st_size, "sha256": known.get(path) or sha256_file(file)}
    document = {"format": _FORMAT, "kind": kind, "files": files}
    text = json.dumps(document, indent=2, ensure_ascii=False) + "\n"
    (folder / MANIFEST).write_text(text, encoding="utf-8", newline="\n")


def growing(kind: Literal["training run", "exported revisions"]) -> dict[str, Any]:
    """The content of ``pdtools.json`` in a folder that grows; the first file written there."""
    return {"format": _FORMAT, "kind": kind}


def read_manifest(folder: Path) -> Manifest | None:
    """Read a folder's ``pdtools.json``; None if there is none, or it is damaged."""
    try:
        document = read_json(folder / MANIFEST)
    except (PdtoolsError, OSError):
        return None
    if not isinstance(document, dict) or document.get("format") != _FORMAT:
        return None
    kind, files = document.get("kind"), document.get("files")
    if not isinstance(kind, str):
        return None
    if isinstance(files, dict) and all(map(is_listed, files.values())):
        return Manifest(kind=kind, files=files)
    parts = _GROWING.get(kind) if files is None else None
    return None if parts is None else Manifest(kind=kind, parts=re.compile(parts))


def is_listed(entry: Any) -> bool:
    """Return whether a JSON value is a file's entry in a list: its size and SHA-256."""
    return (
        isinstance(entry, dict)
        and isinstance(entry.get("size"), int)
        and isinstance(entry.get("sha256"), str)
    )


def paths_below(folder: Path) -> Iterator[str]:
    """Sorted relative paths of everything in a folder, parents first, without left-over temporary files."""
    for path, folders, files in os.walk(folder):
        folders.sort()
        for name in sorted([*folders, *files]):
            relative = os.path.relpath(os.path.join(path, name), folder).replace(os.sep, "/")
            if not re.fullmatch(_LEFT_OVER, name):
                yield relative
