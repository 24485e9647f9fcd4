"""Attention in blocks of rows in C, for training on CPUs.

C is worth it because torch goes through the scores a dozen times, once for each term, softmax and dropout,
and the rest of its time is the cost of many small calls.
"""

from __future__ import annotations

import ctypes
import math
from typing import Any

import torch
from torch import Tensor
from torch.autograd.function import once_differentiable

from pdtools.models.kernels.native import native_library, parts_of, share_among_threads
from pdtools.models.kernels.terms import FORMS, Terms, all_but

# Forms of terms that are computed here. A query sees all keys before it, or by openers.
TAKES = all_but("seen", "apart")

# ``attention`` in block_attention.c, in its order.
_SIZES = ("batch", "heads", "n", "d", "depths", "tapes", "parts", "by_sentence", "by_head", "by_row")
# ALiBi's penalties are a bias; the table and tapes of graphs replace those for depths.
_TERMS = tuple(name for name in TAKES if name not in ("alibi", "graph_table", "graph"))
_LEARNED = tuple(name for name in _TERMS if FORMS[name].learned)
_OUTPUTS = ("mixed", "softmax")
_INPUTS = ("q", "k", "v", *_TERMS)


class _Arguments(ctypes.Structure):
    _fields_ = (
        *((name, ctypes.c_long) for name in _SIZES),
        ("scale", ctypes.c_double),
        ("dropout", ctypes.c_double),
        ("seed", ctypes.c_uint64),
        *((name, ctypes.c_void_p) for name in (*_INPUTS, *_OUTPUTS, "grad", "grad_qkv")),
        *((f"grad_{name}", ctypes.c_void_p) for name in _LEARNED),
    )


def library_for(dtype: torch.dtype) -> ctypes.CDLL | None:
    """Return the compiled functions for float32 or float64; None if they cannot be compiled."""
    # Without fused multiply-adds, which C99 leaves out by default, products take a quarter more time.
    options = ("-ffp-contract=fast", *(["-DDOUBLE"] if dtype == torch.float64 else []))
    return native_library(__package__, "block_attention", ("forward", "backward"), *options)


def native_block_attention(q: Tensor, k: Tensor, v: Tensor, terms: Terms, dropout: float) -> Tensor:
    """See :func:`pdtools.models.kernels.block_attention.block_attention`.

    Args:
        q, k, v: float32 or float64 (B, H, N, d_head); under mixed precision any.
        terms: terms of the same precision, without ``alibi`` and ``seen``.
        dropout: the share of attention weights dropped.
    """
    if terms.graph is not None:
        terms = terms._replace(table=terms.graph_table, tape=terms.graph)  # (B, 3, N, N)
    table = None if terms.table is None else terms.table.expand(q.shape[1], -1, -1)  # (H, depths, d_head)
    given = terms._replace(table=table)
    return _NativeBlockAttention.apply(q, k, v, *(getattr(given, name) for name in _TERMS), dropout)


class _NativeBlockAttention(torch.autograd.Function):
    # In float32 under mixed precision too.
    @staticmethod
    @torch.amp.custom_fwd(device_type="cpu", cast_inputs=torch.float32)
    def forward(ctx: Any, q: Tensor, k: Tensor, v: Tensor, *rest: Any) -> Tensor:
        *given, ctx.dropout = rest
        if not q.stride() == k.stride() == v.stride() or q.stride(3) != 1:
            q, k, v = q.contiguous(), k.contiguous(), v.contiguous()
        terms = [None if term is None else term.contiguous() for term in given]
        ctx.seed = int(torch.randint(2**62, ())) if ctx.dropout else 0
        batch, heads, n, d_head = q.shape
        # Heads are concatenated, as the output layer takes them.
        mixed = q.new_empty(batch, n, heads, d_head)
        softmax = q.new_empty(batch, heads, n, 2)
        inputs = dict(zip(_INPUTS, (q, k, v, *terms), strict=True))
        _call("forward", ctx, {**inputs, "mixed": mixed, "softmax": softmax})
        ctx.save_for_backward(q, k, v, *terms, mixed, softmax)
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
        parts = parts_of(batch, heads)
        for name in _LEARNED:
            term = tensors[name]
            tensors[f"grad_{name}"] = None if term is None else term.new_zeros(parts, *term.shape)
        _call("backward", ctx, tensors)
        learned = {name: tensors[f"grad_{name}"] for name in _LEARNED}
        sums = {name: None if grad is None else grad.sum(0) for name, grad in learned.items()}
        return *tensors["grad_qkv"].permute(2, 0, 3, 1, 4), *map(sums.get, _TERMS), None


def _call(function: str, ctx: Any, tensors: dict[str, Tensor | None]) -> None:
    """Call a function of the library, each of torch's threads with some heads of some sentences."""
    q, table, tape = tensors["q"], tensors["table"], tensors["tape"]
    assert q is not None
    if q.numel() == 0:
        return
    batch, heads, n, d_head = q.shape
    parts = parts_of(batch, heads)
    arguments = _Arguments(
        batch=batch,
        heads=heads,
        n=n,
        d=d_head,
        depths=0 if table is None else table.shape[1],
        tapes=tape.shape[1] if tape is not None and tape.ndim == 4 else 1,
        parts=parts,
        by_sentence=q.stride(0),
        by_head=q.stride(1),
        by_row=q.stride(2),
        scale=1 / math.sqrt(d_head),
        dropout=ctx.dropout,
        seed=ctx.seed,
        **{name: None if tensor is None else tensor.data_ptr() for name, tensor in tensors.items()},
    )
    compute = getattr(library_for(q.dtype), function)

    def call(some: slice) -> None:
        if not compute(ctypes.byref(arguments), ctypes.c_long(some.start), ctypes.c_long(some.stop)):
            raise MemoryError("no memory for one head's attention scores")

    share_among_threads(parts * heads, call)
