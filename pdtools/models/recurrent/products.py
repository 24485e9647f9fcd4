"""Products of rows with a weight: one model's, or M models' at once, each with its own weight and rows.

The rows of several models are in one tensor, equally many of each, one model's after the other's.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.autograd.function import once_differentiable


def times(rows: Tensor, weight: Tensor, added: Tensor | None = None) -> Tensor:
    """Multiply rows by their model's weight.

    Args:
        rows: (B, X).
        weight: (X, Y), or (M, X, Y).
        added: added to the products: (B, Y), or a bias, (Y,) or (M, 1, Y).

    Returns:
        (B, Y).
    """
    if weight.ndim == 2:
        return torch.mm(rows, weight) if added is None else torch.addmm(added, rows, weight)
    grouped = by_model(rows, weight, 0)  # (M, B / M, X)
    if added is None:
        return torch.bmm(grouped, weight).flatten(0, 1)
    if added.ndim == 2:
        added = by_model(added, weight, 0)
    return torch.baddbmm(added, grouped, weight).flatten(0, 1)


def weight_gradient(d_products: Tensor, rows: Tensor, weight: Tensor) -> Tensor:
    """The gradient of a weight that rows of T steps were multiplied by, transposed.

    Args:
        d_products: (T, B, Y), the gradient of the products.
        rows: (T, B, X).
        weight: (Y, X), or (M, Y, X).

    Returns:
        The gradient, of the weight's shape.
    """
    if weight.ndim == 2:
        return d_products.flatten(0, 1).T @ rows.flatten(0, 1)
    d_products, rows = (
        by_model(each, weight, 1).transpose(0, 1).flatten(1, 2) for each in (d_products, rows)
    )
    return torch.bmm(d_products.mT, rows)


def bias_gradient(d_products: Tensor, weight: Tensor) -> Tensor:
    """The gradient of a bias that was added to products with the weight: (T, B, Y) to (Y,) or (M, 1, Y)."""
    if weight.ndim == 2:
        return d_products.sum((0, 1))
    return by_model(d_products, weight, 1).sum((0, 2))[:, None]


class _Stack(torch.autograd.Function):
    """``torch.stack``, whose gradients share no memory with others, so that they can be changed in place.

    (The two biases of a controller have one gradient, which would be shared by both.)
    """

    @staticmethod
    def forward(ctx: Any, *tensors: Tensor) -> Tensor:
        return torch.stack(tensors)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, d_stacked: Tensor) -> tuple[Tensor, ...]:
        return d_stacked.clone().unbind()


def stack_parameters(models: Sequence[nn.Module]) -> dict[str, Tensor]:
    """Stack the parameters of M models of one shape, by their names, each (M, …)."""
    named = [dict(model.named_parameters()) for model in models]
    return {name: _Stack.apply(*(parameters[name] for parameters in named)) for name in named[0]}


def look_up(tokens: Tensor, table: Tensor, added: Tensor | None = None) -> Tensor:
    """Return the rows of tokens in their model's table.

    Args:
        tokens: int64 (B, T), one model's rows after the other's.
        table: (V, X), or (M, V, X).
        added: added to each row: (X,) or (M, 1, X).

    Returns:
        (B, T, X).
    """
    if table.ndim == 2:
        found = F.embedding(tokens, table)
        return found if added is None else found + added
    grouped = by_model(tokens, table, 0)  # (M, B / M, T)
    first = torch.arange(len(table), device=tokens.device) * table.shape[1]
    found = F.embedding(grouped + first[:, None, None], table.flatten(0, 1))  # (M, B / M, T, X)
    return (found if added is None else found + added[:, None]).flatten(0, 1)


def by_model(rows: Tensor, weight: Tensor, dim: int) -> Tensor:
    """Divide a dimension among the models of a weight (M, …): (…, B, …) to (…, M, B / M, …)."""
    return rows.unflatten(dim, (len(weight), -1))
