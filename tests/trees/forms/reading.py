"""Files of forms of treebanks, read as a whole."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import Any

from pdtools.files import ExcludedInput
from pdtools.trees.forms import FORMS, ExcludedByRule, ReadOptions, ReadTree, read_block


def read_file(
    name: str, file: Path, counts: Counter[str] | None = None, **options: Any
) -> tuple[list[ReadTree], list[ExcludedInput | ExcludedByRule]]:
    """The trees of a file of a form, and what has none."""
    form, counts = FORMS[name], Counter() if counts is None else counts
    chosen = ReadOptions(**options)
    found = [one for block in form.blocks(str(file)) for one in read_block(form, block, chosen, counts)]
    trees = [one for one in found if isinstance(one, ReadTree)]
    return trees, [one for one in found if not isinstance(one, ReadTree)]


def spans_of(tree: Any) -> list[tuple[str, int, int]]:
    """The constituents of a tree in pre-order: label, start, end."""
    return list(zip(tree.labels, tree.starts.tolist(), tree.ends.tolist(), strict=True))
