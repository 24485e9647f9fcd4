"""EVALB's counts in time linear in the brackets: the same as by comparing each with each, and quick."""

from __future__ import annotations

import itertools
import time
from dataclasses import dataclass, field
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from odd_treebanks import TREES

from pdtools.evaluation.parsing.evalb import (
    _Bracket,
    _crossing,
    _match,
    _read,
    _restore_quotes,
    compare_sentence,
)
from pdtools.evaluation.parsing.prm import COMMON, Parameters

Node = tuple[str, Any]  # a label, and a word or nodes

LABELS = Parameters(equal_labels=frozenset({("S", "X"), ("X", "ROOT"), ("é", "S")}))


def plain_match(gold: list[_Bracket], test: list[_Bracket], parameters: Parameters | None) -> int:
    free = list(test)
    for bracket in gold:
        for i, other in enumerate(free):
            same_span = (bracket.start, bracket.end) == (other.start, other.end)
            if same_span and (parameters is None or parameters.same_label(bracket.label, other.label)):
                del free[i]
                break
    return len(test) - len(free)


def plain_crossing(gold: list[_Bracket], test: list[_Bracket]) -> int:
    return sum(
        any(a.start < b.start < a.end < b.end or b.start < a.start < b.end < a.end for a in gold)
        for b in test
    )


LABEL = st.sampled_from(["S", "X", "ROOT", "NP", "é"])
LEAF = st.just("(NN a)")
NODES = st.recursive(
    LEAF,
    lambda inner: st.builds(
        lambda label, c: f"({label} {' '.join(c)})", LABEL, st.lists(inner, min_size=1, max_size=3)
    ),
)


@given(NODES, NODES)
def test_as_by_comparing_each_with_each(gold: str, predicted: str) -> None:
    one, other = (_read(tree, COMMON).brackets for tree in (gold, predicted))
    for parameters in (None, LABELS, COMMON):
        assert _match(one, other, parameters) == plain_match(one, other, parameters)
    assert _crossing(one, other) == plain_crossing(one, other)


def test_all_short_chains_of_labels_that_equal_some_of_the_others() -> None:
    chains = [c for n in (1, 2, 3) for c in itertools.product(("S", "X", "ROOT"), repeat=n)]
    brackets = {chain: [_Bracket(0, 1, label) for label in chain] for chain in chains}
    for one, other in itertools.product(chains, repeat=2):
        found = _match(brackets[one], brackets[other], LABELS)
        assert found == plain_match(brackets[one], brackets[other], LABELS)


@given(st.lists(TREES, max_size=2).map("".join), st.lists(TREES, max_size=2).map("".join))
def test_odd_trees_compare_without_a_crash(gold: str, predicted: str) -> None:
    compare_sentence(gold, predicted, COMMON)


# --- quotes -----------------------------------------------------------------------------------

QUOTES = Parameters(
    delete_labels=frozenset({"``", "''"}),
    quote_labels=frozenset({"``", "''", "POS"}),
)


@dataclass
class PlainQuote:
    word: str
    label: str
    index: int
    bracket: int  # the first bracket opened after it
    open: list[int]  # the brackets open around it


@dataclass
class PlainSide:
    """A side as EVALB has it: words are put back one by one, and what follows is moved every time."""

    words: list[str] = field(default_factory=list)
    tags: list[str] = field(default_factory=list)
    brackets: list[_Bracket] = field(default_factory=list)
    quotes: list[PlainQuote] = field(default_factory=list)

    def insert(self, quote: PlainQuote) -> None:
        self.words.insert(quote.index, quote.word)
        self.tags.insert(quote.index, quote.label)
        for bracket in self.brackets[quote.bracket :]:
            bracket.start += 1
            bracket.end += 1
        for position in quote.open:
            self.brackets[position].end += 1


def plain_read(nodes: Node) -> PlainSide:
    side = PlainSide()
    stack: list[int] = []

    def read(node: Node) -> None:
        label, inside = node
        if isinstance(inside, str):
            if label in QUOTES.quote_labels and inside in ("'", '"', "/"):
                place = len(side.words), len(side.brackets)
                side.quotes.append(PlainQuote(inside, label, *place, list(stack)))
            if label not in QUOTES.delete_labels:
                side.words.append(inside)
                side.tags.append(label)
            return
        stack.append(len(side.brackets))
        side.brackets.append(_Bracket(len(side.words), -1, label))
        for child in inside:
            read(child)
        side.brackets[stack.pop()].end = len(side.words)

    read(nodes)
    return side


def plain_restore(gold: PlainSide, test: PlainSide) -> None:
    for i, of_test in enumerate(test.quotes):
        index = of_test.index
        for j, of_gold in enumerate(gold.quotes):
            if of_gold.index != index or of_gold.label == of_test.label:
                continue
            gold_deleted = of_gold.label in QUOTES.delete_labels
            test_deleted = of_test.label in QUOTES.delete_labels
            if gold_deleted and not test_deleted:
                gold.insert(of_gold)
                later = gold.quotes[j:]
            elif test_deleted and not gold_deleted:
                test.insert(of_test)
                later = test.quotes[i:]
            else:
                continue
            for quote in later:
                quote.index += 1


def brackets_of(node: Node) -> str:
    label, inside = node
    return f"({label} {inside if isinstance(inside, str) else ' '.join(map(brackets_of, inside))})"


MARKS = st.tuples(st.sampled_from(["``", "''", "POS", "NN"]), st.sampled_from(["'", '"', "/", "a"]))
MARKED = st.tuples(
    LABEL,
    st.lists(
        st.recursive(
            MARKS, lambda inner: st.tuples(LABEL, st.lists(inner, min_size=1, max_size=4)), max_leaves=20
        ),
        min_size=1,
        max_size=6,
    ),
)


def check_quotes(gold: Node, predicted: Node) -> None:
    plain = plain_read(gold), plain_read(predicted)
    found = _read(brackets_of(gold), QUOTES), _read(brackets_of(predicted), QUOTES)
    for restored in (False, True):
        if restored:
            plain_restore(*plain)
            _restore_quotes(*found, QUOTES)
        for one, other in zip(plain, found, strict=True):
            assert (one.words, one.tags) == (other.words, other.tags)
            spans = [[(b.start, b.end, b.label) for b in side.brackets] for side in (one, other)]
            assert spans[0] == spans[1]


@given(MARKED, MARKED)
@settings(max_examples=100)
def test_quotes_as_by_putting_them_back_one_by_one(gold: Node, predicted: Node) -> None:
    check_quotes(gold, predicted)


def test_all_short_sequences_of_quotes() -> None:
    kinds = [("POS", "'"), ("''", "'"), ("NN", "a")]
    flat = [("S", list(marks)) for n in range(1, 5) for marks in itertools.product(kinds, repeat=n)]
    for gold, predicted in itertools.product(flat, repeat=2):
        check_quotes(gold, predicted)


# --- large ------------------------------------------------------------------------------------

N = 20_000


@pytest.mark.parametrize(
    ("gold", "predicted"),
    [
        ("(X " * N + "(NN a)" + ")" * N, "(Y " * N + "(NN a)" + ")" * N),
        ("(X (NN a) " * N + "(NN a)" + ")" * N, "(X " * N + "(NN a)" + " (NN a))" * N),
        ("(X " * N + "(NN a)" + ")" * N, "(X " * N + "(NN a)" + ")" * N),
    ],
    ids=["labels differ", "branching differs", "the same"],
)
def test_many_thousand_brackets(gold: str, predicted: str) -> None:
    start = time.process_time()
    row = compare_sentence(gold, predicted, COMMON)
    assert row.status == "scored"
    assert time.process_time() - start < 10


@pytest.mark.parametrize(
    ("gold", "predicted"),
    [
        ("(S " + "('' ')" * N + "(NN a))", "(S " + "(POS ')" * N + "(NN a))"),
        ("(S " + "(POS ')" * N + "(NN a))", "(S " + "('' ')" * N + "(NN a))"),
        ("(S " + "('' ')" * N + "(NN a))", "(S " + "(`` ')" * N + "(POS ') (NN a))"),
        ("(S ('' ') " * N + "(NN a)" + ")" * N, "(S (POS ') " * N + "(NN a)" + ")" * N),
    ],
    ids=["into gold", "into test", "at one place", "deep"],
)
def test_many_thousand_quotes(gold: str, predicted: str) -> None:
    start = time.process_time()
    compare_sentence(gold, predicted, QUOTES)
    assert time.process_time() - start < 10
