"""Trees in dependency graphs, and CoNLL-U."""

from __future__ import annotations

from pathlib import Path

import numpy as np
from hypothesis import given, strategies

from pdtools.files import Rejects
from pdtools.models.grammar.transition_derivations import TransitionDerivation
from pdtools.trees.arc_standard import static_oracle
from pdtools.trees.forms import read_treebank
from pdtools.trees.graphs import Graph, conllu, graph_tree, heads_in


@given(data=strategies.data())
def test_any_graph_has_a_tree(data: strategies.DataObject) -> None:
    m = data.draw(strategies.integers(1, 6))
    every = [(h, d) for h in range(m + 1) for d in range(1, m + 1) if h != d]
    arcs = data.draw(strategies.lists(strategies.sampled_from(every), unique=True))
    graph = Graph.of(m, [h for h, _ in arcs], [d for _, d in arcs])
    heads = heads_in(graph)
    assert Graph.of_heads(heads).is_tree
    if graph.is_tree:
        assert heads == graph.tree_heads().tolist()
    words = [chr(97 + k) for k in range(m)]
    found = graph_tree(graph, words)
    assert found.words == tuple(words)
    if graph.is_tree and not graph.n_crossings:  # both kinds of dependencies give one tree
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
