"""Attention of PLM-mask: against torch's with masks made by reading trees."""

from __future__ import annotations

import pytest
import torch
import torch.nn.functional as F
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor
from visibility_oracle import Tree, computed, innermost_batch, trees

import pdtools.models.kernels.block_attention as module
from pdtools.models.transformer.backends import attend
from pdtools.models.transformer.score_terms import ScoreInputs

HEADS = 4


def inputs(batch: int, n: int, d_head: int, dtype: torch.dtype) -> tuple[Tensor, Tensor]:
    random = torch.Generator().manual_seed(n)
    qkv = torch.randn(batch, n, 3, HEADS, d_head, generator=random, dtype=torch.float64)
    weight = torch.randn(batch, HEADS, n, d_head, generator=random, dtype=torch.float64)
    return qkv.to(dtype).requires_grad_(), weight.to(dtype)


def ranged_attention(q: Tensor, k: Tensor, v: Tensor, innermost: Tensor, dropout: float = 0.0) -> Tensor:
    inputs = ScoreInputs(causal=None, tape=None, innermost=innermost)
    return attend(q, k, v, [], torch.empty(0), inputs, dropout)


def with_gradients(qkv: Tensor, weight: Tensor, mixed: Tensor) -> list[Tensor]:
    return [mixed.detach(), *torch.autograd.grad((mixed * weight).sum(), qkv)]


def test_the_example() -> None:
    rows: list[Tree] = [[["the", "hungry", "cat"], ["meows"]]]
    seen, innermost = innermost_batch(rows, HEADS)
    assert innermost.tolist() == [[-1, 1, 2, 2, 2, 2, 1, 7, 7, 1, -1]]
    assert seen[0, 0, 5].nonzero()[:, 0].tolist() == [0, 1]
    assert seen[0, 1, 5].nonzero()[:, 0].tolist() == [2, 3, 4, 5]
    assert seen[0, 2, 5].nonzero()[:, 0].tolist() == [0, 1, 2, 3, 4, 5]


in_c_and_in_blocks = pytest.mark.parametrize("how", ["in C", "in blocks"])


@in_c_and_in_blocks
@settings(max_examples=25)
@given(
    rows=st.lists(trees, min_size=1, max_size=4),
    d_head=st.sampled_from([1, 8, 20]),
    cells=st.sampled_from([1, 1 << 17]),
)
def test_it_equals_masked_attention(how: str, rows: list[Tree], d_head: int, cells: int) -> None:
    with computed(module, how, cells):
        check(rows * 2, d_head)


@in_c_and_in_blocks
def test_long_rows(how: str) -> None:
    flat: Tree = ["w"] * 40
    with computed(module, how):
        check([[flat, [flat, flat], "w", [["w"], flat]], flat], 8)


def check(rows: list[Tree], d_head: int) -> None:
    seen, innermost = innermost_batch(rows, HEADS)
    qkv, weight = inputs(*innermost.shape, d_head, torch.float64)
    q, k, v = qkv.permute(2, 0, 3, 1, 4)
    ours = with_gradients(qkv, weight, ranged_attention(q, k, v, innermost))
    masked = with_gradients(qkv, weight, F.scaled_dot_product_attention(q, k, v, attn_mask=seen))
    for one, other in zip(ours, masked, strict=True):
        torch.testing.assert_close(one, other, rtol=1e-10, atol=1e-10)


@in_c_and_in_blocks
def test_dropout_keeps_to_the_ranges(how: str) -> None:
    rows: list[Tree] = [[["a"] * 20, ["b"] * 9]]
    seen, innermost = innermost_batch(rows, HEADS)
    n, dropout = innermost.shape[1], 0.25
    qkv, weight = inputs(1, n, n, torch.float64)
    with torch.no_grad():
        qkv[:, :, 2] = torch.eye(n)[:, None]
    q, k, v = qkv.permute(2, 0, 3, 1, 4)
    torch.manual_seed(0)
    with computed(module, how):
        mixed = ranged_attention(q, k, v, innermost, dropout)
        ours = with_gradients(qkv, weight, mixed)
    kept = mixed > 0
    assert not bool(kept[~seen].any())
    assert abs(float(kept[seen].double().mean()) - (1 - dropout)) < 0.05
    scores = (q @ k.transpose(2, 3) / n**0.5).masked_fill(~seen, -torch.inf)
    masked = (scores.softmax(3) * kept / (1 - dropout)) @ v
    for one, other in zip(ours, with_gradients(qkv, weight, masked), strict=True):
        torch.testing.assert_close(one, other, rtol=1e-10, atol=1e-10)


def test_narrow_numbers_are_left_to_torch() -> None:
    seen, innermost = innermost_batch([[["the", "cat"], "sat"]], HEADS)
    qkv, _ = inputs(*innermost.shape, 8, torch.bfloat16)
    q, k, v = qkv.permute(2, 0, 3, 1, 4)
    masked = F.scaled_dot_product_attention(q, k, v, attn_mask=seen)
    torch.testing.assert_close(ranged_attention(q, k, v, innermost), masked)


def test_openers_that_come_later_are_refused() -> None:
    q = torch.zeros(1, HEADS, 3, 8)
    with pytest.raises(IndexError, match="opened after"):
        ranged_attention(q, q, q, torch.tensor([[-1, 2, 2]], dtype=torch.int32))
