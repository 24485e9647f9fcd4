"""Reading of sources: bytes, lines and JSON, with limits."""

from __future__ import annotations

import contextlib
import gzip
import os
import tempfile
import zipfile
import zlib
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import IO, Any, cast

from pdtools.errors import InputError
from pdtools.files.json_input import parse_json
from pdtools.files.source import source_of

# Limits on what is read at once, so that no file, packed or not, fills the memory.
MAX_LINE_BYTES = 1 << 24
MAX_DOCUMENT_BYTES = 1 << 27
# Bytes looked at to recognize text; the most control characters among them: so many, or one in so many.
_LOOKED_AT, _MOST_CONTROLS = 1 << 13, 32
_CONTROLS = bytes(code for code in (*range(32), 127) if code not in b"\t\n\v\f\r")
_BYTE_ORDER_MARKS = {
    b"\xff\xfe\x00\x00": "UTF-32",
    b"\x00\x00\xfe\xff": "UTF-32",
    b"\xff\xfe": "UTF-16",
    b"\xfe\xff": "UTF-16",
}


@contextlib.contextmanager
def utf8_name(path: str | Path) -> Iterator[Path]:
    """A name in UTF-8 for libraries that need one: the file's own, or a temporary link's."""
    absolute = Path(path).absolute()
    if os.fsencode(absolute) == str(absolute).encode(errors="replace"):
        yield Path(path)
        return
    with tempfile.TemporaryDirectory() as folder:
        link = Path(folder, "link")
        link.symlink_to(absolute)
        yield link


def read_bytes(source: str | Path, limit: int = MAX_DOCUMENT_BYTES) -> bytes:
    """The whole of a file (``-``: standard input), decompressed by its suffix.

    Raises:
        InputError: if it cannot be read, its compression is damaged, or it is longer than ``limit`` bytes.
    """
    with source_of(source).open() as stream:
        return read_limited(stream, source, limit)


def read_limited(stream: IO[bytes], source: str | Path, limit: int = MAX_DOCUMENT_BYTES) -> bytes:
    """The rest of a stream, of at most ``limit`` bytes; see :func:`read_bytes`."""
    data = _decompressing(lambda: stream.read(limit + 1), source)
    if len(data) > limit:
        raise InputError(f"longer than {limit >> 20} MiB, the limit of a file of this kind", file=source)
    return data


def read_head(source: str | Path, size: int) -> bytes:
    """The first ``size`` bytes of a file, or all of it; a stream can still be read from its beginning.

    Raises:
        InputError: if it cannot be read or its compression is damaged.
    """
    return _decompressing(lambda: source_of(source).head(size), source)


def read_blocks(source: str | Path, size: int) -> Iterator[bytes]:
    """The bytes of a file, ``size`` at a time; the last block is shorter, or empty.

    Raises:
        InputError: if the file cannot be read or its compression is damaged.
    """
    with source_of(source).open() as stream:
        while True:
            block = _decompressing(lambda: stream.read(size), source)
            yield block
            if len(block) < size:
                return


def count_lines(files: Iterable[str]) -> int | None:
    """The number of lines in files; None if one of them can be read only once, or reading takes long."""
    number = 0
    for file in map(source_of, files):
        if file.is_read_once or file.is_far:
            return None
        last = b"\n"
        for block in read_blocks(file, 1 << 20):
            number += block.count(b"\n")
            last = block[-1:] or last
        number += last != b"\n"  # a last line without an end
    return number


def read_line_parts(source: str | Path, size: int) -> Iterator[tuple[int, bytes]]:
    """Lines of a file as bytes with their numbers (from 1), line ends on; long ones in parts of ``size``.

    Raises:
        InputError: if the file cannot be read, its compression is damaged, or it holds no text.
    """
    with source_of(source).open() as stream:
        if hasattr(stream, "peek"):
            _check_text(_decompressing(lambda: stream.peek(_LOOKED_AT), source)[:_LOOKED_AT], source)
        number = 1
        while part := _decompressing(lambda: stream.readline(size), source):
            yield number, part
            number += part.endswith(b"\n")


def _check_text(beginning: bytes, source: str | Path) -> None:
    """Refuse a file whose first bytes cannot be text: no line of it can be of use."""
    n_controls = len(beginning) - len(beginning.translate(None, _CONTROLS))
    if n_controls > max(_MOST_CONTROLS, len(beginning) // _MOST_CONTROLS):
        _check_mark(beginning, source)
        raise InputError("binary data, not text", file=source)


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
    """Decode one line, with or without its end, as :func:`read_lines` does."""
    if len(line) > MAX_LINE_BYTES:
        reason = f"a line of more than {MAX_LINE_BYTES >> 20} MiB"
        raise InputError(reason, file=source, line=number, hint="one sentence a line is expected")
    return decode_utf8(line, source, number).removesuffix("\n").removesuffix("\r")


def decode_utf8(data: bytes, source: str | Path, first_line: int = 1) -> str:
    """Decode UTF-8 (a byte order mark is dropped), or say in which line it fails. NUL bytes are no text."""
    if first_line == 1:
        data = data.removeprefix(b"\xef\xbb\xbf")
        _check_mark(data, source)
    try:
        text = data.decode("utf-8")
    except UnicodeDecodeError as error:
        line = first_line + data.count(b"\n", 0, error.start)
        raise InputError(
            f"not UTF-8 (byte 0x{data[error.start]:02x})",
            file=source,
            line=line,
            hint=f"iconv -f {_fitting(data)} -t utf-8 converts it, if that is what it is in",
        ) from error
    if b"\0" in data:
        line = first_line + data.count(b"\n", 0, data.index(b"\0"))
        raise InputError("a NUL byte: not a text file", file=source, line=line)
    return text


def _fitting(data: bytes) -> str:
    """The likeliest single-byte encoding of a text that is not UTF-8."""
    if not any(0x80 <= byte < 0xA0 for byte in data):
        return "latin1"
    with contextlib.suppress(UnicodeDecodeError):
        data.decode("cp1252")
        return "windows-1252"
    return "macintosh"


def _check_mark(data: bytes, source: str | Path) -> None:
    for mark, encoding in _BYTE_ORDER_MARKS.items():
        if data.startswith(mark):
            reason = f"{encoding}, not UTF-8 (it begins with that byte order mark)"
            raise InputError(reason, file=source, line=1, hint="convert it with iconv")


def _decompressing(read: Any, source: str | Path) -> bytes:
    try:
        return cast(bytes, read())
    except (gzip.BadGzipFile, zipfile.BadZipFile, zlib.error, EOFError) as error:
        raise InputError(f"damaged compressed file: {error}", file=source) from error
    except OSError as error:
        raise InputError(f"cannot be read: {error.strerror or error}", file=source) from error
    except Exception as error:  # the error type of zstd is only importable with the package
        if type(error).__name__ == "ZstdError":
            raise InputError(f"damaged compressed file: {error}", file=source) from error
        raise


def read_json(path: str | Path) -> Any:
    """Read a JSON file, or say where it is damaged; see :func:`pdtools.files.json_input.parse_json`."""
    return parse_json(decode_utf8(read_bytes(path), path), path, lone_surrogates=True)
