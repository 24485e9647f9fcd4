"""Stack attention's recurrence in C, for CPUs; compiled when it is first wanted, where there is a compiler.

It is worth it because the recurrence is many small steps, each of which costs torch more than its numbers.
The library is built anew in every process, for its own processor, in half a second: nothing is kept that
could be of another machine or another version.
"""

from __future__ import annotations

import contextlib
import ctypes
import shutil
import subprocess
import tempfile
from concurrent.futures import ThreadPoolExecutor
from functools import cache
from importlib import resources
from pathlib import Path
from typing import Any

import torch
from torch import Tensor
from torch.autograd.function import once_differentiable

COMPILERS = ("cc", "gcc", "clang")
FLAGS = ("-O3", "-march=native", "-fopenmp-simd", "-std=c99", "-shared", "-fPIC")
_SECONDS = 60
_NAMES = {torch.float32: "float32", torch.float64: "float64"}


@cache
def native_library() -> ctypes.CDLL | None:
    """The compiled functions; None where there is no compiler, or what it makes cannot be loaded."""
    for compiler in filter(None, map(shutil.which, COMPILERS)):
        # A full or read-only disk, libraries that may not be loaded from it, flags that are not known, …
        with contextlib.suppress(OSError, subprocess.SubprocessError, AttributeError):
            return _compiled(compiler)
    return None


def _compiled(compiler: str) -> ctypes.CDLL:
    source = resources.files("pdtools.models").joinpath("stack_attention.c").read_bytes()
    with tempfile.TemporaryDirectory(prefix="pdtools-") as folder:
        Path(folder, "stack_attention.c").write_bytes(source)
        file = Path(folder, "stack_attention.so")
        command = [compiler, *FLAGS, "-o", str(file), "stack_attention.c"]
        subprocess.run(command, cwd=folder, check=True, capture_output=True, timeout=_SECONDS)
        library = ctypes.CDLL(str(file))
        for name in ("forward", "backward"):
            for kind in _NAMES.values():
                getattr(library, f"{name}_{kind}")  # an AttributeError if it is not there
        return library


def native_takes(actions: Tensor) -> bool:
    """Whether :func:`native_stack_attention` computes this."""
    return actions.device.type == "cpu" and actions.dtype in _NAMES and native_library() is not None


def native_stack_attention(actions: Tensor) -> Tensor:
    """See :func:`pdtools.models.stack_attention.stack_attention`."""
    return _NativeStackAttention.apply(actions)


class _NativeStackAttention(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, actions: Tensor) -> Tensor:
        actions = actions.contiguous()
        batch, n, _ = actions.shape
        rows = actions.new_zeros(batch, n, n)
        _call("forward", actions, rows)
        ctx.save_for_backward(actions, rows)
        return rows

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad: Tensor) -> Tensor:
        actions, rows = ctx.saved_tensors
        by_action = torch.empty_like(actions)
        _call("backward", actions, rows, grad.clone(memory_format=torch.contiguous_format), by_action)
        return by_action


def _call(name: str, *arrays: Tensor) -> None:
    """Call a function of the library on arrays (B, N, …), each of torch's threads with some of the rows."""
    library = native_library()
    assert library is not None
    batch, n, _ = arrays[0].shape
    if batch == 0 or n == 0:
        return
    function = getattr(library, f"{name}_{_NAMES[arrays[0].dtype]}")

    def call(rows: slice) -> None:
        some = [array[rows] for array in arrays]
        pointers = [ctypes.c_void_p(array.data_ptr()) for array in some]
        function(ctypes.c_long(len(some[0])), ctypes.c_long(n), *pointers)

    share = -(-batch // min(torch.get_num_threads(), batch))
    parts = [slice(first, first + share) for first in range(0, batch, share)]
    if len(parts) == 1:
        call(parts[0])
        return
    with ThreadPoolExecutor(len(parts)) as threads:  # ctypes lets others run meanwhile
        list(threads.map(call, parts))
