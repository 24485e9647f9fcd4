"""Penn's brackets with an id before each tree, with words in brackets of their own, or with lemmas.

``12<TAB>(S (NP (NN dog)) …)``; as in the Indonesian treebank, ``(S (NP (NN (dog house))) (VP (*-1)))``: there
the innermost brackets are words, including blanks, and empty leaves are recognized by form and label; as in
CESS and AnCora, ``(sn (da0fs0 la el) (ncfs000 casa casa))``: there a lemma follows each word.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import replace

from pdtools.errors import InputError
from pdtools.trees.forms.form import (
    CLOSED_TOO_OFTEN,
    UNBALANCED,
    Counts,
    Form,
    ReadOptions,
    ReadTree,
    TreeText,
    cut_brackets,
)
from pdtools.trees.transforms import WRAPPERS, is_empty_leaf, refused_form
from pdtools.trees.tree import BRACKET_TOKEN, TRACE_TAG, TreeBuilder, leaf

_ID = re.compile(r"^\s*[0-9]+[a-z]?[ \t]+(?=\()", re.MULTILINE)
_NUMBERED = re.compile(r"\s*[0-9]+[ \t]+\(\s*[^\s()]*\s*\(")
_INNERMOST = re.compile(r"\(([^()]*)\)")
_IN_BRACKETS = "words in brackets"
_WITH_LEMMAS = "lemmas after words"
_LEMMA_SHARE = 0.95  # least share of words that one more token follows
_SAME_SHARE = 0.1  # least share of words that are repeated, as they are by lemmas alone
_PAIR = re.compile(r"\(\s*([^\s()]+)\s*\(\s*[^\s()]+\s*\)")  # a bracket that begins with a word in brackets
_OUTER = re.compile(r"\(\s*([^\s()]+)\s*\(")
_LEMMA = re.compile(r"\(\s*([^\s()]+)\s+([^\s()]+)\s+[^\s()]+\s*\)")
_ELLIPSIS = re.compile(r"\(\s*[^\s()]+\s+(\*-?0-?\*)\s*\)")
_PARENTHESES = {"-Fpa-": "-LRB-", "-Fpt-": "-RRB-"}
# A tag with its word; a word alone; an opening bracket with its label; a closing bracket; a bare token.
_TOKEN = re.compile(
    r"\(\s*([^\s()]+)\s*\(\s*([^()]*?)\s*\)\s*\)|\(\s*([^()]*?)\s*\)|(\()\s*([^\s()]*)|(\))|([^\s()]+)"
)


def _leaves_of(text: str) -> str:
    """The form of leaves that differs from Penn's, judged by the innermost brackets; else an empty string.

    Most hold one token, after a tag: words in brackets. Nearly all hold a tag, which labels no constituent,
    and two tokens, which are sometimes the same, as a word is that is its own lemma: lemmas after words.
    """
    tokens = [each.split() for each in _INNERMOST.findall(text)]
    tagged = any(label not in WRAPPERS for label in _PAIR.findall(text))  # unlike failed parses: (TOP (S ))
    if tagged and 2 * sum(len(each) == 1 for each in tokens) > len(tokens):
        return _IN_BRACKETS
    tokens = [each for each in tokens if "*" not in "".join(each)]
    constituents = {*_OUTER.findall(text)}
    threes = [each for each in tokens if len(each) == 3 and each[0] not in constituents]
    own_lemmas = sum(word.lower() == lemma.lower() for _, word, lemma in threes)
    if threes and len(threes) >= _LEMMA_SHARE * len(tokens) and own_lemmas >= _SAME_SHARE * len(tokens):
        return _WITH_LEMMAS
    return ""


def _without_lemma(match: re.Match[str]) -> str:
    return f"({match[1]} {_PARENTHESES.get(match[2], match[2])})"


def _looks_like(text: str) -> bool:
    return _NUMBERED.match(text) is not None or has_other_leaves(text)


def has_other_leaves(text: str) -> bool:
    """Return whether words have brackets of their own, or lemmas after them."""
    return text.lstrip().startswith("(") and _leaves_of(text) != ""


def _cut(file: str) -> Iterator[TreeText]:
    """Cut a file into trees, or lines of several, noting the form of leaves in the whole file."""
    blocks = list(cut_brackets(file))
    note = _leaves_of("\n".join(block.text for block in blocks))
    return (replace(block, note=note) for block in blocks)


def _read(block: TreeText, options: ReadOptions, counts: Counts) -> list[ReadTree | str]:
    text, n_ids = _ID.subn("", block.text)
    if n_ids:
        counts["ids before trees left out"] += n_ids
    in_brackets = block.note == _IN_BRACKETS
    if block.note == _WITH_LEMMAS:
        text, n_lemmas = _LEMMA.subn(_without_lemma, text)
        counts["lemmas left out"] += n_lemmas
        text = _ELLIPSIS.sub(rf"({TRACE_TAG} \1)", text)
    found: list[ReadTree | str] = []
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
    if word is not None and tag not in WRAPPERS:
        _leaf(builder, tag, word)
    elif word is not None or (alone is not None and builder.label in WRAPPERS):  # a failed parse: (TOP (S ))
        builder.open(tag or "")
        builder.close()
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
    title="Penn brackets with ids before trees, words in brackets, or lemmas after words",
    option="treebank",
    suffixes=(),
    looks_like=_looks_like,
    cut=_cut,
    read=_read,
)
