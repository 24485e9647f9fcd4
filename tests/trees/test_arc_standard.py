"""Arc-standard actions against their enumeration, and rows against a stack that is kept step by step."""

from __future__ import annotations

import zipfile
from pathlib import Path

import numpy as np
import pytest
from arc_oracle import (
    POP,
    L,
    R,
    as_actions,
    heads_by_hand,
    is_projective,
    oracle_by_hand,
    positions_by_hand,
    projective_trees,
    sequences,
)
from hypothesis import given, settings
from hypothesis import strategies as st

from pdtools.trees import Graph
from pdtools.trees.arc_standard import (
    CROSSING,
    ArcActions,
    ArcIds,
    actions_of,
    arc_rows,
    dependency_text,
    heads_of,
    static_oracle,
)

IDS, START = ArcIds(tokens=50), 1
# the cat saw a dog
CAT = np.array([1, 2, -1, 4, 2], np.int32)


def same(found: ArcActions, wanted: ArcActions) -> bool:
    return all(
        np.array_equal(getattr(found, name), getattr(wanted, name)) for name in ("begins", "arcs", "left")
    )


def test_numbers_of_sequences_and_of_trees() -> None:
    assert [len(sequences(m)) for m in range(1, 7)] == [1, 2, 8, 40, 224, 1344]
    for m, number in enumerate([1, 2, 7, 30, 143], start=1):
        trees = projective_trees(m)
        assert len(trees) == number
        assert {heads_by_hand(each) for each in sequences(m)} == set(trees)


@pytest.mark.parametrize("words", range(1, 6))
def test_the_oracle_of_every_tree_makes_it(words: int) -> None:
    for heads in projective_trees(words):
        array = np.array(heads, np.int32)
        found = static_oracle(array)
        assert same(found, as_actions(oracle_by_hand(heads)))
        assert heads_of(found).tolist() == list(heads)


@given(st.integers(1, 40).flatmap(lambda m: st.lists(st.integers(0, m), min_size=m, max_size=m)), st.data())
@settings(max_examples=200, deadline=None)
def test_any_heads_have_the_oracles_actions_or_a_reason(heads: list[int], data: st.DataObject) -> None:
    if data.draw(st.booleans()):  # one root, and heads before their dependents: a tree
        heads = [head % k for k, head in enumerate(heads, 1)]
        heads[1:] = [head or 1 for head in heads[1:]]
    heads = [head if head != k else k - 1 for k, head in enumerate(heads, 1)]
    graph, word = Graph.of_heads(heads), np.array([-1, *range(len(heads)), -1], np.int32)
    for lift in (False, True):
        found = actions_of(graph, word, lift=lift)
        if graph.has_cycle:
            assert found == "the heads form a cycle"
        elif heads.count(0) > 1:
            assert found == f"{heads.count(0)} roots, not one"
        elif lift or not graph.n_crossings:
            lifted = [head - 1 for head in graph.projected()[0].tree_heads().tolist()]
            assert isinstance(found, ArcActions)
            assert same(found, as_actions(oracle_by_hand(tuple(lifted))))
        else:
            assert found == CROSSING


@pytest.mark.parametrize("words", range(1, 6))
def test_every_sequence_is_read_as_its_tree(words: int) -> None:
    for sequence in sequences(words):
        actions = as_actions(sequence)
        assert tuple(heads_of(actions)) == heads_by_hand(sequence)
        heights = np.cumsum([1 if action == "w" else -1 for action in sequence])
        assert actions.most_words == heights.max()


def test_words_of_several_tokens() -> None:
    found = static_oracle(CAT, np.array([1, 2, 1, 3, 1]))
    assert found.begins.tolist() == [True, True, False, True, True, False, False, True]
    assert found.arcs.tolist() == [0, 0, 1, 1, 0, 0, 0, 2]
    assert found.left.tolist() == [True, True, True, False]
    assert heads_of(found).tolist() == CAT.tolist()


def test_rows_of_the_example() -> None:
    rows = arc_rows([(np.array([10, 11, 12, 13, 14]), static_oracle(CAT))] * 2, IDS, START)
    left, right = IDS.left, IDS.right
    row = [START, 10, 11, left, left, 12, left, left, 13, 14, left, left, right, right, IDS.pop_root]
    assert rows.begins.tolist() == [0, 15, 30]
    assert rows.actions[15:].tolist() == row
    assert len(row) == IDS.positions(5, 5)
    assert rows.pop[15:].tolist() == [14, 3, 3, 6, 4, 6, 12, 7, 10, 10, 12, 11, 14, 13, 15]
    assert rows.head[15:].tolist() == [-1, -1, -1, 11, 11, -1, 12, 12, -1, -1, 14, 14, 12, 12, START]
    by_hand = positions_by_hand([10, 11, 12, 13, 14], static_oracle(CAT), START)
    assert by_hand[9].sees == {0: 3, 6: 2, 8: 1, 9: 0}
    assert by_hand[12].sees == {6: 0, 10: -1, 12: 0}


@st.composite
def derivations(draw: st.DrawFn) -> tuple[list[int], ArcActions]:
    """Tokens 3, 4, … and any sequence over them; words have one to three tokens."""
    sequence = draw(st.sampled_from(sequences(draw(st.integers(1, 5)))))
    chunks = [draw(st.integers(1, 3)) for _ in range(sequence.count("w"))]
    return [draw(st.integers(3, 49)) for _ in range(sum(chunks))], as_actions(sequence, chunks)


@settings(max_examples=50)
@given(st.lists(derivations(), min_size=1, max_size=4))
def test_rows_are_what_a_stack_says(drawn: list[tuple[list[int], ArcActions]]) -> None:
    rows = arc_rows([(np.array(tokens), actions) for tokens, actions in drawn], IDS, START)
    names = {L: IDS.left, R: IDS.right, POP: IDS.pop_root}
    for (tokens, actions), begin, end in zip(drawn, rows.begins, rows.begins[1:], strict=False):
        row, part = positions_by_hand(tokens, actions, START), slice(begin, end)
        assert len(row) == end - begin == IDS.positions(len(tokens), int(actions.begins.sum()))
        assert rows.actions[part].tolist() == [
            names[each.action] if isinstance(each.action, str) else each.action for each in row
        ]
        assert rows.head[part].tolist() == [-1 if each.head is None else each.head for each in row]
        assert rows.n_open[part].tolist() == rows.depth[part].tolist() == [each.n_words for each in row]
        pop = rows.pop[part]
        for i, each in enumerate(row):
            composes = isinstance(each.action, str) and pop[i] != i
            seen = {j for j in range(i) if (pop[j] == i if composes else pop[j] > i)} | {i}
            assert seen == set(each.sees)


def test_text_of_dependencies() -> None:
    words = ["the", "cat", "saw", "a", "dog"]
    assert dependency_text(words, CAT.tolist()) == "((the) cat) saw ((a) dog)"
    assert dependency_text(words, [1, -1, -1, 4, -1]) == "(the) cat | saw | (a) dog"
    assert dependency_text([], []) == ""


def test_trees_of_a_treebank_come_back(test_data: Path) -> None:
    """Sentences of English PUD; crossing arcs are refused, or lifted."""
    file = test_data / "benchmarks" / "treebanks" / "ud_pud6.zip"
    if not file.exists():
        pytest.skip(f"no {file}")
    with zipfile.ZipFile(file) as archive:
        text = archive.read("UD_English-PUD/en_pud-ud-test.conllu").decode()
    n_crossing = 0
    for sentence in text.split("\n\n")[:200]:
        rows = [line.split("\t") for line in sentence.splitlines() if line[:1].isdecimal()]
        heads = [int(row[6]) for row in rows if row[0].isdecimal()]
        graph = Graph.of_heads(heads)
        word = np.array([-1, *range(len(heads)), -1], np.int32)
        found = actions_of(graph, word)
        if isinstance(found, str):
            assert found == CROSSING
            assert not is_projective([head - 1 for head in heads])
            n_crossing += 1
            found = actions_of(graph, word, lift=True)
            assert not isinstance(found, str)
            heads = graph.projected()[0].tree_heads().tolist()
        assert (heads_of(found) + 1).tolist() == heads
    assert 0 < n_crossing < 20
