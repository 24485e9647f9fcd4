"""Loss, perplexities and attachment accuracy of a model on sentences whose trees are given."""

from __future__ import annotations

import contextlib
import math
from collections.abc import Callable, Iterable, Iterator
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import Any

import torch

from pdtools.devices import widest_float
from pdtools.models import Batch, LanguageModel, LossParts
from pdtools.models.base import Objective, Structure
from pdtools.training.distributed import Ranks

# The sums in the order of a tensor of them, and what they are in a batch's LossParts.
_SUMS = {
    "token_nll": "token_nll_sum",
    "attachment_nll": "attach_nll_sum",
    "tokens": "n_tokens",
    "attachments": "n_attach",
    "attachments_right": "n_attach_correct",
    "clamped": "n_clamped",
    "treereg": "treereg_sum",
    "trees": "n_trees",
    "splits": "n_splits",
    "splits_right": "n_splits_correct",
    "answer_nll": "answer_nll_sum",
    "squared_error": "squared_error_sum",
    "numbers": "n_numbers",
}
TOKENS = list(_SUMS).index("tokens")


@dataclass(frozen=True, kw_only=True)
class LossSums:
    """What a loss is made of, summed over tokens (nats); sums of batches and of workers add up.

    ``clamped`` counts cells of the tapes that are deeper than the model's depth table. ``treereg`` is summed
    over ``trees``, the means of their ``splits`` (:class:`pdtools.models.treereg.TreeRegParts`). Of prompts,
    ``answer_nll`` is the answers' part of ``token_nll``, ``squared_error`` that of so many ``numbers``.
    """

    token_nll: float = 0.0
    attachment_nll: float = 0.0
    tokens: int = 0
    attachments: int = 0
    attachments_right: int = 0
    clamped: int = 0
    treereg: float = 0.0
    trees: int = 0
    splits: int = 0
    splits_right: int = 0
    answer_nll: float = 0.0
    squared_error: float = 0.0
    numbers: int = 0

    def __add__(self, other: LossSums) -> LossSums:
        return LossSums(**{name: getattr(self, name) + getattr(other, name) for name in _SUMS})

    def total(self, ranks: Ranks) -> LossSums:
        """The sum over all ranks; every rank has to call it."""
        sums = torch.tensor([getattr(self, name) for name in _SUMS], dtype=torch.float64)  # (13,)
        return LossSums.from_tensor(torch.stack(ranks.gather(sums)).sum(0))

    @classmethod
    def from_tensor(cls, sums: torch.Tensor) -> LossSums:
        """Read :func:`loss_sums` back; waits for the device."""
        named = dict(zip(_SUMS, sums.tolist(), strict=True))
        nlls = {
            name: named.pop(name)
            for name in ("token_nll", "attachment_nll", "treereg", "answer_nll", "squared_error")
        }
        return cls(**nlls, **{name: round(count) for name, count in named.items()})

    def loss(self, attachment_weight: float, answer_weight: float = 1.0) -> float:
        """The training loss: (token NLL + weight × attachment NLL) / tokens.

        Of prompts answers have a weight of their own, and the mean squared error of numbers is added.
        """
        nll = self.token_nll + attachment_weight * self.attachment_nll + (answer_weight - 1) * self.answer_nll
        return nll / max(self.tokens, 1) + self.squared_error / max(self.numbers, 1)

    def scores(
        self,
        attachment_weight: float,
        *,
        objective: Objective = "causal",
        structure: Structure = "attachment",
        treereg: bool = False,
        answer_weight: float = 1.0,
    ) -> dict[str, Any]:
        """Loss (nats), perplexities and accuracy, JSON-ready; None where there is nothing to divide by.

        ``ppl_token_given_trees`` is exp of the mean of −log p(x_k | x_<k, W_{k−1}) over tokens and EOS;
        ``ppl_token_joint`` counts the attachments' −log p(r_k | …) too, over the same number of tokens. Of a
        masked model there is ``ppl_token_masked`` instead of the first, over the hidden tokens. Of a model of
        actions what opens and closes takes the place of attachments, and ``action_accuracy`` that of their
        accuracy; of one with a scaffold (``scaffold_accuracy``) its runs, which are no part of p(x, y).
        With TreeReg there are ``treereg_loss``, which ``loss`` does not hold, and ``treereg_accuracy``, the
        share of splits that are right.
        """
        of_splits = {
            "treereg_loss": self.treereg / self.trees if self.trees else None,
            "treereg_accuracy": self.splits_right / self.splits if self.splits else None,
        }
        kind = "masked" if objective == "masked" else "given_trees"
        return {
            "loss": self.loss(attachment_weight, answer_weight),
            f"ppl_token_{kind}": _perplexity(self.token_nll, self.tokens),
            "ppl_token_joint": _perplexity(self.token_nll + self.attachment_nll, self.tokens)
            if self.attachments and structure != "scaffold"
            else None,
            f"{structure}_accuracy": self.attachments_right / self.attachments if self.attachments else None,
            "clamped_depths": self.clamped,
            **(of_splits if treereg else {}),
            **({"mean_squared_error": self.squared_error / self.numbers} if self.numbers else {}),
        }


def _perplexity(nll: float, tokens: int) -> float | None:
    mean = nll / tokens if tokens else math.inf
    return math.exp(mean) if mean < 700 else None  # beyond the range of a float


def loss_sums(parts: LossParts) -> torch.Tensor:
    """The sums of one batch, wide floats on the model's device, so that adding them up never waits: (13,)."""
    nothing = torch.zeros_like(parts.n_tokens)
    sums = [getattr(parts, name) for name in _SUMS.values()]
    wide = widest_float(nothing.device)
    return torch.stack([(nothing if each is None else each).detach().to(wide) for each in sums])  # (13,)


def zero_sums(device: str | torch.device) -> torch.Tensor:
    """Sums of nothing, to add :func:`loss_sums` to."""
    return torch.zeros(len(_SUMS), dtype=widest_float(device), device=device)  # (13,)


def autocast(device: str, precision: str) -> AbstractContextManager[Any]:
    """Mixed precision where ``precision`` asks for it; ``auto`` does on a GPU that has bf16."""
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
    """Add up the loss over batches, without dropout; the model's mode stays as it was.

    Args:
        batches: on any device.
        stop: asked before each batch.
        loss: how the model is called, where it is wrapped; by default its own ``loss``.

    Returns:
        The sums, or None if ``stop`` said so before the end.
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
