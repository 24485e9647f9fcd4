"""Write the sample data: treebank, raw text, mini BLiMP, mini SG.

``python -m pdtools.data.generate --seed 1 --sentences 6000 -o DIR`` gives the files that come with pdtools; other
seeds and sizes give other samples. The same seed and size give the same bytes.
"""

from __future__ import annotations

import argparse
import random
import re
from collections.abc import Iterator, Sequence
from pathlib import Path

from pdtools.data import SPLITS
from pdtools.data.grammar import DeadEnd, Grammar, Node
from pdtools.data.lexicon import lexicon

SEED, SENTENCES = 1, 6000
TEXT_SENTENCES = 200
SHORTEST, LONGEST = 3, 40
# Longer trees than this are written over several lines, as treebanks do.
LINE_WIDTH = 600


def english() -> Grammar:
    """The grammar that comes with pdtools, with its lexicon."""
    rules = Path(__file__).with_name("english.grammar").read_text(encoding="utf-8")
    return Grammar(rules, lexicon())


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


def raw_text(words: Sequence[str]) -> str:
    """Treebank words as people write them: brackets and quotes as characters, clitics and punctuation attached."""
    text = " ".join(words).replace("-LRB- ", "(").replace(" -RRB-", ")")
    text = re.sub(r"`` ", '"', text).replace(" ''", '"')
    return re.sub(r" (?=[.,?]|n't\b|'s\b|'(?= ))", "", text)


def write_samples(folder: Path, seed: int, size: int) -> None:
    """Write everything below ``folder``: ``size`` training sentences, a twelfth of that for validation and test."""
    grammar = english()
    taken: set[str] = set()
    trees = sentences(grammar, random.Random(f"treebank {seed}"), taken)
    for split in SPLITS:
        count = size if split == "train" else max(1, size // 12)
        _write(folder / "treebank" / f"{split}.mrg", [written(next(trees)) for _ in range(count)])
    _write(folder / "text" / "sample.txt", [raw_text(next(trees).words()) for _ in range(TEXT_SENTENCES)])


def _write(path: Path, lines: Sequence[str]) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("".join(f"{line}\n" for line in lines), encoding="utf-8", newline="\n")


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(prog="python -m pdtools.data.generate", description=__doc__)
    parser.add_argument("--seed", type=int, default=SEED, help=f"the random seed (default {SEED})")
    parser.add_argument("--sentences", type=int, default=SENTENCES, help=f"training sentences (default {SENTENCES})")
    parser.add_argument("-o", "--output", type=Path, required=True, help="the folder to write to")
    options = parser.parse_args(arguments)
    write_samples(options.output, options.seed, options.sentences)


if __name__ == "__main__":
    main()
