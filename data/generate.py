"""Write the sample data: treebank, raw text, mini BLiMP, mini SG.

``python -m pdtools.data.generate --seed 1 --sentences 6000 -o DIR`` gives the files that come with
pdtools; other seeds and sizes give other samples. The same seed and size give the same bytes.
"""

from __future__ import annotations

import argparse
import json
import random
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from itertools import islice
from pathlib import Path
from typing import Any

from pdtools.data import SPLITS
from pdtools.data.grammar import DeadEnd, Grammar, Node
from pdtools.data.lexicon import lexicon
from pdtools.data.minimal_pairs import PARADIGMS, Paradigm, pair
from pdtools.data.suites import SUITES, Item, Suite, document, item
from pdtools.data.templates import raw_text

SEED, SENTENCES = 1, 6000
TEXT_SENTENCES = 200
PAIRS, ITEMS = 60, 20
# Every word outside the training split occurs at least this often in it.
MIN_COUNT = 3
# Draws after which a paradigm or suite is given up.
ATTEMPTS = 20_000
SHORTEST, LONGEST = 3, 40
# Longer trees than this are written over several lines, as treebanks do.
LINE_WIDTH = 600


def english(more_verbs: Mapping[str, str] | None = None) -> Grammar:
    """The grammar that comes with pdtools, with its lexicon, and more verbs (as ``lexicon.VERBS``)."""
    rules = Path(__file__).with_name("english.grammar").read_text(encoding="utf-8")
    return Grammar(rules, lexicon(more_verbs))


def sentences(grammar: Grammar, rng: random.Random, taken: set[str]) -> Iterator[Node]:
    """Endless distinct sentences of 3 to 40 words; adds each to ``taken`` and yields none that is in it."""
    while True:
        try:
            tree = grammar.sample("Top", rng)
        except DeadEnd:
            continue
        words = tree.words()
        text = " ".join(words)
        if SHORTEST <= len(words) <= LONGEST and text not in taken:
            taken.add(text)
            yield tree


def written(tree: Node) -> str:
    """The tree as a treebank file has it: in a wrapper, long ones indented over several lines."""
    line = f"( {tree})"
    return line if len(line) <= LINE_WIDTH else f"( {_indented(tree, 2)})"


def _indented(node: Node, column: int) -> str:
    if node.word or all(child.word for child in node.children):
        return str(node)
    below = "\n" + " " * (column + 2)
    return f"({node.label} {below.join(_indented(child, column + 2) for child in node.children)})"


def draw_pairs(
    paradigm: Paradigm, grammar: Grammar, rng: random.Random, usable: Usable
) -> list[dict[str, Any]]:
    """The records of a paradigm, none of its sentences used before."""
    records: list[dict[str, Any]] = []
    for _ in range(ATTEMPTS):
        if len(records) == PAIRS:
            return records
        with suppress(DeadEnd):
            good, bad, record = pair(paradigm, grammar, rng, len(records))
            if usable.take([good, bad]):
                records.append(record | {"pairID": str(len(records))})
    raise RuntimeError(f"paradigm {paradigm.uid}: only {len(records)} pairs, too few words in the treebank")


def draw_items(suite: Suite, grammar: Grammar, rng: random.Random, usable: Usable) -> list[Item]:
    """The items of a suite, none of its sentences used before."""
    items: list[Item] = []
    for _ in range(ATTEMPTS):
        if len(items) == ITEMS:
            return items
        with suppress(DeadEnd):
            drawn = item(suite, grammar, rng, len(items))
            if usable.take([[word for region in regions for word in region] for regions in drawn.values()]):
                items.append(drawn)
    raise RuntimeError(f"suite {suite.name}: only {len(items)} items, too few words in the treebank")


class Usable:
    """Which sentences may still be drawn: not drawn before, every word often enough in the training split."""

    def __init__(self, counts: Counter[str], taken: set[str]) -> None:
        self.counts = counts
        self.taken = taken

    def known(self, words: Sequence[str]) -> bool:
        return all(self.counts[word] >= MIN_COUNT for word in words)

    def take(self, group: Sequence[Sequence[str]]) -> bool:
        """Take a group of sentences if all of them are new, different and known."""
        texts = [" ".join(words) for words in group]
        if len({*texts} - self.taken) < len(texts) or not all(map(self.known, group)):
            return False
        self.taken.update(texts)
        return True


def write_samples(folder: Path, seed: int, size: int) -> None:
    """Write everything below ``folder``: ``size`` training sentences, a twelfth of that in the other splits.

    Raises:
        RuntimeError: with so few training sentences that the words left don't suffice for the minimal pairs.
    """
    grammar = english()
    taken: set[str] = set()
    trees = sentences(grammar, random.Random(f"treebank {seed}"), taken)
    train = [next(trees) for _ in range(size)]
    usable = Usable(Counter(word for tree in train for word in tree.words()), taken)
    known = (tree for tree in trees if usable.known(tree.words()))
    held_out = max(1, size // 12)
    for split, drawn in zip(SPLITS, (train, islice(known, held_out), islice(known, held_out)), strict=True):
        _write(folder / "treebank" / f"{split}.mrg", map(written, drawn))
    _write(folder / "text" / "sample.txt", (raw_text(tree.words()) for tree in islice(known, TEXT_SENTENCES)))
    for paradigm in PARADIGMS:
        records = draw_pairs(paradigm, grammar, random.Random(f"{paradigm.uid} {seed}"), usable)
        _write(folder / "blimp" / f"{paradigm.uid}.jsonl", map(json.dumps, records))
    for suite in SUITES:
        items = draw_items(suite, grammar, random.Random(f"{suite.name} {seed}"), usable)
        _write(folder / "sg" / f"{suite.name}.json", [json.dumps(document(suite, items), indent=1)])


def _write(path: Path, lines: Iterable[str]) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("".join(f"{line}\n" for line in lines), encoding="utf-8", newline="\n")


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(prog="python -m pdtools.data.generate", description=__doc__)
    parser.add_argument("--seed", type=int, default=SEED, help=f"the random seed (default {SEED})")
    parser.add_argument(
        "--sentences", type=int, default=SENTENCES, help=f"training sentences (default {SENTENCES})"
    )
    parser.add_argument("-o", "--output", type=Path, required=True, help="the folder to write to")
    options = parser.parse_args(arguments)
    try:
        write_samples(options.output, options.seed, options.sentences)
    except RuntimeError as error:
        parser.exit(1, f"{error}: ask for more --sentences (2000 and up are enough)\n")


if __name__ == "__main__":
    main()
