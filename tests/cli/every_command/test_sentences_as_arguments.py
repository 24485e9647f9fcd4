"""Sentences and trees given on the command line (--text), as if they were lines of a file."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from search_oracle import save_checkpoints

from pdtools.cli.main import run


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> str:
    return str(save_checkpoints(tmp_path_factory.mktemp("models"))[0]["pushdown"])


TREES = ["(S (A a) (B b))", "(S (A a)\n (T (B b) (C c)))"]


@pytest.mark.parametrize(
    ("command", "given", "more"),
    [
        ("surprisal", ["a b c", "", "c  b"], []),
        ("surprisal", ["a b c", "c b"], ["--workers", "2"]),
        ("surprisal", ["a\tb c"], ["--from", "tokens", "--words"]),
        ("surprisal", TREES, ["--from", "treebank", "--words"]),
        ("decode", ["a b c", "", "c  b"], []),
        ("decode", TREES, ["--from", "treebank"]),
        ("parse", ["a b c", "c b"], ["--parser", "{model}"]),
        ("parse", TREES, ["--from", "treebank", "--workers", "2"]),
    ],
)
def test_the_same_as_from_a_file(
    command: str,
    given: list[str],
    more: list[str],
    model: str,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    options = [argument.format(model=model) for argument in more]
    if command != "parse":
        options += ["--model", model]
    if "treebank" not in more or command != "parse":
        options += ["--beam", "3", "--device", "cpu"]
    file = tmp_path / "in.trees"
    file.write_text("".join(line + "\n" for line in given))
    outputs = []
    for source in ([str(file)], [argument for line in given for argument in ("--text", line)]):
        assert run([command, *source, *options]) == 0
        outputs.append(capsys.readouterr().out)
    assert outputs[0] == outputs[1] != ""


def test_one_or_the_other_and_reasons_name_the_option(
    model: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    surprisal = ["surprisal", "--model", model, "--device", "cpu"]
    assert run(surprisal) == 2
    assert run([*surprisal, "in.txt", "--text", "a"]) == 2
    capsys.readouterr()
    assert run([*surprisal, "--text", "a", "--text", "the b"]) == 1
    assert "--text:2: words unknown to the model: the" in capsys.readouterr().err
    assert run([*surprisal, "--text", "(S (A a)", "--from", "treebank"]) == 1
    assert "--text:1: " in capsys.readouterr().err
    assert run([*surprisal, "--text", "a", "--shard", "0/1", "-o", str(tmp_path / "o")]) == 0
    assert run([*surprisal, "--text", "a", "--resume", "-o", str(tmp_path / "o")]) == 0
    assert (tmp_path / "o").is_file()
    assert run([*surprisal, "The dog barks."]) == 1
    assert "--text" in capsys.readouterr().err
    assert run([*surprisal, "--text", "a b\udcff"]) == 1
    assert "--text:1: not UTF-8 (byte 0xff)" in capsys.readouterr().err


# --- show -------------------------------------------------------------------------------------


def test_a_tree_is_shown_without_shards(capsys: pytest.CaptureFixture[str]) -> None:
    tree = "( (S (NP-SBJ (DT The) (JJ big) (NN dog)) (VP (VBZ barks) (NP (-NONE- *)) (-LRB- -LRB-)) (. .)))"
    assert run(["show", "--text", tree]) == 0
    printed = capsys.readouterr().out
    lines = [line.split() for line in printed.splitlines()]
    assert lines[0] == ["The", "big", "dog", "barks", "(", "."]
    assert "(NP (DT The) (NP|<JJ-NN> (JJ big) (NN dog)))" in printed
    # ((The (big dog)) ((barks () .)), worked out by hand.
    table = {row[0]: row for row in lines if row and row[0].isdigit()}
    assert table["0"] == ["0", "<root>", "shift", "0"]
    assert table["1"] == ["1", "The", "The", "shift", "0", "0"]
    assert table["2"] == ["2", "big", "big", "shift", "0", "0", "0"]
    assert table["3"] == ["3", "dog", "dog", "1", "0", "1", "2", "2"]
    assert table["4"] == ["4", "barks", "barks", "shift", "0", "1", "2", "2", "0"]
    assert table["5"] == ["5", "(", "(", "4", "0", "1", "2", "2", "1", "1"]
    assert table["6"] == ["6", ".", ".", "3", "0", "2", "3", "3", "3", "3", "2"]
    assert table["7"] == ["7", "<eos>", "0", "1", "4", "5", "5", "5", "5", "4", "2"]


def test_what_is_shown_of_a_tree_is_what_its_shards_show(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    tree = "(S (NP (DT The) (JJ big) (NN dog)) (VP (VBZ barks) (ADVP (RB loudly))) (. .))"
    (tmp_path / "one.trees").write_text(tree + "\n")
    made = ["tapes", str(tmp_path / "one.trees"), "-o", str(tmp_path / "shards"), "--min-count", "1"]
    assert run([*made, "--quiet"]) == 0
    capsys.readouterr()
    found = []
    for given in ([str(tmp_path / "shards"), "0"], ["--text", tree]):
        assert run(["show", *given, "--json"]) == 0
        found.append(json.loads(capsys.readouterr().out))
    names = ("position", "token", "word", "attach", "shift", "tape")
    of_shards, of_tree = ([[token[name] for name in names] for token in row["tokens"]] for row in found)
    assert of_shards == of_tree
    assert found[0]["text"] == found[1]["text"]


@pytest.mark.parametrize(
    ("arguments", "status", "reason"),
    [
        ([], 2, "--text"),
        (["shards", "0", "--text", "(S (A a))"], 2, "--text"),
        (["--text", "(S (A a))", "--words"], 2, "--text"),
        (["--text", "(S (A a)) (S (B b))"], 1, "2 trees"),
        (["--text", "(S (A a)"], 1, "--text:1: "),
        (["--text", "The dog barks."], 1, "--text:1: "),
        (["--text", ""], 1, "--text:1: no trees"),
        (["--text", "(S (-NONE- *))"], 1, "traces"),
    ],
)
def test_what_cannot_be_shown(
    arguments: list[str], status: int, reason: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(["show", *arguments]) == status
    error = capsys.readouterr().err
    assert reason in error
    assert "--on-error" not in error  # it has no such option
