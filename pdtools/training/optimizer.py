"""The optimizer and its learning rate."""

from __future__ import annotations

import math

import torch
from torch import nn

from pdtools.errors import PdtoolsError
from pdtools.models import LanguageModel
from pdtools.training.recipe import TrainConfig

_TABLES = (nn.Embedding, nn.EmbeddingBag)


def learning_rate(step: int, config: TrainConfig, factor: float = 1.0) -> float:
    """The learning rate of the ``step``-th update, from 1.

    Linear from 0 up to ``learning_rate`` over the warm-up; then constant, or half a cosine or a line that
    reaches ``min_learning_rate_ratio`` of it at the last step. All of it is multiplied by ``factor``, the
    present factor of the schedule ``plateau``.
    """
    return factor * _scheduled(step, config)


def _scheduled(step: int, config: TrainConfig) -> float:
    if step < config.warmup_steps:
        return config.learning_rate * step / config.warmup_steps
    if config.schedule not in ("cosine", "linear") or config.steps <= config.warmup_steps:
        return config.learning_rate
    progress = (step - config.warmup_steps) / (config.steps - config.warmup_steps)
    share = 1 - progress if config.schedule == "linear" else 0.5 * (1 + math.cos(math.pi * progress))
    floor = config.min_learning_rate_ratio
    return config.learning_rate * (floor + (1 - floor) * share)


def embedding_parameters(model: nn.Module) -> set[str]:
    """Names of the parameters that are embeddings."""
    tables = {id(p) for m in model.modules() if isinstance(m, _TABLES) for p in m.parameters(recurse=False)}
    return {name for name, p in model.named_parameters() if id(p) in tables}


def undecayed_parameters(model: nn.Module) -> set[str]:
    """Names of the parameters without weight decay: embeddings, norms, biases, every vector and scalar."""
    others = {name for name, p in model.named_parameters() if p.ndim < 2 or name.endswith("bias")}
    return embedding_parameters(model) | others


def build_optimizer(model: nn.Module, config: TrainConfig) -> torch.optim.Optimizer:
    """AdamW (Loshchilov and Hutter, 2019), or plain gradient descent, with decay on the matrices only.

    Each group of parameters has the ``factor`` of its learning rate.
    """
    embeddings, undecayed = embedding_parameters(model), undecayed_parameters(model)
    named = {name: p for name, p in model.named_parameters() if p.requires_grad}
    groups = [
        {"params": [named[name] for name in named if name in names], "weight_decay": decay, "factor": factor}
        for names, decay, factor in (
            (named.keys() - undecayed, config.weight_decay, 1.0),
            (undecayed - embeddings, 0.0, 1.0),
            (embeddings, 0.0, config.embedding_rate),
        )
    ]
    if config.optimizer == "sgd":
        return torch.optim.SGD(groups, lr=config.learning_rate)
    return torch.optim.AdamW(
        groups,
        lr=config.learning_rate,
        betas=config.betas,
        eps=config.eps,
        weight_decay=config.weight_decay,
        fused=all(p.device.type in ("cpu", "cuda") for p in named.values()),
    )


class HeadWarmup:
    """A mask of the gradient: in the first steps only the attachment head learns.

    Args:
        model: the model whose gradients are masked.
        config: has ``head_warmup_steps``, the number of these steps; 0: none.

    Raises:
        PdtoolsError: if the model has no attachment head.
    """

    def __init__(self, model: LanguageModel, config: TrainConfig) -> None:
        self._model = model
        self._steps = config.head_warmup_steps
        if self._steps and not any(True for _ in model.head_parameters()):
            raise PdtoolsError("train.head_warmup_steps is for models with an attachment head: leave it out")

    def mask(self, step: int) -> None:
        """Drop the gradients of all other parameters in the warm-up; the optimizer skips these."""
        if step >= self._steps:
            return
        head = {id(parameter) for parameter in self._model.head_parameters()}
        for parameter in self._model.parameters():
            if id(parameter) not in head:
                parameter.grad = None
