"""The stack of DuSell and Chiang (2020, 2022): all runs of a pushdown automaton.

The sums over runs are computed in ``nondeterministic_run.py``, and in C in ``native_nondeterministic.py``.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import cache

import torch
from torch import Tensor

from pdtools.models.kernels.self_test import agrees
from pdtools.models.recurrent.stacks.base import Stack, StackCarry
from pdtools.models.recurrent.stacks.native_nondeterministic import NativeNondeterministicRun, stack_library
from pdtools.models.recurrent.stacks.nondeterministic_run import (
    Automaton,
    NondeterministicRun,
    TorchNondeterministicRun,
)


class NondeterministicStack(Automaton, Stack):
    """The stack of all runs of a pushdown automaton; sizes and actions as in :class:`Automaton`."""

    def start(
        self, rows: int, steps: int, like: Tensor, *, keep: bool, carried: StackCarry | None = None
    ) -> NondeterministicRun:
        """See :meth:`Stack.start`.

        A carry holds all times within the window, so that runs over the chunks of a text are one run over it;
        without a window it grows with the text.
        """
        native = like.device.type == "cpu" and _native_works()
        kind = NativeNondeterministicRun if native else TorchNondeterministicRun
        return kind(self, rows, steps, like, keep, carried)


@cache
def _native_works() -> bool:
    """Return whether the functions in C compile, and agree with torch's operations: tried once."""
    return stack_library() is not None and agrees(_pairs, "stacks are", "in C", tolerance=1e-9)


def _pairs(random: torch.Generator) -> Iterator[tuple[Tensor, Tensor]]:
    for states, symbols, normalized, window in ((2, 3, False, 0), (3, 2, True, 7), (1, 5, False, 3)):
        stack = NondeterministicStack(
            states, symbols, unnormalized=not normalized, states_in_reading=not normalized, window=window
        )
        actions = torch.randn(17, 2, stack.action_size, generator=random, dtype=torch.float64)
        d_readings = torch.randn(17, 2, stack.reading_size, generator=random, dtype=torch.float64)
        ours = _outcome(NativeNondeterministicRun, stack, actions, d_readings)
        yield ours, _outcome(TorchNondeterministicRun, stack, actions, d_readings)


def _outcome(
    kind: type[NondeterministicRun], stack: NondeterministicStack, actions: Tensor, d_readings: Tensor
) -> Tensor:
    """Readings and gradients of a run with actions (T, B, A): (B, …)."""
    run = kind(stack, actions.shape[1], len(actions), actions, True, None)
    readings = [run.step(each) for each in actions]
    run.prepare_backward()
    return torch.cat([*readings, *(run.backward(each) for each in d_readings)], 1)
