"""Files of sentences beside files of trees.

``X.trees.text`` has on line n the sentence, as it was written, whose tree is on line n of ``X.trees``. Words
of a tree alone do not tell which of them stood together.
"""

from __future__ import annotations

import os
from collections.abc import Iterable
from pathlib import Path

from pdtools.files import is_stream


def texts_path(trees: str | Path) -> Path | None:
    """Where the sentences of a file of trees stand; None for a stream."""
    return None if is_stream(trees) else Path(f"{Path(trees)}.text")


def texts_beside(files: Iterable[str]) -> list[str]:
    """The files of sentences that there are beside files of trees."""
    paths = [texts_path(file) for file in files]
    return [os.fspath(path) for path in paths if path is not None and path.is_file()]
