"""Text and minimal pairs of experiment E: agreement of verbs over attractors, in a language of our own.

python agreement.py OUTPUT [--words 1000000] [--held-out 500] [--pairs 96]

Writes treebanks ``train-WORDS.trees`` of 3, 10, 30 and 100% of the words, each the beginning of the next,
``valid.trees`` and ``test.trees``, and ``pairs/``. An attractor is a noun within the subject that has the
other number than its head. In ``attractors-K.jsonl`` all K nouns within the subject but its head are
attractors, and in ``agreeing-K.jsonl`` the same sentences have none: all nouns have the head's number.
Prints on standard error how many of the training text's subjects have how many attractors.
"""

from __future__ import annotations

import argparse
import json
import random
import sys
from collections import Counter
from collections.abc import Iterable, Iterator
from itertools import islice
from pathlib import Path

from pdtools.data.grammar import Entry, Grammar, Node
from pdtools.files import atomic_text

SHARES = (0.03, 0.1, 0.3, 1.0)
MOST_ATTRACTORS, MANY_ATTRACTORS = 6, 4
LONGEST = 40  # words of a sentence
OTHER = {"sg": "pl", "pl": "sg"}
NOUN_TAGS = {"NN": "sg", "NNS": "pl"}

# Subjects and predicates. n: number; k: what follows a verb. All other nouns have numbers of their own ($m)
# or, in what is tested, the number o.
PHRASES = """
NP{of} n {o}
  10   (NP (DT the) {{N n}})
  4    (NP (NP (DT the) {{N n}}) (PP {{P}} {{NP{of} n=${m} {o}}}))
  3    (NP (NP (DT the) {{N n}}) (SBAR (WHNP (WDT that)) (S {{VP{of} n {o}}})))
  3    (NP (NP (DT the) {{N n}}) (SBAR (WHNP (WDT that)) (S {{NP{of} n=${m} {o}}} (VP {{V n=${m} k=noun}}))))

VP{of} n {o}
  4    (VP {{V n k=nothing}})
  5    (VP {{V n k=noun}} {{NP{of} n=${m} {o}}})
  2    (VP {{V n k=clause}} (SBAR (IN that) (S {{NP{of} n=${m} {o}}} {{VP{of} n=${m} {o}}})))
"""
RULES = (
    PHRASES.format(of="", o="", m="m")
    + PHRASES.format(of="Tested", o="o", m="o")
    + """
Top
  1    (S {NP n} {VP n} (. .))

Tested n o
  1    (S {NPTested n o} {Verb n o} (. .))

# The subject of the clause above has the attractors' number too: the first noun does not give the verb.
TestedBelow n o
  1    (S (NP (DT the) {N n=$o}) (VP {V n=$o k=clause} (SBAR (IN that) (S {NPTested n o} {Verb n o}))) (. .))

Verb n o
  1    (VP {V n k=nothing})
  1    (VP {V n k=noun} (NP (DT the) {N n=$o}))
"""
)


def language() -> Grammar:
    """100 nouns, 80 verbs of three kinds and 8 prepositions; the i-th of a list has the weight 1 / i."""
    nouns = [
        Entry(f"n{i}{end}", tag, {"n": number}, 1 / i)
        for i in range(1, 101)
        for end, tag, number in (("", "NN", "sg"), ("s", "NNS", "pl"))
    ]
    verbs = [
        Entry(f"v{first + i}{end}", tag, {"n": number, "k": kind}, 1 / i)
        for kind, first, of_kind in (("nothing", 0, 32), ("noun", 32, 40), ("clause", 72, 8))
        for i in range(1, of_kind + 1)
        for end, tag, number in (("s", "VBZ", "sg"), ("", "VBP", "pl"))
    ]
    prepositions = [Entry(f"p{i}", "IN", {}, 1 / i) for i in range(1, 9)]
    return Grammar(RULES, {"N": nouns, "V": verbs, "P": prepositions})


def other_nouns(subject: Node) -> list[bool]:
    """Whether each noun of a subject after its head, the first one, is an attractor."""
    head, *others = (NOUN_TAGS[leaf.label] for leaf in subject.preterminals() if leaf.label in NOUN_TAGS)
    return [number != head for number in others]


def pairs(grammar: Grammar, number: int, size: int) -> Iterator[tuple[dict[str, str], ...]]:
    """Different pairs whose subject has this number of attractors, each with its twin that has none.

    A pair is a record of BLiMP; without attractors there is no twin.

    In turn: a singular and a plural verb; a clause by itself and one below another; a subject that ends with
    a noun and one that ends with a verb, without a verb that is followed by a clause and with one.
    """
    taken: set[str] = set()
    draw = 0
    while len(taken) < size:
        item = len(taken)
        n, is_below = ("sg", "pl")[item % 2], item // 2 % 2 == 1
        has_clause = number > 0 and item // 4 % 2 == 1
        # A subject with a clause needs two nouns beside its head to end with one.
        ends_with_noun = number == 0 or (item // 8 % 2 == 1 and not (has_clause and number == 1))
        draw += 1
        tree, clause = _drawn(grammar, f"{number} {draw}", n, OTHER[n], is_below)
        subject = clause.children[0]
        leaves = list(subject.preterminals())
        text = " ".join(tree.words())
        if (
            len(other_nouns(subject)) == number
            and (leaves[-1].label in NOUN_TAGS) == ends_with_noun
            and any(leaf.label == "IN" and leaf.word == "that" for leaf in leaves) == has_clause
            and len(tree.words()) <= LONGEST
            and text not in taken
        ):
            taken.add(text)
            group = [_pair(tree, clause, "attractors", number, item)]
            if number:
                twin = _drawn(grammar, f"{number} {draw}", n, n, is_below)
                group.append(_pair(*twin, "agreeing", number, item))
            yield tuple(group)


def _drawn(grammar: Grammar, seed: str, n: str, o: str, is_below: bool) -> tuple[Node, Node]:
    """A sentence and its tested clause; the same seed gives the same structure and lemmas for all numbers."""
    tree = grammar.sample("TestedBelow" if is_below else "Tested", random.Random(seed), n=n, o=o)
    return tree, tree.children[1].children[1].children[1] if is_below else tree


def _pair(tree: Node, clause: Node, kind: str, number: int, item: int) -> dict[str, str]:
    """The sentence, and the one whose tested verb has the other number."""
    leaf = clause.children[1].children[0]
    good = " ".join(tree.words())
    leaf.word = leaf.word.removesuffix("s") if leaf.word.endswith("s") else f"{leaf.word}s"
    many = "more_" if number >= MANY_ATTRACTORS else ""
    return {
        "sentence_good": good,
        "sentence_bad": " ".join(tree.words()),
        "linguistics_term": f"{many}{kind}" if number else "none",
        "UID": f"{kind}-{number}",
        "pairID": str(item),
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
    parser.add_argument("--pairs", type=int, default=96)
    given = parser.parse_args()
    grammar = language()
    (given.output / "pairs").mkdir(parents=True, exist_ok=True)
    read: set[str] = set()  # or tested: what is not drawn again
    for number in range(MOST_ATTRACTORS + 1):
        for group in zip(*pairs(grammar, number, given.pairs), strict=True):
            read.update(each["sentence_good"] for each in group)
            _write(given.output / "pairs" / f"{group[0]['UID']}.jsonl", map(json.dumps, group))
    text = sentences(grammar, random.Random("training"), set(read))
    train: list[str] = []
    subjects: Counter[int] = Counter()
    words = 0
    for share in SHARES:
        while words < share * given.words:
            tree = next(text)
            words += len(tree.words())
            train.append(str(tree))
            read.add(" ".join(tree.words()))
            clauses = (node for node in tree.nodes() if node.label == "S" and node.children[0].label == "NP")
            subjects.update(sum(other_nouns(node.children[0])) for node in clauses)
        _write(given.output / f"train-{round(share * given.words)}.trees", train)
    for part in ("valid", "test"):
        held_out = list(islice(sentences(grammar, random.Random(part), read), given.held_out))
        read.update(" ".join(tree.words()) for tree in held_out)
        _write(given.output / f"{part}.trees", map(str, held_out))
    shares = (f"{k}: {subjects[k]}" for k in sorted(subjects))
    print(f"{len(train)} sentences; subjects by attractors:", ", ".join(shares), file=sys.stderr)


def _write(path: Path, lines: Iterable[str]) -> None:
    with atomic_text(path) as stream:
        stream.writelines(f"{line}\n" for line in lines)


if __name__ == "__main__":
    main()
