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
        if torch.is_autocast_enabled("cpu"):
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
        ctx.save_for_backward(hidden, weight, bias, targets)
        ctx.rule_out = rule_out
        found = []
        for rows in _blocks(hidden, weight):
            logits = _logits(hidden, weight, bias, rows, rule_out).float()
            found.append(F.cross_entropy(logits, targets[rows], reduction="none"))
        return torch.cat(found)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor | None, ...]:
        hidden, weight, bias, targets = ctx.saved_tensors
        scale = grad[:, None]  # (S, 1)
        # Of each position's -log p by its logits: p, less 1 at the target; p alone in the blocks.
        weighted = (hidden * scale).to(hidden.dtype)  # (S, D)
        grad_hidden = torch.empty_like(hidden)
        more = torch.promote_types(weight.dtype, torch.float32)
        grad_weight = torch.zeros_like(weight, dtype=more)
        grad_bias = None if bias is None else torch.zeros_like(bias, dtype=more)
        for rows in _blocks(hidden, weight):
            p = _logits(hidden, weight, bias, rows, ctx.rule_out).softmax(1)  # (s, V)
            grad_hidden[rows] = p @ weight
            grad_weight += p.T @ weighted[rows]
            if grad_bias is not None:
                grad_bias += p.T @ grad[rows].to(p.dtype)
        grad_hidden = (grad_hidden - weight[targets]) * scale
        grad_weight.index_add_(0, targets, -(hidden * scale).to(more))
        if grad_bias is not None:
            grad_bias.index_add_(0, targets, -grad.to(more))
        return grad_hidden.to(hidden.dtype), grad_weight, grad_bias, None, None


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
