"""Zstandard files, read and written so that damage shows."""

from __future__ import annotations

import io
from collections.abc import Iterator
from pathlib import Path
from typing import IO, Any, cast

# Compressed bytes unpacked at a time: at most they become 32,768 times as many, which are in memory.
_PIECE = 1 << 10


class ZstdFile(io.RawIOBase):
    """The decompressed bytes of a file, all its frames.

    zstandard's own reader takes a file that was cut short for a whole one; here that is an EOFError.
    """

    def __init__(self, packed: IO[bytes]) -> None:
        self._packed = packed
        self._pieces = self._decompressed()
        self._left = memoryview(b"")

    def _decompressed(self) -> Iterator[bytes]:
        import zstandard

        frame = None
        packed = b""
        while packed := packed or self._packed.read(_PIECE):
            frame = frame or zstandard.ZstdDecompressor().decompressobj()
            yield frame.decompress(packed)
            packed = b""
            if frame.eof:
                packed, frame = frame.unused_data, None
        if frame is not None:
            raise EOFError("it ends inside a frame")

    def readable(self) -> bool:
        """Whether it can be read: always."""
        return True

    def readinto(self, buffer: Any) -> int:
        """Fill the buffer as far as the next decompressed piece goes; 0 at the end of the file."""
        while not self._left:
            piece = next(self._pieces, None)
            if piece is None:
                return 0
            self._left = memoryview(piece)
        size = min(len(buffer), len(self._left))
        buffer[:size] = self._left[:size]
        self._left = self._left[size:]
        return size

    def close(self) -> None:
        """Close the file."""
        self._packed.close()
        super().close()


def open_zstd_text(path: str | Path) -> IO[str]:
    """A UTF-8 text stream into a new file, with checksums."""
    import zstandard

    packer = zstandard.ZstdCompressor(write_checksum=True)
    return cast(IO[str], zstandard.open(path, "wt", cctx=packer, encoding="utf-8", newline="\n"))
