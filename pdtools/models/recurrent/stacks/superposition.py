"""The stack of Joulin and Mikolov (2015): the next stack is a mixture of pushed, unchanged and popped."""

from __future__ import annotations

from typing import Literal

import torch
import torch.nn.functional as F
from torch import Tensor

from pdtools.models.recurrent.stacks.base import Stack, StackCarry, StackRun


class SuperpositionStack(Stack):
    """The stack of appendix A.2 of the nondeterministic-stacks paper.

    ``s_t[i] = push · s_{t-1}[i - 1] + noop · s_{t-1}[i] + pop · s_{t-1}[i + 1]``, with the vector that step t
    pushes as the cell above the top, and cells below the bottom 0; the reading is the top cell.

    Args:
        size: M, the size of a cell.
        depth: the number of cells that are kept, vectors pushed beyond them are lost; 0 for no limit.
        push: the vector pushed. ``learned``: the logistic function of M of the actions; ``linear``: these as
            they are; ``hidden``: the controller's hidden state as it is.
    """

    def __init__(self, size: int, depth: int, push: Literal["learned", "linear", "hidden"]) -> None:
        self.size = size
        self.depth = depth
        self.pushes_hidden = push == "hidden"
        self.squashes = push == "learned"
        self.action_size = 3 + (0 if self.pushes_hidden else size)
        self.reading_size = size
        self.layers = ((3, 1.0),) if self.pushes_hidden else ((3, 1.0), (size, 1.0))

    def start(
        self, rows: int, steps: int, like: Tensor, *, keep: bool, carried: StackCarry | None = None
    ) -> SuperpositionRun:
        """See :meth:`Stack.start`. A carried stack without a limit grows by the steps of each run."""
        cells = like.new_zeros(rows, 0, self.size) if carried is None else carried["cells"]
        return SuperpositionRun(cells, self.depth or cells.shape[1] + steps, self.squashes, keep)


class SuperpositionRun(StackRun):
    """One stack for each of B rows, with as many cells as could have been reached so far.

    A run leaves its ``cells`` (B, n, M).

    Args:
        cells: (B, n, M), at the start, top first.
        depth: the maximal number of cells.
        squashes: whether pushed vectors go through the logistic function.
        keep: whether there will be a backward pass.
    """

    def __init__(self, cells: Tensor, depth: int, squashes: bool, keep: bool) -> None:
        self.depth = depth
        self.squashes = squashes
        self.keep = keep
        # (B, n + 3, M): the cells between the one that is pushed next and two zeros.
        self.framed = F.pad(cells, (0, 0, 1, 2))
        self.reading = self.framed[:, 1]
        self._steps: list[tuple[Tensor, Tensor]] = []

    def step(self, actions: Tensor) -> Tensor:
        """See :meth:`StackRun.step`; appendix A.2."""
        framed = self.framed
        pushed = actions[:, 3:]
        framed[:, 0] = pushed.sigmoid() if self.squashes else pushed
        mixture = actions[:, :3].softmax(1)  # (B, 3)
        n = min(framed.shape[1] - 2, self.depth)
        following = framed.new_empty(len(framed), n + 3, framed.shape[2])
        following[:, n + 1 :] = 0
        push, noop, pop = mixture.view(-1, 3, 1, 1).unbind(1)  # (B, 1, 1)
        cells = torch.mul(framed[:, :n], push, out=following[:, 1 : n + 1])  # (B, n, M)
        cells.addcmul_(framed[:, 1 : n + 1], noop).addcmul_(framed[:, 2 : n + 2], pop)
        if self.keep:
            self._steps.append((framed, mixture))
        self.framed = following
        self.reading = following[:, 1]
        return self.reading

    def prepare_backward(self) -> None:
        """See :meth:`StackRun.prepare_backward`."""
        self._d_framed = torch.zeros_like(self.framed)

    def backward(self, d_reading: Tensor) -> Tensor:
        """See :meth:`StackRun.backward`."""
        framed, mixture = self._steps.pop()
        rows, size = len(framed), framed.shape[2]
        n = self._d_framed.shape[1] - 3
        d_cells = self._d_framed[:, 1 : n + 1]  # (B, n, M)
        d_cells[:, 0].add_(d_reading)
        # The three stacks that were mixed, as one view: (B, 3, n, M).
        views = framed.as_strided((rows, 3, n, size), (framed.stride(0), size, size, 1))
        d_mixture = (views * d_cells[:, None]).sum((2, 3))  # (B, 3)
        d_logits = mixture * (d_mixture - (mixture * d_mixture).sum(1, keepdim=True))
        push, noop, pop = mixture.view(-1, 3, 1, 1).unbind(1)
        d_framed = torch.zeros_like(framed)
        torch.mul(d_cells, push, out=d_framed[:, :n])
        d_framed[:, 1 : n + 1].addcmul_(d_cells, noop)
        d_framed[:, 2 : n + 2].addcmul_(d_cells, pop)
        self._d_framed = d_framed
        d_pushed = d_framed[:, 0]
        if self.squashes:
            d_pushed = d_pushed * (framed[:, 0] * (1 - framed[:, 0]))
        return torch.cat([d_logits, d_pushed], 1)

    def select(self, rows: Tensor) -> None:
        """See :meth:`StackRun.select`."""
        self.framed = self.framed[rows]
        self.reading = self.framed[:, 1]

    @property
    def nbytes(self) -> int:
        """See :meth:`StackRun.nbytes`."""
        return len(self.framed) * (self.depth + 3) * self.framed.shape[2] * self.framed.itemsize

    def carried(self) -> StackCarry:
        """See :meth:`StackRun.carried`."""
        return {"cells": self.framed[:, 1:-2].detach().clone()}
