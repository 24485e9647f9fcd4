"""Vocabularies without capitals."""

from __future__ import annotations

from pathlib import Path

import pytest

from pdtools.cli.main import run
from pdtools.shards import ShardSet
from pdtools.tokenization import Tokenizer, split_spaces, train_word_tokenizer


def test_words_are_counted_and_read_in_lower_case(tmp_path: Path) -> None:
    words = ["The", "the", "THE", "Dog", "É"]
    tokenizer = train_word_tokenizer(words, min_count=1, lower_case=True)
    assert [tokenizer.token_text(i) for i in range(4, tokenizer.vocab_size)] == ["the", "dog", "é"]
    tokenizer.save(tmp_path)
    for used in (tokenizer, Tokenizer.load(tmp_path)):
        encoding = used.encode(split_spaces("tHe DOG é cat"))
        assert [used.token_text(i) for i in encoding.ids[1:-1].tolist()] == ["the", "dog", "é", "<unk>"]
        assert encoding.n_unknown == 1
        assert encoding.ends.tolist()[1:-1] == [3, 7, 9, 13]


def test_rare_capitals_are_no_rare_words() -> None:
    words = ["Bird", "bird", "Bee"]
    assert train_word_tokenizer(words, min_count=2, lower_case=True).vocab_size == 5
    with pytest.raises(Exception, match="no word is left"):
        train_word_tokenizer(words, min_count=2)


def test_special_tokens_in_capitals_are_no_words() -> None:
    tokenizer = train_word_tokenizer(["<UNK>", "<Eos>", "<UNK>", "the"], lower_case=True)
    expected = ["<pad>", "<root>", "<eos>", "<unk>", "the"]
    assert [tokenizer.token_text(i) for i in range(tokenizer.vocab_size)] == expected


def test_the_option(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    trees = tmp_path / "x.trees"
    trees.write_text("(S (X The) (X dog))\n(S (X the) (X Dog))\n")
    shards = str(tmp_path / "shards")
    assert run(["tapes", str(trees), "--lower-case", "-o", shards, "--quiet"]) == 0
    opened = ShardSet.open(shards)
    assert opened.tokens(0).tolist() == opened.tokens(1).tolist()
    assert opened.text(0) == "The dog"
    assert run(["tapes", str(trees), "--lower-case", "--tokenizer", "bpe", "-o", str(tmp_path / "b")]) == 2
