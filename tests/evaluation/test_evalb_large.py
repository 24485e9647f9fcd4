"""EVALB's counts in time linear in the brackets: the same as by comparing each with each, and quick."""

from __future__ import annotations

import time

import pytest
from hypothesis import given
from hypothesis import strategies as st
from odd_treebanks import TREES

from pdtools.evaluation.evalb import _Bracket, _crossing, _match, _read, compare_sentence
from pdtools.evaluation.prm import COMMON, Parameters

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


@given(st.lists(TREES, max_size=2).map("".join), st.lists(TREES, max_size=2).map("".join))
def test_odd_trees_compare_without_a_crash(gold: str, predicted: str) -> None:
    compare_sentence(gold, predicted, COMMON)


N = 100_000


@pytest.mark.parametrize(
    ("gold", "predicted"),
    [
        ("(X " * N + "(NN a)" + ")" * N, "(Y " * N + "(NN a)" + ")" * N),
        ("(X (NN a) " * N + "(NN a)" + ")" * N, "(X " * N + "(NN a)" + " (NN a))" * N),
        ("(X " * N + "(NN a)" + ")" * N, "(X " * N + "(NN a)" + ")" * N),
    ],
    ids=["labels differ", "branching differs", "the same"],
)
def test_a_hundred_thousand_brackets(gold: str, predicted: str) -> None:
    start = time.process_time()
    row = compare_sentence(gold, predicted, COMMON)
    assert row.status == "scored"
    assert time.process_time() - start < 20
