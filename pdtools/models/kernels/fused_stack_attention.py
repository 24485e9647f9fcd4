"""Stack attention's recurrence for CUDA: a program goes through all positions of one row, in one launch.

Torch's own operations take five launches a position, and most of their time goes to these.
"""

from __future__ import annotations

from typing import Any

import torch
import triton
import triton.language as tl
from torch import Tensor
from torch.autograd.function import once_differentiable

TILE_CELLS = 8192


@triton.jit
def _forward_kernel(actions, alpha, n, BLOCK: tl.constexpr, STEP: tl.constexpr):
    b = tl.program_id(0).to(tl.int64)
    actions += b * n * 3
    alpha += b * n * n
    columns = tl.arange(0, BLOCK)
    last = tl.where(columns == 0, 1.0, 0.0).to(alpha.dtype.element_ty)  # (BLOCK): the row before
    tl.store(alpha + columns, last, mask=columns < n)
    tl.debug_barrier()  # other threads read what was stored
    for i in range(1, n):
        popped = tl.zeros_like(last)
        for first in range(0, i, STEP):
            j = first + tl.arange(0, STEP)  # popped tokens
            under = tl.maximum(j - 1, 0)
            weight = tl.load(alpha + (i - 1) * n + j, mask=j < i, other=0.0)
            inside = (j < i)[:, None] & (columns[None, :] <= under[:, None])
            tile = tl.load(alpha + under[:, None] * n + columns[None, :], mask=inside, other=0.0)
            popped += tl.sum(weight[:, None] * tile, 0)
        push = tl.where(columns == i, tl.load(actions + 3 * i), 0.0)
        last = push + tl.load(actions + 3 * i + 1) * popped + tl.load(actions + 3 * i + 2) * last
        tl.store(alpha + i * n + columns, last, mask=columns < n)
        tl.debug_barrier()


@triton.jit
def _backward_kernel(actions, alpha, rows, n, BLOCK: tl.constexpr, STEP: tl.constexpr):
    """Complete the gradients of rows in place; the torch formulation says which terms are summed."""
    b = tl.program_id(0).to(tl.int64)
    actions += b * n * 3
    alpha += b * n * n
    rows += b * n * n
    columns = tl.arange(0, BLOCK)
    under = tl.maximum(columns - 1, 0)
    for step in range(1, n):
        i = n - step
        seen = columns <= i
        row = tl.load(rows + i * n + columns, mask=seen, other=0.0)  # (BLOCK)
        for first in range(i + 1, n, STEP):  # as a row that later rows sum
            later = first + tl.arange(0, STEP)
            popping = (later < n) & (later > i + 1)
            use = tl.load(alpha + (later - 1) * n + i + 1, mask=popping, other=0.0)
            use *= tl.load(actions + 3 * later + 1, mask=popping, other=0.0)
            use += tl.load(actions + 3 * later + 2, mask=later == i + 1, other=0.0)
            inside = (later < n)[:, None] & seen[None, :]
            tile = tl.load(rows + later[:, None] * n + columns[None, :], mask=inside, other=0.0)
            row += tl.sum(use[:, None] * tile, 0)
        if i + 1 < n:  # as coefficients of the next row
            by_coefficient = tl.zeros_like(row)
            for first in range(0, i + 1, STEP):
                m = first + tl.arange(0, STEP)
                following = tl.load(rows + (i + 1) * n + m, mask=m <= i, other=0.0)
                inside = (m[:, None] <= under[None, :]) & seen[None, :]
                tile = tl.load(alpha + under[None, :] * n + m[:, None], mask=inside, other=0.0)
                by_coefficient += tl.sum(following[:, None] * tile, 0)
            row += tl.load(actions + 3 * (i + 1) + 1) * by_coefficient
        tl.store(rows + i * n + columns, row, mask=seen)
        tl.debug_barrier()


def fused_stack_attention(actions: Tensor) -> Tensor:
    """See :func:`pdtools.models.transformer.stack_attention.stack_attention`."""
    return _FusedStackAttention.apply(actions)


class _FusedStackAttention(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, actions: Tensor) -> Tensor:
        actions = actions.contiguous()
        batch, n, _ = actions.shape
        alpha = actions.new_zeros(batch, n, n)
        _forward_kernel[(batch,)](actions, alpha, n, **_tiles(n))
        ctx.save_for_backward(actions, alpha)
        return alpha

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad: Tensor) -> Tensor:
        actions, alpha = ctx.saved_tensors
        batch, n, _ = actions.shape
        rows = grad.tril()  # (B, N, N), contiguous
        _backward_kernel[(batch,)](actions, alpha, rows, n, **_tiles(n))
        previous = torch.cat([alpha[:, :1], alpha[:, :-1]], dim=1)  # (B, N, N): row i is α_{i-1}
        # The same with a pop of token j at column j: α_{j-1}, where previous has it.
        grad_pop = (rows * (previous @ previous)).sum(-1)
        grad_no_op = (rows * previous).sum(-1)
        by_action = torch.stack([rows.diagonal(0, 1, 2), grad_pop, grad_no_op], -1)  # (B, N, 3)
        by_action[:, 0] = 0
        return by_action


def _tiles(n: int) -> dict[str, int]:
    block = triton.next_power_of_2(n)
    return {"BLOCK": block, "STEP": max(1, min(64, TILE_CELLS // block))}
