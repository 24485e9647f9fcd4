"""Five folds of trees, so that each sentence can be parsed by a parser that never saw it.

python folds.py split TREES FOLDS
python folds.py join TREES FOLDS -o AUTO

``split`` writes for each fold N of 0 to 4 ``FOLDS/N/train.trees``, the trees of the other folds, and
``FOLDS/N/words.txt``, the words of its own sentences, a line each. The fold of a sentence is a hash of its
words, so that a sentence that stands twice is in one fold. ``join`` puts ``FOLDS/N/parsed.trees`` into the
order of TREES.
"""

from __future__ import annotations

import argparse
import hashlib
from pathlib import Path

import nltk

from pdtools.files import atomic_text
from pdtools.trees.tree import unescape

FOLDS = 5
MARGIN = 1 << 20  # no tree is so long: each is a line


def read_tree(brackets: str) -> nltk.Tree:
    """The tree; other spaces, as no-break ones, are parts of its words."""
    return nltk.Tree.fromstring(brackets, leaf_pattern="[^() ]+")


def words_of(tree: str) -> str:
    """The words of a bracketed tree, with single spaces between them."""
    return " ".join(read_tree(tree).leaves())


def fold_of(words: str) -> int:
    """The fold of a sentence, whatever spaces are within its words."""
    plain = " ".join(words.split())
    return int.from_bytes(hashlib.sha256(plain.encode()).digest()[:4], "big") % FOLDS


def split(trees: Path, folds: Path) -> None:
    """Write what the parser of each fold trains on, and what it parses."""
    lines = trees.read_text(encoding="utf-8").splitlines()
    sentences = [words_of(line) for line in lines]
    for fold in range(FOLDS):
        inside = [fold_of(sentence) == fold for sentence in sentences]
        folder = folds / str(fold)
        folder.mkdir(parents=True, exist_ok=True)
        _write(folder / "train.trees", [line for line, own in zip(lines, inside, strict=True) if not own])
        _write(folder / "words.txt", [words for words, own in zip(sentences, inside, strict=True) if own])


def join(trees: Path, folds: Path, output: Path) -> None:
    """Put the parses of all folds into the order of their treebank, with its words.

    A parse has ``-LCB-`` where some treebanks have ``{``.

    Raises:
        ValueError: if a parse has other words than its tree.
    """
    parsed = {
        fold: iter((folds / str(fold) / "parsed.trees").read_text(encoding="utf-8").splitlines())
        for fold in range(FOLDS)
    }
    found = []
    for line in trees.read_text(encoding="utf-8").splitlines():
        words = words_of(line)
        parse = read_tree(next(parsed[fold_of(words)]))
        if unescape(" ".join(parse.leaves())) != unescape(words):
            raise ValueError(f"{' '.join(parse.leaves())!r} is a parse of other words than {words!r}")
        for place, word in zip(parse.treepositions("leaves"), words.split(" "), strict=True):
            parse[place] = word
        found.append(parse.pformat(margin=MARGIN))
    _write(output, found)


def _write(path: Path, lines: list[str]) -> None:
    with atomic_text(path) as stream:
        stream.writelines(f"{line}\n" for line in lines)


def main() -> None:
    """Split or join."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    parser.add_argument("what", choices=["split", "join"])
    parser.add_argument("trees", type=Path)
    parser.add_argument("folds", type=Path)
    parser.add_argument("-o", "--output", type=Path)
    given = parser.parse_args()
    if given.what == "split":
        split(given.trees, given.folds)
    else:
        join(given.trees, given.folds, given.output)


if __name__ == "__main__":
    main()
