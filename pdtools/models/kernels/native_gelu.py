"""GPT-2's GELU in C, for CPUs: torch's takes a tanh of each number, which costs four times as much."""

from __future__ import annotations

import ctypes
from collections.abc import Iterator
from functools import cache
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.autograd.function import once_differentiable

from pdtools.models.kernels.native import OPTIONS, native_library, share_among_threads
from pdtools.models.kernels.self_test import agrees, with_gradients

_WORTH_A_THREAD = 1 << 19  # numbers, a third of a millisecond


class Gelu(nn.GELU):
    """x (1 + tanh(√(2/π) (x + 0.044715 x³))) / 2 of numbers of any shape."""

    def __init__(self) -> None:
        super().__init__(approximate="tanh")

    def forward(self, x: Tensor) -> Tensor:
        """The same shape and type."""
        if x.device.type == "cpu" and x.dtype == torch.float32 and _works():
            return _Gelu.apply(x)
        return super().forward(x)


class _Gelu(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: Tensor) -> Tensor:
        x = x.contiguous()
        ctx.save_for_backward(x)
        return _call("gelu", x)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad: Tensor) -> Tensor:
        return _call("gelu_backward", *ctx.saved_tensors, grad.contiguous())


def _call(name: str, *given: Tensor) -> Tensor:
    """Call a function on tensors of one shape, each of torch's threads with some of the numbers."""
    out = torch.empty_like(given[0])
    most = 1 + out.numel() // _WORTH_A_THREAD
    share_among_threads(out.numel(), getattr(_library(), name), *given, out, most=most)
    return out


def _library() -> ctypes.CDLL | None:
    return native_library(__package__, "gelu", ("gelu", "gelu_backward"), *OPTIONS[torch.float32])


@cache
def _works() -> bool:
    """Return whether the functions compile and agree with torch's operations."""
    if _library() is None:
        return False

    def pairs(random: torch.Generator) -> Iterator[tuple[Tensor, Tensor]]:
        x, weight = 3 * torch.randn(2, 99, generator=random)
        ours, plain = (x.clone().requires_grad_() for _ in range(2))
        # The gradient of a sum: for one that is given, torch would import sympy.
        both = (_Gelu.apply(ours), ours), (F.gelu(plain, approximate="tanh"), plain)
        yield from zip(*(with_gradients(y, weight, [z]) for y, z in both), strict=True)

    return agrees(pairs, "GELU is", "in C", tolerance=1e-5)
