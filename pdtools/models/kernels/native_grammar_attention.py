"""Attention of Transformer Grammars in C, for training on CPUs: each query with the keys that it sees."""

from __future__ import annotations

import ctypes
import math
from typing import Any

import torch
from torch import Tensor
from torch.autograd.function import once_differentiable

from pdtools.models.kernels.native import native_library, parts_of, share_among_threads

# ``attention`` in grammar_attention.c, in its order.
_SIZES = ("batch", "heads", "n", "d", "parts", "cells", "by_sentence", "by_head", "by_row")
_LISTS = ("offsets", "keys", "distances")
_LEARNED = ("distance", "content_bias", "position_bias")
_INPUTS = (*_LISTS, "q", "k", "v", *_LEARNED)
_OUTPUTS = ("mixed", "weights")


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
    options = ("-ffp-contract=fast", *(["-DDOUBLE"] if dtype == torch.float64 else []))
    return native_library(__package__, "grammar_attention", ("forward", "backward"), *options)


class NativeGrammarAttention(torch.autograd.Function):
    """See :func:`pdtools.models.kernels.grammar_attention.grammar_attention`.

    Its arguments are the lists of visible keys; q, k, v, the vectors of distances and both biases, all
    float32 or all float64 (under mixed precision any); and dropout.
    """

    # In float32 under mixed precision too.
    @staticmethod
    @torch.amp.custom_fwd(device_type="cpu", cast_inputs=torch.float32)
    def forward(ctx: Any, *given: Any) -> Tensor:
        *tensors, ctx.dropout = given
        inputs = dict(zip(_INPUTS, tensors, strict=True))
        q, k, v = (inputs[name] for name in "qkv")
        if not q.stride() == k.stride() == v.stride() or q.stride(3) != 1:
            inputs.update(q=q.contiguous(), k=k.contiguous(), v=v.contiguous())
        inputs.update({name: inputs[name].contiguous() for name in _LEARNED})
        ctx.seed = int(torch.randint(2**62, ())) if ctx.dropout else 0
        batch, heads, n, d_head = q.shape
        # Heads are concatenated, as the output layer takes them.
        mixed = q.new_empty(batch, n, heads, d_head)
        weights = q.new_empty(heads, len(inputs["keys"]))
        _call("forward", ctx, {**inputs, "mixed": mixed, "weights": weights})
        ctx.save_for_backward(*inputs.values(), weights)
        return mixed.transpose(1, 2)

    @staticmethod
    @torch.amp.custom_bwd(device_type="cpu")
    @once_differentiable
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor | None, ...]:
        tensors = dict(zip((*_INPUTS, "weights"), ctx.saved_tensors, strict=True))
        q = tensors["q"]
        batch, heads, n, d_head = q.shape
        tensors["grad"] = grad.to(q.dtype).transpose(1, 2).contiguous()  # (B, N, H, d_head)
        tensors["grad_qkv"] = q.new_empty(batch, n, 3, heads, d_head)
        parts = parts_of(batch, heads)
        learned = {f"grad_{name}": q.new_zeros(parts, *tensors[name].shape) for name in _LEARNED}
        _call("backward", ctx, tensors | learned)
        of_learned = (each.sum(0) for each in learned.values())
        return *(None,) * len(_LISTS), *tensors["grad_qkv"].permute(2, 0, 3, 1, 4), *of_learned, None


def _call(function: str, ctx: Any, tensors: dict[str, Tensor]) -> None:
    """Call a function of the library, each of torch's threads with some heads of some sentences."""
    q = tensors["q"]
    if q.numel() == 0:
        return
    batch, heads, n, d_head = q.shape
    parts = parts_of(batch, heads)
    arguments = _Arguments(
        batch=batch,
        heads=heads,
        n=n,
        d=d_head,
        parts=parts,
        cells=len(tensors["keys"]),
        by_sentence=q.stride(0),
        by_head=q.stride(1),
        by_row=q.stride(2),
        scale=1 / math.sqrt(d_head),
        dropout=ctx.dropout,
        seed=ctx.seed,
        **{name: tensor.data_ptr() for name, tensor in tensors.items()},
    )
    compute = getattr(library_for(q.dtype), function)

    def call(some: slice) -> None:
        if not compute(ctypes.byref(arguments), ctypes.c_long(some.start), ctypes.c_long(some.stop)):
            raise MemoryError("no memory for one head's keys and values")

    share_among_threads(parts * heads, call)
