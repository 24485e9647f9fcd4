"""Dependency arcs: from the file beside the trees into shards, and back."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest
from test_check import put, rewritten

from pdtools.cli.main import run
from pdtools.errors import InputError, PdtoolsError
from pdtools.files import Rejects, sha256_file
from pdtools.shards import ShardFolder, ShardSet, ShardSettings, TokenizerSettings, build_shards
from pdtools.shards.build import tokenizer_of
from pdtools.trees import read_trees

TREES = (
    "(X (DT the) (X|<NN-VB> (NN cat) (VB saw)))\n"
    "(X (XX left) (XX out) (XX here))\n"
    "(X (NN dogs))\n"
    "(X (NN rain) (VB falls))\n"
)
ARCS = ["2-1 0-3 3-2", "0-1", "", "0-1 0-2 1-2"]
KEPT = [ARCS[0], ARCS[2], ARCS[3]]
PART = "part-00000.parquet"


@pytest.fixture
def trees(tmp_path: Path) -> Path:
    file = tmp_path / "a.trees"
    file.write_text(TREES)
    Path(f"{file}.arcs").write_text("\n".join(ARCS) + "\n")
    return file


def tapes(output: Path, *arguments: str | Path) -> int:
    return run(["tapes", *map(str, arguments), "-o", str(output), "--min-count", "1", "--quiet"])


def graphs(shards: ShardSet) -> list[str]:
    return [str(shards.graph(i)) for i in range(len(shards))]


@pytest.mark.parametrize("style", ["ptb", "raw"])
@pytest.mark.parametrize("tokenizer", ["word", "bpe"])
def test_rows_have_the_arcs_of_their_lines(trees: Path, tmp_path: Path, style: str, tokenizer: str) -> None:
    more = ["--vocab-size", "262"] if tokenizer == "bpe" else []
    assert tapes(tmp_path / "shards", trees, "--text-style", style, "--tokenizer", tokenizer, *more) == 0
    shards = ShardSet.open(tmp_path / "shards")
    assert graphs(shards) == KEPT
    assert [shards.graph(i).n_words for i in range(3)] == [3, 1, 2]
    blocks = ShardFolder.open(tmp_path / "shards").blocks()
    assert [graph for block in blocks for graph in graphs(block)] == KEPT
    assert [source["file"] for source in shards.manifest["sources"]] == [str(trees), f"{trees}.arcs"]
    columns = pq.read_table(tmp_path / "shards" / PART).to_pydict()
    assert columns["arc_head"] == [[2, 0, 3], [], [0, 0, 1]]
    assert columns["arc_dependent"] == [[1, 3, 2], [], [1, 2, 2]]


@pytest.mark.parametrize("name", ["a.trees", "./a.trees", "x/..//a.trees", "*.trees", "."])
def test_the_name_may_be_written_in_any_way(
    name: str, trees: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "x").mkdir()
    assert tapes(tmp_path / "shards", name) == 0
    assert graphs(ShardSet.open(tmp_path / "shards")) == KEPT


def test_workers_change_nothing(trees: Path, tmp_path: Path) -> None:
    for name, workers in (("one", "1"), ("two", "2")):
        assert tapes(tmp_path / name, trees, "--workers", workers) == 0
    assert sha256_file(tmp_path / "one" / PART) == sha256_file(tmp_path / "two" / PART)


def test_one_by_one_as_in_chunks(trees: Path, tmp_path: Path) -> None:
    settings = ShardSettings(arcs="unlabelled", constituents="labelled")
    tokenizer = tokenizer_of({"the": 1, "cat": 1, "dogs": 1}, TokenizerSettings(min_count=1))
    rejects = Rejects("fail")
    build_shards(read_trees([str(trees)], rejects), tokenizer, settings, tmp_path / "shards", rejects)
    assert graphs(ShardSet.open(tmp_path / "shards")) == KEPT


def test_shards_without_arcs_say_so(trees: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert tapes(tmp_path / "windows", trees, "--layout", "window", "--window", "9") == 0
    other = tmp_path / "b.trees"
    other.write_text(TREES)
    assert run(["tapes", str(trees), str(other), "-o", str(tmp_path / "some"), "--min-count", "1"]) == 0
    assert f"no arcs are stored: no file {other}.arcs\n" in capsys.readouterr().err
    for name in ("windows", "some"):
        shards = ShardSet.open(tmp_path / name)
        assert not shards.has_arcs
        assert "arcs" not in shards.manifest["settings"]
        of = " of windows" if name == "windows" else ""
        with pytest.raises(
            InputError, match=f"these shards{of} have no dependency arcs \\(pdtools tapes makes"
        ):
            shards.graph(0)
    with pytest.raises(PdtoolsError, match="layout window has no arcs"):
        ShardSettings(layout="window", window=9, tape="none", arcs="unlabelled")


def test_show_of_arcs_and_tapes(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    trees = tmp_path / "a.trees"
    trees.write_text("(X (DT the) (NN cat) (VB saw) (DT a) (NN dog))\n")
    Path(f"{trees}.arcs").write_text("2-1 3-2 0-3 5-4 3-5\n")
    assert tapes(tmp_path / "shards", trees) == 0
    assert run(["show", str(tmp_path / "shards"), "0"]) == 0
    assert "\narcs 2-1 0-3 3-2 3-5 5-4\n" in capsys.readouterr().out
    assert run(["show", str(tmp_path / "shards"), "0", "--actions", "gilt"]) == 0
    rows = [" ".join(line.split()) for line in capsys.readouterr().out.splitlines()[-3:]]
    # The specification's worked example, rows 3 to 5 over the root and words.
    assert rows[0] == "3 saw 0-3 3-2 10 1 11 11 1 4 3 2 1 20 10 0"
    assert rows[1] == "4 a 10 1 11 11 0 1 4 3 2 0 0 0 0 0 0"
    assert rows[2] == "5 dog 3-5 5-4 10 1 11 21 1 11 1 4 3 2 4 3 2 21 11 1 10 0"
    assert run(["show", str(tmp_path / "shards"), "0", "--actions", "gilt", "--json"]) == 0
    described = json.loads(capsys.readouterr().out)
    assert described["arcs"] == [[2, 1], [0, 3], [3, 2], [3, 5], [5, 4]]
    found = {"number": 2, "word": "cat", "arcs": [[2, 1]], "degree": [0, 1, 10], "depth": [1, 0, 0]}
    assert described["actions"][1] == {**found, "distance": [0, 10, 0]}


@pytest.mark.parametrize(
    ("line", "change", "reason"),
    [
        (3, None, "ends before line 3, which the tree on line 3 of {trees} needs"),
        (4, "0-3", "not the arcs of the tree on line 4 of {trees}: the arc 0-3: outside of 2 words"),
        (1, "1-1", "not the arcs of the tree on line 1 of {trees}: the arc 1-1: from a word to itself"),
        (1, "12", "not the arcs of the tree on line 1 of {trees}: no arc: '12'"),
    ],
)
def test_a_file_of_other_arcs(
    trees: Path,
    tmp_path: Path,
    line: int,
    change: str | None,
    reason: str,
    capsys: pytest.CaptureFixture[str],
) -> None:
    lines = ARCS[: line - 1] + ([] if change is None else [change, *ARCS[line:]])
    Path(f"{trees}.arcs").write_text("".join(f"{arcs}\n" for arcs in lines))
    assert tapes(tmp_path / "shards", trees) == 1
    hint = "(pdtools parse writes both: delete it, or parse again)"
    assert capsys.readouterr().err == f"pdtools: {trees}.arcs:{line}: {reason.format(trees=trees)} {hint}\n"
    assert not (tmp_path / "shards").exists()


@pytest.mark.parametrize(
    ("column", "value", "reason"),
    [
        ("arc_head", [2, 0], "row 0 (from 0), column 'arc_dependent': 3 numbers for 2 heads"),
        ("arc_head", [2, 0, 4], "row 0 (from 0), column 'arc_head': arc 2 is 4 of 3 words"),
        ("arc_head", [-1, 0, 3], "row 0 (from 0), column 'arc_head': arc 0 is -1 of 3 words"),
        ("arc_dependent", [1, 0, 2], "row 0 (from 0), column 'arc_dependent': arc 1 is 0 of 3 words"),
        ("arc_dependent", [2, 3, 2], "row 0 (from 0), column 'arc_dependent': arc 0 is 2, its own head"),
        (
            "arc_head",
            [3, 0, 3],
            "row 0 (from 0), column 'arc_head': arc 1 is 0, for an arc that belongs",
        ),
        ("arc_dependent", None, "row 0 (from 0), column 'arc_dependent': null"),
    ],
)
def test_rows_are_checked(trees: Path, tmp_path: Path, column: str, value: Any, reason: str) -> None:
    folder = tmp_path / "shards"
    assert tapes(folder, trees) == 0
    rewritten(folder, put(column, 0, value))
    with pytest.raises(InputError) as caught:
        ShardSet.open(folder)
    assert reason in str(caught.value)
