"""Files of trees in pieces: a few short files, or whole trees of a long one, as bytes.

Where pieces begin and end depends on the files alone, so whoever works on them, in whatever order and
number, does the same work.
"""

from __future__ import annotations

import hashlib
import os
import stat
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from itertools import islice
from typing import Protocol, TypeVar

import numpy as np
from numpy.typing import NDArray

from pdtools.errors import InputError
from pdtools.files import Rejects, is_stream, read_blocks
from pdtools.trees.reader import SourcedTree, read_trees

PIECE_BYTES = 1 << 21
_BYTE_ORDER_MARK = b"\xef\xbb\xbf"
_COMPRESSED = (".gz", ".zst")
# A tree that goes on over this many blocks is no tree: such a file is not kept in memory.
_MOST_BLOCKS = 8
_TRIED_ONE_BY_ONE = 100


@dataclass(frozen=True, slots=True)
class FilePiece:
    """What is read together.

    Attributes:
        files: the names of the files.
        contents: what is in each (decompressed, without a byte order mark), or in this part of one. None:
            only :func:`pdtools.trees.read_trees` can tell, from here on to the end of the file.
        first_line: the line of its file (from 1) that the first of the contents begins on.
    """

    files: tuple[str, ...]
    contents: tuple[bytes, ...] | None
    first_line: int = 1

    @property
    def continues(self) -> bool:
        """Whether the piece before it is from the same file."""
        return self.first_line > 1

    def digest(self, used: str = "") -> str:
        """Tells it from other pieces, and from itself with other content; ``used``: with what it is read."""
        found = hashlib.blake2b(repr((used, self.files, self.first_line)).encode(), digest_size=8)
        for content in self.contents or ():
            found.update(len(content).to_bytes(8, "big"))
            found.update(content)
        return found.hexdigest()


class Trees(Protocol):
    """What was made of a piece, whatever it is."""

    @property
    def n_trees(self) -> int:
        """How many trees the piece holds."""
        ...


Made = TypeVar("Made", bound=Trees)


def cut_pieces(files: Iterable[str], size: int = PIECE_BYTES) -> Iterator[FilePiece]:
    """Files in pieces of about ``size`` bytes.

    A long file is cut before a tree that begins a line; short ones stay whole and are put together. Standard
    input and pipes, which cannot be read twice, and what cannot be opened, decompressed or cut, come without
    contents.
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
            yield FilePiece((file,), None)
        elif len(first) == size:
            yield from _cut_long(file, first, blocks)
    if group:
        yield _joined(group)


def in_order(
    made: Iterable[tuple[FilePiece, Made | None]], make: Callable[[FilePiece], Made | None], rejects: Rejects
) -> Iterator[Made | SourcedTree]:
    """What was made of the pieces of files, and one by one the trees of which nothing could be made.

    From where something in a file is not as ``make`` needs it, the file's trees are read as
    :func:`pdtools.trees.read_trees` does, which knows what is wrong.

    Args:
        made: every piece, in order, with what was made of it, or None.
        make: makes it: for the files of a piece one by one, if nothing could be made of them together.
        rejects: takes what cannot be read.

    Raises:
        InputError: as :func:`pdtools.trees.read_trees` does.
    """
    n_read, given_up = 0, False  # of the file that the last piece was from
    for piece, result in made:
        if not piece.continues:
            n_read, given_up = 0, False
        if given_up:
            continue
        if result is not None:
            n_read += result.n_trees
            yield result
        elif len(piece.files) > 1 and piece.contents is not None:
            single = [FilePiece((f,), (c,)) for f, c in zip(piece.files, piece.contents, strict=True)]
            yield from in_order(((one, make(one)) for one in single), make, rejects)
        else:
            given_up = True
            yield from islice(read_trees(piece.files, rejects), n_read, None)


def _joined(group: list[tuple[str, bytes]]) -> FilePiece:
    return FilePiece(tuple(file for file, _ in group), tuple(content for _, content in group))


def _blocks(file: str, size: int) -> Iterator[bytes | None]:
    """The blocks of a file, the last one shorter than the others; None once they cannot be had."""
    if not file.endswith(_COMPRESSED):
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
    """A regular file of less than ``size`` bytes with few system calls, since there may be thousands."""
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


def _cut_long(file: str, first: bytes, blocks: Iterator[bytes | None]) -> Iterator[FilePiece]:
    line, n_blocks = 1, 1
    data = first.removeprefix(_BYTE_ORDER_MARK)
    for block in blocks:
        if block is None:
            break
        end = last_tree(data)
        if end:
            yield FilePiece((file,), (data[:end],), line)
            line += int(np.count_nonzero(np.frombuffer(data, np.uint8, end) == ord("\n")))
            data, n_blocks = data[end:] + block, 1
        elif n_blocks == _MOST_BLOCKS:
            break
        else:
            data, n_blocks = data + block, n_blocks + 1
        if len(block) < len(first):
            yield FilePiece((file,), (data,), line)
            return
    yield FilePiece((file,), None, line)


def last_tree(data: bytes) -> int:
    """Where the last line that a tree begins with its first character begins; 0 if there is none.

    Only brackets are looked at: a bracket opens a tree if all before it balance.
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
    # Brackets that never close, or trees of very many lines: all places at once.
    text = text[: start + 2]
    opens, closes = text == ord("("), text == ord(")")
    depths = np.cumsum(opens.view(np.int8) - closes.view(np.int8), dtype=np.int32)
    before_trees = np.flatnonzero((text[:-1] == ord("\n")) & opens[1:] & (depths[:-1] == 0))
    return int(before_trees[-1]) + 1 if len(before_trees) else 0


def _balance(text: NDArray[np.uint8]) -> int:
    return int(np.count_nonzero(text == ord("("))) - int(np.count_nonzero(text == ord(")")))
