"""The NEGRA export format, versions 3 and 4: a line for each word and each constituent, with its parent."""

from __future__ import annotations

import re
from collections.abc import Iterator

from pdtools.errors import InputError
from pdtools.trees.forms.discontinuous import ROOT_LABEL, Node, continuous
from pdtools.trees.forms.form import (
    Counts,
    Form,
    Gathering,
    ReadOptions,
    ReadTree,
    TreeText,
    lines_of,
    make_block,
)
from pdtools.trees.tree import leaf, leaf_label

_NODE = re.compile(r"#[0-9]{3,}\Z")
_BEGINNING = re.compile(r"(?:%%.*\n|\s)*#(?:FORMAT|BOT|BOS)\s")
_COLUMN = re.compile(r"[^ \t]+")  # other spaces are parts of words
# A line with one tab between columns, of which the lemma, the morphology and the edge's label may be empty.
_TABBED = {
    "": re.compile(r"[^\t]+\t[^\t]+\t[^\t]*\t[^\t]*\t[0-9]+(?:\t|\Z)"),
    "4": re.compile(r"[^\t]+\t[^\t]*\t[^\t]+\t[^\t]*\t[^\t]*\t[0-9]+(?:\t|\Z)"),
}


def _looks_like(text: str) -> bool:
    return _BEGINNING.match(text) is not None


def _cut(file: str) -> Iterator[TreeText]:
    """Cut a file into sentences from #BOS to #EOS, without tables (#BOT to #EOT) and comments."""
    open_block = Gathering(file)
    in_table = False
    version = ""
    for number, line in lines_of(file):
        if line.startswith(b"#BOS"):
            if open_block:
                yield open_block.block("cut off: no #EOS", version)
            in_table = False
            open_block.add(number, line)
        elif open_block:
            open_block.add(number, line)
            if line.startswith(b"#EOS"):
                yield open_block.block(note=version)
        elif line.startswith((b"#BOT", b"#EOT")):
            in_table = line.startswith(b"#BOT")
        elif line.startswith(b"#FORMAT"):
            version = "4" if line.split()[1:2] == [b"4"] else ""
        elif line.strip() and not in_table and not line.startswith(b"%%"):
            yield make_block(file, number, [line], "text outside of #BOS and #EOS")
    if open_block:
        yield open_block.block("cut off: no #EOS")


def _columns(line: str, version: str) -> list[str]:
    """The columns of a line: between single tabs, if so all are there, else between blanks and tabs."""
    if "\t\t" in line and _TABBED[version].match(line):
        return [column or "--" for column in line.rstrip().split("\t")]
    return line.split() if line.isascii() else _COLUMN.findall(line)


def _read(block: TreeText, options: ReadOptions, counts: Counts) -> list[ReadTree | str]:
    words: list[str] = []
    root = Node(ROOT_LABEL)
    nodes: dict[str, Node] = {"0": root}
    edges: list[tuple[Node, str, int]] = []  # child, its parent's name, line
    n_secondary = 0
    for number, line in list(enumerate(block.text.split("\n"), 1))[1:-1]:
        columns = _columns(line, block.note)
        if "%%" in line:  # a comment, but not among the first five columns: there it is a word
            ends = (place for place, column in enumerate(columns) if place >= 5 and column[:2] == "%%")
            columns = columns[: next(ends, None)]
        if len(columns) < 5:
            if not columns or columns[0][:2] == "%%":
                continue
            raise InputError(f"{len(columns)} columns: five or more are needed", line=number)
        # A column for the lemma makes the number of them even, secondary edges come in pairs.
        lemma = 1 - len(columns) % 2
        if block.note and not lemma:
            raise InputError(
                f"{len(columns)} columns: #FORMAT 4 has 6, and 2 for each secondary edge", line=number
            )
        form, label, edge, parent = columns[0], columns[1 + lemma], columns[3 + lemma], columns[4 + lemma]
        n_secondary += (len(columns) - 5) // 2
        if _NODE.match(form):
            if form[1:] in nodes:
                raise InputError(f"constituent {form} is there twice", line=number)
            node = nodes[form[1:]] = Node(leaf_label(label))
        else:
            node = Node(leaf_label(label), len(words))
            words.append(leaf(form, number))
        node.edge = edge
        edges.append((node, parent, number))
    if not words:
        raise InputError("no words")
    for node, parent, number in edges:
        if parent not in nodes:
            raise InputError(f"the parent {parent} does not exist", line=number)
        nodes[parent].children.append(node)
    if n_secondary:
        counts["secondary edges left out"] += n_secondary
    return continuous(root, len(nodes), words, options, counts)


FORM = Form(
    name="export",
    title="NEGRA export",
    suffixes=(".export", ".negra"),
    looks_like=_looks_like,
    cut=_cut,
    read=_read,
)
