"""Atomic writing: files and folders appear whole or not at all."""

from __future__ import annotations

import contextlib
import errno
import gzip
import io
import json
import os
import re
import secrets
import shutil
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextvars import ContextVar
from pathlib import Path
from types import MappingProxyType
from typing import IO, TYPE_CHECKING, Any, cast

from pdtools.errors import PdtoolsError
from pdtools.files.manifest import (
    is_checkpoint_of_a_run,
    is_part_of,
    is_unfinished_run,
    write_manifest,
    written_as,
)
from pdtools.files.packed import has_ending, open_zstd_text
from pdtools.files.source import STDIO, is_stream, source_of
from pdtools.files.system import (
    CANNOT,
    IS_THERE,
    exchange,
    hidden_beside,
    is_in_use,
    may_live,
    patiently,
    recover_directory,
    sync_file_system,
    this_process,
)
from pdtools.files.unchanged import check_inputs, input_files, input_folder

if TYPE_CHECKING:
    import torch

_TRIES = 9
_MANY = 1000  # files
_TEMPORARY = re.compile(r"\..+\.[0-9a-f]{8}-\d+-\d*-[0-9a-f]{8}\.tmp")
_FULL = {errno.ENOSPC, errno.EDQUOT, errno.EFBIG}
_UNWRITABLE = {errno.EIO, errno.EACCES, errno.EPERM, errno.EROFS, errno.ESTALE, errno.ENXIO}
_NO_HARD_LINKS = {*CANNOT, errno.EACCES, errno.EMLINK}


_Call = Callable[[Path, Path], None]
_before_renaming: ContextVar[_Call | None] = ContextVar("before_renaming", default=None)


@contextlib.contextmanager
def before_renaming(call: _Call) -> Iterator[None]:
    """Call a function on each complete output of this block, on disk, just before it is renamed.

    Args:
        call: takes the temporary name and the final one.
    """
    token = _before_renaming.set(call)
    try:
        yield
    finally:
        _before_renaming.reset(token)


def check_output(
    path: str | Path, *, overwrite: bool, folder: bool | None = None, inputs: Sequence[str] = ()
) -> str | None:
    """Refuse an output that exists, unless it may be overwritten; ``-``, pipes and devices are always fine.

    A folder may be overwritten if it is empty, or if pdtools wrote all that is in it.

    Args:
        path: a file or folder.
        overwrite: whether it may exist.
        folder: whether it is to be a folder; None: not known here.
        inputs: files and folders that are read for it. They are not overwritten, nor a folder that holds one.

    Returns:
        The kind of folder that is overwritten, such as ``the results of eval-blimp``; None for others.
    """
    if is_stream(path):
        return None
    path = Path(path)  # without a slash or a dot at its end: of a file, the system would not find it so
    if not _is_there(path, overwrite=overwrite, folder=folder):
        return None
    for name in inputs:
        _check_input(path, name)
    if not path.is_dir():
        return None
    if is_checkpoint_of_a_run(path.resolve()):
        raise PdtoolsError(f"{path}: a part of a training run, which is not replaced (choose another name)")
    return _check_replaceable(path)


def _is_there(path: str | Path, *, overwrite: bool, folder: bool | None) -> bool:
    """Return whether there is an output to overwrite; raise an error if that is not allowed."""
    recover_directory(path)
    if not os.path.lexists(path):
        return False
    is_folder = os.path.isdir(path)
    if folder is not None and is_folder != folder and os.path.exists(path):
        there, wanted = ("folder", "file") if is_folder else ("file", "folder")
        raise PdtoolsError(
            f"{path}: exists already as a {there}, but a {wanted} is to be written (choose another name)"
        )
    if not overwrite:
        others = "choose another name, or pass --overwrite"
        if is_unfinished_run(Path(path)):
            raise PdtoolsError(
                f"{path}: exists already, an unfinished training run (--resume continues it; or {others})"
            )
        raise PdtoolsError(f"{path}: exists already ({others})")
    return True


def _check_input(path: Path, name: str) -> None:
    """Refuse an existing output that is an input, contains one, or is part of one."""
    place, lost = path.resolve(), "deleted" if path.is_dir() else "replaced"
    read: list[Path] = []
    for each in source_of(name).paths:
        read += [each, input_folder(each), *(input_files(each) if path.is_file() else ())]
    for found in map(Path.resolve, read):
        if _is_same(found, place):
            verb = "is"
        elif any(_is_same(parent, place) for parent in found.parents):
            verb = "holds"
        elif found in place.parents and is_part_of(found, place.relative_to(found).as_posix()):
            verb = "is a part of"
        else:
            continue
        raise PdtoolsError(f"{path}: {verb} the input {name}, which would be {lost} (choose another name)")


def _is_same(one: Path, other: Path) -> bool:
    try:
        return os.path.samefile(one, other)
    except OSError:
        return False


def _check_replaceable(folder: Path) -> str | None:
    """The kind of folder to be replaced; an error if it holds files of others or is in use."""
    with contextlib.suppress(OSError):
        here = Path.cwd()
        if any(_is_same(place, folder) for place in (here, *here.parents)):
            raise PdtoolsError(f"{folder}: the current directory is not replaced (choose another name)")
    return written_as(folder)


def temporary_name(final: Path) -> Path:
    """A hidden temporary name beside a file or folder, unique to this process (:func:`remove_stale`)."""
    if final.name in ("", ".."):
        raise PdtoolsError(f"{final}: cannot be replaced: give the output a name")
    return final.with_name(f".{final.name}.{this_process()}-{secrets.token_hex(4)}.tmp")


@contextlib.contextmanager
def _temporary(final: Path) -> Iterator[Path]:
    """A temporary name beside ``final`` to write to; failures name ``final``, as the user does."""
    temporary = temporary_name(final)
    try:
        final.parent.mkdir(parents=True, exist_ok=True)
        yield temporary
    except OSError as error:
        culprit = str(error.filename or "")
        ours = culprit.startswith((str(temporary), str(final))) or culprit == str(final.parent)
        # Reading a file by name names it: what has no name is, as a rule, from writing or syncing this one.
        if ours or error.errno in _FULL or (error.filename is None and error.errno in _UNWRITABLE):
            hint = " (close it there, or choose another name)" if is_in_use(error) else ""
            raise PdtoolsError(f"{final}: cannot be written: {error.strerror}{hint}") from error
        raise


def remove_stale(final: Path) -> None:
    """Delete temporary files that killed processes of this machine left beside a file or folder.

    Files of living processes and of other machines stay.
    """
    recover_directory(final)
    for path in hidden_beside(final, (".tmp", ".old")):
        if not may_live(path.name[len(final.name) + 2 :].rpartition("-")[0]):
            _delete(path)


def _delete(path: Path) -> None:
    if path.is_dir() and not path.is_symlink():
        shutil.rmtree(path, ignore_errors=True)
    else:
        with contextlib.suppress(OSError):
            path.unlink()


def _finish(temporary: Path, final: Path) -> None:
    """Sync and list a complete output while it still has its temporary name."""
    check_inputs()
    _sync(temporary)
    if (call := _before_renaming.get()) is not None:
        call(temporary, final)


def _sync(path: Path) -> None:
    """Flush a file or folder to disk, so that a crash of the machine leaves no name without its content.

    A folder of many files is flushed with its file system: one by one, files take milliseconds each.
    """
    paths = [path]
    if path.is_dir():
        walked = list(os.walk(path, topdown=False))
        paths = [Path(folder, name) for folder, _, files in walked for name in (*files, "")]
    if len(paths) < _MANY or not sync_file_system(path):
        for each in paths:
            _sync_one(each)


def _sync_one(path: Path) -> None:
    try:
        _sync_opened(path, os.O_RDONLY)
    except OSError as error:
        # Not every system opens folders, or lets them be synced.
        if path.is_dir() or error.errno in CANNOT:
            return
        if error.errno != errno.EBADF:
            raise
        # Windows syncs only what is open for writing, as read-only files cannot be.
        with contextlib.suppress(PermissionError):
            _sync_opened(path, os.O_RDWR)


def _sync_opened(path: Path, flags: int) -> None:
    descriptor = os.open(path, flags)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


@contextlib.contextmanager
def atomic_path(path: str | Path, *, overwrite: bool = True, durable: bool = True) -> Iterator[Path]:
    """A temporary file name in the folder of ``path``; renamed to ``path`` if the block succeeds.

    Args:
        path: the file to write.
        overwrite: whether it may be there by then: another process may have made it meanwhile.
        durable: whether it has to outlast a crash of the machine.

    Raises:
        PdtoolsError: if it cannot be written (no such place, no permission, no space), or is there.
    """
    final = Path(path)
    # A folder inside of a temporary one is synced and cleaned up with it.
    durable = durable and not any(map(_TEMPORARY.fullmatch, final.parent.parts))
    with _temporary(final) as temporary:
        try:
            if durable:
                remove_stale(final)
            yield temporary
            if durable:
                _finish(temporary, final)
            if overwrite:
                patiently(os.replace, temporary, final)
            else:
                _put(temporary, final)
            if durable:
                _sync_one(final.parent)
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
        if has_ending(name, ".gz"):
            # A fixed time stamp, so that the same command writes the same bytes.
            with (
                open(temporary, "wb") as raw,
                gzip.GzipFile("", "wb", fileobj=raw, mtime=0) as packed,
                io.TextIOWrapper(cast(IO[bytes], packed), encoding="utf-8", newline="\n") as stream,
            ):
                yield stream
        elif has_ending(name, ".zst"):
            with open_zstd_text(temporary) as stream:
                yield stream
        else:
            with open(temporary, "w", encoding="utf-8", newline="\n") as stream:
                yield stream


@contextlib.contextmanager
def atomic_directory(
    path: str | Path,
    *,
    kind: str | None = None,
    sums: Mapping[str, str] = MappingProxyType({}),
    overwrite: bool = False,
) -> Iterator[Path]:
    """A temporary folder beside ``path``, renamed to ``path`` if the block succeeds and deleted if not.

    Args:
        path: the folder.
        kind: its name in messages; its files are then listed in it (``pdtools.json``). None: a
            folder that is not pdtools', and that it does not replace.
        sums: the SHA-256 of files that were computed by the end of the block, by relative path.
        overwrite: whether it may be there.
    """
    final = Path(path)
    if is_stream(final):
        raise PdtoolsError(f"{final}: the output is a folder: give it a name with -o")
    if _is_there(final, overwrite=overwrite, folder=True):
        _check_replaceable(final)
    with _temporary(final) as temporary:
        try:
            remove_stale(final)
            temporary.mkdir()
            yield temporary
            if kind is not None:
                write_manifest(temporary, kind, sums)
            _finish(temporary, final)
            if overwrite:
                replace_directory(temporary, final)
            else:
                _put(temporary, final)
                _sync_one(final.parent)
        finally:
            shutil.rmtree(temporary, ignore_errors=True)


def _put(new: Path, final: Path) -> None:
    """Give a file or folder its final name, unless another process has taken that name meanwhile.

    If it is a file, ``new`` may stay.
    """
    try:
        if new.is_dir():
            patiently(os.rename, new, final)  # not where there is anything but an empty folder
        else:
            _link(new, final)
    except OSError as error:
        if error.errno not in IS_THERE:
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
        patiently(os.rename, new, final)


def replace_directory(new: Path, final: Path) -> None:
    """Replace folder ``final``, which pdtools wrote, by ``new``, whose name ends in ``.tmp``.

    One of the two always exists, where the system can exchange them; elsewhere
    :func:`~pdtools.files.recover_directory` mends an interrupted swap. If two processes do so at once, the
    last one's folder stays.
    """
    old = new.with_suffix(".old")
    for is_last in (*[False] * _TRIES, True):
        try:
            if not os.path.lexists(final):
                patiently(os.rename, new, final)
                break
            if os.path.isdir(final):
                _check_replaceable(final)
            if exchange(new, final):
                old = new
                break
            _delete(old)
            try:
                patiently(os.rename, final, old)
                patiently(os.rename, new, final)
            except BaseException:
                recover_directory(final)
                raise
            break
        except OSError as error:  # another process was between the same two renames
            if is_last or error.errno not in {*IS_THERE, errno.ENOENT}:
                raise
    _sync_one(final.parent)
    _delete(old)


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
    """Readable JSON that UTF-8 can encode: other bytes in file names are escaped."""
    text = json.dumps(value, indent=indent, ensure_ascii=False, allow_nan=False)
    return text.encode("utf-8", "backslashreplace").decode("utf-8")
