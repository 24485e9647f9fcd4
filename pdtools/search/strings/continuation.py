"""Next-token distributions after a prefix with given attachments."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import torch
from numpy.typing import NDArray

from pdtools.models import LanguageModel
from pdtools.search.memory import explained_memory_errors, length_groups

# Cells of the tapes (prefixes × positions²) that a batch may have.
_MOST_CELLS = 1 << 22


@torch.inference_mode()
def next_token_logprobs(
    model: LanguageModel,
    prefixes: Sequence[NDArray[np.int32]],
    attachments: Sequence[NDArray[np.int32]],
    *,
    max_batch: int | None = None,
) -> NDArray[np.float64]:
    """Compute log p(v | prefix, its attachments) for every token v of the vocabulary.

    Args:
        model: in evaluation mode.
        prefixes: for each int32[n + 1]: ROOT and the n tokens.
        attachments: for each int32[n + 1], positions in the prefix. If they do not affect the words, shifts
            suffice.
        max_batch: prefixes per batch; by default as many as fit a fixed amount of memory.

    Returns:
        float64 (prefixes, vocabulary), nats.
    """
    result = np.empty((len(prefixes), model.vocab_size))
    # Nothing follows a prefix: not even the ROOT that ends a window.
    pack = model.pack_prompts if model.layout == "window" else model.pack
    for group in length_groups(
        [len(prefix) for prefix in prefixes], lambda length: max_batch or max(1, _MOST_CELLS // length**2)
    ):
        batch = pack([(prefixes[i], attachments[i]) for i in group])
        with explained_memory_errors():
            found = model.following_logprobs(batch.to(model.device))
        result[group] = found.cpu().double().numpy()
    return result
