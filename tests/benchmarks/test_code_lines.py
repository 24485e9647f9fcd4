"""What counts as a line of code."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

FOLDER = Path(__file__).parents[2] / "benchmarks"

MODULE = '''"""A docstring
of two lines."""

import os  # counts

# does not
TEXT = """counts
counts, too"""


def f(
    x: int,
) -> int:
    """No."""
    return (
        x
    )
'''


def test_docstrings_comments_and_blanks_do_not_count(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.syspath_prepend(str(FOLDER))
    import code_lines

    assert code_lines.code_lines(MODULE) == 1 + 2 + 3 + 3
    assert code_lines.code_lines("") == 0
    for name, more in (("a", ""), ("b", "y = 1\n")):
        (tmp_path / name / "pdtools").mkdir(parents=True)
        (tmp_path / name / "pdtools" / "m.py").write_text(MODULE + more)
    monkeypatch.setattr(sys, "argv", ["code_lines.py", str(tmp_path / "a"), str(tmp_path / "b")])
    code_lines.main()
    assert capsys.readouterr().out.split() == ["9", "10", "+1", "pdtools/m.py"]
