"""SHA-256 sums of a folder's files, in the form that ``sha256sum`` writes and checks."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from pathlib import Path

from pdtools.errors import InputError
from pdtools.files.inputs import decode_utf8, read_bytes
from pdtools.files.source import sha256_file

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
