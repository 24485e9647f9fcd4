from __future__ import annotations

from collections import Counter
from itertools import groupby
from pathlib import Path

import pytest

from pdtools.cli.main import run
from pdtools.formal import ContextFree
from pdtools.shards import ShardSet

CFL = ["generate", "cfl"]


def lines(capsys: pytest.CaptureFixture[str], *arguments: str) -> list[str]:
    capsys.readouterr()
    assert run([*CFL, *arguments, "--quiet"]) == 0
    return capsys.readouterr().out.splitlines()


def test_strings_one_a_line(capsys: pytest.CaptureFixture[str]) -> None:
    drawn = lines(capsys, "marked-reversal", "-n", "40", "--seed", "3")
    assert [len(list(some)) for _, some in groupby(len(line.split(" ")) for line in drawn)] == [10] * 4
    for line in drawn:
        tokens = line.split(" ")
        assert tokens == tokens[::-1]
        assert tokens[len(tokens) // 2] == "#"
        assert 40 <= len(tokens) <= 80
    assert lines(capsys, "marked-reversal", "-n", "20", "--seed", "3") == drawn[:20]
    assert lines(capsys, "marked-reversal", "-n", "20", "--seed", "4") != drawn[:20]


def test_the_same_number_of_every_length(capsys: pytest.CaptureFixture[str]) -> None:
    drawn = lines(capsys, "dyck", "--per-length", "3", "--lengths", "7-12")
    assert Counter(len(line.split(" ")) for line in drawn) == {8: 3, 10: 3, 12: 3}
    for other in ("--number",):
        assert run([*CFL, "dyck", "--per-length", "3", other, "3"]) == 2
        assert "exclude each other" in capsys.readouterr().err


def test_a_grammar_of_one_s_own(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    file = tmp_path / "mine.pcfg"
    file.write_text("# Twice as many.\nS -> 'a' S 'b' 'b' | 'c'\n")
    drawn = lines(capsys, str(file), "--lengths", "4-7", "-n", "300")
    assert set(drawn) == {"a c b b", "a a c b b b b"}
    file.write_text("S -> 'a' S | \n")
    assert lines(capsys, str(file), "--lengths", "0-2", "--per-length", "1") == ["", "a", "a a"]
    file.write_text("S -> 'a' S b\n")
    assert run([*CFL, str(file)]) == 1
    said = f"pdtools: {file}:1: b has no rules (add some, or write 'b' if it is a token)\n"
    assert capsys.readouterr().err == said


def test_shards_know_their_language(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    drawn = lines(capsys, "hardest", "-n", "40", "--seed", "3", "--lengths", "8-30")
    folder = tmp_path / "shards"
    lines(capsys, "hardest", "-n", "40", "--seed", "3", "--lengths", "8-30", "--shards", "-o", str(folder))
    shards = ShardSet.open(folder)
    assert [shards.text(i) for i in range(len(shards))] == drawn
    assert shards.tokenizer.unk_id is None
    assert shards.tokenizer.vocab_size == 3 + 7
    for i, line in enumerate(drawn):
        assert [shards.tokenizer.token_text(t) for t in shards.tokens(i)[1:-1]] == line.split(" ")
    described = dict(shards.manifest["language"])
    assert (described.pop("name"), described.pop("seed")) == ("cfl", 3)
    language = ContextFree.from_settings(described)
    assert language.grammar.name == "hardest"
    assert (language.log_probabilities([line.split(" ") for line in drawn]) < 0).all()
