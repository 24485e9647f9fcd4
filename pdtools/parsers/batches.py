"""Batches of sentences of like length, bounded in size."""

from __future__ import annotations

from collections.abc import Iterator, Sequence


def length_batches(lengths: Sequence[int], *, max_tokens: int, max_cells: int) -> Iterator[list[int]]:
    """Group sentences by length, shortest first, so that little is padded and memory stays bounded.

    Args:
        lengths: the length of each sentence.
        max_tokens: bound of batch size × longest sentence.
        max_cells: bound of batch size × longest sentence², what a chart parser's memory grows with.

    Yields:
        Indices of sentences; every index once. A sentence over a bound is a batch of its own.
    """
    batch: list[int] = []
    for index in sorted(range(len(lengths)), key=lengths.__getitem__):
        length, size = lengths[index], len(batch) + 1
        if batch and (size * length > max_tokens or size * length**2 > max_cells):
            yield batch
            batch = []
        batch.append(index)
    if batch:
        yield batch
