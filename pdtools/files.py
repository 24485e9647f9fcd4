"""Reading and writing files: compression by suffix, globs, outputs that appear whole or not at all."""

from __future__ import annotations

import contextlib
import errno
import glob
import gzip
import hashlib
import io
import json
import os
import secrets
import shutil
import stat
import sys
import tempfile
import zlib
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any, Protocol, cast

from pdtools.errors import InputError, PdtoolsError
from pdtools.json_input import parse_json
from pdtools.zstd import ZstdFile, open_zstd_text

if TYPE_CHECKING:
    import torch

STDIO = "-"
_COMPRESSED = (".gz", ".zst")
# What is read at once has a limit, so that no file, packed or not, fills the memory.
MAX_LINE_BYTES = 1 << 24
MAX_DOCUMENT_BYTES = 1 << 27
REJECTS_FILE = "rejects.jsonl"
_MOST_REJECTED_TEXT = 1 << 16
_REJECTS_IN_MEMORY = 1 << 23
_TRIES = 9
_IS_THERE = {errno.EEXIST, errno.ENOTEMPTY, errno.ENOTDIR, errno.EISDIR}
_NO_HARD_LINKS = {errno.EPERM, errno.EACCES, errno.EMLINK, errno.ENOSYS, errno.EOPNOTSUPP, errno.ENOTSUP}
_BYTE_ORDER_MARKS = {
    b"\xff\xfe\x00\x00": "UTF-32",
    b"\x00\x00\xfe\xff": "UTF-32",
    b"\xff\xfe": "UTF-16",
    b"\xfe\xff": "UTF-16",
}


# --- inputs -----------------------------------------------------------------------------------


def expand_inputs(inputs: Sequence[str], suffixes: Sequence[str]) -> list[str]:
    """Turn what a user named (files, folders, globs, ``-``) into a list of files.

    Args:
        inputs: paths, glob patterns or ``-``.
        suffixes: the file endings (``.mrg``) that count inside a folder, searched recursively and
            in sorted order; the same with ``.gz`` and ``.zst`` appended count too.

    Raises:
        InputError: if a path does not exist, a glob matches nothing, or a folder holds no such file.
    """
    wanted = tuple(s + c for s in suffixes for c in ("", *_COMPRESSED))
    files: list[str] = []
    for name in inputs:
        path = Path(name)
        if name == STDIO:
            files.append(STDIO)
        elif path.is_dir():
            found = sorted(str(p) for p in path.rglob("*") if p.is_file() and p.name.endswith(wanted))
            if not found:
                raise InputError(f"no files ending in {', '.join(suffixes)} in this folder", file=name)
            files += found
        elif path.exists():
            files.append(name)
        elif glob.has_magic(name):
            matches = sorted(p for p in glob.glob(name, recursive=True) if os.path.isfile(p))
            if not matches:
                raise InputError("the pattern matches no file", file=name)
            files += matches
        else:
            raise InputError("no such file or folder", file=name)
    return files


@contextlib.contextmanager
def open_binary(source: str | Path) -> Iterator[IO[bytes]]:
    """Open a file (``-``: standard input) for reading bytes, decompressed by its suffix."""
    name = str(source)
    if name == STDIO:
        yield sys.stdin.buffer
        return
    try:
        if name.endswith(".gz"):
            stream = cast(IO[bytes], gzip.open(name, "rb"))  # noqa: SIM115
        elif name.endswith(".zst"):
            stream = io.BufferedReader(ZstdFile(open(name, "rb")))  # noqa: SIM115
        else:
            stream = open(name, "rb")  # noqa: SIM115
    except OSError as error:
        raise InputError(f"cannot be read: {error.strerror or error}", file=name) from error
    with stream:
        yield stream


def is_stream(source: str | Path) -> bool:
    """Whether this is standard input or output, a pipe or a device: nothing to read twice or to replace."""
    if str(source) == STDIO:
        return True
    try:
        mode = os.stat(source).st_mode
    except (OSError, ValueError):
        return False
    return not stat.S_ISREG(mode) and not stat.S_ISDIR(mode)


def read_bytes(source: str | Path, limit: int = MAX_DOCUMENT_BYTES) -> bytes:
    """The whole of a file (``-``: standard input), decompressed by its suffix.

    Raises:
        InputError: if it cannot be read, its compression is damaged, or it is longer than ``limit`` bytes.
    """
    with open_binary(source) as stream:
        return read_limited(stream, source, limit)


def read_limited(stream: IO[bytes], source: str | Path, limit: int = MAX_DOCUMENT_BYTES) -> bytes:
    """The rest of a stream, of at most ``limit`` bytes; see :func:`read_bytes`."""
    data = _decompressing(lambda: stream.read(limit + 1), source)
    if len(data) > limit:
        raise InputError(f"longer than {limit >> 20} MiB, the limit of a file of this kind", file=source)
    return data


def read_blocks(source: str | Path, size: int) -> Iterator[bytes]:
    """The bytes of a file, ``size`` at a time; the last block is shorter, or empty.

    Raises:
        InputError: if the file cannot be read or its compression is damaged.
    """
    with open_binary(source) as stream:
        while True:
            block = _decompressing(lambda: stream.read(size), source)
            yield block
            if len(block) < size:
                return


def read_line_parts(source: str | Path, size: int) -> Iterator[tuple[int, bytes]]:
    """Lines of a file as bytes with their numbers (from 1), line ends on; long ones in parts of ``size``.

    Raises:
        InputError: if the file cannot be read or its compression is damaged.
    """
    with open_binary(source) as stream:
        number = 1
        while part := _decompressing(lambda: stream.readline(size), source):
            yield number, part
            number += part.endswith(b"\n")


def read_lines(source: str | Path) -> Iterator[tuple[int, str]]:
    """Lines of a UTF-8 file with their numbers (from 1), without line ends (LF or CRLF).

    Only line feeds end a line: other Unicode separators are text.

    Raises:
        InputError: if the file is not UTF-8, its compression is damaged, or a line is longer than
            ``MAX_LINE_BYTES``.
    """
    for number, line in read_line_parts(source, MAX_LINE_BYTES + 1):
        yield number, decode_line(line, source, number)


def decode_line(line: bytes, source: str | Path, number: int) -> str:
    """One line, its end on or off, as :func:`read_lines` gives it; see there."""
    if len(line) > MAX_LINE_BYTES:
        reason = f"a line of more than {MAX_LINE_BYTES >> 20} MiB"
        raise InputError(reason, file=source, line=number, hint="one sentence a line is expected")
    return decode_utf8(line, source, number).removesuffix("\n").removesuffix("\r")


def decode_utf8(data: bytes, source: str | Path, first_line: int = 1) -> str:
    """Decode UTF-8 (a byte order mark is dropped), or say in which line it fails. NUL bytes are no text."""
    if first_line == 1:
        data = data.removeprefix(b"\xef\xbb\xbf")
        for mark, encoding in _BYTE_ORDER_MARKS.items():
            if data.startswith(mark):
                reason = f"{encoding}, not UTF-8 (it begins with that byte order mark)"
                raise InputError(reason, file=source, line=1, hint="convert it with iconv")
    try:
        text = data.decode("utf-8")
    except UnicodeDecodeError as error:
        line = first_line + data.count(b"\n", 0, error.start)
        raise InputError(
            f"not UTF-8 (byte 0x{data[error.start]:02x})",
            file=source,
            line=line,
            hint="convert it with iconv",
        ) from error
    if b"\0" in data:
        line = first_line + data.count(b"\n", 0, data.index(b"\0"))
        raise InputError("a NUL byte: not a text file", file=source, line=line)
    return text


def _decompressing(read: Any, source: str | Path) -> bytes:
    try:
        return cast(bytes, read())
    except (gzip.BadGzipFile, zlib.error, EOFError) as error:
        raise InputError(f"damaged compressed file: {error}", file=source) from error
    except OSError as error:
        raise InputError(f"cannot be read: {error.strerror or error}", file=source) from error
    except Exception as error:  # zstandard's error type is only importable with the package
        if type(error).__name__ == "ZstdError":
            raise InputError(f"damaged compressed file: {error}", file=source) from error
        raise


class Readable(Protocol):
    """An open file, of Python or of others."""

    def read(self, size: int, /) -> bytes:
        """So many bytes, or fewer; none at the end."""
        ...


def sha256_file(path: str | Path) -> str:
    """The SHA-256 of a file's bytes, in hexadecimal."""
    with open(path, "rb", buffering=0) as stream:
        return sha256_stream(stream)


def sha256_stream(stream: Readable) -> str:
    """The SHA-256 of what is read of an open file to its end, in hexadecimal."""
    digest = hashlib.sha256()
    while chunk := stream.read(1 << 17):  # there may be thousands of short files: little is allocated
        digest.update(chunk)
    return digest.hexdigest()


# --- outputs ----------------------------------------------------------------------------------


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


def read_json(path: str | Path) -> Any:
    """Read a JSON file, or say where it is damaged; see :func:`pdtools.json_input.parse_json`."""
    return parse_json(decode_utf8(read_bytes(path), path), path, lone_surrogates=True)


# --- rejects ----------------------------------------------------------------------------------


class Rejects:
    """Inputs that were left out: each with its place and reason, counted, and written as JSON lines.

    With ``on_error="fail"`` the first one raises instead.
    """

    def __init__(self, on_error: str = "fail") -> None:
        self.on_error = on_error
        self._counts: Counter[str] = Counter()
        # Of a broken corpus there may be millions: JSON lines, in memory while they are few.
        self._lines = tempfile.SpooledTemporaryFile(  # noqa: SIM115 - open as long as this object lives
            _REJECTS_IN_MEMORY, "w+", encoding="utf-8", newline="\n"
        )

    def add(self, reason: str, *, file: str | Path, line: int, text: str, hint: str | None = None) -> None:
        """Record one left-out input.

        Raises:
            InputError: if the policy is ``fail``.
        """
        if self.on_error == "fail":
            raise InputError(reason, file=file, line=line, hint=hint or "--on-error skip goes on without it")
        self.leave_out(reason, file=file, line=line, text=text)

    def leave_out(self, reason: str, *, file: str | Path, line: int, text: str) -> None:
        """Record an input that is left out by rule, not because it is bad: no error under any policy.

        Of a very long text only the first 65,536 characters are kept.
        """
        text = text[:_MOST_REJECTED_TEXT]
        record = {"file": str(file), "line": line, "reason": reason, "text": text}
        self._lines.write(json_text(record) + "\n")
        self._counts[reason] += 1

    def __len__(self) -> int:
        return self._counts.total()

    def __iter__(self) -> Iterator[dict[str, Any]]:
        """What was left out: file, line, reason, text."""
        self._lines.seek(0)
        try:
            for line in self._lines:
                yield json.loads(line)
        finally:
            self._lines.seek(0, os.SEEK_END)

    def by_reason(self) -> dict[str, int]:
        """How many inputs were left out for each reason."""
        return dict(sorted(self._counts.items()))

    def write(self, path: str | Path) -> None:
        """Write one JSON object per line: file, line, reason, text."""
        with atomic_text(path) as stream:
            self._lines.seek(0)
            shutil.copyfileobj(self._lines, stream)
