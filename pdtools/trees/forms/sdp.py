"""The graphs of semantic dependency parsing (Oepen et al. 2014, 2015): ``.sdp`` files, DM, PAS and PSD.

Columns: id, form, lemma, pos, top, pred, in 2015 frame, and an argument column for each word whose pred is
``+``, in order: what is not ``_`` there is an arc from that word. A top hangs on the root.
"""

from __future__ import annotations

import re

from pdtools.errors import InputError
from pdtools.trees.forms.base import (
    Block,
    Counts,
    ExcludedByRule,
    Form,
    ReadOptions,
    ReadTree,
    graph_of,
    leaf,
    leaf_label,
)
from pdtools.trees.forms.conllu import cut_at_blank_lines
from pdtools.trees.tree import flat_tree

_ROW = re.compile(r"[0-9]+\t[^\t]+\t[^\t]*\t[^\t]*\t[+-]\t[+-](\t|$)")
_BEFORE_ARGUMENTS = 6


def _looks_like(text: str) -> bool:
    return next(
        (_ROW.match(line) is not None for line in text.splitlines() if line[:1] not in ("", "#")), False
    )


def _read(block: Block, options: ReadOptions, counts: Counts) -> list[ReadTree | ExcludedByRule]:
    words: list[str] = []
    tags: list[str] = []
    tops: list[int] = []
    predicates: list[int] = []
    arguments: list[tuple[int, list[str]]] = []  # for each word its line, and the columns after pred
    for number, line in enumerate(block.text.split("\n"), 1):
        columns = line.split("\t")
        if line[:1] == "#" and len(columns) < _BEFORE_ARGUMENTS:
            continue
        if not _ROW.match(line):
            raise InputError("no id, form, lemma, pos, top and pred (+ or -) between tabs", line=number)
        words.append(leaf(columns[1], number))
        tags.append(leaf_label(columns[3]))
        if columns[0] != str(len(words)):
            raise InputError(f"word {columns[0]} where word {len(words)} is to come", line=number)
        if columns[4] == "+":
            tops.append(len(words))
        if columns[5] == "+":
            predicates.append(len(words))
        arguments.append((number, columns[_BEFORE_ARGUMENTS:]))
    if not words:
        return []  # comments alone
    n_more = len(arguments[0][1]) - len(predicates)  # 1 with a frame
    arcs = [(0, top) for top in tops]
    for k, (number, columns) in enumerate(arguments, 1):
        if n_more not in (0, 1) or len(columns) != n_more + len(predicates):
            wanted = _BEFORE_ARGUMENTS + len(predicates)
            wants = f"{wanted + n_more}" if n_more in (0, 1) else f"{wanted}, or {wanted + 1} with frames"
            reason = f"{_BEFORE_ARGUMENTS + len(columns)} columns between tabs"
            raise InputError(f"{reason}: with {len(predicates)} words of pred + {wants}", line=number)
        arcs += [(p, k) for p, label in zip(predicates, columns[n_more:], strict=True) if label != "_"]
    graph = graph_of(len(words), arcs, counts)
    return [ReadTree(flat_tree(words, tags), graph=graph)]


FORM = Form(
    name="sdp",
    title="SDP",
    suffixes=(".sdp",),
    looks_like=_looks_like,
    cut=cut_at_blank_lines,
    read=_read,
)
