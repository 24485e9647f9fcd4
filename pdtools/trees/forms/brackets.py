"""Code shared by forms made of brackets: a file cut where brackets balance, and a text as nodes."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, field

from pdtools.errors import InputError
from pdtools.trees.forms.base import Block, Gathering, lines_of, make_block

UNBALANCED = "unbalanced brackets: not closed"
CLOSED_TOO_OFTEN = "unbalanced brackets: closed too often"
_BEGINNING = re.compile(rb"\s*(?:[0-9]+[a-z]?[ \t]+)?\(")  # of a tree, perhaps after an id
# A whole preterminal; an opening bracket with its label; a closing bracket; a bare token.
TOKEN = re.compile(r"\(\s*([^\s()]+)\s+([^\s()]+)\s*\)|(\()\s*([^\s()]*)|(\))|([^\s()]+)")


_INDEX = re.compile(r"(?<=\*)-.*")


def kind_of_empty(leaf: str) -> str:
    """The kind of an empty leaf: of ``*T*-1`` and ``*arb*-D`` the stars and what they hold."""
    return _INDEX.sub("", leaf)


def cut_brackets(file: str) -> Iterator[Block]:
    """Lines up to where brackets balance; a tree that never closes ends where the next seems to begin.

    That is at an opening bracket that begins a line and follows a blank one.
    """
    open_block = Gathering(file)
    depth = 0
    after_blank = True
    for number, line in lines_of(file):
        if not line.strip():
            after_blank = True
            continue
        if open_block and after_blank and line[:1] == b"(":
            yield open_block.block(UNBALANCED)
            depth = 0
        after_blank = False
        if not (open_block or _BEGINNING.match(line)):
            yield make_block(file, number, [line], "text between trees")
            continue
        open_block.add(number, line)
        depth += line.count(b"(") - line.count(b")")
        if depth <= 0:
            yield open_block.block(CLOSED_TOO_OFTEN if depth < 0 else None)
            depth = 0
    if open_block:
        yield open_block.block(UNBALANCED)


@dataclass(slots=True)
class Bracket:
    """A bracket with its label, and what is in it: words and brackets."""

    label: str
    children: list[Bracket | str] = field(default_factory=list)


def brackets(text: str) -> list[Bracket]:
    """The outermost brackets of a text; what stands between them is an error.

    Raises:
        InputError: with a line from 1, if they do not balance.
    """
    top = Bracket("")
    path = [top]
    for match in TOKEN.finditer(text):
        tag, word, opening, label, closing, bare = match.groups()
        if word is not None:
            path[-1].children.append(Bracket(tag, [word]))
        elif opening:
            node = Bracket(label)
            path[-1].children.append(node)
            path.append(node)
        elif closing:
            path.pop()
            if not path:
                raise InputError(CLOSED_TOO_OFTEN)
        elif len(path) == 1:
            if bare.strip("\ufeff"):
                raise InputError("text between trees", line=text.count("\n", 0, match.start()) + 1)
        else:
            path[-1].children.append(bare)
    if len(path) > 1:
        raise InputError(UNBALANCED)
    return [child for child in top.children if isinstance(child, Bracket)]
