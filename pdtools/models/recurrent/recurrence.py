"""A controller and its stack over a whole sequence: one node of the graph, its backward pass by hand."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from typing import Any

import torch
from torch import Tensor
from torch.autograd.function import once_differentiable

from pdtools.models.kernels.self_test import agrees
from pdtools.models.recurrent.controllers import CELLS, CellRun
from pdtools.models.recurrent.native_recurrence import (
    ONE_BACKWARD,
    native_bytes,
    native_sequence,
    native_takes,
)
from pdtools.models.recurrent.products import bias_gradient, times, weight_gradient
from pdtools.models.recurrent.stacks import NondeterministicStack, Stack, StackCarry, StackRun


@dataclass(frozen=True)
class Carry:
    """The state that a sequence leaves to the next one, without a graph.

    Attributes:
        hidden, memory: (B, H), the controller's.
        stack: None without a stack, or with an empty one.
    """

    hidden: Tensor
    memory: Tensor
    stack: StackCarry | None = None


@dataclass(frozen=True)
class Weights:
    """The weights used at every step, for one model, or M models read together (``products.py``).

    Attributes:
        recurrent: (G, H + R) or (M, G, H + R), the gates' weights of the hidden state and the reading.
        action: (A, H) or (M, A, H), the action layer; None without a stack.
        action_bias: (A,) or (M, 1, A).
    """

    recurrent: Tensor
    action: Tensor | None = None
    action_bias: Tensor | None = None


class SequenceRun:
    """Controllers and stacks of B rows, advanced in lock-step.

    At every step the actions of the last hidden state are done, and the controller reads the input with the
    stack's reading; so the actions of the very last hidden state are not done, except by :meth:`carried`.

    Args:
        controller: its kind.
        stack: or None.
        weights: the weights of controller and action layer.
        carry: the state to start from.
        steps: the maximal number of inputs.
        keep: whether there will be a backward pass.
    """

    def __init__(
        self, controller: str, stack: Stack | None, weights: Weights, carry: Carry, steps: int, *, keep: bool
    ) -> None:
        self.weights = weights
        self.stack = stack
        self.cell: CellRun = CELLS[controller](weights.recurrent, carry.hidden, carry.memory, keep)
        self.stack_run: StackRun | None = None
        if stack is not None:
            rows = len(carry.hidden)
            self.stack_run = stack.start(rows, steps, carry.hidden, keep=keep, carried=carry.stack)
        self._has_actions = False

    def step(self, inputs: Tensor) -> Tensor:
        """Return the hidden state (B, H) after one more input, given the input's part of the gates (B, G)."""
        self._act()
        self._has_actions = True
        return self.cell.step(inputs, None if self.stack_run is None else self.stack_run.reading)

    def actions(self) -> Tensor:
        """The actions of the hidden state, (B, A), with that state appended if the stack pushes it."""
        assert self.stack is not None
        assert self.weights.action is not None
        assert self.weights.action_bias is not None
        hidden = self.cell.hidden
        actions = times(hidden, self.weights.action.mT, self.weights.action_bias)
        return torch.cat([actions, hidden], 1) if self.stack.pushes_hidden else actions

    def _act(self) -> None:
        if self.stack_run is not None and self._has_actions:
            self.stack_run.step(self.actions())
            self._has_actions = False

    def select(self, rows: Tensor) -> None:
        """Go on with copies of the given rows: int64 (B',)."""
        self.cell.select(rows)
        if self.stack_run is not None:
            self.stack_run.select(rows)

    @property
    def nbytes(self) -> int:
        """The memory between steps, in bytes."""
        return 2 * self.cell.hidden.nbytes + (0 if self.stack_run is None else self.stack_run.nbytes)

    def carried(self) -> Carry:
        """Return the state for the next sequence, with the actions of the last hidden state done."""
        self._act()
        stack = None if self.stack_run is None else self.stack_run.carried()
        return Carry(self.cell.hidden.detach(), self.cell.memory.detach(), stack)

    def backward(self, d_hidden: Tensor) -> tuple[Tensor, Tensor | None]:
        """Gradients of all inputs (T, B, G), and of all actions that a reading was made with, (T - 1, B, A).

        Args:
            d_hidden: (T, B, H), the gradient of all hidden states.
        """
        recurrent, action = self.weights.recurrent, self.weights.action
        size = d_hidden.shape[2]
        d_inputs: list[Tensor] = []
        d_actions: list[Tensor] = []
        self.cell.prepare_backward()
        if self.stack_run is not None:
            self.stack_run.prepare_backward()
            if not self._has_actions:  # they were done for the next sequence: no gradient
                self.stack_run.backward(torch.zeros_like(self.stack_run.reading))
        d_next = torch.zeros_like(d_hidden[0])
        for t, d_own in reversed(list(enumerate(d_hidden.unbind()))):
            d_inputs.append(self.cell.backward(d_own + d_next))
            d_joined = times(d_inputs[-1], recurrent)  # (B, H + R)
            d_next = d_joined[:, :size]
            if t and self.stack_run is not None:
                assert action is not None
                d_action = self.stack_run.backward(d_joined[:, size:])
                d_actions.append(d_action[:, : action.shape[-2]])
                d_next = times(d_actions[-1], action, d_next)
                if d_action.shape[1] > action.shape[-2]:
                    d_next += d_action[:, action.shape[-2] :]
        return torch.stack(d_inputs[::-1]), torch.stack(d_actions[::-1]) if d_actions else None


class _Recurrence(torch.autograd.Function):
    """The hidden states of a run, (T, B, H)."""

    @staticmethod
    def forward(
        ctx: Any,
        inputs: Tensor,
        recurrent: Tensor,
        action: Tensor | None,
        action_bias: Tensor | None,
        run: SequenceRun,
    ) -> Tensor:
        hidden = torch.stack([run.step(part) for part in inputs])
        ctx.run = run
        ctx.save_for_backward(hidden)
        return hidden

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, d_hidden: Tensor) -> tuple[Tensor | None, ...]:
        (hidden,) = ctx.saved_tensors
        run, ctx.run = ctx.run, None
        if run is None:
            raise RuntimeError(ONE_BACKWARD)
        joined = torch.stack(run.cell.joined)  # (T, B, H + R)
        d_inputs, d_actions = run.backward(d_hidden)
        d_recurrent = weight_gradient(d_inputs, joined, run.weights.recurrent)
        action, bias = run.weights.action, run.weights.action_bias
        if action is None or bias is None:
            return d_inputs, d_recurrent, None, None, None
        if d_actions is None:  # one input, read with the first reading
            return d_inputs, d_recurrent, torch.zeros_like(action), torch.zeros_like(bias), None
        d_action = weight_gradient(d_actions, hidden[:-1], action)
        return d_inputs, d_recurrent, d_action, bias_gradient(d_actions, action), None


def run_sequence(
    controller: str,
    stack: Stack | None,
    weights: Weights,
    inputs: Tensor,
    carry: Carry,
    *,
    carries: bool = False,
) -> tuple[Tensor, Carry | None]:
    """Read a sequence with a controller and a stack.

    The graph goes through it once: gradients can be computed once, and not differentiated.

    Args:
        controller: its kind, see :data:`pdtools.models.recurrent.controllers.CELLS`.
        stack: or None.
        weights: the weights of controller and action layer.
        inputs: (T, B, G), the inputs' part of the gates; T at least 1.
        carry: the state to start from; it gets no gradient.
        carries: whether the sequence goes on.

    Returns:
        Hidden states (T, B, H), and the state for the next sequence, or None.
    """
    one_model = weights.recurrent.ndim == 2
    if one_model and not carries and carry.stack is None and row_by_row(controller, stack, carry.hidden):
        assert isinstance(stack, NondeterministicStack)
        assert weights.action is not None
        assert weights.action_bias is not None
        native = (inputs, weights.recurrent, weights.action, weights.action_bias)
        return native_sequence(stack, *native, carry.hidden, carry.memory), None
    return _lock_step(controller, stack, weights, inputs, carry, carries=carries)


def row_by_row(controller: str, stack: Stack | None, hidden: Tensor) -> bool:
    """Return whether sequences are read in C, one row after the other, from empty stacks on.

    Args:
        controller: its kind.
        stack: or None.
        hidden: (B, H), the controller's state.
    """
    return native_takes(controller, stack, hidden.shape[1], hidden.device) and _native_works()


def sequence_bytes(controller: str, stack: Stack, hidden: Tensor, steps: int) -> int:
    """Memory of each row of a sequence without a backward pass; see :func:`row_by_row`."""
    if row_by_row(controller, stack, hidden):
        assert isinstance(stack, NondeterministicStack)
        return native_bytes(stack, hidden.shape[1], steps)
    return stack.working_bytes(steps)


def _lock_step(
    controller: str, stack: Stack | None, weights: Weights, inputs: Tensor, carry: Carry, *, carries: bool
) -> tuple[Tensor, Carry | None]:
    keep = torch.is_grad_enabled()
    run = SequenceRun(controller, stack, weights, carry, len(inputs), keep=keep)
    hidden = _Recurrence.apply(inputs, weights.recurrent, weights.action, weights.action_bias, run)
    with torch.no_grad():
        return hidden, run.carried() if carries else None


@cache
def _native_works() -> bool:
    """Return whether whole sequences in C agree with the steps: tried once, in some 10 ms."""
    return agrees(_pairs, "recurrent models are", "in C", tolerance=1e-9)


def _pairs(random: torch.Generator) -> Iterator[tuple[Tensor, Tensor]]:
    def normal(*shape: int) -> Tensor:
        return torch.randn(shape, generator=random, dtype=torch.float64).requires_grad_()

    rows, steps, width = 2, 17, 3
    for states, symbols, normalized in ((2, 3, False), (3, 2, True)):
        stack = NondeterministicStack(
            states, symbols, unnormalized=not normalized, states_in_reading=not normalized, window=0
        )
        inputs = normal(steps, rows, 4 * width)
        recurrent = normal(4 * width, width + stack.reading_size)
        action, action_bias = normal(stack.action_size, width), normal(stack.action_size)
        hidden, memory = normal(rows, width).detach(), normal(rows, width).detach()
        weight = normal(steps, rows, width).detach()
        learned = (inputs, recurrent, action, action_bias)
        weights = Weights(recurrent, action, action_bias)
        plain, _ = _lock_step("lstm", stack, weights, inputs, Carry(hidden, memory), carries=False)
        ours = native_sequence(stack, *learned, hidden, memory)
        yield ours, plain
        both = [torch.autograd.grad((each * weight).sum(), learned) for each in (ours, plain)]
        yield from zip(*both, strict=True)
