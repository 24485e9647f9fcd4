"""A corpus as one text, cut into parallel streams, for truncated backpropagation through time."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np
import torch
from numpy.typing import NDArray

from pdtools.errors import PdtoolsError
from pdtools.models import Batch
from pdtools.shards import ShardSet
from pdtools.training.batches import BatchLimits, BatchSource
from pdtools.training.distributed import ALONE, Ranks
from pdtools.training.recipe import TrainConfig


class Stream:
    """The rows of shards, concatenated in order: sentences, each with its end, or blocks.

    The text begins with an end-of-sentence that is read and not predicted. It is cut into B streams of equal
    length, except for the last ones, which may be shorter, or empty; a batch holds the next T tokens of each.
    So every token is predicted once an epoch, as in the paper's experiments (appendix D).

    Args:
        shards: the output of ``pdtools tapes`` or ``pdtools blocks``.
    """

    def __init__(self, shards: ShardSet) -> None:
        self._eos_id = shards.tokenizer.eos_id
        self._pad_id = shards.tokenizer.pad_id
        self._rows = len(shards)
        self.words_per_token = shards.words_per_token(ends=shards.layout == "sentence")
        rows = [shards.tokens(row)[1:] for row in range(len(shards))]
        self.tokens: NDArray[np.int32] = np.concatenate([[self._eos_id], *rows]).astype(np.int32)

    @property
    def count(self) -> int:
        """The number of rows."""
        return self._rows

    def cut(self, streams: int, length: int) -> list[Batch]:
        """All batches of an epoch.

        Args:
            streams: B.
            length: T.

        Returns:
            Batches of (B, T), the last one perhaps narrower.
        """
        total = len(self.tokens) - 1
        each = -(-total // streams)
        read = np.full(streams * each, self._pad_id, dtype=np.int64)
        target = read.copy()
        read[:total], target[:total] = self.tokens[:-1], self.tokens[1:]
        is_scored = np.arange(streams * each) < total
        parts = [torch.from_numpy(part.reshape(streams, each)) for part in (read, target, is_scored)]
        return [
            _batch(*(part[:, first : first + length] for part in parts), continues=first > 0)
            for first in range(0, each, length)
        ]

    def source(self, config: TrainConfig, *, epoch: int = 0, taken: int = 0) -> BatchSource:
        """See :meth:`~pdtools.training.batches.TrainingData.source`: the same batches in every epoch."""
        batches = self.cut(*_shape(config.batch_sentences, config.batch_tokens))

        def make(batch: Batch, epoch: int, ranks: Ranks) -> Batch:
            _check_alone(ranks)
            return batch

        return BatchSource(
            plan=lambda epoch: batches, make=make, padding=_padding_share, epoch=epoch, taken=taken
        )

    def in_order(self, limits: BatchLimits, ranks: Ranks = ALONE) -> Iterator[Batch]:
        """See :meth:`~pdtools.training.batches.ValidationData.in_order`."""
        _check_alone(ranks)
        yield from self.cut(*_shape(limits.sentences, limits.tokens))


def _shape(sentences: int, tokens: int) -> tuple[int, int]:
    return sentences, max(1, tokens // sentences)


def _batch(read: torch.Tensor, target: torch.Tensor, scored: torch.Tensor, *, continues: bool) -> Batch:
    rows, length = read.shape
    return Batch(
        tokens=read,
        attach=torch.arange(length).expand(rows, length),
        lengths=torch.full((rows,), length),
        targets=target,
        scored=scored,
        continues=continues,
    )


def _check_alone(ranks: Ranks) -> None:
    if ranks.size > 1:
        raise PdtoolsError("training on streams takes one process: a stream's state is on one device")


def _padding_share(batches: Sequence[Batch]) -> float:
    scored = sum(int(batch.predicted().sum()) for batch in batches)
    return 1 - scored / sum(batch.tokens.numel() for batch in batches)
