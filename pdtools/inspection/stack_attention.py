"""Inspection of stack attention: a model's stacks while it reads one string."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from functools import partial
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from pdtools.errors import PdtoolsError
from pdtools.evaluation.formal.transduction import read_task
from pdtools.models import Batch, LanguageModel, LoadedModel, TransformerLM, collate
from pdtools.models.transformer.stack_attention import StackAttention
from pdtools.tokenization import Sentence, split_spaces

ACTIONS = ("push", "pop", "no-op")


@dataclass(frozen=True)
class LayerStacks:
    """The stacks of a layer, over n positions.

    Attributes:
        layer: from 1.
        actions: n rows of three probabilities: push, pop, no-op; the first position has an empty stack, and
            its row is not used.
        attention: n rows of n: α_i(j), the probability that the token at j is on top after position i.
        replayed: the likeliest action at each position, carried out on a real stack: the positions in it
            afterwards, bottom first. (The first position's stays empty.)
    """

    layer: int
    actions: list[list[float]]
    attention: list[list[float]]
    replayed: list[list[int]]


@dataclass(frozen=True)
class Inspection:
    """The inspection of one string.

    Attributes:
        tokens: the tokens read.
        predicted: for task models, the prediction at each position of y; else None.
        layers: the layers that have stacks.
    """

    tokens: list[str]
    predicted: list[str | None]
    layers: list[LayerStacks]

    def as_json(self) -> dict[str, Any]:
        """The inspection, JSON-ready."""
        return asdict(self)


def inspect_stacks(loaded: LoadedModel, text: str | Sentence) -> Inspection:
    """Read one string and inspect the stacks.

    Args:
        loaded: a checkpoint of a model with stack attention.
        text: words between spaces, or split; for a task model the symbols of x. Such a model answers: a
            masked one at once, a causal one symbol by symbol.

    Raises:
        PdtoolsError: if the model has no stack attention, or the string does not suit it.
    """
    is_task = "task" in loaded.config["shards"]
    if is_task:
        assert isinstance(text, str)
        batch, predicted = read_task(loaded, text)
    else:
        batch, predicted = _text_batch(loaded, text)
    loaded.model.check_length(batch.tokens.shape[1])
    views = stack_views(loaded.model.eval(), batch.to(loaded.model.device))
    if not views:
        raise PdtoolsError(f"{loaded.folder}: this model has no stack attention to look at")
    model = loaded.model
    assert isinstance(model, TransformerLM)
    read = model.as_read(batch)[0][0].tolist()
    # A released causal model reads every token one position later.
    is_late = read != batch.tokens[0, views[0].first :].tolist()
    return Inspection(
        tokens=[loaded.tokenizer.token_text(token) for token in read],
        predicted=[None, *predicted[:-1]] if is_late else predicted[views[0].first :],
        layers=[
            LayerStacks(
                layer=view.layer + 1,
                actions=view.actions[0].tolist(),
                attention=view.attention[0].tolist(),
                replayed=replay(view.actions[0].argmax(-1).tolist()),
            )
            for view in views
        ],
    )


def replay(actions: Sequence[int]) -> list[list[int]]:
    """The stack of positions after each action (0 push, 1 pop, 2 no-op); the first action is not taken."""
    stack: list[int] = []
    states: list[list[int]] = []
    for position, action in enumerate(actions):
        if position > 0 and action == 0:
            stack.append(position)
        elif position > 0 and action == 1 and stack:
            stack.pop()
        states.append(list(stack))
    return states


def _text_batch(loaded: LoadedModel, text: str | Sentence) -> tuple[Batch, list[str | None]]:
    sentence = split_spaces(text) if isinstance(text, str) else text
    if not sentence.words:
        raise PdtoolsError("no words to read")
    ids = loaded.tokenizer.encode(sentence).ids
    return collate([(ids, np.arange(len(ids)))], loaded.tokenizer.pad_id), [None] * len(ids)


# --- layers -----------------------------------------------------------------------------------


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
