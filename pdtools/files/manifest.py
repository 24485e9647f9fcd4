"""Lists of a folder's files: ``pdtools.json``, and ``SHA256SUMS`` in the form that ``sha256sum`` checks.

``pdtools.json`` has the files that a folder was written with, or the names that a growing one may hold. A
folder without it is not pdtools', and is never replaced.
"""

from __future__ import annotations

import json
import os
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final, Literal

from pdtools.errors import InputError, PdtoolsError
from pdtools.files.inputs import decode_utf8, read_bytes, read_json
from pdtools.files.source import sha256_file
from pdtools.files.system import MAKER

MANIFEST = "pdtools.json"
_FORMAT = "pdtools folder"
# Kinds of folders that grow: a pattern of the relative paths in each. A file says its kind only: a pattern in
# a stranger's file could allow any path. Subfolders that appear whole have lists of their own.
_RUN: Final = "training run"
_OF_RUN = r"best|last|step-\d+"  # checkpoints in its folder
_GROWING = {
    _RUN: rf"run\.json|(metrics|samples|rejects)\.jsonl|{_OF_RUN}"
    r"|tensorboard(/events\.out\.tfevents\.[^/]*)?",
    "exported revisions": r"revisions\.json|main|chck_\d+[Mk]?|step-\d+",
}
# Reasons why a file is not from pdtools.
_NOT_WRITTEN = "which pdtools did not write there"
_OTHERWISE = "which is not as pdtools wrote it"
# Names that systems and killed processes leave in any folder.
_LEFT_OVER = rf"\.nfs[0-9a-f]{{24}}|\.DS_Store|(\.[^/]+\.{MAKER}\.(tmp|old)|\.(best|last)\.(old|new))(/.*)?"
_LEFT_OVER_BELOW = re.compile(f"{_LEFT_OVER}|.*/({_LEFT_OVER})")
# Larger files are not read again to tell whether they changed if nobody has touched them since.
ALWAYS_READ = 1 << 20


@dataclass(frozen=True, kw_only=True)
class Manifest:
    """The content of ``pdtools.json``.

    Attributes:
        kind: the folder's kind, such as ``results``.
        files: ``size`` and ``sha256`` of each file, by relative path; empty for a folder that grows.
        parts: for a folder that grows, a pattern of the relative paths allowed in it.
    """

    kind: str
    files: Mapping[str, Any] = field(default_factory=dict)
    parts: re.Pattern[str] | None = None

    def names(self, path: str) -> bool:
        """Return whether pdtools writes a file or folder of this relative path here."""
        return (
            path == MANIFEST
            or path in self.files
            or _LEFT_OVER_BELOW.fullmatch(path) is not None
            or (self.parts is not None and self.parts.fullmatch(path) is not None)
            or self._has_folder(path)
        )

    def _has_folder(self, path: str) -> bool:
        return any(name.startswith(f"{path}/") for name in self.files)

    def problem(self, path: str, folder: Path) -> str | None:
        """The reason why a relative path in the folder is not from pdtools; None if it is."""
        if not self.names(path):
            return _NOT_WRITTEN
        if path in self.files:
            is_ours = self._is_as_listed(path, folder)
        else:
            is_ours = (folder / path).is_dir() or not self._has_folder(path)
        return None if is_ours else _OTHERWISE

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
        status, then = file.stat(), (folder / MANIFEST).stat()
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
    if isinstance(files, dict) and all(map(_is_listed, files.values())):
        return Manifest(kind=kind, files=files)
    parts = _GROWING.get(kind) if files is None else None
    return None if parts is None else Manifest(kind=kind, parts=re.compile(parts))


def _is_listed(entry: Any) -> bool:
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


def written_as(folder: Path) -> str | None:
    """The kind of a folder that pdtools wrote, such as ``the results of eval-blimp``; None if empty.

    Raises:
        PdtoolsError: if it holds anything that pdtools did not write, naming it.
    """
    first = next(paths_below(folder), None)
    if first is None:
        return None
    if (manifest := read_manifest(folder)) is None:
        raise PdtoolsError(
            f"{folder}: holds {first}: not a folder that pdtools wrote, so it is not replaced"
            " (choose another name)"
        )
    check_all_ours(folder, manifest)
    return f"the {manifest.kind}"


def check_all_ours(folder: Path, manifest: Manifest) -> None:
    """Refuse a folder of a kind that holds files pdtools did not write.

    Raises:
        PdtoolsError: naming the file.
    """
    for path, problem in _problems(folder, manifest):
        raise PdtoolsError(f"{folder}: holds {path}, {problem} (move it, or choose another name)")


def holds_others(folder: Path, manifest: Manifest | None = None) -> bool:
    """Return whether a folder holds files that are not in a list, by default the folder's own."""
    manifest = manifest or read_manifest(folder) or Manifest(kind="")
    return any(_problems(folder, manifest))


def _problems(folder: Path, manifest: Manifest) -> Iterator[tuple[str, str]]:
    """Paths in a folder of a kind that are not from pdtools, and why.

    Folders in one that grows may have lists of their own; one that is whole lists what is in them itself.
    """
    inner: dict[str, Manifest] = {}
    for path in paths_below(folder):
        above = next((name for name in inner if path.startswith(f"{name}/")), None)
        if above is not None:
            problem = inner[above].problem(path.removeprefix(f"{above}/"), folder / above)
        else:
            problem = manifest.problem(path, folder)
            grows = manifest.parts is not None
            if grows and (folder / path).is_dir() and (found := read_manifest(folder / path)) is not None:
                inner[path] = found
        if problem is not None:
            yield path, problem


def is_whole(output: Path) -> bool:
    """Return whether an output seems complete: a folder has all that it lists, a file is not empty."""
    if output.is_dir():
        return (manifest := read_manifest(output)) is not None and manifest.is_whole(output)
    return output.is_file() and output.stat().st_size > 0


def is_part_of(folder: Path, path: str) -> bool:
    """Return whether pdtools wrote a folder and the given relative path in it."""
    names = path.split("/")
    for n in range(len(names)):  # folders in it may have lists of their own
        manifest = read_manifest(folder.joinpath(*names[:n]))
        if manifest is not None and manifest.names("/".join(names[n:])):
            return True
    return False


def _is_run(folder: Path) -> bool:
    manifest = read_manifest(folder)
    return manifest is not None and manifest.kind == _RUN


def is_unfinished_run(folder: Path) -> bool:
    """Return whether this is a training run that was stopped: its state, if any, has no end."""
    if not _is_run(folder):
        return False
    try:
        state = read_json(folder / "last" / "trainer" / "state.json")
    except PdtoolsError:
        return not (folder / "last").exists()
    return isinstance(state, dict) and state.get("finished", "") is None


def is_checkpoint_of_a_run(folder: Path) -> bool:
    """Return whether this is ``best/``, ``last/`` or ``step-N/`` of a training run."""
    return re.fullmatch(_OF_RUN, folder.name) is not None and _is_run(folder.parent)


# --- SHA256SUMS --------------------------------------------------------------------------------

CHECKSUMS_FILE = "SHA256SUMS"
_LINE = re.compile(r"([0-9a-f]{64})  ([^/\n]+)\n")


def write_checksums(folder: Path, names: Sequence[str]) -> None:
    """Write ``SHA256SUMS`` for these files of a folder that still has a temporary name."""
    _write(folder, {name: sha256_file(folder / name) for name in names})


def update_checksums(folder: Path, names: Sequence[str]) -> None:
    """Replace the recorded sums of these rewritten files; sums of other files stay."""
    path = folder / CHECKSUMS_FILE
    recorded = read_checksums(path) if path.is_file() else {}
    _write(folder, recorded | {name: sha256_file(folder / name) for name in names})


def _write(folder: Path, sums: Mapping[str, str]) -> None:
    lines = [f"{sums[name]}  {name}\n" for name in sorted(sums)]
    (folder / CHECKSUMS_FILE).write_text("".join(lines), encoding="utf-8", newline="\n")


def read_checksums(path: Path) -> dict[str, str]:
    """The sums in a ``SHA256SUMS`` file, by file name.

    Raises:
        InputError: if it is damaged.
    """
    sums = {}
    lines = decode_utf8(read_bytes(path), path).splitlines(keepends=True)
    for number, line in enumerate(lines, start=1):
        found = _LINE.fullmatch(line)
        if found is None:
            raise InputError("damaged: not a line of sha256sum", file=path, line=number)
        sums[found[2]] = found[1]
    return sums


def check_checksums(folder: Path) -> None:
    """Compare a folder's files with its ``SHA256SUMS``, if it has one.

    Raises:
        InputError: naming the first file that is missing or not as it was written.
    """
    path = folder / CHECKSUMS_FILE
    if not path.is_file():
        return
    for name, expected in read_checksums(path).items():
        if not (folder / name).is_file():
            raise InputError(f"no such file, but {CHECKSUMS_FILE} lists it: incomplete", file=folder / name)
        if sha256_file(folder / name) != expected:
            raise InputError(
                f"damaged: its SHA-256 is not the one in {CHECKSUMS_FILE}",
                file=folder / name,
                hint=f"restore the file; after a change on purpose, delete {CHECKSUMS_FILE}",
            )
