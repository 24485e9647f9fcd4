"""What counts as a line of code, and how figures of a checkout are made."""

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


OTHER = """class Kept:
    beam: int
    margin: float

    def digest(self): ...
    def pack(self): ...
    def unpack(self): ...


def search(model, beam, *, margin=None):
    return isinstance(model, GrammarLM) and model.derivation_kind  # or a Dyck language
"""


def test_figures(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.syspath_prepend(str(FOLDER))
    import structure

    assert structure.code_lines(MODULE) == 1 + 2 + 3 + 3
    assert structure.code_lines("") == 0
    for name, text in (("a", MODULE), ("b", OTHER)):
        (tmp_path / name / "cli" / "formal").mkdir(parents=True)
        (tmp_path / name / "cli" / "formal" / "dyck.py").write_text("# not counted: in its own folder\n")
        (tmp_path / name / "cli" / "m.py").write_text(text)
    monkeypatch.setattr(sys, "argv", ["structure.py", "--files", str(tmp_path / "a"), str(tmp_path / "b")])
    structure.main()
    *figures, differing = capsys.readouterr().out.splitlines()
    columns = [line.split()[-2:] for line in figures]
    assert columns == [
        ["0", "1"],
        ["0", "2"],
        ["0", "1"],
        ["0", "1"],
        ["0", "1"],
        ["0", "1"],
        ["5", "8"],
    ]  # formatted alike
    assert differing.split() == ["+3", "cli/m.py"]


def test_words_are_counted_in_names_and_prose_but_not_as_keys(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(str(FOLDER))
    import structure

    text = '"""Pieces of work, not WordPiece."""\nname = "pieces"\nleft_out = counts["left_out"]\n'
    found = structure.words({"cli/in_pieces.py": text, "cli/b.py": "def cut_pieces(models_of_actions): ..."})
    assert {word: number for word, number in found.items() if number} == {
        "piece (chunk; token)": 3,
        "left out (excluded)": 1,
    }
