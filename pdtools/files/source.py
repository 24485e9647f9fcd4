"""Sources of text: files, standard input, members of zip archives, text of the command line, data sets.

A source is its name, as messages show it. It knows how it is opened, what identifies it in records, and
whether it can be read twice. Functions that read files take names too: :func:`source_of` finds their sources.
"""

from __future__ import annotations

import gzip
import hashlib
import io
import os
import re
import stat
import sys
import zipfile
from collections.abc import Generator, Iterable, Iterator
from contextlib import ExitStack, contextmanager
from functools import lru_cache
from importlib import import_module
from itertools import count
from pathlib import Path
from typing import IO, Any, Protocol, cast

from pdtools.errors import InputError
from pdtools.files.packed import SUFFIX, has_ending, limited, members_of, open_data, open_zstd, zip_errors

STDIO = "-"
MAX_ARCHIVE_BYTES = 1 << 31
"""Limit on the bytes read from an archive of a benchmark or data set, unpacked."""

_IN_ARCHIVE = re.compile(rf"\{SUFFIX}/", re.IGNORECASE)
# Beginnings of names of other sources, and the modules that have them as SOURCE.
_SCHEMES = {"hf-data:": "pdtools.provenance.hub_data"}


class Source(str):
    """A file, decompressed by the ending of its name.

    Attributes:
        is_far: whether reading takes long: lines are not counted before, nor read again by resumed runs.
        kept: a :class:`pdtools.jobs.Chunks` for what is read of a source that is far; None: it is not kept.
    """

    is_far = False
    kept: Any = None
    _begun: tuple[bytes, Generator[bytes]] | None = None

    def __reduce__(self) -> tuple[Any, ...]:
        return str, (str(self),)  # workers need no more of it than its name

    @property
    def is_read_once(self) -> bool:
        """Return whether it is a pipe or a device, which can be read only once."""
        try:
            mode = os.stat(self).st_mode
        except (OSError, ValueError):
            return False
        return not stat.S_ISREG(mode) and not stat.S_ISDIR(mode)

    @property
    def paths(self) -> list[Path]:
        """The files or folders that hold it, and must not change while it is read."""
        return [] if self.is_read_once else [Path(self)]

    @property
    def version(self) -> str:
        """The state of its content, which a resumed run needs again if reading takes long."""
        return str(self)

    def check(self) -> Source:
        """The source as it is read; an InputError if there is none."""
        if type(self) is Source and not os.path.exists(self):
            raise InputError("no such file or folder", file=self)
        return self

    def raw(self) -> IO[bytes]:
        """Open it without decompression.

        Raises:
            InputError: if it cannot be read.
        """
        try:
            return open(self, "rb")
        except OSError as error:
            raise InputError(f"cannot be read: {error.strerror or error}", file=self) from error

    @contextmanager
    def open(self) -> Iterator[IO[bytes]]:
        """Open it for reading bytes, from its beginning.

        Raises:
            InputError: if it cannot be read.
        """
        begun, self._begun = self._begun, None
        with ExitStack() as stack:
            yield self._open(stack) if begun is None else stack.enter_context(stream_of(begun[1]))

    def _open(self, stack: ExitStack) -> IO[bytes]:
        raw = stack.enter_context(self.raw())
        if has_ending(self, ".gz"):
            stream = cast(IO[bytes], gzip.GzipFile(fileobj=raw))
        elif has_ending(self, ".zst"):
            stream = open_zstd(raw)
        else:
            return raw
        return stack.enter_context(limited(stream, self, _packed_bytes(raw)))

    def head(self, size: int) -> bytes:
        """The first ``size`` bytes; of a source that is read once, they are kept until it is opened."""
        with ExitStack() as stack:
            if not self.is_read_once:
                return self._open(stack).read(size)
            if self._begun is None:
                stream = self._open(stack)
                head = stream.read(size)
                self._begun = head, _read_on(head, size, stream, stack.pop_all())
            return self._begun[0]

    def identify(self) -> dict[str, Any]:
        """The path, and the SHA-256: of a folder, of the list of its files, as sha256sum prints it."""
        path = Path(self)
        if path.is_dir():
            files = sorted(file for file in path.rglob("*") if file.is_file())
            listing = "".join(f"{sha256_file(file)}  {file.relative_to(path).as_posix()}\n" for file in files)
            digest = hashlib.sha256(listing.encode()).hexdigest()
            return {"path": str(path), "files": len(files), "sha256": digest}
        return {"path": str(path), "sha256": sha256_file(path)} if path.is_file() else {"path": str(path)}


def _read_on(head: bytes, size: int, stream: IO[bytes], closing: ExitStack) -> Generator[bytes]:
    """Yield the beginning of a stream, and the rest; a terminal is not asked again after its end."""
    with closing:
        yield head
        while len(head) == size and (data := stream.read(size)):
            yield data


def stream_of(pieces: Generator[bytes]) -> io.BufferedReader:
    """A stream of bytes that come in pieces, which are not empty; they are closed with it."""
    return io.BufferedReader(_Pieces(pieces))


class _Pieces(io.RawIOBase):
    def __init__(self, pieces: Generator[bytes]) -> None:
        self._pieces, self._rest = pieces, b""

    def readable(self) -> bool:
        """Return True: it can be read."""
        return True

    def readinto(self, buffer: Any) -> int:
        """Fill the buffer as far as possible; 0 at the end."""
        self._rest = self._rest or next(self._pieces, b"")
        data, self._rest = self._rest[: len(buffer)], self._rest[len(buffer) :]
        buffer[: len(data)] = data
        return len(data)

    def close(self) -> None:
        """Close the pieces."""
        self._pieces.close()
        super().close()


class StandardInput(Source):
    """Standard input."""

    is_read_once = True

    def _open(self, stack: ExitStack) -> IO[bytes]:
        return sys.stdin.buffer  # which stays open

    def identify(self) -> dict[str, Any]:
        """The name alone."""
        return {"path": str(self)}


class GivenText(Source):
    """Lines given in place of a file."""

    is_read_once = False
    _text: bytes

    @classmethod
    def of(cls, lines: Iterable[str]) -> GivenText:
        """Join texts, each as one line; messages name them ``--text``, after their option."""
        given = cls("--text")
        text = "".join(line.replace("\n", " ") + "\n" for line in lines)
        given._text = text.encode("utf-8", "surrogateescape")  # as the command line had it
        return given

    @property
    def paths(self) -> list[Path]:
        """No files."""
        return []

    def _open(self, stack: ExitStack) -> IO[bytes]:
        return io.BufferedReader(cast(Any, io.BytesIO(self._text)))


class HeldStream(GivenText):
    """Text of a source that can be read only once, kept to be read again."""

    _blocks: list[bytes]
    _rest: IO[bytes]
    _opened: ExitStack

    def _open(self, stack: ExitStack) -> IO[bytes]:
        return stack.enter_context(stream_of(self._pieces()))

    def _pieces(self) -> Generator[bytes]:
        for number in count():
            if number == len(self._blocks):
                self._blocks.append(self._rest.read(1 << 16))
            if not self._blocks[number]:
                return
            yield self._blocks[number]


def held(name: str | Path) -> Source:
    """The source of this name; if it can be read only once, one that keeps what is read, to be read again.

    Raises:
        InputError: if it cannot be opened.
    """
    source = source_of(name)
    if not source.is_read_once:
        return source
    found = HeldStream(source)
    found._blocks, found._opened = [], ExitStack()
    found._rest = found._opened.enter_context(source.open())
    return found


class ZipMember(Source):
    """A file inside of a zip archive, named as if the archive were a folder: ``corpus.zip/wsj/wsj_0001.mrg``.

    It is read where it is: nothing is unpacked to a disk, and a name such as ``../x`` leads nowhere.
    """

    is_read_once = False
    archive: str
    info: zipfile.ZipInfo | None

    @classmethod
    def of(cls, archive: str, member: str, info: zipfile.ZipInfo | None = None) -> ZipMember:
        """The member of this name; ``info``: the one of several of this name."""
        found = cls(f"{archive}/{member}")
        found.archive, found.info = archive, info
        return found

    @classmethod
    def within(cls, archive: str, endings: tuple[str, ...], most: int = MAX_ARCHIVE_BYTES) -> list[ZipMember]:
        """The members with one of these endings, by name; see :func:`pdtools.files.packed.members_of`.

        Args:
            archive: its path.
            endings: in lower case.
            most: bytes of all of them, unpacked; no more is read of a member than the archive says.

        Raises:
            InputError: if the archive cannot be read, or holds more.
        """
        with zip_errors(archive), zipfile.ZipFile(archive) as opened:
            members = members_of(opened, endings)
        if sum(each.file_size for each in members) > most:
            raise InputError(f"more than {most >> 30} GiB when unpacked", file=archive)
        return [cls.of(archive, each.filename, each) for each in members]

    @property
    def paths(self) -> list[Path]:
        """The archive."""
        return [Path(self.archive)]

    def check(self) -> Source:
        """Itself; an InputError if the archive cannot be read, or has no such member."""
        self.raw().close()
        return self

    def raw(self) -> IO[bytes]:
        """Open it; an InputError also says that it is a symbolic link."""
        with zip_errors(self.archive):
            status = os.stat(self.archive)
            archive = _opened(self.archive, os.getpid(), status.st_mtime_ns, status.st_size)
            try:
                member = self.info or archive.getinfo(self[len(self.archive) + 1 :])
            except KeyError:
                raise InputError("no such file in this archive", file=self) from None
            return open_data(archive, member, self)

    def identify(self) -> dict[str, Any]:
        """The path, and the SHA-256 of the unpacked member."""
        with self.raw() as stream:
            return {"path": str(self), "sha256": sha256_stream(stream)}


@lru_cache(maxsize=1)
def _opened(source: str, process: int, changed: int, size: int) -> zipfile.ZipFile:
    """An open archive, cached so that its directory is read once for successive members."""
    return zipfile.ZipFile(source)


def source_of(name: str | Path) -> Source:
    """The source of this name; ``-`` is standard input."""
    if isinstance(name, Source):
        return name
    name = str(name)
    if name == STDIO:
        return StandardInput(name)
    for beginning, module in _SCHEMES.items():
        if name.startswith(beginning):
            return cast(Source, import_module(module).SOURCE(name))
    for found in _IN_ARCHIVE.finditer(name):
        if os.path.isfile(archive := name[: found.end() - 1]):
            return ZipMember.of(archive, name[found.end() :])
    return Source(name)


def is_stream(name: str | Path) -> bool:
    """Return whether a path is standard input or output, a pipe or a device, which can be read only once."""
    return source_of(name).is_read_once


def _packed_bytes(raw: IO[bytes]) -> int:
    """The size of a file; unlimited for a pipe or a packed member of an archive."""
    try:
        return os.fstat(raw.fileno()).st_size or sys.maxsize
    except OSError:
        return sys.maxsize


class Readable(Protocol):
    """An open file, of Python or of others."""

    def read(self, size: int, /) -> bytes:
        """Read this many bytes, or fewer; none at the end."""
        ...


def sha256_file(path: str | Path) -> str:
    """The SHA-256 of a file's bytes, in hexadecimal."""
    with source_of(path).raw() as stream:
        return sha256_stream(stream)


def sha256_stream(stream: Readable) -> str:
    """The SHA-256 of the rest of an open file, in hexadecimal."""
    digest = hashlib.sha256()
    while chunk := stream.read(1 << 17):  # there may be thousands of short files: little is allocated
        digest.update(chunk)
    return digest.hexdigest()
