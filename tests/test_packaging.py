"""What is installed: every package of the source tree, by the list in pyproject.toml."""

from __future__ import annotations

import re
from pathlib import Path

ROOT = Path(__file__).parent.parent


def test_every_package_is_installed() -> None:
    listed = re.search(
        r"^packages = \[(.*?)^\]", (ROOT / "pyproject.toml").read_text(), re.DOTALL | re.MULTILINE
    )
    assert listed is not None
    folders = {
        ".".join(file.parent.relative_to(ROOT).parts) for file in (ROOT / "pdtools").rglob("__init__.py")
    }
    elsewhere = {"pdtools.cli", "pdtools.configs", "pdtools.data"}
    assert set(re.findall(r'"(.+?)"', listed[1])) == {name for name in folders if name} | elsewhere
