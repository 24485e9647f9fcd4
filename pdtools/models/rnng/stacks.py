"""Batches of rows of actions, with the stack that each action finds.

All trees are given, so that states need not be computed action by action. A step computes all that only
earlier steps are needed for, in all rows together: constituents of one height, and then states of one height
of the stack. If the composition looks at states, a step is an action of each row.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from pdtools.models.batch import Batch
from pdtools.trees.actions import ActionIds, ActionStack


@dataclass(frozen=True, kw_only=True)
class StackBatch(Batch):
    """Rows of actions; ``tokens`` are their numbers, the start's first. There are no attachments: all shift.

    States are those after M actions, all but each row's last, in the order of their steps. Vectors are
    those of M - C embeddings, and of C composed constituents behind them, in the order of theirs.

    Attributes:
        n_open, chain: int32 (B, N), see :class:`ActionStack`, after each action.
        state: int64 (B, N), the state after each action; 0 for others.
        leaves: int64 (M - C,), what is embedded: the start token, tokens, openers.
        below, vector: int64 (M,), of each state, the state below (its own if there is none) and what is read.
        children: int64 (C, K), the vectors composed, counts first ones.
        counts: int64 (C,), numbers of children.
        openers: int64 (C,), the openers' vectors.
        before: int64 (C,), the states before the closers.
        composed, read: the first constituent and state of each step, and the end.
    """

    n_open: Tensor
    chain: Tensor
    state: Tensor
    leaves: Tensor
    below: Tensor
    vector: Tensor
    children: Tensor
    counts: Tensor
    openers: Tensor
    before: Tensor
    composed: tuple[int, ...]
    read: tuple[int, ...]

    def ends(self, eos_id: int) -> Tensor:
        """See :meth:`Batch.ends`: each row's last action."""
        assert self.scored is not None
        position = torch.arange(self.tokens.shape[1], device=self.tokens.device)
        return self.scored & (position == self.lengths[:, None] - 1)

    @classmethod
    def of_nothing(cls, ids: ActionIds, start: int, pad: int, *, by_action: bool) -> StackBatch:
        """A batch of nothing: a row that ends after its start."""
        found = cls.of_actions([[start, pad]], ids, pad, np.zeros(ids.tokens, bool), by_action=by_action)
        nothing = torch.zeros(1, 2, dtype=torch.bool)
        return replace(found, lengths=torch.tensor([1]), scored=nothing)

    @classmethod
    def of_actions(
        cls,
        rows: Sequence[Sequence[int]],
        ids: ActionIds,
        pad: int,
        continues: NDArray[np.bool_],
        *,
        by_action: bool,
    ) -> StackBatch:
        """Make a batch from rows of actions.

        Args:
            rows: the start, and one action or more.
            ids: numbers of actions.
            pad: the number of padding.
            continues: bool (V,), tokens that continue a word.
            by_action: whether a step is an action.
        """
        lengths = np.array([len(row) for row in rows], np.int64)
        shape = len(rows), int(lengths.max())
        tokens, state = np.full(shape, pad, np.int64), np.zeros(shape, np.int64)
        n_open, chain = np.zeros((2, *shape), np.int32)
        leaves: list[int] = []
        below: list[int] = []
        vector: list[int] = []  # -1 - c for the c-th closed constituent
        step: list[int] = []
        closed: list[list[int]] = []  # the children
        opener, before, height = list[int](), list[int](), list[int]()  # each closed constituent's
        for b, row in enumerate(rows):
            first = len(below)
            stack = ActionStack(ids, continues)
            on_stack: list[int] = []  # the states
            tokens[b, : len(row)] = row
            for i, action in enumerate(row[:-1]):
                place, at = stack.push(action)
                n_open[b, i], chain[b, i] = stack.n_open, stack.chain
                if action < ids.first_closer:
                    vector.append(len(leaves))
                    leaves.append(action)
                else:
                    inner = [vector[s] for s in (*on_stack[place:at], *on_stack[at + 1 :])]
                    closed.append(inner)
                    opener.append(vector[on_stack[at]])
                    before.append(first + i - 1)
                    height.append(i if by_action else 1 + max(height[-1 - v] if v < 0 else -1 for v in inner))
                    vector.append(-len(closed))
                below.append(on_stack[place - 1] if place else first)
                step.append(i if by_action else place)
                on_stack[place:] = [first + i]
            state[b, : len(row) - 1] = np.arange(first, len(below))
        (order, rank, read), (composed_order, composed_rank, composed) = map(_by_step, (step, height))

        numbers = np.array(vector, np.int64)
        closes = numbers < 0
        numbers[closes] = len(leaves) + composed_rank[-1 - numbers[closes]]
        if by_action:  # constituents have steps of their own among those of states
            composed = np.searchsorted(np.sort(height), np.arange(len(read)))
        counts = np.array([len(closed[c]) for c in composed_order], np.int64)
        children = np.zeros((len(counts), int(counts.max(initial=1))), np.int64)
        for place, c in enumerate(composed_order):
            inner = [v if v >= 0 else len(leaves) + int(composed_rank[-1 - v]) for v in closed[c]]
            children[place, : len(inner)] = inner
        position = np.arange(shape[1])
        arrays: dict[str, NDArray[Any]] = {
            "tokens": tokens,
            "attach": np.tile(position, (shape[0], 1)),
            "lengths": lengths,
            "scored": (position < lengths[:, None]) & (position > 0),
            "n_open": n_open,
            "chain": chain,
            "state": rank[state],
            "leaves": np.array(leaves, np.int64),
            "below": rank[below][order],
            "vector": numbers[order],
            "children": children,
            "counts": counts,
            "openers": np.array(opener, np.int64)[composed_order],
            "before": rank[np.array(before, np.int64)[composed_order]],
        }
        tensors: dict[str, Any] = {name: torch.from_numpy(array) for name, array in arrays.items()}
        return cls(
            **tensors,
            composed=tuple(composed.tolist()),
            read=tuple(read.tolist()),
        )


def _by_step(step: Sequence[int]) -> tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.int64]]:
    """The order by steps, each one's rank in it, and the first rank of each step with the end."""
    steps = np.array(step, np.int64)
    order = np.argsort(steps, kind="stable")
    rank = np.empty_like(order)
    rank[order] = np.arange(len(order))
    bounds = np.searchsorted(steps[order], np.arange(int(steps.max(initial=-1)) + 2))
    return order, rank, bounds
