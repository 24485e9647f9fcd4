"""Tests whether a fast implementation agrees with the plain one on this machine, before it is used."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterable, Sequence

import torch
from torch import Tensor

# The tolerance for gradients smaller than this is the one for gradients of this size.
_SMALL = 1e-3

Pairs = Callable[[torch.Generator], Iterable[tuple[Tensor, Tensor]]]


def agrees(pairs: Pairs, what: str, how: str, *, tolerance: float, device: str = "cpu") -> bool:
    """Return whether a fast implementation's numbers, forward and backward, are the plain one's; else warn.

    A fast implementation may not compile, not run here, or be miscompiled.

    Args:
        pairs: computes on random numbers with both: yields (fast, plain), floats of equal shape.
        what: the thing computed, as the warning names it: "attention is".
        how: the fast way: "in C".
        tolerance: the largest change by rounding, as a share of the plain result's largest number.
        device: the type of device that both compute on.

    Raises:
        torch.OutOfMemoryError, MemoryError: if there is no memory even for that.
    """
    reason = ""
    # The caller may be computing elsewhere, without gradients, in another precision, with a seed's numbers.
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


def with_gradients(output: Tensor, weight: Tensor, inputs: Sequence[Tensor]) -> list[Tensor]:
    """An output, and the gradients of inputs by the sum of it times a weight.

    (For a gradient of the output that is given, torch would import sympy.)
    """
    return [output, *torch.autograd.grad((output * weight).sum(), inputs)]


def dropped_twice(output: Tensor, weight: Tensor, v: Tensor) -> tuple[Tensor, Tensor]:
    """Two numbers that are the same if both passes of attention drop the same weights.

    A result that is linear in the values is its own derivative by them.
    """
    dropped = (output * weight).sum()
    (by_values,) = torch.autograd.grad(dropped, v)
    return dropped, (by_values * v).sum()
