"""Code shared by bracketed forms: cutting a file where brackets balance, and the tokens of brackets."""

from __future__ import annotations

import re
from collections.abc import Iterator

from pdtools.trees.forms.form import Gathering, TreeText, lines_of, make_block
from pdtools.trees.reader import MAX_TREE_CHARS

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
