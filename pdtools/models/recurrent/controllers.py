"""Recurrent cells with the backward pass written by hand: an LSTM, and simple networks (Elman, 1990)."""

from __future__ import annotations

from abc import ABC, abstractmethod

import torch
from torch import Tensor

from pdtools.models.recurrent.products import times

GATES = {"lstm": 4, "rnn": 1, "rnn-relu": 1}


class CellRun(ABC):
    """A recurrent cell for each of B rows, advanced in lock-step.

    Args:
        weight: (G, H + R) or (M, G, H + R), the weight of the hidden state and the reading.
        hidden: (B, H), at the start.
        memory: (B, H), the LSTM's c at the start; other cells only carry it.
        keep: whether there will be a backward pass.
    """

    def __init__(self, weight: Tensor, hidden: Tensor, memory: Tensor, keep: bool) -> None:
        self._transposed = weight.mT.contiguous()
        self.hidden = hidden
        self.memory = memory
        self.keep = keep
        self.joined: list[Tensor] = []  # for every step (B, H + R)

    @abstractmethod
    def step(self, inputs: Tensor, reading: Tensor | None) -> Tensor:
        """Return the next hidden state (B, H), from the input's part of the gates (B, G) and the reading."""

    @abstractmethod
    def prepare_backward(self) -> None:
        """Prepare the backward pass: called once between the last step and the first :meth:`backward`."""

    @abstractmethod
    def backward(self, d_hidden: Tensor) -> Tensor:
        """Return the gradient of the gates' inputs (B, G) at the last step without a backward pass yet."""

    def select(self, rows: Tensor) -> None:
        """Go on with copies of the given rows."""
        self.hidden, self.memory = self.hidden[rows], self.memory[rows]

    def _gates(self, inputs: Tensor, reading: Tensor | None) -> Tensor:
        joined = self.hidden if reading is None else torch.cat([self.hidden, reading], 1)  # (B, H + R)
        if self.keep:
            self.joined.append(joined)
        return times(joined, self._transposed, inputs)  # (B, G)


class LSTMRun(CellRun):
    """The LSTM of Hochreiter and Schmidhuber (1997), with input, forget, output and cell gates."""

    def __init__(self, weight: Tensor, hidden: Tensor, memory: Tensor, keep: bool) -> None:
        super().__init__(weight, hidden, memory, keep)
        self._steps: list[tuple[Tensor, Tensor, Tensor]] = []

    def step(self, inputs: Tensor, reading: Tensor | None) -> Tensor:
        """See :meth:`CellRun.step`."""
        gates = self._gates(inputs, reading)
        size = self.hidden.shape[1]
        gates[:, : 3 * size].sigmoid_()
        gates[:, 3 * size :].tanh_()
        input_gate, forget, output, cell = gates.chunk(4, 1)  # (B, H)
        memory = torch.addcmul(forget * self.memory, input_gate, cell)
        squashed = memory.tanh()
        if self.keep:
            self._steps.append((gates, self.memory, squashed))
        self.memory = memory
        self.hidden = output * squashed
        return self.hidden

    def prepare_backward(self) -> None:
        """See :meth:`CellRun.prepare_backward`."""
        gates, before, squashed = (torch.stack(parts) for parts in zip(*self._steps, strict=True))
        input_gate, forget, output, cell = gates.chunk(4, 2)  # (T, B, H)
        # The factors of dc, or for the output gate of dh.
        factors = [
            cell * input_gate * (1 - input_gate),
            before * forget * (1 - forget),
            squashed * output * (1 - output),
            input_gate * (1 - cell * cell),
        ]
        # For every step (B, 4, H), (B, H) and (B, H).
        self._factors = torch.stack(factors, 2).unbind()
        self._d_memory_of_hidden = (output * (1 - squashed * squashed)).unbind()
        self._forget = forget.unbind()
        self._d_memory = torch.zeros_like(self.memory)

    def backward(self, d_hidden: Tensor) -> Tensor:
        """See :meth:`CellRun.backward`."""
        self._steps.pop()
        t = len(self._steps)
        factors = self._factors[t]  # (B, 4, H)
        d_memory = torch.addcmul(self._d_memory, d_hidden, self._d_memory_of_hidden[t])
        d_gates = factors * d_memory[:, None]
        torch.mul(factors[:, 2], d_hidden, out=d_gates[:, 2])
        self._d_memory = d_memory * self._forget[t]
        return d_gates.flatten(1)


class SimpleRun(CellRun):
    """A simple recurrent cell, h = f(inputs + W [h; r])."""

    def __init__(self, weight: Tensor, hidden: Tensor, memory: Tensor, keep: bool) -> None:
        super().__init__(weight, hidden, memory, keep)
        self._steps: list[Tensor] = []

    def step(self, inputs: Tensor, reading: Tensor | None) -> Tensor:
        """See :meth:`CellRun.step`."""
        self.hidden = self._activate(self._gates(inputs, reading))
        if self.keep:
            self._steps.append(self.hidden)
        return self.hidden

    def prepare_backward(self) -> None:
        """See :meth:`CellRun.prepare_backward`."""

    def backward(self, d_hidden: Tensor) -> Tensor:
        """See :meth:`CellRun.backward`."""
        return d_hidden * self._slope(self._steps.pop())

    @abstractmethod
    def _activate(self, gates: Tensor) -> Tensor:
        """Apply f in place."""

    @abstractmethod
    def _slope(self, hidden: Tensor) -> Tensor:
        """The derivative f', from the value of f."""


class TanhRun(SimpleRun):
    """A simple cell with f = tanh."""

    def _activate(self, gates: Tensor) -> Tensor:
        return gates.tanh_()

    def _slope(self, hidden: Tensor) -> Tensor:
        return 1 - hidden * hidden


class ReLURun(SimpleRun):
    """A simple cell with f = max(0, ·)."""

    def _activate(self, gates: Tensor) -> Tensor:
        return gates.relu_()

    def _slope(self, hidden: Tensor) -> Tensor:
        return (hidden > 0).to(hidden.dtype)


CELLS: dict[str, type[CellRun]] = {"lstm": LSTMRun, "rnn": TanhRun, "rnn-relu": ReLURun}
