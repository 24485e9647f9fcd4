"""Penn's brackets with an id before each tree, or with words in brackets of their own.

``12<TAB>(S (NP (NN dog)) …)`` and, as in the Indonesian treebank, ``(S (NP (NN (dog house))) (VP (*-1)))``:
there the innermost brackets are words, including blanks, and empty leaves are recognized by form and label.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import replace

from pdtools.errors import InputError
from pdtools.trees.forms.base import Block, Counts, ExcludedByRule, Form, ReadOptions, ReadTree, leaf
from pdtools.trees.forms.brackets import CLOSED_TOO_OFTEN, UNBALANCED, cut_brackets
from pdtools.trees.refused import is_empty_leaf, refused_form
from pdtools.trees.transforms import TRACE_TAG
from pdtools.trees.tree import BRACKET_TOKEN, TreeBuilder

_ID = re.compile(r"^\s*[0-9]+[a-z]?[ \t]+(?=\()", re.MULTILINE)
_NUMBERED = re.compile(r"\s*[0-9]+[ \t]+\(\s*[^\s()]*\s*\(")
_INNERMOST = re.compile(r"\(([^()]*)\)")
_IN_BRACKETS = "words in brackets"
# A tag with its word; a word alone; an opening bracket with its label; a closing bracket; a bare token.
_TOKEN = re.compile(
    r"\(\s*([^\s()]+)\s*\(\s*([^()]*?)\s*\)\s*\)|\(\s*([^()]*?)\s*\)|(\()\s*([^\s()]*)|(\))|([^\s()]+)"
)


def _has_words_in_brackets(text: str) -> bool:
    """Return whether most innermost brackets hold one token: elsewhere they hold a tag too."""
    inner = _INNERMOST.findall(text)
    return 2 * sum(len(each.split()) == 1 for each in inner) > len(inner) > 0


def _looks_like(text: str) -> bool:
    if _NUMBERED.match(text):
        return True
    return text.lstrip().startswith("(") and _has_words_in_brackets(text)


def _cut(file: str) -> Iterator[Block]:
    """Cut a file into trees, or lines of several, noting whether words in the whole file have brackets."""
    blocks = list(cut_brackets(file))
    note = _IN_BRACKETS if _has_words_in_brackets("\n".join(block.text for block in blocks)) else ""
    return (replace(block, note=note) for block in blocks)


def _read(block: Block, options: ReadOptions, counts: Counts) -> list[ReadTree | ExcludedByRule]:
    text, n_ids = _ID.subn("", block.text)
    if n_ids:
        counts["ids before trees left out"] += n_ids
    in_brackets = block.note == _IN_BRACKETS
    found: list[ReadTree | ExcludedByRule] = []
    builder: TreeBuilder | None = None
    for match in (_TOKEN if in_brackets else BRACKET_TOKEN).finditer(text):
        if builder is None:
            if match[0][0] != "(":
                raise InputError(CLOSED_TOO_OFTEN if match[0] == ")" else "text between trees")
            builder = TreeBuilder()
        if in_brackets:
            _feed(builder, match)
        else:
            builder.feed(match)
        if builder.depth == 0:
            if builder.fault is not None:
                raise InputError(builder.fault)
            tree = builder.finish()
            if (refused := refused_form(tree)) is not None:
                raise InputError(refused[0])
            found.append(ReadTree(tree))
            builder = None
    if builder is not None:
        raise InputError(UNBALANCED)
    return found


def _feed(builder: TreeBuilder, match: re.Match[str]) -> None:
    tag, word, alone, opening, label, closing, bare = match.groups()
    if word is not None:
        _leaf(builder, tag, word)
    elif alone is not None:
        _leaf(builder, "", alone)
    elif opening:
        builder.open(label)
    elif closing:
        builder.close()
    else:
        builder.word(leaf(bare))


def _leaf(builder: TreeBuilder, tag: str, word: str) -> None:
    """Add a word in brackets, alone under its tag or beside others; or an empty leaf, which gets its tag."""
    if tag:
        builder.open(tag)
    if word and is_empty_leaf(tag or builder.label, word):
        builder.open(TRACE_TAG)
        builder.word(word)
        builder.close()
    else:
        builder.word(leaf(word))
    if tag:
        builder.close()


FORM = Form(
    name="penn-loose",
    title="Penn brackets with ids before trees, or with words in brackets",
    option="treebank",
    suffixes=(),
    looks_like=_looks_like,
    cut=_cut,
    read=_read,
)
