"""Conversion of a transduction task's rows to batches. (Its own module: it needs torch.)"""

from __future__ import annotations

import torch

from pdtools.formal.transduction_rows import TaskRows
from pdtools.models import Batch


def task_batch(rows: TaskRows) -> Batch:
    """Make a batch with targets, on the CPU; every token shifts."""
    tokens = torch.from_numpy(rows.tokens)  # (B, N)
    return Batch(
        tokens=tokens,
        attach=torch.arange(tokens.shape[1]).expand_as(tokens).contiguous(),
        lengths=torch.full((len(tokens),), tokens.shape[1]),
        targets=torch.from_numpy(rows.targets),
        scored=torch.from_numpy(rows.scored),
    )
