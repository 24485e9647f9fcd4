"""Folders of figures: what their list names is pdtools', and nothing else that ends alike."""

from __future__ import annotations

import hashlib
import json
from pathlib import Path

import pytest

from pdtools.errors import PdtoolsError
from pdtools.files.written import holds_others, written_as


def figures(folder: Path, names: object) -> Path:
    folder.mkdir()
    (folder / "losses.svg").write_text("<svg/>")
    (folder / "figures.json").write_text(json.dumps({"figures": names, "provenance": {}}))
    return folder


LOSSES = {"size": 6, "sha256": hashlib.sha256(b"<svg/>").hexdigest()}


def test_what_the_list_names(tmp_path: Path) -> None:
    folder = figures(tmp_path / "figures", {"losses.svg": LOSSES})
    assert written_as(folder) == "the figures"
    (folder / "chapter.tex").write_text("ten years")
    with pytest.raises(PdtoolsError, match="holds chapter.tex, which pdtools did not write there"):
        written_as(folder)
    assert holds_others(folder)


@pytest.mark.parametrize("text", ["<SVG/>", "<svg />", ""])
def test_a_file_that_has_changed_since_is_named(text: str, tmp_path: Path) -> None:
    folder = figures(tmp_path / "figures", {"losses.svg": LOSSES})
    (folder / "losses.svg").write_text(text)
    with pytest.raises(PdtoolsError, match=r"holds losses.svg, which is not as pdtools wrote it \(move it"):
        written_as(folder)


def test_a_link_or_a_folder_of_a_listed_name_is_not_the_file(tmp_path: Path) -> None:
    folder = figures(tmp_path / "figures", {"losses.svg": LOSSES})
    (folder / "losses.svg").rename(tmp_path / "mine.svg")
    (folder / "losses.svg").symlink_to(tmp_path / "mine.svg")
    with pytest.raises(PdtoolsError, match="holds losses.svg"):
        written_as(folder)
    (folder / "losses.svg").unlink()
    assert written_as(folder) == "the figures"  # it lacks one
    (folder / "losses.svg").mkdir()
    with pytest.raises(PdtoolsError, match="holds losses.svg"):
        written_as(folder)


@pytest.mark.parametrize(
    "names",
    [
        *(None, 5, [["losses.svg"]], [], ["losses.svg"], {"losses.svg": None}, {"losses.svg": {}}),
        *({"losses.svg": {"size": 6}}, {"losses.svg": {"sha256": LOSSES["sha256"]}}),
        *(
            {"other.svg": LOSSES},
            {"losses.svg": {**LOSSES, "size": 7}},
            {"losses.svg": [6, LOSSES["sha256"]]},
        ),
    ],
)
def test_a_list_that_names_nothing(names: object, tmp_path: Path) -> None:
    with pytest.raises(PdtoolsError, match="holds losses.svg"):
        written_as(figures(tmp_path / "figures", names))


def test_files_without_the_list(tmp_path: Path) -> None:
    (tmp_path / "chapter.tex").write_text("ten years")
    assert holds_others(tmp_path)
