"""The check of how sentences of docstrings and comments begin."""

from __future__ import annotations

from pathlib import Path
from types import ModuleType

import pytest
from shell import script as load_script

SCRIPT = Path(__file__).resolve().parents[2] / "packaging" / "wording.py"
# Lines that end in "# bad" are found, and no others.
MODULE = '''"""A module. What's more, a second sentence."""  # not bad

# What is found.  # bad
# A comment of two lines. It ends
# here. Whether this is found.  # bad
x = 1  # of this  # bad
y = "Of a string. What is in code"  # a number; where it stands, it is not found


def function(name, flag, other):
    """Whether something is.  # bad

    Of a paragraph.  # bad
    A sentence ("Of Mice"). "So it goes." That of another.  # bad
    That is fine, Those of nobody.

    Args:
        name: of a file.  # bad
        flag: whether it is.
        name, *other (list): what comes.  # bad
        other: a list of what there is: of all.
    """
'''


@pytest.fixture(scope="module")
def wording() -> ModuleType:
    return load_script(SCRIPT)


def test_what_is_found(wording: ModuleType, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "module.py"
    file.write_text(MODULE)
    assert wording.main([str(file)]) == 1
    found = {int(line.split(":")[1]) for line in capsys.readouterr().out.splitlines()}
    assert found == {k for k, line in enumerate(MODULE.splitlines(), 1) if line.endswith("  # bad")}
    assert wording.main(["--count", str(tmp_path)]) == 0
    assert capsys.readouterr().out.split()[:3] == ["5", "3", "2"]
