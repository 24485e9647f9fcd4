"""Locks that the operating system holds for a process, and takes back when it ends, however it ends."""

from __future__ import annotations

import contextlib
import errno
import os
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from pdtools.errors import PdtoolsError

# filelock, which torch brings, would not do: it has no locks that several share, and not these refusals.
fcntl: Any
msvcrt: Any
try:
    import fcntl
except ImportError:  # not a POSIX system
    fcntl = None
try:
    import msvcrt
except ImportError:  # not Windows
    msvcrt = None

# True if the system neither deletes nor moves open files, nor folders that contain one.
OPEN_FILES_STAY = fcntl is None
# Bytes of a locked file on Windows, where locks are of single bytes: each process that shares it has one.
_BYTES = 1024
# Some network file systems are mounted without locks; 524 is ENOTSUPP of Linux, which has no name in Python.
_NO_LOCKS_HERE = {errno.ENOSYS, errno.EOPNOTSUPP, errno.ENOLCK, errno.EINVAL, 524}


class LockedError(PdtoolsError):
    """Another process holds the lock."""


@contextlib.contextmanager
def locked(path: str | Path, refusal: str, *, shared: bool = False, warns: bool = False) -> Iterator[None]:
    """Hold the lock of a file while the block runs; where the system or file system has no locks, none.

    Args:
        path: the file; made if it is not there, and left there: its existence says nothing.
        refusal: the error's message if another process holds the lock.
        shared: whether others may hold it too, if they share it as well.
        warns: whether to warn where there are no locks.

    Raises:
        LockedError: if another process holds it.
    """
    if fcntl is None and msvcrt is None:
        if warns:
            _warn(path, "this system has no locks")
        yield
        return
    # Not through a link: one in somebody else's folder might make a file anywhere.
    descriptor = os.open(path, os.O_RDWR | os.O_CREAT | getattr(os, "O_NOFOLLOW", 0), 0o666)
    try:
        try:
            if fcntl is not None:
                fcntl.flock(descriptor, (fcntl.LOCK_SH if shared else fcntl.LOCK_EX) | fcntl.LOCK_NB)
            else:
                _lock_bytes(descriptor, shared=shared)
        except BlockingIOError as error:
            raise LockedError(refusal) from error
        except OSError as error:
            if error.errno not in _NO_LOCKS_HERE:
                raise
            if warns:
                _warn(path, f"this file system has no locks ({error.strerror})")
        if not _is(descriptor, path):
            raise LockedError(refusal)  # it has just ended its work, and deleted the file
        yield
    finally:
        os.close(descriptor)


def _warn(path: str | Path, reason: str) -> None:
    warnings.warn(
        f"{path}: {reason}, so a second process that writes there is not noticed: start no other one",
        stacklevel=5,
    )


def _lock_bytes(descriptor: int, *, shared: bool) -> None:
    """Lock all bytes, or a free one if shared; the system unlocks them when the file or process ends.

    Raises:
        BlockingIOError: if another process has them.
    """
    for first in range(_BYTES if shared else 1):
        os.lseek(descriptor, first, os.SEEK_SET)
        try:
            msvcrt.locking(descriptor, msvcrt.LK_NBLCK, 1 if shared else _BYTES)
        except OSError as error:
            if error.errno not in (errno.EACCES, errno.EDEADLK):
                raise
        else:
            return
    raise BlockingIOError(errno.EAGAIN, os.strerror(errno.EAGAIN))


def _is(descriptor: int, path: str | Path) -> bool:
    try:
        return os.path.samestat(os.fstat(descriptor), os.stat(path))
    except FileNotFoundError:
        return False
