"""Trees of one shape, which need no model."""

from __future__ import annotations

from pathlib import Path

import pytest

from pdtools.cli.main import run
from pdtools.parsers import load_parser
from pdtools.parsers.backends import ParseFailure


@pytest.mark.parametrize(
    ("name", "wanted"),
    [
        ("right-branching", "(X (XX a) (X (XX -LRB-) (X (XX c) (XX d))))"),
        ("left-branching", "(X (X (X (XX a) (XX -LRB-)) (XX c)) (XX d))"),
    ],
)
def test_the_shape(name: str, wanted: str) -> None:
    four, one, none = load_parser(name).parse([["a", "(", "c", "d"], ["a"], []])
    assert str(four) == wanted
    assert str(one) == "(X (XX a))"
    assert isinstance(none, ParseFailure)


def test_the_words_of_trees(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Line n is the tree of tree n, whatever the trees' own shapes."""
    trees = tmp_path / "some.trees"
    trees.write_text(
        "(S (NP (DT The) (NN dog)) (VP (VBZ barks)))\n(X (-NONE- *))\n(S (X (X (A a) (B b)) (C c)) (D d))\n"
    )
    tokens = tmp_path / "some.tokens"
    tokens.write_text("The dog barks\n\na b c d\n")
    for source, name in (("treebank", trees), ("tokens", tokens)):
        assert run(["parse", str(name), "--from", source, "--parser", "right-branching"]) == 0
        out = capsys.readouterr().out.splitlines()
        assert out[0] == "(X (XX The) (X (XX dog) (XX barks)))"
        assert out[1] == "(X (-NONE- *))"
        assert out[2] == "(X (XX a) (X (XX b) (X (XX c) (XX d))))"
    conllu = tmp_path / "some.conllu"
    conllu.write_text("1\tHi\thi\tINTJ\t_\t_\t0\troot\t_\t_\n\n")
    assert run(["parse", str(conllu), "--from", "treebank", "--parser", "right-branching"]) == 1
    assert run(["parse", str(conllu), "--from", "conllu", "--parser", "right-branching"]) == 2


def test_a_parser_that_is_missing_is_one_line(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("a.mrg").write_text("(S (A a) (B b))\n")
    Path("runs").mkdir()
    assert run(["parse", "a.mrg", "--from", "treebank", "--parser", "runs/pushdown", "-o", "a.trees"]) == 1
    error = capsys.readouterr().err
    assert error.count("\n") == 1
    assert "runs/pushdown" in error
    assert not Path("a.trees").exists()
