"""Batches of rows of actions."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from torch import Tensor

from pdtools.models.batch import Batch
from pdtools.trees.actions import ActionIds, ActionRows, action_rows, padded
from pdtools.trees.arc_standard import ArcIds, arc_rows

if TYPE_CHECKING:
    from typing_extensions import Self


@dataclass(frozen=True, kw_only=True)
class ActionBatch(Batch):
    """Rows of actions; ``tokens`` are their numbers, the start's first. There are no attachments: all shift.

    Attributes:
        n_open, depth, innermost, pop: int32 (B, N), see :class:`pdtools.trees.actions.ActionRows`.
    """

    n_open: Tensor
    depth: Tensor
    innermost: Tensor
    pop: Tensor

    @classmethod
    def of_rows(cls, rows: Sequence[tuple[Any, Any]], ids: ActionIds, start: int, pad: int) -> ActionBatch:
        """Make a batch from rows of shards.

        Args:
            rows: tokens, ROOT and end-of-sentence included, and :class:`pdtools.trees.Constituents`; empty: a
                batch of nothing, a row that ends after its start.
            ids: numbers of actions.
            start, pad: numbers of the start token and of padding.
        """
        if not rows:
            return cls._of_nothing(start, pad)
        made = action_rows([(tokens[1:-1], tree) for tokens, tree in rows], ids, start)
        return cls._of(made, pad, doubled=ids.doubled)

    @classmethod
    def _of_nothing(cls, start: int, pad: int, **more: Any) -> Self:
        one, two = torch.tensor([1]), torch.tensor([[start, pad]])
        zero = torch.zeros(1, 2, dtype=torch.int32)
        own = torch.arange(2, dtype=torch.int32)[None]
        nothing = torch.zeros(1, 2, dtype=torch.bool)
        return cls(
            two, own.long(), one, scored=nothing, n_open=zero, depth=zero, innermost=zero - 1, pop=own, **more
        )

    @classmethod
    def _of(cls, made: ActionRows, pad: int, *, doubled: bool, **more: Any) -> Self:
        lengths = np.diff(made.begins)
        position = np.arange(int(lengths.max()))
        pop = padded(made, made.pop, None)
        # The start and the second of doubled closers are not predicted.
        scored = (position < lengths[:, None]) & (position > 0)
        if doubled:
            scored &= pop != position
        return cls(
            tokens=torch.from_numpy(padded(made, made.actions, pad)),
            attach=torch.from_numpy(np.tile(position, (len(lengths), 1))),
            lengths=torch.from_numpy(lengths),
            scored=torch.from_numpy(scored),
            n_open=torch.from_numpy(padded(made, made.n_open, 0)),
            depth=torch.from_numpy(padded(made, made.depth, 0)),
            innermost=torch.from_numpy(padded(made, made.innermost, -1)),
            pop=torch.from_numpy(pop),
            **more,
        )

    def ends(self, eos_id: int) -> Tensor:
        """See :meth:`Batch.ends`: the positions at which the last constituent is closed."""
        assert self.scored is not None
        return self.scored & (self.n_open == 0)


@dataclass(frozen=True, kw_only=True)
class TransitionBatch(ActionBatch):
    """Rows of arc-standard actions; see :class:`pdtools.trees.arc_standard.ArcRows`.

    Attributes:
        head: int64 (B, N), for arcs the last token of the head, for pop_root the start; -1 for others.
    """

    head: Tensor

    @classmethod
    def of_transitions(
        cls, rows: Sequence[tuple[Any, Any]], ids: ArcIds, start: int, pad: int
    ) -> TransitionBatch:
        """Make a batch from rows of tokens, ROOT and end-of-sentence included, with arc-standard actions.

        Empty: as :meth:`ActionBatch.of_rows`.
        """
        if not rows:
            return cls._of_nothing(start, pad, head=torch.full((1, 2), -1))
        made = arc_rows([(tokens[1:-1], actions) for tokens, actions in rows], ids, start)
        return cls._of(made, pad, doubled=True, head=torch.from_numpy(padded(made, made.head, -1)))
