"""Tiny action models and random trees; a stack's states, step by step."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import torch
from hypothesis import strategies as st

from pdtools.models import build_model, make_config
from pdtools.models.grammar.model import GrammarLM
from pdtools.trees import Constituents
from pdtools.trees.actions import ActionIds

# Every kind of model, with every way to know positions.
KINDS = [
    ("tg", "relative"),
    ("plm", "relative"),
    ("plm", "learned"),
    ("plm", "alibi"),
    ("plm", "none"),
    ("plm-mask", "learned"),
    ("plm-mask", "none"),
]


def action_model(
    name: str,
    positions: str,
    *,
    labels: int = 2,
    max_open: int = 2,
    words: int = 3,
    zero: bool = False,
    seed: int = 0,
    **settings: object,
) -> GrammarLM:
    """A model whose tokens are 3, 4, …, after the special ones; with ``zero``, allowed actions are equally
    likely."""
    torch.manual_seed(seed)
    special = {"vocab_size": 3 + words, "pad_id": 0, "root_id": 1, "eos_id": 2}
    shape = {"layers": 2, "d_model": 16, "heads": 4, "d_ff": 32, "n_labels": labels, "max_open": max_open}
    config = make_config(name, {**special, **shape, "positions": positions, **settings})
    model = build_model(name, config).eval()
    assert isinstance(model, GrammarLM)
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.zero_() if zero else parameter.normal_(std=0.3)
    return model


@st.composite
def constituents(draw: st.DrawFn, labels: int = 3, most: int = 6) -> tuple[list[int], Constituents]:
    """Tokens 3, 4, … and a random tree over them, with unary chains."""
    found = Builder(draw, labels, most)
    found.constituent(0)
    n = len(found.tokens)
    return found.tokens, Constituents(
        np.array(found.labels, np.int32),
        np.array(found.opens[:n], np.int32),
        np.array(found.closes[:n], np.int32),
    )


class Builder:
    """Draws a tree from the top."""

    def __init__(self, draw: st.DrawFn, labels: int, most: int) -> None:
        self.draw, self.n_labels, self.most = draw, labels, most
        self.tokens: list[int] = []
        self.labels: list[int] = []
        self.opens, self.closes = [0] * 99, [0] * 99

    def constituent(self, depth: int) -> None:
        """One constituent with some children."""
        self.labels.append(self.draw(st.integers(0, self.n_labels - 1)))
        self.opens[len(self.tokens)] += 1
        for _ in range(self.draw(st.integers(1, 3))):
            if depth < 3 and len(self.tokens) < self.most and self.draw(st.booleans()):
                self.constituent(depth + 1)
            else:
                self.tokens.append(self.draw(st.integers(3, 5)))
        self.closes[len(self.tokens) - 1] += 1


def plain_actions(tokens: Sequence[int], tree: Constituents, ids: ActionIds, start: int) -> list[int]:
    """The sequence of actions, one after the other."""
    actions, path, labels = [start], list[int](), iter(tree.labels.tolist())
    for token, opens, closes in zip(tokens, tree.opens, tree.closes, strict=True):
        for _ in range(opens):
            path.append(next(labels))
            actions.append(ids.tokens + path[-1])
        actions.append(token)
        for _ in range(closes):
            closer = ids.first_closer + (path[-1] if ids.typed else 0)
            path.pop()
            actions += [closer] * (2 if ids.doubled else 1)
    return actions


def stack_of_transformer_grammar(actions: Sequence[int], ids: ActionIds) -> tuple[list[set[int]], list[int]]:
    """The positions that each position sees, and its depth, by keeping a stack of positions."""
    stack: list[int] = []
    open_at: list[int] = []  # heights of the stack below open constituents
    sees, depths = [], []
    i = 0
    while i < len(actions):
        if actions[i] < ids.first_closer:
            sees.append({*stack, i})
            opening = actions[i] >= ids.tokens
            if opening:
                open_at.append(len(stack))
            depths.append(len(open_at) + (not opening and i > 0))
            stack.append(i)
            i += 1
            continue
        height = open_at.pop()
        sees.append({*stack[height:], i})
        stack[height:] = [i]
        sees.append({*stack, i + 1})
        depths += [len(open_at) + 1] * 2
        i += 2
    return sees, depths


def innermost_openers(actions: Sequence[int], ids: ActionIds) -> list[int]:
    """The opener of the innermost open constituent after each action; -1 for none."""
    path, found = list[int](), []
    for i, action in enumerate(actions):
        if ids.tokens <= action < ids.first_closer:
            path.append(i)
        elif action >= ids.first_closer:
            path.pop()
        found.append(path[-1] if path else -1)
    return found
