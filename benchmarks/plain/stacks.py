"""Stack RNNs as the nondeterministic-stacks paper prints them, to measure pdtools against.

Autograd goes through every step. The nondeterministic stack is in log space, products of two tables being
sums and ``logsumexp``; Grefenstette's has its sums within sums. Weights and results are the given model's.
Nothing is limited in size (no window, no depth) but for superposition.
"""

from __future__ import annotations

from typing import Protocol

import torch
import torch.nn.functional as F
from torch import Tensor

from pdtools.models import Batch, RecurrentLM

# The logarithm of 0: finite, so that it has a gradient (of 0).
ZERO = -1e30


class PlainStack(Protocol):
    """A stack with a reading (B, R)."""

    reading: Tensor

    def step(self, actions: Tensor, hidden: Tensor) -> None:
        """Do the actions (B, A) of a hidden state (B, H)."""


class Stratification:
    """The stratification stack of appendix A.1."""

    def __init__(self, rows: int, size: int, like: Tensor) -> None:
        self.vectors: list[Tensor] = []
        self.strengths: list[Tensor] = []  # (B, 1) each
        self.reading = like.new_zeros(rows, size)

    def step(self, actions: Tensor, hidden: Tensor) -> None:
        """See :class:`PlainStack`."""
        pop, push = actions[:, :1].sigmoid(), actions[:, 1:2].sigmoid()
        strengths, above = [], torch.zeros_like(pop)
        for strength in reversed(self.strengths):
            strengths.append((strength - (pop - above).clamp(min=0)).clamp(min=0))
            above = above + strength
        self.strengths = [*reversed(strengths), push]
        self.vectors.append(actions[:, 2:].tanh())
        reading, above = torch.zeros_like(self.reading), torch.zeros_like(pop)
        for strength, vector in zip(reversed(self.strengths), reversed(self.vectors), strict=True):
            reading = reading + torch.minimum(strength, (1 - above).clamp(min=0)) * vector
            above = above + strength
        self.reading = reading


class StratificationByTensors:
    """The stack of appendix A.1 again, with a sum over all elements above as one cumulative sum."""

    def __init__(self, rows: int, size: int, like: Tensor) -> None:
        self.vectors = like.new_zeros(rows, 0, size)
        self.strengths = like.new_zeros(rows, 0)
        self.reading = like.new_zeros(rows, size)

    def step(self, actions: Tensor, hidden: Tensor) -> None:
        """See :class:`PlainStack`."""
        pop, push = actions[:, :1].sigmoid(), actions[:, 1:2].sigmoid()
        above = self._above()
        strengths = (self.strengths - (pop - above).clamp(min=0)).clamp(min=0)
        self.strengths = torch.cat([strengths, push], 1)
        self.vectors = torch.cat([self.vectors, actions[:, None, 2:].tanh()], 1)
        shares = torch.minimum(self.strengths, (1 - self._above()).clamp(min=0))  # (B, t)
        self.reading = (shares[:, :, None] * self.vectors).sum(1)

    def _above(self) -> Tensor:
        return self.strengths.flip(1).cumsum(1).flip(1) - self.strengths


class Superposition:
    """The superposition stack of appendix A.2."""

    def __init__(self, rows: int, size: int, like: Tensor, depth: int, push: str) -> None:
        self.depth = depth
        self.push = push
        self.cells = like.new_zeros(rows, 0, size)
        self.reading = like.new_zeros(rows, size)

    def step(self, actions: Tensor, hidden: Tensor) -> None:
        """See :class:`PlainStack`."""
        push, noop, pop = actions[:, :3].softmax(1)[:, :, None, None].unbind(1)
        made = {"hidden": hidden, "linear": actions[:, 3:], "learned": actions[:, 3:].sigmoid()}
        pushed = made[self.push][:, None]  # (B, 1, M)
        size = self.cells.shape[1]
        cells = (
            push * torch.cat([pushed, self.cells], 1)
            + noop * F.pad(self.cells, (0, 0, 0, 1))
            + pop * F.pad(self.cells[:, 1:], (0, 0, 0, min(size + 1, 2)))
        )
        self.cells = cells[:, : self.depth] if self.depth else cells
        self.reading = self.cells[:, 0]


class Nondeterministic:
    """The nondeterministic stack, equations 1 to 5 in log space; configurations are symbol · Q + state.

    Args:
        plainest: the sum over k, u, s and z of equation 2 as one, O(Q⁴S³n³); else in two, the cheaper order.
    """

    def __init__(self, model: RecurrentLM, rows: int, like: Tensor, *, plainest: bool = False) -> None:
        config = model.config
        self.q, self.s = config.stack_states, config.stack_symbols
        self.c = self.q * self.s
        self.unnormalized = config.stack_unnormalized
        self.states_in_reading = config.stack_states_in_reading
        self.plainest = plainest
        alpha = like.new_full((rows, self.c), ZERO)
        alpha[:, 0] = 0
        self.alphas = [alpha]  # (B, C)
        self.columns = [like.new_full((rows, 0, self.c, self.c), ZERO)]  # γ[· → t]: (B, i, c, c')
        self.reading = self._read(alpha)

    def _read(self, alpha: Tensor) -> Tensor:
        if not self.states_in_reading:
            alpha = alpha.unflatten(1, (self.s, self.q)).logsumexp(2)
        return alpha.softmax(1)

    def step(self, actions: Tensor, hidden: Tensor) -> None:
        """See :class:`PlainStack`."""
        q, s, c = self.q, self.s, self.c
        weights = actions.unflatten(1, (c, -1))  # (B, c, 2C + Q)
        if not self.unnormalized:
            weights = weights.log_softmax(2)
        push, replace, pop = weights.split([c, c, q], 2)
        t, previous = len(self.columns), self.columns[-1]  # (B, t - 1, c, z)
        column = (previous[:, :, :, :, None] + replace[:, None, None]).logsumexp(3)  # (B, t - 1, c, c')
        if t > 2:
            below = torch.stack([self._padded(k, t - 2) for k in range(1, t - 1)], 2)  # (B, i, k, c, (y, u))
            below = below.unflatten(4, (s, q))  # (B, i, k, c, y, u)
            column = torch.cat(
                [
                    torch.logaddexp(column[:, :-1], self._popped(below, previous, pop)),
                    column[:, -1:],
                ],
                1,
            )
        column = torch.cat([column, push[:, None]], 1)
        self.columns.append(column)
        alphas = torch.stack(self.alphas, 1)  # (B, t, c)
        self.alphas.append((alphas[:, :, :, None] + column).logsumexp((1, 2)))
        self.reading = self._read(self.alphas[-1])

    def _padded(self, k: int, times: int) -> Tensor:
        """γ[i → k] for ``times`` times i."""
        return F.pad(self.columns[k], (0, 0, 0, 0, 0, times - k), value=ZERO)

    def _popped(self, below: Tensor, previous: Tensor, pop: Tensor) -> Tensor:
        """The results of pops, (B, i, c, c')."""
        above = previous[:, 1:].unflatten(2, (self.s, self.q))  # (B, k, y, u, z)
        if self.plainest:
            terms = (
                below[:, :, :, :, :, :, None, None]  # (B, i, k, c, y, u, z, r)
                + above[:, None, :, None, :, :, :, None]
                + pop[:, None, None, None, None, None]
            )
            found = terms.logsumexp((2, 5, 6))  # (B, i, c, y, r)
        else:
            through = (above[:, :, :, :, :, None] + pop[:, None, None, None]).logsumexp(4)  # (B, k, y, u, r)
            found = (below[..., None] + through[:, None, :, None]).logsumexp((2, 5))  # (B, i, c, y, r)
        return found.flatten(3)


def plain_stack(model: RecurrentLM, rows: int, like: Tensor, *, plainest: bool = False) -> PlainStack | None:
    """The model's kind of stack, empty; ``plainest``: of two ways to write it down, the paper's."""
    config = model.config
    if config.stack == "nondeterministic":
        return Nondeterministic(model, rows, like, plainest=plainest)
    if config.stack == "superposition":
        size = config.hidden_size if config.stack_push == "hidden" else config.stack_vector
        return Superposition(rows, size, like, config.stack_depth, config.stack_push)
    if config.stack == "stratification":
        kind = Stratification if plainest else StratificationByTensors
        return kind(rows, config.stack_vector, like)
    return None


def torch_order(gates: Tensor) -> Tensor:
    """Gates (4H, …) in torch's order: input, forget, cell, output."""
    input_gate, forget, output, cell = gates.chunk(4)
    return torch.cat([input_gate, forget, cell, output])


def hidden_states(model: RecurrentLM, tokens: Tensor, *, plainest: bool = False) -> Tensor:
    """Hidden states after the tokens (B, T) from the empty state: (B, T, H)."""
    config, like = model.config, model.hidden_weight
    hidden = memory = like.new_zeros(len(tokens), config.hidden_size)
    stack = plain_stack(model, len(tokens), like, plainest=plainest)
    input_weight = model.input_weight
    if model.reading_weight is not None:
        input_weight = torch.cat([input_weight, model.reading_weight], 1)
    weights = [input_weight, model.hidden_weight, model.input_bias, model.hidden_bias]
    if config.controller == "lstm":
        weights = [torch_order(weight) for weight in weights]
    states = []
    for t in range(tokens.shape[1]):
        if model.embedding is None:
            x = F.one_hot(tokens[:, t], config.vocab_size).to(like.dtype)
        else:
            x = model.embedding(tokens[:, t])
        if stack is not None:
            if t:
                assert model.actions is not None
                stack.step(model.actions(hidden), hidden)
            x = torch.cat([x, stack.reading], 1)
        if config.controller == "lstm":
            hidden, memory = torch.lstm_cell(x, (hidden, memory), *weights)
        else:
            cell = torch.rnn_relu_cell if config.controller == "rnn-relu" else torch.rnn_tanh_cell
            hidden = cell(x, hidden, *weights)
        states.append(hidden)
    return torch.stack(states, 1)


def loss(model: RecurrentLM, batch: Batch, *, plainest: bool = False) -> Tensor:
    """The sum of -log p of all tokens, as ``model.loss`` gives it; the first is predicted from h = 0."""
    hidden = hidden_states(model, batch.tokens[:, 1:-1], plainest=plainest)  # (B, N - 2, H)
    logits = model.output(F.pad(hidden, (0, 0, 1, 0)))  # (B, N - 1, V)
    nll = F.cross_entropy(logits.flatten(0, 1), batch.tokens[:, 1:].flatten(), reduction="none")
    return nll.view(len(batch.tokens), -1).masked_fill(~batch.predicted()[:, 1:], 0).sum()
