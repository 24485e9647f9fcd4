"""One reduction per step, seen from inside one process that is a group of its own."""

import itertools
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import torch
import torch.distributed as dist
from search_oracle import tiny_model

from pdtools.models import build_model
from pdtools.shards import ShardSet
from pdtools.training import ParallelModel, Ranks, Recipe, Sentences, complete_recipe
from pdtools.training.distributed import seed_rank

pytestmark = pytest.mark.skipif(
    not (dist.is_available() and dist.is_gloo_available()), reason="needs torch.distributed with gloo"
)
TINY = {"layers": 2, "d_model": 16, "heads": 2, "d_ff": 32}


@pytest.fixture
def group(tmp_path: Path) -> Iterator[None]:
    dist.init_process_group("gloo", init_method=f"file://{tmp_path / 'store'}", rank=0, world_size=1)
    yield
    dist.destroy_process_group()


@pytest.mark.usefixtures("group")
@pytest.mark.parametrize("distribution", ["ddp", "fsdp"])
def test_one_reduction_per_step(distribution: Any, toy_train: Path) -> None:
    shards = ShardSet.open(toy_train)
    model = build_model("pushdown", complete_recipe(Recipe(options=TINY), shards.tokenizer)[1])
    sentences = Sentences(shards, tiny_model(), rejects=None)  # type: ignore[arg-type]
    # Told that it is one of two, so that the model is wrapped.
    parallel = ParallelModel(model, "cpu", Ranks(rank=0, size=2), distribution)
    reduced: list[int] = []

    def count(state: object, bucket: dist.GradBucket) -> torch.futures.Future[torch.Tensor]:
        reduced.append(bucket.buffer().numel())
        done: torch.futures.Future[torch.Tensor] = torch.futures.Future()
        done.set_result(bucket.buffer())
        return done

    if parallel._copied is not None:
        parallel._copied.register_comm_hook(None, count)
    for last in (False, False, True):
        with parallel.reducing(last):
            parts = parallel.loss(sentences.batch(sentences.rows[:4]))
            (parts.sums["token_nll"] + parts.sums["attachment_nll"]).backward()
        if distribution == "ddp":
            assert sum(reduced) == (sum(p.numel() for p in model.parameters()) if last else 0)
        else:  # what is not reduced yet is no parameter's gradient
            assert bool(parallel.gradients()) == last
    parallel.settle()
    assert len(parallel.gradients()) == len(list(model.parameters()))


def test_any_rank_and_step_have_random_numbers_of_their_own() -> None:
    """For ranks that a resumed run had not before: not those of another rank, seed or step."""
    drawn = set()
    for seed, rank, step in itertools.product((0, 1, 2), (0, 1, 2), (0, 1, 5)):
        for _ in range(2):  # the same again
            seed_rank(seed, rank, step)
            drawn.add((seed, rank, step, float(torch.rand(1, dtype=torch.float64))))
    assert len(drawn) == len({number for *_, number in drawn}) == 27
