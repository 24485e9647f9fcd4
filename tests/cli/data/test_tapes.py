"""``pdtools tapes`` and ``pdtools show`` as a user runs them."""

from __future__ import annotations

import io
import json
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from pdtools.cli.main import run
from pdtools.shards import ShardSet

TREES = """\
( (S (NP (DT The) (NN dog)) (VP (VBZ runs))))
(S (NP (DT The) (JJ big) (NN dog)) (VP (VBZ runs)
  (PP (IN with) (NP (-LRB- -LRB-) (NN cats) (-RRB- -RRB-)))))
(S (NP (DT The) (NN dog)) (VP (VBZ is) (RB n't)))
"""


@pytest.fixture
def trees(tmp_path: Path) -> str:
    path = tmp_path / "toy.trees"
    path.write_text(TREES, encoding="utf-8")
    return str(path)


def _error(capsys: pytest.CaptureFixture[str]) -> str:
    printed = capsys.readouterr()
    assert printed.out == ""
    lines = printed.err.splitlines()
    assert len(lines) == 1, printed.err
    assert lines[0].startswith("pdtools: ")
    return lines[0]


# --- tapes ------------------------------------------------------------------------------------


def test_trees_become_shards(trees: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    out = tmp_path / "shards"
    assert run(["tapes", trees, "-o", str(out)]) == 0
    printed = capsys.readouterr()
    assert printed.out == ""
    assert "3 sentences, 15 tokens, 15 words (7 unknown), vocabulary 7, deepest" in printed.err
    assert sorted(path.name for path in out.iterdir()) == [
        "README.md",
        "manifest.json",
        "part-00000.parquet",
        "pdtools.json",
        "rejects.jsonl",
        "tokenizer.json",
        "tokenizer_config.json",
    ]
    frame = pd.read_parquet(out / "part-00000.parquet")
    assert frame["text"][1] == "The big dog runs with ( cats )"
    assert frame["attach"][0].tolist() == [0, 1, 1, 2, 0]


def test_options_reach_the_shards(trees: str, tmp_path: Path) -> None:
    out = tmp_path / "shards"
    options = "--tokenizer bpe --vocab-size 262 --min-count 1 --text-style raw --binarize left --tape none"
    assert run(["tapes", trees, "-o", str(out), "--layout", "sentence", *options.split()]) == 0
    shards = ShardSet.open(out)
    kept = {"layout": "sentence", "factor": "left", "tape": "none", "text_style": "raw"}
    kept |= {"binarization": "left", "constituents": "labelled"}
    assert shards.manifest["settings"] == kept
    assert (shards.tokenizer.kind, shards.tokenizer.vocab_size) == ("bpe", 262)
    assert "tape" not in pd.read_parquet(out / "part-00000.parquet").columns


@pytest.mark.parametrize(
    ("options", "vocabulary", "sentences"),
    [
        ("", 7, 3),
        ("--min-count 3", 6, 3),
        ("--min-count 1", 14, 3),
        ("--min-count 1 --vocab-size 5", 5, 3),
        ("--no-unk", 13, 3),
        ("--no-unk --min-count 2", 6, 1),
        ("--tokenizer bpe --min-count 4", 259, 3),
        ("--tokenizer bpe --min-count 3", 265, 3),
        ("--tokenizer bpe --min-count 3 --vocab-size 261", 261, 3),
    ],
)
def test_vocabularies_hold_what_counts_and_sizes_let_in(
    options: str, vocabulary: int, sentences: int, trees: str, tmp_path: Path
) -> None:
    """Words come three times (The, dog), twice (runs) or once; three merges make one of three bytes."""
    out, text = tmp_path / "shards", tmp_path / "x.txt"
    assert run(["tapes", trees, "-o", str(out), *options.split(), "-q"]) == 0
    shards = ShardSet.open(out)
    assert (shards.tokenizer.vocab_size, len(shards)) == (vocabulary, sentences)
    if "unk" not in options:
        text.write_text("".join(shards.text(i) + "\n" for i in range(len(shards))))
        assert run(["blocks", str(text), "-o", str(tmp_path / "blocks"), *options.split(), "-q"]) == 0
        assert ShardSet.open(tmp_path / "blocks").tokenizer == shards.tokenizer


def test_validation_trees_take_the_training_tokenizer(
    trees: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    train, valid = str(tmp_path / "train"), str(tmp_path / "valid")
    (tmp_path / "v.trees").write_text("(S (NN dog) (VB sleeps))\n(S (DT The) (FRAG (NN dog)))\n")
    assert run(["tapes", trees, "-o", train, "--no-unk"]) == 0
    assert run(["tapes", str(tmp_path / "v.trees"), "-o", valid, "--tokenizer", train]) == 0
    shards = ShardSet.open(valid)
    assert shards.tokenizer == ShardSet.open(train).tokenizer
    assert len(shards) == 1
    assert shards.labels == ShardSet.open(train).labels == ("NP", "S", "VP", "PP")
    assert shards.constituents(0).labels.tolist() == [1, -1]
    assert shards.manifest["counts"]["unknown_labels"] == 1
    assert run(["show", valid, "0"]) == 0
    assert "(S (XX The) (? (XX dog)))" in capsys.readouterr().out
    assert shards.manifest["left_out"] == {"words outside the vocabulary": 1}
    reject = json.loads((tmp_path / "valid" / "rejects.jsonl").read_text())
    assert (reject["line"], reject["text"]) == (1, "(S (NN dog) (VB sleeps))")


@pytest.mark.parametrize("kind", ["word", "bpe"])
def test_standard_input_is_read_once(
    kind: str, trees: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for source, name in ((trees, "file"), ("-", "pipe")):
        monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(TREES.encode())))
        assert run(["tapes", source, "-o", str(tmp_path / name), "--tokenizer", kind]) == 0
    frames = [pd.read_parquet(tmp_path / name / "part-00000.parquet") for name in ("file", "pipe")]
    pd.testing.assert_frame_equal(frames[0], frames[1])


def test_bad_trees_stop_it_or_are_skipped(
    trees: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    bad = tmp_path / "bad.trees"
    bad.write_text(TREES + "(S (NP (NN dog)\n")
    out = tmp_path / "shards"
    assert run(["tapes", str(bad), "-o", str(out)]) == 1
    assert f"{bad}:5: " in _error(capsys)
    assert not out.exists()
    assert run(["tapes", str(bad), "-o", str(out), "--on-error", "skip"]) == 0
    assert "excluded (see" in capsys.readouterr().err
    manifest = json.loads((out / "manifest.json").read_text())
    assert (manifest["counts"]["sentences"], manifest["counts"]["left_out"]) == (3, 1)
    assert json.loads((out / "rejects.jsonl").read_text())["line"] == 5


@pytest.mark.parametrize(
    ("arguments", "reason"),
    [
        (["missing.trees"], "missing.trees: no such file"),
        (["empty"], "empty: no files ending in .mrg"),
        (["nothing.trees"], "no trees"),
        (["toy.trees", "--tokenizer", "empty"], "no such tokenizer"),
        (["toy.trees", "--min-count", "9"], "with --min-count 9: change that"),
    ],
)
def test_what_cannot_be_done_is_one_line(
    arguments: list[str],
    reason: str,
    trees: str,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("empty").mkdir()
    Path("nothing.trees").write_text("\n \n")
    before = sorted(tmp_path.rglob("*"))
    assert run(["tapes", *arguments, "-o", "out"]) == 1
    assert reason in _error(capsys)
    assert sorted(tmp_path.rglob("*")) == before


# --- show -------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "options",
    [
        ["--tokenizer", "bpe", "--no-unk"],
        ["--tokenizer", "./somewhere", "--vocab-size", "300"],
        ["--tokenizer", "./somewhere", "--unk"],
        ["--layout", "window"],
        ["--vocab-size", "0"],
        ["-o", "-"],
    ],
)
def test_wrong_usage(options: list[str], trees: str, tmp_path: Path) -> None:
    assert run(["tapes", trees, "-o", str(tmp_path / "out"), *options]) == 2


def test_show_prints_a_sentence(trees: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    out = str(tmp_path / "shards")
    assert run(["tapes", trees, "-o", out, "--quiet", "--min-count", "1"]) == 0
    assert run(["show", out, "0"]) == 0
    printed = capsys.readouterr().out
    assert "\x1b" not in printed
    lines = [line.split() for line in printed.splitlines()]
    assert lines[0] == ["0:", "The", "dog", "runs"]
    assert "(X (X (XX The) (XX dog)) (XX runs))" in printed
    assert "(S (NP (XX The) (XX dog)) (VP (XX runs)))" in printed
    assert ["├──", "NP"] in lines
    assert ["0", "<root>", "shift", "0"] in lines
    assert ["2", "dog", "dog", "1", "0", "1", "1"] in lines
    assert ["4", "<eos>", "0", "1", "4", "4", "3", "2"] in lines


def test_show_where_the_encoding_lacks_letters(tmp_path: Path) -> None:
    file = tmp_path / "toy.trees"
    file.write_text("(S (NP (DT the) (NN dög)) (VP (VBZ runs)))\n", encoding="utf-8")
    out = str(tmp_path / "shards")
    assert run(["tapes", str(file), "-o", out, "--quiet", "--min-count", "1"]) == 0
    command = [sys.executable, "-c", "from pdtools.cli.main import main; main()", "show", out, "0"]
    ascii_only = {**os.environ, "PYTHONIOENCODING": "ascii"}
    plain = subprocess.run(command, env=ascii_only, capture_output=True, check=True)
    assert plain.stdout.startswith(b"0: the d?g runs\n")
    as_json = subprocess.run([*command, "--json"], env=ascii_only, capture_output=True, check=True)
    assert json.loads(as_json.stdout.decode("utf-8"))["text"] == "the dög runs"


def test_show_json(trees: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    out = str(tmp_path / "shards")
    assert run(["tapes", trees, "-o", out, "--quiet", "--tokenizer", "bpe"]) == 0
    assert run(["show", out, "1", "--json"]) == 0
    row = json.loads(capsys.readouterr().out)
    assert row["text"] == "The big dog runs with ( cats )"
    assert row["tree"].count("-LRB-") == 1
    assert row["constituents"].startswith(
        "(S (NP (XX The) (XX big) (XX dog)) (VP (XX runs) (PP (XX with) (NP"
    )
    assert [token["position"] for token in row["tokens"]] == list(range(len(row["tokens"])))
    assert all(len(token["tape"]) == token["position"] + 1 for token in row["tokens"])


def test_show_words_is_a_line_for_each_sentence(
    trees: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out = str(tmp_path / "shards")
    assert run(["tapes", trees, "-o", out, "--quiet"]) == 0
    assert run(["show", out, "--words"]) == 0
    assert capsys.readouterr().out.splitlines() == [
        "The dog runs",
        "The big dog runs with ( cats )",
        "The dog is n't",
    ]
    assert run(["show", out, "2", "--words"]) == 0
    assert capsys.readouterr().out == "The dog is n't\n"
    assert run(["show", out]) == 2
    assert run(["show", out, "0", "--words", "--json"]) == 2
    capsys.readouterr()
    assert run(["show", out, "3", "--words"]) == 1
    assert "no sentence with id 3 (ids go from 0 to 2)" in _error(capsys)


@pytest.mark.parametrize(
    ("more", "documents"), [([], 2), (["--documents", "none"], 1), (["--tape", "packed"], 2)]
)
def test_a_file_is_a_document_unless_it_is_said(
    more: list[str], documents: int, trees: str, tmp_path: Path
) -> None:
    (tmp_path / "b.trees").write_text(Path(trees).read_text())
    out = str(tmp_path / "shards")
    windows = ["--layout", "window", "--window", "60", *more]
    assert run(["tapes", trees, str(tmp_path / "b.trees"), "-o", out, *windows]) == 0
    shards = ShardSet.open(out)
    assert shards.manifest["counts"]["documents"] == documents
    rows = pd.read_parquet(Path(out, "part-00000.parquet"))
    assert ("tape" in rows) == ("packed" in more)
    for i, tape in enumerate(rows.get("tape", [])):
        depths = shards.tape(i)
        assert list(tape) == depths[np.tril_indices(len(depths))].tolist()
