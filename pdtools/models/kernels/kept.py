"""Compiled libraries, kept for later processes of one user.

They lie in the folder that ``PDTOOLS_CACHE`` names (``off``: none is kept), by default ``pdtools`` in the
user's cache. The name of a file has two digests: one of its sources with the processor, and one of its
content. A folder that others can write is not used; on Windows, which does not say so, only one in the home.
"""

from __future__ import annotations

import contextlib
import os
import platform
import subprocess
import sys
import tempfile
from collections.abc import Mapping, Sequence
from functools import cache
from hashlib import sha256
from pathlib import Path

# Lines of Linux' list that distinguish processors; the rest are their numbers and present speed.
_OF_PROCESSOR = ("vendor_id", "cpu family", "model", "model name", "stepping", "flags", "Features")
_OF_ARM = ("CPU implementer", "CPU architecture", "CPU variant", "CPU part", "CPU revision")


def kept_as(command: Sequence[str], sources: Mapping[str, bytes]) -> str | None:
    """Return the digest of a library's sources and processor; None if the processor is not known.

    Args:
        command: the compiler's path, and its options.
        sources: contents of files by their names.
    """
    processor = _processor()
    if processor is None:
        return None
    compiler = os.stat(command[0])
    made_from = (processor, *command, compiler.st_size, compiler.st_mtime_ns, sorted(sources.items()))
    return sha256(repr(made_from).encode()).hexdigest()[:32]


def kept_file(name: str, made_from: str) -> Path | None:
    """Return the library of this name with this digest of sources, if an intact one is kept.

    Args:
        name: the library's name.
        made_from: the result of :func:`kept_as`.
    """
    folder = kept_folder()
    for file in () if folder is None else folder.glob(f"{name}-{made_from}-*.so"):
        with contextlib.suppress(OSError):
            if sha256(file.read_bytes()).hexdigest() == file.stem.rpartition("-")[2]:
                return file
    return None


def keep(library: Path, name: str, made_from: str) -> None:
    """Keep a library that works, if there is a folder for it.

    Args:
        library: its file.
        name, made_from: as for :func:`kept_file`.
    """
    if (folder := kept_folder()) is None:
        return
    content = library.read_bytes()
    with contextlib.suppress(OSError):  # a full disk, say: then it is compiled again
        handle, part = tempfile.mkstemp(dir=folder, suffix=".part")
        try:
            with open(handle, "wb") as file:
                file.write(content)
            os.replace(part, folder / f"{name}-{made_from}-{sha256(content).hexdigest()}.so")
        except OSError:
            os.unlink(part)
            raise


def kept_folder() -> Path | None:
    """The folder of kept libraries; None if none are kept."""
    given = os.environ.get("PDTOOLS_CACHE", "")
    if given.lower() == "off":
        return None
    try:
        home = os.environ.get("XDG_CACHE_HOME") or os.environ.get("LOCALAPPDATA")
        caches = Path(home or Path.home() / ".cache")
        folder = Path(given) if given else caches / "pdtools"
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        found = folder.stat()
    except (OSError, RuntimeError):  # the latter: the user has no known home
        return None
    if hasattr(os, "getuid"):
        is_own = found.st_uid == os.getuid() and not found.st_mode & 0o022
    else:
        is_own = Path.home().resolve() in folder.resolve().parents
    return folder if is_own else None


@cache
def _processor() -> str | None:
    if sys.platform == "win32":
        return platform.processor() or None
    try:
        if sys.platform == "darwin":
            names = ("machdep.cpu.brand_string", "machdep.cpu.features")  # ARM has the first alone
            said = subprocess.run(["sysctl", "-n", *names], capture_output=True, text=True, timeout=5)
            return said.stdout or None
        first, _, _ = Path("/proc/cpuinfo").read_text(encoding="utf-8").partition("\n\n")
    except (OSError, ValueError, subprocess.SubprocessError):
        return None
    lines = [line for line in first.splitlines() if line.partition(":")[0].strip() in _OF_PROCESSOR + _OF_ARM]
    return "\n".join(lines) or None
