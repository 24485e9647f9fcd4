"""Rows of actions side by side."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor

from pdtools.models.batch import Batch
from pdtools.trees.actions import ActionIds, action_rows, padded


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
        """Rows of shards.

        Args:
            rows: tokens, ROOT and end-of-sentence included, and :class:`pdtools.trees.Constituents`; none: a
                batch of nothing, a row that ends after its start.
            ids: numbers of actions.
            start, pad: numbers of the start token and of padding.
        """
        if not rows:
            one, two = torch.tensor([1]), torch.tensor([[start, pad]])
            zero = torch.zeros(1, 2, dtype=torch.int32)
            own = torch.arange(2, dtype=torch.int32)[None]
            nothing = torch.zeros(1, 2, dtype=torch.bool)
            return cls(
                two, own.long(), one, scored=nothing, n_open=zero, depth=zero, innermost=zero - 1, pop=own
            )
        made = action_rows([(tokens[1:-1], tree) for tokens, tree in rows], ids, start)
        lengths = np.diff(made.begins)
        position = np.arange(int(lengths.max()))
        pop = padded(made, made.pop, None)
        # The start and the second one of doubled closers are not predicted.
        scored = (position < lengths[:, None]) & (position > 0)
        if ids.doubled:
            scored &= pop != position
        return cls(
            tokens=torch.from_numpy(padded(made, made.actions, pad)),
            attach=torch.from_numpy(np.tile(position, (len(rows), 1))),
            lengths=torch.from_numpy(lengths),
            scored=torch.from_numpy(scored),
            n_open=torch.from_numpy(padded(made, made.n_open, 0)),
            depth=torch.from_numpy(padded(made, made.depth, 0)),
            innermost=torch.from_numpy(padded(made, made.innermost, -1)),
            pop=torch.from_numpy(pop),
        )

    def ends(self, eos_id: int) -> Tensor:
        """See :meth:`Batch.ends`: where the last constituent is closed."""
        assert self.scored is not None
        return self.scored & (self.n_open == 0)
