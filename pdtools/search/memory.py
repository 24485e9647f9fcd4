"""Limits on the size of batches, and advice if memory runs out."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator, Sequence

import torch

from pdtools import errors
from pdtools.jobs.devices import memory_of
from pdtools.models import LanguageModel

# Bytes that a batch may take on the CPU; on a GPU, half of the free memory.
CPU_BUDGET = 1 << 29
# CUDA's attention kernels launch one block layer per row, and a grid has no more layers than this.
MOST_ROWS = (1 << 16) - 1
# Cells of the next-token table (positions × vocabulary) that a teacher-forced batch may have.
MAX_LOGITS = 1 << 26


def length_groups(lengths: Sequence[int], fit: Callable[[int], int]) -> Iterator[list[int]]:
    """Indices of the strings that go into one batch: similar lengths, longest first.

    Args:
        lengths: positions of each string.
        fit: gives the number of strings of a length in one batch, at least 1.
    """
    order = sorted(range(len(lengths)), key=lambda i: -lengths[i])
    first = 0
    while first < len(order):
        size = fit(lengths[order[first]])
        yield order[first : first + size]
        first += size


def strings_that_fit(length: int, vocab_size: int) -> int:
    """The number of strings of ``length`` positions in one teacher-forced batch; at least one."""
    return max(1, MAX_LOGITS // (length * vocab_size))


def hypotheses_that_fit(model: LanguageModel, length: int) -> int:
    """The number of hypotheses of ``length`` positions in a fixed amount of memory; at least one.

    Each has its cache, and a row of next-token log-probabilities with intermediate values.
    """
    with explained_memory_errors():
        each = model.derive(1, length).nbytes + 16 * model.vocab_size
    return max(1, min(budget(model) // each, MOST_ROWS))


def entries_that_fit(model: LanguageModel, length: int) -> int:
    """The number of tokens, of all hypotheses together, that a batch's caches may hold; at least one.

    Args:
        length: the most tokens of one hypothesis.
    """
    return max(1, budget(model) * length // model.start(1, length).nbytes)


def check_memory(model: LanguageModel, length: int, entries: int) -> None:
    """Refuse caches of so many tokens, of all hypotheses together, if they could never fit.

    Raises:
        PdtoolsError: with the available memory. A system may promise more, and end the process later.
    """
    needed = model.start(1, length).nbytes * entries // length
    if needed > (there := memory_of(str(model.device))):
        raise errors.PdtoolsError(
            f"not enough memory: the hypotheses of a sentence of {length - 2} tokens take"
            f" {needed / 2**30:,.1f} GiB, but there are {there / 2**30:,.1f} GiB: try a smaller --beam"
        )


def budget(model: LanguageModel) -> int:
    """Bytes that a batch may take."""
    device = model.device
    if device.type != "cuda":
        return CPU_BUDGET
    unused = torch.cuda.memory_reserved(device) - torch.cuda.memory_allocated(device)  # torch's own
    return (torch.cuda.mem_get_info(device)[0] + unused) // 2


def explained_memory_errors() -> contextlib.AbstractContextManager[None]:
    """Turn a lack of memory, of a CPU or a GPU, into an error that says what to do."""
    return errors.explained_memory_errors("try a smaller --search max_batch=N or --beam")
