"""What this study needs besides pdtools: a small GPT-2, and a task that needs structure.

python make.py gpt2 FOLDER [--steps N] [--trees FILES] | task FOLDER [--items N]
"""

from __future__ import annotations

import argparse
import json
import random
import sys
from collections.abc import Iterator, Sequence
from itertools import islice
from pathlib import Path

from pdtools import data
from pdtools.data.generate import english, sentences
from pdtools.data.grammar import Node
from pdtools.data.templates import raw_text
from pdtools.errors import PdtoolsError
from pdtools.files import Rejects, atomic_directory, atomic_text
from pdtools.files.kinds import expand_inputs
from pdtools.parsers.pipeline import SUFFIXES
from pdtools.tokenization import join_words
from pdtools.trees import normalize, read_trees, unescape

SHAPE = {"n_positions": 64, "n_embd": 64, "n_layer": 3, "n_head": 4}
VOCABULARY, END = 1200, "<|endoftext|>"
ROWS, RATE, WARMUP = 16, 2e-3, 50
SENTENCES_OF_GRAMMAR, SENTENCES_A_TEXT = 20_000, 8
# Seeds of what is drawn from the grammar; the bundled treebank is of seed 1.
TEXT_SEED, TASK_SEED = 2, 3


# --- a small GPT-2 ------------------------------------------------------------------------------


def gpt2(folder: Path, steps: int, trees: Sequence[str] = ()) -> None:
    """Train a GPT-2 of four layers on sentences of the grammar, and on the words of trees if there are some.

    It is trained as GPT-2 was, without trees: texts of several sentences with an end behind each, cut into
    rows. The folder is what transformers writes.
    """
    import torch
    import transformers
    from tokenizers import ByteLevelBPETokenizer

    texts = [*grammar_texts(), *tree_texts(trees)]
    random.Random(TEXT_SEED).shuffle(texts)
    with atomic_directory(folder) as made:
        trained = ByteLevelBPETokenizer()
        trained.train_from_iterator(texts, vocab_size=VOCABULARY, special_tokens=[END], show_progress=False)
        trained.save_model(str(made))
        names = dict.fromkeys(("bos_token", "eos_token", "unk_token"), END)
        tokenizer = transformers.GPT2TokenizerFast.from_pretrained(made, **names)
        tokenizer.save_pretrained(made)
        end = tokenizer.convert_tokens_to_ids(END)
        ids = [token for text in texts for token in (*trained.encode(text).ids, end)]
        length = SHAPE["n_positions"]
        rows = torch.tensor(ids[: len(ids) // length * length]).view(-1, length)
        torch.manual_seed(TEXT_SEED)
        config = transformers.GPT2Config(
            vocab_size=len(tokenizer), bos_token_id=end, eos_token_id=end, **SHAPE
        )
        model = transformers.GPT2LMHeadModel(config)
        optimizer = torch.optim.AdamW(model.parameters(), lr=RATE, weight_decay=0.01)
        losses = []
        for step in range(steps):
            rate = RATE * min(1, (step + 1) / WARMUP) * (1 - step / steps)
            for group in optimizer.param_groups:
                group["lr"] = rate
            batch = rows[torch.randint(len(rows), (ROWS,))]
            loss = model(batch, labels=batch).loss
            loss.backward()
            torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
            optimizer.step()
            optimizer.zero_grad()
            losses.append(loss.item())
            if (step + 1) % 50 == 0:
                print(f"step {step + 1}: loss {sum(losses[-50:]) / 50:.3f}", file=sys.stderr, flush=True)
        model.save_pretrained(made)
        about = {"tokens": len(ids), "steps": steps, "tokens_a_step": ROWS * length, "loss": losses[-1]}
        (made / "made.json").write_text(json.dumps(about))


def grammar_texts() -> Iterator[str]:
    """Sentences of the grammar, several in a text."""
    drawn = sentences(english(), random.Random(TEXT_SEED), treebank_sentences())
    texts = (raw_text(tree.words()) for tree in islice(drawn, SENTENCES_OF_GRAMMAR))
    while several := " ".join(islice(texts, SENTENCES_A_TEXT)):
        yield several


def tree_texts(trees: Sequence[str]) -> Iterator[str]:
    """The words of tree files (folders and archives of them), a text each."""
    for file in expand_inputs(trees, SUFFIXES["treebank"]) if trees else ():
        found = (normalize(sourced.tree) for sourced in read_trees([file], Rejects("skip")))
        spelled = [
            join_words([unescape(word) for word in tree.words], "raw").text
            for tree in found
            if tree is not None
        ]
        yield " ".join(spelled)


def treebank_sentences() -> set[str]:
    """Of the bundled treebank, which the text and the task have none of."""
    files = [str(data.treebank(split)) for split in data.SPLITS]
    trees = (normalize(sourced.tree) for sourced in read_trees(files, Rejects()))
    return {" ".join(tree.words) for tree in trees if tree is not None}


# --- the task -----------------------------------------------------------------------------------


def task(folder: Path, items: int) -> None:
    """Write train.jsonl (so many items) and dev.jsonl (a third of it): sentences, and the subject's number.

    The main verb has a form that doesn't tell it (past tense, modal). Of each label, a third of the sentences
    has a noun of the other number before the head of the subject, a third has none there but one between it
    and the main verb, a third has neither. ``first`` and ``last`` are the answers that the first noun and the
    last one before the main verb would give.
    """
    rng = random.Random(TASK_SEED)
    wanted = {"train": items // 6, "dev": items // 18}
    kept: dict[tuple[str, str], list[dict[str, str]]] = {
        (label, kind): [] for label in LABELS.values() for kind in KINDS
    }
    enough = sum(wanted.values())
    for tree in sentences(english(), rng, treebank_sentences()):
        item = item_of(tree)
        if item is not None and len(kept[item["label"], item["kind"]]) < enough:
            kept[item["label"], item["kind"]].append(item)
        if all(len(each) == enough for each in kept.values()):
            break
    with atomic_directory(folder) as made:
        at = 0
        for split, number in wanted.items():
            records = [item for each in kept.values() for item in each[at : at + number]]
            at += number
            rng.shuffle(records)
            with atomic_text(made / f"{split}.jsonl") as stream:
                for record in records:
                    stream.write(json.dumps(record) + "\n")


LABELS = {"NN": "one", "NNS": "many"}
# Where a noun of the other number stands: before the head of the subject, between it and the verb, nowhere.
KINDS = ("before", "between", "none")
LONGEST = 18


def item_of(tree: Node) -> dict[str, str] | None:
    """An item of the task; None of sentences that are none of it.

    It is a statement of at most ``LONGEST`` words whose subject is headed by one noun, and whose finite verb
    is no form that agrees.
    """
    words = tree.words()
    labels = [child.label.split("-")[0] for child in tree.children]
    if len(words) > LONGEST or words[-1] != "." or (tree.label, labels[-3:]) != ("S", ["NP", "VP", "."]):
        return None
    subject, predicate = tree.children[-3:-1]
    verb = next(leaf for leaf in predicate.preterminals() if leaf.label != "RB")
    head = head_noun(subject)
    if head is None or verb.label not in ("VBD", "MD") or verb.word in ("was", "were"):
        return None
    nouns = []
    for leaf in tree.preterminals():
        if leaf is verb:
            break
        if leaf.label in LABELS:
            nouns.append(leaf)
    numbers = [LABELS[noun.label] for noun in nouns]
    place = next(i for i, noun in enumerate(nouns) if noun is head)
    others = [number != numbers[place] for number in numbers]
    kind = "before" if any(others[:place]) else "between" if any(others) else "none"
    return {
        "sentence": raw_text(words),
        "label": numbers[place],
        "kind": kind,
        "first": numbers[0],
        "last": numbers[-1],
    }


def head_noun(phrase: Node) -> Node | None:
    """The noun that a noun phrase is headed by: not by a name, a pronoun, or several coordinated."""
    labels = [child.label.split("-")[0] for child in phrase.children]
    if "CC" in labels:
        return None
    if labels[0] == "NP" and not any(leaf.label in LABELS for leaf in phrase.children):
        return head_noun(phrase.children[0])
    return next((leaf for leaf in reversed(phrase.children) if leaf.label in LABELS), None)


def main() -> None:
    """Make what is asked for."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    commands = parser.add_subparsers(dest="command", required=True)
    for name, number, default in (("gpt2", "--steps", 500), ("task", "--items", 3000)):
        command = commands.add_parser(name)
        command.add_argument("folder", type=Path)
        command.add_argument(number, type=int, default=default)
        if name == "gpt2":
            command.add_argument("--trees", nargs="+", default=[])
    given = parser.parse_args()
    if given.command == "gpt2":
        gpt2(given.folder, given.steps, given.trees)
    else:
        task(given.folder, given.items)


if __name__ == "__main__":
    try:
        main()
    except PdtoolsError as error:
        sys.exit(f"make.py: {error}")
