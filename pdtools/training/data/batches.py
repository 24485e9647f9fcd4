"""Division of rows into batches: buckets of similar length, a token budget, an order that can be resumed."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from pdtools.errors import PdtoolsError

_BUCKET_GROWTH = 1.1  # lengths in one bucket differ by at most a tenth


@dataclass(frozen=True, kw_only=True)
class BatchLimits:
    """The limits of one batch; 0 is no limit.

    Args:
        tokens: positions, ROOT, EOS and padding included: rows times the longest row.
        sentences: rows.
    """

    tokens: int = 0
    sentences: int = 0


def bucket_edges(longest: int) -> NDArray[np.int64]:
    """Smallest length of each bucket: 1, 2, …, 10, 11, 12, 13, 14, … growing by a tenth."""
    edges = [1]
    while edges[-1] <= longest:
        edges.append(max(edges[-1] + 1, int(edges[-1] * _BUCKET_GROWTH)))
    return np.array(edges, dtype=np.int64)


def plan_epoch(
    lengths: NDArray[np.integer], limits: BatchLimits, *, seed: int, epoch: int, stored: bool = False
) -> list[NDArray[np.int64]]:
    """Divide all rows into batches, every row in exactly one.

    Rows are sorted by their length's bucket, at random within a bucket, cut into batches at the limits,
    and the batches are shuffled. The result depends on the arguments alone.

    Args:
        lengths: tokens of each row, ROOT and EOS included.
        stored: the rows are cut into batches in the order they have, the same in every epoch.

    Returns:
        Row numbers of each batch.

    Raises:
        PdtoolsError: if one row alone is over the token budget.
    """
    if len(lengths) == 0:
        return []
    lengths = np.asarray(lengths, dtype=np.int64)
    longest = int(lengths.max())
    if limits.tokens and longest > limits.tokens:
        raise PdtoolsError(
            f"the longest sentence has {longest} positions, more than a batch may hold:"
            f" raise train.batch_tokens (now {limits.tokens})"
        )
    random = np.random.default_rng([seed, epoch])
    if stored:
        order = np.arange(len(lengths))
    else:
        bucket = np.searchsorted(bucket_edges(longest), lengths, side="right")
        order = np.lexsort((random.random(len(lengths)), bucket))
    starts = _cut(lengths[order].tolist(), limits)
    batches = np.split(order, starts[1:])
    return [batches[i] for i in random.permutation(len(batches))]


def plan_in_order(lengths: NDArray[np.integer], limits: BatchLimits) -> list[NDArray[np.int64]]:
    """Divide all rows into batches by length, the longest first, without chance: for evaluation."""
    if len(lengths) == 0:
        return []
    lengths = np.asarray(lengths, dtype=np.int64)
    order = np.argsort(-lengths, kind="stable")
    return np.split(order, _cut(lengths[order].tolist(), limits)[1:])


def _cut(lengths: list[int], limits: BatchLimits) -> list[int]:
    """The first rows of batches, when rows of these lengths are taken in order; every batch gets a row."""
    starts = [0]
    widest = 0
    for i, length in enumerate(lengths):
        widest = max(widest, length)
        rows = i - starts[-1] + 1
        too_many = limits.sentences and rows > limits.sentences
        too_wide = limits.tokens and rows * widest > limits.tokens
        if rows > 1 and (too_many or too_wide):
            starts.append(i)
            widest = length
    return starts


def padding_share(lengths: NDArray[np.integer], batches: list[NDArray[np.int64]]) -> float:
    """The share of all positions in these batches that are padding."""
    positions = sum(len(rows) * int(lengths[rows].max()) for rows in batches)
    tokens = sum(int(lengths[rows].sum()) for rows in batches)
    return 1 - tokens / positions if positions else 0.0


@dataclass(kw_only=True)
class BatchStream(Iterator[NDArray[np.int64]]):
    """Endless batches, epoch after epoch; ``epoch`` and ``taken`` are the whole position.

    Args:
        lengths: tokens of each row.
        limits: the most that a batch holds.
        seed: the seed of the order.
        stored: see :func:`plan_epoch`.
        epoch: the next batch's epoch, from 0.
        taken: batches already taken from that epoch.
    """

    lengths: NDArray[np.integer]
    limits: BatchLimits
    seed: int
    stored: bool = False
    epoch: int = 0
    taken: int = 0

    def __post_init__(self) -> None:
        self._plan = self._plan_epoch()

    def __next__(self) -> NDArray[np.int64]:
        if self.taken == len(self._plan):
            self.epoch, self.taken = self.epoch + 1, 0
            self._plan = self._plan_epoch()
        self.taken += 1
        return self._plan[self.taken - 1]

    def padding_share(self) -> float:
        """The share of padding in this epoch."""
        return padding_share(self.lengths, self._plan)

    def _plan_epoch(self) -> list[NDArray[np.int64]]:
        return plan_epoch(self.lengths, self.limits, seed=self.seed, epoch=self.epoch, stored=self.stored)
