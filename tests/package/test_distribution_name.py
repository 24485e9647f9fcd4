"""The name on the package index, and what happens beside the package that has the name of ours there."""

from __future__ import annotations

import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

import pdtools
from pdtools.models.kernels import native
from pdtools.provenance import origin

ROOT = Path(__file__).resolve().parents[2]


def test_the_name_is_that_of_pyproject() -> None:
    text = (ROOT / "pyproject.toml").read_text()
    assert f'\nname = "{origin.DISTRIBUTION}"\nversion = "{pdtools.__version__}"\n' in text


def test_nothing_is_said_where_nothing_else_has_the_name() -> None:
    assert origin.other_distribution() is None


def test_another_package_in_our_folder_is_noticed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """As pip leaves them: the other one's wheel is unpacked over ours, with its own list of files."""
    other = tmp_path / "pdtools-0.13.2-py3-none-any.whl"
    with zipfile.ZipFile(other, "w") as wheel:
        wheel.writestr("pdtools/chute.py", "")
        wheel.writestr(
            "pdtools-0.13.2.dist-info/METADATA", "Metadata-Version: 2.1\nName: pdtools\nVersion: 0.13.2\n"
        )
        wheel.writestr(
            "pdtools-0.13.2.dist-info/WHEEL", "Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: py3-none-any\n"
        )
        wheel.writestr("pdtools-0.13.2.dist-info/RECORD", "")
    command = [sys.executable, "-m", "pip", "install", "--quiet", "--no-index", "--no-deps", "--target"]
    subprocess.run([*command, str(tmp_path / "site"), str(other)], check=True)
    monkeypatch.setattr(origin, "_PACKAGE", tmp_path / "site" / "pdtools")
    assert origin.other_distribution() == "pdtools 0.13.2"


def test_a_missing_compiler_is_said_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(native, "COMPILERS", ("no-such-compiler",))
    package, names = "pdtools.models.kernels", ("block_attention", "grammar_attention")
    native.native_library.cache_clear()
    native._say_that_there_is_none.cache_clear()
    try:
        with pytest.warns(UserWarning, match="no C compiler that works .*torch's") as said:
            assert [native.native_library(package, name, ("forward",)) for name in names] == [None, None]
        assert len(said) == 1
    finally:
        native.native_library.cache_clear()
        native._say_that_there_is_none.cache_clear()
