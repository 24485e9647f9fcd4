"""Trees as actions: NT(X) opens a constituent, GEN(w) generates a token, a closer ends the open constituent.

Two forms of ``(S (NP the cat) (VP meows))``, after a start token:

- one closer for all labels (Qian et al. 2021): ``(S (NP the cat ) (VP meows ) )``;
- closers by label, each twice (Sartran et al. 2022): ``(S (NP the cat NP) NP) (VP meows VP) VP) S) S)``. The
  first, COMPOSE, reads a constituent and represents it from then on; the second, STACK, predicts the next
  action.

In-order (Kuncoro et al. 2018) a constituent opens after its first child: ``the (NP cat ) (S meows (VP ) )``,
then FINISH.

A row's positions are its actions, the start token first. Everything a mask needs is an integer per
position, made here for many rows at once.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
from numpy.typing import ArrayLike, NDArray

from pdtools.trees.constituents import Constituents

Int32 = NDArray[np.int32]
Int64 = NDArray[np.int64]

IN_ORDER_NEEDS_WORDS = (
    "tokens of text style raw do not show where words begin, which are first children in model rnng-in-order"
    " (make the shards with pdtools tapes --text-style ptb)"
)


@dataclass(frozen=True)
class ActionIds:
    """Numbering of actions: tokens come first, then openers, then closers.

    Attributes:
        tokens: number of tokens, special ones included.
        labels: number of labels.
        typed: whether each label has a closer of its own.
        doubled: whether closers stand twice in a row.
        in_order: whether constituents open after their first children.
    """

    tokens: int
    labels: int
    typed: bool
    doubled: bool
    in_order: ClassVar[bool] = False

    @property
    def first_closer(self) -> int:
        """The smallest number of a closer."""
        return self.tokens + self.labels

    @property
    def closers(self) -> int:
        """The number of different closers."""
        return self.labels if self.typed else 1

    @property
    def number(self) -> int:
        """The number of different actions."""
        return self.first_closer + self.closers

    def positions(self, tokens: ArrayLike, constituents: ArrayLike) -> Int64:
        """The number of positions of rows, by their tokens (special ones excluded) and constituents."""
        return (
            1 + np.asarray(tokens, np.int64) + (3 if self.doubled else 2) * np.asarray(constituents, np.int64)
        )


@dataclass(frozen=True)
class InOrderIds(ActionIds):
    """Numbers of in-order actions: tokens come first, then openers, the closer, and FINISH."""

    typed: bool = False
    doubled: bool = False
    in_order: ClassVar[bool] = True

    @property
    def closers(self) -> int:
        """See :attr:`ActionIds.closers`; FINISH is one of them."""
        return 2

    @property
    def finish(self) -> int:
        """The number of FINISH, which ends a string."""
        return self.first_closer + 1

    def positions(self, tokens: ArrayLike, constituents: ArrayLike) -> Int64:
        """See :meth:`ActionIds.positions`."""
        return super().positions(tokens, constituents) + 1


@dataclass(frozen=True, eq=False)
class ActionRows:
    """Rows of actions, concatenated, with T positions in all. Positions are counted from 0 in each row.

    Attributes:
        begins: int64 (rows + 1), the first position of each row, and the last one's end.
        actions: int64 (T), the start token first in each row.
        n_open: int32 (T), constituents that are open after each position.
        depth: int32 (T), 0 at the start; an opener and its closers count the constituent itself, and its
            content is one deeper.
        innermost: int32 (T), the opener of the innermost constituent open after this position; -1 for none.
        pop: int32 (T), the COMPOSE that takes it off the stack, at the end of its parent constituent; the
            row's length if none does, and the position itself if it is never put there (STACK).
    """

    begins: Int64
    actions: Int64
    n_open: Int32
    depth: Int32
    innermost: Int32
    pop: Int32


def action_rows(
    rows: Sequence[tuple[NDArray[np.integer], Constituents]], ids: ActionIds, start: int
) -> ActionRows:
    """The rows of actions of many trees, by operations on the arrays of all rows.

    Args:
        rows: for each, its n tokens, without ROOT and end-of-sentence, and its constituents, balanced, one of
            them around all.
        ids: numbers of actions.
        start: the start token's number.
    """
    zero = np.zeros(1, np.int64)  # the start: a token that nothing opens before or closes after
    tokens = np.concatenate([np.append(start, row) for row, _ in rows]).astype(np.int64)
    opens = np.concatenate([np.append(zero, tree.opens) for _, tree in rows])  # (tokens and starts)
    closes = np.concatenate([np.append(zero, tree.closes) for _, tree in rows])
    labels = np.concatenate([tree.labels for _, tree in rows]).astype(np.int64)
    each = 2 if ids.doubled else 1
    sizes = opens + 1 + each * closes  # positions of a token with its openers and closers
    ends = np.cumsum(sizes)
    token_at = ends - each * closes - 1
    first_of_rows = np.cumsum([0, *(len(row) + 1 for row, _ in rows)])
    begins = np.append(ends - sizes, ends[-1])[first_of_rows]  # (rows + 1)
    total = int(ends[-1])

    actions = np.zeros(total, np.int64)
    actions[token_at] = tokens
    opener_at = counted_from(ends - sizes, opens)  # (m)
    closer_at = counted_from(token_at + 1, closes, each)  # (m)
    actions[opener_at] = ids.tokens + labels
    step = np.zeros(total, np.int32)
    step[opener_at], step[closer_at] = 1, -1
    n_open = np.cumsum(step, dtype=np.int32)
    depth = n_open + 1
    depth[opener_at] -= 1
    depth[begins[:-1]] = 0

    # Among the brackets of one depth, every opener is followed by its closer, in all rows.
    brackets = np.flatnonzero(step)
    opener, closer = brackets[np.argsort(depth[brackets], kind="stable")].reshape(-1, 2).T  # (m) each
    closed_by = np.zeros(total, np.int64)
    closed_by[opener] = closer
    actions[closer] = ids.first_closer + (actions[opener] - ids.tokens if ids.typed else 0)
    # The innermost open constituent is the last one that opened at the present depth.
    key = n_open.astype(np.int64) * total + np.arange(total)
    opened = np.sort(depth[opener_at].astype(np.int64) * total + opener_at)
    is_inside = n_open > 0
    innermost = np.full(total, -1, np.int64)
    innermost[is_inside] = opened[np.searchsorted(opened, key[is_inside], side="right") - 1] % total
    pop = np.repeat(begins[1:], np.diff(begins))
    pop[is_inside] = closed_by[innermost[is_inside]]
    if ids.doubled:
        second = closer_at + 1
        actions[second] = actions[closer_at]
        pop[second] = second

    first = np.repeat(begins[:-1], np.diff(begins))
    return ActionRows(
        begins=begins,
        actions=actions,
        n_open=n_open,
        depth=depth,
        innermost=np.where(is_inside, innermost - first, -1).astype(np.int32),
        pop=(pop - first).astype(np.int32),
    )


def in_order_actions(
    tokens: NDArray[np.integer], tree: Constituents, ids: InOrderIds, start: int, continues: NDArray[np.bool_]
) -> list[int]:
    """The in-order actions of a tree, the start token first and FINISH last.

    Args:
        tokens: int (n,), without ROOT and end-of-sentence.
        tree: its constituents, balanced, one of them around all.
        ids: numbers of actions.
        start: the start token's number.
        continues: bool (V,), tokens that continue a word; a first child that is a word is all of its tokens.
    """
    actions, labels = [start], iter(tree.labels.tolist())
    path: list[int] = []  # labels of constituents that have begun; -1 once their openers stand
    after = [*continues[tokens[1:]].tolist(), False]
    for token, opens, closes, inside in zip(
        tokens.tolist(), tree.opens.tolist(), tree.closes.tolist(), after, strict=True
    ):
        path += [next(labels) for _ in range(opens)]
        actions.append(token)
        for step in range(0 if inside else closes + 1):
            if step:
                path.pop()
                actions.append(ids.first_closer)
            if path and path[-1] >= 0:
                actions.append(ids.tokens + path[-1])
                path[-1] = -1
    return [*actions, ids.finish]


class ActionStack:
    """The sizes of an RNNG's stack in one row: the start, words, and constituents that are open or closed.

    Attributes:
        n_open: number of open constituents.
        chain: openers in a row; in-order, with closers directly after openers between them.
    """

    def __init__(self, ids: ActionIds, continues: NDArray[np.bool_]) -> None:
        self._ids, self._continues = ids, continues
        self._size = self._corner = self.chain = 0
        self._open: list[tuple[int, int]] = []
        self._opened = False  # whether the last action opened

    @property
    def n_open(self) -> int:
        """The number of open constituents."""
        return len(self._open)

    def push(self, action: int) -> tuple[int, int]:
        """Do an action.

        Returns:
            The place where its element is put, instead of all from there on, and that of a closer's opener.
        """
        ids, place, opener = self._ids, self._size, self._size
        opens = ids.tokens <= action < ids.first_closer
        if opens:
            self.chain += 1
            self._open.append((self._corner if ids.in_order else place, place))
        elif action < ids.tokens:
            self.chain = 0
            if not self._continues[action]:
                self._corner = place
        else:
            place, opener = self._open.pop()
            self._corner = place
            if not (ids.in_order and self._opened):
                self.chain = 0
        self._opened = opens
        self._size = place + 1
        return place, opener


def counted_from(first: Int64, counts: Int64, step: int = 1) -> Int64:
    """Count from each first number, ``step`` apart: first, first + step, …; all counts in a row."""
    before = np.cumsum(counts) - counts
    within = np.arange(int(counts.sum())) - np.repeat(before, counts)
    found: Int64 = np.repeat(first, counts) + step * within
    return found


def padded(rows: ActionRows, values: NDArray[Any], fill: int | None) -> NDArray[Any]:
    """Values of all positions as a table with a line per row: (B, N); ``fill`` None: padding has its own
    position."""
    lengths = np.diff(rows.begins)
    position = np.arange(int(lengths.max()))
    real = position < lengths[:, None]  # (B, N)
    table = np.broadcast_to(position, real.shape) if fill is None else np.full(real.shape, fill)
    table = table.astype(values.dtype)
    table[real] = values
    return table
