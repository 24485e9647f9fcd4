"""Attention in C, for training on CPUs: the part that its two kernels have in common.

C is worth it because torch goes through the scores a dozen times, once for each term, softmax and dropout,
and the rest of its time is the cost of many small calls.
"""

from __future__ import annotations

import ctypes
import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cache, cached_property
from typing import Any

import torch
from torch import Tensor
from torch.autograd.function import once_differentiable

from pdtools.models.kernels.native import OPTIONS, native_library, share_among_threads

Tensors = Mapping[str, Tensor | None]


@dataclass(frozen=True)
class AttentionKernel:
    """A file in C with a forward and a backward pass of attention.

    Attributes:
        name: the file's name, without ``.c``.
        inputs: the names of its inputs, in the order of its struct; q, k and v, (B, H, N, d_head), are there.
        learned: the other inputs that have gradients.
        kept: the name of what the forward pass leaves for the backward pass.
        kept_shape: the shape of that, from the inputs.
        sizes: the sizes that its struct has besides those of q, from the inputs.
    """

    name: str
    inputs: tuple[str, ...]
    learned: tuple[str, ...]
    kept: str
    kept_shape: Callable[[Tensors], tuple[int, ...]]
    sizes: Callable[[Tensors], dict[str, int]]

    def library(self, dtype: torch.dtype) -> ctypes.CDLL | None:
        """Return the compiled functions for float32 or float64; None if they cannot be compiled."""
        return native_library(__package__, self.name, ("forward", "backward"), *OPTIONS[dtype])

    def __call__(self, inputs: Tensors, dropout: float) -> Tensor:
        """Compute attention, (B, H, N, d_head), from inputs that are all float32 or all float64.

        Under mixed precision they may be of any type. An input that is not there is 0 in C.
        """
        return _NativeAttention.apply(self, dropout, *(inputs.get(name) for name in self.inputs))

    def call(self, function: str, tensors: Tensors, dropout: float, seed: int) -> None:
        """Call a function of the library, each of torch's threads with some heads of some sentences."""
        q = tensors["q"]
        assert q is not None
        if q.numel() == 0:
            return
        batch, heads, n, d_head = q.shape
        parts = _parts_of(batch, heads)
        by_sentence, by_head, by_row, _ = q.stride()
        sizes = {"batch": batch, "heads": heads, "n": n, "d": d_head, "parts": parts}
        strides = {"by_sentence": by_sentence, "by_head": by_head, "by_row": by_row}
        longs = sizes | strides | self.sizes(tensors)
        arguments = _struct(tuple(longs), self._pointers)(
            **longs,
            scale=1 / math.sqrt(d_head),
            dropout=dropout,
            seed=seed,
            **{name: None if tensor is None else tensor.data_ptr() for name, tensor in tensors.items()},
        )
        share_among_threads(parts * heads, getattr(self.library(q.dtype), function), arguments)

    @cached_property
    def _pointers(self) -> tuple[str, ...]:
        """The tensors of the struct ``attention`` in C, in its order."""
        gradients = (f"grad_{name}" for name in self.learned)
        return (*self.inputs, "mixed", self.kept, "grad", "grad_qkv", *gradients)


@cache
def _struct(longs: tuple[str, ...], pointers: tuple[str, ...]) -> type[ctypes.Structure]:
    fields = (
        *((name, ctypes.c_long) for name in longs),
        ("scale", ctypes.c_double),
        ("dropout", ctypes.c_double),
        ("seed", ctypes.c_uint64),
        *((name, ctypes.c_void_p) for name in pointers),
    )
    return type("attention", (ctypes.Structure,), {"_fields_": fields})


class _NativeAttention(torch.autograd.Function):
    # In float32 under mixed precision too.
    @staticmethod
    @torch.amp.custom_fwd(device_type="cpu", cast_inputs=torch.float32)
    def forward(ctx: Any, kernel: AttentionKernel, dropout: float, *tensors: Tensor | None) -> Tensor:
        inputs = dict(zip(kernel.inputs, tensors, strict=True))
        q, k, v = (inputs.pop(name) for name in "qkv")
        assert q is not None
        assert k is not None
        assert v is not None
        if not q.stride() == k.stride() == v.stride() or q.stride(3) != 1:
            q, k, v = q.contiguous(), k.contiguous(), v.contiguous()
        given = {name: None if tensor is None else tensor.contiguous() for name, tensor in inputs.items()}
        given |= {"q": q, "k": k, "v": v}
        ctx.kernel, ctx.dropout = kernel, dropout
        ctx.seed = int(torch.randint(2**62, ())) if dropout else 0
        batch, heads, n, d_head = q.shape
        # Heads are concatenated, as the output layer takes them.
        given["mixed"] = mixed = q.new_empty(batch, n, heads, d_head)
        given[kernel.kept] = q.new_empty(kernel.kept_shape(given))
        kernel.call("forward", given, dropout, ctx.seed)
        ctx.names = tuple(given)
        ctx.save_for_backward(*given.values())
        return mixed.transpose(1, 2)

    @staticmethod
    @torch.amp.custom_bwd(device_type="cpu")
    @once_differentiable
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor | None, ...]:
        kernel: AttentionKernel = ctx.kernel
        tensors = dict(zip(ctx.names, ctx.saved_tensors, strict=True))
        q = tensors["q"]
        batch, heads, n, d_head = q.shape
        by_qkv = q.new_empty(batch, n, 3, heads, d_head)
        given = {name: tensors[name] for name in kernel.learned if tensors[name] is not None}
        # A gradient for each part of the sentences.
        sums = {f"grad_{name}": x.new_zeros(_parts_of(batch, heads), *x.shape) for name, x in given.items()}
        grad = grad.to(q.dtype).transpose(1, 2).contiguous()  # (B, N, H, d_head)
        kernel.call("backward", {**tensors, "grad": grad, "grad_qkv": by_qkv, **sums}, ctx.dropout, ctx.seed)
        found = dict(zip("qkv", by_qkv.permute(2, 0, 3, 1, 4), strict=True))
        found |= {name: sums[f"grad_{name}"].sum(0) for name in given}
        return None, None, *map(found.get, kernel.inputs)


def _parts_of(batch: int, heads: int) -> int:
    """The number of parts to divide sentences into, so that parts × heads is a multiple of the threads."""
    threads = torch.get_num_threads()
    return min(batch, threads // math.gcd(threads, heads))


def type_in_c(q: Tensor, k: Tensor, v: Tensor, *others: Tensor) -> torch.dtype | None:
    """The type of numbers that C computes with, in training on a CPU; None if it does not take these."""
    if q.device.type != "cpu" or not q.requires_grad or not torch.is_grad_enabled():
        return None
    floats = {x.dtype for x in (q, k, v, *others) if x.is_floating_point()}
    if torch.is_autocast_enabled("cpu"):
        dtype, fits = torch.float32, torch.float64 not in floats  # all others are converted
    else:
        dtype, fits = q.dtype, floats == {q.dtype} and q.dtype in (torch.float32, torch.float64)
    return dtype if fits and q.shape == k.shape == v.shape else None
