"""Sentences as they were written, and dependency arcs, for trees that have them beside them
(:mod:`pdtools.trees.chunks`)."""

from __future__ import annotations

import os
from functools import lru_cache
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from pdtools.errors import InputError
from pdtools.tokenization import Sentence, aligned
from pdtools.trees import Graph, SourcedTree, Tree, path_beside, unescape

_HINT = "pdtools parse writes both: delete it, or parse again"


def written_sentence(sourced: SourcedTree, usable: Tree) -> Sentence | None:
    """The sentence of a tree as it was written, in ``raw`` style; None without a file of sentences.

    Args:
        sourced: the tree with its place.
        usable: the same without traces.

    Raises:
        InputError: if that file has no such line, or a sentence with other words.
    """
    path = path_beside(sourced.file, "text")
    if path is None or not path.is_file():
        return None
    text = _line_of(path, sourced.line)
    sentence = None if text is None else aligned([unescape(word) for word in usable.words], text, "raw")
    if sentence is None:
        reason = f"not the sentence of the tree on line {sourced.line} of {sourced.file}"
        raise InputError(reason, file=path, line=sourced.line, hint=_HINT)
    return sentence


def graph_beside(trees: str, line: int, n_words: int) -> Graph:
    """The dependencies of a tree.

    Args:
        trees: a file that has a file of arcs beside it.
        line: the tree's line, from 1.
        n_words: the tree's number of words, without traces.

    Raises:
        InputError: if that file has no such line, or arcs for another number of words.
    """
    path = path_beside(trees, "arcs")
    assert path is not None
    reason = f"ends before line {line}, which the tree on line {line} of {trees} needs"
    if (text := _line_of(path, line)) is not None:
        try:
            return Graph.from_text(text, n_words)
        except InputError as error:
            reason = f"not the arcs of the tree on line {line} of {trees}: {error.reason}"
    raise InputError(reason, file=path, line=line, hint=_HINT)


def _line_of(path: Path, line: int) -> str | None:
    """A line of a file, from 1; None behind its end."""
    status = path.stat()
    data, ends = _lines(os.fspath(path), status.st_mtime_ns, status.st_size)
    if line > len(ends):
        return None
    start = int(ends[line - 2]) + 1 if line > 1 else 0
    return data[start : ends[line - 1]].tobytes().decode("utf-8", "replace")


@lru_cache(maxsize=4)
def _lines(path: str, changed: int, size: int) -> tuple[NDArray[np.uint8], NDArray[np.int64]]:
    """The bytes of a file, and the positions of its line ends; a file that ``changed`` is read again."""
    data = np.memmap(path, np.uint8, "r") if size else np.zeros(0, np.uint8)
    return data, np.flatnonzero(data == ord("\n"))
