"""The loss as a list of named terms, and its sum over batches; the loop and sweeps know no term by name.

A step minimises the sum over terms of weight × sum / divisor. Most terms share the *base* as their divisor:
the step's tokens or sentences, as ``train.normalize`` says. It divides the gradient after the last backward
pass. A term with a divisor of its own is multiplied by base / own before.

A new term is a class here, in :data:`TERMS`, and a sum of its name in what the model's ``loss`` returns.
"""

from __future__ import annotations

import contextlib
import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, field, replace
from typing import Any

import torch
from torch import Tensor

from pdtools.errors import PdtoolsError
from pdtools.jobs.devices import widest_float
from pdtools.models import Batch, LanguageModel, LossParts
from pdtools.models.treereg import count_trees
from pdtools.training.distributed import Ranks
from pdtools.training.recipe import TrainConfig


class LossTerm:
    """A sum over batches, by default in nats, and its part of the loss.

    Attributes:
        name: the name of its sum (:attr:`LossParts.sums`).
        counters: counts reported with it (:attr:`LossParts.counts`).
        divisor: the counter that divides it; None: the base.
        validated: whether it is part of the validation loss.
        weight_key: the key of :class:`TrainConfig` that has the factor of the sum; None: 1.
    """

    name: str
    counters: tuple[str, ...] = ()
    divisor: str | None = None
    validated: bool = True
    weight_key: str | None = None

    def weight(self, config: TrainConfig) -> float:
        """The factor of the sum."""
        return 1.0 if self.weight_key is None else float(getattr(config, self.weight_key))

    def is_learned(self, model: LanguageModel, settings: Mapping[str, Any]) -> bool:
        """Return whether the loss of a model has the term, for data with these settings."""
        return True

    def every(self, config: TrainConfig) -> int:
        """The period, in steps, at which the term is part of the loss."""
        return 1

    def count(self, batch: Batch) -> Tensor | None:
        """The batch's part of the term's own divisor, int64 () on its device; None: no part."""
        return None

    def without(self, batch: Batch) -> Batch:
        """The batch, without the data that make the model compute the term."""
        return batch

    def scores(self, sums: LossSums, model: LanguageModel) -> dict[str, Any]:
        """Scores for the log, JSON-ready; None, or no score, if the divisor is 0."""
        return {}


class TokenTerm(LossTerm):
    """The loss of tokens, −log p, end-of-sentence included."""

    name = "token_nll"
    counters = ("tokens",)

    def scores(self, sums: LossSums, model: LanguageModel) -> dict[str, Any]:
        """The perplexity, exp of the mean of −log p(x_k | x_<k, W_{k−1}); of hidden tokens if masked."""
        kind = "masked" if model.objective == "masked" else "given_trees"
        return {f"ppl_token_{kind}": perplexity(sums[self.name], sums["tokens"])}


class AttachmentTerm(LossTerm):
    """The loss −log p of attachments; else of openers and closers (actions) or runs (scaffolds).

    ``clamped`` counts cells of the tapes that are deeper than the model's depth table.
    """

    name = "attachment_nll"
    counters = ("attachments", "attachments_right", "clamped")
    weight_key = "attachment_weight"

    def is_learned(self, model: LanguageModel, settings: Mapping[str, Any]) -> bool:
        """See :meth:`LossTerm.is_learned`."""
        exist = model.derivation_kind.exist or model.structure == "scaffold"
        return exist and not model.derivation_kind.has_counts

    def scores(self, sums: LossSums, model: LanguageModel) -> dict[str, Any]:
        """The share of right ones, and a perplexity with −log p(r_k | …) in it, per token.

        A scaffold's runs are no part of p(x, y).
        """
        number, joint = sums["attachments"], None
        if number and model.structure != "scaffold":
            joint = perplexity(sums["token_nll"] + sums[self.name], sums["tokens"])
        return {
            "ppl_token_joint": joint,
            f"{model.structure}_accuracy": sums["attachments_right"] / number if number else None,
            "clamped_depths": sums["clamped"],
        }


class TreeRegTerm(LossTerm):
    """TreeReg's loss (:mod:`pdtools.models.treereg`), a mean over the nodes of each tree."""

    name = "treereg"
    counters = ("trees", "splits", "splits_right")
    divisor = "trees"
    validated = False
    weight_key = "treereg_weight"

    def is_learned(self, model: LanguageModel, settings: Mapping[str, Any]) -> bool:
        """See :meth:`LossTerm.is_learned`."""
        return model.has_treereg

    def every(self, config: TrainConfig) -> int:
        """See :meth:`LossTerm.every`."""
        return config.treereg_every

    def count(self, batch: Batch) -> Tensor | None:
        """See :meth:`LossTerm.count`: trees with a choice."""
        if batch.edges is None:
            return None
        return count_trees(batch.attach, batch.lengths, batch.edges, batch.places)

    def without(self, batch: Batch) -> Batch:
        """See :meth:`LossTerm.without`."""
        return replace(batch, edges=None)

    def scores(self, sums: LossSums, model: LanguageModel) -> dict[str, Any]:
        """The mean loss of a tree, and the share of right splits."""
        if not model.has_treereg:
            return {}
        trees, splits = sums["trees"], sums["splits"]
        return {
            "treereg_loss": sums[self.name] / trees if trees else None,
            "treereg_accuracy": sums["splits_right"] / splits if splits else None,
        }


class AnswerTerm(LossTerm):
    """The answers' part of ``token_nll`` for prompts: the weight beyond the 1 that it has there."""

    name = "answer_nll"
    weight_key = "answer_weight"

    def is_learned(self, model: LanguageModel, settings: Mapping[str, Any]) -> bool:
        """See :meth:`LossTerm.is_learned`."""
        return "prompts" in settings

    def weight(self, config: TrainConfig) -> float:
        """See :meth:`LossTerm.weight`."""
        return config.answer_weight - 1


class NumberTerm(LossTerm):
    """Squared errors of the numbers that a model predicts for prompts."""

    name = "squared_error"
    counters = ("numbers",)
    divisor = "numbers"

    def count(self, batch: Batch) -> Tensor | None:
        """See :meth:`LossTerm.count`: known numbers."""
        return None if batch.numbers is None else (~batch.numbers.isnan()).sum()

    def scores(self, sums: LossSums, model: LanguageModel) -> dict[str, Any]:
        """The mean squared error."""
        return {"mean_squared_error": sums[self.name] / sums["numbers"]} if sums["numbers"] else {}


class _ArcsTerm(LossTerm):
    """A term of GiLT."""

    def is_learned(self, model: LanguageModel, settings: Mapping[str, Any]) -> bool:
        """See :meth:`LossTerm.is_learned`."""
        return model.derivation_kind.has_counts


class CountTerm(_ArcsTerm):
    """The loss −log p of the number of arcs of each word (GiLT)."""

    name = "count_nll"
    counters = ("words", "counts_right")
    weight_key = "count_weight"

    def scores(self, sums: LossSums, model: LanguageModel) -> dict[str, Any]:
        """The share of words whose likeliest number is right."""
        words = sums["words"]
        if not words:
            return {}
        return {"count_loss": sums[self.name] / words, "count_accuracy": sums["counts_right"] / words}


class ArcTerm(_ArcsTerm):
    """Binary cross-entropy of all arcs that there are or could be (GiLT)."""

    name = "arc_bce"
    weight_key = "arc_weight"

    def scores(self, sums: LossSums, model: LanguageModel) -> dict[str, Any]:
        """The mean loss of a word."""
        words = sums["words"]
        return {"arc_loss": sums[self.name] / words} if words else {}


TERMS: tuple[LossTerm, ...] = (
    TokenTerm(),
    AttachmentTerm(),
    TreeRegTerm(),
    AnswerTerm(),
    NumberTerm(),
    CountTerm(),
    ArcTerm(),
)


def check_weights(config: TrainConfig, model: LanguageModel, settings: Mapping[str, Any]) -> None:
    """Refuse a weight, other than the default one, of a term that the loss does not have.

    Args:
        config: the training configuration.
        model: the model that is trained.
        settings: the data's settings.

    Raises:
        PdtoolsError: naming the weight.
    """
    default = TrainConfig()
    for term in TERMS:
        if term.weight_key is None or term.is_learned(model, settings):
            continue
        if (value := getattr(config, term.weight_key)) != getattr(default, term.weight_key):
            raise PdtoolsError(
                f"train.{term.weight_key} = {value:g} weighs a loss that this model does not have for these"
                " data: leave it out"
            )


COUNTERS = tuple(counter for term in TERMS for counter in term.counters)
# The order of sums in tensors.
NAMES = (*(term.name for term in TERMS), *COUNTERS)
TOKENS = NAMES.index("tokens")


@dataclass(frozen=True)
class LossSums:
    """Sums and counters of all terms, by name; they can be added over batches and workers."""

    values: Mapping[str, float] = field(default_factory=dict)

    def __getitem__(self, name: str) -> float:
        return self.values.get(name, 0)

    def __add__(self, other: LossSums) -> LossSums:
        return LossSums({name: self[name] + other[name] for name in NAMES})

    def total(self, ranks: Ranks) -> LossSums:
        """The sum over all ranks; every rank has to call it."""
        sums = torch.tensor([self[name] for name in NAMES], dtype=torch.float64)  # (S,)
        return LossSums.from_tensor(torch.stack(ranks.gather(sums)).sum(0))

    @classmethod
    def from_tensor(cls, sums: Tensor) -> LossSums:
        """Convert the tensor of :func:`loss_sums` back; waits for the device."""
        values = zip(NAMES, sums.tolist(), strict=True)
        return cls({name: round(value) if name in COUNTERS else value for name, value in values})

    @property
    def tokens(self) -> int:
        """The number of predicted tokens."""
        return int(self["tokens"])

    def loss(self, config: TrainConfig) -> float:
        """The validation loss per token; terms with another divisor are added as means."""
        validated = [(term, term.weight(config) * self[term.name]) for term in TERMS if term.validated]
        of_base = sum(part for term, part in validated if term.divisor is None)
        own = sum(part / max(self[term.divisor], 1) for term, part in validated if term.divisor is not None)
        return of_base / max(self.tokens, 1) + own

    def scores(self, config: TrainConfig, model: LanguageModel) -> dict[str, Any]:
        """Scores for the log: the loss (nats), and each term's."""
        found: dict[str, Any] = {"loss": self.loss(config)}
        for term in TERMS:
            found |= term.scores(self, model)
        return found

    def are_finite(self) -> bool:
        """Return whether all sums are finite numbers."""
        return all(map(math.isfinite, self.values.values()))


def perplexity(nll: float, tokens: float) -> float | None:
    """The perplexity exp(nll / tokens); None without tokens, or beyond the range of a float."""
    mean = nll / tokens if tokens else math.inf
    return math.exp(mean) if mean < 700 else None


def loss_sums(parts: LossParts) -> Tensor:
    """The sums of one batch, wide floats on the model's device, so that adding them never waits: (S,)."""
    found = {**parts.sums, **parts.counts}
    nothing = torch.zeros_like(found["tokens"])
    wide = widest_float(nothing.device)
    return torch.stack([found.get(name, nothing).detach().to(wide) for name in NAMES])  # (S,)


def zero_sums(device: str | torch.device) -> Tensor:
    """Zero sums, to which :func:`loss_sums` is added."""
    return torch.zeros(len(NAMES), dtype=widest_float(device), device=device)  # (S,)


def base_count(batch: Batch, config: TrainConfig) -> Tensor:
    """The batch's part of the base, int64 ()."""
    predicted = batch.predicted()
    return predicted.any(1).sum() if config.normalize == "sentence" else predicted.sum()


class StepWeights:
    """The factors of the terms in one step.

    Args:
        config: the training configuration.
        batches: this rank's batches of the step, on its device.
        ranks: all processes that train together, whose counts are added up.
    """

    def __init__(self, config: TrainConfig, batches: Sequence[Batch], ranks: Ranks) -> None:
        self._config = config
        counted = {
            term: [count for batch in batches if (count := term.count(batch)) is not None] for term in TERMS
        }
        own = {term: torch.stack(counts).sum() for term, counts in counted.items() if counts}
        self._factors: dict[str, Tensor] = {}
        if own:
            base = torch.stack([base_count(batch, config) for batch in batches]).sum()
            counts = torch.stack([base, *own.values()]).to(widest_float(base.device))  # (1 + terms)
            ranks.add_up(counts)
            base, *divisors = counts.clamp(min=1)
            for term, divisor in zip(own, divisors, strict=True):
                self._factors[term.name] = term.weight(config) * base / divisor

    def loss(self, parts: LossParts) -> Tensor:
        """The part of the objective from one batch: a sum, which the base divides later."""
        present = [(term, parts.sums[term.name]) for term in TERMS if term.name in parts.sums]
        dtype = present[0][1].dtype
        first, *others = (
            term.weight(self._config) * found.to(dtype)
            if term.divisor is None
            else (self._factors[term.name] * found).to(dtype)
            for term, found in present
        )
        return sum(others, first)


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
