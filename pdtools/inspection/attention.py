"""Attention weights of a teacher-forced pass, with and without a score term."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, cast

import torch
from torch import Tensor

from pdtools.errors import PdtoolsError
from pdtools.models import Batch, LanguageModel, TransformerLM
from pdtools.models.transformer.block import Attention, Block
from pdtools.models.transformer.score_terms import ScoreTerm


@dataclass(frozen=True)
class AttentionWeights:
    """Attention weights of a batch of rows; undefined for padding.

    Attributes:
        weights: float (B, L, H, N, N), in layer l and head h the weight of query i for key j; rows sum to
            one.
        without: by the name of a score term, the weights without it. It is removed from the scores of each
            layer; the layer's input is still the whole model's.
    """

    weights: Tensor
    without: dict[str, Tensor]


def has_attention(model: LanguageModel) -> bool:
    """Return whether a model has attention that can be inspected: a causal transformer."""
    return isinstance(model, TransformerLM) and model.objective == "causal"


def score_terms(model: LanguageModel) -> list[str]:
    """The names of the score terms in any layer of a model, in order."""
    terms = (cast(ScoreTerm, term) for layer in _layers(model) for term in layer.terms)
    return list(dict.fromkeys(term.name for term in terms))


@torch.no_grad()
def attention_weights(model: LanguageModel, batch: Batch, without: Collection[str] = ()) -> AttentionWeights:
    """Run a model on rows with given derivations, and collect its attention weights.

    The weights are the plain formulation's, softmax of (q·k + terms) / sqrt(d_head), whatever kernel
    the model's pass uses.

    Args:
        model: a transformer, in evaluation mode.
        batch: on the model's device, from :meth:`pdtools.models.LanguageModel.pack`.
        without: names of :func:`score_terms`.

    Raises:
        PdtoolsError: if the model has no attention, or no such term.
    """
    if not _layers(model):
        raise PdtoolsError("this model is no transformer: it has no attention to look at")
    names = (None, *without)
    if unknown := [name for name in without if name not in score_terms(model)]:
        there = ", ".join(score_terms(model)) or "none"
        raise PdtoolsError(f"this model's attention has no score term {unknown[0]!r}; its terms: {there}")
    found: dict[str | None, list[Tensor]] = {name: [] for name in names}
    with _watched(model, found):
        model.forward_parts(batch)
    stacked = {name: torch.stack(layers, dim=1) for name, layers in found.items()}
    return AttentionWeights(stacked.pop(None), {name: stacked[name] for name in without})


def _layers(model: LanguageModel) -> list[Attention]:
    return [cast(Block, block).attention for block in getattr(model, "blocks", ())]


@contextmanager
def _watched(model: LanguageModel, found: dict[str | None, list[Tensor]]) -> Iterator[None]:
    def keep(module: Any, given: tuple[Any, ...]) -> None:
        x, inputs, *_ = given
        for name, layers in found.items():
            layers.append(module.weights(x, inputs, without=name))

    hooks = [layer.register_forward_pre_hook(keep) for layer in _layers(model)]
    try:
        yield
    finally:
        for hook in hooks:
            hook.remove()
