"""What torchrun starts in the tests: trains one run after the other, as a JSON file lists them.

Each entry has ``output``, and ``shards`` or ``task`` with ``lengths``. It may have ``model``, ``options``,
``train``, ``distribution``, ``treereg_shards``, and ``stop_at``: the last rank alone asks to stop after so
many questions.
"""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path
from typing import Any

import torch

from pdtools.formal.transduction_training import TaskInput
from pdtools.formal.transductions import make_task
from pdtools.training import Ranks, Recipe, TrainConfig, torchrun_ranks, train


class StopOnOneRank:
    """Asks to stop after so many questions, one before each step; on the last rank only."""

    def __init__(self, step: int | None, ranks: Ranks) -> None:
        self.left = step if ranks.rank == ranks.size - 1 else None

    def __call__(self) -> bool:
        if self.left is None:
            return False
        self.left -= 1
        return self.left < 0


def run(work: dict[str, Any], ranks: Ranks) -> None:
    recipe = Recipe(
        model=work.get("model", "pushdown"), options=work["options"], train=TrainConfig(**work["train"])
    )
    torch.manual_seed(99)  # another process has other random numbers
    task = work.get("task")
    train(
        TaskInput(make_task(task), range(*work["lengths"])) if task else work["shards"],
        work["output"],
        recipe,
        valid=None if task else work["valid"],
        treereg_shards=work.get("treereg_shards"),
        resume=True,
        stop=StopOnOneRank(work.get("stop_at"), ranks),
        ranks=ranks,
        distribution=work.get("distribution", "ddp"),
    )


if __name__ == "__main__":
    torch.set_num_threads(1)
    os.fsync = lambda descriptor: None  # as in conftest.py
    with torchrun_ranks("cpu") as our_ranks:
        for entry in json.loads(Path(sys.argv[1]).read_text()):
            run(entry, our_ranks)
    assert not torch.distributed.is_initialized()  # nothing is left for the end of Python
