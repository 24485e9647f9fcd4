"""Tables on a terminal and in a pipe; and what importing the evaluations loads."""

from __future__ import annotations

import io
import subprocess
import sys

from pdtools.report.tables import print_table


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def test_plain_text_is_aligned() -> None:
    stream = io.StringIO()
    print_table(["name", "score"], [("one", 1.0), ("three", None), ("[b]", 22.456)], title="T", stream=stream)
    assert stream.getvalue() == "T\nname   score\none     1.00\nthree      -\n[b]    22.46\n"


def test_a_terminal_gets_the_same_cells() -> None:
    stream = Terminal()
    print_table(["name", "score"], [("[b]", 22.456), ("x", 3)], title="T", stream=stream)
    for cell in ("[b]", "22.46", "3", "name", "T"):
        assert cell in stream.getvalue()
    assert "─" in stream.getvalue()


def test_imports_are_light() -> None:
    heavy = ["torch", "numpy", "pyarrow", "pandas", "nltk", "transformers"]
    modules = "pdtools.evaluation, pdtools.report.evaluations, pdtools.report.evalb, pdtools.cli.main"
    code = f"import sys, {modules}; print([m for m in {heavy} if m in sys.modules])"
    found = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert found.stdout.strip() == "[]"
