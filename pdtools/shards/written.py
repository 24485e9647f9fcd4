"""Sentences as they were written, for trees that have them beside them (:mod:`pdtools.trees.texts`)."""

from __future__ import annotations

import os
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from pdtools.errors import InputError
from pdtools.tokenization import Sentence, aligned
from pdtools.trees import SourcedTree, Tree, texts_path, unescape


def written_sentence(sourced: SourcedTree, usable: Tree) -> Sentence | None:
    """The sentence of a tree as it was written, in ``raw`` style; None without a file of sentences.

    Args:
        sourced: the tree with its place.
        usable: the same without traces.

    Raises:
        InputError: if that file has no such line, or a sentence with other words.
    """
    path = texts_path(sourced.file)
    if path is None or not path.is_file():
        return None
    status = path.stat()
    data, ends = _lines(os.fspath(path), status.st_mtime_ns, status.st_size)
    line, sentence = sourced.line, None
    if line <= len(ends):
        start = int(ends[line - 2]) + 1 if line > 1 else 0
        text = data[start : ends[line - 1]].tobytes().decode("utf-8", "replace")
        sentence = aligned([unescape(word) for word in usable.words], text, "raw")
    if sentence is None:
        raise InputError(
            f"not the sentence of the tree on line {line} of {sourced.file}",
            file=path,
            line=line,
            hint="pdtools parse writes both: delete it, or parse again",
        )
    return sentence


@lru_cache(maxsize=4)
def _lines(path: str, changed: int, size: int) -> tuple[NDArray[np.uint8], NDArray[np.int64]]:
    """The bytes of a file, and the positions of its line ends; a file that ``changed`` is read again."""
    data = np.memmap(path, np.uint8, "r") if size else np.zeros(0, np.uint8)
    return data, np.flatnonzero(data == ord("\n"))
