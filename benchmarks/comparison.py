"""A comparison of a score with a peer's: the content of a line, and the data to compare with."""

from __future__ import annotations

import importlib.metadata
import os
from collections.abc import Iterable
from pathlib import Path
from typing import Any

REPOSITORY = Path(__file__).resolve().parent.parent

Line = dict[str, Any]
"""A comparison, JSON-ready; see benchmarks/agreement.py."""


class Missing(Exception):
    """An error: a comparison's data or package is not here."""


def largest(
    name: str, peer: str, pairs: Iterable[tuple[float, float]], allowed: float, **settings: Any
) -> Line:
    """A line from pairs (the peer's number, ours): the pair that differs most."""
    listed = list(pairs)
    theirs, ours = max(listed, key=lambda pair: abs(pair[0] - pair[1]))
    return {
        "name": name,
        "peer": peer,
        "peer_value": theirs,
        "ours": ours,
        "difference": abs(theirs - ours),
        "compared": len(listed),
        "allowed": allowed,
        "settings": settings,
    }


def data_folder() -> Path:
    """The folder of real data."""
    folder = Path(os.environ.get("PDTOOLS_TEST_DATA", REPOSITORY.parent / "shared" / "data"))
    if not folder.is_dir():
        raise Missing(f"no test data at {folder} (set PDTOOLS_TEST_DATA)")
    return folder


def version(package: str) -> str:
    """The version of an installed package."""
    try:
        return importlib.metadata.version(package)
    except importlib.metadata.PackageNotFoundError:
        raise Missing(f"{package} is not installed") from None
