"""Files of sentences, and of dependency arcs, beside files of trees.

``X.trees.text`` has on line n the sentence, as it was written, whose tree is on line n of ``X.trees``. Words
of a tree alone do not tell which of them stood together. ``X.trees.arcs`` has its dependencies there, such as
``0-2 2-1`` (:meth:`pdtools.trees.graphs.Graph.from_text`).
"""

from __future__ import annotations

import os
from collections.abc import Iterable
from pathlib import Path

from pdtools.files import is_stream


def texts_path(trees: str | Path) -> Path | None:
    """The path of the sentences beside a file of trees; None for a stream."""
    return None if is_stream(trees) else Path(f"{Path(trees)}.text")


def texts_beside(files: Iterable[str]) -> list[str]:
    """The files of sentences that there are beside files of trees."""
    return _existing(map(texts_path, files))


def arcs_path(trees: str | Path) -> Path | None:
    """The file with the dependency arcs of a file of trees; None for a stream."""
    return None if is_stream(trees) else Path(f"{Path(trees)}.arcs")


def arcs_beside(files: Iterable[str]) -> list[str]:
    """The files of dependency arcs that there are beside files of trees."""
    return _existing(map(arcs_path, files))


def _existing(paths: Iterable[Path | None]) -> list[str]:
    return [os.fspath(path) for path in paths if path is not None and path.is_file()]
