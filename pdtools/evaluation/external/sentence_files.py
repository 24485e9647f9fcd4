"""Files of the strings of items, to be scored by external models."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any

from pdtools.errors import InputError
from pdtools.evaluation.benchmark.item_set import ItemSet
from pdtools.files import atomic_table, atomic_text
from pdtools.files.packed import ending


def placed_strings(items: ItemSet) -> Iterator[tuple[tuple[str, str, str], str]]:
    """Every string of items, in order, after its place: its item's finest group and name, and its role."""
    for item in items:
        for role, string in item.strings.items():
            yield (items.named(item.levels), item.name, role), string.text


def place_names(items: ItemSet) -> Iterator[str]:
    """Names of strings for messages, such as "suite cleft, item 3, string what"."""
    for (group, item, role), _ in placed_strings(items):
        yield f"{items.unit} {group}, item {item}, string {role}"


def write_sentences(
    items: ItemSet,
    output: str | Path,
    *,
    overwrite: bool = True,
) -> int:
    """Write sentences, one a line: line n after the header is the sentence of ``sentence_id`` n.

    Args:
        items: the header has the parts of the strings' places, and ``text``.
        output: a table, see :func:`pdtools.files.atomic_table` (``-``: TSV to standard output); or ``.txt``
            (also compressed): only the sentences, without a header, as ``pdtools surprisal`` reads them.
        overwrite: see :func:`pdtools.files.atomic_path`.

    Returns:
        The number of sentences.

    Raises:
        InputError: for a sentence or name with a tab or line break in it, which such a file cannot hold.
    """
    written, text_only = 0, ending(str(output)) == ".txt"
    header = (items.unit, "item", "string", "text")
    opened: AbstractContextManager[Any] = (
        atomic_text(output, overwrite=overwrite)
        if text_only
        else atomic_table(output, header, overwrite=overwrite)
    )
    with opened as out:
        for place, text in placed_strings(items):
            cells = (*place, text)
            if any(mark in cell for cell in cells for mark in "\t\r\n"):
                raise InputError(f"{cells}: a tab or line break cannot be written in a line of a table")
            if text_only:
                out.write(text + "\n")
            else:
                out(cells)
            written += 1
    return written
