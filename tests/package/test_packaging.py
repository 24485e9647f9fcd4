"""What is installed: every module and every file that modules read, from the lists in pyproject.toml."""

from __future__ import annotations

import shutil
import subprocess
import sys
import zipfile
from collections import Counter
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
# Folders at the top that are installed inside of the package.
MOVED = {"cli": "pdtools/cli", "configs": "pdtools/configs", "data": "pdtools/data"}


def build_wheel(tmp_path: Path) -> Path:
    """The wheel of this checkout; its files are in ``tmp_path / "source"``."""
    source = tmp_path / "source"
    ignore = shutil.ignore_patterns("__pycache__", "*.egg-info")
    for folder in ("pdtools", *MOVED):
        shutil.copytree(ROOT / folder, source / folder, ignore=ignore)
    for name in ("pyproject.toml", "README.md", "LICENSE"):
        shutil.copy(ROOT / name, source)
    command = [sys.executable, "-m", "pip", "wheel", "--quiet", "--no-deps", "-w", str(tmp_path), str(source)]
    built = subprocess.run(command, capture_output=True, text=True)
    if "No matching distribution" in built.stderr or "No module named pip" in built.stderr:
        pytest.skip("nothing here builds wheels: pip or setuptools cannot be had")
    assert built.returncode == 0, built.stderr
    (wheel,) = tmp_path.glob("*.whl")
    return wheel


def test_test_files_have_different_names() -> None:
    """Pytest imports them by their names alone, and stops at the second one of a name."""
    names = [path.name for path in (ROOT / "tests").rglob("test_*.py")]
    assert [name for name, times in Counter(names).items() if times > 1] == []


def test_a_wheel_holds_every_module_and_file(tmp_path: Path) -> None:
    wheel, source = build_wheel(tmp_path), tmp_path / "source"
    files = [path.relative_to(source) for path in source.rglob("*") if path.is_file()]
    wanted = {_installed(path) for path in files if not path.parts[0].endswith((".egg-info", "build"))}
    held = {name for name in zipfile.ZipFile(wheel).namelist() if ".dist-info/" not in name}
    assert held == wanted - {"pyproject.toml", "README.md", "LICENSE"}


def _installed(path: Path) -> str:
    first, *rest = path.parts
    return "/".join([MOVED.get(first, first), *rest])
