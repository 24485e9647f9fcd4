"""CoNLL-U, its predecessor CoNLL-X and CoNLL-U Plus: dependencies, converted to constituents.

A file of CoNLL-U Plus, such as PARSEME's ``.cupt``, names its columns in a comment, ``# global.columns``.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from functools import lru_cache

import numpy as np

from pdtools.errors import InputError
from pdtools.trees.forms.form import (
    Counts,
    Form,
    Gathering,
    ReadOptions,
    ReadTree,
    TreeText,
    graph_of,
    lines_of,
)
from pdtools.trees.graphs import Graph
from pdtools.trees.projection import constituents, depths
from pdtools.trees.transforms import TRACE_TAGS
from pdtools.trees.tree import leaf, unescape

_COLUMNS = "ID FORM LEMMA UPOS XPOS FEATS HEAD DEPREL DEPS MISC"
_NAMES = re.compile(r"^#[ \t]*global\.columns[ \t]*=(.*)", re.MULTILINE)
_FIRST_COLUMNS = re.compile(r"[0-9]+(?:[-.][0-9]+)?\t")
_TEXT = re.compile(r"#[ \t]*text[ \t]*=(.*)")
_GLUED = "SpaceAfter=No"
_MOST_DIGITS = 9
_NODE = re.compile(r"[0-9]{1,9}(\.[0-9]{1,9})?")
_RANGE = re.compile(r"([0-9]{1,9})-([0-9]{1,9})")


def _looks_like(text: str) -> bool:
    for line in text.split("\n"):
        if _NAMES.match(line):
            return True
        if line.strip() and not line.startswith("#"):
            return line.count("\t") == _COLUMNS.count(" ") and _FIRST_COLUMNS.match(line) is not None
    return False


def cut_at_blank_lines(file: str) -> Iterator[TreeText]:
    """The blocks of a file in which sentences end at blank lines."""
    open_block = Gathering(file)
    for number, line in lines_of(file):
        if line.strip():
            open_block.add(number, line)
        elif open_block:
            yield open_block.block()
    if open_block:
        yield open_block.block()


def _cut(file: str) -> Iterator[TreeText]:
    """The blocks of a file; the note of each is the names of its columns, if the file gives them."""
    names = ""
    for block in cut_at_blank_lines(file):
        if "global.columns" in block.text and (found := _NAMES.search(block.text)):
            names = found[1]
        yield replace(block, note=names) if names else block


@lru_cache(maxsize=64)
def _places(names: str, heads_needed: bool) -> tuple[int, ...]:
    """The number of columns, and the places of those that are read; -1 of one that a file does not have."""
    columns = names.split()
    for needed in ("ID", "FORM", "HEAD")[: 3 if heads_needed else 2]:
        if needed not in columns:
            raise InputError(f"# global.columns names no column {needed}")
    read = ("ID", "FORM", "UPOS", "HEAD", "DEPREL", "DEPS", "MISC")
    return len(columns), *(columns.index(name) if name in columns else -1 for name in read)


@dataclass(slots=True)
class ConlluSentence:
    """The lines of a sentence, n syntactic words.

    Attributes:
        words: (n) as leaves.
        tags: (n) universal parts of speech.
        heads: (n) words' numbers, 0 is the root; -1 if there is none.
        relations: (n) of words to their heads; ``_`` if there is none.
        enhanced: arcs of the enhanced graph between words, head and dependent.
        ranges: words that stand for several: the first and last of these, and their form as a leaf.
        glued: words with no blank after them.
        text: as it was written, if the file says so.
        n_empty: empty nodes.
        n_of_empty: enhanced arcs from them.
    """

    words: list[str] = field(default_factory=list)
    tags: list[str] = field(default_factory=list)
    heads: list[int] = field(default_factory=list)
    relations: list[str] = field(default_factory=list)
    enhanced: list[tuple[int, int]] = field(default_factory=list)
    ranges: list[tuple[int, int, str]] = field(default_factory=list)
    glued: set[int] = field(default_factory=set)
    text: str | None = None
    n_empty: int = 0
    n_of_empty: int = 0


def read_sentence(block: TreeText, *, heads_needed: bool = True) -> ConlluSentence:
    """The sentence of a block; it has no words if there are comments alone.

    Args:
        block: the block.
        heads_needed: whether a missing head (``_``) is an error.

    Raises:
        InputError: if it is bad, with a line of the block. Heads may form no tree.
    """
    found = ConlluSentence()
    words = found.words
    n_columns, id_, form, upos, head, relation, deps, misc = _places(block.note or _COLUMNS, heads_needed)
    for number, line in enumerate(block.text.split("\n"), 1):
        if line[:1] == "#":
            if text := _TEXT.match(line):
                found.text = text[1].strip() or None
            continue
        columns = line.split("\t")
        if len(columns) != n_columns:
            reason = f"{len(columns)} columns between tabs, not {n_columns}: cut off, or not CoNLL-U"
            raise InputError(reason, line=number)
        columns.append("_")  # for columns that the file does not have
        place = columns[id_]
        if place == str(len(words) + 1):
            own = columns[head]
            if own.isdecimal() and own.isascii() and len(own) <= _MOST_DIGITS:
                found.heads.append(int(own))
            elif own == "_" and not heads_needed:
                found.heads.append(-1)
            else:
                reason = f"the head of word {place} is {own[:20]!r}, no number of a word"
                raise InputError(reason, line=number)
            if columns[upos] in TRACE_TAGS:
                raise InputError(f"the tag {columns[upos]} of word {place} is for empty words", line=number)
            words.append(leaf(columns[form], number))
            found.tags.append(columns[upos])
            found.relations.append(columns[relation])
            if columns[deps] != "_":
                _add_enhanced(found, columns[deps], number)
            if _GLUED in columns[misc].split("|"):
                found.glued.add(len(words))
        elif _NODE.fullmatch(place):
            if "." not in place:
                raise InputError(f"word {place} where word {len(words) + 1} is to come", line=number)
            found.n_empty += 1
        elif several := _RANGE.fullmatch(place):
            found.ranges.append((int(several[1]), int(several[2]), leaf(columns[form], number)))
            if _GLUED in columns[misc].split("|"):
                found.glued.add(found.ranges[-1][1])
        else:
            raise InputError(f"the column ID has {place[:20]!r}, no number of a word", line=number)
    n = len(words)
    if not n and (found.ranges or found.n_empty):
        raise InputError("no words")
    for k, head_of in enumerate(found.heads):
        if head_of > n:
            raise InputError(f"the head of word {k + 1} is {head_of}, but there are {n} words")
    _check_ranges(found.ranges, n)
    return found


def _add_enhanced(found: ConlluSentence, column: str, line: int) -> None:
    """The enhanced arcs to the last word so far, such as ``2:nsubj|5.1:conj``; each head once."""
    heads = dict.fromkeys(arc.partition(":")[0] for arc in column.split("|"))
    for head in heads:
        if not _NODE.fullmatch(head):
            reason = f"the enhanced head of word {len(found.words)} is {head[:20]!r}, no number"
            raise InputError(reason, line=line)
        if "." in head:
            found.n_of_empty += 1
        else:
            found.enhanced.append((int(head), len(found.words)))


def _read(block: TreeText, options: ReadOptions, counts: Counts) -> list[ReadTree | str]:
    found = read_sentence(block, heads_needed=not options.enhanced)
    words, tags, ranges, glued = found.words, found.tags, found.ranges, found.glued
    if not words:
        return []  # comments alone
    parents = [max(head, 0) - 1 for head in found.heads]  # words without heads become roots
    n_roots = found.heads.count(0)
    enhanced = found.enhanced
    if ranges and options.surface:
        outer = ((h, d, _place(h, ranges), _place(d, ranges)) for h, d in enhanced)
        enhanced = [(head, dependent) for h, d, head, dependent in outer if head != dependent or h == d]
        words, tags, parents = _merged(words, tags, parents, depths(parents), ranges)
        glued = {k for k in glued if not any(first <= k < last for first, last, _ in ranges)}
        glued = {_place(k, ranges) for k in glued}
    if words[0] == "_" and {*words} == {"_"}:
        raise InputError("all of its words are _: first add the treebank's text, which is distributed apart")
    heads = np.array(parents) + 1
    tree, n_lifted = constituents(words, tags, parents)
    if options.enhanced:
        if not (found.enhanced or found.n_of_empty):
            raise InputError("no enhanced dependencies in the column DEPS")
        graph = graph_of(len(words), enhanced, counts)
        counts["enhanced arcs from empty nodes left out"] += found.n_of_empty
    else:
        graph = Graph.of_heads(heads)
    text = found.text
    if text is None or not _are_words_of(words, text):
        counts[f"sentences {'without text' if text is None else 'whose text has other words'}"] += 1
        text = "".join(word + ("" if k in glued else " ") for k, word in enumerate(_plain(words), 1)).strip()
    if found.n_empty:
        counts["empty nodes left out"] += found.n_empty
    if ranges:
        counts["words of several syntactic words"] += len(ranges)
    if n_roots > 1:
        counts["sentences with several roots"] += 1
    if n_without := found.heads.count(-1):
        counts["words without a head"] += n_without
    if n_lifted:
        counts["arcs lifted"] += n_lifted
        counts["sentences with lifted arcs"] += 1
    return [ReadTree(tree, text, np.array(parents, dtype=np.int32), graph)]


def _check_ranges(ranges: list[tuple[int, int, str]], n: int) -> None:
    past = 1
    for first, last, _ in ranges:
        if not past <= first <= last <= n:
            raise InputError(f"the range {first}-{last} does not lie within the sentence, or in another one")
        past = last + 1


def _place(k: int, ranges: list[tuple[int, int, str]]) -> int:
    """The number that word k has when ranges are words."""
    return k - sum(min(last, k) - first for first, last, _ in ranges if first <= k)


def _plain(words: list[str]) -> list[str]:
    return [unescape(word).replace("\u00a0", " ") for word in words]


def _are_words_of(words: list[str], text: str) -> bool:
    """Return whether words are exactly a text's words, in order, with nothing but blanks between them."""
    at = 0
    for word in words:
        if not text.startswith(word, at):
            while text[at : at + 1].isspace():
                at += 1
            if not text.startswith(word, at):
                word = unescape(word)
                if not text.startswith(word, at):
                    word = word.replace("\u00a0", " ")
                    if not text.startswith(word, at):
                        return False
        at += len(word)
    return at == len(text)


def _merged(
    words: list[str],
    tags: list[str],
    parents: list[int],
    depths_of: list[int],
    ranges: list[tuple[int, int, str]],
) -> tuple[list[str], list[str], list[int]]:
    """Merge each range into one word, with tag and head of its top member, and all dependents."""
    starts = {first - 1: (last, form) for first, last, form in ranges}
    place = [0] * len(words)  # index of each word among the new ones
    kept: list[int] = []  # for each new word, the old one whose tag and head it has
    forms: list[str] = []
    k = 0
    while k < len(words):
        past, form = starts.get(k, (k + 1, words[k]))
        place[k:past] = [len(kept)] * (past - k)
        kept.append(min(range(k, past), key=lambda i: (depths_of[i], i)))
        forms.append(form)
        k = past
    heads = [parents[i] for i in kept]
    return forms, [tags[i] for i in kept], [-1 if head < 0 else place[head] for head in heads]


FORM = Form(
    name="conllu",
    title="CoNLL-U",
    suffixes=(".conllu", ".conll", ".conllup", ".cupt"),
    looks_like=_looks_like,
    cut=_cut,
    read=_read,
)
