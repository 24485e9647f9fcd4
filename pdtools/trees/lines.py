"""Lines of tree files as text, with faults that keep them from being read; long ones in parts."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from pdtools.errors import InputError
from pdtools.files import decode_utf8, read_line_parts

PART_BYTES = 1 << 20
MAX_TREE_CHARS = 1 << 22
"""Limit on a tree's text, in characters: some 200,000 words, or a million brackets."""

_LONGEST_TREE_BYTES = 4 * MAX_TREE_CHARS
_ENDS = (b")", b" ", b"\t", b"\f", b"\v")  # nothing goes on after them, not even a line end


@dataclass(frozen=True, slots=True)
class Line:
    """A line of a file, without its end, or a part of a long one.

    Attributes:
        number: the line in its file, from 1.
        text: the line's text; bytes that are not UTF-8 are replacement characters.
        fault: the reason why it cannot be decoded.
        follows_blank: whether the line before it is blank.
        goes_on: whether this is a further part of a long line.
    """

    number: int
    text: str
    fault: str | None
    follows_blank: bool
    goes_on: bool


def read_tree_lines(file: str, part_bytes: int = PART_BYTES) -> Iterator[Line]:
    """The lines of a file; long ones in parts of ``part_bytes``, cut beside brackets or white space.

    A stretch without either is not cut before it is longer than a tree may be.

    Raises:
        InputError: if the file cannot be read or its compression is damaged.
    """
    follows_blank = is_blank = goes_on = False
    rest = b""  # the rest of a line that is longer than a part
    for number, part in read_line_parts(file, part_bytes):
        data, rest = rest + part, b""
        ends = part.endswith(b"\n") or len(part) < part_bytes
        if not ends:
            cut = _last_cut(data)
            if not cut and len(data) <= _LONGEST_TREE_BYTES:
                rest = data
                continue
            data, rest = data[: cut or None], data[cut or len(data) :]
        line = _line(data, file, number, follows_blank=follows_blank, goes_on=goes_on, ends=ends)
        yield line
        is_blank = (is_blank or not goes_on) and not line.text.strip()
        goes_on = not ends
        if ends:
            follows_blank = is_blank
    if rest:
        yield _line(rest, file, number, follows_blank=follows_blank, goes_on=goes_on, ends=True)


def _last_cut(data: bytes) -> int:
    """The last position to cut text without cutting a tag, label or word; 0 if there is none."""
    return max(max(data.rfind(mark) + 1 for mark in _ENDS), data.rfind(b"("))


def _line(data: bytes, file: str, number: int, *, follows_blank: bool, goes_on: bool, ends: bool) -> Line:
    fault = None
    try:
        text = decode_utf8(data, file, 0 if goes_on else number)  # a byte order mark is at the beginning
    except InputError as error:
        fault = error.fault
        text = data.decode("utf-8", errors="replace")
    if ends:
        text = text.removesuffix("\n").removesuffix("\r")
    return Line(number, text, fault, follows_blank, goes_on)
