"""Cross-entropy of a linear layer's logits, which on a CPU are never all there at once."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor
from torch.autograd.function import once_differentiable

# Logits that are made at a time on a CPU: as many as stay in its cache until they are used, but of no fewer
# positions than it takes until the weights, which every block reads, cost little.
BLOCK_CELLS = 1 << 20
BLOCK_ROWS = 256

# Makes logits (s, V) of some positions -inf in place, where a class is ruled out.
RuleOut = Callable[[Tensor, slice], None]


def linear_cross_entropy(
    hidden: Tensor, weight: Tensor, bias: Tensor | None, targets: Tensor, rule_out: RuleOut | None = None
) -> Tensor:
    """-log softmax(hidden weight^T + bias)[target], in single precision.

    On a CPU large ones are computed block by block, and once more for the gradients: that takes less memory,
    and in mixed precision less time than to write all logits to memory, and to read them again.

    Args:
        hidden: (S, D).
        weight: (V, D).
        bias: (V,), or None.
        targets: int64 (S,).
        rule_out: of the positions of a block; no gradient goes through it.

    Returns:
        float32 (S,).
    """
    if hidden.device.type == "cpu" and len(hidden) * len(weight) > BLOCK_CELLS:
        dtype = hidden.dtype
        if torch.is_autocast_enabled("cpu") and dtype != torch.float64:
            dtype = torch.get_autocast_dtype("cpu")
        with torch.autocast("cpu", enabled=False):
            given = [x if x is None else x.to(dtype) for x in (hidden, weight, bias)]
            return _LinearCrossEntropy.apply(*given, targets, rule_out)
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
    ) -> Tensor:
        ctx.rule_out = rule_out
        found = []
        for rows in _blocks(hidden, weight):
            logits = _logits(hidden, weight, bias, rows, rule_out)
            logits = logits.to(torch.promote_types(logits.dtype, torch.float32))
            found.append(F.cross_entropy(logits, targets[rows], reduction="none"))
        nll = torch.cat(found)
        ctx.save_for_backward(hidden, weight, bias, targets, nll)
        return nll.float()

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor | None, ...]:
        hidden, weight, bias, targets, nll = ctx.saved_tensors
        of_hidden, of_weight, of_bias = ctx.needs_input_grad[:3]
        scale = grad[:, None]  # (S, 1)
        weighted = (hidden * scale).to(hidden.dtype)  # (S, D)
        at_target = torch.expm1(-nll)  # (S,)
        more = torch.promote_types(weight.dtype, torch.float32)
        grad_hidden = torch.empty_like(hidden) if of_hidden else None
        grad_weight = torch.zeros_like(weight, dtype=more) if of_weight else None
        grad_bias = torch.zeros_like(bias, dtype=more) if of_bias else None
        for rows in _blocks(hidden, weight):
            # Of each position's -log p by its logits: p, but p - 1 at the target, which narrow numbers don't
            # give as a difference where p is near 1.
            by_logits = _logits(hidden, weight, bias, rows, ctx.rule_out).softmax(1)  # (s, V)
            by_logits.scatter_(1, targets[rows, None], at_target[rows, None].to(by_logits.dtype))
            if grad_hidden is not None:
                grad_hidden[rows] = by_logits @ weight * scale[rows]
            if grad_weight is not None:
                grad_weight += by_logits.T @ weighted[rows]
            if grad_bias is not None:
                grad_bias += by_logits.T @ grad[rows].to(by_logits.dtype)
        return grad_hidden, grad_weight, grad_bias, None, None


def _blocks(hidden: Tensor, weight: Tensor) -> list[slice]:
    rows = max(BLOCK_ROWS, BLOCK_CELLS // len(weight))
    return [slice(first, first + rows) for first in range(0, len(hidden), rows)]


def _logits(
    hidden: Tensor, weight: Tensor, bias: Tensor | None, rows: slice, rule_out: RuleOut | None
) -> Tensor:
    logits = F.linear(hidden[rows], weight, bias)  # (s, V)
    if rule_out is not None:
        rule_out(logits, rows)
    return logits
