"""Byte-level BPE that reads typographic signs as typed ones: the same tokens, offsets into each text."""

from __future__ import annotations

from pathlib import Path

import pytest

from pdtools.tokenization import Tokenizer, split_words, train_bpe_tokenizer

TEXTS = ["He didn’t go.", "“Go!” she said—‘now’.", "It is … late.", 'They say "so" -- don\'t they?'] * 3


@pytest.fixture(scope="module")
def typed() -> Tokenizer:
    corpus = [split_words(text, "raw") for text in TEXTS]
    return train_bpe_tokenizer(corpus, size=330, min_count=1, text_style="raw", typed=True)


@pytest.mark.parametrize(
    ("typeset", "plain"),
    [
        ("don’t", "don't"),
        ("He didn’t go.", "He didn't go."),
        ("“Go!” she said.", '"Go!" she said.'),
        ("“‘Go,’ he said.”", "\"'Go,' he said.\""),
        ("Well—so it is—he said.", "Well--so it is--he said."),
        ("It is … late …", "It is ... late ..."),
        ("‘’Tis late’", "''Tis late'"),
        ("1914–1918 Mr. ⸺", "1914-1918 Mr. --"),
        ("the dogs’ tails", "the dogs' tails"),
        ("a‐b a‑b 5‒6 5–6 a⸻b", "a-b a-b 5-6 5-6 a--b"),
        ("‚a‛ „b‟", "'a' \"b\""),
    ],
)
def test_both_have_the_same_tokens(typed: Tokenizer, typeset: str, plain: str) -> None:
    first, second = (typed.encode(split_words(text, "raw")) for text in (typeset, plain))
    assert first.ids.tolist() == second.ids.tolist()
    for text, encoding in ((typeset, first), (plain, second)):
        covered = {
            place for s, e in zip(encoding.starts, encoding.ends, strict=True) for place in range(s, e)
        }
        assert covered >= {place for place, letter in enumerate(text) if not letter.isspace()}


def test_it_is_kept_in_the_file_and_needs_no_option(typed: Tokenizer, tmp_path: Path) -> None:
    typed.save(tmp_path)
    loaded = Tokenizer.load(tmp_path)
    assert loaded.text_style == "raw"
    assert loaded.word_tokens("n’t") == typed.word_tokens("n't") == loaded.word_tokens("n't")
    both = [*typed.word_tokens("n't"), *typed.word_tokens("go")]
    assert loaded.tokens_of_words(["n’t", "go"])[0].tolist() == both


def test_others_tell_signs_apart() -> None:
    corpus = [split_words(text, "raw") for text in TEXTS]
    raw = train_bpe_tokenizer(corpus, size=330, min_count=1, text_style="raw")
    assert raw.word_tokens("n’t") != raw.word_tokens("n't")
