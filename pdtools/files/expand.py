"""Expansion of files, folders, zip archives and globs that a user names into a list of files."""

from __future__ import annotations

import glob
import os
from collections import Counter
from collections.abc import Callable, Sequence
from pathlib import Path

from pdtools.errors import InputError
from pdtools.files import zips
from pdtools.files.inputs import STDIO
from pdtools.files.kinds import Kind, check_kind
from pdtools.files.names import COMPRESSED, has_ending
from pdtools.files.system import recover_directory


def expand_inputs(
    inputs: Sequence[str],
    suffixes: Sequence[str],
    kind: Kind | None = None,
    only: Callable[[str], bool] | None = None,
) -> list[str]:
    """Expand files, folders, globs and ``-`` into a list of files.

    Args:
        inputs: paths, glob patterns or ``-``.
        suffixes: the file endings (``.mrg``) that count inside a folder or a zip archive, searched
            recursively and in sorted order; the same with ``.gz`` and ``.zst`` appended count too. With
            ``.zip`` among them archives are left whole.
        kind: the kind needed: a file that is named, and clearly another one, is refused.
        only: which files of folders and archives count, of those with such endings.

    Raises:
        InputError: if a path does not exist, a glob matches nothing, or a folder or archive holds no such
            file.
    """
    wanted = tuple(s + c for s in suffixes for c in ("", *COMPRESSED))
    files: list[str] = []
    for name in inputs:
        path = Path(name)
        recover_directory(path)
        if name == STDIO:
            files.append(STDIO)
        elif path.is_dir():
            found = sorted(str(p) for p in path.rglob("*") if p.is_file() and has_ending(p, wanted))
            found = [each for each in found if only is None or only(each)]
            if not found:
                if kind is not None:
                    check_kind(path, kind)
                reason = f"no files ending in {', '.join(suffixes)} in this folder"
                raise InputError(reason, file=name, hint=_other_files(path))
            files += found
        elif path.is_file() and has_ending(name, zips.SUFFIX) and zips.SUFFIX not in suffixes:
            members = [each for each in zips.list_zip(name, wanted) if only is None or only(each)]
            if not members:
                reason = f"no files ending in {', '.join(suffixes)} in this archive"
                raise InputError(reason, file=name, hint="unpack it, and name the files: 'FOLDER/*.ENDING'")
            files += members
        elif path.exists():
            if kind is not None:
                check_kind(path, kind)
            files.append(name)
        elif glob.has_magic(name):
            matches = sorted(p for p in glob.glob(name, recursive=True) if os.path.isfile(p))
            if not matches:
                raise InputError("the pattern matches no file", file=name)
            files += expand_inputs(matches, suffixes, kind, only)
        else:
            raise InputError("no such file or folder", file=name)
    return files


def _other_files(folder: Path) -> str | None:
    """A glob for the commonest kind of file in a folder, for a message."""
    files = sorted(path for path in folder.rglob("*") if path.is_file() and not path.name.startswith("."))
    if not files:
        return None
    ((ending, _),) = Counter(path.suffix for path in files).most_common(1)
    parent = next(path.parent for path in files if path.suffix == ending)
    return f"name the files: '{parent}/*{ending}'"
