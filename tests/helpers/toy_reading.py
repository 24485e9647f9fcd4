"""Words of a corpus of reading times, a table of them, and tiny models that read them."""

from __future__ import annotations

import itertools
from pathlib import Path

import numpy as np
from action_oracle import action_model
from rnng_oracle import rnng
from search_oracle import tiny_model

from pdtools.models import save_checkpoint
from pdtools.tokenization import train_word_tokenizer

WORDS = ["The", "dogs", "cats", "don't", "bark", "often,", "very", "loudly"]
TOKENS = ["The", "dogs", "cats", "do", "n't", "bark", "often", ",", "very", "loudly", ".", "``", "''"]
N_ITEMS = 6


def words_of(item: int) -> list[str]:
    """Four sentences of six words."""
    words = [str(word) for word in np.random.default_rng(item).choice(WORDS, 24)]
    return [
        f"{word}." if i % 6 == 5 else word.capitalize() if i % 6 == 0 else word
        for i, word in enumerate(words)
    ]


def save_models(folder: Path) -> None:
    """Save models: with trees, and without, for sentences; without for windows too; three of actions."""
    tokenizer = train_word_tokenizer([*TOKENS, *(t.capitalize() for t in TOKENS)], text_style="ptb", unk=True)
    for name, model, layout in (
        ("pushdown", "pushdown", "sentence"),
        ("base", "transformer", "sentence"),
        ("windows", "transformer", "window"),
    ):
        shards: dict[str, object] = {"layout": layout, "factor": "right", "text_style": "ptb", "window": 24}
        made = tiny_model(model, vocab_size=tokenizer.vocab_size, max_length=25, layout=layout)
        save_checkpoint(folder / name, made, tokenizer, shards=shards)
    words, shards = tokenizer.vocab_size - 3, {"layout": "sentence", "text_style": "ptb"}
    labelled = tokenizer.with_labels(("NP", "S"))
    for name, actions in (
        ("tg", action_model("tg", "relative", words=words, max_open=3)),
        ("rnng", rnng("rnng", words=words)),
        ("rnng-in-order", rnng("rnng-in-order", "attention", words=words)),
    ):
        save_checkpoint(folder / name, actions, labelled, shards=shards)


def write_times(file: Path) -> None:
    """Write times of all words of the items by two subjects."""
    rng = np.random.default_rng(0)
    rows = ["item\tword_number\tword\tsubject\ttime"]
    for item, subject in itertools.product(range(N_ITEMS), range(2)):
        for number, word in enumerate(words_of(item), 1):
            rows.append(f"{item}\t{number}\t{word}\ts{subject}\t{rng.normal(350, 40):.1f}")
    file.write_text("\n".join(rows) + "\n")


def write_counts(file: Path) -> None:
    """Write made-up frequencies of the words."""
    counts = [f"{word.strip(',')}\t{50 - 5 * i}" for i, word in enumerate(WORDS)]
    file.write_text("\n".join(["word\tcount", *counts]) + "\n")
