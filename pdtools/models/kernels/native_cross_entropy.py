"""Cross-entropy of rows of logits, and its derivative by them, in C for CPUs.

It is worth it because torch's operations compute each exponential twice, and go through all logits between.
"""

from __future__ import annotations

import ctypes
from collections.abc import Iterator
from functools import cache

import torch
import torch.nn.functional as F
from torch import Tensor

from pdtools.models.kernels.native import native_library, share_among_threads
from pdtools.models.kernels.self_test import agrees

_WORTH_A_THREAD = 1 << 19  # logits, a third of a millisecond


def native_takes(logits: Tensor) -> bool:
    """Return whether :func:`native_cross_entropy` takes these logits, and works here."""
    return logits.device.type == "cpu" and logits.dtype == torch.float32 and _works()


def native_cross_entropy(logits: Tensor, targets: Tensor) -> Tensor:
    """-log softmax(logits)[target], float32 (S,); logits become its derivative: p, but p - 1 at the target.

    Args:
        logits: float32 (S, V), contiguous.
        targets: int64 (S,), contiguous.

    Raises:
        IndexError: if a target is not in the vocabulary.
    """
    vocabulary = logits.shape[1]
    if len(targets) and not 0 <= int(targets.min()) <= int(targets.max()) < vocabulary:
        raise IndexError(f"a target is not in a vocabulary of {vocabulary}")
    nll = logits.new_empty(len(logits))
    library = _library()
    assert library is not None
    places = [ctypes.c_void_p(x.data_ptr()) for x in (logits, targets, nll)]

    def call(rows: slice) -> None:
        library.cross_entropy(*map(ctypes.c_long, (vocabulary, rows.start, rows.stop)), *places)

    share_among_threads(len(logits), call, most=1 + logits.numel() // _WORTH_A_THREAD)
    return nll


def _library() -> ctypes.CDLL | None:
    return native_library(__package__, "cross_entropy", ("cross_entropy",), "-ffp-contract=fast")


@cache
def _works() -> bool:
    """Return whether the function compiles, and agrees with torch's operations."""
    if _library() is None:
        return False

    def pairs(random: torch.Generator) -> Iterator[tuple[Tensor, Tensor]]:
        logits = 3 * torch.randn(2, 2000, generator=random)
        targets = torch.tensor([0, 1999])
        plain = logits.clone().requires_grad_()
        nll = F.cross_entropy(plain, targets, reduction="none")
        nll.sum().backward()
        yield native_cross_entropy(logits, targets), nll
        assert plain.grad is not None
        yield logits, plain.grad

    return agrees(pairs, "cross-entropy is", "in C", tolerance=1e-5)
