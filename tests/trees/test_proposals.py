"""Files with several trees for each sentence."""

from __future__ import annotations

import gzip
from pathlib import Path

import pytest

from pdtools.errors import InputError
from pdtools.trees import Tree, read_proposals

AB, AB_TOO, BC = "(S (X a) (X b))", "(NP (NN a) (NN b))", "(S (X b) (X c))"


def read(path: Path, *lines: str) -> list[str]:
    path.write_text("".join(line + "\n" for line in lines))
    return [str(tree) for tree in read_proposals(str(path))]


def test_blocks_of_lines(tmp_path: Path) -> None:
    assert read(tmp_path / "blocks", "", AB, AB_TOO, "", " ", BC, "", AB) == [AB, AB_TOO, BC, AB]


def test_lines_with_ids_in_any_order(tmp_path: Path) -> None:
    lines = [f"one\t{AB}", f"2\t{BC}", "", f"one\t{AB_TOO}"]
    assert read(tmp_path / "ids", *lines) == [AB, BC, AB_TOO]


def test_a_tab_in_a_tree_is_white_space(tmp_path: Path) -> None:
    assert read(tmp_path / "tabs", AB.replace(" ", "\t")) == [AB]


def test_compressed_files(tmp_path: Path) -> None:
    path = tmp_path / "trees.gz"
    path.write_bytes(gzip.compress(f"{AB}\n".encode()))
    assert list(read_proposals(str(path))) == [Tree.from_brackets(AB)]


def test_traces_and_escapes_make_no_other_words(tmp_path: Path) -> None:
    lines = [r"(S (-NONE- *) (X 1\/2))", "(S (X 1/2))"]
    assert len(read(tmp_path / "words", *lines)) == 2


@pytest.mark.parametrize(
    ("lines", "line", "problem"),
    [
        ([AB, "the dog"], 2, "not one bracketed tree"),
        ([AB, "(S (X a)"], 2, "unbalanced brackets"),
        ([AB, f"{AB} {AB}"], 2, "not one bracketed tree"),
        ([f"1\t{AB}", "2\t"], 2, "no tree at all"),
        ([AB, BC], 2, "other words than another tree of this block has, in line 1 (blank lines separate"),
        ([f"1\t{AB}", f"2\t{BC}", f"1\t{BC}"], 3, "other words than another tree of the id 1 has, in line 1"),
        ([f"1\t{AB}", AB], 2, "a tree without an id, unlike those before it"),
        ([AB, "", f"1\t{AB}"], 3, "a tree with an id, unlike those before it"),
    ],
)
def test_what_is_refused(tmp_path: Path, lines: list[str], line: int, problem: str) -> None:
    with pytest.raises(InputError) as error:
        read(tmp_path / "broken", *lines)
    assert str(error.value).startswith(f"{tmp_path / 'broken'}:{line}: ")
    assert problem in str(error.value)
    assert "\n" not in str(error.value)


def test_a_file_without_trees(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="no trees in this file"):
        read(tmp_path / "empty", "", "")
