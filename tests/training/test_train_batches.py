from __future__ import annotations

import dataclasses
import itertools
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from search_oracle import tiny_model

from pdtools.errors import PdtoolsError
from pdtools.files import Rejects
from pdtools.shards import ShardSet
from pdtools.training import Sentences, TrainConfig
from pdtools.training.data.batches import (
    BatchLimits,
    BatchStream,
    bucket_edges,
    padding_share,
    plan_epoch,
    plan_in_order,
)
from pdtools.training.data.masking import Masking
from pdtools.training.distributed import ALONE

LENGTHS = st.lists(st.integers(3, 60), min_size=1, max_size=120).map(np.array)
LIMITS = st.one_of(
    st.builds(BatchLimits, tokens=st.integers(60, 400)),
    st.builds(BatchLimits, sentences=st.integers(1, 9)),
    st.builds(BatchLimits, tokens=st.integers(60, 400), sentences=st.integers(1, 9)),
)


@given(LENGTHS, LIMITS, st.integers(0, 2**63 - 1), st.integers(0, 5))
def test_an_epoch_holds_every_row_once_within_the_limits(
    lengths: np.ndarray, limits: BatchLimits, seed: int, epoch: int
) -> None:
    batches = plan_epoch(lengths, limits, seed=seed, epoch=epoch)
    assert sorted(np.concatenate(batches).tolist()) == list(range(len(lengths)))
    for rows in batches:
        assert not limits.tokens or len(rows) * lengths[rows].max() <= limits.tokens
        assert not limits.sentences or len(rows) <= limits.sentences


@given(LENGTHS, LIMITS)
def test_evaluation_holds_every_row_once(lengths: np.ndarray, limits: BatchLimits) -> None:
    batches = plan_in_order(lengths, limits)
    assert sorted(np.concatenate(batches).tolist()) == list(range(len(lengths)))
    widest = [int(lengths[rows].max()) for rows in batches]
    assert widest == sorted(widest, reverse=True)
    for rows in batches[:-1]:  # full: the next row is no longer than any of them
        assert (limits.sentences and len(rows) == limits.sentences) or (
            limits.tokens and (len(rows) + 1) * lengths[rows].max() > limits.tokens
        )


def test_epochs_and_seeds_differ_and_repeat() -> None:
    lengths = np.full(40, 7)
    limits = BatchLimits(sentences=4)

    def plan(seed: int, epoch: int) -> list[list[int]]:
        return [rows.tolist() for rows in plan_epoch(lengths, limits, seed=seed, epoch=epoch)]

    assert plan(1, 0) == plan(1, 0)
    assert plan(1, 0) != plan(1, 1)
    assert plan(1, 0) != plan(2, 0)
    assert plan(1, 1) != plan(2, 0)  # no seed goes through the epochs of another one


@given(st.integers(0, 40))
def test_a_stream_goes_on_from_its_position(taken: int) -> None:
    lengths = np.arange(3, 25)
    limits = BatchLimits(tokens=60)
    stream = BatchStream(lengths=lengths, limits=limits, seed=3)
    for _ in range(taken):
        next(stream)
    resumed = BatchStream(lengths=lengths, limits=limits, seed=3, epoch=stream.epoch, taken=stream.taken)
    for _ in range(20):
        assert next(stream).tolist() == next(resumed).tolist()


def test_buckets_keep_the_padding_low() -> None:
    lengths = np.random.default_rng(0).integers(3, 100, size=5000)
    batches = plan_epoch(lengths, BatchLimits(tokens=2000), seed=0, epoch=0)
    assert padding_share(lengths, batches) < 0.06
    by_hand = 1 - lengths.sum() / sum(len(rows) * lengths[rows].max() for rows in batches)
    assert padding_share(lengths, batches) == pytest.approx(by_hand)


def test_bucket_edges_grow() -> None:
    edges = bucket_edges(500)
    assert edges[0] == 1
    assert edges[-1] > 500
    assert (np.diff(edges) >= 1).all()
    assert (np.diff(edges) <= np.maximum(1, 0.1 * edges[:-1])).all()


def test_a_row_over_the_budget_is_refused() -> None:
    with pytest.raises(PdtoolsError, match=r"has 9 positions.*train\.batch_tokens \(now 8\)"):
        plan_epoch(np.array([5, 9]), BatchLimits(tokens=8), seed=0, epoch=0)


@given(LENGTHS, st.integers(1, 9), st.integers(0, 5))
def test_stored_batches_stay_together(lengths: np.ndarray, size: int, epoch: int) -> None:
    batches = plan_epoch(lengths, BatchLimits(sentences=size), seed=3, epoch=epoch, stored=True)
    in_order = sorted(rows.tolist() for rows in batches)
    assert in_order == [list(range(i, min(i + size, len(lengths)))) for i in range(0, len(lengths), size)]


def test_stored_batches_come_in_another_order_every_epoch() -> None:
    lengths = np.arange(3, 63)
    stream = BatchStream(lengths=lengths, limits=BatchLimits(sentences=10), seed=3, stored=True)
    epochs = [[int(next(stream)[0]) for _ in range(6)] for _ in range(3)]
    assert all(sorted(epoch) == [0, 10, 20, 30, 40, 50] for epoch in epochs)
    assert len({tuple(epoch) for epoch in epochs}) == 3


def test_every_epoch_hides_other_tokens_of_a_row(toy_train: Path) -> None:
    shards = ShardSet.open(toy_train)
    masking = Masking(tokenizer=shards.tokenizer)
    sentences = Sentences(shards, tiny_model(), rejects=Rejects(), masking=masking)
    config = TrainConfig(batches="stored", batch_tokens=0, batch_sentences=100, seed=1)

    def hidden(seed: int, epoch: int) -> list[list[bool]]:
        source = sentences.source(dataclasses.replace(config, seed=seed), epoch=epoch)
        scored = source.take(ALONE).scored
        assert scored is not None
        found: list[list[bool]] = scored.tolist()
        return found

    assert hidden(1, 0) == hidden(1, 0)
    different = [hidden(1, 0), hidden(1, 1), hidden(1, 2), hidden(2, 0)]
    assert all(one != other for one, other in itertools.combinations(different, 2))


def test_rows_of_one_bucket_are_mixed_and_of_two_are_not() -> None:
    first, past = next((a, b) for a, b in itertools.pairwise(bucket_edges(60).tolist()) if b - a >= 3)
    lengths = np.array([first - 1, first, past - 1, past] * 30)
    mixed = {
        tuple(sorted(set(lengths[rows].tolist())))
        for rows in plan_epoch(lengths, BatchLimits(sentences=30), seed=3, epoch=0)
    }
    assert mixed == {(first - 1,), (first, past - 1), (past,)}


def test_a_batch_is_as_wide_as_its_longest_row() -> None:
    """Also where a shorter one is the next; and a row that is over the limit is alone, in an evaluation."""

    def in_order(lengths: list[int], tokens: int) -> list[list[int]]:
        return [rows.tolist() for rows in plan_in_order(np.array(lengths), BatchLimits(tokens=tokens))]

    assert in_order([20, 19], 39) == [[0], [1]]
    assert in_order([20, 19], 40) == [[0, 1]]
    assert in_order([50, 3, 2, 60], 40) == [[3], [0], [1, 2]]
