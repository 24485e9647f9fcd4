"""The shape of recurrent language models."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from pdtools.models.base import Objective, bad_config, check_at_least, check_fields
from pdtools.models.derivations import DerivationKind, StringKind
from pdtools.models.recurrent.stacks import (
    NondeterministicStack,
    Stack,
    StratificationStack,
    SuperpositionStack,
)

Controller = Literal["lstm", "rnn", "rnn-relu"]
StackKind = Literal["none", "stratification", "superposition", "nondeterministic"]
Push = Literal["learned", "linear", "hidden"]
FirstInput = Literal["none", "root", "eos"]
InitialOutput = Literal["xavier", "uniform"]
Initialization = Literal["uniform", "fan-in"]


@dataclass(frozen=True, kw_only=True)
class RecurrentConfig:
    """Shape of a recurrent language model.

    Attributes:
        vocab_size, pad_id, root_id, eos_id: the tokenizer's.
        controller: "rnn": h = tanh(W x + U h + V r + b); "rnn-relu" has max(0, ·) for tanh.
        hidden_size: size of its hidden state.
        embedding_size: size of token embeddings; 0: one-hot vectors.
        stack: Grefenstette et al. (2015), Joulin and Mikolov (2015), or DuSell and Chiang (2020, 2022).
        stack_vector: size of the vectors that the first two push.
        stack_depth: most elements of their stacks, the lowest are lost; 0: no limit.
        stack_push: vectors that superposition pushes: the "hidden" state, a "linear" map of it, or the
            logistic function of that ("learned").
        stack_states: states of the nondeterministic stack's automaton.
        stack_symbols: its symbols.
        stack_unnormalized: its transitions' weights are exponentials, not distributions.
        stack_states_in_reading: its reading distinguishes states.
        stack_window: tokens that it looks back at most; 0: no limit.
        first_input: the input before the first prediction; "none": it is made from h = 0.
        objective: token k is predicted from those before it, or up to k.
        initialization: all weights are "uniform" at first, as the next two say; or "fan-in": truncated normal
            of deviation 1 / sqrt(inputs), biases 0.
        initial_range: controller and action layer are uniform within plus or minus this.
        initial_output: output layer and embedding, and the action layer of the first two stacks: "uniform"
            too, or Glorot's with biases 0.
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
        check_at_least(self, 1, "vocab_size", "hidden_size", "stack_vector", "stack_states", "stack_symbols")
        check_at_least(self, 0, "embedding_size", "stack_depth", "stack_window")
        check_fields(self)
        if not 0 <= self.initial_range < float("inf"):
            raise bad_config(f"initial_range must be 0 or more, not {self.initial_range}")

    @property
    def derivation_kind(self) -> DerivationKind:
        """The kind of derivations: none."""
        return StringKind()

    @property
    def layers(self) -> int:
        """The number of layers, always one."""
        return 1


def build_stack(config: RecurrentConfig) -> Stack | None:
    """Return the stack that a configuration names; None for none."""
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
