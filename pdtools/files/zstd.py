"""Zstandard files, read and written with checks for damage.

Python's own reader reports a truncated file (zstandard's takes it for a whole one). An empty file holds
nothing, as with gzip.
"""

from __future__ import annotations

import io
import sys
from pathlib import Path
from typing import IO, Any, cast


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
