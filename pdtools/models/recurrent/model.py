"""Recurrent language models: a controller, a stack or none, and the stack's reading."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from pdtools.models.base import (
    DecoderState,
    LanguageModel,
    LossParts,
    NoRoomError,
    TokenParts,
    cut_off_normal,
    initialize_by_fan_in,
)
from pdtools.models.batch import Batch, join_batches
from pdtools.models.derivations import Derivations
from pdtools.models.recurrent.config import RecurrentConfig, build_stack
from pdtools.models.recurrent.controllers import GATES
from pdtools.models.recurrent.products import look_up, stack_parameters, times
from pdtools.models.recurrent.recurrence import Carry, SequenceRun, Weights, run_sequence, sequence_bytes
from pdtools.models.recurrent.stacks import NondeterministicStack, Stack
from pdtools.models.tokenwise import StringDerivations

# Memory for stacks of rows that are read together without gradients.
STACK_BYTES = 1 << 28


@dataclass
class RecurrentState(DecoderState):
    """The memory of a recurrent model for R hypotheses.

    Attributes:
        position: the last position fed; -1 at the start.
        length: the maximal number of positions.
        rows: R.
        reader: the computation with the model's parameters.
        run: controllers and stacks.
    """

    position: int
    length: int
    rows: int
    reader: RecurrentReader
    run: SequenceRun

    def select(self, rows: Tensor) -> None:
        """See :meth:`DecoderState.select`."""
        if rows.device.type == "cpu" and torch.equal(rows, torch.arange(self.rows)):
            return  # stacks are large: no copies without need (on a GPU the question itself would be a wait)
        self.rows = len(rows)
        self.run.select(rows)

    @property
    def nbytes(self) -> int:
        """Memory of controllers and stacks."""
        return self.run.nbytes


class RecurrentReader:
    """The controller, stack and output layer (section 2.1 of the nondeterministic-stacks paper).

    For M models all parameters have one more dimension in front, of size M; rows are in the order of the
    models, equally many of each.

    Args:
        config: the configuration of the model, or of every one of them.
        stack: the stack that it names.
        parameters: by their names in :class:`pdtools.models.RecurrentLM`.
    """

    def __init__(
        self, config: RecurrentConfig, stack: Stack | None, parameters: Mapping[str, Tensor]
    ) -> None:
        self.config = config
        self.stack = stack
        self._parameters = parameters

    def empty(self, rows: int) -> Carry:
        """Return the state before the first token."""
        hidden = self._parameters["hidden_weight"].new_zeros(rows, self.config.hidden_size)
        return Carry(hidden, torch.zeros_like(hidden))

    def run(self, rows: int, steps: int) -> SequenceRun:
        """Start rows that are read step by step, without gradients."""
        return SequenceRun(
            self.config.controller, self.stack, self._weights(), self.empty(rows), steps, keep=False
        )

    def read(
        self, tokens: Tensor, carry: Carry | None = None, *, carries: bool = False
    ) -> tuple[Tensor, Carry | None]:
        """Return hidden states (B, T, H) after each token (B, T), and the state for the next sequence.

        Args:
            tokens: the tokens to read.
            carry: the state to go on from; None for the empty one.
            carries: whether there is a next sequence.
        """
        carry = carry or self.empty(len(tokens))
        if tokens.shape[1] == 0:
            return carry.hidden.new_zeros(len(tokens), 0, self.config.hidden_size), carry
        # Mixed precision is for large products: here it would lose more than it gains.
        with torch.autocast(tokens.device.type, enabled=False):
            hidden, carry_out = run_sequence(
                self.config.controller,
                self.stack,
                self._weights(),
                self.inputs(tokens).transpose(0, 1),
                carry,
                carries=carries,
            )
        return hidden.transpose(0, 1), carry_out

    def fed(self, tokens: Tensor) -> Tensor:
        """Return the inputs for rows (B, N): the token before the first prediction, if there is one, and the
        tokens after ROOT; (B, N) or (B, N - 1)."""
        if self.config.first_input == "none":
            return tokens[:, 1:]
        return torch.cat([self.first_input(tokens[:, :1]), tokens[:, 1:]], 1)

    def first_input(self, like: Tensor) -> Tensor:
        """The token read before the first prediction."""
        first = self.config.root_id if self.config.first_input == "root" else self.config.eos_id
        return torch.full_like(like, first)

    def at_positions(self, hidden: Tensor) -> Tensor:
        """Hidden states after the inputs of :meth:`fed`, by position of the row: (B, N, H)."""
        return F.pad(hidden, (0, 0, 1, 0)) if self.config.first_input == "none" else hidden

    def logits(self, hidden: Tensor) -> Tensor:
        """Logits (B, T, V) from hidden states (B, T, H)."""
        weight, bias = self._parameters["output.weight"], self._bias(self._parameters["output.bias"])
        return times(hidden.flatten(0, 1), weight.mT, bias).unflatten(0, hidden.shape[:2])

    def target_logprobs(self, hidden: Tensor, targets: Tensor) -> Tensor:
        """The log p of targets (B, T) from hidden states (B, T, H)."""
        logits = self.logits(hidden)
        logits = logits.to(torch.promote_types(logits.dtype, torch.float32))
        nll = F.cross_entropy(logits.flatten(0, 1), targets.flatten(), reduction="none")
        return -nll.view_as(targets)

    def token_logprobs(self, batch: Batch, hidden: Tensor) -> Tensor:
        """The log p of a batch's targets (B, N), 0 for positions that are not scored.

        Args:
            batch: rows of N positions.
            hidden: (B, N, H), or (B, N - 1, H): see :meth:`scored_part`.
        """
        targets = batch.tokens if batch.targets is None else batch.targets
        shift = targets.shape[1] - hidden.shape[1]
        logprobs = self.target_logprobs(hidden, targets[:, shift:])
        return F.pad(logprobs, (shift, 0)).masked_fill(~batch.predicted(), 0)

    def scored_part(self, batch: Batch) -> Tensor:
        """The tokens that predictions are made after: all but the last if the next one is predicted."""
        return batch.tokens[:, :-1] if self.config.objective == "causal" else batch.tokens

    def inputs(self, tokens: Tensor) -> Tensor:
        """The part of tokens (B, T) in the gates: (B, T, G)."""
        weight = self._parameters["input_weight"]
        bias = self._bias(self._parameters["input_bias"] + self._parameters["hidden_bias"])
        if "embedding.weight" not in self._parameters:
            return look_up(tokens, weight.mT, bias)
        embedded = look_up(tokens, self._parameters["embedding.weight"])  # (B, T, E)
        return times(embedded.flatten(0, 1), weight.mT, bias).unflatten(0, tokens.shape)

    def _weights(self) -> Weights:
        recurrent = self._parameters["hidden_weight"]
        if self.stack is None:
            return Weights(recurrent)
        recurrent = torch.cat([recurrent, self._parameters["reading_weight"]], -1)
        return Weights(
            recurrent, self._parameters["actions.weight"], self._bias(self._parameters["actions.bias"])
        )

    @staticmethod
    def _bias(bias: Tensor) -> Tensor:
        """Return a bias (Y,) as it is, (M, Y) as (M, 1, Y)."""
        return bias if bias.ndim == 1 else bias[:, None]


class RecurrentLM(LanguageModel):
    """A language model of controller, stack and output layer.

    Section 2.1 of the nondeterministic-stacks paper describes it. Position k's hidden state h_k is made from
    token k and the reading r_{k-1}; it gives the actions that make the stack s_k, and predicts token k + 1
    (with the masked objective, token k). There are two biases on the gates, as in the paper's implementation,
    so that the numbers of parameters are the paper's.
    """

    config: RecurrentConfig

    def __init__(self, config: RecurrentConfig) -> None:
        super().__init__(config)
        self.needs_float64 = True  # stacks are computed in it
        # Without a limit a stack would grow with the stream.
        limit = config.stack_window if config.stack == "nondeterministic" else config.stack_depth
        self.reads_streams = config.objective == "causal" and (config.stack == "none" or limit > 0)
        # The state after the last batch of streams, by whether the model was in training.
        self._carries: dict[bool, Carry | None] = {}
        self.max_length = None
        self.stack = build_stack(config)
        hidden, gates = config.hidden_size, GATES[config.controller] * config.hidden_size
        width = config.embedding_size or config.vocab_size
        self.embedding = nn.Embedding(config.vocab_size, width) if config.embedding_size else None
        self.input_weight = nn.Parameter(torch.empty(gates, width))
        self.reading_weight = (
            None if self.stack is None else nn.Parameter(torch.empty(gates, self.stack.reading_size))
        )
        self.hidden_weight = nn.Parameter(torch.empty(gates, hidden))
        self.input_bias = nn.Parameter(torch.empty(gates))
        self.hidden_bias = nn.Parameter(torch.empty(gates))
        self.actions = None if self.stack is None else nn.Linear(hidden, self.stack.action_size)
        self.output = nn.Linear(hidden, config.vocab_size)
        self._initialize()

    def _initialize(self) -> None:
        if self.config.initialization == "fan-in":
            self.apply(initialize_by_fan_in)
            # The controller reads its input and the reading together.
            inputs = [weight for weight in (self.input_weight, self.reading_weight) if weight is not None]
            for weight in inputs:
                cut_off_normal(weight, sum(each.shape[1] for each in inputs) ** -0.5)
            cut_off_normal(self.hidden_weight, self.config.hidden_size**-0.5)
            nn.init.zeros_(self.input_bias)
            nn.init.zeros_(self.hidden_bias)
            return
        for parameter in self.parameters():
            nn.init.uniform_(parameter, -self.config.initial_range, self.config.initial_range)
        if self.config.initial_output == "uniform":
            return
        if self.embedding is not None:
            nn.init.xavier_uniform_(self.embedding.weight)
        nn.init.xavier_uniform_(self.output.weight)
        nn.init.zeros_(self.output.bias)
        if self.stack is not None and self.actions is not None and self.stack.layers:
            sizes, gains = zip(*self.stack.layers, strict=True)
            for weight, gain in zip(self.actions.weight.split(sizes), gains, strict=True):
                nn.init.xavier_uniform_(weight, gain)
            nn.init.zeros_(self.actions.bias)

    # --- whole sentences ----------------------------------------------------------------------

    def hidden_states(self, tokens: Tensor) -> Tensor:
        """The hidden states after each position of rows (B, N): (B, N, H)."""
        reader = self._reader()
        fed = reader.fed(tokens)
        if torch.is_grad_enabled() or self.stack is None:
            parts = [fed]
        else:
            # The stacks of many long rows at once may take more memory than all else.
            each = sequence_bytes(self.config.controller, self.stack, reader.empty(1).hidden, fed.shape[1])
            parts = list(fed.split(max(1, STACK_BYTES // max(1, each))))
        return reader.at_positions(torch.cat([reader.read(part)[0] for part in parts]))

    def forward_parts(self, batch: Batch) -> TokenParts:
        """See :meth:`LanguageModel.forward_parts`."""
        reader = self._reader()
        logprobs = reader.token_logprobs(batch, self.hidden_states(reader.scored_part(batch)))  # (B, N)
        positions = torch.arange(batch.tokens.shape[1], device=logprobs.device)
        return TokenParts(
            token_logprobs=logprobs,
            attach_logprobs=torch.zeros_like(logprobs),
            attach_best=positions.expand_as(batch.tokens),
            n_clamped=batch.tokens.new_zeros(()),
        )

    def final_states(self, batch: Batch) -> Tensor:
        """See :meth:`LanguageModel.final_states`."""
        return self.hidden_states(batch.tokens)

    def logits(self, states: Tensor) -> Tensor:
        """See :meth:`LanguageModel.logits`."""
        return self.output(states)

    # --- several models -----------------------------------------------------------------------

    @classmethod
    def losses(cls, models: Sequence[RecurrentLM], batches: Sequence[Batch]) -> list[LossParts]:
        """See :meth:`LanguageModel.losses`. Models of one configuration are computed as one, with products of
        the rows of each by its own weights, if that is faster."""
        first = models[0]
        alone = first._reader()
        if (
            len(models) == 1
            or any(model.config != first.config for model in models)
            or any(batch.continues is not None for batch in batches)
            # With nothing to read, controllers have no gradient alone, which is not the same as zeros.
            or any(alone.fed(alone.scored_part(batch)).shape[1] == 0 for batch in batches)
            or not faster_as_one(first)
        ):
            return super().losses(models, batches)
        batch = join_batches(batches, first.pad_id)
        reader = RecurrentReader(first.config, first.stack, stack_parameters(models))
        hidden = reader.at_positions(reader.read(reader.fed(reader.scored_part(batch)))[0])
        logprobs = reader.token_logprobs(batch, hidden)  # (M · B, N)
        counts = batch.predicted().view(len(models), -1).sum(1)
        return [
            _token_loss(-found, n_tokens)
            for found, n_tokens in zip(logprobs.view(len(models), -1).sum(1), counts, strict=True)
        ]

    # --- a stream -----------------------------------------------------------------------------

    def stream_logprobs(self, tokens: Tensor, targets: Tensor, carry: Carry | None) -> tuple[Tensor, Carry]:
        """See :meth:`LanguageModel.stream_logprobs`."""
        self.check_causal()
        reader = self._reader()
        hidden, after = reader.read(tokens, carry, carries=True)  # (B, T, H)
        assert after is not None
        return reader.target_logprobs(hidden, targets), after

    def loss(self, batch: Batch) -> LossParts:
        """See :meth:`LanguageModel.loss`. In streams, training and evaluation go on separately."""
        if batch.continues is None:
            return super().loss(batch)
        assert batch.targets is not None
        carry = self._carries.get(self.training) if batch.continues else None
        logprobs, after = self.stream_logprobs(batch.tokens, batch.targets, carry)
        self._carries[self.training] = after
        return _token_loss(-logprobs.masked_fill(~batch.predicted(), 0).sum(), batch.predicted().sum())

    def stream_state(self) -> dict[str, Tensor]:
        """See :meth:`LanguageModel.stream_state`."""
        carry = self._carries.get(True)
        if carry is None:
            return {}
        stack = {f"stack.{name}": value for name, value in (carry.stack or {}).items()}
        return {"hidden": carry.hidden, "memory": carry.memory, **stack}

    def load_stream_state(self, tensors: dict[str, Tensor]) -> None:
        """See :meth:`LanguageModel.load_stream_state`."""
        moved = {name: value.to(self.device) for name, value in tensors.items()}
        stack = {name.removeprefix("stack."): value for name, value in moved.items() if "." in name}
        self._carries[True] = Carry(moved["hidden"], moved["memory"], stack or None)

    # --- token by token -----------------------------------------------------------------------

    def start(self, rows: int, length: int, entries: int | None = None) -> RecurrentState:
        """See :meth:`LanguageModel.start`. Hypotheses share nothing: ``entries`` is ignored."""
        self.check_causal()
        reader = self._reader()
        run = reader.run(rows, length)
        return RecurrentState(position=-1, length=length, rows=rows, reader=reader, run=run)

    def derive(self, rows: int, length: int, entries: int | None = None) -> Derivations:
        """See :meth:`LanguageModel.derive`."""
        return StringDerivations(self, rows, length)

    @torch.no_grad()
    def advance(self, state: RecurrentState, tokens: Tensor, tape_row: Tensor) -> None:
        """See :meth:`LanguageModel.advance`."""
        if state.position + 1 >= state.length:
            raise NoRoomError(f"the state has room for {state.length} tokens, and all are fed")
        state.position += 1
        if state.position == 0:
            if self.config.first_input == "none":
                return
            tokens = state.reader.first_input(tokens)
        state.run.step(state.reader.inputs(tokens[:, None])[:, 0])

    @torch.no_grad()
    def next_token_logprobs(self, state: RecurrentState) -> Tensor:
        """See :meth:`LanguageModel.next_token_logprobs`."""
        return self.output(state.run.cell.hidden).log_softmax(-1, dtype=torch.float32)

    def _reader(self) -> RecurrentReader:
        return RecurrentReader(self.config, self.stack, dict(self.named_parameters()))


def faster_as_one(model: RecurrentLM) -> bool:
    """Return whether most of a model's time goes to the start of many small operations.

    On a CPU it does not with a nondeterministic stack, whose work grows with the cube of the length: it would
    be lost on strings padded to the longest.
    """
    return model.device.type != "cpu" or not isinstance(model.stack, NondeterministicStack)


def _token_loss(nll_sum: Tensor, n_tokens: Tensor) -> LossParts:
    """The loss of a model without attachments."""
    nothing = torch.zeros_like(n_tokens)
    return LossParts(
        sums={"token_nll": nll_sum, "attachment_nll": nothing.to(nll_sum.dtype)},
        counts={
            "tokens": n_tokens,
            **dict.fromkeys(("attachments", "attachments_right", "clamped"), nothing),
        },
    )
