"""Files that take seconds to make, kept for later processes of one user.

Files lie in the folder that ``PDTOOLS_CACHE`` names (``off``: none is kept), by default ``pdtools`` in the
user's cache. A file's name has two digests: one of what it is made from, and one of its content. A folder
that others can write is not used; on Windows, which does not say so, only one in the home.
"""

from __future__ import annotations

import contextlib
import os
import re
import tempfile
import time
from hashlib import sha256
from pathlib import Path

_UNUSED_SECONDS = 90 * 24 * 3600


def digest(made_from: object) -> str:
    """Return a digest of what a file is made from (any value whose ``repr`` has all of it)."""
    return sha256(repr(made_from).encode()).hexdigest()[:32]


def kept_file(name: str, made_from: str) -> Path | None:
    """Return the file of this name that is made from this, if an intact one is kept.

    Args:
        name: the file's name, ``vega.js``.
        made_from: the result of :func:`digest`.
    """
    folder, (stem, suffix) = kept_folder(), os.path.splitext(name)
    for file in () if folder is None else folder.glob(f"{stem}-{made_from}-*{suffix}"):
        with contextlib.suppress(OSError):
            if sha256(file.read_bytes()).hexdigest() == file.stem.rpartition("-")[2]:
                with contextlib.suppress(OSError):  # it may be on a disk that is only read
                    os.utime(file)
                return file
    return None


def keep(content: bytes, name: str, made_from: str) -> None:
    """Keep a file's content, if there is a folder for it, and delete those of its name unused for 90 days.

    Args:
        content: the content.
        name, made_from: as for :func:`kept_file`.
    """
    if (folder := kept_folder()) is None:
        return
    stem, suffix = os.path.splitext(name)
    with contextlib.suppress(OSError):  # a full disk, say: then it is made again
        handle, part = tempfile.mkstemp(dir=folder, suffix=".part")
        try:
            with open(handle, "wb") as file:
                file.write(content)
            os.replace(part, folder / f"{stem}-{made_from}-{sha256(content).hexdigest()}{suffix}")
        except OSError:
            os.unlink(part)
            raise
        ours = re.compile(rf"{re.escape(stem)}-[0-9a-f]{{32}}-[0-9a-f]{{64}}{re.escape(suffix)}")
        for each in folder.iterdir():
            if ours.fullmatch(each.name) and each.stat().st_mtime < time.time() - _UNUSED_SECONDS:
                each.unlink(missing_ok=True)


def kept_folder() -> Path | None:
    """The folder of kept files; None if none are kept."""
    given = os.environ.get("PDTOOLS_CACHE", "")
    if given.lower() == "off":
        return None
    try:
        home = os.environ.get("XDG_CACHE_HOME") or os.environ.get("LOCALAPPDATA")
        caches = Path(home or Path.home() / ".cache")
        # Not relative: a library named without a folder would be looked for among the system's.
        folder = Path(given).absolute() if given else caches / "pdtools"
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        found = folder.stat()
    except (OSError, RuntimeError):  # the latter: the user has no known home
        return None
    if hasattr(os, "getuid"):
        is_own = found.st_uid == os.getuid() and not found.st_mode & 0o022
    else:
        is_own = Path.home().resolve() in folder.resolve().parents
    return folder if is_own else None
