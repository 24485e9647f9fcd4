"""Running text in blocks: nothing is lost, and words stay countable."""

from __future__ import annotations

import io
import sys
from pathlib import Path

import pyarrow.parquet as pq
import pytest

from pdtools.errors import PdtoolsError
from pdtools.files import Rejects
from pdtools.shards import ShardSet, TokenizerSettings
from pdtools.shards.build import blocks_from_files
from pdtools.tokenization import Tokenizer, split_spaces, train_word_tokenizer

TEXT = " = Title = \n\nthe cat sees the dog .\nunbelievable !\n   \nthe dog is unbelievably loud"


@pytest.fixture
def text_file(tmp_path: Path) -> Path:
    path = tmp_path / "text.txt"
    path.write_text(TEXT, encoding="utf-8")
    return path


@pytest.mark.parametrize("kind", ["word", "bpe"])
@pytest.mark.parametrize("length", [1, 4, 7, 1000])
def test_blocks_hold_the_text_in_order(text_file: Path, tmp_path: Path, kind: str, length: int) -> None:
    settings = TokenizerSettings(kind=kind, size=270, min_count=1, text_style="raw")
    manifest = blocks_from_files([str(text_file)], settings, tmp_path / "out", Rejects(), length=length)
    shards = ShardSet.open(tmp_path / "out")
    tokenizer = shards.tokenizer
    rows = [shards.tokens(i).tolist() for i in range(len(shards))]
    assert all(row[0] == tokenizer.root_id for row in rows)
    assert [len(row) - 1 for row in rows[:-1]] == [length] * (len(rows) - 1)
    lines = [split_spaces(line) for line in TEXT.split("\n") if line.split()]
    joined = [token for row in rows for token in row[1:]]
    assert joined == [token for line in lines for token in tokenizer.encode(line).ids[1:].tolist()]
    # Every word stands in one row, and its first token points to it.
    words = [word for i in range(len(shards)) for word in shards.text(i).split()]
    assert words == TEXT.split()
    assert manifest["counts"]["words"] == len(words)
    for i, row in enumerate(rows):
        places = shards.word(i).tolist()
        assert sorted({place for place in places if place >= 0}) == list(range(len(shards.text(i).split())))
        assert all(place == -1 for place, token in zip(places, row, strict=True) if token == tokenizer.eos_id)
        assert shards.attach(i).tolist() == list(range(len(row)))
    assert manifest["settings"]["layout"] == "block"
    assert manifest["block_length"] == length


def test_tokens_of_a_pretrained_model_are_its_own(tmp_path: Path) -> None:
    transformers = pytest.importorskip("transformers")
    from toy_gpt2 import save_gpt2

    text = "it isn't the dog's , is it ?\n(don't) sees 12,000 dogs -- \"quoted\" naïve"
    folder = save_gpt2(tmp_path / "hf", [text])
    (tmp_path / "text.txt").write_text(text, encoding="utf-8")
    tokenizer = Tokenizer.load(folder, "raw")
    blocks_from_files([str(tmp_path / "text.txt")], tokenizer, tmp_path / "out", Rejects())
    shards = ShardSet.open(tmp_path / "out")
    theirs = transformers.AutoTokenizer.from_pretrained(folder)
    lines = [[*theirs(line)["input_ids"], tokenizer.eos_id] for line in text.split("\n")]
    assert shards.tokens(0).tolist() == [tokenizer.root_id, *(token for line in lines for token in line)]


def test_unknown_words_are_counted(text_file: Path, tmp_path: Path) -> None:
    tokenizer = train_word_tokenizer(["the", "cat", "sees", "dog", ".", "is"])
    manifest = blocks_from_files([str(text_file)], tokenizer, tmp_path / "out", Rejects(), length=4)
    known = {"the", "cat", "sees", "dog", ".", "is"}
    assert manifest["counts"]["unknown_words"] == sum(word not in known for word in TEXT.split()) == 7
    assert manifest["counts"]["words"] == len(TEXT.split())


def test_lines_with_unknown_words_are_excluded(text_file: Path, tmp_path: Path) -> None:
    tokenizer = train_word_tokenizer(["the", "cat", "sees", "dog", ".", "is"], unk=False)
    rejects = Rejects()
    manifest = blocks_from_files([str(text_file)], tokenizer, tmp_path / "out", rejects, length=5)
    assert manifest["left_out"] == {"words outside the vocabulary": 3}
    assert [(record["line"], record["text"]) for record in rejects] == [
        (number, line) for number, line in enumerate(TEXT.split("\n"), 1) if number in (1, 4, 6)
    ]
    assert manifest["counts"]["words"] == 6


def test_no_text_and_no_length_are_refused(tmp_path: Path) -> None:
    empty = tmp_path / "empty.txt"
    empty.write_text("\n \n", encoding="utf-8")
    with pytest.raises(PdtoolsError):
        blocks_from_files([str(empty)], TokenizerSettings(), tmp_path / "out", Rejects())
    with pytest.raises(PdtoolsError, match="at least 1 token"):
        blocks_from_files([str(empty)], TokenizerSettings(), tmp_path / "out", Rejects(), length=0)


def test_a_tokenizer_is_made_of_standard_input(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "text").write_text(TEXT, encoding="utf-8")
    for name in (str(tmp_path / "text"), "-"):
        monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(TEXT.encode())))
        out = tmp_path / f"out{name[-1]}"
        blocks_from_files([name], TokenizerSettings(min_count=1), out, Rejects(), length=4)
    parts = [pq.read_table(next((tmp_path / out).glob("*.parquet"))) for out in ("outt", "out-")]
    assert parts[0].equals(parts[1])
