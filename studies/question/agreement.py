"""Text and minimal pairs of experiment E: agreement of verbs over attractors, in a language of our own.

python agreement.py OUTPUT [--words 1000000] [--held-out 500] [--pairs 200]

Writes treebanks ``train-WORDS.trees`` of 3, 10, 30 and 100% of the words, each the beginning of the next,
``valid.trees`` and ``test.trees``, and ``pairs/attractors-K.jsonl``. An attractor is a noun within the
subject that has the other number than its head. All nouns within the subject of a pair but the head are
attractors; in half of the pairs the subject's clause is below another one, whose subject has the
attractors' number too, so that the first noun of the sentence does not give the verb.
Prints on standard error how many of the training text's subjects have how many attractors.
"""

from __future__ import annotations

import argparse
import json
import random
import sys
from collections import Counter
from collections.abc import Iterable, Iterator
from pathlib import Path

from pdtools.data.grammar import Entry, Grammar, Node
from pdtools.files import atomic_text

SHARES = (0.03, 0.1, 0.3, 1.0)
MOST_ATTRACTORS = 6
LONGEST = 40  # words of a sentence
OTHER = {"sg": "pl", "pl": "sg"}
NOUN_TAGS = {"NN": "sg", "NNS": "pl"}

# n: number; o: that of all other nouns; k: what follows a verb.
RULES = """
Top
  1    (S {NP n} {VP n} (. .))

NP n
  10   (NP (DT the) {N n})
  4*   (NP (NP (DT the) {N n}) (PP {P} {NP}))
  3*   (NP (NP (DT the) {N n}) (SBAR (WHNP (WDT that)) (S {VP n})))
  3*   (NP (NP (DT the) {N n}) (SBAR (WHNP (WDT that)) (S {NP n=$m} (VP {V n=$m k=noun}))))

VP n
  4    (VP {V n k=nothing})
  5    (VP {V n k=noun} {NP})
  2*   (VP {V n k=clause} (SBAR (IN that) (S {NP n=$m} {VP n=$m})))

Tested n o
  1    (S {Subject n o} (VP {V n k=nothing}) (. .))

TestedBelow n o
  1    (S (NP (DT the) {N n=$o}) (VP {V n=$o k=clause} {Clause n o}) (. .))

Clause n o
  1    (SBAR (IN that) (S {Subject n o} (VP {V n k=nothing})))

Subject n o
  1    (NP (DT the) {N n})
  1    (NP (NP (DT the) {N n}) (PP {P} {Below n=$o}))
  1    (NP (NP (DT the) {N n}) (SBAR (WHNP (WDT that)) (S (VP {V n k=noun} {Below n=$o}))))
  1    (NP (NP (DT the) {N n}) (SBAR (WHNP (WDT that)) (S {Below n=$o} (VP {V n=$o k=noun}))))

Below n
  3    (NP (DT the) {N n})
  1    (NP (NP (DT the) {N n}) (PP {P} {Below n}))
  1    (NP (NP (DT the) {N n}) (SBAR (WHNP (WDT that)) (S (VP {V n k=noun} {Below n}))))
  1    (NP (NP (DT the) {N n}) (SBAR (WHNP (WDT that)) (S {Below n} (VP {V n k=noun}))))
"""


def language() -> Grammar:
    """100 nouns, 80 verbs and 8 prepositions; the r-th word of a kind has the weight 1 / r."""
    nouns = [
        Entry(f"n{i}{end}", tag, {"n": number}, 1 / i)
        for i in range(1, 101)
        for end, tag, number in (("", "NN", "sg"), ("s", "NNS", "pl"))
    ]
    kinds = ("nothing",) * 32 + ("noun",) * 40 + ("clause",) * 8
    verbs = [
        Entry(f"v{i}{end}", tag, {"n": number, "k": kind}, 1 / i)
        for i, kind in enumerate(kinds, 1)
        for end, tag, number in (("s", "VBZ", "sg"), ("", "VBP", "pl"))
    ]
    prepositions = [Entry(f"p{i}", "IN", {}, 1 / i) for i in range(1, 9)]
    return Grammar(RULES, {"N": nouns, "V": verbs, "P": prepositions})


def attractors(subject: Node) -> int:
    """The nouns of a subject with the other number than its head, which is the first."""
    head, *others = (NOUN_TAGS[leaf.label] for leaf in subject.preterminals() if leaf.label in NOUN_TAGS)
    return sum(number != head for number in others)


def pairs(grammar: Grammar, rng: random.Random, number: int, size: int) -> Iterator[dict[str, str]]:
    """Different pairs whose subject has this number of attractors, of singular and plural verbs in turn."""
    taken: set[str] = set()
    while len(taken) < size:
        n = ("sg", "pl")[len(taken) % 2]
        tested = ("Tested", "TestedBelow")[len(taken) // 2 % 2]
        tree = grammar.sample(tested, rng, n=n, o=OTHER[n])
        *before, verb, stop = tree.words()
        clause = tree if tested == "Tested" else tree.children[1].children[1].children[1]
        text = " ".join([*before, verb, stop])
        if attractors(clause.children[0]) == number and len(before) + 2 <= LONGEST and text not in taken:
            taken.add(text)
            wrong = verb.removesuffix("s") if n == "sg" else f"{verb}s"
            yield {
                "sentence_good": text,
                "sentence_bad": " ".join([*before, wrong, stop]),
                "linguistics_term": "attractors" if number else "none",
                "UID": f"attractors-{number}",
                "pairID": str(len(taken) - 1),
            }


def sentences(grammar: Grammar, rng: random.Random, excluded: set[str]) -> Iterator[Node]:
    """Endless sentences, none of the excluded ones."""
    while True:
        tree = grammar.sample("Top", rng)
        words = tree.words()
        if len(words) <= LONGEST and " ".join(words) not in excluded:
            yield tree


def main() -> None:
    """Write all of it."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    parser.add_argument("output", type=Path)
    parser.add_argument("--words", type=int, default=1_000_000)
    parser.add_argument("--held-out", type=int, default=500)
    parser.add_argument("--pairs", type=int, default=200)
    given = parser.parse_args()
    grammar = language()
    (given.output / "pairs").mkdir(parents=True, exist_ok=True)
    tested: set[str] = set()
    for number in range(MOST_ATTRACTORS + 1):
        drawn = list(pairs(grammar, random.Random(f"pairs {number}"), number, given.pairs))
        tested.update(each["sentence_good"] for each in drawn)
        _write(given.output / "pairs" / f"attractors-{number}.jsonl", map(json.dumps, drawn))
    text = sentences(grammar, random.Random("training"), tested)
    train: list[str] = []
    read = set(tested)  # what is not held out
    subjects: Counter[int] = Counter()
    words = 0
    for share in SHARES:
        while words < share * given.words:
            tree = next(text)
            words += len(tree.words())
            train.append(str(tree))
            read.add(" ".join(tree.words()))
            clauses = (node for node in tree.nodes() if node.label == "S" and node.children[0].label == "NP")
            subjects.update(attractors(node.children[0]) for node in clauses)
        _write(given.output / f"train-{round(share * given.words)}.trees", train)
    for part in ("valid", "test"):
        held_out = sentences(grammar, random.Random(part), read)
        _write(given.output / f"{part}.trees", (str(next(held_out)) for _ in range(given.held_out)))
    shares = (f"{k}: {subjects[k] / subjects.total():.3%}" for k in sorted(subjects))
    print(f"{len(train)} sentences; subjects by attractors:", ", ".join(shares), file=sys.stderr)


def _write(path: Path, lines: Iterable[str]) -> None:
    with atomic_text(path) as stream:
        stream.writelines(f"{line}\n" for line in lines)


if __name__ == "__main__":
    main()
