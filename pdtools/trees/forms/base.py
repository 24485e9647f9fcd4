"""Forms of treebanks, as all others see them: files cut into blocks, and a block read as trees.

A block is the text of one sentence (of some forms, of a few). Cutting is quick and in order; reading is the
work, and any process can do it. A form is a record of the two, and of how it is recognised.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from pdtools.errors import InputError
from pdtools.files import LeftOut, decode_utf8, read_line_parts
from pdtools.trees.lines import MAX_TREE_CHARS
from pdtools.trees.placeholders import word_problem
from pdtools.trees.tree import Tree, escape

TOO_LONG = f"a sentence of more than {MAX_TREE_CHARS:,} bytes, or one that never ends"
_BYTE_ORDER_MARK = b"\xef\xbb\xbf"
_PART_BYTES = 1 << 20
_BLANK = re.compile(r"[ \t\n\r\f\v]+")  # other spaces are parts of words
EMPTY_LEAVES = "empty leaves left out: "
Discontinuous = Literal["raise", "split", "skip"]
Counts = Counter[str]
"""Counts of things that a reader took out or changed; "empty leaves: *T*" is one kind of the empty leaves."""


@dataclass(frozen=True, kw_only=True)
class ReadOptions:
    """How trees are read where forms leave a choice.

    Attributes:
        discontinuous: what becomes of constituents of several blocks: children outside the head's block are
            raised to the parent, each block becomes a constituent, or the sentence is left out.
        punctuation: whether punctuation on the root moves to the lowest constituent around it.
        surface: of dependencies: words as they are written, not syntactic words.
        lemmas: of historical treebanks: whether they stay on the words.
    """

    discontinuous: Discontinuous = "raise"
    punctuation: Literal["move", "root"] = "move"
    surface: bool = False
    lemmas: Literal["cut", "keep"] = "cut"


@dataclass(frozen=True, slots=True)
class Block:
    """The text of a sentence in its file.

    Attributes:
        file: its name.
        line: where the text begins, from 1.
        text: of bytes that cannot be decoded, replacement characters.
        fault: why it cannot be read.
        fault_line: where that shows, if it is not ``line``.
        note: what its file says of how it is read.
    """

    file: str
    line: int
    text: str
    fault: str | None = None
    fault_line: int | None = None
    note: str = ""


@dataclass(frozen=True, slots=True)
class ReadTree:
    """A tree of a block.

    Attributes:
        tree: as the form has it; what normalizing takes off may be on.
        written: the sentence's own string, if the form has it.
        heads: int32 (n), of each word its head word, -1 of the root; of dependencies alone. No arcs cross.
    """

    tree: Tree
    written: str | None = None
    heads: NDArray[np.int32] | None = None


@dataclass(frozen=True, slots=True)
class Excluded:
    """A sentence that is left out by rule, and is no error."""

    reason: str


Read = Callable[[Block, ReadOptions, Counts], Sequence[ReadTree | Excluded]]


@dataclass(frozen=True, kw_only=True)
class Form:
    """One form of treebank.

    Attributes:
        name: what it is called, also on the command line, if ``option`` is not given.
        title: what messages call it.
        suffixes: of its files in folders and archives.
        looks_like: whether the beginning of a file is of this form.
        cut: the blocks of a file.
        read: the trees of a block. Raises InputError, with a line of the block (from 1), if it is bad.
        option: what it is read with, if that is the name of others too.
    """

    name: str
    title: str
    suffixes: tuple[str, ...]
    looks_like: Callable[[str], bool]
    cut: Callable[[str], Iterator[Block]]
    read: Read
    option: str | None = None

    def blocks(self, file: str) -> Iterator[Block]:
        """The blocks of a file; one with a fault, if it has none."""
        empty = True
        for block in self.cut(file):
            empty = False
            yield block
        if empty:
            yield Block(file, 1, "", f"no sentences of {self.title} in this file")


def read_block(
    form: Form, block: Block, options: ReadOptions, counts: Counts
) -> list[ReadTree | LeftOut | Excluded]:
    """The trees of a block, or why there are none."""
    reason, line = block.fault, block.fault_line
    if reason is None:
        try:
            own = Counts()
            found = form.read(block, options, own)
            counts.update(own)
            return list(found)
        except InputError as error:
            reason = error.reason
            line = None if error.line is None else block.line + error.line - 1
    return [LeftOut(reason, block.file, line or block.line, block.text)]


# --- what readers share -------------------------------------------------------------------------


def leaf(word: str, line: int | None = None) -> str:
    """A word as a leaf: brackets escaped, blanks as no-break spaces.

    Raises:
        InputError: if it cannot be a word of a tree.
    """
    if " " in word or not word.isprintable() or not word:
        word = _BLANK.sub("\u00a0", word)
        problem = word_problem(word)  # of an empty one too
        if problem is not None:
            raise InputError(problem, line=line)
    return escape(word) if "(" in word or ")" in word or "{" in word or "}" in word else word


@lru_cache(maxsize=4096)
def leaf_label(label: str) -> str:
    """A tag or label as brackets can hold it."""
    label = label.replace("(", "*LRB*").replace(")", "*RRB*")  # "$-LRB-" would have a function tag
    return _BLANK.sub("_", label) if label else "X"


def lines_of(file: str) -> Iterator[tuple[int, bytes]]:
    """The lines of a file as bytes, with their numbers (from 1); of very long ones parts.

    A byte order mark is left out.

    Raises:
        InputError: if it cannot be read, or holds no text.
    """
    lines = read_line_parts(file, _PART_BYTES)
    for number, line in lines:
        yield number, line.removeprefix(_BYTE_ORDER_MARK)
        break
    yield from lines


def make_block(file: str, line: int, parts: list[bytes], fault: str | None = None, note: str = "") -> Block:
    """A block of lines; it has a fault, if they cannot be decoded."""
    data = b"".join(parts)
    try:
        text = decode_utf8(data, file, line)
        fault_line = None
    except InputError as error:
        text, fault_line = data.decode("utf-8", errors="replace"), error.line
        fault = fault or error.reason + ("" if error.hint is None else f" ({error.hint})")
    return Block(file, line, text.replace("\r\n", "\n").rstrip("\n"), fault, fault_line, note)


class Gathering:
    """The lines of a block that has not ended yet; given up once they are too many."""

    def __init__(self, file: str) -> None:
        self.file = file
        self.first = 0
        self.parts: list[bytes] = []
        self.size = 0

    def __bool__(self) -> bool:
        return bool(self.parts)

    def add(self, number: int, part: bytes) -> None:
        """A line more."""
        if not self.parts:
            self.first, self.size = number, 0
        self.size += len(part)
        if self.size <= MAX_TREE_CHARS:
            self.parts.append(part)

    def block(self, fault: str | None = None, note: str = "") -> Block:
        """The block that they are; it begins anew."""
        if self.size > MAX_TREE_CHARS:
            fault = TOO_LONG
        made = make_block(self.file, self.first, self.parts, fault, note)
        self.parts = []
        return made
