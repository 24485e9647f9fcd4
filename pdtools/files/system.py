"""Operating-system services: the identity of processes, and atomic exchange of files or folders."""

from __future__ import annotations

import errno
import hashlib
import os
import platform
import re
import time
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any

# Error numbers for an operation that the system or file system does not have.
CANNOT = (errno.ENOSYS, errno.EINVAL, errno.EOPNOTSUPP, errno.ENOTSUP, errno.EPERM)
# Error numbers for a name that is taken.
IS_THERE = {errno.EEXIST, errno.ENOTEMPTY, errno.ENOTDIR, errno.EISDIR}
# The part of hidden names before ``.tmp`` or ``.old``: the process that made them, or ``new`` for a run that
# is to replace another one.
MAKER = r"(?:[0-9a-f]{8}-\d+-\d*-[0-9a-f]{8}|new)"
_HIDDEN = re.compile(rf"(?:{MAKER}\.(?:tmp|old)|new)")
# Windows' error numbers for a file in use: access denied, sharing violation, lock violation.
_IN_USE = (5, 32, 33)
_WAITS = (0.01, 0.03, 0.1, 0.3, 0.6)  # seconds
_HERE, _RENAME_EXCHANGE = -100, 2


def this_process() -> str:
    """An identifier of this process, unique across machines, for the names of its temporary files."""
    return f"{_machine()}-{os.getpid()}-{_start_of(os.getpid())}"


def may_live(process: str) -> bool:
    """Return whether a process (:func:`this_process`) may be alive; always true for other machines."""
    machine, _, rest = process.partition("-")
    number, _, start = rest.partition("-")
    if machine != _machine() or not number.isdigit() or os.name != "posix":
        return True
    try:
        os.kill(int(number), 0)
    except (ProcessLookupError, OverflowError):
        return False
    except PermissionError:  # somebody else's
        return True
    return start == _start_of(int(number))  # or the number has been given to another one since


@cache
def _machine() -> str:
    """An identifier of this machine or container, each of which numbers its processes by itself."""
    parts = [platform.node()]
    for path in ("/etc/machine-id", "/proc/self/ns/pid"):
        try:
            parts.append(os.readlink(path) if path.startswith("/proc") else Path(path).read_text("utf-8"))
        except OSError:
            parts.append("")
    return hashlib.sha256("\n".join(parts).encode()).hexdigest()[:8]


def _start_of(number: int) -> str:
    """A process's start time in clock ticks; 0 where unknown; empty if the process has ended."""
    try:
        fields = Path(f"/proc/{number}/stat").read_text("utf-8", errors="replace").rpartition(")")[2].split()
    except OSError:
        return "0"
    return "" if fields[0] in "ZX" else fields[19]


def is_in_use(error: OSError) -> bool:
    """Return whether an error says that an open file prevents Windows from renaming or replacing it."""
    return isinstance(error, PermissionError) and getattr(error, "winerror", None) in _IN_USE


def patiently(rename: Callable[[Path, Path], object], old: Path, new: Path) -> None:
    """Rename, and retry for up to a second where Windows refuses, as during a virus scan.

    Raises:
        OSError: if it cannot be done within a second.
    """
    for seconds in _WAITS:
        try:
            rename(old, new)
            return
        except PermissionError as error:
            if not is_in_use(error):
                raise
            time.sleep(seconds)
    rename(old, new)


def exchange(one: Path, other: Path) -> bool:
    """Exchange two files or folders atomically; False where the system cannot."""
    function = _of_libc("renameat2", "c_int", "c_char_p", "c_int", "c_char_p", "c_uint")
    if function is None:
        return False
    if function(_HERE, os.fsencode(one), _HERE, os.fsencode(other), _RENAME_EXCHANGE) == 0:
        return True
    import ctypes

    number = ctypes.get_errno()
    if number in CANNOT:
        return False
    raise OSError(number, os.strerror(number), str(other))


def sync_file_system(folder: Path) -> bool:
    """Flush all of the file system that holds a folder to disk; False where the system cannot."""
    function = _of_libc("syncfs", "c_int")
    if function is None:
        return False
    import ctypes

    descriptor = os.open(folder, os.O_RDONLY)
    try:
        if function(descriptor) == 0:
            return True
        number = ctypes.get_errno()
    finally:
        os.close(descriptor)
    if number in CANNOT:
        return False
    raise OSError(number, os.strerror(number))


@cache
def _of_libc(name: str, *arguments: str) -> Any:
    """A function of the C library that returns an int: one that Linux's glibc has; None elsewhere."""
    import ctypes

    try:
        function = getattr(ctypes.CDLL(None, use_errno=True), name)
    except (OSError, AttributeError, TypeError):
        return None
    function.argtypes = [getattr(ctypes, each) for each in arguments]
    return function


def recover_directory(path: str | Path) -> None:
    """Bring the old folder back if a swap of two folders was cut between its two renames.

    This is so only while the new one has its temporary name; else the old one was replaced.
    """
    final = Path(path)
    if os.path.lexists(final):
        return
    for old in hidden_beside(final, (".old",)):
        if old.with_suffix(".tmp").exists():
            try:
                patiently(os.rename, old, final)
            except OSError as error:
                if error.errno not in {*IS_THERE, errno.ENOENT}:  # it was not cut, but under way
                    raise


def hidden_beside(final: Path, endings: tuple[str, ...]) -> list[Path]:
    """Hidden files and folders with these endings that pdtools made beside a file or folder."""
    try:
        names = os.listdir(final.parent)
    except OSError:
        return []
    beginning = f".{final.name}."
    return [
        final.with_name(name)
        for name in sorted(names)
        if name.startswith(beginning)
        and name.endswith(endings)
        and _HIDDEN.fullmatch(name.removeprefix(beginning))
    ]
