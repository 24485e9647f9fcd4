"""Nothing of an input reaches a terminal that does more than stand there."""

from __future__ import annotations

import json
import sys
import unicodedata
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pdtools.cli.console import message
from pdtools.cli.main import run
from pdtools.errors import visible
from pdtools.files import Rejects
from pdtools.shards import ShardSettings, TokenizerSettings, shards_from_files

HOSTILE = "\x1b[31mred\x07\x7f\x9b2J\u202eevil\u2066\u200f\x08"
SHOWN = r"\x1b[31mred\x07\x7f\x9b2J\u202eevil\u2066\u200f\x08"


def is_harmless(text: str) -> bool:
    """Whether printed text only stands there; lines apart."""
    bad = {"Cc", "Cs", "Zl", "Zp"}
    return not any(
        unicodedata.category(c) in bad or unicodedata.bidirectional(c) in {"RLO", "LRO", "RLE", "LRE"}
        for c in text.replace("\n", "")
    )


@given(st.text(st.characters(codec=None)))
def test_visible(text: str) -> None:
    shown = visible(text)
    assert is_harmless(shown)
    assert "\n" not in shown
    if is_harmless(text) and text.isprintable():
        assert shown == text


def test_no_character_is_forgotten() -> None:
    assert is_harmless(visible("".join(map(chr, range(sys.maxunicode + 1)))))


def test_what_is_escaped() -> None:
    assert visible(HOSTILE) == SHOWN
    assert visible("naïve – “日本” \u05d0 e\u0301") == "naïve – “日本” \u05d0 e\u0301"
    assert visible("\ud83d\udcff") == r"\ud83d\udcff"
    assert visible("zero\u200dwidth joiners make emoji") == "zero\u200dwidth joiners make emoji"


def test_show(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    trees = tmp_path / "x.trees"
    trees.write_text("(S (NN \x1b[31mred) (VBZ a\u202eb))\n")
    shards = tmp_path / "shards"
    shards_from_files([str(trees)], TokenizerSettings(min_count=1), ShardSettings(), shards, Rejects())
    assert run(["show", str(shards), "0"]) == 0
    out = capfd.readouterr().out
    assert is_harmless(out)
    assert r"\x1b[31mred" in out
    assert run(["show", str(shards), "--words"]) == 0
    assert capfd.readouterr().out == "\x1b[31mred a\u202eb\n"  # data, to the letter


def test_names_of_files_and_messages(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    bad = tmp_path / HOSTILE
    bad.write_text("(S")
    for arguments in (["parse", str(bad), "--from", "treebank"], ["show", str(bad), "0"]):
        assert run(arguments) == 1
        err = capfd.readouterr().err
        assert is_harmless(err)
        assert SHOWN in err
        assert err.count("\n") == 1
    message(f"{HOSTILE}: done")
    assert capfd.readouterr().err == f"{SHOWN}: done\n"


def test_blimp_table(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    pair = {"field": "syntax", "linguistics_term": HOSTILE, "UID": HOSTILE, "pairID": "1"}
    pair |= {"sentence_good": "a b", "sentence_bad": "b a"}
    pairs, table = tmp_path / "x.jsonl", tmp_path / "x.tsv"
    pairs.write_text(json.dumps(pair) + "\n")
    table.write_text(
        "sentence_id\ttoken_id\ttoken\tsurprisal\n1\t1\ta\t1\n1\t2\tb\t1\n2\t1\tb\t1\n2\t2\ta\t3\n"
    )
    results = str(tmp_path / "results")
    assert run(["eval-blimp", str(pairs), "--surprisals", str(table), "-o", results]) == 0
    out = capfd.readouterr().out
    assert is_harmless(out)
    assert SHOWN in out
    assert run(["compare", results, "--overview"]) == 0
    assert is_harmless(capfd.readouterr().out)


@pytest.mark.parametrize("arguments", [[f"--{HOSTILE}"], [HOSTILE], ["show", f"--{HOSTILE}"]])
def test_wrong_usage(arguments: list[str], capfd: pytest.CaptureFixture[str]) -> None:
    assert run(arguments) == 2
    said = capfd.readouterr().err
    assert is_harmless(said)
    assert SHOWN in said
