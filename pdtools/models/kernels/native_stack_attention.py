"""Stack attention's recurrence in C, for CPUs.

C is worth it because the recurrence is many small steps, each of which costs torch more than its numbers.
"""

from __future__ import annotations

import ctypes
from typing import Any

import torch
from torch import Tensor
from torch.autograd.function import once_differentiable

from pdtools.models.kernels.native import native_library, share_among_threads

_NAMES = {torch.float32: "float32", torch.float64: "float64"}
_LANES = 16  # as in stack_attention.c: rows begin at multiples of it


def stack_library() -> ctypes.CDLL | None:
    """Return the compiled functions, or None."""
    functions = tuple(f"{name}_{kind}" for name in ("forward", "backward") for kind in _NAMES.values())
    return native_library(__package__, "stack_attention", functions)


def native_takes(actions: Tensor) -> bool:
    """Return whether :func:`native_stack_attention` can compute this."""
    return actions.device.type == "cpu" and actions.dtype in _NAMES and stack_library() is not None


def native_stack_attention(actions: Tensor) -> Tensor:
    """See :func:`pdtools.models.transformer.stack_attention.stack_attention`."""
    return _NativeStackAttention.apply(actions)


class _NativeStackAttention(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, actions: Tensor) -> Tensor:
        actions = actions.contiguous()
        batch, n, _ = actions.shape
        rows = actions.new_zeros(batch, n, -(-n // _LANES) * _LANES)
        _call("forward", actions, rows)
        ctx.save_for_backward(actions, rows)
        return rows[..., :n]

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad: Tensor) -> Tensor:
        actions, rows = ctx.saved_tensors
        by_row = torch.zeros_like(rows)
        by_row[..., : rows.shape[1]] = grad
        by_action = torch.empty_like(actions)
        _call("backward", actions, rows, by_row, by_action)
        return by_action


def _call(name: str, *arrays: Tensor) -> None:
    """Call a function on arrays (B, N, …), each of torch's threads with some of the rows.

    The second is α with rows whose size is a multiple of ``_LANES``.
    """
    library = stack_library()
    assert library is not None
    batch, n, size = arrays[1].shape
    function = getattr(library, f"{name}_{_NAMES[arrays[0].dtype]}")

    def call(rows: slice) -> None:
        some = [array[rows] for array in arrays]
        if name == "backward":
            some.append(arrays[0].new_zeros(n + 1, size))  # for columns of α
        pointers = [ctypes.c_void_p(array.data_ptr()) for array in some]
        function(ctypes.c_long(len(some[0])), ctypes.c_long(n), ctypes.c_long(size), *pointers)

    share_among_threads(batch if n else 0, call)
