from __future__ import annotations

import io
import json
import sys
from pathlib import Path

import numpy as np
import pytest

from pdtools.cli.main import run
from pdtools.search import beam_search, load_model
from pdtools.search.options import SearchOptions
from pdtools.trees import Tree

LINES = "a b c\n\nb a dog ( x\na\n"


@pytest.fixture
def text(tmp_path: Path) -> Path:
    path = tmp_path / "in.txt"
    path.write_text(LINES)
    return path


def decode(*arguments: object) -> int:
    return run(["decode", "--device", "cpu", *map(str, arguments)])


def test_trees_line_for_line(models: dict[str, Path], text: Path, tmp_path: Path) -> None:
    out = tmp_path / "out.trees"
    assert decode(text, "--model", models["pushdown"], "--beam", 20, "-o", out) == 0
    lines = out.read_text().splitlines()
    assert lines[1:] == [
        "(X (-NONE- *))",
        "(X (XX b) (XX a) (XX dog) (XX -LRB-) (XX x))",
        "(XX a)",
    ]
    assert Tree.from_brackets(lines[0]).words == ("a", "b", "c")
    records = [json.loads(line) for line in Path(f"{out}.rejects.jsonl").read_text().splitlines()]
    assert [(r["line"], r["reason"]) for r in records] == [
        (2, "no words"),
        (3, "words unknown to the model: dog, (, x"),
    ]


def test_scores_are_those_of_the_search(models: dict[str, Path], text: Path, tmp_path: Path) -> None:
    scores, out = tmp_path / "s.tsv", tmp_path / "out.trees"
    options = ["--beam", 20, "--scores", scores, "-o", out]
    assert decode(text, "--model", models["pushdown"], *options) == 0
    _, *rows = [line.split("\t") for line in scores.read_text().splitlines()]
    assert [(row[0], row[1]) for row in rows] == [("1", "1"), ("4", "1")]

    searcher = load_model(models["pushdown"], parses=True)
    (ids,) = searcher.trace(["a b c"])
    (found,) = beam_search(searcher.loaded.model, [ids.encoded.encoding.ids], search=SearchOptions(beam=20))  # type: ignore[union-attr]
    wanted = [found.derivations[0][0], found.marginal]
    assert list(map(float, rows[0][2:4])) == pytest.approx(wanted, rel=2e-6, abs=1e-5)


def test_k_different_trees(models: dict[str, Path], text: Path, tmp_path: Path) -> None:
    scores, out = tmp_path / "s.tsv", tmp_path / "out.trees"
    options = ["--beam", 20, "--k-best", 3, "--scores", scores, "-o", out]
    assert decode(text, "--model", models["pushdown"], *options) == 0
    _, *rows = [line.split("\t") for line in scores.read_text().splitlines()]
    assert [(row[0], row[1]) for row in rows] == [("1", "1"), ("1", "2"), ("4", "1")]  # there are no more
    assert {row[4] for row in rows[:2]} == {
        "(X (XX a) (X (XX b) (XX c)))",
        "(X (X (XX a) (XX b)) (XX c))",
    }
    assert rows[0][4] == out.read_text().splitlines()[0]
    joints = [float(row[2]) for row in rows[:2]]
    assert joints == sorted(joints, reverse=True)
    assert np.logaddexp(*joints) == pytest.approx(
        float(rows[0][3]), rel=2e-6, abs=1e-5
    )  # every derivation is in one
    text.write_text("a b c a\nb c\na b c\n")
    assert (
        decode(text, "--model", models["pushdown"], *options[:2], "--k-best", 4, *options[4:], "--overwrite")
        == 0
    )
    _, *rows = [line.split("\t") for line in scores.read_text().splitlines()]
    assert [row[0] + row[1] for row in rows] == ["11", "12", "13", "14", "21", "31", "32"]


def test_one_best_has_no_tree_column(models: dict[str, Path], text: Path, tmp_path: Path) -> None:
    scores = tmp_path / "s.tsv"
    assert decode(text, "--model", models["head"], "--scores", scores, "-o", tmp_path / "o.trees") == 0
    assert scores.read_text().splitlines()[0] == "id\trank\tjoint\tmarginal\tdropped"


def test_what_was_dropped_has_three_digits(models: dict[str, Path], text: Path, tmp_path: Path) -> None:
    scores = tmp_path / "s.tsv"
    options = ["--beam", 1, "--scores", scores, "-o", tmp_path / "o.trees"]
    assert decode(text, "--model", models["pushdown"], *options) == 0
    (found,) = load_model(models["pushdown"], SearchOptions(beam=1), parses=True).parse(["a b c"])
    assert 0 < found.dropped < 1
    assert scores.read_text().splitlines()[1].split("\t")[-1] == f"{found.dropped:.3g}"


def test_standard_input_and_output(
    models: dict[str, Path], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(b"a b\nb -LRB-\n")))
    assert decode("-", "--model", models["pushdown"], "--from", "tokens") == 0
    out, err = capsys.readouterr()
    assert out == "(X (XX a) (XX b))\n(X (XX b) (XX -LRB-))\n"
    assert "-:2: no parse: words unknown to the model: (" in err


@pytest.mark.parametrize(
    ("arguments", "status", "reason"),
    [
        (["--model", "{pushdown}", "--k-best", "2"], 2, "--scores"),
        (["--model", "{pushdown}", "--scores", "-"], 2, "--scores"),
        (
            ["--model", "{pushdown}", "-o", "a.trees", "--scores", "a.trees.rejects.jsonl"],
            2,
            "two outputs of this name",
        ),
        (["--model", "{pushdown}", "--json"], 2, "-o"),
    ],
)
def test_what_cannot_be_done(
    models: dict[str, Path],
    text: Path,
    arguments: list[str],
    status: int,
    reason: str,
    capsys: pytest.CaptureFixture[str],
) -> None:
    folders = {name: str(path) for name, path in models.items()}
    assert decode(text, *[argument.format(**folders) for argument in arguments]) == status
    out, err = capsys.readouterr()
    assert reason in err
    assert out == ""


def test_an_empty_file_leaves_no_output(
    models: dict[str, Path], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "empty.txt").touch()
    out = tmp_path / "o.trees"
    assert decode(tmp_path / "empty.txt", "--model", models["pushdown"], "-o", out) == 1
    assert "no sentence" in capsys.readouterr().err
    assert sorted(path.name for path in tmp_path.iterdir()) == ["empty.txt"]


# --- sample -----------------------------------------------------------------------------------


def test_samples_repeat(models: dict[str, Path], capsys: pytest.CaptureFixture[str]) -> None:
    drawn = []
    for options in (["-n", "5"], ["-n", "5"], ["-n", "9"], ["-n", "5", "--seed", "1"]):
        assert run(["sample", "--model", str(models["pushdown"]), "--device", "cpu", *options]) == 0
        drawn.append(capsys.readouterr().out.splitlines())
    assert drawn[0] == drawn[1] == drawn[2][:5] != drawn[3]
    assert [len(lines) for lines in drawn] == [5, 5, 9, 5]
    for line in drawn[2]:
        Tree.from_brackets(line)


def test_strings_of_a_base_model(models: dict[str, Path], capsys: pytest.CaptureFixture[str]) -> None:
    base = ["sample", "--model", str(models["base"]), "--device", "cpu"]
    assert run(base) == 1
    assert "no attachment head, and so no trees: use --strings to draw strings" in capsys.readouterr().err
    assert run([*base, "--strings", "-n", "20"]) == 0
    out = capsys.readouterr().out
    assert out.count("\n") == 20
    assert set(out.split()) <= {"a", "b", "c"}
