from __future__ import annotations

from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pdtools.trees import (
    attachments,
    deepest_of,
    packed_tapes,
    sentence_layout,
    spans_from_attachments,
    tape,
)

from . import oracles


@pytest.mark.parametrize("n", range(1, 8))
def test_every_binary_tree(n):
    for binary in oracles.binary_trees(0, n):
        tree = oracles.to_tree(binary)
        r = oracles.attachments_by_definition(binary)
        expected = oracles.algorithm_1(r)
        assert oracles.tape_by_counting(binary, n) == expected
        assert tape(r).tolist() == expected
        assert oracles.tape_from_spans(tree.starts, tree.ends, n).tolist() == expected


@pytest.mark.parametrize("n", range(1, 7))
def test_every_legal_sequence_also_in_sentence_layout(n):
    for attach in oracles.legal_sequences(n):
        for row in (attach, sentence_layout(attach).tolist()):
            expected = oracles.algorithm_1(row)
            starts, ends, _ = spans_from_attachments(row)
            assert tape(row).tolist() == expected
            assert oracles.tape_from_spans(starts, ends, len(row)).tolist() == expected


def test_windows_of_whole_sentences():
    """ROOT a b ROOT c: the last word of each sentence attaches to that sentence's ROOT."""
    row = [0, 1, 0, 3, 3]
    assert tape(row).tolist() == oracles.algorithm_1(row)
    assert tape(row)[4].tolist() == [1, 2, 2, 1, 1]


def test_paper_example():
    """Section 3.1: [1, 1, 0] becomes [2, 2, 2, …] when *happy* attaches to *dog*."""
    rows = tape([0, 0, 2, 1])
    assert rows.dtype == np.int32
    assert rows[2].tolist() == [1, 1, 0, 0]
    assert rows[3].tolist() == [2, 2, 2, 2]


@given(nested=oracles.nested_trees(max_words=40))
def test_random_trees(nested):
    row = sentence_layout(attachments(oracles.to_tree(nested)))
    expected = oracles.algorithm_1(row.tolist())
    rows = tape(row)
    assert rows.tolist() == expected
    starts, ends, stack = spans_from_attachments(row)
    assert stack.tolist() == [0]
    assert oracles.tape_from_spans(starts, ends, len(row)).tolist() == expected


def test_empty_row():
    assert tape([]).shape == (0, 0)


@given(
    nested=st.lists(oracles.nested_trees(max_words=30), max_size=6), factor=st.sampled_from(["right", "left"])
)
def test_many_rows_at_once(nested, factor):
    rows = [attachments(oracles.to_tree(tree), factor) for tree in nested]
    assert_rows_at_once([*rows, *map(sentence_layout, rows)])


def test_many_legal_sequences_at_once():
    """More rows than are made together, of all lengths, in an order of their own."""
    rows = [row for n in range(1, 8) for row in oracles.legal_sequences(n)]
    assert len(rows) > 2 * 256
    assert_rows_at_once([rows[i] for i in np.random.default_rng(0).permutation(len(rows))])
    assert_rows_at_once([[], [0, 1, 0, 3, 3], []])


def test_deep_rows_at_once():
    """Depths saturate in storage, not in the tape."""
    deep = np.maximum(np.arange(600) - 1, 0)  # every token reduces with all before it
    assert tape(deep)[-1].tolist() == [599, *range(599, 0, -1)]
    assert packed_tapes(np.append(deep, np.zeros(3, np.int32)), [0, 600, 603])[2] == 599
    assert_rows_at_once([deep, np.zeros(3, np.int32), np.arange(600), np.zeros(600, np.int32)])


def assert_rows_at_once(rows):
    tapes = [tape(row) for row in rows]
    offsets = np.cumsum([0, *map(len, rows)])
    packed, places, deepest = packed_tapes(np.concatenate([np.zeros(0, np.int32), *rows]), offsets)
    found = [packed[start:end].tobytes() for start, end in pairwise(places)]
    assert found == list(map(oracles.packed, tapes))
    flat = np.concatenate([np.zeros(0, np.int32), *rows])
    assert deepest == deepest_of(flat, offsets) == max((rows.max(initial=0) for rows in tapes), default=0)
