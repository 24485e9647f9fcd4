from __future__ import annotations

import threading
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
import torch
from numpy.typing import NDArray
from search_oracle import tiny_model

from pdtools.files import Rejects
from pdtools.models import Batch
from pdtools.shards import ShardSet
from pdtools.training import Sentences, TrainConfig
from pdtools.training.data.loader import BatchLoader
from pdtools.training.data.sentences import SentenceSource
from pdtools.training.distributed import ALONE


@pytest.fixture
def sentences(toy_train: Path) -> Sentences:
    return Sentences(ShardSet.open(toy_train), tiny_model(), rejects=Rejects("fail"))


def source_of(sentences: Sentences, epoch: int = 0, taken: int = 0) -> SentenceSource:
    config = TrainConfig(batch_tokens=0, batch_sentences=5, seed=3)
    return sentences.source(config, epoch=epoch, taken=taken)


def positions(loader: BatchLoader, count: int) -> Iterator[tuple[Batch, int, int]]:
    for _ in range(count):
        batch = next(loader)
        yield batch, loader.epoch, loader.taken


@pytest.mark.parametrize("ahead", [0, 1, 4])
def test_batches_and_positions_are_the_sources(ahead: int, sentences: Sentences) -> None:
    source = source_of(sentences)
    expected = []
    for _ in range(12):
        expected.append((source.take(ALONE), source.epoch, source.taken))
    assert expected[-1][1] >= 1  # into the next epoch
    with BatchLoader(source_of(sentences), "cpu", ahead) as loader:
        for (batch, epoch, taken), (ours, our_epoch, our_taken) in zip(
            expected, positions(loader, 12), strict=True
        ):
            assert torch.equal(batch.tokens, ours.tokens)
            assert torch.equal(batch.attach, ours.attach)
            assert torch.equal(batch.lengths, ours.lengths)
            assert (epoch, taken) == (our_epoch, our_taken)
    # Resuming from a position that the loader told gives the batches after it, whatever was made ahead.
    batch, epoch, taken = expected[6]
    with BatchLoader(source_of(sentences, epoch, taken), "cpu", ahead) as loader:
        assert torch.equal(next(loader).tokens, expected[7][0].tokens)
    assert loader.waited > 0


def test_the_thread_ends(sentences: Sentences) -> None:
    before = threading.active_count()
    with BatchLoader(source_of(sentences), "cpu", 2) as loader:
        next(loader)
        assert threading.active_count() == before + 1
    assert threading.active_count() == before


def test_an_error_is_raised_where_the_batch_is_asked_for(
    sentences: Sentences, monkeypatch: pytest.MonkeyPatch
) -> None:
    batch, made = sentences.batch, []

    def broken(numbers: NDArray[np.int64], *hidden: object) -> Batch:
        made.append(numbers)
        if len(made) == 3:
            raise OSError("the disk is gone")
        return batch(numbers)

    monkeypatch.setattr(sentences, "batch", broken)
    with BatchLoader(source_of(sentences), "cpu", 2) as loader:
        next(loader)
        next(loader)
        for _ in range(2):
            with pytest.raises(OSError, match="the disk is gone"):
                next(loader)
