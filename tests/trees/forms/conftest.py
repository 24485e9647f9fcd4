"""Real treebanks."""

from __future__ import annotations

import zipfile
from collections.abc import Callable
from pathlib import Path

import pytest


@pytest.fixture(scope="session")
def treebank_file(test_data: Path, tmp_path_factory: pytest.TempPathFactory) -> Callable[[str, str], Path]:
    """Unpacks a file of an archive of real treebanks; skips without it."""
    folder = tmp_path_factory.mktemp("treebanks")

    def unpack(archive: str, member: str) -> Path:
        packed = test_data / "benchmarks" / "treebanks" / f"{archive}.zip"
        if not packed.is_file():
            pytest.skip(f"no real treebank {packed}")
        with zipfile.ZipFile(packed) as opened:
            return Path(opened.extract(member, folder))

    return unpack
