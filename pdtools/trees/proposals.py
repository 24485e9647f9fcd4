"""Files with several trees for each sentence, such as a parser's k best."""

from __future__ import annotations

from collections.abc import Iterator

from pdtools.errors import InputError
from pdtools.files import read_lines
from pdtools.trees.transforms import TRACE_TAGS
from pdtools.trees.tree import Tree, unescape

_SEPARATE = "blank lines separate the trees of different sentences; or an id and a tab stand before each tree"


def read_proposals(file: str) -> Iterator[Tree]:
    """The trees of a file, one a line, as written there.

    A sentence's trees form a block of lines, with blank lines between blocks; or each tree has the id of
    its sentence, and a tab, before it, in any order.

    Raises:
        InputError: naming the line, if it is no tree, has an id where others have none, or has other words
            (traces aside) than a tree of the same sentence; if there are no trees; if the file cannot be
            read.
    """
    have_ids: bool | None = None
    first: dict[str, tuple[list[str], int]] = {}  # words and line of each sentence (in blocks: of this one)
    for number, line in read_lines(file):
        if not line.strip():
            if not have_ids:
                first.clear()
            continue
        name, tab, text = line.partition("\t")
        has_id = bool(tab) and not line.lstrip().startswith("(")
        if have_ids is None:
            have_ids = has_id
        try:
            tree = Tree.from_brackets(text if has_id else line)
        except InputError as error:
            raise InputError(error.reason, file=file, line=number) from error
        if has_id != have_ids:
            reason = "a tree with an id" if has_id else "a tree without an id"
            raise InputError(f"{reason}, unlike those before it", file=file, line=number, hint=_SEPARATE)
        words = [
            unescape(word) for word, tag in zip(tree.words, tree.tags, strict=True) if tag not in TRACE_TAGS
        ]
        before, line_before = first.setdefault(name if has_id else "", (words, number))
        if words != before:
            what = f"the id {name}" if has_id else "this block"
            reason = f"other words than another tree of {what} has, in line {line_before}"
            raise InputError(reason, file=file, line=number, hint=_SEPARATE)
        yield tree
    if have_ids is None:
        raise InputError("no trees in this file", file=file)
