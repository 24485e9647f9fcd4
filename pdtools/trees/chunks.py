"""Files of trees in chunks: a few short files, or whole trees of a long one, as bytes; and files beside them.

The boundaries of chunks depend on the files alone, so workers do the same work in any order and
number.
"""

from __future__ import annotations

import hashlib
import os
import stat
from collections.abc import Callable, Iterable, Iterator, Sized
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import Literal, TypeVar

import numpy as np
from numpy.typing import NDArray

from pdtools.errors import InputError
from pdtools.files import Rejects, is_stream, read_blocks
from pdtools.files.packed import COMPRESSED, has_ending
from pdtools.trees.reader import SourcedTree, read_trees

CHUNK_BYTES = 1 << 21
_BYTE_ORDER_MARK = b"\xef\xbb\xbf"
# No tree extends over this many blocks: such a file is not kept in memory.
_MOST_BLOCKS = 8
_TRIED_ONE_BY_ONE = 100


@dataclass(frozen=True, slots=True)
class FileChunk:
    """The files, or the part of a file, that are read together.

    Attributes:
        files: the names of the files.
        contents: the content of each file (decompressed, without a byte order mark), or of this part of one.
            None: only :func:`pdtools.trees.read_trees` can tell, from here on to the end of the file.
        first_line: the first line of the contents in its file, from 1.
    """

    files: tuple[str, ...]
    contents: tuple[bytes, ...] | None
    first_line: int = 1

    def digest(self, used: str = "") -> str:
        """A digest of the chunk's names and content, and of ``used``, the settings it is read with."""
        found = hashlib.blake2b(repr((used, self.files, self.first_line)).encode(), digest_size=8)
        for content in self.contents or ():
            found.update(len(content).to_bytes(8, "big"))
            found.update(content)
        return found.hexdigest()


Made = TypeVar("Made", bound=Sized)


def path_beside(trees: str | Path, what: Literal["text", "arcs"]) -> Path | None:
    """The path of the sentences, or of the dependency arcs, of a file of trees; None for a stream.

    ``X.trees.text`` has on line n the sentence, as it was written, whose tree is on line n of ``X.trees``:
    words of a tree alone do not tell which of them stood together. ``X.trees.arcs`` has its dependencies
    there, such as ``0-2 2-1`` (:meth:`pdtools.trees.graphs.Graph.from_text`).
    """
    return None if is_stream(trees) else Path(f"{Path(trees)}.{what}")


def files_beside(files: Iterable[str], what: Literal["text", "arcs"]) -> list[str]:
    """The files of :func:`path_beside` that there are."""
    paths = (path_beside(file, what) for file in files)
    return [os.fspath(path) for path in paths if path is not None and path.is_file()]


def cut_chunks(files: Iterable[str], size: int = CHUNK_BYTES) -> Iterator[FileChunk]:
    """Cut files into chunks of about ``size`` bytes.

    A long file is cut before a tree that begins a line; short ones stay whole and are put together. Standard
    input and pipes, which cannot be read twice, and files that cannot be opened, decompressed or cut, come
    without contents.
    """
    group: list[tuple[str, bytes]] = []
    group_bytes = 0
    for file in files:
        blocks = _blocks(file, size)
        first = next(blocks)
        if first is not None and len(first) < size:
            group.append((file, first.removeprefix(_BYTE_ORDER_MARK)))
            group_bytes += len(first)
            if group_bytes < size:
                continue
        if group:
            yield _joined(group)
            group, group_bytes = [], 0
        if first is None:
            yield FileChunk((file,), None)
        elif len(first) == size:
            yield from _cut_long(file, first, blocks)
    if group:
        yield _joined(group)


def in_order(
    made: Iterable[tuple[FileChunk, Made | None]], make: Callable[[FileChunk], Made | None], rejects: Rejects
) -> Iterator[Made | SourcedTree]:
    """The results of chunks of files in order; where there is none, the chunk's trees one by one.

    If a file is not as ``make`` needs it, its further trees are read by
    :func:`pdtools.trees.read_trees`, which knows the faults.

    Args:
        made: every chunk, in order, with its result, as long as the chunk has trees, or None.
        make: makes a result; called for single files of a chunk that has no result as a whole.
        rejects: takes the unreadable trees.

    Raises:
        InputError: as :func:`pdtools.trees.read_trees` does.
    """
    n_read, given_up = 0, False  # for the last chunk's file
    for chunk, result in made:
        if chunk.first_line == 1:
            n_read, given_up = 0, False
        if given_up:
            continue
        if result is not None:
            n_read += len(result)
            yield result
        elif len(chunk.files) > 1 and chunk.contents is not None:
            single = [FileChunk((f,), (c,)) for f, c in zip(chunk.files, chunk.contents, strict=True)]
            yield from in_order(((one, make(one)) for one in single), make, rejects)
        else:
            given_up = True
            yield from islice(read_trees(chunk.files, rejects), n_read, None)


def _joined(group: list[tuple[str, bytes]]) -> FileChunk:
    return FileChunk(tuple(file for file, _ in group), tuple(content for _, content in group))


def _blocks(file: str, size: int) -> Iterator[bytes | None]:
    """The blocks of a file, the last one shorter than the others; None once reading fails."""
    if not has_ending(file, COMPRESSED):
        content = _short_file(file, size)
        if content is not None:
            yield content
            return
    if is_stream(file):
        yield None
        return
    try:
        yield from read_blocks(file, size)
    except InputError:
        yield None  # the plain reader says what is wrong when its turn comes


def _short_file(file: str, size: int) -> bytes | None:
    """Read a regular file of less than ``size`` bytes with few system calls, since there may be thousands."""
    try:
        status = os.stat(file)
        if not stat.S_ISREG(status.st_mode) or status.st_size >= size:
            return None
        descriptor = os.open(file, os.O_RDONLY)
        try:
            content = os.read(descriptor, status.st_size + 1)
        finally:
            os.close(descriptor)
    except OSError:
        return None
    return content if len(content) == status.st_size else None


def _cut_long(file: str, first: bytes, blocks: Iterator[bytes | None]) -> Iterator[FileChunk]:
    line, n_blocks = 1, 1
    data = first.removeprefix(_BYTE_ORDER_MARK)
    for block in blocks:
        if block is None:
            break
        end = last_tree(data)
        if end:
            yield FileChunk((file,), (data[:end],), line)
            line += int(np.count_nonzero(np.frombuffer(data, np.uint8, end) == ord("\n")))
            data, n_blocks = data[end:] + block, 1
        elif n_blocks == _MOST_BLOCKS:
            break
        else:
            data, n_blocks = data + block, n_blocks + 1
        if len(block) < len(first):
            yield FileChunk((file,), (data,), line)
            return
    yield FileChunk((file,), None, line)


def last_tree(data: bytes) -> int:
    """The offset of the last line that begins with a tree's first character; 0 if there is none.

    Only brackets are looked at: a bracket opens a tree if all brackets before it balance.
    """
    text = np.frombuffer(data, dtype=np.uint8)
    depth, end = _balance(text), len(text)
    start = data.rfind(b"\n(")
    for _ in range(_TRIED_ONE_BY_ONE):
        if start < 0:
            return 0
        depth -= _balance(text[start:end])
        if depth == 0:
            return start + 1
        end, start = start, data.rfind(b"\n(", 0, start + 1)
    # Brackets that never close, or trees of very many lines: all positions at once.
    text = text[: start + 2]
    opens, closes = text == ord("("), text == ord(")")
    depths = np.cumsum(opens.view(np.int8) - closes.view(np.int8), dtype=np.int32)
    before_trees = np.flatnonzero((text[:-1] == ord("\n")) & opens[1:] & (depths[:-1] == 0))
    return int(before_trees[-1]) + 1 if len(before_trees) else 0


def _balance(text: NDArray[np.uint8]) -> int:
    return int(np.count_nonzero(text == ord("("))) - int(np.count_nonzero(text == ord(")")))
