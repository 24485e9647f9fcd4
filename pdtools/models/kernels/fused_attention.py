"""Attention with depths, relative positions or ALiBi for CUDA, without an n x n x heads tensor.

FlashAttention-2 (Dao 2023): a program owns a block of rows (or, for the gradients of keys and values, a
block of keys) and passes over the other side block by block, with the softmax's running maximum and sum.
The scores of all depths are computed before, (B, H, N,
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
import triton.language as tl
from torch import Tensor
from torch.autograd.function import once_differentiable

# --- the kernels ------------------------------------------------------------------------------

# A program owns BLOCK rows (or keys, or distances) and passes over the keys (or rows) that they meet, STEP at
# a time. A tile is the cells of the two, for one head of one sentence; the program's own block is down, the
# other side across. Sums of products are float32.


@triton.jit
def _place(n, BLOCK: tl.constexpr):
    """The block of this program, and its head, counted over all sentences."""
    blocks = (n + BLOCK - 1) // BLOCK
    return tl.program_id(0) % blocks, (tl.program_id(0) // blocks).to(tl.int64)


@triton.jit
def _load_rows(start, stride, rows, n, D_HEAD: tl.constexpr):
    """Load rows, (rows, D_HEAD), with zeros for rows outside the sentence."""
    places = start + rows[:, None] * stride + tl.arange(0, D_HEAD)[None, :]
    return tl.load(places, mask=(rows[:, None] >= 0) & (rows[:, None] < n), other=0.0)


@triton.jit
def _store_rows(start, stride, rows, n, values, D_HEAD: tl.constexpr):
    places = start + rows[:, None] * stride + tl.arange(0, D_HEAD)[None, :]
    tl.store(places, values.to(start.dtype.element_ty), mask=rows[:, None] < n)


@triton.jit
def _own_depths(by_depth, tape, b, head, n, depths):
    """Return this sentence's scores of all depths, and its tape."""
    if by_depth is None:
        return None, None
    else:
        return by_depth + head * n * depths, tape + b * n * n


@triton.jit
def _scores(products, by_depth, tape, slopes, h, rows, keys, n, depths, scale):
    """Scores of a tile from its products, scaled and masked, and its depths, all of this sentence."""
    seen = (keys >= 0) & (keys <= rows) & (rows < n)
    depth = keys * 0 + rows * 0
    scores = products * scale
    if by_depth is not None:
        depth = tl.load(tape + rows * n + keys, mask=seen, other=0).to(tl.int32)
        extra = tl.load(by_depth + rows * depths + depth, mask=seen, other=0.0)
        scores += extra.to(tl.float32) * scale
    if slopes is not None:
        scores -= tl.load(slopes + h) * 1.4426950408889634 * (rows - keys).to(tl.float32)  # powers of 2
    # Rows from n on see key 0, so that no row is without a key; they are stored nowhere.
    seen = seen | ((keys == 0) & (rows >= n))
    return tl.where(seen, scores, float("-inf")), depth


@triton.jit
def _slide(products, DOWN: tl.constexpr, ACROSS: tl.constexpr, AXIS: tl.constexpr):
    """Pick a tile (DOWN, ACROSS) out of products with a window of neighbours, by differences of positions:
    along the rows of (DOWN, window), or the columns of (window, ACROSS)."""
    down, across = tl.arange(0, DOWN)[:, None], tl.arange(0, ACROSS)[None, :]
    place = down - across + (ACROSS - 1) if AXIS == 1 else across - down + (DOWN - 1)
    return tl.gather(products, place, AXIS)


@triton.jit
def _unslide(tile, DOWN: tl.constexpr, ACROSS: tl.constexpr, WINDOW: tl.constexpr):
    """Return a tile (DOWN, ACROSS) by the window's positions, (DOWN, WINDOW): the transpose of _slide."""
    place = tl.arange(0, DOWN)[:, None] - tl.arange(0, WINDOW)[None, :] + (ACROSS - 1)
    inside = (place >= 0) & (place < ACROSS)
    return tl.where(inside, tl.gather(tile, tl.where(inside, place, 0), 1), 0.0)


@triton.jit
def _kept(seed, head, rows, keys, n, dropout: tl.constexpr):
    """Dropout's factors of a tile's weights; every program computes the same for a cell."""
    chance = tl.rand(tl.load(seed) + head, rows * n + keys)
    return tl.where(chance >= dropout, 1 / (1 - dropout), 0.0)


@triton.jit
def forward_kernel(
    q, k, v, by_depth, tape, slopes, p, r, seed, mixed, log_sums,
    q_b, q_h, q_n, k_b, k_h, k_n, v_b, v_h, v_n, m_b, m_h, m_n,
    heads, n, depths, scale,
    dropout: tl.constexpr, D_HEAD: tl.constexpr, BLOCK: tl.constexpr, STEP: tl.constexpr,
):  # fmt: skip
    """Compute the attention of one block of rows."""
    WINDOW: tl.constexpr = 2 * BLOCK
    block, head = _place(n, BLOCK)
    b, h = head // heads, head % heads
    q, k, v = q + b * q_b + h * q_h, k + b * k_b + h * k_h, v + b * v_b + h * v_h
    by_depth, tape = _own_depths(by_depth, tape, b, head, n, depths)
    rows = block * BLOCK + tl.arange(0, BLOCK)
    q_rows = _load_rows(q, q_n, rows, n, D_HEAD)
    if r is not None:
        r += h * n * D_HEAD
        p_rows = _load_rows(p + head * n * D_HEAD, D_HEAD, rows, n, D_HEAD)
    highest = tl.full([BLOCK], float("-inf"), tl.float32)
    total = tl.zeros([BLOCK], tl.float32)
    mixed_rows = tl.zeros([BLOCK, D_HEAD], tl.float32)
    for first in range(0, (block + 1) * BLOCK, STEP):
        keys = first + tl.arange(0, STEP)
        down, across = rows[:, None], keys[None, :]
        k_rows = _load_rows(k, k_n, keys, n, D_HEAD)
        products = tl.dot(q_rows, tl.trans(k_rows), input_precision="tf32x3")
        if r is not None:
            distances = block * BLOCK - first - (STEP - 1) + tl.arange(0, WINDOW)
            r_rows = _load_rows(r, D_HEAD, distances, n, D_HEAD)
            by_distance = tl.dot(p_rows, tl.trans(r_rows), input_precision="tf32x3")
            products += _slide(by_distance, BLOCK, STEP, 1)
        scores, _ = _scores(products, by_depth, tape, slopes, h, down, across, n, depths, scale)
        higher = tl.maximum(highest, tl.max(scores, 1))
        weights = tl.exp2(scores - higher[:, None])
        shrink = tl.exp2(highest - higher)
        total = total * shrink + tl.sum(weights, 1)
        if dropout > 0:
            weights *= _kept(seed, head, down, across, n, dropout)
        v_rows = _load_rows(v, v_n, keys, n, D_HEAD)
        mixed_rows = mixed_rows * shrink[:, None]
        mixed_rows += tl.dot(weights.to(v_rows.dtype), v_rows, input_precision="tf32x3")
        highest = higher
    _store_rows(mixed + b * m_b + h * m_h, m_n, rows, n, mixed_rows / total[:, None], D_HEAD)
    tl.store(log_sums + head * n + rows, highest + tl.log2(total), mask=rows < n)


@triton.jit
def rows_kernel(
    q, k, v, by_depth, tape, slopes, p, r, seed, grad, log_sums, mean, grad_q, grad_by_depth, grad_p,
    q_b, q_h, q_n, k_b, k_h, k_n, v_b, v_h, v_n, g_b, g_h, g_n, gq_b, gq_h, gq_n,
    heads, n, depths, scale,
    dropout: tl.constexpr, D_HEAD: tl.constexpr, BLOCK: tl.constexpr, STEP: tl.constexpr,
):  # fmt: skip
    """Gradients of one block of rows: its queries (q and p), and its scores by depth."""
    WINDOW: tl.constexpr = 2 * BLOCK
    block, head = _place(n, BLOCK)
    b, h = head // heads, head % heads
    q, k, v = q + b * q_b + h * q_h, k + b * k_b + h * k_h, v + b * v_b + h * v_h
    by_depth, tape = _own_depths(by_depth, tape, b, head, n, depths)
    rows = block * BLOCK + tl.arange(0, BLOCK)
    q_rows = _load_rows(q, q_n, rows, n, D_HEAD)
    grad_rows = _load_rows(grad + b * g_b + h * g_h, g_n, rows, n, D_HEAD)
    log_sum = tl.load(log_sums + head * n + rows, mask=rows < n, other=0.0)
    mean_rows = tl.load(mean + head * n + rows, mask=rows < n, other=0.0)
    root = scale * 0.6931471805599453  # 1 / sqrt(d_head)
    grad_q_rows = tl.zeros([BLOCK, D_HEAD], tl.float32)
    if r is not None:
        r += h * n * D_HEAD
        p_rows = _load_rows(p + head * n * D_HEAD, D_HEAD, rows, n, D_HEAD)
        grad_p_rows = tl.zeros([BLOCK, D_HEAD], tl.float32)
    for first in range(0, (block + 1) * BLOCK, STEP):
        keys = first + tl.arange(0, STEP)
        down, across = rows[:, None], keys[None, :]
        k_rows = _load_rows(k, k_n, keys, n, D_HEAD)
        v_rows = _load_rows(v, v_n, keys, n, D_HEAD)
        products = tl.dot(q_rows, tl.trans(k_rows), input_precision="tf32x3")
        if r is not None:
            distances = block * BLOCK - first - (STEP - 1) + tl.arange(0, WINDOW)
            r_rows = _load_rows(r, D_HEAD, distances, n, D_HEAD)
            by_distance = tl.dot(p_rows, tl.trans(r_rows), input_precision="tf32x3")
            products += _slide(by_distance, BLOCK, STEP, 1)
        scores, depth = _scores(products, by_depth, tape, slopes, h, down, across, n, depths, scale)
        weights = tl.exp2(scores - log_sum[:, None])
        grad_weights = tl.dot(grad_rows, tl.trans(v_rows), input_precision="tf32x3")
        if dropout > 0:
            grad_weights *= _kept(seed, head, down, across, n, dropout)
        grad_scores = weights * (grad_weights - mean_rows[:, None]) * root
        grad_q_rows += tl.dot(grad_scores.to(k_rows.dtype), k_rows, input_precision="tf32x3")
        if r is not None:
            by_distance = _unslide(grad_scores, BLOCK, STEP, WINDOW)
            grad_p_rows += tl.dot(by_distance.to(r_rows.dtype), r_rows, input_precision="tf32x3")
        if by_depth is not None:
            own = grad_by_depth + head * n * depths + rows * depths
            # No other program has these rows and the blocks come in order: the sums are the same every time.
            for d in range(0, tl.max(tl.max(depth, 1), 0) + 1):
                part = tl.sum(tl.where(depth == d, grad_scores, 0.0), 1)
                tl.atomic_add(own + d, part, mask=rows < n, sem="relaxed")
    _store_rows(grad_q + b * gq_b + h * gq_h, gq_n, rows, n, grad_q_rows, D_HEAD)
    if r is not None:
        _store_rows(grad_p + head * n * D_HEAD, D_HEAD, rows, n, grad_p_rows, D_HEAD)


@triton.jit
def keys_kernel(
    q, k, v, by_depth, tape, slopes, p, r, seed, grad, log_sums, mean, grad_k, grad_v,
    q_b, q_h, q_n, k_b, k_h, k_n, v_b, v_h, v_n, g_b, g_h, g_n, gk_b, gk_h, gk_n, gv_b, gv_h, gv_n,
    heads, n, depths, scale,
    dropout: tl.constexpr, D_HEAD: tl.constexpr, BLOCK: tl.constexpr, STEP: tl.constexpr,
):  # fmt: skip
    """Gradients of one block of keys and values."""
    WINDOW: tl.constexpr = 2 * BLOCK
    block, head = _place(n, BLOCK)
    b, h = head // heads, head % heads
    q, k, v = q + b * q_b + h * q_h, k + b * k_b + h * k_h, v + b * v_b + h * v_h
    grad = grad + b * g_b + h * g_h
    by_depth, tape = _own_depths(by_depth, tape, b, head, n, depths)
    keys = block * BLOCK + tl.arange(0, BLOCK)
    k_rows = _load_rows(k, k_n, keys, n, D_HEAD)
    v_rows = _load_rows(v, v_n, keys, n, D_HEAD)
    root = scale * 0.6931471805599453  # 1 / sqrt(d_head)
    if r is not None:
        r += h * n * D_HEAD
        p += head * n * D_HEAD
    grad_k_rows = tl.zeros([BLOCK, D_HEAD], tl.float32)
    grad_v_rows = tl.zeros([BLOCK, D_HEAD], tl.float32)
    for first in range(block * BLOCK, n, STEP):
        rows = first + tl.arange(0, STEP)
        q_rows = _load_rows(q, q_n, rows, n, D_HEAD)
        grad_rows = _load_rows(grad, g_n, rows, n, D_HEAD)
        log_sum = tl.load(log_sums + head * n + rows, mask=rows < n, other=0.0)
        mean_rows = tl.load(mean + head * n + rows, mask=rows < n, other=0.0)
        down, across = keys[:, None], rows[None, :]
        products = tl.dot(k_rows, tl.trans(q_rows), input_precision="tf32x3")
        if r is not None:
            p_rows = _load_rows(p, D_HEAD, rows, n, D_HEAD)
            distances = first - block * BLOCK - (BLOCK - 1) + tl.arange(0, WINDOW)
            r_rows = _load_rows(r, D_HEAD, distances, n, D_HEAD)
            by_distance = tl.dot(r_rows, tl.trans(p_rows), input_precision="tf32x3")
            products += _slide(by_distance, BLOCK, STEP, 0)
        scores, _ = _scores(products, by_depth, tape, slopes, h, across, down, n, depths, scale)
        weights = tl.exp2(scores - log_sum[None, :])
        grad_weights = tl.dot(v_rows, tl.trans(grad_rows), input_precision="tf32x3")
        if dropout > 0:
            kept = _kept(seed, head, across, down, n, dropout)
            grad_weights *= kept
            mixing = weights * kept
        else:
            mixing = weights
        grad_v_rows += tl.dot(mixing.to(grad_rows.dtype), grad_rows, input_precision="tf32x3")
        grad_scores = weights * (grad_weights - mean_rows[None, :]) * root
        grad_k_rows += tl.dot(grad_scores.to(q_rows.dtype), q_rows, input_precision="tf32x3")
    _store_rows(grad_k + b * gk_b + h * gk_h, gk_n, keys, n, grad_k_rows, D_HEAD)
    _store_rows(grad_v + b * gv_b + h * gv_h, gv_n, keys, n, grad_v_rows, D_HEAD)


@triton.jit
def distances_kernel(
    q, k, v, by_depth, tape, slopes, p, r, seed, grad, log_sums, mean, grad_r,
    q_b, q_h, q_n, k_b, k_h, k_n, v_b, v_h, v_n, g_b, g_h, g_n,
    heads, n, depths, scale,
    dropout: tl.constexpr, D_HEAD: tl.constexpr, BLOCK: tl.constexpr, STEP: tl.constexpr,
):  # fmt: skip
    """Gradients of one block of distances in one sentence: a cell's key is its row less its distance."""
    WINDOW: tl.constexpr = 2 * BLOCK
    block, head = _place(n, BLOCK)
    b, h = head // heads, head % heads
    q, k, v = q + b * q_b + h * q_h, k + b * k_b + h * k_h, v + b * v_b + h * v_h
    grad = grad + b * g_b + h * g_h
    by_depth, tape = _own_depths(by_depth, tape, b, head, n, depths)
    distances = block * BLOCK + tl.arange(0, BLOCK)
    r_rows = _load_rows(r + h * n * D_HEAD, D_HEAD, distances, n, D_HEAD)
    root = scale * 0.6931471805599453  # 1 / sqrt(d_head)
    grad_r_rows = tl.zeros([BLOCK, D_HEAD], tl.float32)
    for first in range(block * BLOCK, n, STEP):
        rows = first + tl.arange(0, STEP)
        q_rows = _load_rows(q, q_n, rows, n, D_HEAD)
        p_rows = _load_rows(p + head * n * D_HEAD, D_HEAD, rows, n, D_HEAD)
        grad_rows = _load_rows(grad, g_n, rows, n, D_HEAD)
        log_sum = tl.load(log_sums + head * n + rows, mask=rows < n, other=0.0)
        mean_rows = tl.load(mean + head * n + rows, mask=rows < n, other=0.0)
        window = first - block * BLOCK - (BLOCK - 1) + tl.arange(0, WINDOW)
        k_rows = _load_rows(k, k_n, window, n, D_HEAD)
        v_rows = _load_rows(v, v_n, window, n, D_HEAD)
        across = rows[None, :]
        keys = across - distances[:, None]
        by_key = tl.dot(k_rows, tl.trans(q_rows), input_precision="tf32x3")
        products = tl.dot(r_rows, tl.trans(p_rows), input_precision="tf32x3")
        products += _slide(by_key, BLOCK, STEP, 0)
        scores, _ = _scores(products, by_depth, tape, slopes, h, across, keys, n, depths, scale)
        weights = tl.exp2(scores - log_sum[None, :])
        by_value = tl.dot(v_rows, tl.trans(grad_rows), input_precision="tf32x3")
        grad_weights = _slide(by_value, BLOCK, STEP, 0)
        if dropout > 0:
            grad_weights *= _kept(seed, head, across, keys, n, dropout)
        grad_scores = weights * (grad_weights - mean_rows[None, :]) * root
        grad_r_rows += tl.dot(grad_scores.to(p_rows.dtype), p_rows, input_precision="tf32x3")
    _store_rows(grad_r + head * n * D_HEAD, D_HEAD, distances, n, grad_r_rows, D_HEAD)


# --- attention --------------------------------------------------------------------------------

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
