"""Parsers by name: what each needs, batches of sentences, and trees of one shape, which need no model."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pdtools.cli.main import run
from pdtools.errors import MissingDependencyError, PdtoolsError
from pdtools.parsers.backends import ParseFailure, length_batches, load_parser
from pdtools.trees import sentence_problem


@pytest.mark.parametrize(
    ("words", "problem"),
    [
        ([], "no words"),
        (["a", ""], "without visible"),
        (["a", " "], "without visible"),
        (["\u00a0"], "without visible"),
        (["\u200b", "a"], "without visible"),
        (["a", "\ud800"], "surrogate"),
        (["a b"], "white space"),
    ],
)
def test_words_that_no_parser_can_do(words: list[str], problem: str) -> None:
    assert problem in (sentence_problem(words) or "")


def test_ordinary_words_are_no_problem() -> None:
    assert sentence_problem(["(", "naïve", "1\u00a0000", "🙂", "a\u200bb", "-"]) is None


def test_unknown_parser_is_named() -> None:
    with pytest.raises(PdtoolsError, match=r"no parser named 'collins': use benepar, stanza"):
        load_parser("collins")


@pytest.mark.parametrize(("name", "extra"), [("benepar", "parse"), ("stanza", "stanza")])
def test_missing_package_names_the_extra(name: str, extra: str, monkeypatch: pytest.MonkeyPatch) -> None:
    for module in [module for module in sys.modules if module.split(".")[0] == name]:
        monkeypatch.delitem(sys.modules, module)
    monkeypatch.setitem(sys.modules, name, None)
    wanted = rf"pip install '\.\[{extra}\]' in a checkout, .* \(or --parser RUN "
    with pytest.raises(MissingDependencyError, match=wanted):
        load_parser(name)


@given(st.lists(st.integers(1, 60), max_size=50), st.integers(1, 200), st.integers(1, 5000))
def test_every_sentence_once_and_batches_bounded(lengths: list[int], max_tokens: int, max_cells: int) -> None:
    batches = list(length_batches(lengths, max_tokens=max_tokens, max_cells=max_cells))
    assert sorted(i for batch in batches for i in batch) == list(range(len(lengths)))
    for batch in batches:
        longest = max(lengths[i] for i in batch)
        bounded = len(batch) * longest <= max_tokens and len(batch) * longest**2 <= max_cells
        assert bounded or len(batch) == 1
    longest_of = [max(lengths[i] for i in batch) for batch in batches]
    assert longest_of == sorted(longest_of)


def test_batches_are_filled() -> None:
    assert list(length_batches([2, 9, 2, 2], max_tokens=6, max_cells=100)) == [[0, 2, 3], [1]]


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
