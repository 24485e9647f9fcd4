"""Recurrent language models: a controller, a stack or none, and the stack's reading."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, get_args

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from pdtools.models.base import (
    Batch,
    DecoderState,
    LanguageModel,
    LossParts,
    Objective,
    TokenParts,
    cut_off_normal,
    initialize_by_fan_in,
)
from pdtools.models.cache import NoRoomError
from pdtools.models.controllers import GATES
from pdtools.models.recurrence import Carry, SequenceRun, Weights, run_sequence, sequence_bytes
from pdtools.models.stacks import NondeterministicStack, Stack, StratificationStack, SuperpositionStack
from pdtools.models.transformer_config import bad_config

Controller = Literal["lstm", "rnn", "rnn-relu"]
StackKind = Literal["none", "stratification", "superposition", "nondeterministic"]
Push = Literal["learned", "linear", "hidden"]
FirstInput = Literal["none", "root", "eos"]
InitialOutput = Literal["xavier", "uniform"]
Initialization = Literal["uniform", "fan-in"]

# Memory of the stacks of rows that are read side by side where no gradient is asked for.
STACK_BYTES = 1 << 28


@dataclass(frozen=True, kw_only=True)
class RecurrentConfig:
    """Shape of a recurrent language model.

    Attributes:
        vocab_size, pad_id, root_id, eos_id: the tokenizer's.
        controller: "lstm", or "rnn": h = tanh(W x + U h + V r + b); "rnn-relu" has max(0, ·) for tanh.
        hidden_size: the controller's.
        embedding_size: of the tokens; 0 for one-hot vectors.
        stack: "none", "stratification" (Grefenstette et al., 2015), "superposition" (Joulin and Mikolov,
            2015), or "nondeterministic" (DuSell and Chiang, 2020, 2022).
        stack_vector: numbers in what the first two push.
        stack_depth: most elements of their stacks, the lowest are lost; 0 for no limit.
        stack_push: what superposition pushes: "learned" vectors, made by a layer and the logistic function;
            "linear", without that function; or the "hidden" state (``stack_vector`` is ignored).
        stack_states, stack_symbols: of the nondeterministic stack's automaton.
        stack_unnormalized: whether its transitions' weights are exponentials, not distributions.
        stack_states_in_reading: whether its reading tells states apart.
        stack_window: tokens that a symbol on it is remembered for at most; 0 for no limit.
        first_input: what the controller reads before the first prediction: "none" (which is then made from
            h = 0), "root", or "eos".
        objective: "causal": the token at k is predicted from those before it; "masked": from those up to k.
        initialization: of all weights: "uniform", as the next two say; or "fan-in": Haiku's truncated normal
            of deviation 1 / sqrt(inputs), biases 0.
        initial_range: controller and action layer are at first uniform within plus or minus this.
        initial_output: output layer and embedding are "uniform" too, or "xavier" (Glorot's) with biases 0; so
            is the action layer of the first two stacks then, as in the paper's implementation.
    """

    vocab_size: int
    pad_id: int
    root_id: int
    eos_id: int
    controller: Controller = "lstm"
    hidden_size: int = 20
    embedding_size: int = 0
    stack: StackKind = "nondeterministic"
    stack_vector: int = 20
    stack_depth: int = 0
    stack_push: Push = "learned"
    stack_states: int = 2
    stack_symbols: int = 3
    stack_unnormalized: bool = True
    stack_states_in_reading: bool = True
    stack_window: int = 0
    first_input: FirstInput = "none"
    objective: Objective = "causal"
    initialization: Initialization = "uniform"
    initial_output: InitialOutput = "xavier"
    initial_range: float = 0.1

    def __post_init__(self) -> None:
        for name in ("vocab_size", "hidden_size", "stack_vector", "stack_states", "stack_symbols"):
            if getattr(self, name) < 1:
                raise bad_config(f"{name} must be at least 1, not {getattr(self, name)}")
        for name in ("embedding_size", "stack_depth", "stack_window"):
            if getattr(self, name) < 0:
                raise bad_config(f"{name} must be 0 or more, not {getattr(self, name)}")
        if not 0 <= self.initial_range < float("inf"):
            raise bad_config(f"initial_range must be 0 or more, not {self.initial_range}")
        for name, choices in (
            ("controller", Controller),
            ("stack", StackKind),
            ("stack_push", Push),
            ("first_input", FirstInput),
            ("objective", Objective),
            ("initialization", Initialization),
            ("initial_output", InitialOutput),
        ):
            if getattr(self, name) not in get_args(choices):
                raise bad_config(
                    f"{name} must be one of {', '.join(get_args(choices))}, not {getattr(self, name)!r}"
                )
        for name in ("pad_id", "root_id", "eos_id"):
            if not 0 <= getattr(self, name) < self.vocab_size:
                raise bad_config(
                    f"{name} must be below vocab_size ({self.vocab_size}), not {getattr(self, name)}"
                )

    @property
    def layers(self) -> int:
        """Always one."""
        return 1


def build_stack(config: RecurrentConfig) -> Stack | None:
    """The stack that a configuration names; None for none."""
    if config.stack == "stratification":
        return StratificationStack(config.stack_vector, config.stack_depth)
    if config.stack == "superposition":
        size = config.hidden_size if config.stack_push == "hidden" else config.stack_vector
        return SuperpositionStack(size, config.stack_depth, config.stack_push)
    if config.stack == "nondeterministic":
        return NondeterministicStack(
            config.stack_states,
            config.stack_symbols,
            unnormalized=config.stack_unnormalized,
            states_in_reading=config.stack_states_in_reading,
            window=config.stack_window,
        )
    return None


@dataclass
class RecurrentState(DecoderState):
    """What a recurrent model remembers of R hypotheses.

    Attributes:
        position: the last position that was fed; -1 at the start.
        length: the most positions.
        rows: R.
        run: controllers and stacks.
    """

    position: int
    length: int
    rows: int
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


class RecurrentLM(LanguageModel):
    """Controller, stack and output layer (section 2.1 of the nondeterministic-stacks paper).

    Position k's hidden state h_k is made from token k and the reading r_{k-1}; it gives the actions that make
    the stack s_k, and predicts token k + 1 (with the masked objective, token k). There are two biases on the
    gates, as in the paper's implementation, so that the numbers of parameters are the paper's.
    """

    config: RecurrentConfig

    def __init__(self, config: RecurrentConfig) -> None:
        super().__init__()
        self.config = config
        self.uses_tape = False
        self.has_attachment_head = False
        # Without limit a stack would grow with the stream.
        limit = config.stack_window if config.stack == "nondeterministic" else config.stack_depth
        self.reads_streams = config.objective == "causal" and (config.stack == "none" or limit > 0)
        # What the last batch of streams left, by whether the model was in training.
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
        if self.config.first_input == "none":
            fed = tokens[:, 1:]
        else:
            fed = torch.cat([torch.full_like(tokens[:, :1], self._first_token), tokens[:, 1:]], 1)
        if torch.is_grad_enabled() or self.stack is None:
            parts = [fed]
        else:
            # The stacks of many long rows at once may take more memory than all else.
            each = sequence_bytes(self.config.controller, self.stack, self._empty(1).hidden, fed.shape[1])
            rows = max(1, STACK_BYTES // max(1, each))
            parts = list(fed.split(rows))
        hidden = torch.cat([self._read(part, None, carries=False)[0] for part in parts])  # (B, T, H)
        return F.pad(hidden, (0, 0, 1, 0)) if self.config.first_input == "none" else hidden

    def _read(self, tokens: Tensor, carry: Carry | None, *, carries: bool) -> tuple[Tensor, Carry | None]:
        """Hidden states (B, T, H) after each of the tokens (B, T) that are read from a carry on."""
        carry = carry or self._empty(len(tokens))
        if tokens.shape[1] == 0:
            return carry.hidden.new_zeros(len(tokens), 0, self.config.hidden_size), carry
        # Mixed precision is for large products: here it would lose more than it gains.
        with torch.autocast(tokens.device.type, enabled=False):
            hidden, carry_out = run_sequence(
                self.config.controller,
                self.stack,
                self._weights(),
                self._inputs(tokens.T),
                carry,
                carries=carries,
            )
        return hidden.transpose(0, 1), carry_out

    def forward_parts(self, batch: Batch) -> TokenParts:
        """See :meth:`LanguageModel.forward_parts`."""
        targets = batch.tokens if batch.targets is None else batch.targets
        shift = 1 if self.objective == "causal" else 0
        hidden = self.hidden_states(batch.tokens[:, : batch.tokens.shape[1] - shift])  # (B, N - shift, H)
        logprobs = self._target_logprobs(hidden, targets[:, shift:])  # (B, N - shift)
        logprobs = F.pad(logprobs, (shift, 0)).masked_fill(~batch.predicted(), 0)  # (B, N)
        nothing = torch.zeros_like(logprobs)
        positions = torch.arange(batch.tokens.shape[1], device=hidden.device)
        return TokenParts(
            token_logprobs=logprobs,
            attach_logprobs=nothing,
            attach_best=positions.expand_as(batch.tokens),
            n_clamped=batch.tokens.new_zeros(()),
        )

    def following_logprobs(self, batch: Batch) -> Tensor:
        """See :meth:`LanguageModel.following_logprobs`."""
        self.check_causal()
        hidden = self.hidden_states(batch.tokens)  # (B, N, H)
        last = hidden[torch.arange(len(hidden), device=hidden.device), batch.lengths - 1]  # (B, H)
        return self.output(last).log_softmax(-1, dtype=torch.float32)

    def position_logprobs(self, batch: Batch) -> Tensor:
        """See :meth:`LanguageModel.position_logprobs`."""
        shift = 1 if self.objective == "causal" else 0
        hidden = self.hidden_states(batch.tokens[:, : batch.tokens.shape[1] - shift])  # (B, N - shift, H)
        logprobs = self.output(hidden).log_softmax(-1, dtype=torch.float32)
        return F.pad(logprobs, (0, 0, shift, 0))  # (B, N, V)

    # --- a stream -----------------------------------------------------------------------------

    def stream_logprobs(self, tokens: Tensor, targets: Tensor, carry: Carry | None) -> tuple[Tensor, Carry]:
        """Read the next part of streams.

        Args:
            tokens: int64 (B, T), that are read.
            targets: int64 (B, T), what follows each of them.
            carry: what the part before left, or None at the beginning.

        Returns:
            log p of the targets, (B, T), nats, and what the next part starts from, which no gradient goes
            through.
        """
        self.check_causal()
        hidden, after = self._read(tokens, carry, carries=True)  # (B, T, H)
        assert after is not None
        return self._target_logprobs(hidden, targets), after

    def loss(self, batch: Batch) -> LossParts:
        """See :meth:`LanguageModel.loss`. Of streams, training and evaluation go on separately."""
        if batch.continues is None:
            return super().loss(batch)
        assert batch.targets is not None
        carry = self._carries.get(self.training) if batch.continues else None
        logprobs, after = self.stream_logprobs(batch.tokens, batch.targets, carry)
        self._carries[self.training] = after
        nothing = batch.tokens.new_zeros(())
        return LossParts(
            token_nll_sum=-logprobs.masked_fill(~batch.predicted(), 0).sum(),
            attach_nll_sum=nothing.to(logprobs.dtype),
            n_tokens=batch.predicted().sum(),
            n_attach=nothing,
            n_attach_correct=nothing,
            n_clamped=nothing,
        )

    def stream_state(self) -> dict[str, Tensor]:
        """See :meth:`LanguageModel.stream_state`."""
        carry = self._carries.get(True)
        if carry is None:
            return {}
        stack = {} if carry.stack is None else carry.stack.tensors()
        return {
            "hidden": carry.hidden,
            "memory": carry.memory,
            **{f"stack.{name}": value for name, value in stack.items()},
        }

    def load_stream_state(self, tensors: dict[str, Tensor]) -> None:
        """See :meth:`LanguageModel.load_stream_state`."""
        moved = {name: value.to(self.device) for name, value in tensors.items()}
        stack = {name.removeprefix("stack."): value for name, value in moved.items() if "." in name}
        self._carries[True] = Carry(
            moved["hidden"], moved["memory"], self.stack.carry_of(stack) if self.stack and stack else None
        )

    # --- token by token -----------------------------------------------------------------------

    @torch.no_grad()
    def start(self, rows: int, length: int, entries: int | None = None) -> RecurrentState:
        """See :meth:`LanguageModel.start`. Hypotheses share nothing: ``entries`` is ignored."""
        self.check_causal()
        run = SequenceRun(
            self.config.controller, self.stack, self._weights(), self._empty(rows), length, keep=False
        )
        return RecurrentState(position=-1, length=length, rows=rows, run=run)

    @torch.no_grad()
    def advance(self, state: RecurrentState, tokens: Tensor, tape_row: Tensor) -> None:
        """See :meth:`LanguageModel.advance`."""
        if state.position + 1 >= state.length:
            raise NoRoomError(f"the state has room for {state.length} tokens, and all are fed")
        state.position += 1
        if state.position == 0:
            if self.config.first_input == "none":
                return
            tokens = torch.full_like(tokens, self._first_token)
        state.run.step(self._inputs(tokens))

    @torch.no_grad()
    def next_token_logprobs(self, state: RecurrentState) -> Tensor:
        """See :meth:`LanguageModel.next_token_logprobs`."""
        return self.output(state.run.cell.hidden).log_softmax(-1, dtype=torch.float32)

    # --- shared -------------------------------------------------------------------------------

    @property
    def _first_token(self) -> int:
        return self.root_id if self.config.first_input == "root" else self.eos_id

    def _empty(self, rows: int) -> Carry:
        hidden = self.hidden_weight.new_zeros(rows, self.config.hidden_size)
        return Carry(hidden, torch.zeros_like(hidden))

    def _weights(self) -> Weights:
        if self.reading_weight is None or self.actions is None:
            return Weights(self.hidden_weight)
        recurrent = torch.cat([self.hidden_weight, self.reading_weight], 1)
        return Weights(recurrent, self.actions.weight, self.actions.bias)

    def _inputs(self, tokens: Tensor) -> Tensor:
        """What tokens (…) add to the gates: (…, G)."""
        bias = self.input_bias + self.hidden_bias
        if self.embedding is None:
            return F.embedding(tokens, self.input_weight.T) + bias
        return F.linear(self.embedding(tokens), self.input_weight, bias)

    def _target_logprobs(self, hidden: Tensor, targets: Tensor) -> Tensor:
        """log p of targets (B, T) from hidden states (B, T, H)."""
        logits = self.output(hidden)  # (B, T, V)
        logits = logits.to(torch.promote_types(logits.dtype, torch.float32))
        nll = F.cross_entropy(logits.flatten(0, 1), targets.flatten(), reduction="none")
        return -nll.view_as(targets)
