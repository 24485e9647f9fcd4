"""Folders of figures: what their list names is pdtools', and nothing else that ends alike."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from pdtools.errors import PdtoolsError
from pdtools.files.written import holds_others, written_as


def figures(folder: Path, names: object) -> Path:
    folder.mkdir()
    (folder / "figures.json").write_text(json.dumps({"figures": names, "provenance": {}}))
    (folder / "losses.svg").write_text("<svg/>")
    return folder


def test_what_the_list_names(tmp_path: Path) -> None:
    folder = figures(tmp_path / "figures", ["losses.svg"])
    assert written_as(folder) == "the figures"
    (folder / "chapter.tex").write_text("ten years")
    with pytest.raises(PdtoolsError, match="holds chapter.tex, which pdtools did not write there"):
        written_as(folder)
    assert holds_others(folder)


@pytest.mark.parametrize("names", [None, 5, [["losses.svg"]], []])
def test_a_list_that_names_nothing(names: object, tmp_path: Path) -> None:
    with pytest.raises(PdtoolsError, match="holds losses.svg"):
        written_as(figures(tmp_path / "figures", names))


def test_files_without_the_list(tmp_path: Path) -> None:
    (tmp_path / "chapter.tex").write_text("ten years")
    assert holds_others(tmp_path)
