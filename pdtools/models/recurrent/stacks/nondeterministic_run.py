"""The stack of DuSell and Chiang (2020, 2022): all runs of a pushdown automaton, by Lang's algorithm.

Times are 0, …, n; time 0 is before the first step. A *configuration* at a time is the automaton's state with
the symbol on top, numbered ``c = symbol · Q + state``; at time 0 it is c = 0, the bottom symbol, which is
never uncovered again. α[t][c] is the weight of all runs that lead to c, and γ[i → t][c → c'] the weight of
all ways from c at time i to c' at time t that leave one symbol more on the stack, and the rest untouched.

Nothing is computed in log space. The values kept are α divided by its sum, and instead of γ

    P[i → t][c → c'] = α[i][c] · γ[i → t][c → c'] / α[t][c'],

of the runs that lead to c' the share whose topmost symbol lies on configuration c of time i. For given t and
c' these are probabilities. Shares below 1e-200 underflow and are excluded: that is exact unless later steps
give just those runs e^460 times the weight of the others, as logits with a standard deviation of 225 can
(trained models' have 4 to 8). The recursion of γ holds for P with the weights of each step divided
accordingly:

    G[i → t] = (push, i = t - 1)     α[t-1][c] Δ[t][c → push c']
             + (replace)             Σ_s P[i → t-1][c → s] α[t-1][s] Δ[t][s → replace c']
             + (pop, i < k < t - 1)  Σ_k Σ_u P[i → k][c → (y, u)] γ'[k][(y, u) → r],   c' = (y, r)
    γ'[k][c → r] = Σ_s P[k → t-1][c → s] α[t-1][s] Δ[t][s → pop, r]
    α[t][c'] = Σ_i Σ_c G[i → t][c → c'],   P[i → t] = G[i → t] / α[t].

The divisors are constants that cancel in every reading, so the backward pass treats them as such.
"""

from __future__ import annotations

from abc import abstractmethod
from dataclasses import dataclass
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

from pdtools.models.recurrent.stacks.base import StackCarry, StackRun

# Shares below this are taken for 0, before arithmetic with them becomes slow (denormal numbers) or inexact.
SMALLEST = 1e-200
# Times that are taken together in a product over pairs of times i < k: larger, and more of it is zeros.
CHUNK = 24
# The logarithm of the largest ratio of two transitions' weights that makes a difference.
FARTHEST = 600.0
# Times that a run without a backward pass has room for at first; then twice as many, and so on.
FIRST_ROOM = 8


class Automaton:
    """A pushdown automaton whose transitions the controller weights (DuSell and Chiang 2022).

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

    def log_weights(self, actions: Tensor) -> Tensor:
        """Logarithms of the transitions' weights: (B, action_size) to (B, S·Q, 2·S·Q + Q), float64.

        They are normalised by eq. 1 (NS), or as they are by section 3.1 (RNS).
        """
        logits = actions.unflatten(1, (self.configurations, -1)).double()
        return logits if self.unnormalized else logits.log_softmax(2)

    def d_actions(self, log_weights: Tensor, weighted: Tensor) -> Tensor:
        """The gradient of the actions, (B, action_size), from the gradient of the weights' logarithms."""
        if not self.unnormalized:
            weighted = weighted - log_weights.exp() * weighted.sum(2, keepdim=True)
        return weighted.flatten(1)

    def read(self, alpha: Tensor) -> Tensor:
        """The reading, from α whose sum is 1: (B, S · Q), float64; eq. 5, with states section 3.2."""
        return alpha if self.states_in_reading else alpha.unflatten(1, (self.symbols, self.states)).sum(2)

    def d_alpha(self, d_reading: Tensor, alpha: Tensor) -> Tensor:
        """The product α ⊙ dα of a normalised α, from its reading's gradient: (B, S · Q)."""
        d = d_reading.double()
        if not self.states_in_reading:
            d = d.repeat_interleave(self.states, 1)
        return alpha * (d - (alpha * d).sum(1, keepdim=True))


class NondeterministicRun(StackRun):
    """Operations that all ways to compute a run share; see the module and :class:`Automaton`.

    A run leaves to the next one its last times (m of them): ``columns`` (B · S, m · Q, m · S · Q), and
    ``alpha``.

    Attributes:
        time: t of the last step; times of an earlier run come first.
        columns: (B · S, n · Q, n · C), for times so far and some to come: P[i → t][c → (y, r)] at
            [b · S + y, t · Q + r, i · C + c].
        alpha: (B, C), at the last time, normalised.
        total, log_factor: (B, 1) and (B, 1, 1): the last step multiplied the weight of all runs by
            total · exp(log_factor).
    """

    def __init__(
        self,
        stack: Automaton,
        rows: int,
        steps: int,
        like: Tensor,
        keep: bool,
        carried: StackCarry | None,
    ) -> None:
        self.stack = stack
        self.keep = keep
        self.dtype = like.dtype
        q, c = stack.states, stack.configurations
        like = like.new_empty(0, dtype=torch.float64)
        if carried is not None and len(carried["alpha"]) != rows:
            raise ValueError(f"what {len(carried['alpha'])} rows left cannot be carried on by {rows}")
        before = 1 if carried is None else carried["columns"].shape[1] // q
        self._most = before + steps
        self.columns = self._room(like, rows, self._most if keep else min(self._most, before + FIRST_ROOM))
        if carried is None:
            self.alpha = like.new_zeros(rows, c)
            self.alpha[:, 0] = 1
        else:
            self.columns[:, : before * q, : before * c] = carried["columns"]
            self.alpha = carried["alpha"]
        self.total = self.alpha.sum(1, keepdim=True)
        self.log_factor = torch.zeros_like(self.total)[:, :, None]
        self.time = before - 1
        self._kept: list[Any] = []  # for the backward pass of each step
        self.reading = stack.read(self.alpha).to(self.dtype)

    def _room(self, like: Tensor, rows: int, times: int) -> Tensor:
        """Zeros for ``columns`` of this many times."""
        q, s, c = self.stack.states, self.stack.symbols, self.stack.configurations
        return like.new_zeros(rows * s, times * q, times * c)

    def _first_of(self, time: int) -> int:
        """The first i whose P[i → time] is kept: 0, or by the window of section 5.1 (memory-limited)."""
        return max(0, time - self.stack.window) if self.stack.window else 0

    def step(self, actions: Tensor) -> Tensor:
        """See :meth:`StackRun.step`."""
        if self.time + 1 == self._most:
            raise IndexError("the run has no room for another step")
        self.time += 1
        if self.time * self.stack.states == self.columns.shape[1]:
            self._grow()
        self._advance(actions)
        return self.reading

    @abstractmethod
    def _advance(self, actions: Tensor) -> None:
        """Compute P[· → time] and all other attributes but ``time``."""

    def _grow(self) -> None:
        """Make room for twice as many times."""
        q, c, had = self.stack.states, self.stack.configurations, self.time
        columns = self._room(self.columns, len(self.alpha), min(2 * had, self._most))
        columns[:, : had * q, : had * c] = self.columns
        self.columns = columns

    def backward(self, d_reading: Tensor) -> Tensor:
        """See :meth:`StackRun.backward`."""
        d_actions = self._retreat(d_reading)
        self.time -= 1
        return d_actions

    @abstractmethod
    def _retreat(self, d_reading: Tensor) -> Tensor:
        """Return the gradient of the actions of the step to ``time``."""

    def select(self, rows: Tensor) -> None:
        """See :meth:`StackRun.select`."""
        self.columns = self.columns.unflatten(0, (-1, self.stack.symbols))[rows].flatten(0, 1)
        self.alpha, self.reading = self.alpha[rows], self.reading[rows]

    @property
    def nbytes(self) -> int:
        """See :meth:`StackRun.nbytes`."""
        q, c = self.stack.states, self.stack.configurations
        # With room for all times, and for the copies that are made of it.
        return 2 * len(self.columns) * (self._most * q) * (self._most * c) * self.columns.itemsize

    def carried(self) -> StackCarry:
        """See :meth:`StackRun.carried`."""
        q, c = self.stack.states, self.stack.configurations
        end = self.time + 1
        low = max(0, end - self.stack.window) if self.stack.window else 0
        columns = self.columns[:, low * q : end * q, low * c : end * c]
        return {"columns": columns.detach().clone(), "alpha": self.alpha.detach()}

    def _column(self, time: int, first: int) -> Tensor:
        """P[first … → time] as (B, C, I, C): [b, c', i - first, c]."""
        q, c = self.stack.states, self.stack.configurations
        rows = self.columns[:, time * q : (time + 1) * q, first * c : time * c]  # (B · S, Q, I · C)
        return rows.reshape(len(self.alpha), c, -1, c)


@dataclass
class _Kept:
    """The values that the backward pass of step t needs."""

    log_weights: Tensor  # (B, c, 2C + Q), log Δ
    scaled: Tensor  # (B, c, 2C + Q), α[t-1] Δ
    alpha: Tensor  # (B, C), normalised
    inverse: Tensor  # (B, C), 1 / α, of α before it was normalised
    pops: Tensor | None  # (B · S, Q, K · Q), γ'


class TorchNondeterministicRun(NondeterministicRun):
    """A run of the nondeterministic stack by torch's operations, on any device."""

    def _advance(self, actions: Tensor) -> None:
        """Compute γ and α of a time (eq. 2 and eq. 4, as P; eq. 3 is how α starts): see the module."""
        stack, rows, t, first = self.stack, len(actions), self.time, self._first_of(self.time)
        q, s, c = stack.states, stack.symbols, stack.configurations
        log_weights = stack.log_weights(actions)  # (B, C, 2C + Q)
        # The heaviest transition from any possible configuration has weight 1: a factor of all runs.
        reached = log_weights + self.alpha.log()[:, :, None]
        self.log_factor = reached.amax((1, 2), keepdim=True)
        relative = (log_weights - self.log_factor).clamp(-FARTHEST, FARTHEST)
        scaled = self.alpha[:, :, None] * relative.exp()
        column = scaled.new_empty(rows, c, t - first, c)
        column[:, :, -1] = scaled[:, :, :c].transpose(1, 2)  # push
        pops = None
        if t - 1 > first:
            previous = self._column(t - 1, first)  # (B, C, t - 1 - first, C)
            moved = torch.bmm(scaled[:, :, c:].transpose(1, 2), previous.flatten(2))  # (B, C + Q, I · C)
            column[:, :, :-1] = moved[:, :c].unflatten(2, (-1, c))  # replace
            if t - 2 > first:
                pops = self._popping(moved, rows)  # (B · S, Q, K · Q), k from first + 1 to t - 2
                self._pop(pops, column, first)
        alpha = column.sum((2, 3))  # (B, C)
        self.total = alpha.sum(1, keepdim=True)
        self.alpha = alpha / self.total
        inverse = torch.where(self.alpha > SMALLEST, 1 / alpha, 0)
        column *= inverse[:, :, None, None]
        F.threshold(column, SMALLEST, 0.0, inplace=True)
        self.columns.view(rows, s, -1, q, self.columns.shape[2])[:, :, t, :, first * c : t * c] = column.view(
            rows, s, q, -1
        )
        if self.keep:
            self._kept.append(_Kept(log_weights, scaled, self.alpha, inverse, pops))
        self.reading = stack.read(self.alpha).to(self.dtype)

    def _popping(self, moved: Tensor, rows: int) -> Tensor:
        """γ' of a step as (B · S, Q, K · Q), from its products (B, C + Q, I · C)."""
        q, s, c = self.stack.states, self.stack.symbols, self.stack.configurations
        pops = moved[:, c:, c:].reshape(rows, q, -1, s, q)  # (B, r, K, y, u)
        return pops.permute(0, 3, 1, 2, 4).reshape(rows * s, q, -1)

    def _pop(self, pops: Tensor, column: Tensor, first: int) -> None:
        """Add the results of pops at time t to (B, C, I, C), i from ``first``."""
        q, c, t = self.stack.states, self.stack.configurations, self.time
        for low in range(first + 1, t - 1, CHUNK):
            high = min(low + CHUNK, t - 1)  # k from low to high - 1, so i up to high - 2
            below = self.columns[:, low * q : high * q, first * c : (high - 1) * c]
            part = pops[:, :, (low - first - 1) * q : (high - first - 1) * q]
            found = torch.bmm(part, below).view(len(column), c, -1, c)
            column[:, :, : high - 1 - first].add_(found)

    # --- the backward pass --------------------------------------------------------------------

    def prepare_backward(self) -> None:
        """See :meth:`StackRun.prepare_backward`."""
        rows, q, s, c = len(self.alpha), self.stack.states, self.stack.symbols, self.stack.configurations
        n = self.time + 1
        self.columns = self.columns[:, : n * q, : n * c]
        self._rows = self.columns.transpose(1, 2).contiguous()  # (B · S, n · C, n · Q)
        # The gradients of G, as ``columns``, and γ' of all steps: [b · S + y, k · Q + u, t · Q + r].
        self._d_columns = torch.zeros_like(self.columns)
        self._all_pops = self.columns.new_zeros(rows * s, n * q, n * q)
        self._d_alpha = self.columns.new_zeros(rows, n * c)
        self._d_column: Tensor | None = None

    def _retreat(self, d_reading: Tensor) -> Tensor:
        """See :class:`NondeterministicRun`."""
        rows, t, kept = len(d_reading), self.time, self._kept.pop()
        q, s, c = self.stack.states, self.stack.symbols, self.stack.configurations
        first = self._first_of(t)
        column = self._column(t, first)
        alpha = self._d_alpha[:, t * c : (t + 1) * c] + self.stack.d_alpha(d_reading, kept.alpha)
        self._d_alpha[:, first * c : t * c].add_(torch.bmm(alpha[:, None], column.flatten(2))[:, 0])
        gradient = alpha[:, :, None, None].expand_as(column).contiguous()  # by P[· → t], then by G[· → t]
        if self._d_column is not None:
            gradient[:, :, gradient.shape[2] - self._d_column.shape[2] :].add_(self._d_column)
            self._gather(gradient, first)
        gradient *= kept.inverse[:, :, None, None]
        self._d_columns.view(rows, s, -1, q, self.columns.shape[2])[:, :, t, :, first * c : t * c] = (
            gradient.view(rows, s, q, -1)
        )
        d_scaled = torch.zeros_like(kept.scaled)
        d_scaled[:, :, :c] = gradient[:, :, -1].transpose(1, 2)
        if t - 1 > first:
            previous = self._column(t - 1, first).flatten(2)  # (B, C, I · C)
            moved = previous.new_zeros(rows, c + q, t - 1 - first, c)  # the gradient of the products
            moved[:, :c] = gradient[:, :, :-1]
            if kept.pops is not None:
                d_pops = self._d_pops(gradient, first)  # (B · S, Q, K · Q)
                d_pops = d_pops.view(rows, s, q, -1, q).permute(0, 2, 3, 1, 4)  # (B, r, K, y, u)
                moved[:, c:, 1:] = d_pops.flatten(3)
                self._all_pops[:, (first + 1) * q : (t - 1) * q, t * q : (t + 1) * q] = kept.pops.transpose(
                    1, 2
                )
            d_scaled[:, :, c:] = torch.bmm(previous, moved.flatten(2).transpose(1, 2))
            self._d_column = torch.bmm(kept.scaled[:, :, c:], moved.flatten(2)).unflatten(2, (-1, c))
        else:
            self._d_column = column.new_zeros(rows, c, 0, c)
        return self.stack.d_actions(kept.log_weights, kept.scaled * d_scaled).to(self.dtype)

    def _gather(self, gradient: Tensor, first: int) -> None:
        """Add the part of later pops to the gradient of P[· → k], k the time of the backward pass."""
        q, c, k, n = self.stack.states, self.stack.configurations, self.time, self.columns.shape[1]
        last = min(n, (k - 1 + self.stack.window + 1) * q) if self.stack.window else n
        later = slice((k + 2) * q, max(last, (k + 2) * q))
        pops = self._all_pops[:, k * q : (k + 1) * q, later]  # (B · S, Q, T · Q)
        below = self._d_columns[:, later, first * c : k * c]  # (B · S, T · Q, I · C)
        gradient += torch.bmm(pops, below).view_as(gradient)

    def _d_pops(self, gradient: Tensor, first: int) -> Tensor:
        """The gradient of γ', (B · S, Q, K · Q), from the gradient of G: (B, C, I, C)."""
        q, s, c, t = self.stack.states, self.stack.symbols, self.stack.configurations, self.time
        rows = len(gradient)
        d_pops = gradient.new_zeros(rows * s, q, (t - 2 - first) * q)
        flat = gradient.view(rows * s, q, -1)  # (B · S, Q, I · C)
        for low in range(first, t - 2, CHUNK):
            high = min(low + CHUNK, t - 2)  # i from low to high - 1, so k from low + 1
            above = self._rows[:, low * c : high * c, (low + 1) * q : (t - 1) * q]
            part = flat[:, :, (low - first) * c : (high - first) * c]
            d_pops[:, :, (low - first) * q :].add_(torch.bmm(part, above))
        return d_pops
