"""TreeReg's loss and parses: the specification's numbers, and a plain recursive oracle."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from torch import Tensor
from treereg_oracle import Nested, binary_trees, brackets, edge, split_score, terms

from pdtools.models.transformer.config import TransformerConfig
from pdtools.models.transformer.model import TransformerLM
from pdtools.models.treereg import (
    SentenceScores,
    TreeRegParts,
    best_tree,
    count_trees,
    gold_nodes,
    greedy_tree,
    residual_norms,
    sentence_places,
    split_scores,
    treereg,
    word_edges,
)
from pdtools.trees import attachments, expand_attachments, sentence_layout

H = [(2, 0), (1, 1), (0, 3), (1, 2), (3, 1)]
ATTACH = [0, 1, 2, 3, 1, 4, 0]


def states_of(h: Any) -> Tensor:
    """With states of ROOT and end-of-sentence that nothing may look at: (1, n + 2, d)."""
    h = torch.as_tensor(h, dtype=torch.float64)
    return torch.cat([torch.full_like(h[:1], 7.0), h, torch.full_like(h[:1], -5.0)])[None]


def edges_of(words: list[int]) -> Tensor:
    return word_edges([np.array([-1, *words, -1], np.int32)], len(words) + 2)


def loss(h: Any, attach: list[int], words: list[int] | None = None) -> TreeRegParts:
    words = list(range(len(attach) - 2)) if words is None else words
    return treereg(states_of(h), torch.tensor([attach]), torch.tensor([len(attach)]), edges_of(words))


def figures(parts: TreeRegParts) -> tuple[float, int, int, int]:
    return (
        parts.treereg_sum.item(),
        int(parts.n_trees),
        int(parts.n_splits),
        int(parts.n_splits_correct),
    )


# --- the specification's numbers --------------------------------------------------------------


def test_nodes_and_scores_of_the_example() -> None:
    start, end = gold_nodes(torch.tensor([ATTACH]), torch.tensor([7]))
    assert start[0, 1:5].tolist() == [1, 2, 3, 1]
    assert end[0, 1:5].tolist() == [4, 4, 4, 5]
    scores = split_scores(residual_norms(states_of(H)), start, end)[0]
    for gap, first, expected in (
        (1, 1, [3, 2.828427, 2]),
        (2, 2, [3.828427, 5]),
        (4, 1, [2, 3.535534, 4, 4.472136]),
    ):
        assert scores[gap, first : first + len(expected)].tolist() == pytest.approx(
            expected, rel=2e-6, abs=1e-6
        )


def test_loss_of_the_example() -> None:
    assert figures(loss(H, ATTACH)) == (pytest.approx(0.992184, rel=2e-6, abs=1e-6), 1, 3, 2)


@pytest.mark.parametrize(
    ("scale", "terms_of_nodes"),
    [(1, (0.793091, 1.441508, 0.741952)), (2, (0.612409, 2.434836, 0.438073))],
)
def test_the_scale_of_states_is_the_temperature(scale: int, terms_of_nodes: tuple[float, ...]) -> None:
    found = loss(scale * torch.tensor(H), ATTACH)
    assert float(found.treereg_sum) == pytest.approx(sum(terms_of_nodes) / 3, rel=2e-6, abs=1e-6)
    # Each node alone, where the others are within words or have one candidate.
    assert list(terms(((1, (2, (3, 4))), 5), [(), *(scale * np.array(H)).tolist()], [True] * 6)) == (
        pytest.approx([terms_of_nodes[2], *terms_of_nodes[:2]], rel=2e-6, abs=1e-6)
    )


def test_no_candidates_within_words() -> None:
    assert figures(loss(H[:4], [0, 1, 2, 2, 1, 0], [0, 1, 1, 2])) == (
        pytest.approx(0.313262, rel=2e-6, abs=1e-6),
        1,
        1,
        1,
    )


@pytest.mark.parametrize(("attach", "expected"), [([0, 1, 2, 1, 0], 0.442548), ([0, 1, 1, 2, 0], 1.028334)])
def test_three_tokens(attach: list[int], expected: float) -> None:
    found = loss([(1, 0), (1, 1), (0, 1)], attach)
    assert float(found.treereg_sum) == pytest.approx(expected, rel=2e-6, abs=1e-6)


def test_parallel_states_know_nothing() -> None:
    h = torch.outer(torch.tensor([1.0, 3.0, 0.7, 2.0, 0.1]), torch.tensor([0.3, 0.2, 0.9])).requires_grad_()
    found = loss(h, ATTACH)
    expected = (math.log(3) + math.log(2) + math.log(4)) / 3
    assert found.treereg_sum.item() == pytest.approx(expected, rel=2e-6, abs=1e-6)
    (gradient,) = torch.autograd.grad(found.treereg_sum, h)
    assert gradient.isfinite().all()


def test_parses_of_the_example() -> None:
    norms = residual_norms(states_of(H))[0].numpy()
    scores = SentenceScores(norms, np.arange(1, 6))
    # [1, 5]@4, [1, 4]@1, [2, 4]@3, [2, 3]@2, in words from 0.
    assert greedy_tree(scores) == [(0, 5, 4), (0, 4, 1), (1, 4, 3), (1, 3, 2)]


@given(width=st.integers(2, 60).map(lambda half: 2 * half), share=st.floats(0.05, 1))
def test_any_share_of_the_states_is_the_nearest_width(width: int, share: float) -> None:
    wanted = round(share * width)
    assume(wanted >= 2)
    config = TransformerConfig(
        vocab_size=5,
        pad_id=0,
        root_id=1,
        eos_id=2,
        layers=1,
        d_model=width,
        heads=1,
        d_ff=4,
        treereg_layer=1,
        treereg_share=share,
    )
    with torch.no_grad():
        model = TransformerLM(config).eval()
        batch = model.pack([(np.array([1, 3, 4, 2]), np.arange(4))])
        states = model.treereg_states(batch)
    assert abs(states.shape[2] - share * width) <= 0.5
    (block,) = model.blocks
    found = []
    block.register_forward_hook(lambda *given: found.append(given[2]))
    with torch.no_grad():
        model.treereg_states(batch)
    assert torch.equal(states, found[0][:, :, :wanted])


# --- cases without a term, and of hardly any ---------------------------------------------------


@pytest.mark.parametrize("attach", [[0, 1, 0], [0, 1, 2, 0], [0, 1, 1, 0]])
def test_no_node_has_two_candidates(attach: list[int]) -> None:
    h = torch.randn(len(attach) - 2, 3).requires_grad_()
    found = loss(h, attach)
    assert figures(found) == (0.0, 0, 0, 0)
    (gradient,) = torch.autograd.grad(found.treereg_sum, h)
    assert not gradient.any()


def test_a_row_of_nothing() -> None:
    # What a rank without a sentence has (pdtools.models.batch.empty_batch).
    found = treereg(
        torch.randn(1, 2, 4), torch.tensor([[0, 1]]), torch.tensor([1]), torch.zeros(1, 2, dtype=torch.bool)
    )
    assert figures(found) == (0.0, 0, 0, 0)


def test_states_of_zero_have_a_loss() -> None:
    h = torch.zeros(5, 3, dtype=torch.float64, requires_grad=True)
    found = loss(h, ATTACH)
    (gradient,) = torch.autograd.grad(found.treereg_sum, h)
    assert found.treereg_sum.isfinite()
    assert gradient.isfinite().all()


def test_small_angles_are_computed_in_double_precision() -> None:
    angle = 1e-3
    h = torch.tensor([[[9.0, 9.0], [3.0, 0.0], [5 * math.cos(angle), 5 * math.sin(angle)]]])
    norms = residual_norms(h)
    assert float(norms[0, 1, 2]) == pytest.approx(float(h[0, 2, 1]), rel=1e-6)  # beside the first axis
    assert not norms[0, 0].any()


# --- the oracle --------------------------------------------------------------------------------


def check(tree: Nested, counts: list[int], h: np.ndarray) -> None:
    """A tree over words, which have so many tokens each, against the oracle."""
    attach = sentence_layout(expand_attachments(attachments(brackets(tree)), counts))
    word = np.repeat(np.arange(len(counts)), counts)
    begins = [False, True, *(word[1:] != word[:-1]).tolist()]
    last = np.cumsum(counts)

    def over_tokens(node: Nested) -> Nested:
        if not isinstance(node, int):
            return over_tokens(node[0]), over_tokens(node[1])
        within: Nested = int(last[node - 1])
        for token in range(int(last[node - 1]) - 1, int(last[node - 1] - counts[node - 1]), -1):
            within = token, within
        return within

    expected = list(terms(over_tokens(tree), [(), *h.tolist()], begins))
    found = loss(h, attach.tolist(), word.tolist())
    assert int(found.n_splits) == len(expected)
    assert int(found.n_trees) == bool(expected)
    assert float(found.treereg_sum) == pytest.approx(
        sum(expected) / max(1, len(expected)), rel=2e-6, abs=1e-7
    )


@pytest.mark.parametrize("leaves", range(1, 8))
def test_all_trees_of_up_to_seven_leaves(leaves: int) -> None:
    rng = np.random.default_rng(leaves)
    for tree in binary_trees(1, leaves):
        check(tree, [1] * leaves, rng.normal(size=(leaves, 3)))


def nested(first: int, last: int, split: Callable[[int, int], int]) -> Nested:
    if first == last:
        return first
    q = split(first, last)
    return nested(first, q, split), nested(q + 1, last, split)


@settings(max_examples=60)
@given(st.data())
def test_random_trees_with_subwords(data: st.DataObject) -> None:
    counts = data.draw(st.lists(st.integers(1, 3), min_size=1, max_size=14))
    rng = np.random.default_rng(data.draw(st.integers(0, 2**32)))
    tree = nested(1, len(counts), lambda first, last: data.draw(st.integers(first, last - 1)))
    check(tree, counts, rng.normal(size=(sum(counts), 4)) * rng.choice([0.1, 1, 5]))


def test_rows_of_a_batch_do_not_touch_each_other() -> None:
    torch.manual_seed(0)
    rows = [([0, 1, 2, 0], [0, 1]), (ATTACH, [0, 1, 1, 2, 3]), ([0, 1, 2, 1, 0], [0, 1, 2])]
    h = [torch.randn(len(attach) - 2, 4, dtype=torch.float64) for attach, _ in rows]
    one_by_one = [loss(states, *row) for states, row in zip(h, rows, strict=True)]
    width = 9
    states = torch.randn(3, width, 4, dtype=torch.float64)
    attach = torch.arange(width).repeat(3, 1)
    for i, (targets, _) in enumerate(rows):
        states[i, 1 : len(targets) - 1] = h[i]
        attach[i, : len(targets)] = torch.tensor(targets)
    lengths = torch.tensor([len(targets) for targets, _ in rows])
    edges = word_edges([np.array([-1, *words, -1], np.int32) for _, words in rows], width)
    together = treereg(states, attach, lengths, edges)
    for name, value in vars(together).items():
        assert float(value) == pytest.approx(sum(float(getattr(each, name)) for each in one_by_one))
    assert int(count_trees(attach, lengths, edges)) == int(together.n_trees) == 2


def test_gradients() -> None:
    torch.manual_seed(1)
    h = torch.randn(7, 3, dtype=torch.float64, requires_grad=True)
    attach = sentence_layout(attachments(brackets(((1, (2, 3)), ((4, 5), (6, 7)))))).tolist()
    for words in (list(range(7)), [0, 1, 1, 2, 3, 4, 5]):
        assert torch.autograd.gradcheck(lambda x, words=words: loss(x, attach, words).treereg_sum, (h,))


# --- windows -----------------------------------------------------------------------------------


@dataclass(frozen=True)
class Window:
    """Sentences of a window, each its attachments (with end-of-sentence), words and states."""

    attach: list[list[int]]
    words: list[list[int]]
    h: list[Tensor]

    def row(self) -> tuple[list[int], list[int], Tensor]:
        """Attachments, words and states (N, d), written out sentence after sentence."""
        attach: list[int] = []
        words: list[int] = []
        states: list[Tensor] = []
        for targets, numbers, h in zip(self.attach, self.words, self.h, strict=True):
            root, before = len(attach), max([-1, *words]) + 1
            attach += [root, *(root + target for target in targets[1:-2]), root]
            words += [-1, *(before + number for number in numbers)]
            states += [torch.full_like(h[:1], 5.0), h]
        return attach, words, torch.cat(states)


def window_of(rng: np.random.Generator, sentences: int) -> Window:
    """Random trees over words of one to three tokens."""
    found = Window([], [], [])
    for _ in range(sentences):
        counts = rng.integers(1, 4, size=rng.integers(1, 7)).tolist()
        tree = nested(1, len(counts), lambda first, last: int(rng.integers(first, last)))
        found.attach.append(sentence_layout(expand_attachments(attachments(brackets(tree)), counts)).tolist())
        found.words.append(np.repeat(np.arange(len(counts)), counts).tolist())
        found.h.append(torch.from_numpy(rng.normal(size=(sum(counts), 3))))
    return found


def batch_of(windows: list[Window], width: int, states: Tensor | None = None) -> tuple[Tensor, ...]:
    """What :func:`treereg` takes of windows with padding between them."""
    rows = [window.row() for window in windows]
    attach = torch.arange(width).repeat(len(rows), 1)
    padded = torch.full((len(rows), width, 3), -3.0, dtype=torch.float64)
    for i, (targets, _, h) in enumerate(rows):
        attach[i, : len(targets)] = torch.tensor(targets)
        padded[i, : len(targets)] = h
    words = [np.array(row[1], np.int32) for row in rows]
    lengths = torch.tensor([len(row[0]) for row in rows])
    places = sentence_places(words, width)
    return padded if states is None else states, attach, lengths, word_edges(words, width), places


@pytest.mark.parametrize("seed", range(6))
def test_sentences_of_windows_have_the_loss_of_sentences(seed: int) -> None:
    rng = np.random.default_rng(seed)
    windows = [window_of(rng, int(rng.integers(1, 6))) for _ in range(3)]
    width = max(len(window.row()[0]) for window in windows) + 2
    for window in windows:
        for h in window.h:
            h.requires_grad_()
    inputs = batch_of(windows, width)
    found = treereg(*inputs)
    apart = [
        loss(h, targets, words)
        for window in windows
        for targets, words, h in zip(window.attach, window.words, window.h, strict=True)
    ]
    assert int(found.n_splits) > 0
    for name, value in vars(found).items():
        assert value.item() == pytest.approx(sum(getattr(each, name).item() for each in apart)), name
    assert int(count_trees(*inputs[1:])) == int(found.n_trees)
    states = [h for window in windows for h in window.h]
    together = torch.autograd.grad(found.treereg_sum, states)
    alone = torch.autograd.grad(torch.stack([each.treereg_sum for each in apart]).sum(), states)
    torch.testing.assert_close(together, alone)


def test_places_of_sentences() -> None:
    words = [np.array([-1, 0, 1, -1, 2], np.int32), np.array([-1, 0], np.int32)]
    assert sentence_places(words, 6).tolist() == [[0, 1, 2], [3, 4, -1], [6, 7, -1]]
    assert word_edges(words, 6).nonzero().tolist() == [[0, 1]]


def test_a_batch_without_windows() -> None:
    words = [np.zeros(0, np.int32)]
    places, edges = sentence_places(words, 2), word_edges(words, 2)
    states = torch.randn(1, 2, 4, requires_grad=True)
    found = treereg(states, torch.tensor([[0, 1]]), torch.tensor([1]), edges, places)
    found.treereg_sum.backward()
    assert figures(found) == (0.0, 0, 0, 0)
    assert states.grad is not None
    assert not states.grad.any()


# --- parsing -----------------------------------------------------------------------------------


def tree_sum(tree: Nested, h: list[Any]) -> float:
    if isinstance(tree, int):
        return 0.0
    here = split_score(h, edge(tree, 0), edge(tree[0], -1), edge(tree, -1))
    return here + tree_sum(tree[0], h) + tree_sum(tree[1], h)


@pytest.mark.parametrize("seed", range(8))
def test_best_tree_is_the_best_of_all(seed: int) -> None:
    h = np.random.default_rng(seed).normal(size=(6, 3))
    scores = SentenceScores(residual_norms(states_of(h))[0].numpy(), np.arange(1, 7))
    states = [(), *h.tolist()]
    best = max(binary_trees(1, 6), key=lambda tree: tree_sum(tree, states))
    found = best_tree(scores)
    gaps = {split for _, _, split in found}
    assert gaps == set(range(1, 6))
    assert nodes_of(best) == [(first, past) for first, past, _ in found]
    greedy = sum(scores.of(a, b)[split - a - 1] for a, b, split in greedy_tree(scores))
    assert tree_sum(best, states) == pytest.approx(sum(scores.of(a, b)[s - a - 1] for a, b, s in found))
    assert greedy <= tree_sum(best, states) + 1e-9


def nodes_of(tree: Nested) -> list[tuple[int, int]]:
    """Pre-order, words from 0."""
    if isinstance(tree, int):
        return []
    return [(edge(tree, 0) - 1, edge(tree, -1)), *nodes_of(tree[0]), *nodes_of(tree[1])]


def test_parses_split_at_word_edges() -> None:
    h = np.random.default_rng(3).normal(size=(6, 3))
    ends = np.array([2, 3, 6])  # words of two, one and three tokens
    scores = SentenceScores(residual_norms(states_of(h))[0].numpy(), ends)
    states = [(), *h.tolist()]
    assert scores.of(0, 3).tolist() == pytest.approx(
        [split_score(states, 1, 2, 6), split_score(states, 1, 3, 6)]
    )
    assert scores.of(1, 3).tolist() == pytest.approx([split_score(states, 3, 3, 6)])
    for parse in (greedy_tree, best_tree):
        assert parse(scores)[0][:2] == (0, 3)
        assert len(parse(scores)) == 2
        assert parse(SentenceScores(np.zeros((2, 2)), np.array([1]))) == []
        # Equal splits: the first of them, so that all branches to the right.
        assert parse(SentenceScores(np.zeros((5, 5)), np.arange(1, 5))) == [(0, 4, 1), (1, 4, 2), (2, 4, 3)]
