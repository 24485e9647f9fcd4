"""A task that trees alone decide: whether two sentences are split in the same place at the root."""

from __future__ import annotations

import random
from pathlib import Path

from pdtools.files import Rejects
from pdtools.prompts.items import PromptItem, read_prompts, write_items
from pdtools.prompts.rows import prompt_shards
from pdtools.prompts.tasks import PromptTask
from pdtools.shards import ShardSettings
from pdtools.tokenization import Tokenizer, train_word_tokenizer

WORDS = "abc"
SAME = PromptTask(
    name="same-split",
    parts=("{sentence1}", "{sentence2}"),
    answer="Same : {label}",
    answers={"same": "yes", "other": "no way"},
    metric="accuracy",
)
HOW_LATE = PromptTask(name="how-late", parts=SAME.parts, range=(0.0, 4.0), metric="spearman")
WINDOW = ShardSettings(layout="window", window=24, tape="none")


def toy_tokenizer() -> Tokenizer:
    return train_word_tokenizer([*WORDS, "Same", ":", "yes", "no", "way"], min_count=1)


def toy_items(count: int, seed: int, task: PromptTask = SAME) -> tuple[list[PromptItem], list[str]]:
    """Items and the trees of their sentences; numbers say how many roots split late.

    Most do: were both kinds equally frequent, one root alone would say nothing of the label, and a model
    would have to find both at once.
    """
    rng = random.Random(seed)
    items, trees = [], []
    for number in range(count):
        late = [rng.random() < 0.7, rng.random() < 0.7]
        sentences = [[rng.choice(WORDS) for _ in range(4)] for _ in late]
        for words, is_late in zip(sentences, late, strict=True):
            a, b, c, d = (f"(X {word})" for word in words)
            trees.append(f"(S (S {a} {b} {c}) {d})" if is_late else f"(S {a} (S {b} {c} {d}))")
        label = 2.0 * sum(late) if task.range else "same" if late[0] == late[1] else "other"
        items.append(PromptItem(f"item-{number}", tuple(map(" ".join, sentences)), label))
    return items, trees


def toy_prompts(folder: Path, count: int, seed: int, task: PromptTask = SAME) -> Path:
    """Write shards of prompts; beside the folder, the prompts and trees."""
    items, trees = toy_items(count, seed, task)
    files = [folder.with_suffix(suffix) for suffix in (".jsonl", ".trees")]
    write_items(str(files[0]), task, items, overwrite=True)
    files[1].write_text("\n".join(trees) + "\n")
    prompts = read_prompts(str(files[0]))
    prompt_shards([str(files[1])], prompts, toy_tokenizer(), WINDOW, folder, Rejects("fail"))
    return folder
