from __future__ import annotations

import dataclasses
import itertools
import threading
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray
from search_oracle import tiny_model

from pdtools.cli.main import run
from pdtools.errors import PdtoolsError
from pdtools.files import Rejects
from pdtools.models import Batch, load_checkpoint
from pdtools.models.registry import MODELS
from pdtools.shards import ShardSet
from pdtools.training import Recipe, Sentences, TrainConfig, train
from pdtools.training.batches import (
    BatchLimits,
    BatchLoader,
    BatchSource,
    bucket_edges,
    padding_share,
    plan_epoch,
    plan_in_order,
)
from pdtools.training.distributed import ALONE
from pdtools.training.masking import Masking

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


def row_numbers(lengths: NDArray[np.int64], epoch: int = 0, taken: int = 0) -> BatchSource:
    """A source whose batches are the numbers of their rows."""
    return BatchSource(
        plan=lambda epoch: plan_epoch(lengths, BatchLimits(tokens=60), seed=3, epoch=epoch),
        make=lambda rows, epoch, ranks: rows,
        epoch=epoch,
        taken=taken,
    )


@given(st.integers(0, 40))
def test_a_source_goes_on_from_its_position(taken: int) -> None:
    lengths = np.arange(3, 25)
    source = row_numbers(lengths)
    for _ in range(taken):
        source.take()
    resumed = row_numbers(lengths, source.epoch, source.taken)
    for _ in range(20):
        assert np.array_equal(source.take(), resumed.take())


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
    limits = BatchLimits(sentences=10)
    plans = [plan_epoch(np.arange(3, 63), limits, seed=3, epoch=epoch, stored=True) for epoch in range(3)]
    assert len({tuple(int(rows[0]) for rows in plan) for plan in plans}) == 3


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


@pytest.fixture
def sentences(toy_train: Path) -> Sentences:
    return Sentences(ShardSet.open(toy_train), tiny_model(), rejects=Rejects("fail"))


def source_of(sentences: Sentences, epoch: int = 0, taken: int = 0) -> BatchSource:
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


CONLLU = """
1\tthe\t_\tDET\t_\t_\t2\tdet\t_\t_
2\tdogs\t_\tNOUN\t_\t_\t3\tnsubj\t_\t_
3\tbarked\t_\tVERB\t_\t_\t0\troot\t_\t_
4\tloudly\t_\tADV\t_\t_\t3\tadvmod\t_\t_

1\tcats\t_\tNOUN\t_\t_\t2\tnsubj\t_\t_
2\tsleep\t_\tVERB\t_\t_\t0\troot\t_\t_

1\tbarked\t_\tVERB\t_\t_\t0\troot\t_\t_
"""


@pytest.fixture(scope="module")
def subwords(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Shards of words in several tokens, with constituents and arcs."""
    folder = tmp_path_factory.mktemp("subwords")
    (folder / "a.conllu").write_text(CONLLU.lstrip())
    parse = ["parse", f"{folder}/a.conllu", "--from", "conllu", "-o", f"{folder}/a.trees", "-q"]
    assert run(parse) == 0
    tapes = ["tapes", f"{folder}/a.trees", "--tokenizer", "bpe", "--vocab-size", "264", "-q"]
    assert run([*tapes, "-o", f"{folder}/shards"]) == 0
    return folder / "shards"


@pytest.mark.parametrize("name", MODELS)
def test_rows_of_every_model_are_as_long_as_what_it_reads_of_them(
    name: str, subwords: Path, tmp_path: Path
) -> None:
    small = {"hidden_size": 4} if name == "rnn" else {"layers": 1, "d_model": 8, "heads": 2, "d_ff": 8}
    small = {"layers": 1, "d_model": 8} if name.startswith("rnng") else small
    small |= {"positions": "learned"} if name == "plm-mask" else {}
    train(
        subwords,
        tmp_path / "run",
        Recipe(model=name, options=small, train=TrainConfig(steps=2)),
        stop=lambda: True,
    )
    model, shards = load_checkpoint(tmp_path / "run" / "last").model, ShardSet.open(subwords)
    assert max(shards.lengths) > 10  # four words, in letters
    for i, length in enumerate(model.row_lengths(shards).tolist()):
        row = shards.tokens(i), model.derivation_of(shards, i)
        batch = model.pack([row])
        assert length == model.row_length(*row) == batch.lengths.tolist()[0]
