"""The interface of differentiable stacks: step by step from actions to a reading, with a backward pass."""

from __future__ import annotations

from abc import ABC, abstractmethod

import torch
from torch import Tensor

# The state that a run leaves for the next one to start from, by name.
StackCarry = dict[str, Tensor]


class StackRun(ABC):
    """One stack for each of B rows, advanced in lock-step.

    The gradient is written by hand, step by step in reverse, so that a step costs no graph, and terms that
    many steps add to one value are gathered by one product.

    Attributes:
        reading: (B, reading_size), the reading of the present stack.
    """

    reading: Tensor

    @abstractmethod
    def step(self, actions: Tensor) -> Tensor:
        """Do the actions (B, action_size), the controller's raw outputs, and return the new reading."""

    @abstractmethod
    def prepare_backward(self) -> None:
        """Prepare the backward pass: called once between the last step and the first :meth:`backward`."""

    @abstractmethod
    def backward(self, d_reading: Tensor) -> Tensor:
        """Return the gradient of the actions at the last step without a backward pass yet.

        Args:
            d_reading: (B, reading_size), the gradient of the reading that this step gave.

        Returns:
            (B, action_size).
        """

    @abstractmethod
    def select(self, rows: Tensor) -> None:
        """Go on with copies of the given rows: int64 (B',), in any order, repeats allowed."""

    @property
    @abstractmethod
    def nbytes(self) -> int:
        """Memory of the state between steps, without that for the backward pass."""

    def carried(self) -> StackCarry | None:
        """Return the state for a run over the next tokens, without a graph; None if it is empty."""
        return None


class Stack(ABC):
    """A kind of stack, with sizes but no weights.

    Attributes:
        action_size: the size of the controller's output that the actions are made from.
        reading_size: the size of a reading.
        pushes_hidden: whether the controller's hidden state is appended to the actions, to be pushed.
        layers: the layers that make the actions, in their order: the size of each one's output, and its gain
            in Glorot's initialization; empty if one layer makes them, which is not initialized so.
    """

    action_size: int
    reading_size: int
    pushes_hidden: bool = False
    layers: tuple[tuple[int, float], ...] = ()

    @abstractmethod
    def start(
        self, rows: int, steps: int, like: Tensor, *, keep: bool, carried: StackCarry | None = None
    ) -> StackRun:
        """Return empty stacks, or the stacks that another run ended with.

        Args:
            rows: B.
            steps: the maximal number of steps of this run.
            like: a tensor with the device and dtype of the actions.
            keep: whether there will be a backward pass.
            carried: from :meth:`StackRun.carried`.
        """

    def working_bytes(self, steps: int) -> int:
        """Memory of one row of a run without a backward pass, in bytes."""
        with torch.device("meta"):
            return self.start(1, steps, torch.empty(0), keep=False).nbytes
