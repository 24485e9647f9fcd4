"""How many hypotheses a batch may hold."""

from __future__ import annotations

import torch

from pdtools.models import LanguageModel

# What a batch may take on the CPU; on a GPU, half of what is free.
CPU_BUDGET = 1 << 30


def hypotheses_that_fit(model: LanguageModel, length: int) -> int:
    """How many hypotheses of ``length`` positions a fixed amount of memory holds; at least one.

    Each has its cache, which is copied once when hypotheses are reordered, and a row of next-token
    log-probabilities with the values that these are made from.
    """
    each = 2 * model.start(1, length).nbytes + 16 * model.vocab_size
    device = model.device
    budget = torch.cuda.mem_get_info(device)[0] // 2 if device.type == "cuda" else CPU_BUDGET
    return max(1, budget // each)
