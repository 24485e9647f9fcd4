"""Writing files and folders, which appear whole or not at all."""

from __future__ import annotations

import contextlib
import errno
import gzip
import io
import json
import os
import secrets
import shutil
import sys
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any, cast

from pdtools.errors import PdtoolsError
from pdtools.files.inputs import STDIO, is_stream
from pdtools.zstd import open_zstd_text

if TYPE_CHECKING:
    import torch

_TRIES = 9
_IS_THERE = {errno.EEXIST, errno.ENOTEMPTY, errno.ENOTDIR, errno.EISDIR}
_NO_HARD_LINKS = {errno.EPERM, errno.EACCES, errno.EMLINK, errno.ENOSYS, errno.EOPNOTSUPP, errno.ENOTSUP}


def check_output(path: str | Path, *, overwrite: bool, inputs: Sequence[str] = ()) -> None:
    """Refuse an output that exists, unless it may be overwritten; ``-``, pipes and devices are always fine.

    Args:
        path: a file or folder.
        overwrite: whether it may exist.
        inputs: files and folders that are read for it; a folder that is or holds one is refused, since
            replacing the folder would delete the input.
    """
    if is_stream(path):
        return
    if not overwrite and os.path.lexists(path):
        raise PdtoolsError(f"{path}: exists already (choose another name, or pass --overwrite)")
    if os.path.isdir(path):
        folder = Path(path).resolve()
        for name in inputs:
            found = Path(name).resolve()
            if folder in (found, *found.parents):
                verb = "is" if folder == found else "holds"
                raise PdtoolsError(
                    f"{path}: {verb} the input {name}, which would be deleted (choose another name)"
                )


@contextlib.contextmanager
def _temporary(final: Path) -> Iterator[Path]:
    """A name beside ``final`` to write to first. A failure to write names ``final``, as the user does."""
    if final.name in ("", ".."):
        raise PdtoolsError(f"{final}: cannot be replaced: give the output a name")
    # The processes of an array are on several machines, and may have the same number.
    temporary = final.with_name(f".{final.name}.{os.getpid()}{secrets.randbelow(10**9):09d}.tmp")
    try:
        final.parent.mkdir(parents=True, exist_ok=True)
        yield temporary
    except OSError as error:
        culprit = str(error.filename or "")
        ours = culprit.startswith((str(temporary), str(final))) or culprit == str(final.parent)
        if ours or error.errno in (errno.ENOSPC, errno.EDQUOT, errno.EFBIG):
            raise PdtoolsError(f"{final}: cannot be written: {error.strerror}") from error
        raise


@contextlib.contextmanager
def atomic_path(path: str | Path, *, overwrite: bool = True) -> Iterator[Path]:
    """A temporary file name in the folder of ``path``; renamed to ``path`` if the block succeeds.

    Args:
        path: what is written.
        overwrite: whether it may be there by then: another process may have made it meanwhile.

    Raises:
        PdtoolsError: if it cannot be written (no such place, no permission, no space), or is there.
    """
    final = Path(path)
    with _temporary(final) as temporary:
        try:
            yield temporary
            if overwrite:
                os.replace(temporary, final)
            else:
                _put(temporary, final)
        finally:
            with contextlib.suppress(OSError):
                temporary.unlink()


@contextlib.contextmanager
def atomic_text(path: str | Path, *, overwrite: bool = True) -> Iterator[IO[str]]:
    """A UTF-8 text stream to ``path`` (``-``: standard output), compressed by suffix, whole or not at all.

    A pipe or a device (``/dev/null``) is written to as it is. For ``overwrite`` see :func:`atomic_path`.
    """
    name = str(path)
    if name == STDIO:
        stdout = io.TextIOWrapper(sys.stdout.buffer, encoding="utf-8", newline="\n", write_through=False)
        try:
            yield stdout
            stdout.flush()
        finally:
            with contextlib.suppress(OSError, ValueError):
                stdout.detach()
        return
    if is_stream(path):
        with open(path, "w", encoding="utf-8", newline="\n") as stream:
            yield stream
        return
    with atomic_path(path, overwrite=overwrite) as temporary:
        if name.endswith(".gz"):
            # A fixed time stamp, so that the same command writes the same bytes.
            with (
                open(temporary, "wb") as raw,
                gzip.GzipFile("", "wb", fileobj=raw, mtime=0) as packed,
                io.TextIOWrapper(cast(IO[bytes], packed), encoding="utf-8", newline="\n") as stream,
            ):
                yield stream
        elif name.endswith(".zst"):
            with open_zstd_text(temporary) as stream:
                yield stream
        else:
            with open(temporary, "w", encoding="utf-8", newline="\n") as stream:
                yield stream


@contextlib.contextmanager
def atomic_directory(path: str | Path, *, overwrite: bool = False) -> Iterator[Path]:
    """A temporary folder beside ``path``; it becomes ``path`` if the block succeeds, and vanishes if not."""
    final = Path(path)
    if is_stream(final):
        raise PdtoolsError(f"{final}: the output is a folder: give it a name with -o")
    check_output(final, overwrite=overwrite)
    with _temporary(final) as temporary:
        shutil.rmtree(temporary, ignore_errors=True)
        try:
            temporary.mkdir()
            yield temporary
            if overwrite:
                replace_directory(temporary, final)
            else:
                _put(temporary, final)
        finally:
            shutil.rmtree(temporary, ignore_errors=True)


def _put(new: Path, final: Path) -> None:
    """Give a file or folder its name, unless another process has made one of that name meanwhile.

    Of a file, ``new`` may stay.
    """
    try:
        if new.is_dir():
            os.rename(new, final)  # not where there is anything but an empty folder
        else:
            _link(new, final)
    except OSError as error:
        if error.errno not in _IS_THERE:
            raise
        raise PdtoolsError(f"{final}: exists already: another process has made it meanwhile") from error


def _link(new: Path, final: Path) -> None:
    try:
        os.link(new, final)
    except OSError as error:
        if error.errno not in _NO_HARD_LINKS:
            raise
        if os.path.lexists(final):
            raise FileExistsError(errno.EEXIST, os.strerror(errno.EEXIST)) from error
        os.rename(new, final)


def replace_directory(new: Path, final: Path) -> None:
    """Put folder ``new`` in the place of ``final``. :func:`recover_directory` mends an interrupted swap.

    Of two processes that do so at once, the last one's folder stays.
    """
    old = final.with_name(f".{final.name}.old")
    for is_last in (*[False] * _TRIES, True):
        try:
            if final.is_symlink() or final.is_file():
                final.unlink()
            elif final.exists():
                shutil.rmtree(old, ignore_errors=True)
                os.rename(final, old)
            os.rename(new, final)
            break
        except OSError as error:  # another process was between the same two renames
            if is_last or error.errno not in {*_IS_THERE, errno.ENOENT}:
                raise
    shutil.rmtree(old, ignore_errors=True)


def recover_directory(final: Path) -> None:
    """If a swap by :func:`replace_directory` was cut between its two renames, bring the old folder back."""
    old = final.with_name(f".{final.name}.old")
    if old.exists() and not final.exists():
        try:
            os.rename(old, final)
        except OSError as error:
            if error.errno not in {*_IS_THERE, errno.ENOENT}:  # it was not cut, but under way
                raise


def write_tensors(path: str | Path, tensors: Mapping[str, torch.Tensor]) -> None:
    """Write a safetensors file, as readable for others as any file of ours.

    Raises:
        PdtoolsError: if it cannot be written (a full disk, say).
    """
    from safetensors import SafetensorError
    from safetensors.torch import save_file

    path = Path(path)
    path.touch()
    mode = path.stat().st_mode  # as the umask has it; safetensors would make it private
    try:
        save_file({name: t.detach().cpu().contiguous() for name, t in tensors.items()}, path)
    except SafetensorError as error:
        raise PdtoolsError(f"{path}: cannot be written: {error}") from error
    path.chmod(mode)


def write_json(path: str | Path, value: Any) -> None:
    """Write indented JSON, whole or not at all. NaN and infinity are refused: they are not JSON."""
    with atomic_text(path) as stream:
        stream.write(json_text(value, indent=2) + "\n")


def json_text(value: Any, *, indent: int | None = None) -> str:
    """Readable JSON that UTF-8 can hold: of file names, bytes that are not UTF-8 are escaped."""
    text = json.dumps(value, indent=indent, ensure_ascii=False, allow_nan=False)
    return text.encode("utf-8", "backslashreplace").decode("utf-8")
