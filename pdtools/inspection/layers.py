"""Actions and attention of a model's stacks, in every layer with stack attention."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from typing import Any

import torch
from torch import Tensor, nn

from pdtools.models.base import LanguageModel
from pdtools.models.batch import Batch
from pdtools.models.transformer.stack_attention import StackAttention


@dataclass(frozen=True)
class StackView:
    """A layer's stacks for some rows. The model's first position may be the rows' second, see ``first``.

    Attributes:
        layer: from 0.
        actions: float (B, n, 3), probabilities of push, pop and no-op; the first position's are not used.
        attention: float (B, n, n), α_i.
        first: the position in the rows that corresponds to the layer's first one.
    """

    layer: int
    actions: Tensor
    attention: Tensor
    first: int


@torch.no_grad()
def stack_views(model: LanguageModel, batch: Batch) -> list[StackView]:
    """Run a model on rows, and keep its stacks' actions; empty for a model without stack attention."""
    found: list[StackView] = []
    if any(_stack_attentions(model)):
        with _watched(model, found, batch.tokens.shape[1]):
            model.forward_parts(batch)
    return found


def _stack_attentions(model: nn.Module) -> Iterator[tuple[int, StackAttention]]:
    for layer, block in enumerate(getattr(model, "blocks", ())):
        if isinstance(stack := getattr(block, "stack", None), StackAttention):
            yield layer, stack


@contextmanager
def _watched(model: nn.Module, found: list[StackView], length: int) -> Iterator[None]:
    def keep(layer: int, module: nn.Module, given: tuple[Any, ...]) -> None:
        assert isinstance(module, StackAttention)
        x = given[0]  # (B, n, D)
        view = StackView(layer, module.probabilities(x), module.attention(x), length - x.shape[1])
        found.append(view)

    hooks = [
        stack.register_forward_pre_hook(partial(keep, layer)) for layer, stack in _stack_attentions(model)
    ]
    try:
        yield
    finally:
        for hook in hooks:
            hook.remove()
