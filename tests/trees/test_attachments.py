from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pdtools.trees import (
    Tree,
    attachments,
    expand_attachments,
    merge_subwords,
    sentence_layout,
    spans_from_attachments,
    tree_from_attachments,
)

from . import oracles

CATALAN = [1, 1, 2, 5, 14, 42, 132, 429]
FACTORS = ["right", "left"]


def by_oracle(nested, factor):
    return oracles.attachments_by_definition(oracles.binarized(nested, factor))


@pytest.mark.parametrize("factor", FACTORS)
@pytest.mark.parametrize("n", range(1, 8))
def test_every_binary_tree_has_its_own_attachments(n, factor):
    seen = set()
    for binary in oracles.binary_trees(0, n):
        r = attachments(oracles.to_tree(binary), factor)
        assert r.dtype == np.int32
        assert r.tolist() == oracles.attachments_by_definition(binary)
        seen.add(tuple(r.tolist()))
    assert len(seen) == CATALAN[n - 1]


@pytest.mark.parametrize("factor", FACTORS)
@given(nested=oracles.nested_trees())
def test_nary_trees_with_unaries(factor, nested):
    assert attachments(oracles.to_tree(nested), factor).tolist() == by_oracle(nested, factor)


def test_paper_example():
    """Figure 2: [[The dog] [is happy]] is built by attaching *happy* to *dog*."""
    tree = Tree.from_brackets("(S (NP (DT The) (NN dog)) (VP (VBZ is) (JJ happy)))")
    assert attachments(tree).tolist() == [0, 0, 2, 1]


def test_unknown_factor_is_refused():
    tree = Tree.from_brackets("(NN dog)")
    with pytest.raises(ValueError, match="right or left"):
        attachments(tree, "none")
    with pytest.raises(ValueError, match="right or left"):
        expand_attachments([0], [1], "none")


@pytest.mark.parametrize("n", range(1, 8))
def test_attachments_to_tree_and_back(n):
    words = [f"w{i}" for i in range(n)]
    for binary in oracles.binary_trees(0, n):
        tree = oracles.to_tree(binary)
        r = attachments(tree)
        again = tree_from_attachments(r, words)
        assert again.starts.tolist() == tree.starts.tolist()
        assert again.ends.tolist() == tree.ends.tolist()
        assert again.labels == ("X",) * (n - 1)
        assert again.tags == ("XX",) * n
        assert attachments(again).tolist() == r.tolist()


@pytest.mark.parametrize("n", range(1, 7))
def test_legal_sequences(n):
    """n tokens have C_n sequences of attachments; what stays on the stack becomes right-branching."""
    sequences = oracles.legal_sequences(n)
    assert len(sequences) == CATALAN[n]
    for attach in sequences:
        stack = []
        for k, target in enumerate(attach):
            node = k
            while target != k:
                top = stack.pop()
                node = (top, node)
                if oracles.tokens(top)[-1] == target:
                    break
            stack.append(node)
        starts, ends, left = spans_from_attachments(attach)
        assert left.tolist() == [oracles.tokens(node)[0] for node in stack]
        built = sorted(
            (min(oracles.tokens(x)), max(oracles.tokens(x)) + 1) for s in stack for x in oracles.nodes(s)
        )
        assert sorted(zip(starts.tolist(), ends.tolist(), strict=True)) == built
        tree = tree_from_attachments(attach, "abcdefg"[:n], tags="ABCDEFG"[:n])
        expected = oracles.to_tree(oracles.binarized(stack, "right"))
        assert tree.starts.tolist() == expected.starts.tolist()
        assert tree.ends.tolist() == expected.ends.tolist()
        assert tree.tags == tuple("ABCDEFG"[:n])


@pytest.mark.parametrize("attach", [[1], [-1], [0, 2], [0, 0, 0], [0, 1, 2, 0, 1], [0, 0, 2, 2, 2]])
def test_illegal_attachments(attach):
    with pytest.raises(ValueError, match="cannot attach"):
        spans_from_attachments(attach)


def test_tree_from_attachments_checks_lengths():
    with pytest.raises(ValueError, match="as many"):
        tree_from_attachments([0, 0], ["one"])
    with pytest.raises(ValueError, match="as many"):
        tree_from_attachments([0], ["one"], tags=["A", "B"])
    with pytest.raises(ValueError, match="at least one"):
        tree_from_attachments([], [])


def test_sentence_layout():
    layout = sentence_layout([0, 0, 2, 1])
    assert layout.tolist() == [0, 1, 1, 3, 2, 0]
    assert layout.dtype == np.int32
    assert sentence_layout([]).tolist() == [0, 0]


def split_into_tokens(nested, counts):
    """Replace each word by a list of its tokens, numbered anew."""
    firsts = np.cumsum([0, *counts]).tolist()

    def split(node):
        if not isinstance(node, int):
            return [split(child) for child in node]
        tokens = list(range(firsts[node], firsts[node + 1]))
        return tokens if len(tokens) > 1 else tokens[0]

    return split(nested)


@pytest.mark.parametrize("factor", FACTORS)
@given(nested=oracles.nested_trees(), data=st.data())
def test_subwords_expand_and_merge(factor, nested, data):
    n = len(oracles.tokens(nested))
    counts = data.draw(st.lists(st.integers(1, 4), min_size=n, max_size=n))
    words = [f"w{i}" for i in range(n)]
    r = attachments(oracles.to_tree(nested), factor)
    expanded = expand_attachments(r, counts, factor)
    assert expanded.dtype == np.int32
    assert expanded.tolist() == by_oracle(split_into_tokens(nested, counts), factor)
    over_tokens = tree_from_attachments(expanded, [f"t{i}" for i in range(sum(counts))])
    merged = merge_subwords(over_tokens, np.repeat(np.arange(n), counts), words)
    assert merged == tree_from_attachments(r, words)


def test_expand_checks_counts():
    with pytest.raises(ValueError, match="at least one"):
        expand_attachments([0, 0], [1, 0])
    with pytest.raises(ValueError, match="number of tokens"):
        expand_attachments([0, 0], [1])


def test_merge_of_appendix_c():
    tree = Tree.from_brackets("(X (XX ab) (X (XX ra) (X (XX ca) (XX dabra))))")
    assert str(merge_subwords(tree, [0, 0, 0, 0], ["abracadabra"])) == "(XX abracadabra)"


def test_merge_where_a_word_is_torn():
    """b1 and b2 are one word in two constituents: only spans on word edges stay."""
    tree = Tree.from_brackets("(X (X (XX a) (XX b1)) (X (XX b2) (X (XX c) (XX d))))")
    merged = merge_subwords(tree, [0, 1, 1, 2, 3], ["a", "b", "c", "d"])
    assert str(merged) == "(X (XX a) (X (XX b) (X (XX c) (XX d))))"


@given(nested=oracles.nested_trees(), data=st.data())
def test_merge_keeps_exactly_the_spans_on_word_edges(nested, data):
    tree = oracles.to_tree(oracles.binarized(nested, "right"))
    t = len(tree)
    edges = [0, *sorted(data.draw(st.sets(st.integers(1, t - 1), max_size=t - 1)) if t > 1 else []), t]
    word_of_token = np.repeat(np.arange(len(edges) - 1), np.diff(edges))
    words = [f"w{i}" for i in range(len(edges) - 1)]
    merged = merge_subwords(tree, word_of_token, words)
    kept = {
        (edges.index(a), edges.index(b))
        for a, b in zip(tree.starts.tolist(), tree.ends.tolist(), strict=True)
        if a in edges and b in edges and edges.index(b) - edges.index(a) > 1
    }
    spans = set(zip(merged.starts.tolist(), merged.ends.tolist(), strict=True))
    assert len(spans) == len(merged.labels) == len(words) - 1
    assert kept <= spans
    for start, end in spans - kept:  # what was added branches to the right: it ends where a kept span ends
        assert any(end == b and start > a for a, b in kept)


def test_merge_checks_the_alignment():
    tree = Tree.from_brackets("(X (XX a) (XX b))")
    for word_of_token in ([0], [1, 0], [0, 2], [0, 0]):
        with pytest.raises(ValueError, match="do not belong"):
            merge_subwords(tree, word_of_token, ["a", "b"])
