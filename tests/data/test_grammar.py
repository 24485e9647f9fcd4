"""The grammar interpreter on small grammars whose language is known."""

from __future__ import annotations

import random
from itertools import pairwise

import pytest

from pdtools.data.grammar import DeadEnd, Entry, Grammar, Node, tidy_indices
from pdtools.data.templates import raw_text, render

WORDS = {
    "N": [
        Entry("dog", "NN", {"lemma": "dog", "a": "sg"}),
        Entry("dogs", "NNS", {"lemma": "dog", "a": "pl"}),
        Entry("owl", "NN", {"lemma": "owl", "a": "sg"}),
        Entry("owls", "NNS", {"lemma": "owl", "a": "pl"}),
    ],
    "V": [
        Entry("runs", "VBZ", {"lemma": "run", "a": "sg"}),
        Entry("run", "VBP", {"lemma": "run", "a": "pl"}),
    ],
    "D": [Entry("a", "DT", {"lemma": "a", "a": "sg"}), Entry("the", "DT", {"lemma": "the"})],
}
RULES = """
S
  1   (S {NP-SBJ-$x a} (VP {V a}) (. .))
NP a
  3   (NP {D a} {N a})
  1*  [a=sg] (NP {NP a} (PP (IN near) {NP}))
"""


def many(grammar: Grammar, symbol: str = "S", count: int = 300, **features: str) -> list[Node]:
    rng = random.Random(0)
    return [grammar.sample(symbol, rng, **features) for _ in range(count)]


def test_features_flow_from_the_subject_to_the_verb() -> None:
    agreements = set()
    for tree in many(Grammar(RULES, WORDS)):
        subject = next(leaf for leaf in tree.preterminals() if leaf.label.startswith("NN"))
        verb = next(leaf for leaf in tree.preterminals() if leaf.label.startswith("VB"))
        agreements.add((subject.label, verb.label))
    assert agreements == {("NN", "VBZ"), ("NNS", "VBP")}


def test_a_guard_restricts_and_binds() -> None:
    for tree in many(Grammar(RULES, WORDS), "NP", a="pl"):
        assert "near" not in tree.words()
    assert any("near" in tree.words() for tree in many(Grammar(RULES, WORDS), "NP"))


def test_features_that_nothing_has_are_a_dead_end() -> None:
    with pytest.raises(DeadEnd):
        Grammar(RULES, WORDS).sample("NP", random.Random(0), a="dual")


def test_a_dead_end_in_one_alternative_leaves_the_others() -> None:
    rules = "S\n  9  (S {N a=dual})\n  1  (S {N a=pl})"
    assert all(tree.words()[0].endswith("s") for tree in many(Grammar(rules, WORDS), count=50))


def test_the_same_seed_gives_the_same_trees() -> None:
    grammar = Grammar(RULES, WORDS)
    assert list(map(str, many(grammar))) == list(map(str, many(Grammar(RULES, WORDS))))


def test_a_becomes_an_and_the_first_word_gets_its_capital() -> None:
    for tree in many(Grammar(RULES, WORDS)):
        words = tree.words()
        assert words[0] in {"A", "An", "The"}
        for word, following in pairwise(words):
            if word.lower() in {"a", "an"}:
                assert (word.lower() == "an") == following.startswith("o")


def test_indices_without_a_trace_vanish_and_the_rest_is_numbered() -> None:
    trace = Node("-NONE-", word="*T*-7")
    tree = Node(
        "S", [Node("WHNP-7", word="who"), Node("NP-SBJ-3", [trace]), Node("X", [Node("-NONE-", word="*-9")])]
    )
    tidy_indices(tree)
    assert str(tree) == "(S (WHNP-1 who) (NP-SBJ (-NONE- *T*-1)) (X (-NONE- *)))"


@pytest.mark.parametrize(
    "rules", ["S\n  1 (S {Missing})", "S\n  1 (S (A b)", "S\n  oops", "S\n 1 (A b)\nS\n 1 (A b)"]
)
def test_broken_rules_are_named(rules: str) -> None:
    with pytest.raises(ValueError, match=r"Missing|unbalanced|not a rule|twice"):
        Grammar(rules, WORDS)


def test_slots_hold_the_same_lemma_in_every_version() -> None:
    grammar = Grammar(RULES, WORDS)
    rng = random.Random(0)
    versions = [["the {N#1 a=$n} near the {N#2} {V#1 a=$n}"], ["the {N#1 a=$m} near the {N#2} {V#1 a=$m}"]]
    drawn = 0
    while drawn < 20:
        try:
            ((one,), (other,)) = render(grammar, rng, versions, {"n": "sg", "m": "pl"})
        except DeadEnd:  # the second slot drew the lemma of the first
            continue
        drawn += 1
        assert one[1] + "s" == other[1]
        assert one[:1] + one[2:5] == other[:1] + other[2:5]
        assert one[4].rstrip("s") != one[1]
        assert (one[5], other[5]) == ("runs", "run")


def test_raw_text_is_written_as_people_write() -> None:
    words = ["``", "The", "poets", "'", "books", "do", "n't", "please", "Emma", "'s", "king"]
    words += ["-LRB-", "a", "man", "-RRB-", ",", "''", "he", "said", "."]
    assert raw_text(words) == "\"The poets' books don't please Emma's king (a man),\" he said."
