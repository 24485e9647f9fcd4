"""The interface of every language model: log-probabilities of a batch, or token by token."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Literal, cast, get_args, get_origin, get_type_hints

import numpy as np
import torch
import torch.nn.functional as F
from numpy.typing import NDArray
from torch import Tensor, nn

from pdtools.errors import PdtoolsError
from pdtools.jobs.devices import widest_float
from pdtools.models.batch import Batch, collate, empty_batch
from pdtools.models.derivations import DerivationKind, Derivations
from pdtools.models.treereg import TreeRegParts

if TYPE_CHECKING:
    from typing_extensions import Self

    from pdtools.shards import ShardSet
    from pdtools.tokenization import Tokenizer


class NoRoomError(PdtoolsError):
    """More tokens were fed to hypotheses than a state was started for."""


def bad_config(reason: str) -> PdtoolsError:
    """The error for invalid settings of a model."""
    return PdtoolsError(f"model configuration: {reason}")


def check_fields(config: Any) -> None:
    """Check the fields of a configuration that have a few possible values, and its special tokens.

    Raises:
        PdtoolsError: if one has another value.
    """
    for name, wanted in get_type_hints(type(config)).items():
        if get_origin(wanted) is Literal and (value := getattr(config, name)) not in get_args(wanted):
            raise bad_config(f"{name} must be one of {', '.join(get_args(wanted))}, not {value!r}")
    for name in ("pad_id", "root_id", "eos_id"):
        if not 0 <= (value := getattr(config, name)) < config.vocab_size:
            raise bad_config(f"{name} must be below vocab_size ({config.vocab_size}), not {value}")


def check_at_least(config: Any, least: int, *names: str) -> None:
    """Refuse lower values of fields of a configuration.

    Raises:
        PdtoolsError: naming the field.
    """
    for name in names:
        if (value := getattr(config, name)) < least:
            raise bad_config(f"{name} must be at least {least}, not {value}")


# Tokens that a prediction may depend on: those before it, or the whole row with the predicted ones masked.
Objective = Literal["causal", "masked"]
# Units of rows: one sentence with end-of-sentence, or several, each with its own ROOT.
Layout = Literal["sentence", "window"]


@dataclass(frozen=True)
class TokenParts:
    """Log-probabilities of a batch's tokens and attachments, in nats.

    Attributes:
        token_logprobs: float (B, N), log p(x_k | x_<k, W_{k-1}), x_k the target at k; for a masked model
            log p(x_k | the row). 0 where nothing is scored (ROOT, padding). If a token follows EOS
            (``final_id``), EOS has its log p too, and that of its own attachment if words depend on trees.
        attach_logprobs: float (B, N), log p(r_k | x_<=k, W_{k-1}); 0 for ROOT, EOS (but see
            ``token_logprobs``) and padding, and everywhere without a head.
        attach_best: int64 (B, N), the likeliest legal attachment; a shift everywhere without a head.
        n_clamped: int64 (), cells of the tapes deeper than the model's depth table (up to the last word).
        treereg: TreeReg's loss; None if the model has none, or it was not requested.
        numbers: float (B,), the regression of each row's last token; None if not requested.
        count_logprobs: float (B,), the part of words' numbers of arcs in ``attach_logprobs``; None if these
            have none.
    """

    token_logprobs: Tensor
    attach_logprobs: Tensor
    attach_best: Tensor
    n_clamped: Tensor
    treereg: TreeRegParts | None = None
    numbers: Tensor | None = None
    count_logprobs: Tensor | None = None


@dataclass(frozen=True)
class LossParts:
    """Sums over a batch, by name; they add up over batches and workers. All are 0-dimensional tensors.

    Every model gives the sums of eq. 7's two factors, and the same names for every batch that asks for the
    same.

    Attributes:
        sums: the terms of the loss (:data:`pdtools.training.loss.TERMS`): ``token_nll``: -log p of all tokens
            (EOS included), nats; ``attachment_nll``: -log p of all attachments, nats; ``treereg``
            (:class:`pdtools.models.treereg.TreeRegParts`); for prompts ``answer_nll``, the answers' part of
            ``token_nll``, and ``squared_error`` of the model's numbers, if known.
        counts: scored ``tokens`` and ``attachments``; ``attachments_right``: the likeliest legal ones;
            ``clamped``: cells of the tapes deeper than the model's depth table; ``trees``, ``splits``,
            ``splits_right`` of TreeReg; known ``numbers``.
        rows: for each row of a batch of prompts: ``answer_logprobs``, float64 (B,), log p of the answer's
            tokens given those before; ``numbers``, float (B,), the regression.
    """

    sums: Mapping[str, Tensor]
    counts: Mapping[str, Tensor]
    rows: Mapping[str, Tensor] = field(default_factory=dict)


class DecoderState(ABC):
    """A model's memory of R hypotheses that it reads in lock-step.

    Attributes:
        position: the last position fed; -1 at the start.
    """

    position: int

    @abstractmethod
    def select(self, rows: Tensor) -> None:
        """Replace the hypotheses by copies of the given ones: int64 (R',), in any order, repeats allowed."""

    @property
    @abstractmethod
    def nbytes(self) -> int:
        """Memory that the state takes."""


class LanguageModel(nn.Module, ABC):
    """A model of strings, or of strings with their derivations.

    To be scored an action model needs :meth:`forward_parts`; its kind derives, and packs rows. One of
    strings or attachments has the other methods too, for search and for what is read token by token.

    Args:
        config: the frozen dataclass from which it is built.

    Attributes:
        config: see above.
        vocab_size: number of tokens, special ones included.
        pad_id: the padding token.
        root_id: the token at position 0 of every sentence.
        eos_id: the token at the end of every sentence.
        end_id: the token that ends a sentence: ROOT for some models of windows.
        final_id: the token that follows end-of-sentence, which is then read; -1: none.
        layout: the rows' layout: in a ``window``, sentences end by an attachment, or before a ROOT.
        objective: ``causal``: log p(x) is the sum of the tokens'; ``masked``: predictions look at both sides.
        derivation_kind: the kind of its derivations, with all that is to be known of them.
        needs_float64: whether it is searched, or computes, in float64, which Apple's GPUs do not have.
        structure: the unit learned besides the tokens, as scores of training call it.
        max_length: most positions of a row (ROOT and EOS included), or None if there is no limit.
        reads_streams: whether it takes batches of endless streams (:attr:`Batch.continues`).
        has_treereg: whether it is trained with TreeReg (:mod:`pdtools.models.treereg`), and so parses.
    """

    max_length: int | None
    reads_streams: bool = False
    has_treereg: bool = False

    def __init__(self, config: Any) -> None:
        super().__init__()
        self.config = config
        self.vocab_size: int = config.vocab_size
        self.pad_id: int = config.pad_id
        self.root_id: int = config.root_id
        self.eos_id: int = config.eos_id
        self.end_id: int = config.eos_id
        self.final_id: int = getattr(config, "final_id", -1)
        self.layout: Layout = getattr(config, "layout", "sentence")
        self.objective: Objective = config.objective
        self.derivation_kind: DerivationKind = config.derivation_kind
        self.needs_float64: bool = self.derivation_kind.exist
        self.structure: str = self.derivation_kind.unit

    @property
    def device(self) -> torch.device:
        """The device of the parameters."""
        return next(self.parameters()).device

    @property
    def dtype_name(self) -> str:
        """The type of its parameters, such as ``float32``."""
        return str(next(self.parameters()).dtype).removeprefix("torch.")

    def head_parameters(self) -> Iterator[nn.Parameter]:
        """The parameters of the attachment head, if there is one."""
        return iter(())

    def use_tokenizer(self, tokenizer: Tokenizer) -> None:
        """Take from the tokenizer, before anything is computed, information on its tokens."""

    def check_length(self, length: int) -> None:
        """Refuse a row that is longer than the model.

        Raises:
            PdtoolsError: naming both lengths.
        """
        if self.max_length is not None and length > self.max_length:
            raise PdtoolsError(
                f"a sentence of {length} positions (ROOT and EOS included) is longer than the model's "
                f"max_length of {self.max_length}"
            )

    def check_causal(self) -> None:
        """Refuse a masked model where p(x), or a next-token probability, is needed.

        Raises:
            PdtoolsError: if the model is masked.
        """
        if self.objective != "causal":
            raise PdtoolsError(
                "this is a masked language model: it predicts tokens from both sides, and gives no p(x)"
            )

    @abstractmethod
    def forward_parts(self, batch: Batch) -> TokenParts:
        """Score given sentences with given derivations in one teacher-forced pass.

        Raises:
            PdtoolsError: if a sentence is longer than ``max_length``.
        """

    def final_states(self, batch: Batch) -> Tensor:
        """The states from which :meth:`logits` predicts, after each position, by one teacher-forced pass.

        Returns:
            float (B, N, D); (B, N - 1, D) for masked models that do not read ROOT.

        Raises:
            PdtoolsError: if a row is longer than ``max_length``.
        """
        raise NotImplementedError

    def logits(self, states: Tensor) -> Tensor:
        """Logits (…, V) from final states (…, D): of the next token, or, if masked, of the token there."""
        raise NotImplementedError

    def following_logprobs(self, batch: Batch) -> Tensor:
        """Compute log p(v | the whole row, its attachments) for every token v, by one teacher-forced pass.

        Args:
            batch: rows that may end anywhere.

        Returns:
            float (B, V), nats.

        Raises:
            PdtoolsError: if a row is longer than ``max_length``, or the model is masked.
        """
        self.check_causal()
        states = self.final_states(batch)  # (B, N, D)
        last = states[torch.arange(len(states), device=states.device), batch.lengths - 1]  # (B, D)
        return self.logits(last).log_softmax(-1, dtype=torch.float32)

    def position_logprobs(self, batch: Batch) -> Tensor:
        """Log-probabilities as in :meth:`forward_parts` of every token in place of each target, in one pass.

        Returns:
            float (B, N, V), nats, of all positions but 0; for small vocabularies.

        Raises:
            PdtoolsError: if a row is longer than ``max_length``.
        """
        states = self.final_states(batch)
        if self.objective == "causal":
            states = states[:, :-1]
        logprobs = self.logits(states).log_softmax(-1, dtype=torch.float32)
        return F.pad(logprobs, (0, 0, batch.tokens.shape[1] - states.shape[1], 0))  # (B, N, V)

    def forward(self, batch: Batch) -> LossParts:
        """Return :meth:`loss`, so that wrappers which call the module (data parallel) work."""
        return self.loss(batch)

    def loss(self, batch: Batch) -> LossParts:
        """The sums that training and validation need, of eq. 7's two factors."""
        parts = self.forward_parts(batch)
        attached = batch.attached() if self.derivation_kind.exist else torch.zeros_like(batch.attached())
        sums = {"token_nll": -parts.token_logprobs.sum(), "attachment_nll": -parts.attach_logprobs.sum()}
        counts = {
            "tokens": batch.predicted().sum(),
            "attachments": attached.sum(),
            "attachments_right": ((parts.attach_best == batch.attach) & attached).sum(),
            "clamped": parts.n_clamped,
        }
        rows = {}
        if (found := parts.treereg) is not None:
            sums["treereg"] = found.treereg_sum
            counts |= {
                "trees": found.n_trees,
                "splits": found.n_splits,
                "splits_right": found.n_splits_correct,
            }
        if batch.answers is not None:
            of_tokens = parts.token_logprobs.to(widest_float(self.device))
            of_answers = of_tokens.masked_fill(~batch.answers, 0).sum(1)  # (B,)
            sums["answer_nll"], rows["answer_logprobs"] = -of_answers.sum(), of_answers
        if batch.numbers is not None and parts.numbers is not None:
            known = ~batch.numbers.isnan()
            error = torch.where(known, parts.numbers - batch.numbers, 0)  # (B,)
            sums["squared_error"], counts["numbers"] = error.square().sum(), known.sum()
            rows["numbers"] = parts.numbers
        return LossParts(sums, counts, rows)

    @classmethod
    def losses(cls, models: Sequence[Self], batches: Sequence[Batch]) -> list[LossParts]:
        """The :meth:`loss` of several models, each on its own batch.

        Subclasses may compute small models faster together; here they are computed one by one.

        Args:
            models: models of this class, on one device, in the same mode.
            batches: one for each of them.
        """
        return [model.loss(batch) for model, batch in zip(models, batches, strict=True)]

    def stream_logprobs(self, tokens: Tensor, targets: Tensor, carry: Any) -> tuple[Tensor, Any]:
        """Read the next part of streams, if :attr:`reads_streams`.

        Args:
            tokens: int64 (B, T), the tokens read.
            targets: int64 (B, T), the tokens that follow each.
            carry: the state after the part before, or None at the beginning.

        Returns:
            log p of the targets, (B, T), nats, and the state for the next part, without gradients.
        """
        raise NotImplementedError

    def stream_state(self) -> dict[str, Tensor]:
        """The state that training batches of streams leave for the next one, by name; no weights."""
        return {}

    def load_stream_state(self, tensors: dict[str, Tensor]) -> None:
        """The inverse of :meth:`stream_state`."""

    def derive(self, rows: int, length: int, entries: int | None = None) -> Derivations:
        """R unfinished derivations, which consist only of ROOT.

        Args:
            rows: R at the start.
            length: the most positions of a derivation, ROOT and end-of-sentence included.
            entries: see :meth:`start`, for kinds whose choices follow tokens one by one.

        Raises:
            PdtoolsError: if ``length`` is over ``max_length``, or the model is masked.
        """
        raise NotImplementedError

    def pack(self, rows: Sequence[tuple[Any, Any]]) -> Batch:
        """Make a batch from rows of shards: tokens (n + 2) with derivations from :meth:`derivation_of`.

        No rows are :func:`pdtools.models.batch.empty_batch`.
        """
        return collate(rows, self.pad_id) if rows else empty_batch(self.root_id, self.pad_id)

    def pack_prompts(self, rows: Sequence[tuple[Any, Any]]) -> Batch:
        """Make a batch from windows that are prompts, which nothing follows.

        Raises:
            PdtoolsError: if the model does not read windows.
        """
        raise PdtoolsError("this model does not read windows, which prompts are")

    def derivation_of(self, shards: ShardSet, row: int) -> Any:
        """The derivation of a row, as :meth:`pack` takes it.

        Raises:
            PdtoolsError: if the shards lack it.
        """
        return self.derivation_kind.given(shards.attach(row), None)

    def no_derivation(self, tokens: NDArray[np.int32]) -> Any:
        """The derivation for :meth:`pack` of tokens (n + 2) that depend on none: all shift."""
        return np.arange(len(tokens), dtype=np.int32)

    def row_lengths(self, shards: ShardSet) -> NDArray[np.int64]:
        """The number of positions that the model reads of each row."""
        return np.asarray(shards.lengths, dtype=np.int64)

    def row_length(self, tokens: Any, derivation: Any) -> int:
        """The number of positions that the model reads of a row as :meth:`pack` takes it."""
        return len(tokens)

    def unfit_rows(self, shards: ShardSet) -> list[tuple[NDArray[np.bool_], str]]:
        """Rows that the model can take at no length: which, bool (rows,), and why."""
        return []

    def problem(self, derivation: Any) -> str | None:
        """The reason why the model can never take a derivation; None if it can."""
        return None

    def start(self, rows: int, length: int, entries: int | None = None) -> Any:
        """A state of ``rows`` hypotheses with room for ``length`` positions; not even ROOT is fed yet.

        Args:
            rows: R at the start.
            length: the most tokens of one hypothesis.
            entries: the most tokens fed to all hypotheses together, each counted when it is fed; by default
                ``rows`` times ``length``.

        Raises:
            PdtoolsError: if ``length`` is over ``max_length``, or the model is masked.
        """
        raise NotImplementedError

    def advance(self, state: Any, tokens: Tensor, tape_row: Tensor) -> None:
        """Feed the next token, k, of every hypothesis (in place).

        Args:
            state: from :meth:`start`.
            tokens: int64 (R,).
            tape_row: int16 (R, k + 1), W_k, the tape after token k's own reduces.

        Raises:
            NoRoomError: if more tokens are fed than the state has room for.
        """
        raise NotImplementedError

    def next_token_logprobs(self, state: Any) -> Tensor:
        """The distribution log p(x_{k+1} | x_<=k, W_k) of the next token: float (R, V)."""
        raise NotImplementedError

    def token_logprobs(self, state: Any, next_tokens: Tensor, rows: Tensor | None = None) -> Tensor:
        """The log-probability log p(x_{k+1} | x_<=k, W_k) of given tokens.

        Args:
            state: after token k.
            next_tokens: int64 (M,).
            rows: int64 (M,), the hypothesis of each of them; by default all, in order.

        Returns:
            float (M,).
        """
        every = self.next_token_logprobs(state)  # (R, V)
        rows = torch.arange(len(every), device=every.device) if rows is None else rows
        return every[rows, next_tokens]

    def attach_logprobs(self, state: Any, next_tokens: Tensor, legal: Tensor) -> Tensor:
        """The log-probabilities log p(r_{k+1} | x_<=k+1, W_k), normalised over the legal candidates.

        Args:
            state: after token k; it may note the output of layers below the tape, and other tokens may be
                requested afterwards.
            next_tokens: int64 (R,), x_{k+1}.
            legal: bool (R, k + 2), the shift last (:meth:`pdtools.models.StackState.legal`).

        Returns:
            float (R, k + 2); -inf where illegal.

        Raises:
            NoRoomError: if the state has no room for its notes.
        """
        raise PdtoolsError("this model has no attachment head")


def count_parameters(module: nn.Module) -> int:
    """Number of trainable values."""
    return sum(p.numel() for p in module.parameters() if p.requires_grad)


def initialize(module: nn.Module) -> None:
    """GPT-2's initial weights: normal with deviation 0.02, biases 0."""
    if isinstance(module, nn.Linear):
        nn.init.normal_(module.weight, std=0.02)
        if module.bias is not None:
            nn.init.zeros_(cast(Tensor, module.bias))
    elif isinstance(module, nn.Embedding):
        nn.init.normal_(module.weight, std=0.02)


def initialize_as_released(module: nn.Module) -> None:
    """The released Pushdown LM's initial weights where all are torch's own: none is drawn anew."""


def initialize_by_fan_in(module: nn.Module) -> None:
    """Haiku's initial weights: deviation 1 / sqrt(inputs), 0.02 for embeddings, cut off at two; biases 0."""
    if isinstance(module, nn.Linear | nn.Embedding):
        cut_off_normal(module.weight, 0.02 if isinstance(module, nn.Embedding) else module.in_features**-0.5)
    if isinstance(module, nn.Linear) and module.bias is not None:
        nn.init.zeros_(module.bias)


def initialize_by_depth(module: nn.Module, *, layers: int) -> None:
    """GiLT's initial weights: deviation sqrt(2 / layers / inputs), cut off at two; biases 0.

    Embeddings are uniform within sqrt(3 / width), so that their deviation is 1 / sqrt(width).
    """
    if isinstance(module, nn.Linear):
        cut_off_normal(module.weight, math.sqrt(2 / layers / module.in_features))
        if module.bias is not None:
            nn.init.zeros_(module.bias)
    elif isinstance(module, nn.Embedding):
        bound = math.sqrt(3 / module.embedding_dim)
        nn.init.uniform_(module.weight, -bound, bound)


def cut_off_normal(weight: Tensor, std: float) -> None:
    """Draw from a normal distribution cut off at two deviations, as Haiku does."""
    nn.init.trunc_normal_(weight, std=std, a=-2 * std, b=2 * std)
