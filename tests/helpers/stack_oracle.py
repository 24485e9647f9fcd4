"""Differentiable stacks by enumeration: every run of the automaton, one by one."""

from __future__ import annotations

import torch
from torch import Tensor

Stack = tuple[int, ...]


def enumerated_alphas(weights: Tensor, states: int, symbols: int) -> list[Tensor]:
    """Total weight of the runs that lead to each configuration at every time: t + 1 vectors (C,).

    A run starts in state 0 with symbol 0, the bottom, which is never replaced, popped, or uncovered again.

    Args:
        weights: (T, C, 2C + Q), of one row's transitions: a configuration's pushes, replacements and pops.
            Configurations are numbered symbol · Q + state.
    """
    c = states * symbols
    runs: dict[tuple[int, Stack], Tensor] = {(0, (0,)): weights.new_ones(())}
    alphas = [totals(runs, states, c, weights)]
    for step in weights:
        following: dict[tuple[int, Stack], Tensor] = {}
        for (state, stack), weight in runs.items():
            row = step[stack[-1] * states + state]
            moves = [((new % states, (*stack, new // states)), row[new]) for new in range(c)]
            if len(stack) > 1:
                moves += [((new % states, (*stack[:-1], new // states)), row[c + new]) for new in range(c)]
            if len(stack) > 2:
                moves += [((new, stack[:-1]), row[2 * c + new]) for new in range(states)]
            for key, factor in moves:
                following[key] = following.get(key, 0) + weight * factor
        runs = following
        alphas.append(totals(runs, states, c, weights))
    return alphas


def totals(runs: dict[tuple[int, Stack], Tensor], states: int, c: int, like: Tensor) -> Tensor:
    """Weights of the configurations, (C,)."""
    found = [like.new_zeros(()) for _ in range(c)]
    for (state, stack), weight in runs.items():
        found[stack[-1] * states + state] = found[stack[-1] * states + state] + weight
    return torch.stack(found)


def best_run(
    weights: Tensor, states: int, symbols: int, window: int = 0
) -> tuple[float, list[tuple[int, Stack]]]:
    """The heaviest run and its log-weight: state and stack at every time. Found by following every run.

    With a window, the top symbol at a time t was put on a symbol that was on top at t - window or later.
    """
    c = states * symbols
    best = (-float("inf"), [(0, (0,))])

    def follow(total: float, path: list[tuple[int, Stack]], since: Stack, t: int) -> None:
        nonlocal best
        if window and t - since[-1] > window:
            return
        if t == len(weights):
            if total > best[0]:
                best = (total, path)
            return
        state, stack = path[-1]
        row = weights[t][stack[-1] * states + state].log().tolist()
        for new in range(c):
            after = (new % states, (*stack, new // states))
            follow(total + row[new], [*path, after], (*since, t), t + 1)
        if len(stack) > 1:
            for new in range(c):
                after = (new % states, (*stack[:-1], new // states))
                follow(total + row[c + new], [*path, after], since, t + 1)
        if len(stack) > 2:
            for new in range(states):
                follow(total + row[2 * c + new], [*path, (new, stack[:-1])], since[:-1], t + 1)

    follow(0.0, [(0, (0,))], (0,), 0)
    return best
