"""The stack of DuSell and Chiang (2020, 2022): all runs of a pushdown automaton.

How they are summed over is in ``nondeterministic_run.py``, and in C in ``native_nondeterministic.py``.
"""

from __future__ import annotations

import warnings
from functools import cache

import torch
from torch import Tensor

from pdtools.models.stacks.base import Stack, StackCarry
from pdtools.models.stacks.native_nondeterministic import NativeNondeterministicRun, stack_library
from pdtools.models.stacks.nondeterministic_run import (
    NondeterministicCarry,
    NondeterministicRun,
    TorchNondeterministicRun,
)


class NondeterministicStack(Stack):
    """Stacks of runs of a pushdown automaton whose transitions the controller weights.

    The actions of a configuration c are weights of S · Q pushes (of symbol y, to state r, at y · Q + r), of
    S · Q replacements, and of Q pops.

    Args:
        states: Q.
        symbols: S, the bottom one included.
        unnormalized: the weights are exponentials of the controller's outputs (section 3.1); else their
            softmax for each configuration (eq. 1).
        states_in_reading: the reading is a distribution over configurations (section 3.2); else over the
            symbols on top (eq. 5).
        window: D, the farthest that a symbol is remembered after it was pushed (section 5.1); 0 for no limit.
    """

    def __init__(
        self, states: int, symbols: int, *, unnormalized: bool, states_in_reading: bool, window: int
    ) -> None:
        self.states = states
        self.symbols = symbols
        self.unnormalized = unnormalized
        self.states_in_reading = states_in_reading
        self.window = window
        self.configurations = states * symbols
        self.action_size = self.configurations * (2 * self.configurations + states)
        self.reading_size = self.configurations if states_in_reading else symbols

    def start(
        self, rows: int, steps: int, like: Tensor, *, keep: bool, carried: StackCarry | None = None
    ) -> NondeterministicRun:
        """See :meth:`Stack.start`.

        A carry holds all times within the window, so that runs over the pieces of a text are one run over it;
        without a window it grows with the text.
        """
        assert carried is None or isinstance(carried, NondeterministicCarry)
        native = like.device.type == "cpu" and _native_works()
        kind = NativeNondeterministicRun if native else TorchNondeterministicRun
        return kind(self, rows, steps, like, keep, carried)

    def carry_of(self, tensors: dict[str, Tensor]) -> NondeterministicCarry:
        """See :meth:`Stack.carry_of`."""
        return NondeterministicCarry(tensors["columns"], tensors["alpha"])

    def log_weights(self, actions: Tensor) -> Tensor:
        """Logarithms of the transitions' weights: (B, action_size) to (B, S·Q, 2·S·Q + Q), float64."""
        logits = actions.unflatten(1, (self.configurations, -1)).double()
        return logits if self.unnormalized else logits.log_softmax(2)

    def d_actions(self, log_weights: Tensor, weighted: Tensor) -> Tensor:
        """The gradient of the actions, from that of the logarithms of the weights: to (B, action_size)."""
        if not self.unnormalized:
            weighted = weighted - log_weights.exp() * weighted.sum(2, keepdim=True)
        return weighted.flatten(1)

    def read(self, alpha: Tensor) -> Tensor:
        """The reading, from α whose sum is 1: (B, S · Q), float64."""
        return alpha if self.states_in_reading else alpha.unflatten(1, (self.symbols, self.states)).sum(2)

    def d_alpha(self, d_reading: Tensor, alpha: Tensor) -> Tensor:
        """α ⊙ dα of the reading of a normalised α, from its gradient: (B, S · Q)."""
        d = d_reading.double()
        if not self.states_in_reading:
            d = d.repeat_interleave(self.states, 1)
        return alpha * (d - (alpha * d).sum(1, keepdim=True))


@cache
def _native_works() -> bool:
    """Whether the functions in C compile, and compute what torch's operations do: tried once."""
    if stack_library() is None:
        return False
    random = torch.Generator().manual_seed(0)
    for states, symbols, normalized, window in ((2, 3, False, 0), (3, 2, True, 7), (1, 5, False, 3)):
        stack = NondeterministicStack(
            states, symbols, unnormalized=not normalized, states_in_reading=not normalized, window=window
        )
        with torch.device("cpu"):  # whoever asks may be computing elsewhere
            actions = torch.randn(17, 2, stack.action_size, generator=random, dtype=torch.float64)
            d_readings = torch.randn(17, 2, stack.reading_size, generator=random, dtype=torch.float64)
            plain = _outcome(TorchNondeterministicRun, stack, actions, d_readings)
            ours = _outcome(NativeNondeterministicRun, stack, actions, d_readings)
        if not torch.allclose(plain, ours, rtol=1e-9, atol=1e-12):
            warnings.warn(
                "stacks are not computed in C (the C compiler made something that computes other numbers):"
                " it takes more time",
                stacklevel=3,
            )
            return False
    return True


def _outcome(
    kind: type[NondeterministicRun], stack: NondeterministicStack, actions: Tensor, d_readings: Tensor
) -> Tensor:
    """Readings and gradients of a run with actions (T, B, A): (B, …)."""
    run = kind(stack, actions.shape[1], len(actions), actions, True, None)
    readings = [run.step(each) for each in actions]
    run.prepare_back()
    return torch.cat([*readings, *(run.back(each) for each in d_readings)], 1)
