"""Loss, perplexities and attachment accuracy of a model on sentences whose trees are given."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterable, Iterator
from contextlib import AbstractContextManager
from typing import Any

import torch

from pdtools.models import Batch, LanguageModel, LossParts
from pdtools.training.loss import LossSums, loss_sums, zero_sums


def autocast(device: str, precision: str) -> AbstractContextManager[Any]:
    """Mixed precision if ``precision`` asks for it; ``auto`` does on a GPU that has bf16."""
    kind = torch.device(device).type
    if precision == "auto":
        # A GPU without bf16 can emulate it, slowly.
        has_bf16 = kind == "cuda" and torch.cuda.is_bf16_supported(including_emulation=False)
        precision = "bf16" if has_bf16 else "float32"
    if precision == "bf16":
        return torch.autocast(kind, dtype=torch.bfloat16)
    return contextlib.nullcontext()


def evaluate(
    model: LanguageModel,
    batches: Iterable[Batch],
    *,
    device: str = "cpu",
    precision: str = "float32",
    stop: Callable[[], bool] = lambda: False,
    loss: Callable[[Batch], LossParts] | None = None,
) -> LossSums | None:
    """Sum the loss over batches, without dropout; the model's mode stays as it was.

    Args:
        batches: on any device.
        stop: asked before each batch.
        loss: calls the model, if it is wrapped; by default its own ``loss``.

    Returns:
        The sums, or None if ``stop`` interrupted.
    """
    sums = zero_sums(device)
    loss = loss or model.loss
    with evaluation_mode(model), torch.no_grad():
        for batch in batches:
            if stop():
                return None
            with autocast(device, precision):
                parts = loss(batch.to(device))
            sums += loss_sums(parts)
    return LossSums.from_tensor(sums)


@contextlib.contextmanager
def evaluation_mode(model: LanguageModel) -> Iterator[None]:
    was_training = model.training
    model.eval()
    try:
        yield
    finally:
        model.train(was_training)
