"""Arc-standard derivations one action at a time, and all derivations of a length; tiny models of them."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np
import torch

from pdtools.models import build_model, make_config
from pdtools.models.grammar.dependency import DependencyGrammarLM
from pdtools.trees.arc_standard import ArcActions

L, R, POP = "L", "R", "pop"


def sequences(words: int) -> list[list[str]]:
    """Every sequence of the actions GEN (``w``), ``L`` and ``R`` that makes one tree of this many words."""
    found: list[list[str]] = []

    def go_on(made: list[str], n_made: int, height: int) -> None:
        if n_made == words and height == 1:
            found.append(made)
        if n_made < words:
            go_on([*made, "w"], n_made + 1, height + 1)
        if height > 1:
            for arc in (L, R):
                go_on([*made, arc], n_made, height - 1)

    go_on([], 0, 0)
    return found


def heads_by_hand(sequence: Sequence[str]) -> tuple[int, ...]:
    """The heads that a sequence makes, by its stack."""
    stack: list[int] = []
    heads: dict[int, int] = {}
    n = 0
    for action in sequence:
        if action == "w":
            stack.append(n)
            n += 1
        else:
            top, second = stack.pop(), stack.pop()
            head, dependent = (top, second) if action == L else (second, top)
            heads[dependent] = head
            stack.append(head)
    return tuple(heads.get(word, -1) for word in range(n))


def projective_trees(words: int) -> list[tuple[int, ...]]:
    """Every projective tree of this many words, from all arrays of heads."""
    return [heads for heads in itertools.product(range(-1, words), repeat=words) if is_projective(heads)]


def is_projective(heads: Sequence[int]) -> bool:
    """Return whether heads make one tree, and each word between an arc's ends descends from its head."""
    if list(heads).count(-1) != 1:
        return False

    def ancestors(word: int) -> Iterator[int]:
        for _ in heads:
            if word >= 0:
                yield word
                word = heads[word]

    if any(list(heads).index(-1) not in ancestors(word) for word in range(len(heads))):
        return False
    return all(
        head in ancestors(between)
        for word, head in enumerate(heads)
        if head >= 0
        for between in range(min(word, head), max(word, head))
    )


def oracle_by_hand(heads: Sequence[int]) -> list[str]:
    """The static oracle, one action at a time."""
    stack: list[int] = []
    waiting = [list(heads).count(word) for word in range(len(heads))]
    made: list[str] = []
    n = 0
    while n < len(heads) or len(stack) > 1:
        has_two = len(stack) > 1
        top, second = stack[-2:][::-1] if has_two else (-1, -1)
        if has_two and heads[second] == top:
            made.append(L)
            del stack[-2]
            waiting[top] -= 1
        elif has_two and heads[top] == second and not waiting[top]:
            made.append(R)
            stack.pop()
            waiting[second] -= 1
        else:
            made.append("w")
            stack.append(n)
            n += 1
    return made


def as_actions(sequence: Sequence[str], chunks: Sequence[int] | None = None) -> ArcActions:
    """A sequence as :class:`ArcActions`, for words with these numbers of tokens."""
    begins, arcs, left = list[bool](), list[int](), list[bool]()
    counts = iter(chunks or [1] * len(sequence))
    for action in sequence:
        if action == "w":
            more = next(counts)
            begins += [True, *[False] * (more - 1)]
            arcs += [0] * more
        else:
            arcs[-1] += 1
            left.append(action == L)
    return ArcActions(np.array(begins, bool), np.array(arcs, np.int32), np.array(left, bool))


class Position(NamedTuple):
    """One position of a row.

    Attributes:
        action: a token (its number), or ``L``, ``R``, ``pop``.
        head: the token of the head of an arc; None for tokens.
        sees: relative positions, by the positions that it sees.
        n_words: words on the stack after it.
    """

    action: int | str
    head: int | None
    sees: dict[int, int]
    n_words: int


def positions_by_hand(tokens: Sequence[int], actions: ArcActions, start: int) -> list[Position]:
    """A row, by a stack of items, each a list of positions with the last token of its head."""
    row = [Position(start, None, {0: 0}, 0)]
    stack: list[tuple[list[int], int]] = [([0], start)]
    directions = iter(actions.left.tolist())

    def sees_stack() -> dict[int, int]:
        return {j: len(stack) - 1 - k for k, (item, _) in enumerate(stack) for j in item}

    def compose(action: str) -> None:
        (top, head_of_top), (second, head_of_second) = stack.pop(), stack.pop()
        head = head_of_top if action == L else head_of_second
        dependents = second if action == L else top
        sees = {j: -1 if j in dependents else 0 for j in [*second, *top]} | {len(row): 0}
        stack.append(([len(row)], head))
        row.append(Position(action, head, sees, len(stack) - 1))

    for token, begins, arcs in zip(tokens, actions.begins.tolist(), actions.arcs.tolist(), strict=True):
        if begins:
            stack.append(([], token))
        stack[-1] = ([*stack[-1][0], len(row)], token)
        row.append(Position(token, None, sees_stack(), len(stack) - 1))
        for _ in range(arcs):
            action = L if next(directions) else R
            compose(action)
            row.append(Position(action, row[-1].head, sees_stack() | {len(row): 0}, len(stack) - 1))
    compose(POP)
    return row


def arc_model(
    *, words: int = 3, continuing: int = 0, zero: bool = False, **settings: Any
) -> DependencyGrammarLM:
    """A model whose tokens are 3, 4, …; the first ``continuing`` of them continue words. With ``zero`` all
    allowed actions are equally likely."""
    torch.manual_seed(0)
    special = {"vocab_size": 3 + words, "pad_id": 0, "root_id": 1, "eos_id": 2}
    shape = {"layers": 2, "d_model": 16, "heads": 4, "d_ff": 32}
    model = build_model("dtg", make_config("dtg", {**special, **shape, **settings})).eval()
    assert isinstance(model, DependencyGrammarLM)
    model.continuing[3 : 3 + continuing] = True
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.zero_() if zero else parameter.normal_(std=0.3)
    return model
