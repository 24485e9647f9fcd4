"""Whether a fast path computes what the plain one does, on this machine: tried before it is used."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterable

import torch
from torch import Tensor

# Gradients smaller than this are held to it.
_SMALL = 1e-3

Pairs = Callable[[torch.Generator], Iterable[tuple[Tensor, Tensor]]]


def agrees(pairs: Pairs, what: str, how: str, *, tolerance: float, device: str = "cpu") -> bool:
    """Whether the numbers of a fast path, forward and backward, are those of the plain one; else a warning.

    A fast path may not compile, or not run here, or be made into something else by a faulty compiler.

    Args:
        pairs: makes random numbers and computes with both: (fast, plain), floats of equal shape.
        what: is computed, as the warning names it: "attention is".
        how: it is computed fast: "in C".
        tolerance: what rounding may change, as a share of the plain path's largest number.
        device: its type, where both compute.

    Raises:
        torch.OutOfMemoryError, MemoryError: if there is no memory even for that.
    """
    reason = ""
    # Whoever asks may be computing elsewhere, without gradients, in another precision, with a seed's numbers.
    with (
        torch.device("cpu"),
        torch.inference_mode(False),
        torch.enable_grad(),
        torch.autocast(device, enabled=False),
        torch.random.fork_rng(devices=[]),
    ):
        try:
            for fast, plain in pairs(torch.Generator().manual_seed(0)):
                fast, plain = fast.detach().double(), plain.detach().double()
                largest = max(float(plain.abs().max()), _SMALL)
                if not float((fast - plain).abs().max()) <= tolerance * largest:
                    reason = "what is made here computes other numbers"
        except (torch.OutOfMemoryError, MemoryError):
            raise
        except Exception as error:
            reason = (str(error).strip() or type(error).__name__).splitlines()[0]
    if reason:
        warnings.warn(
            f"{what} not computed {how} ({reason}), but by torch's operations: results are the same up to"
            " rounding, and take more time and memory",
            stacklevel=4,
        )
    return not reason
