"""The heaviest run of a pushdown automaton: Lang's algorithm with the maximum in place of the sum."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]


@dataclass(frozen=True)
class RunStep:
    """A transition of a run, and the automaton after it.

    Attributes:
        kind: "push", "replace" or "pop".
        state: the automaton's state afterwards.
        stack: its symbols afterwards, the bottom one (0) first.
    """

    kind: str
    state: int
    stack: tuple[int, ...]


@dataclass(frozen=True)
class HeaviestRun:
    """The heaviest run of a pushdown automaton.

    Attributes:
        log_weight: the sum of the logarithms of its transitions' weights.
        steps: its transitions.
    """

    log_weight: float
    steps: tuple[RunStep, ...]


def heaviest_run(log_weights: Array, states: int, symbols: int, window: int = 0) -> HeaviestRun:
    """Return the heaviest of all runs over a whole sequence.

    Args:
        log_weights: (T, C, 2C + Q), of each step's transitions: for every configuration (symbol · Q + state)
            the pushes and replacements by the configuration they lead to, and the pops by the state.
        states: Q.
        symbols: S, the bottom one included.
        window: D of the memory-limited stack: ways over more than D times do not count; 0 for no limit.
    """
    tables = _Tables(log_weights, states, symbols, window)
    end = len(log_weights)
    c = int(tables.alpha[end].argmax())
    best = float(tables.alpha[end][c])
    moves: list[tuple[str, int]] = []  # kind and configuration, last first
    while end:
        begin, before = tables.alpha_from[end][c]
        tables.unfold(begin, end, before, c, moves)
        end, c = begin, before
    stack, steps = [0], []
    for kind, configuration in reversed(moves):
        symbol, state = divmod(configuration, states)
        if kind != "push":
            stack.pop()
        if kind != "pop":
            stack.append(symbol)
        steps.append(RunStep(kind, state, tuple(stack)))
    return HeaviestRun(best, tuple(steps))


class _Tables:
    """Heaviest ways between configurations, and their backpointers.

    Attributes:
        alpha: for each time (C,), the weight of the heaviest run to each configuration.
        alpha_from: for each time and configuration, the time and configuration below the top symbol.
    """

    def __init__(self, log_weights: Array, states: int, symbols: int, window: int) -> None:
        self.states = states
        c, n = states * symbols, len(log_weights)
        self.gamma = np.full((n + 1, n + 1, c, c), -np.inf)  # γ[i, t][c, c']
        # Backpointers: for a replacement the configuration before, for a pop the time k and both
        # configurations; -1 if there is none.
        self.replaced = np.full((n + 1, n + 1, c, c), -1)
        self.popped = np.full((n + 1, n + 1, c, c, 3), -1)
        self.alpha = np.full((n + 1, c), -np.inf)
        self.alpha[0, 0] = 0.0
        self.alpha_from: list[list[tuple[int, int]]] = [[(0, 0)] * c]
        for t in range(1, n + 1):
            push, replace, pop = np.split(log_weights[t - 1], [c, 2 * c], axis=1)
            self.gamma[t - 1, t] = push
            first = max(0, t - window) if window else 0
            for i in range(first, t - 1):
                ways = self.gamma[i, t - 1][:, :, None] + replace  # (c, s, c')
                self.gamma[i, t], self.replaced[i, t] = ways.max(1), ways.argmax(1)
            self._pop(t, first, pop)
            totals = (self.alpha[:t, :, None] + self.gamma[:t, t]).reshape(t * c, c)
            self.alpha[t] = totals.max(0)
            self.alpha_from.append([divmod(int(best), c) for best in totals.argmax(0)])

    def _pop(self, t: int, first: int, pop: Array) -> None:
        """Ways from time ``first`` or later that end with a pop at time t, where they are heavier."""
        q = self.states
        for k in range(first + 1, t - 1):
            ways = self.gamma[k, t - 1][:, :, None] + pop  # ((y, u), s, r)
            through, last = ways.max(1), ways.argmax(1)  # ((y, u), r)
            for u in range(q):
                # The symbol y that is uncovered was put there in state u: (i, c, y, 1) + (y, r).
                total = self.gamma[first:k, k][:, :, u::q, None] + through[u::q]  # (i, c, y, r)
                total = total.reshape(*total.shape[:2], -1)  # (i, c, c')
                better = total > self.gamma[first:k, t]
                i, c, after = np.nonzero(better)
                i += first
                self.gamma[i, t, c, after] = total[better]
                between = after // q * q + u
                self.replaced[i, t, c, after] = -1
                self.popped[i, t, c, after, 0] = k
                self.popped[i, t, c, after, 1] = between
                self.popped[i, t, c, after, 2] = last[between, after % q]

    def unfold(self, i: int, t: int, c: int, after: int, moves: list[tuple[str, int]]) -> None:
        """Append the moves of the heaviest way from (i, c) to (t, after), the last one first."""
        ways = [(i, t, c, after)]
        while ways:
            i, t, c, after = ways.pop()
            if i == t - 1:
                moves.append(("push", after))
            elif self.replaced[i, t, c, after] >= 0:
                moves.append(("replace", after))
                ways.append((i, t - 1, c, int(self.replaced[i, t, c, after])))
            else:
                k, between, last = self.popped[i, t, c, after].tolist()
                moves.append(("pop", after))
                ways += [(i, k, c, between), (k, t - 1, between, last)]
