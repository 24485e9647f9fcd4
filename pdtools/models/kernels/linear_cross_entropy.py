"""Cross-entropy of a linear layer's logits, which on a CPU are never all there at once.

Gradients are made in the forward pass, while a block's logits are at hand, as Liger-kernel does
(Hsu et al. 2024, arXiv:2410.10989): making logits again for them would be a fourth matrix product beside
three.
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Iterator, Sequence
from functools import cache
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor
from torch.autograd.function import once_differentiable

from pdtools.models.kernels.native import OPTIONS, native_library, share_among_threads
from pdtools.models.kernels.self_test import agrees, with_gradients

# Logits that are made at a time on a CPU: as many as stay in its cache until they are used, but of no fewer
# positions than it takes until the weights, which every block reads, cost little.
BLOCK_CELLS = 1 << 21
BLOCK_ROWS = 128

# A function that sets logits (s, V) of some positions to -inf in place, for classes ruled out.
RuleOut = Callable[[Tensor, slice], None]


def linear_cross_entropy(
    hidden: Tensor, weight: Tensor, bias: Tensor | None, targets: Tensor, rule_out: RuleOut | None = None
) -> Tensor:
    """Compute -log softmax(hidden weight^T + bias)[target], in single precision.

    On a CPU large ones are computed block by block: that takes less memory, and less time than to write all
    logits to memory and to read them again. It is fast where all positions have the same gradient, as those
    of a sum or a mean: others need the logits a second time, for the gradient of the weights.

    Args:
        hidden: (S, D).
        weight: (V, D).
        bias: (V,), or None.
        targets: int64 (S,).
        rule_out: called with each block's logits and positions; no gradient goes through it.

    Returns:
        float32 (S,).
    """
    if hidden.device.type == "cpu" and len(hidden) * len(weight) > BLOCK_CELLS:
        dtype = hidden.dtype
        if torch.is_autocast_enabled("cpu") and dtype != torch.float64:
            dtype = torch.get_autocast_dtype("cpu")
        with torch.autocast("cpu", enabled=False):
            given = [x if x is None else x.to(dtype) for x in (hidden, weight, bias)]
            return _LinearCrossEntropy.apply(*given, targets, rule_out, torch.is_grad_enabled())
    logits = F.linear(hidden, weight, bias).float()
    if rule_out is not None:
        rule_out(logits, slice(0, len(logits)))
    return F.cross_entropy(logits, targets, reduction="none")


class _LinearCrossEntropy(torch.autograd.Function):
    @staticmethod
    def forward(
        ctx: Any,
        hidden: Tensor,
        weight: Tensor,
        bias: Tensor | None,
        targets: Tensor,
        rule_out: RuleOut | None,
        with_gradients: bool,
    ) -> Tensor:
        ctx.rule_out = rule_out
        wanted = [with_gradients and each for each in ctx.needs_input_grad[:3]]
        factors = hidden.new_ones(len(hidden))
        nll, gradients = _in_blocks(hidden, weight, bias, targets, rule_out, factors, wanted)
        if with_gradients:
            ctx.save_for_backward(hidden, weight, bias, targets, *gradients)
        return nll.float()

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor | None, ...]:
        hidden, weight, bias, targets, by_hidden, by_weight, by_bias = ctx.saved_tensors
        if by_hidden is not None:
            by_hidden = by_hidden * grad[:, None].to(by_hidden.dtype)
        if bool((grad == grad[0]).all()):
            by_weight, by_bias = (None if each is None else each * grad[0] for each in (by_weight, by_bias))
        elif by_weight is not None or by_bias is not None:
            wanted = (False, by_weight is not None, by_bias is not None)
            given = hidden, weight, bias, targets
            _, (_, by_weight, by_bias) = _in_blocks(*given, ctx.rule_out, grad, wanted)
        return by_hidden, by_weight, by_bias, None, None, None


def _in_blocks(
    hidden: Tensor,
    weight: Tensor,
    bias: Tensor | None,
    targets: Tensor,
    rule_out: RuleOut | None,
    factors: Tensor,
    wanted: Sequence[bool],
) -> tuple[Tensor, list[Tensor | None]]:
    """Compute -log p of the targets, (S,), and gradients.

    Args:
        factors: (S,), of positions in the gradients by the weight and the bias.
        wanted: whether gradients by hidden (of each position's own -log p), weight and bias are.
    """
    more = torch.promote_types(weight.dtype, torch.float32)
    nll = hidden.new_empty(len(hidden), dtype=more)
    by_hidden, by_weight, by_bias = (
        torch.zeros_like(x, dtype=dtype) if is_wanted and x is not None else None
        for x, dtype, is_wanted in zip(
            (hidden, weight, bias), (hidden.dtype, more, more), wanted, strict=True
        )
    )
    for rows in _blocks(hidden, weight):
        logits = F.linear(hidden[rows], weight, bias).to(more)  # (s, V)
        if rule_out is not None:
            rule_out(logits, rows)
        nll[rows], by_logits = _nll_and_derivative(logits, targets[rows], derive=any(wanted))
        by_logits = by_logits.to(weight.dtype)
        if by_hidden is not None:
            torch.mm(by_logits, weight, out=by_hidden[rows])
        if by_weight is not None:
            _add_product(by_weight, by_logits.T, (hidden[rows] * factors[rows, None]).to(weight.dtype))
        if by_bias is not None:
            by_bias += by_logits.T @ factors[rows].to(weight.dtype)
    return nll, [by_hidden, by_weight, by_bias]


def _nll_and_derivative(logits: Tensor, targets: Tensor, *, derive: bool) -> tuple[Tensor, Tensor]:
    """Compute -log p of targets (s,), and its derivative by logits (s, V), which may be overwritten."""
    if native_takes(logits):
        return native_cross_entropy(logits, targets.contiguous()), logits
    logprobs, target = logits.log_softmax(1), targets[:, None]
    nll = -logprobs.gather(1, target)  # (s, 1)
    if derive:
        # p, but p - 1 at the target, which narrow numbers don't give as a difference where p is near 1.
        logprobs.exp_().scatter_(1, target, torch.expm1(-nll))
    return nll[:, 0], logprobs


def _add_product(total: Tensor, x: Tensor, y: Tensor) -> None:
    """Add the product x y to a tensor that may be more precise."""
    if total.dtype == x.dtype:
        total.addmm_(x, y)
    else:
        total += x @ y


def _blocks(hidden: Tensor, weight: Tensor) -> list[slice]:
    """Positions, in blocks of nearly equal length."""
    number = -(-len(hidden) // max(BLOCK_ROWS, BLOCK_CELLS // len(weight)))
    rows = -(-len(hidden) // number)
    return [slice(first, first + rows) for first in range(0, len(hidden), rows)]


# --- rows of logits, in C ---------------------------------------------------------------------

_WORTH_A_THREAD = 1 << 19  # logits, a third of a millisecond


def native_takes(logits: Tensor) -> bool:
    """Return whether :func:`native_cross_entropy` takes these logits, and works here."""
    return logits.device.type == "cpu" and logits.dtype == torch.float32 and _works()


def native_cross_entropy(logits: Tensor, targets: Tensor) -> Tensor:
    """-log softmax(logits)[target], float32 (S,); logits become its derivative: p, but p - 1 at the target.

    Torch's operations compute each exponential twice, and go through all logits between.

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
    most = 1 + logits.numel() // _WORTH_A_THREAD
    function = getattr(_library(), "cross_entropy")  # noqa: B009 - there is a library
    share_among_threads(len(logits), function, vocabulary, logits, targets, nll, most=most)
    return nll


def _library() -> ctypes.CDLL | None:
    return native_library(__package__, "cross_entropy", ("cross_entropy",), *OPTIONS[torch.float32])


@cache
def _works() -> bool:
    """Return whether the function compiles, and agrees with torch's operations."""
    if _library() is None:
        return False

    def pairs(random: torch.Generator) -> Iterator[tuple[Tensor, Tensor]]:
        logits = 3 * torch.randn(2, 2000, generator=random)
        targets = torch.tensor([0, 1999])
        plain = logits.clone().requires_grad_()
        nll, by_logits = with_gradients(
            F.cross_entropy(plain, targets, reduction="none"), torch.ones(2), [plain]
        )
        yield native_cross_entropy(logits, targets), nll
        yield logits, by_logits

    return agrees(pairs, "cross-entropy is", "in C", tolerance=1e-5)
