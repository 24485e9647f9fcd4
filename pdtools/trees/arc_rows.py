"""Rows of arc-standard actions as Dependency Transformer Grammars read them (Zhao et al. 2024).

A row is the start, tokens and arcs, and pop_root: 2 + n + 2 (m - 1) positions of n tokens and m words. Each
arc stands twice: COMPOSE, which sees both top items of the stack and is the item in their place, and STACK,
which sees the stack and goes. A word's tokens are one item; the start is the bottom one. Everything a mask
needs is an integer a position, made here for many rows at once.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

from pdtools.trees.actions import ActionIds, ActionRows, Int64, counted_from
from pdtools.trees.arc_standard import ArcActions


@dataclass(frozen=True)
class ArcIds(ActionIds):
    """Numbers of arc-standard actions: tokens come first, then pop_root, left_arc and right_arc.

    There are no openers; to a search pop_root and arcs are closers.
    """

    labels: int = 0
    typed: bool = False
    doubled: bool = True

    @property
    def closers(self) -> int:
        """See :attr:`ActionIds.closers`."""
        return 3

    @property
    def pop_root(self) -> int:
        """The number of pop_root."""
        return self.tokens

    @property
    def left(self) -> int:
        """The number of left_arc."""
        return self.tokens + 1

    @property
    def right(self) -> int:
        """The number of right_arc."""
        return self.tokens + 2

    def positions(self, tokens: ArrayLike, words: ArrayLike) -> Int64:
        """The number of positions of rows with these numbers of tokens (special ones aside) and words."""
        return np.asarray(tokens, np.int64) + 2 * np.asarray(words, np.int64)


@dataclass(frozen=True, eq=False)
class ArcRows(ActionRows):
    """Rows of arc-standard actions one after the other, T positions together.

    In place of constituents words on the stack are counted: ``n_open`` are those after each position, and so
    is ``depth``, items below the one that a position is (of STACK, that was put there last). ``innermost`` is
    -1.

    Attributes:
        head: int64 (T), of arcs the last token of the head, of pop_root the start; -1 of tokens.
    """

    head: Int64


def arc_rows(rows: Sequence[tuple[NDArray[np.integer], ArcActions]], ids: ArcIds, start: int) -> ArcRows:
    """Write trees into their strings, by operations on the arrays of all rows.

    Args:
        rows: the n tokens of each, without ROOT and end-of-sentence, and their arcs.
        ids: numbers of actions.
        start: the number that the start token has.
    """
    tokens = np.concatenate([np.append(start, row) for row, _ in rows]).astype(np.int64)
    begins_word = np.concatenate([np.append(False, each.begins) for _, each in rows])
    arcs = np.concatenate([np.append(0, each.arcs) for _, each in rows]).astype(np.int64)
    left = np.concatenate([each.left for _, each in rows])  # (a)
    first_of_rows = np.cumsum([0, *(len(row) + 1 for row, _ in rows)])
    is_last = np.zeros(len(tokens), np.int64)
    is_last[first_of_rows[1:] - 1] = 1
    ends = np.cumsum(1 + 2 * arcs + is_last)  # the end of a token with the actions that follow it
    token_at = ends - 1 - 2 * arcs - is_last
    compose_at = counted_from(token_at + 1, arcs, 2)  # (a)
    pop_at = ends[first_of_rows[1:] - 1] - 1  # (rows)
    begins = np.append(0, pop_at + 1)
    total = int(begins[-1])
    lengths = np.diff(begins)

    actions = np.zeros(total, np.int64)
    actions[token_at] = tokens
    actions[compose_at] = actions[compose_at + 1] = np.where(left, ids.left, ids.right)
    actions[pop_at] = ids.pop_root
    step = np.zeros(total, np.int64)
    step[token_at] = begins_word
    step[compose_at], step[pop_at] = -1, -1
    depth = np.cumsum(step)
    depth -= np.repeat(depth[begins[:-1]], lengths)  # the start has 0
    is_item = np.ones(total, np.bool_)
    is_item[compose_at + 1] = False

    # An item at depth d goes with the next COMPOSE at d, as the second, or at d - 1, as the top.
    position = np.arange(total)
    composes = np.sort(np.concatenate([compose_at, pop_at]))
    keys = np.append(np.sort(depth[composes] * total + composes), -1)

    def next_at(level: Int64) -> Int64:
        found = keys[np.searchsorted(keys[:-1], level * total + position, side="right")]
        return np.where(found // total == level, found % total, total)

    pop = np.minimum(next_at(depth), next_at(depth - 1))
    pop = np.minimum(pop, np.repeat(begins[1:], lengths))
    pop[~is_item] = position[~is_item]

    # The head of an item made by COMPOSE is the head of one of its items, and so on down to a token.
    items = position[is_item]
    item_keys = np.sort(depth[items] * total + items)
    second = item_keys[np.searchsorted(item_keys, depth[composes] * total + composes) - 1] % total
    top = composes - 1 - ~is_item[composes - 1]
    source = position.copy()
    source[composes] = np.where(actions[composes] == ids.left, top, second)
    source[~is_item] = position[~is_item] - 1
    while not np.array_equal(source, further := source[source]):
        source = further
    head = np.where(actions < ids.tokens, -1, actions[source])

    first = np.repeat(begins[:-1], lengths)
    return ArcRows(
        begins=begins,
        actions=actions,
        n_open=depth.astype(np.int32),
        depth=depth.astype(np.int32),
        innermost=np.full(total, -1, np.int32),
        pop=(pop - first).astype(np.int32),
        head=head,
    )
