"""Reading of sources: bytes, lines and JSON, with limits."""

from __future__ import annotations

import contextlib
import gzip
import json
import lzma
import math
import os
import re
import tempfile
import zipfile
import zlib
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import IO, Any

from pdtools.errors import InputError
from pdtools.files.packed import open_packed
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
    data = _decompressing(source, stream.read, limit + 1)
    if len(data) > limit:
        raise InputError(f"longer than {limit >> 20} MiB, the limit of a file of this kind", file=source)
    return data


def read_head(source: str | Path, size: int) -> bytes:
    """The first ``size`` bytes of a file, or all of it; a stream can still be read from its beginning.

    Raises:
        InputError: if it cannot be read or its compression is damaged.
    """
    return _decompressing(source, source_of(source).head, size)


def read_packed_head(path: str | Path, size: int) -> bytes:
    """The first ``size`` bytes of a file, unpacked by its first bytes, whatever its name.

    Raises:
        InputError: if it cannot be read or its compression is damaged.
    """

    def read(size: int) -> bytes:
        with open_packed(path) as file:
            return file.read(size)

    return _decompressing(path, read, size)


def read_blocks(source: str | Path, size: int) -> Iterator[bytes]:
    """The bytes of a file, ``size`` at a time; the last block is shorter, or empty.

    Raises:
        InputError: if the file cannot be read or its compression is damaged.
    """
    with source_of(source).open() as stream:
        while True:
            block = _decompressing(source, stream.read, size)
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
            _check_text(_decompressing(source, stream.peek, _LOOKED_AT)[:_LOOKED_AT], source)
        number = 1
        while part := _decompressing(source, stream.readline, size):
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
        if len(line) > MAX_LINE_BYTES:
            reason = f"a line of more than {MAX_LINE_BYTES >> 20} MiB"
            raise InputError(reason, file=source, line=number, hint="one sentence a line is expected")
        yield number, decode_utf8(line, source, number).removesuffix("\n").removesuffix("\r")


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


def _decompressing(source: str | Path, read: Callable[[int], bytes], size: int) -> bytes:
    try:
        return read(size)
    except (gzip.BadGzipFile, zipfile.BadZipFile, zlib.error, lzma.LZMAError, EOFError) as error:
        raise InputError(f"damaged compressed file: {error}", file=source) from error
    except OSError as error:
        raise InputError(f"cannot be read: {error.strerror or error}", file=source) from error
    except Exception as error:  # the error type of zstd is only importable with the package
        if type(error).__name__ == "ZstdError":
            raise InputError(f"damaged compressed file: {error}", file=source) from error
        raise


def read_json(path: str | Path) -> Any:
    """Read a JSON file, or say where it is damaged; see :func:`pdtools.files.inputs.parse_json`."""
    return parse_json(decode_utf8(read_bytes(path), path), path, lone_surrogates=True)


# --- JSON: every defect is an error of one line ------------------------------------------------

_MAY_BE_LONE_SURROGATE = re.compile(r"\\u[dD][89a-fA-F]")
_MOST_DIGITS = 400  # no float is longer; the time to read an integer grows with its square


class _NoJson(ValueError):
    """A value that standard JSON does not allow, or that no float holds."""


def parse_json(
    text: str, source: str | Path, line: int | None = None, *, lone_surrogates: bool = False
) -> Any:
    r"""Parse a JSON document.

    Stricter than Python: NaN, infinities, numbers that no float can hold (``1e999``) and objects with a key
    twice are refused.

    Args:
        text: the document.
        source: the file to name.
        line: the line that the document stands on, if it is one of several; else lines are counted in it.
        lone_surrogates: take strings such as ``"\ud800"``, which UTF-8 cannot hold, but by which our own
            documents spell file names that are not UTF-8.

    Raises:
        InputError: for everything that cannot be parsed; nesting too deep among it.
    """
    try:
        value = _DECODER.decode(text)
        if not lone_surrogates and _MAY_BE_LONE_SURROGATE.search(text):
            json.dumps(value, ensure_ascii=False).encode("utf-8")
    except json.JSONDecodeError as error:
        raise InputError(f"not JSON: {error.msg}", file=source, line=line or error.lineno) from error
    except _NoJson as error:
        raise InputError(f"not JSON: {error}", file=source, line=line) from error
    except UnicodeEncodeError as error:
        code = f"\\u{ord(error.object[error.start]):04x}"
        raise InputError(
            f"a lone surrogate, {code}, which is no character", file=source, line=line
        ) from error
    except RecursionError as error:
        raise InputError("not usable JSON: nested too deep", file=source, line=line) from error
    return value


def read_json_lines(source: str | Path, *, lone_surrogates: bool = False) -> Iterator[tuple[int, Any]]:
    """The values of a file of JSON lines, with their lines' numbers; blank lines are passed over.

    Raises:
        InputError: see :func:`read_lines` and :func:`parse_json`.
    """
    for number, line in read_lines(source):
        if line.strip():
            yield number, parse_json(line, source, number, lone_surrogates=lone_surrogates)


def text_of(value: Any) -> str:
    """A string of a document; an integer becomes one.

    Raises:
        TypeError: for anything else.
        ValueError: for a string with a NUL in it.
    """
    if not isinstance(value, (str, int)):
        raise TypeError(f"a {type(value).__name__} where text is expected")
    if isinstance(value, str) and "\0" in value:
        raise ValueError("a NUL in a text")
    return str(value)


def number_of(value: Any) -> int:
    """A whole number of a document; a string may spell it.

    Raises:
        TypeError: for anything else.
        ValueError: for a number of more than 32 bits too.
    """
    number = int(text_of(value))
    if not -(2**31) <= number < 2**31:
        raise ValueError(f"{number if number.bit_length() < 64 else 'a number'} is out of range")
    return number


def _number(text: str) -> float:
    number = float(text)
    return number if math.isfinite(number) else _refused(text)


def _integer(text: str) -> int:
    return int(text) if len(text) <= _MOST_DIGITS else _refused(text)


def _refused(text: str) -> Any:
    raise _NoJson(f"the number {text if len(text) < 40 else text[:37] + '...'}")


def _object(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) < len(pairs):
        keys = [key for key, _ in pairs]
        twice = next(key for number, key in enumerate(keys) if key in keys[:number])
        raise _NoJson(f"the key {twice if len(twice) < 40 else twice[:37] + '...'} twice in one object")
    return found


# Made once: for short documents, making it takes as long as parsing.
_DECODER = json.JSONDecoder(
    parse_float=_number, parse_int=_integer, parse_constant=_refused, object_pairs_hook=_object
)
