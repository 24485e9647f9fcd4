"""The optimizer and its learning rate."""

from __future__ import annotations

import math
from collections.abc import Set
from typing import Any

import torch
from torch import Tensor, nn

from pdtools.errors import PdtoolsError
from pdtools.models import LanguageModel
from pdtools.training.recipe import TrainConfig

_TABLES = (nn.Embedding, nn.EmbeddingBag)
_MOMENTUM = 0.95


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
    """Names of the parameters without weight decay: embeddings, norms, biases, every vector and scalar.

    A number or a vector for each head has three dimensions.
    """
    others = {name for name, p in model.named_parameters() if p.ndim != 2 or name.endswith("bias")}
    return embedding_parameters(model) | others


def build_optimizer(model: nn.Module, config: TrainConfig) -> torch.optim.Optimizer:
    """AdamW (Loshchilov and Hutter, 2019), Muon with it, or plain gradient descent; only matrices decay.

    Each group of parameters has the ``factor`` of its learning rate.

    Raises:
        PdtoolsError: for Muon, if the model has no blocks.
    """
    embeddings, undecayed = embedding_parameters(model), undecayed_parameters(model)
    named = {name: p for name, p in model.named_parameters() if p.requires_grad}
    in_blocks = {name for name, p in named.items() if name.startswith("blocks.") and p.ndim == 2} - undecayed
    for_muon = in_blocks if config.optimizer == "muon" else set()

    def group(names: Set[str], weight_decay: float, factor: float = 1.0) -> dict[str, Any]:
        parameters = [p for name, p in named.items() if name in names]
        return {"params": parameters, "weight_decay": weight_decay, "factor": factor}

    groups = [
        group(named.keys() - undecayed - for_muon, config.weight_decay),
        group(undecayed - embeddings, 0.0),
        group(embeddings, 0.0, config.embedding_rate),
    ]
    if config.optimizer == "sgd":
        return torch.optim.SGD(groups, lr=config.learning_rate)
    if config.optimizer == "muon":
        if not in_blocks:
            raise PdtoolsError('train.optimizer = "muon" is for transformers: choose "adamw" or "sgd"')
        groups.append(group(for_muon, config.weight_decay))
    return (Muon if config.optimizer == "muon" else torch.optim.AdamW)(
        groups,
        lr=config.learning_rate,
        betas=config.betas,
        eps=config.eps,
        fused=all(p.device.type in ("cpu", "cuda") for p in named.values()),
    )


class Muon(torch.optim.AdamW):
    """Muon (Jordan et al., 2024) for the matrices of the last group, AdamW for the others.

    Updates are scaled to the size of AdamW's (Liu et al., 2025), since one rate is for both. torch has
    Muon since 2.9, but in bf16 only: twice the time of float32 on a processor with bf16, 40 times on others.
    """

    @torch.no_grad()
    def step(self, closure: None = None) -> None:  # type: ignore[override]
        """Update all parameters; the gradients of Muon's are dropped."""
        group = self.param_groups[-1]
        for p in group["params"]:
            if p.grad is None:
                continue
            average = self.state[p].setdefault("momentum_buffer", torch.zeros_like(p))
            average.lerp_(p.grad, 1 - _MOMENTUM)
            update = _orthogonalized(p.grad.lerp(average, _MOMENTUM))  # Nesterov's
            p.mul_(1 - group["lr"] * group["weight_decay"])
            p.add_(update, alpha=-0.2 * group["lr"] * math.sqrt(max(p.shape)))
            p.grad = None  # AdamW leaves it alone
        super().step()


def _orthogonalized(matrix: Tensor) -> Tensor:
    """U Vᵀ of a matrix U S Vᵀ, roughly: five Newton-Schulz steps bring most of S to 0.7 to 1.2."""
    x = matrix.bfloat16() if matrix.is_cuda else matrix
    is_tall = x.shape[0] > x.shape[1]
    x = x.T if is_tall else x
    x = x / x.norm().clamp(min=1e-7)
    for _ in range(5):
        gram = x @ x.T
        x = torch.addmm(x, torch.addmm(gram, gram, gram, beta=-4.7750, alpha=2.0315), x, beta=3.4445)
    return x.T if is_tall else x


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
