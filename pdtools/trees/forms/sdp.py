"""The graphs of semantic dependency parsing (Oepen et al. 2014, 2015): ``.sdp`` files, DM, PAS and PSD.

Columns: id, form, lemma, pos, top, pred, in 2015 frame, and an argument column for each word whose pred is
``+``, in order: what is not ``_`` there is an arc from that word. A top hangs on the root.
"""

from __future__ import annotations

import re

from pdtools.errors import InputError
from pdtools.trees.forms.conllu import cut_at_blank_lines
from pdtools.trees.forms.form import Counts, Form, ReadOptions, ReadTree, TreeText, graph_of
from pdtools.trees.tree import flat_tree, leaf, leaf_label

_ROW = re.compile(r"[0-9]+\t[^\t]+\t[^\t]*\t[^\t]*\t[+-]\t[+-](\t|$)")
_SIGNS = ("+", "-")
_BEFORE_ARGUMENTS = 6


def _looks_like(text: str) -> bool:
    lines = (line for line in text.split("\n") if line.strip() and line[0] != "#")
    return _ROW.match(next(lines, "")) is not None


def _read(block: TreeText, options: ReadOptions, counts: Counts) -> list[ReadTree | str]:
    words: list[str] = []
    tags: list[str] = []
    arcs: list[tuple[int, int]] = []
    predicates: list[int] = []
    rows: list[tuple[int, list[str]]] = []  # the line of each word, and its columns
    for number, line in enumerate(block.text.split("\n"), 1):
        columns = line.split("\t")
        if line[:1] == "#" and len(columns) < _BEFORE_ARGUMENTS:
            continue
        if len(columns) < _BEFORE_ARGUMENTS or columns[4] not in _SIGNS or columns[5] not in _SIGNS:
            raise InputError("no id, form, lemma, pos, top and pred (+ or -) between tabs", line=number)
        rows.append((number, columns))
        k = len(rows)
        if columns[0] != str(k):
            raise InputError(f"word {columns[0][:20]} where word {k} is to come", line=number)
        words.append(leaf(columns[1], number))
        tags.append(leaf_label(columns[3]))
        if columns[4] == "+":
            arcs.append((0, k))
        if columns[5] == "+":
            predicates.append(k)
    if not rows:
        return []  # comments alone
    wanted = _BEFORE_ARGUMENTS + len(predicates)
    width = len(rows[0][1])
    fits = width in (wanted, wanted + 1)  # one more with frames
    for number, columns in rows:
        if not fits or len(columns) != width:
            reason = f"{len(columns)} columns between tabs: with {len(predicates)} words of pred + "
            raise InputError(
                reason + (f"{width}" if fits else f"{wanted}, or {wanted + 1} with frames"), line=number
            )
    labels = zip(*(columns[width - len(predicates) :] for _, columns in rows), strict=True)
    for predicate, column in zip(predicates, labels, strict=True):
        arcs += [(predicate, k) for k, label in enumerate(column, 1) if label != "_"]
    return [ReadTree(flat_tree(words, tags), graph=graph_of(len(words), arcs, counts))]


FORM = Form(
    name="sdp",
    title="SDP",
    suffixes=(".sdp",),
    looks_like=_looks_like,
    cut=cut_at_blank_lines,
    read=_read,
)
