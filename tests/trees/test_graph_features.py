"""Features of dependency graphs: worked examples, and shortest paths on random graphs."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, strategies
from numpy.typing import NDArray

from pdtools.trees.graphs import graph_features

SAW = [(2, 1), (3, 2), (0, 3), (5, 4), (3, 5)]  # the cat saw a dog


@pytest.fixture(scope="module")
def plain() -> Iterator[Any]:
    """The plain formulation of the benchmarks."""
    sys.path.insert(0, str(Path(__file__).parents[2] / "benchmarks"))
    try:
        from plain import gilt

        yield gilt
    finally:
        sys.path.pop(0)


def adjacency(arcs: list[tuple[int, int]], m: int) -> NDArray[np.bool_]:
    found = np.zeros((m + 1, m + 1), dtype=bool)
    for head, dependent in arcs:
        found[head, dependent] = True
    return found


def rows(arcs: list[tuple[int, int]], m: int) -> list[list[list[int]]]:
    """Of each feature the rows of words 0 to m, up to the word itself."""
    return [
        [each[0, t, : t + 1].tolist() for t in range(m + 1)]
        for each in graph_features(adjacency(arcs, m)[None])
    ]


def test_the_cat_saw_a_dog() -> None:
    degree, depth, distance = rows(SAW, 5)
    assert degree == [[0], [0, 0], [0, 1, 10], [10, 1, 11, 11], [10, 1, 11, 11, 0], [10, 1, 11, 21, 1, 11]]
    assert depth == [[1], [1, 0], [1, 0, 0], [1, 4, 3, 2], [1, 4, 3, 2, 0], [1, 4, 3, 2, 4, 3]]
    assert distance == [[0], [0, 0], [0, 10, 0], [1, 20, 10, 0], [0] * 5, [2, 21, 11, 1, 10, 0]]


def test_several_heads_and_both_ways() -> None:
    """Words 1 to 3 with heads {2, 3}, {0}, {2}."""
    assert [feature[3] for feature in rows([(2, 1), (3, 1), (0, 2), (2, 3)], 3)] == [
        [10, 2, 21, 11],
        [1, 3, 2, 3],
        [2, 10, 1, 0],
    ]
    _, _, distance = rows([(1, 2), (2, 1)], 2)  # there and back, a step costs 1
    assert distance[2] == [0, 1, 0]


@given(data=strategies.data())
def test_equal_to_shortest_paths(plain: Any, data: strategies.DataObject) -> None:
    m = data.draw(strategies.integers(0, 6))
    arcs = [(h, d) for h in range(m + 1) for d in range(1, m + 1) if h != d]
    graphs = [
        data.draw(strategies.lists(strategies.sampled_from(arcs), unique=True)) if arcs else []
        for _ in range(3)
    ]
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
