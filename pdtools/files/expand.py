"""Expansion of files, folders, zip archives and globs that a user names into a list of sources."""

from __future__ import annotations

import glob
import os
import sys
from collections import Counter
from collections.abc import Callable, Sequence
from pathlib import Path

from pdtools.errors import InputError
from pdtools.files import zips
from pdtools.files.kinds import Kind, check_kind
from pdtools.files.names import COMPRESSED, has_ending
from pdtools.files.source import Source, ZipMember, source_of
from pdtools.files.system import recover_directory


def expand_inputs(
    inputs: Sequence[str],
    suffixes: Sequence[str],
    kind: Kind | None = None,
    only: Callable[[str], bool] | None = None,
) -> list[Source]:
    """Expand the names of files, folders, globs and other sources into a list of sources.

    Args:
        inputs: paths, glob patterns, or names of other sources (:mod:`pdtools.files.source`).
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
    files: list[Source] = []
    for name in inputs:
        path, source = Path(name), source_of(name)
        recover_directory(path)
        if type(source) is not Source:
            files.append(source.check())
        elif path.is_dir():
            paths = sorted(str(p) for p in path.rglob("*") if p.is_file() and has_ending(p, wanted))
            found = [Source(each) for each in paths if only is None or only(each)]
            if not found:
                if kind is not None:
                    check_kind(path, kind)
                reason = f"no files ending in {', '.join(suffixes)} in this folder"
                raise InputError(reason, file=name, hint=_other_files(path))
            files += found
        elif path.is_file() and has_ending(name, zips.SUFFIX) and zips.SUFFIX not in suffixes:
            every = ZipMember.within(name, wanted, sys.maxsize)
            members = [each for each in every if only is None or only(each)]
            if not members:
                reason = f"no files ending in {', '.join(suffixes)} in this archive"
                raise InputError(reason, file=name, hint="unpack it, and name the files: 'FOLDER/*.ENDING'")
            files += members
        elif path.exists():
            if kind is not None:
                check_kind(path, kind)
            files.append(source)
        elif glob.has_magic(name):
            matches = sorted(p for p in glob.glob(name, recursive=True) if os.path.isfile(p))
            if not matches:
                raise InputError("the pattern matches no file", file=name)
            files += expand_inputs(matches, suffixes, kind, only)
        else:
            source.check()
    return files


def _other_files(folder: Path) -> str | None:
    """A glob for the commonest kind of file in a folder, for a message."""
    files = sorted(path for path in folder.rglob("*") if path.is_file() and not path.name.startswith("."))
    if not files:
        return None
    ((ending, _),) = Counter(path.suffix for path in files).most_common(1)
    parent = next(path.parent for path in files if path.suffix == ending)
    return f"name the files: '{parent}/*{ending}'"
