"""Locks that the operating system holds for a process, and takes back when it ends, however it ends."""

from __future__ import annotations

import contextlib
import errno
import os
from collections.abc import Iterator
from pathlib import Path

from pdtools.errors import PdtoolsError

try:
    import fcntl
except ImportError:  # not a POSIX system
    fcntl = None  # type: ignore[assignment]

# Some network file systems are mounted without locks.
_NO_LOCKS_HERE = {errno.ENOSYS, errno.EOPNOTSUPP, errno.ENOLCK}


class TakenError(PdtoolsError):
    """Another process holds the lock."""


@contextlib.contextmanager
def locked(path: str | Path, refusal: str, *, shared: bool = False, required: bool = False) -> Iterator[None]:
    """Hold the lock of a file while the block runs.

    Args:
        path: the file; made if it is not there, and left there: its existence says nothing.
        refusal: the error's message if another process holds the lock.
        shared: whether others may hold it too, if they share it as well.
        required: whether to fail where the file system has no locks; else none is held there.

    Raises:
        TakenError: if another process holds it.
        PdtoolsError: if there are no locks, but one is required.
    """
    if fcntl is None:  # and an open file would keep Windows from moving its folder
        yield
        return
    # Not through a link: that of a folder from somebody else might make a file anywhere.
    descriptor = os.open(path, os.O_RDWR | os.O_CREAT | getattr(os, "O_NOFOLLOW", 0), 0o666)
    try:
        try:
            fcntl.flock(descriptor, (fcntl.LOCK_SH if shared else fcntl.LOCK_EX) | fcntl.LOCK_NB)
        except BlockingIOError as error:
            raise TakenError(refusal) from error
        except OSError as error:
            if error.errno not in _NO_LOCKS_HERE:
                raise
            if required:
                raise PdtoolsError(f"{path}: no locks on this file system: {error.strerror}") from error
        if not _is(descriptor, path):
            raise TakenError(refusal)  # it has just ended its work, and deleted the file
        yield
    finally:
        os.close(descriptor)


def _is(descriptor: int, path: str | Path) -> bool:
    try:
        return os.path.samestat(os.fstat(descriptor), os.stat(path))
    except FileNotFoundError:
        return False
