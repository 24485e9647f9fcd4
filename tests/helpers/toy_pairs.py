"""All pairs of a task at once."""

from __future__ import annotations

import numpy as np

from pdtools.formal.transductions import StringPairs, Task


def pairs_of(task: Task, length: int, number: int, *, seed: int) -> StringPairs:
    """The pairs of a seed for a test; more pairs begin with the same ones."""
    blocks = list(task.test_blocks(length, number, seed=seed))
    return StringPairs(
        x=np.concatenate([block.x for block in blocks]),
        y=np.concatenate([block.y for block in blocks]),
        counted=np.concatenate([block.counted for block in blocks]),
    )
