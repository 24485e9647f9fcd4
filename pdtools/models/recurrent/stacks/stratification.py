"""The stack of Grefenstette et al. (2015): vectors with a thickness, like the layers of a cake."""

from __future__ import annotations

import torch
from torch import Tensor

from pdtools.models.recurrent.stacks.base import Stack, StackCarry, StackRun

TANH_GAIN = 5 / 3


class StratificationStack(Stack):
    """A stack of vectors with thickness, in terms of the thickness above a layer.

    With ``A[i]`` the thickness of layer i and all above it, a pop of u makes it ``max(0, A[i] - u)``, and a
    push of d adds d; the reading takes ``min(A[i], 1) - min(A[i + 1], 1)`` of layer i. These are the
    equations of appendix A.1 of the nondeterministic-stacks paper, without their sums inside of sums.

    Args:
        size: M, the size of a layer's vector.
        depth: the number of topmost layers that are kept; 0 for no limit.
    """

    def __init__(self, size: int, depth: int) -> None:
        self.size = size
        self.depth = depth
        self.action_size = 2 + size
        self.reading_size = size
        self.layers = ((2, 1.0), (size, TANH_GAIN))

    def start(
        self, rows: int, steps: int, like: Tensor, *, keep: bool, carried: StackCarry | None = None
    ) -> StratificationRun:
        """See :meth:`Stack.start`."""
        return StratificationRun(self, rows, steps, like, keep, carried)


class StratificationRun(StackRun):
    """One stack for each of B rows; see :class:`StratificationStack`.

    Layer i is the one that was pushed at step i; layers of an earlier run come first. A run leaves the
    layers, from the bottom up: their ``vectors`` (B, n, M), and ``above`` (B, n).

    Attributes:
        vectors: (B, layers, M), with room for the layers of all steps.
        above: (B, layers + 1): A of each layer so far, the newest last, and a 0.
    """

    def __init__(
        self,
        stack: StratificationStack,
        rows: int,
        steps: int,
        like: Tensor,
        keep: bool,
        carried: StackCarry | None,
    ) -> None:
        before = 0 if carried is None else carried["above"].shape[1]
        self.stack = stack
        self.keep = keep
        self.vectors = like.new_zeros(rows, before + steps, stack.size)
        self.above = like.new_zeros(rows, before + 1)
        self.reading = like.new_zeros(rows, stack.size)
        if carried is not None:
            self.vectors[:, :before] = carried["vectors"]
            self.above[:, :-1] = carried["above"]
            self.reading = self._read(self._shares()[0], 0)
        self._before = before
        self._steps: list[tuple[Tensor, Tensor, Tensor]] = []

    def _first(self, layers: int) -> int:
        """The lowest layer that is kept, given the number of layers."""
        return max(0, layers - self.stack.depth) if self.stack.depth else 0

    def _shares(self) -> tuple[Tensor, Tensor]:
        """The shares of the layers in the reading, (B, layers), and min(A, 1), (B, layers + 1)."""
        reached = self.above.clamp(max=1)
        return reached[:, :-1] - reached[:, 1:], reached

    def _read(self, shares: Tensor, first: int) -> Tensor:
        """The reading (B, M) from shares of the layers from ``first`` on."""
        layers = self.vectors[:, first : first + shares.shape[1]]  # (B, n, M)
        return torch.bmm(shares[:, None], layers)[:, 0]

    def step(self, actions: Tensor) -> Tensor:
        """See :meth:`StackRun.step`; appendix A.1."""
        gates = actions[:, :2].sigmoid()  # (B, 2): u, d
        pushed = actions[:, 2:].tanh()  # (B, M)
        layers = self.above.shape[1]  # with the new one
        self.vectors[:, layers - 1] = pushed
        popped = (self.above - gates[:, :1]).clamp(min=0)  # (B, layers); the new layer's is 0
        above = self.above.new_zeros(len(popped), layers + 1)
        torch.add(popped, gates[:, 1:], out=above[:, :-1])
        first = self._first(layers)
        if first:
            above[:, :first] = above[:, first : first + 1]  # lost layers have no thickness
        self.above = above
        if self.keep:
            self._steps.append((gates, popped, above))
        shares, _ = self._shares()
        self.reading = self._read(shares[:, first:], first)
        return self.reading

    def prepare_backward(self) -> None:
        """See :meth:`StackRun.prepare_backward`."""
        taken = len(self._steps)
        self._d_above = torch.zeros_like(self.above)  # (B, layers + 1)
        # Rows t: the shares of all layers in step t's reading, and that reading's gradient.
        self._all_shares = self.vectors.new_zeros(len(self.above), taken, self.above.shape[1] - 1)
        self._all_d_readings = self.vectors.new_zeros(len(self.above), taken, self.stack.size)

    def backward(self, d_reading: Tensor) -> Tensor:
        """See :meth:`StackRun.backward`."""
        gates, popped, above = self._steps.pop()
        t = len(self._steps)
        layers = popped.shape[1]
        first = self._first(layers)
        reached = above.clamp(max=1)
        shares = reached[:, :-1] - reached[:, 1:]  # (B, layers); 0 for lost ones
        self._all_shares[:, t, :layers] = shares
        self._all_d_readings[:, t] = d_reading
        newest = layers - 1
        # All readings since have a share of the vector that this step pushed.
        d_pushed = torch.bmm(self._all_shares[:, None, t:, newest], self._all_d_readings[:, t:])[
            :, 0
        ]  # (B, M)
        pushed = self.vectors[:, newest]
        d_shares = torch.bmm(self.vectors[:, :layers], d_reading[:, :, None])[:, :, 0]  # (B, layers)
        d_reached = d_shares.clone()
        d_reached[:, 1:].sub_(d_shares[:, :-1])
        d_above = self._d_above[:, :layers] + d_reached * (above[:, :-1] < 1)
        if first:
            d_above[:, first].add_(d_above[:, :first].sum(1))
            d_above[:, :first] = 0
        d_popped = d_above * (popped > 0)
        d_gates = torch.stack([-d_popped.sum(1), d_above.sum(1)], 1)  # (B, 2)
        self._d_above = d_popped
        return torch.cat([d_gates * gates * (1 - gates), d_pushed * (1 - pushed * pushed)], 1)

    def select(self, rows: Tensor) -> None:
        """See :meth:`StackRun.select`."""
        self.vectors, self.above, self.reading = self.vectors[rows], self.above[rows], self.reading[rows]

    @property
    def nbytes(self) -> int:
        """See :meth:`StackRun.nbytes`."""
        return self.vectors.nbytes

    def carried(self) -> StackCarry:
        """See :meth:`StackRun.carried`."""
        first = self._first(self.above.shape[1] - 1)
        vectors = self.vectors[:, first : self.above.shape[1] - 1]
        return {"vectors": vectors.detach().clone(), "above": self.above[:, first:-1].detach().clone()}
