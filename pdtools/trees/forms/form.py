"""The interface of treebank formats: files are cut into blocks, and a block is read as trees.

A block is the text of one sentence (in some forms, of a few). Cutting is quick and in order; reading is
slow, and any process can do it. A form is a record of the two, and of how it is recognised.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from pdtools.errors import InputError
from pdtools.files import ExcludedInput, Rejects, decode_utf8, read_line_parts
from pdtools.trees.graphs import Graph
from pdtools.trees.reader import MAX_TREE_CHARS
from pdtools.trees.tree import Tree

TOO_LONG = f"a sentence of more than {MAX_TREE_CHARS:,} bytes, or one that never ends"
_BYTE_ORDER_MARK = b"\xef\xbb\xbf"
_PART_BYTES = 1 << 20
EMPTY_LEAVES = "empty leaves left out: "
Discontinuous = Literal["raise", "split", "skip"]
Counts = Counter[str]
"""Counts of things that a reader removed or changed; "empty leaves: *T*" is one kind of empty leaves."""


@dataclass(frozen=True, kw_only=True)
class ReadOptions:
    """Options for forms that leave a choice of how trees are read.

    Attributes:
        discontinuous: treatment of constituents with several blocks: children outside the head's block are
            raised to the parent, each block becomes a constituent, or the sentence is excluded.
        punctuation: whether punctuation on the root moves to the lowest constituent around it.
        surface: for dependencies: words as they are written, not syntactic words.
        enhanced: for dependencies: the graph is the enhanced one, not the tree's.
        lemmas: for historical treebanks: whether they stay on the words.
    """

    discontinuous: Discontinuous = "raise"
    punctuation: Literal["move", "root"] = "move"
    surface: bool = False
    enhanced: bool = False
    lemmas: Literal["cut", "keep"] = "cut"


@dataclass(frozen=True, slots=True)
class TreeText:
    """The text of a sentence, with its place in a file.

    Attributes:
        file: the file's name.
        line: the line, from 1, on which the text begins.
        text: the text; bytes that cannot be decoded are replacement characters.
        fault: the reason why it cannot be read.
        fault_line: the line of the fault, if it is not ``line``.
        note: a note about the file as a whole.
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
        tree: the tree in the form's own terms, perhaps with material that normalizing removes.
        written: the sentence's own string, if the form has it.
        heads: int32 (n), of each word its head, -1 of a root; of dependency trees alone. No arcs cross.
        graph: for dependencies alone: their arcs, as the form has them.
    """

    tree: Tree
    written: str | None = None
    heads: NDArray[np.int32] | None = None
    graph: Graph | None = None


@dataclass(frozen=True, slots=True)
class ExcludedByRule:
    """A sentence that is excluded by rule, and is no error."""

    excluded: ExcludedInput


# Why a sentence is excluded by rule is a string.
Read = Callable[[TreeText, ReadOptions, Counts], Sequence[ReadTree | str]]


@dataclass(frozen=True, kw_only=True)
class Form:
    """One form of treebank.

    Attributes:
        name: its name, also on the command line if ``option`` is not given.
        title: its name in messages.
        suffixes: endings of its files in folders and archives.
        looks_like: whether the beginning of a file is of this form.
        cut: the blocks of a file.
        read: the trees of a block. Raises InputError, with a line of the block (from 1), if it is bad.
        option: its name on the command line, if several forms share one.
    """

    name: str
    title: str
    suffixes: tuple[str, ...]
    looks_like: Callable[[str], bool]
    cut: Callable[[str], Iterator[TreeText]]
    read: Read
    option: str | None = None

    def blocks(self, file: str) -> Iterator[TreeText]:
        """The blocks of a file; if there are none, one block with a fault."""
        empty = True
        for block in self.cut(file):
            empty = False
            yield block
        if empty:
            yield TreeText(file, 1, "", f"no sentences of {self.title} in this file")


def read_block(
    form: Form, block: TreeText, options: ReadOptions, counts: Counts
) -> list[ReadTree | ExcludedInput | ExcludedByRule]:
    """The trees of a block, or the reason why there are none."""
    reason, line = block.fault, block.fault_line
    if reason is None:
        try:
            own = Counts()
            found = form.read(block, options, own)
            counts.update(own)
            return [
                ExcludedByRule(ExcludedInput(each, block.file, block.line, block.text))
                if isinstance(each, str)
                else each
                for each in found
            ]
        except InputError as error:
            reason = error.reason
            line = None if error.line is None else block.line + error.line - 1
    return [ExcludedInput(reason, block.file, line or block.line, block.text)]


def record_excluded(found: ExcludedInput | ExcludedByRule, rejects: Rejects) -> None:
    """Record what has no tree.

    Raises:
        InputError: see :meth:`Rejects.add`.
    """
    if isinstance(found, ExcludedByRule):
        rejects.exclude(**asdict(found.excluded))
    else:
        rejects.add(**asdict(found))


# --- what readers share -------------------------------------------------------------------------


def graph_of(n_words: int, arcs: Sequence[tuple[int, int]], counts: Counts) -> Graph:
    """The graph of arcs (head, dependent) without self-loops; these, and parts that are no tree, are counted.

    Raises:
        InputError: for an arc to the root, or outside of the sentence.
    """
    kept = [arc for arc in arcs if arc[0] != arc[1]]
    graph = Graph.of(n_words, [head for head, _ in kept], [dependent for _, dependent in kept])
    counts["self-loops left out"] += len(arcs) - len(kept)
    counts["graphs with several roots"] += graph.n_roots > 1
    counts["graphs with cycles"] += graph.has_cycle
    counts["graphs with crossing arcs"] += graph.n_crossings > 0
    return graph


def lines_of(file: str) -> Iterator[tuple[int, bytes]]:
    """The lines of a file as bytes, with their numbers (from 1); very long ones in parts.

    A byte order mark is removed.

    Raises:
        InputError: if it cannot be read, or holds no text.
    """
    lines = read_line_parts(file, _PART_BYTES)
    for number, line in lines:
        yield number, line.removeprefix(_BYTE_ORDER_MARK)
        break
    yield from lines


def make_block(
    file: str, line: int, parts: list[bytes], fault: str | None = None, note: str = ""
) -> TreeText:
    """Make a block of lines; it has a fault if they cannot be decoded."""
    data = b"".join(parts)
    try:
        text = decode_utf8(data, file, line)
        fault_line = None
    except InputError as error:
        text, fault_line = data.decode("utf-8", errors="replace"), error.line
        fault = fault or error.fault
    return TreeText(file, line, text.replace("\r\n", "\n").rstrip("\n"), fault, fault_line, note)


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
        """Add a line."""
        if not self.parts:
            self.first, self.size = number, 0
        self.size += len(part)
        if self.size <= MAX_TREE_CHARS:
            self.parts.append(part)

    def block(self, fault: str | None = None, note: str = "") -> TreeText:
        """Make a block of the lines, and begin anew."""
        if self.size > MAX_TREE_CHARS:
            fault = TOO_LONG
        made = make_block(self.file, self.first, self.parts, fault, note)
        self.parts = []
        return made


# --- what bracketed forms share ----------------------------------------------------------------

UNBALANCED = "unbalanced brackets: not closed"
CLOSED_TOO_OFTEN = "unbalanced brackets: closed too often"
_BEGINNING = re.compile(rb"\s*(?:[0-9]+[a-z]?[ \t]+)?\(")  # the beginning of a tree, perhaps after an id
_AT_MARGIN = re.compile(rb"(?:[0-9]+[a-z]?[ \t]+)?\(")
# A whole preterminal; an opening bracket with its label; a closing bracket; a bare token.
TOKEN = re.compile(r"\(\s*([^\s()]+)\s+([^\s()]+)\s*\)|(\()\s*([^\s()]*)|(\))|([^\s()]+)")
_Lines = list[tuple[int, bytes]]


def cut_brackets(file: str) -> Iterator[TreeText]:
    """Cut a file after each line at which brackets balance.

    A tree that does not close ends where a tree begins at the margin after a blank line, at the limit on a
    tree's size, or at the end of the file. Trees that begin at the margin within it are then trees of their
    own, as in files of one tree a line, unless a good tree held such lines.
    """
    open_block = Gathering(file)
    held: _Lines = []  # lines of the open tree
    nests = False  # a good tree held a line that looks like the beginning of one
    depth = 0
    after_blank = True
    for number, line in lines_of(file):
        if not line.strip():
            after_blank = True
            continue
        begins = _AT_MARGIN.match(line) is not None
        too_long = open_block.size > MAX_TREE_CHARS
        if open_block and begins and (after_blank or (too_long and not nests)):
            yield from _unclosed(open_block, held, nests)
            held, depth = [], 0
        elif open_block and too_long:
            held = []  # it is given up
        after_blank = False
        if not (open_block or _BEGINNING.match(line)):
            yield make_block(file, number, [line], "text between trees")
            continue
        open_block.add(number, line)
        held.append((number, line))
        depth += _depth(line)
        if depth <= 0:
            nests |= depth == 0 and any(_AT_MARGIN.match(other) for _, other in held[1:])
            yield open_block.block(CLOSED_TOO_OFTEN if depth < 0 else None)
            held, depth = [], 0
    if open_block:
        yield from _unclosed(open_block, held, nests)


def _depth(line: bytes) -> int:
    return line.count(b"(") - line.count(b")")


def _unclosed(open_block: Gathering, held: _Lines, nests: bool) -> Iterator[TreeText]:
    """Cut a tree that does not close as one block, or into the trees that begin at the margin in it."""
    trees: list[_Lines] = []
    for number, line in held:
        if not trees or _AT_MARGIN.match(line):
            trees.append([])
        trees[-1].append((number, line))
    whole = open_block.block(UNBALANCED)
    if nests or len(trees) < 2:
        yield whole
        return
    for lines in trees:
        depth = sum(_depth(line) for _, line in lines)
        fault = None if depth == 0 else UNBALANCED if depth > 0 else CLOSED_TOO_OFTEN
        yield make_block(open_block.file, lines[0][0], [line for _, line in lines], fault)
