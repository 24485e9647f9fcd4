"""Attention in blocks of rows in C, for training on CPUs.

It is worth it because torch goes through the scores a dozen times, once for each term, softmax and dropout,
and what is left of its time is the cost of many small calls.
"""

from __future__ import annotations

import ctypes
import math
from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor
from torch.autograd.function import once_differentiable

from pdtools.models.native import native_library, share_among_threads

_SIZES = ("batch", "heads", "n", "d", "depths", "by_sentence", "by_head", "by_row")
_INPUTS = ("q", "k", "v", "u", "v_bias", "r", "table", "tape", "slopes", "number", "fixed")
_OUTPUTS = ("mixed", "log_sums")
_GRADIENTS = ("grad", "grad_qkv", "grad_u", "grad_v_bias", "grad_r", "grad_table", "grad_slopes")


class _Arguments(ctypes.Structure):
    """``attention`` in block_attention.c, under the names of :mod:`pdtools.models.block_attention`."""

    _fields_ = (
        *((name, ctypes.c_long) for name in _SIZES),
        ("scale", ctypes.c_double),
        ("dropout", ctypes.c_double),
        ("seed", ctypes.c_uint64),
        *((name, ctypes.c_void_p) for name in (*_INPUTS, *_OUTPUTS, *_GRADIENTS)),
    )


def library_for(dtype: torch.dtype) -> ctypes.CDLL | None:
    """The compiled functions for float64, or for float32, which everything else is computed in."""
    options = ("-DDOUBLE",) if dtype == torch.float64 else ()
    return native_library("block_attention", ("forward", "backward"), *options)


def native_block_attention(
    q: Tensor, k: Tensor, v: Tensor, terms: Sequence[Tensor | None], dropout: float
) -> Tensor:
    """See :func:`pdtools.models.block_attention.block_attention`.

    Args:
        q, k, v: float (B, H, N, d_head).
        terms: u, v, r, table, tape (uint8), slopes, number and fixed.
        dropout: of the attention weights.
    """
    u, v_bias, r, table, *rest = terms
    if table is not None:
        table = table.expand(q.shape[1], -1, -1)  # (H, depths, d_head)
    return _NativeBlockAttention.apply(q, k, v, u, v_bias, r, table, *rest, dropout)


class _NativeBlockAttention(torch.autograd.Function):
    # In float32 under mixed precision too.
    @staticmethod
    @torch.amp.custom_fwd(device_type="cpu", cast_inputs=torch.float32)
    def forward(ctx: Any, q: Tensor, k: Tensor, v: Tensor, *rest: Any) -> Tensor:
        u, v_bias, r, table, tape, slopes, number, fixed, ctx.dropout = rest
        if not q.stride() == k.stride() == v.stride() or q.stride(3) != 1:
            q, k, v = q.contiguous(), k.contiguous(), v.contiguous()
        terms = [
            None if term is None else term.contiguous()
            for term in (u, v_bias, r, table, tape, slopes, number, fixed)
        ]
        ctx.seed = int(torch.randint(2**62, ())) if ctx.dropout else 0
        batch, heads, n, d_head = q.shape
        # Heads side by side, as the output layer takes them.
        mixed = q.new_empty(batch, n, heads, d_head)
        log_sums = q.new_empty(batch, heads, n)
        inputs = dict(zip(_INPUTS, (q, k, v, *terms), strict=True))
        _call("forward", ctx, {**inputs, "mixed": mixed, "log_sums": log_sums})
        ctx.save_for_backward(q, k, v, *terms, mixed, log_sums)
        return mixed.transpose(1, 2)

    @staticmethod
    @torch.amp.custom_bwd(device_type="cpu")
    @once_differentiable
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor | None, ...]:
        tensors = dict(zip((*_INPUTS, *_OUTPUTS), ctx.saved_tensors, strict=True))
        q = tensors["q"]
        batch, heads, n, d_head = q.shape
        tensors["grad"] = grad.to(q.dtype).transpose(1, 2).contiguous()  # (B, N, H, d_head)
        tensors["grad_qkv"] = q.new_empty(batch, n, 3, heads, d_head)
        sums = {}
        for name in ("u", "v_bias", "r", "table", "slopes"):
            term = tensors[name]
            sums[name] = tensors[f"grad_{name}"] = None if term is None else torch.zeros_like(term)
        _call("backward", ctx, tensors)
        return (
            *tensors["grad_qkv"].permute(2, 0, 3, 1, 4),
            sums["u"],
            sums["v_bias"],
            sums["r"],
            sums["table"],
            None,
            sums["slopes"],
            None,
            None,
            None,
        )


def _call(name: str, ctx: Any, tensors: dict[str, Tensor | None]) -> None:
    """Call a function of the library, each of torch's threads with some of the heads."""
    q, table = tensors["q"], tensors["table"]
    assert q is not None
    batch, heads, n, d_head = q.shape
    if q.numel() == 0:
        return
    arguments = _Arguments(
        batch=batch,
        heads=heads,
        n=n,
        d=d_head,
        depths=0 if table is None else table.shape[1],
        by_sentence=q.stride(0),
        by_head=q.stride(1),
        by_row=q.stride(2),
        scale=1 / math.sqrt(d_head),
        dropout=ctx.dropout,
        seed=ctx.seed,
        **{name: None if tensor is None else tensor.data_ptr() for name, tensor in tensors.items()},
    )
    function = getattr(library_for(q.dtype), name)

    def call(some: slice) -> None:
        if not function(ctypes.byref(arguments), ctypes.c_long(some.start), ctypes.c_long(some.stop)):
            raise MemoryError("no memory for attention's scores")

    share_among_threads(heads, call)
