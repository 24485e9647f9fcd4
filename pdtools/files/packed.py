"""Packed files: endings of names, Zstandard, and zip archives.

Endings count in any case: ``.CSV`` is ``.csv``. Python's own reader of Zstandard reports a truncated file
(zstandard's takes it for a whole one); an empty file holds nothing, as with gzip.
"""

from __future__ import annotations

import bz2
import gzip
import io
import lzma
import stat
import struct
import sys
import zipfile
import zlib
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from pathlib import Path, PurePosixPath
from typing import IO, Any, cast

from pdtools.errors import InputError

COMPRESSED = (".gz", ".zst")
ZSTANDARD = b"\x28\xb5\x2f\xfd"  # the first bytes of such a file


def has_ending(name: str | Path, endings: str | tuple[str, ...]) -> bool:
    """Return whether a name ends in one of these (in lower case)."""
    return str(name).lower().endswith(endings)


def plain_name(name: str | Path, endings: tuple[str, ...] = COMPRESSED) -> str:
    """A file name without those of these endings (in lower case) that it has, taken off one after another."""
    name = str(name)
    for each in endings:
        if has_ending(name, each):
            name = name[: -len(each)]
    return name


def ending(name: str | Path) -> str:
    """The last ending of a file name, in lower case, before any compression suffix: ``.csv``, or nothing."""
    return Path(plain_name(name)).suffix.lower()


def open_packed(path: str | Path) -> IO[bytes]:
    """Open a file for reading bytes, unpacked if its first bytes are those of a compressed file."""
    with open(path, "rb") as file:
        start = file.read(6)
    opener: Any = open
    if start.startswith(ZSTANDARD):
        opener = _zstd().open
    for magic, module in {b"\x1f\x8b": gzip, b"BZh": bz2, b"\xfd7zXZ": lzma}.items():
        if start.startswith(magic):
            opener = module.open
    return cast(IO[bytes], opener(path, "rb"))


# --- Zstandard, with checks for damage ---------------------------------------------------------


def _zstd() -> Any:
    """The standard library's module, loaded when a file is compressed."""
    if sys.version_info >= (3, 14):
        from compression import zstd
    else:
        from backports import zstd
    return zstd


def open_zstd(packed: IO[bytes]) -> IO[bytes]:
    """The decompressed bytes of an open file, all its frames; the caller closes the file."""
    peekable = packed if isinstance(packed, io.BufferedReader) else io.BufferedReader(cast(Any, packed))
    if not peekable.peek(1):
        return io.BytesIO()
    return cast(IO[bytes], _zstd().ZstdFile(peekable))


def open_zstd_text(path: str | Path) -> IO[str]:
    """A UTF-8 text stream into a new file, with checksums."""
    zstd = _zstd()
    options = {zstd.CompressionParameter.checksum_flag: 1}
    return cast(IO[str], zstd.open(path, "wt", options=options, encoding="utf-8", newline="\n"))


def compress_zstd(data: bytes) -> bytes:
    """One frame with a checksum, fast rather than small."""
    zstd = _zstd()
    parameter = zstd.CompressionParameter
    options = {parameter.compression_level: 1, parameter.checksum_flag: 1}
    return cast(bytes, zstd.compress(data, options=options))


# --- zip archives, with guards against hostile ones --------------------------------------------

SUFFIX = ".zip"
_MANIFEST = "pdtools.json"  # pdtools.files.manifest has it, and needs this module
_ALWAYS_READ, _MOST_PACKED = 1 << 21, 100
_MOST_BLANK = 1 << 20  # bytes of white space without anything else: read by the line, a second for a million


def is_data(name: str) -> bool:
    """Return whether a path is data: not hidden, no resource fork, not pdtools' own list of files."""
    parts = PurePosixPath(name).parts
    return not {"__MACOSX", _MANIFEST} & {*parts} and not any(part.startswith(".") for part in parts)


def members_of(archive: zipfile.ZipFile, suffixes: str | tuple[str, ...]) -> list[zipfile.ZipInfo]:
    """The members with one of these endings, by name; resource forks and hidden files are passed over."""
    return [
        member
        for member in sorted(archive.infolist(), key=lambda member: member.filename)
        if has_ending(member.filename, suffixes) and is_data(member.filename)
    ]


def open_data(archive: zipfile.ZipFile, member: zipfile.ZipInfo, place: str) -> IO[bytes]:
    """Open a member of an archive for reading.

    Raises:
        InputError: if it is a symbolic link; ``place`` is its name. Reading raises one where a small archive
            holds endless repetitions.
    """
    if stat.S_ISLNK(member.external_attr >> 16):
        raise InputError("a symbolic link, which is not followed", file=place)
    return limited(archive.open(member), place, member.compress_size, archive.filename)


def check_packed(unpacked: int, packed: int, place: str, always: int | None = None) -> None:
    """Refuse data that unpack to implausibly many bytes, unless to fewer than ``always``."""
    if unpacked > max(_ALWAYS_READ if always is None else always, _MOST_PACKED * packed):
        raise InputError(f"it unpacks to more than {_MOST_PACKED} times its packed size", file=place)


def limited(
    unpacked: IO[bytes], place: str, packed_bytes: int, archive: str | None = None
) -> io.BufferedReader:
    """A reader of unpacked data that raises an error on endless repetitions, and on faults of its archive."""
    return io.BufferedReader(_Unpacked(unpacked, place, packed_bytes, archive), 1 << 15)


class _Unpacked(io.RawIOBase):
    """Unpacked data with a limit: compression beyond text's is no text, and takes long to read."""

    def __init__(self, member: IO[bytes], place: str, packed_bytes: int, archive: str | None) -> None:
        self._member, self._place, self._archive = member, place, archive
        self._packed, self._read = packed_bytes, 0
        self._blank = 0

    def readable(self) -> bool:
        """Return True: it can be read."""
        return True

    def readinto(self, buffer: Any) -> int:
        """Fill the buffer as far as possible; 0 at the end of the member."""
        with nullcontext() if self._archive is None else zip_errors(self._archive):
            data = self._member.read(len(buffer))
        self._read += len(data)
        check_packed(self._read, self._packed, self._place)
        self._blank = 0 if data.strip() else self._blank + len(data)
        if self._blank > _MOST_BLANK:
            raise InputError(f"more than {_MOST_BLANK} bytes of nothing but white space", file=self._place)
        buffer[: len(data)] = data
        return len(data)

    def close(self) -> None:
        """Close the member."""
        self._member.close()
        super().close()


@contextmanager
def zip_errors(source: str | Path) -> Iterator[None]:
    """Turn the standard library's errors on unreadable archives into errors that name the archive."""
    try:
        yield
    except FileNotFoundError as error:
        raise InputError("no such file or folder", file=source) from error
    except RuntimeError as error:  # encrypted, or packed in an unusual way
        raise InputError(f"cannot be unpacked: {error}", file=source) from error
    except (zipfile.BadZipFile, zlib.error, lzma.LZMAError, EOFError, struct.error, ValueError) as error:
        raise InputError("damaged zip archive", file=source, hint="get it again") from error
    except (OSError, OverflowError) as error:
        reason = error.strerror if isinstance(error, OSError) and error.strerror else "damaged zip archive"
        raise InputError(f"cannot be read: {reason}", file=source) from error
