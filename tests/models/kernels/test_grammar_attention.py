"""Attention of Transformer Grammars: against dense attention with a mask that was made by a stack."""

from __future__ import annotations

import itertools
import math

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor
from visibility_oracle import Tree, computed, grammar_batch, trees

import pdtools.models.kernels.grammar_attention as module
from pdtools.models.kernels.grammar_attention import DISTANCES, Visible, grammar_attention, visible_keys

HEADS = 3
EXAMPLE: Tree = [["the", "hungry", "cat"], ["meows"]]


class Layer:
    """Random queries, keys, values and biases for some trees, with their masks."""

    def __init__(self, rows: list[Tree], d_head: int, dtype: torch.dtype) -> None:
        self.seen, pop, compose, self.depth = grammar_batch(rows)
        self.visible = visible_keys(pop, compose, self.depth)
        random = torch.Generator().manual_seed(len(self.visible.keys))

        def normal(*shape: int) -> Tensor:
            return torch.randn(shape, generator=random, dtype=torch.float64).to(dtype).requires_grad_()

        batch, n = pop.shape
        self.qkv = normal(batch, n, 3, HEADS, d_head)
        self.distance = normal(HEADS, DISTANCES, d_head)
        self.content_bias, self.position_bias = normal(HEADS, 1, d_head), normal(HEADS, 1, d_head)
        self.weight = normal(batch, HEADS, n, d_head).detach()

    def ours(self, dropout: float = 0.0) -> Tensor:
        q, k, v = self.qkv.permute(2, 0, 3, 1, 4)
        return grammar_attention(
            q, k, v, self.visible, (self.distance, self.content_bias, self.position_bias), dropout
        )

    def dense(self, factors: Tensor | float = 1.0) -> Tensor:
        """With a mask, and weights multiplied by factors."""
        q, k, v = self.qkv.permute(2, 0, 3, 1, 4)
        relative = (self.depth[:, :, None] - self.depth[:, None]).clamp(-1, 62)  # (B, N, N)
        vectors = self.distance[:, relative + 1].transpose(0, 1)  # (B, H, N, N, d_head)
        by_distance = torch.einsum("bhid,bhijd->bhij", q + self.position_bias, vectors)
        scores = (q + self.content_bias) @ k.transpose(2, 3) + by_distance
        scores = (scores / math.sqrt(q.shape[3])).masked_fill(~self.seen[:, None], -math.inf)
        return (scores.softmax(3) * factors) @ v

    def with_gradients(self, mixed: Tensor) -> list[Tensor]:
        learned = [self.qkv, self.distance, self.content_bias, self.position_bias]
        return [mixed.detach(), *torch.autograd.grad((mixed * self.weight).sum(), learned)]


in_c_and_in_blocks = pytest.mark.parametrize("how", ["in C", "in blocks"])


def lists(visible: Visible, n: int) -> list[list[list[int]]]:
    """The keys of every query of every row."""
    parts = visible.keys.tolist()
    ends = visible.offsets.tolist()
    flat = [parts[first:end] for first, end in itertools.pairwise(ends)]
    return [flat[i : i + n] for i in range(0, len(flat), n)]


def test_the_example() -> None:
    pop = torch.tensor([[14, 12, 6, 6, 6, 6, 12, 7, 10, 10, 12, 11, 14, 13]])
    depth = torch.tensor([[0, 1, 2, 3, 3, 3, 2, 2, 2, 3, 2, 2, 1, 1]])
    compose = torch.zeros_like(pop, dtype=torch.bool)
    compose[0, [6, 10, 12]] = True
    seen, *integers = grammar_batch([EXAMPLE])
    assert all(torch.equal(a, b) for a, b in zip(integers, (pop, compose, depth), strict=True))
    visible = visible_keys(pop, compose, depth)
    (keys,) = lists(visible, 14)
    assert [keys[i] for i in (6, 7, 8, 12)] == [[2, 3, 4, 5, 6], [0, 1, 6, 7], [0, 1, 6, 8], [1, 6, 10, 12]]
    of_compose = visible.distances[visible.offsets[6] : visible.offsets[7]]
    assert of_compose.tolist() == [1, 0, 0, 0, 1]
    assert [list(row.nonzero()[:, 0]) for row in seen[0]] == keys


@given(st.lists(trees, min_size=1, max_size=4))
def test_what_is_seen_is_what_the_stack_holds(rows: list[Tree]) -> None:
    seen, pop, compose, depth = grammar_batch(rows)
    visible = visible_keys(pop, compose, depth)
    expected = [[row.nonzero()[:, 0].tolist() for row in sentence] for sentence in seen]
    assert lists(visible, pop.shape[1]) == expected
    b, i, j = seen.nonzero(as_tuple=True)
    relative = (depth[b, i] - depth[b, j]).clamp(-1, 62) + 1
    assert torch.equal(visible.distances, relative.to(torch.uint8))


@in_c_and_in_blocks
@settings(max_examples=25)
@given(
    rows=st.lists(trees, min_size=1, max_size=4),
    d_head=st.sampled_from([1, 8, 20, 64]),
    cells=st.sampled_from([1, 1 << 17]),
)
def test_it_equals_dense_attention(how: str, rows: list[Tree], d_head: int, cells: int) -> None:
    with computed(module, how, cells):
        check(Layer(rows, d_head, torch.float64))


def check(layer: Layer, tolerance: float = 1e-10) -> None:
    for ours, dense in zip(
        layer.with_gradients(layer.ours()), layer.with_gradients(layer.dense()), strict=True
    ):
        torch.testing.assert_close(ours, dense, rtol=tolerance, atol=tolerance)


@in_c_and_in_blocks
def test_deep_trees_count_as_the_farthest(how: str) -> None:
    tree: Tree = ["w"]
    for _ in range(70):
        tree = [tree, "w"]
    layer = Layer([tree], 8, torch.float64)
    assert int(layer.visible.distances.max()) == DISTANCES - 1
    with computed(module, how):
        check(layer)


@in_c_and_in_blocks
def test_dropout_is_the_same_in_both_passes(how: str) -> None:
    rows = [[EXAMPLE, EXAMPLE, ["a", EXAMPLE]], [EXAMPLE, EXAMPLE]]
    n, dropout = 47, 0.25
    layer = Layer(rows, n, torch.float64)
    assert layer.seen.shape[1] == n
    with torch.no_grad():
        layer.qkv[:, :, 2] = torch.eye(n)[:, None]  # as values: what is mixed are the weights
    torch.manual_seed(0)
    with computed(module, how):
        mixed = layer.ours(dropout)  # (B, H, N, N)
        gradients = layer.with_gradients(mixed)
    kept = mixed > 0
    assert not bool(kept[~layer.seen[:, None].expand_as(kept)].any())
    assert abs(float(kept[layer.seen[:, None].expand_as(kept)].double().mean()) - (1 - dropout)) < 0.05
    dense = layer.dense(kept.double() / (1 - dropout))
    for ours, other in zip(gradients, layer.with_gradients(dense), strict=True):
        torch.testing.assert_close(ours, other, rtol=1e-10, atol=1e-10)


def test_no_sentences() -> None:
    nothing = torch.zeros(0, 5, dtype=torch.int32)
    visible = visible_keys(nothing, nothing.bool(), nothing)
    q = torch.zeros(0, HEADS, 5, 8, requires_grad=True)
    r, u = torch.zeros(HEADS, DISTANCES, 8), torch.zeros(HEADS, 1, 8)
    mixed = grammar_attention(q, q, q, visible, (r, u, u))
    assert mixed.shape == q.shape
    mixed.sum().backward()


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_single_precision_and_narrow_numbers(dtype: torch.dtype) -> None:
    tolerance = {torch.float32: 1e-4, torch.bfloat16: 0.3}[dtype]
    check(Layer([EXAMPLE, [EXAMPLE, "a", EXAMPLE]], 32, dtype), tolerance)


@in_c_and_in_blocks
def test_mixed_precision_is_single_precision(how: str) -> None:
    layer = Layer([EXAMPLE, [EXAMPLE, "a"]], 8, torch.float32)
    with computed(module, how):
        expected = layer.with_gradients(layer.ours())
        with torch.autocast("cpu", torch.bfloat16):
            layer.qkv.data = layer.qkv.data.bfloat16().float()
            narrow = layer.ours()
    assert narrow.dtype == torch.float32
    torch.testing.assert_close(narrow, expected[0], rtol=0.05, atol=0.05)


@pytest.mark.parametrize("dropout", [0.0, 0.25])
@pytest.mark.parametrize("threads", [2, 3, 5])
def test_heads_and_sentences_are_divided_among_threads(
    threads: int, dropout: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What is dropped depends on the seed alone, in both passes."""
    layer = Layer([EXAMPLE, ["a"], [EXAMPLE, "a"], EXAMPLE, ["b", EXAMPLE]], 8, torch.float64)
    with computed(module, "in C"):
        monkeypatch.setattr(torch, "get_num_threads", lambda: 1)
        torch.manual_seed(0)
        expected = layer.with_gradients(layer.ours(dropout))
        monkeypatch.setattr(torch, "get_num_threads", lambda: threads)
        torch.manual_seed(0)
        for one, other in zip(layer.with_gradients(layer.ours(dropout)), expected, strict=True):
            torch.testing.assert_close(one, other)


def test_scoring_compiles_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    layer = Layer([EXAMPLE], 8, torch.float32)
    monkeypatch.setattr(module, "_native_works", lambda dtype: pytest.fail("asked for"))
    with torch.no_grad():
        torch.testing.assert_close(layer.ours(), layer.dense())
