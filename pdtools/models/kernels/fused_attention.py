"""Attention with depths, relative positions or ALiBi for CUDA, without an n x n x heads tensor.

FlashAttention-2 (Dao 2023): a program owns a block of rows (or, for the gradients of keys and values, a
block of keys) and passes over the other side block by block, with the softmax's running maximum and sum
(:mod:`pdtools.models.kernels.fused_kernels`). The scores of all depths are computed before, (B, H, N,
depths); the tape, one byte a cell, picks a cell's as its block is computed. ALiBi's penalty, the head's slope
times the distance, is computed there too. For relative positions, a block is multiplied by the window of
distances that it meets, and the products are moved to their keys. The backward pass computes the weights
again.
"""

from __future__ import annotations

import math
from typing import Any

import torch
import triton
from torch import Tensor
from torch.autograd.function import once_differentiable

from pdtools.models.kernels.fused_kernels import distances_kernel, forward_kernel, keys_kernel, rows_kernel

_LOG2_E = 1 / math.log(2)


def fused_attention(
    q: Tensor,
    k: Tensor,
    v: Tensor,
    by_depth: Tensor | None = None,
    tape: Tensor | None = None,
    slopes: Tensor | None = None,
    dropout: float = 0.0,
    *,
    p: Tensor | None = None,
    r: Tensor | None = None,
) -> Tensor:
    """Causal attention; scores (q_k·k_j + by_depth_k[W_k[j]] + p_k·r_{k-j}) / sqrt(d_head) - slope·(k - j).

    Depths are defined in Murty et al. 2023, fig. 7; slopes in Press et al. 2022; p and r are q + v and
    W_R R of Dai et al. 2019, section 3.3. Products are summed in float32. The same inputs give the same
    output and gradients to the bit, except that dropout draws its numbers from the device's random generator.

    Args:
        q, k, v: (B, H, N, d_head), float32, float16 or bfloat16; d_head 16, 32, 64 or 128.
        by_depth: (B, H, N, depths), of the same type: the scores q_k·e of all depths; None without depths.
        tape: an integer type (one byte a cell is the fastest), (B, N, N), depths below ``by_depth``'s number.
        slopes: float32 (H), one for each head, not learned; None: distances do not matter.
        dropout: the share of attention weights dropped, from 0 to below 1.
        p: (B, H, N, d_head), of the same type, the queries that distances are scored with; None without them.
        r: (H, N, d_head), of the same type: vectors of the distances 0, 1, …, N - 1.

    Returns:
        (B, H, N, d_head). It can be differentiated once.
    """
    seed = torch.randint(2**31 - 1, (1,), device=q.device) if dropout else None
    q, k, v = _dense(q), _dense(k), _dense(v)
    if by_depth is not None and tape is not None:
        by_depth, tape = by_depth.contiguous(), tape.contiguous()
    if p is not None and r is not None:
        p, r = p.contiguous(), r.contiguous()
    return _FusedAttention.apply(q, k, v, by_depth, tape, slopes, p, r, seed, dropout)


class _FusedAttention(torch.autograd.Function):
    @staticmethod
    def forward(
        ctx: Any,
        q: Tensor,
        k: Tensor,
        v: Tensor,
        by_depth: Tensor | None,
        tape: Tensor | None,
        slopes: Tensor | None,
        p: Tensor | None,
        r: Tensor | None,
        seed: Tensor | None,
        dropout: float,
    ) -> Tensor:
        batch, heads, n, d_head = q.shape
        # Heads are concatenated, as the output layer takes them.
        mixed = q.new_empty(batch, n, heads, d_head).transpose(1, 2)  # (B, H, N, d_head)
        log_sums = q.new_empty(batch, heads, n, dtype=torch.float32)
        block = _block(q, r is not None)
        # Triton launches on the current device; autograd sets it for the backward pass.
        with torch.cuda.device_of(q):
            forward_kernel[_grid(q, block)](
                q, k, v, by_depth, tape, slopes, p, r, seed, mixed, log_sums,
                *_strides(q, k, v, mixed), heads, n, _depths(by_depth), _scale(q),
                dropout=dropout, D_HEAD=d_head, **block,
            )  # fmt: skip
        ctx.save_for_backward(q, k, v, by_depth, tape, slopes, p, r, seed, mixed, log_sums)
        ctx.dropout = dropout
        return mixed

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor | None, ...]:
        q, k, v, by_depth, tape, slopes, p, r, seed, mixed, log_sums = ctx.saved_tensors
        heads, n, d_head = q.shape[1:]
        grad = _dense(grad)
        mean = (grad.float() * mixed).sum(-1)  # (B, H, N): the softmax's gradient, averaged
        grad_q, grad_k, grad_v = (torch.empty_like(t) for t in (q, k, v))
        grad_by_depth = None if by_depth is None else torch.zeros_like(by_depth, dtype=torch.float32)
        grad_p = None if p is None else torch.empty_like(p)
        block = _block(q, r is not None)
        grid = _grid(q, block)
        shared = (q, k, v, by_depth, tape, slopes, p, r, seed, grad, log_sums, mean)
        strides = _strides(q, k, v, grad)
        sizes = (heads, n, _depths(by_depth), _scale(q))
        constants = {"dropout": ctx.dropout, "D_HEAD": d_head, **block}
        rows_kernel[grid](
            *shared, grad_q, grad_by_depth, grad_p, *strides, *_strides(grad_q), *sizes, **constants
        )
        keys_kernel[grid](*shared, grad_k, grad_v, *strides, *_strides(grad_k, grad_v), *sizes, **constants)
        grad_r = None
        if p is not None and r is not None:
            by_sentence = torch.empty_like(p, dtype=torch.float32)
            distances_kernel[grid](*shared, by_sentence, *strides, *sizes, **constants)
            grad_r = by_sentence.sum(0).to(r.dtype)
        if grad_by_depth is not None:
            grad_by_depth = grad_by_depth.to(by_depth.dtype)
        return grad_q, grad_k, grad_v, grad_by_depth, None, None, grad_p, grad_r, None, None


def _block(q: Tensor, has_distances: bool) -> dict[str, int]:
    """Sizes of blocks and steps whose numbers (nearly) fit the registers, and the compiler's options."""
    d_head = q.shape[3]
    if has_distances and q.element_size() <= 2:
        return {"BLOCK": 32, "STEP": 32, "num_warps": 4, "num_stages": 1}
    if q.element_size() > 2:
        return {"BLOCK": 32, "STEP": 16 if d_head > 64 else 32, "num_warps": 4, "num_stages": 1}
    return {"BLOCK": 64, "STEP": 32, "num_warps": 4, "num_stages": 2}


def _grid(q: Tensor, block: dict[str, int]) -> tuple[int]:
    """One program for each block of each head: in one dimension, as CUDA's others end at 65,535."""
    batch, heads, n, _ = q.shape
    return (triton.cdiv(n, block["BLOCK"]) * batch * heads,)


def _dense(tensor: Tensor) -> Tensor:
    """Return the tensor with the numbers of a head contiguous."""
    return tensor if tensor.stride(3) == 1 else tensor.contiguous()


def _strides(*tensors: Tensor) -> list[int]:
    """Steps from sentence to sentence, head to head and row to row of each tensor."""
    return [stride for t in tensors for stride in t.stride()[:3]]


def _depths(by_depth: Tensor | None) -> int:
    return 0 if by_depth is None else by_depth.shape[3]


def _scale(q: Tensor) -> float:
    """The factor of the scores, for exponentials that are powers of 2 in the kernels."""
    return _LOG2_E / math.sqrt(q.shape[3])
