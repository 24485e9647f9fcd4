"""What a differentiable stack offers: actions in, a reading out, step by step, and its backward pass."""

from __future__ import annotations

from abc import ABC, abstractmethod

import torch
from torch import Tensor


class StackRun(ABC):
    """One stack for each of B rows, moved on in lock-step.

    The gradient is written by hand, step by step in reverse, so that a step costs no graph, and what many
    steps add to one value is gathered by one product.

    Attributes:
        reading: (B, reading_size), of the stack as it is.
    """

    reading: Tensor

    @abstractmethod
    def step(self, actions: Tensor) -> Tensor:
        """Do the actions (B, action_size), the controller's raw outputs, and return the new reading."""

    @abstractmethod
    def prepare_backward(self) -> None:
        """To be called once between the last step and the first :meth:`backward`."""

    @abstractmethod
    def backward(self, d_reading: Tensor) -> Tensor:
        """The gradient of the actions of the last step that has had no backward pass yet.

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
        """Memory of what is kept between steps, without what the backward pass needs."""

    def carried(self) -> StackCarry | None:
        """What a run over the next tokens starts from, without a graph; None where there is nothing."""
        return None


class StackCarry(ABC):
    """What is left of a run, to start the next one from."""

    @abstractmethod
    def tensors(self) -> dict[str, Tensor]:
        """By name, to be saved."""


class Stack(ABC):
    """A kind of stack: it has sizes, and no weights.

    Attributes:
        action_size: numbers that the controller's actions are made from.
        reading_size: numbers in a reading.
        pushes_hidden: whether the controller's hidden state is appended to the actions, to be pushed.
        layers: the layers that make the actions, in their order: how many numbers each makes, and its gain
            in Glorot's initialization; none where they are one layer that is not initialized so.
    """

    action_size: int
    reading_size: int
    pushes_hidden: bool = False
    layers: tuple[tuple[int, float], ...] = ()

    @abstractmethod
    def start(
        self, rows: int, steps: int, like: Tensor, *, keep: bool, carried: StackCarry | None = None
    ) -> StackRun:
        """Empty stacks, or those that another run ended with.

        Args:
            rows: B.
            steps: the most steps of this run.
            like: whose device and dtype the actions have.
            keep: whether there will be a backward pass.
            carried: from :meth:`StackRun.carried`.
        """

    @abstractmethod
    def carry_of(self, tensors: dict[str, Tensor]) -> StackCarry:
        """The inverse of :meth:`StackCarry.tensors`."""

    def working_bytes(self, steps: int) -> int:
        """Memory of one row of a run without a backward pass."""
        with torch.device("meta"):
            return self.start(1, steps, torch.empty(0), keep=False).nbytes
