"""Graphs of dependencies against their definitions, trees in them, and their features."""

from __future__ import annotations

from itertools import combinations, pairwise, permutations, product
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray
from plain import gilt as plain

from pdtools.errors import InputError
from pdtools.files import Rejects
from pdtools.models.grammar.transition_derivations import TransitionDerivation
from pdtools.trees.arc_standard import static_oracle
from pdtools.trees.forms import FORMS, read_treebank
from pdtools.trees.forms.conllu import read_sentence
from pdtools.trees.graphs import Graph, conllu, graph_features, graph_tree, heads_in

Arcs = set[tuple[int, int]]


def candidates_of(t: int) -> list[tuple[int, int]]:
    return [(h, t) for h in range(t)] + [(t, d) for d in range(1, t)]


def all_arcs(m: int) -> list[tuple[int, int]]:
    return [arc for t in range(1, m + 1) for arc in candidates_of(t)]


@st.composite
def graphs(draw: st.DrawFn, least: int = 0) -> Graph:
    m = draw(st.integers(least, 6))
    arcs = draw(st.lists(st.sampled_from(all_arcs(m)), unique=True)) if m else []
    return Graph.of(m, [h for h, _ in arcs], [d for _, d in arcs])


def leads_back(arcs: Arcs, m: int) -> bool:
    return any(
        all(step in arcs for step in pairwise((*way, way[0])))
        for n in range(2, m + 1)
        for way in permutations(range(1, m + 1), n)
    )


def crossing_pairs(arcs: Arcs) -> int:
    return sum(
        min(a) < min(b) < max(a) < max(b) or min(b) < min(a) < max(b) < max(a)
        for a, b in combinations(arcs, 2)
    )


def descendants(heads: tuple[int, ...], k: int) -> set[int]:
    found = {k}
    while more := {i for i, head in enumerate(heads, 1) if head in found} - found:
        found |= more
    return found


@pytest.mark.parametrize("m", range(4))
def test_candidates_are_all_arcs_in_their_order(m: int) -> None:
    arcs = all_arcs(m)
    assert len(arcs) == m**2  # so there are 2^(m²) graphs
    graph = Graph.of(m, [h for h, _ in reversed(arcs)], [d for _, d in reversed(arcs)])
    assert graph.arcs == arcs
    assert graph.candidates.tolist() == [k for t in range(1, m + 1) for k in range(2 * t - 1)]
    assert graph.counts.tolist() == [2 * t - 1 for t in range(1, m + 1)]


@given(graphs())
@settings(max_examples=200, deadline=None)
def test_properties_of_graphs_are_their_definitions(graph: Graph) -> None:
    arcs, m = set(graph.arcs), graph.n_words
    assert graph.arcs == [arc for arc in all_arcs(m) if arc in arcs]
    assert graph.heads.dtype == graph.dependents.dtype == np.int32
    assert [candidates_of(t)[c] for t, c in zip(graph.later, graph.candidates, strict=True)] == graph.arcs
    assert graph.counts.tolist() == [sum(max(arc) == t for arc in arcs) for t in range(1, m + 1)]
    assert graph.has_cycle == leads_back(arcs, m)
    assert graph.n_crossings == crossing_pairs(arcs)
    assert graph.n_roots == sum(head == 0 for head, _ in arcs)
    assert Graph.from_text(str(graph), m).arcs == graph.arcs


@pytest.mark.parametrize("m", range(1, 5))
def test_trees_by_enumeration(m: int) -> None:
    n_trees = n_projective = 0
    for heads in product(range(m + 1), repeat=m):
        if any(head == k for k, head in enumerate(heads, 1)):
            continue
        graph = Graph.of_heads(heads)
        is_tree = heads.count(0) == 1 and descendants(heads, 0) == set(range(m + 1))
        assert (graph.problem is None) == is_tree
        if not is_tree:
            with pytest.raises(InputError, match="roots, not one|form a cycle"):
                graph.tree_heads()
            continue
        spans = [descendants(heads, k) for k in range(m + 1)]
        is_projective = all(max(span) - min(span) == len(span) - 1 for span in spans)
        assert (graph.n_crossings == 0) == is_projective
        assert graph.tree_heads().tolist() == list(heads)
        lifted, n_lifted = graph.projected()
        assert lifted.problem is None
        assert not lifted.n_crossings
        assert (n_lifted == 0) == (graph.n_crossings == 0)
        if not n_lifted:
            assert lifted.arcs == graph.arcs
        n_trees += 1
        n_projective += n_lifted == 0
    assert n_trees == m ** (m - 1)  # Cayley's formula, with a root
    assert n_projective == {1: 1, 2: 2, 3: 7, 4: 30}[m]


def test_arcs_are_compared_in_parts(monkeypatch: pytest.MonkeyPatch) -> None:
    arcs = all_arcs(5)
    graph = Graph.of(5, [h for h, _ in arcs], [d for _, d in arcs])
    whole = graph.n_crossings
    monkeypatch.setattr("pdtools.trees.graphs._COMPARED_AT_ONCE", 60)
    assert graph.n_crossings == whole == crossing_pairs(set(arcs))


def test_what_lifting_does() -> None:
    # 1 hangs on 3 over 2, which hangs on 4: the arc goes up to 4.
    lifted, n_lifted = Graph.of_heads([3, 4, 4, 0]).projected()
    assert (lifted.tree_heads().tolist(), n_lifted) == ([4, 4, 4, 0], 1)


@pytest.mark.parametrize(
    ("heads", "dependents", "reason"),
    [
        ([1], [1], "the arc 1-1: from a word to itself"),
        ([0, 3], [1, 1], "the arc 3-1: outside of 2 words"),
        ([1], [0], "the arc 1-0: outside of 2 words"),
        ([-1], [1], "the arc -1-1: outside"),
        ([0], [3], "the arc 0-3: outside"),
    ],
)
def test_bad_arcs_are_named(heads: list[int], dependents: list[int], reason: str) -> None:
    with pytest.raises(InputError, match=reason):
        Graph.of(2, heads, dependents)


@pytest.mark.parametrize("text", ["1", "1-", "-1", "a-1", "1-2-3", "²-1", "1" * 30 + "-1"])
def test_bad_text_is_named(text: str) -> None:
    with pytest.raises(InputError, match="no arc"):
        Graph.from_text(text, 9)


@given(st.text("0123456789- \n²", max_size=12), st.integers(0, 12))
def test_any_text_is_a_graph_or_refused(text: str, n_words: int) -> None:
    try:
        graph = Graph.from_text(text, n_words)
    except InputError:
        return
    assert set(graph.arcs) == {(int(h), int(d)) for h, d in (arc.split("-") for arc in text.split())}


@pytest.mark.parametrize(
    ("arcs", "reason"),
    [
        ("0-1", "word 2 has no head"),
        ("0-1 1-2 0-2", "word 2 has 2 heads"),
        ("0-1 0-2", "2 roots, not one"),
        ("2-1 1-2", "the heads form a cycle"),
        ("", "0 roots, not one"),
    ],
)
def test_what_is_no_tree_is_named(arcs: str, reason: str) -> None:
    graph = Graph.from_text(arcs, 2 if arcs else 0)
    assert graph.problem == reason
    for use in (graph.tree_heads, graph.projected):
        with pytest.raises(InputError, match=reason):
            use()


# --- trees in graphs --------------------------------------------------------------------------


@given(graphs(least=1))
def test_any_graph_has_a_tree(graph: Graph) -> None:
    m = graph.n_words
    heads = heads_in(graph)
    assert Graph.of_heads(heads).problem is None
    if graph.problem is None:
        assert heads == graph.tree_heads().tolist()
    words = [chr(97 + k) for k in range(m)]
    found = graph_tree(graph, words)
    assert found.words == tuple(words)
    if graph.problem is None and not graph.n_crossings:  # both kinds of dependencies give one tree
        made = static_oracle(graph.tree_heads() - np.int32(1))
        derivation = TransitionDerivation(made.begins, made.arcs, made.left, np.arange(m, dtype=np.int32))
        assert str(found) == str(derivation.tree(words, range(m)))


def test_heads_that_are_not_there() -> None:
    graph = Graph.of(5, [0, 0, 3, 5, 4], [2, 3, 1, 4, 5])  # a second root, and a cycle of 4 and 5
    assert heads_in(graph) == [3, 0, 2, 2, 4]


def test_words_that_are_not_the_graphs_depend_on_the_first() -> None:
    graph = Graph.of_heads([2, 0])
    for words in (["a"], ["a", "b", "c"]):
        assert graph_tree(graph, words) == graph_tree(Graph.of(len(words), [], []), words)


def test_conllu_is_read_back(tmp_path: Path) -> None:
    graph = Graph.of(3, [2, 0, 2, 1], [1, 2, 3, 3])
    text = conllu(graph, ["a", "-LRB-", "b"])
    assert text.splitlines()[0] == "# text = a ( b"
    assert [line.split("\t")[8] for line in text.splitlines()[1:4]] == ["2:dep", "0:root", "1:dep|2:dep"]
    (tmp_path / "x.conllu").write_text(text + conllu(Graph.of(1, [], []), ["c"]))
    found = list(read_treebank([str(tmp_path / "x.conllu")], "conllu", Rejects("fail")))
    assert [each.tree.words for each in found] == [("a", "-LRB-", "b"), ("c",)]


def test_multi_word_tokens_of_conllu_are_read_back(tmp_path: Path) -> None:
    ranges = [(1, 2, "du"), (4, 5, "-LRB-x")]
    text = conllu(Graph.of_heads([2, 0, 2, 3, 3]), ["de", "le", "chat", "-LRB-", "x"], ranges)
    assert text.splitlines()[0] == "# text = du chat (x"
    (tmp_path / "x.conllu").write_text(text)
    (block,) = FORMS["conllu"].blocks(str(tmp_path / "x.conllu"))
    found = read_sentence(block)
    assert (found.ranges, found.heads) == (ranges, [2, 0, 2, 3, 3])


# --- features ---------------------------------------------------------------------------------

SAW = [(2, 1), (3, 2), (0, 3), (5, 4), (3, 5)]  # the cat saw a dog


def adjacency(arcs: list[tuple[int, int]], m: int) -> NDArray[np.bool_]:
    found = np.zeros((m + 1, m + 1), dtype=bool)
    for head, dependent in arcs:
        found[head, dependent] = True
    return found


def feature_rows(arcs: list[tuple[int, int]], m: int) -> list[list[list[int]]]:
    """Of each feature the rows of words 0 to m, up to the word itself."""
    return [
        [each[0, t, : t + 1].tolist() for t in range(m + 1)]
        for each in graph_features(adjacency(arcs, m)[None])
    ]


def test_the_cat_saw_a_dog() -> None:
    degree, depth, distance = feature_rows(SAW, 5)
    assert degree == [[0], [0, 0], [0, 1, 10], [10, 1, 11, 11], [10, 1, 11, 11, 0], [10, 1, 11, 21, 1, 11]]
    assert depth == [[1], [1, 0], [1, 0, 0], [1, 4, 3, 2], [1, 4, 3, 2, 0], [1, 4, 3, 2, 4, 3]]
    assert distance == [[0], [0, 0], [0, 10, 0], [1, 20, 10, 0], [0] * 5, [2, 21, 11, 1, 10, 0]]


def test_several_heads_and_both_ways() -> None:
    """Words 1 to 3 with heads {2, 3}, {0}, {2}."""
    assert [feature[3] for feature in feature_rows([(2, 1), (3, 1), (0, 2), (2, 3)], 3)] == [
        [10, 2, 21, 11],
        [1, 3, 2, 3],
        [2, 10, 1, 0],
    ]
    _, _, distance = feature_rows([(1, 2), (2, 1)], 2)  # there and back, a step costs 1
    assert distance[2] == [0, 1, 0]


@given(data=st.data())
def test_equal_to_shortest_paths(data: st.DataObject) -> None:
    m = data.draw(st.integers(0, 6))
    arcs = [(h, d) for h in range(m + 1) for d in range(1, m + 1) if h != d]
    graphs = [data.draw(st.lists(st.sampled_from(arcs), unique=True)) if arcs else [] for _ in range(3)]
    found = graph_features(np.stack([adjacency(each, m) for each in graphs]))
    for b, each in enumerate(graphs):
        for t in range(m + 1):
            wanted = plain.features(each, t)
            ours = {j: tuple(int(feature[b, t, j]) for feature in found) for j in range(t + 1)}
            assert ours == wanted
            assert all(not feature[b, t, t + 1 :].any() for feature in found)


def test_chains() -> None:
    m = 60
    chain = [(t - 1, t) for t in range(1, m + 1)]
    (_, depth, distance) = graph_features(adjacency(chain, m)[None, :])
    assert depth[0, m].tolist() == list(range(1, m + 2))
    assert distance[0, m].tolist() == list(range(m, -1, -1))
