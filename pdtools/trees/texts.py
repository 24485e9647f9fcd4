"""Files of sentences beside files of trees.

Line n of ``X.trees.text`` is the sentence, as it was written, of the tree on line n of ``X.trees``. A tree's
words alone do not tell which of them were written together.
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
    """The existing files of sentences beside files of trees."""
    paths = [texts_path(file) for file in files]
    return [os.fspath(path) for path in paths if path is not None and path.is_file()]
