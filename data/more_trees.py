"""Write more trees of the grammar, none of them a sentence of the sample's held-out parts.

``python -m pdtools.data.more_trees -o FILE`` gives what the models to try are trained on (``make
demo-model``): a larger treebank than the sample's, with a verb more. The same seed and size give the same
bytes.
"""

from __future__ import annotations

import argparse
import json
import random
from collections.abc import Iterator, Sequence
from itertools import islice
from pathlib import Path

from pdtools import data
from pdtools.data.generate import english, sentences, written
from pdtools.data.lexicon import MORE_VERBS
from pdtools.files import Rejects
from pdtools.tokenization import split_words
from pdtools.trees import normalize, read_trees

SEED, SENTENCES = 2, 24_000


def held_out() -> Iterator[str]:
    """The sentences that models are validated and tested on, words between spaces as trees have them."""
    for split in ("valid", "test"):
        for sourced in read_trees([str(data.treebank(split))], Rejects()):
            tree = normalize(sourced.tree)
            assert tree is not None
            yield " ".join(tree.words)
    for line in data.sample_text().read_text(encoding="utf-8").splitlines():
        yield " ".join(split_words(line, "ptb").words)
    for path in data.blimp().glob("*.jsonl"):
        for line in path.read_text(encoding="utf-8").splitlines():
            record = json.loads(line)
            yield from (
                " ".join(split_words(record[f"sentence_{side}"], "ptb").words) for side in ("good", "bad")
            )
    for path in data.sg().glob("*.json"):
        for item in json.loads(path.read_text(encoding="utf-8"))["items"]:
            for condition in item["conditions"]:
                yield " ".join(" ".join(region["content"] for region in condition["regions"]).split())


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(prog="python -m pdtools.data.more_trees", description=__doc__)
    parser.add_argument("--seed", type=int, default=SEED, help=f"the random seed (default {SEED})")
    parser.add_argument("--sentences", type=int, default=SENTENCES, help=f"trees (default {SENTENCES})")
    parser.add_argument("-o", "--output", type=Path, required=True, help="the file to write")
    options = parser.parse_args(arguments)
    trees = sentences(english(MORE_VERBS), random.Random(f"more trees {options.seed}"), set(held_out()))
    with options.output.open("w", encoding="utf-8", newline="\n") as file:
        file.writelines(f"{written(tree)}\n" for tree in islice(trees, options.sentences))


if __name__ == "__main__":
    main()
