"""Locks that the operating system holds for a process, and takes back when it ends, however it ends."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator
from pathlib import Path

from pdtools.errors import PdtoolsError

try:
    import fcntl
except ImportError:  # not a POSIX system
    fcntl = None  # type: ignore[assignment]


@contextlib.contextmanager
def locked(path: str | Path, refusal: str, *, shared: bool = False) -> Iterator[None]:
    """Hold the lock of a file while the block runs.

    Args:
        path: the file; made if it is not there, and left there: its existence says nothing.
        refusal: the error's message if another process holds the lock.
        shared: whether others may hold it too, if they share it as well.

    Raises:
        PdtoolsError: if another process holds it.
    """
    descriptor = os.open(path, os.O_RDWR | os.O_CREAT, 0o666)
    try:
        if fcntl is not None:
            try:
                fcntl.flock(descriptor, (fcntl.LOCK_SH if shared else fcntl.LOCK_EX) | fcntl.LOCK_NB)
            except BlockingIOError as error:
                raise PdtoolsError(refusal) from error
        yield
    finally:
        os.close(descriptor)
