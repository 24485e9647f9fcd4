"""What the operating system knows: which process made a file, and how two folders change places at once."""

from __future__ import annotations

import errno
import hashlib
import os
import platform
from functools import cache
from pathlib import Path
from typing import Any

# How a system, or a file system, says that it has no such operation.
CANNOT = (errno.ENOSYS, errno.EINVAL, errno.EOPNOTSUPP, errno.ENOTSUP, errno.EPERM)
_HERE, _RENAME_EXCHANGE = -100, 2


def this_process() -> str:
    """Tells this process from all others, on all machines, for the names of its temporary files."""
    return f"{_machine()}-{os.getpid()}-{_start_of(os.getpid())}"


def may_live(process: str) -> bool:
    """Whether a process may still be at work, by its :func:`this_process`: of other machines, always."""
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
    """Of this machine, or container: each counts its processes by itself."""
    parts = [platform.node()]
    for path in ("/etc/machine-id", "/proc/self/ns/pid"):
        try:
            parts.append(os.readlink(path) if path.startswith("/proc") else Path(path).read_text())
        except OSError:
            parts.append("")
    return hashlib.sha256("\n".join(parts).encode()).hexdigest()[:8]


def _start_of(number: int) -> str:
    """When a process started, in ticks of the clock; 0 where nobody says; none of one that has ended."""
    try:
        fields = Path(f"/proc/{number}/stat").read_text(errors="replace").rpartition(")")[2].split()
    except OSError:
        return "0"
    return "" if fields[0] in "ZX" else fields[19]


def exchange(one: Path, other: Path) -> bool:
    """Let two files or folders change their names, at one blow; False where the system cannot."""
    function = _renameat2()
    if function is None:
        return False
    if function(_HERE, os.fsencode(one), _HERE, os.fsencode(other), _RENAME_EXCHANGE) == 0:
        return True
    import ctypes

    number = ctypes.get_errno()
    if number in CANNOT:
        return False
    raise OSError(number, os.strerror(number), str(other))


@cache
def _renameat2() -> Any:
    """Linux's, of glibc 2.28 or later; None elsewhere."""
    import ctypes

    try:
        function = ctypes.CDLL(None, use_errno=True).renameat2
    except (OSError, AttributeError, TypeError):
        return None
    function.argtypes = [ctypes.c_int, ctypes.c_char_p, ctypes.c_int, ctypes.c_char_p, ctypes.c_uint]
    return function
