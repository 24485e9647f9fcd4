"""Training on strings that are drawn on the fly."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file
from stopping import StopAfter, assert_same_run, metrics
from test_train_loop import NO_DROPOUT, TINY
from toy_pairs import pairs_of

from pdtools.errors import InputError, PdtoolsError
from pdtools.files import Rejects
from pdtools.formal.transduction_data import RowLayout, task_tokenizer, write_pairs
from pdtools.formal.transduction_training import TaskInput
from pdtools.formal.transductions import make_task
from pdtools.models import build_model, load_checkpoint
from pdtools.training import ALONE, Ranks, Recipe, TrainConfig, complete_recipe, train

SHORT: dict[str, Any] = {
    "steps": 10,
    "learning_rate": 3e-3,
    "warmup_steps": 0,
    "schedule": "constant",
    "weight_decay": 0.0,
    "batch_tokens": 0,
    "batch_sentences": 8,
    "eval_every": 4,
    "log_every": 2,
    "seed": 5,
}
LENGTHS = range(3, 8)


def recipe(objective: str = "masked", options: dict[str, Any] | None = None, **changes: Any) -> Recipe:
    given = {**TINY, "objective": objective, "positions": "none", **(options or {})}
    return Recipe(model="transformer", options=given, train=TrainConfig(**{**SHORT, **changes}))


@pytest.fixture
def pairs(tmp_path: Path) -> Path:
    task = make_task("rs")
    write_pairs(task, [pairs_of(task, length, 5, seed=1) for length in (9, 4)], tmp_path / "rs.tsv")
    return tmp_path / "rs.tsv"


@pytest.mark.parametrize("objective", ["masked", "causal"])
def test_stopped_and_resumed(objective: str, tmp_path: Path) -> None:
    wanted, data = recipe(objective), TaskInput(make_task("rs"), LENGTHS)
    train(data, tmp_path / "whole", wanted)
    for step in (1, 4, 7):
        stop = StopAfter(step)
        train(data, tmp_path / "parts", wanted, listener=stop, stop=stop, resume=True)
    torch.manual_seed(99)
    report = train(data, tmp_path / "parts", wanted, resume=True)
    assert report["resumed_from"] == 7
    assert report["counts"]["sentences"] == {"train": None}
    assert_same_run(tmp_path / "parts", tmp_path / "whole")


def test_with_validation(pairs: Path, tmp_path: Path) -> None:
    data = TaskInput(make_task("rs"), LENGTHS, pairs)
    report = train(data, tmp_path / "run", recipe())
    assert report["counts"]["sentences"] == {"train": None, "valid": 10}
    assert [r["step"] for r in metrics(tmp_path / "run") if r["kind"] == "valid"] == [4, 8, 10]
    described = json.loads((tmp_path / "run/run.json").read_text())
    assert described["data"]["train"] == "rs, lengths 3 to 7"
    loaded = load_checkpoint(tmp_path / "run")
    assert loaded.config["shards"] == {"task": "rs", "as_released": False, "lengths": [3, 7]}
    with pytest.raises(PdtoolsError, match="the train data are not the same"):
        train(TaskInput(make_task("rs"), range(3, 9), pairs), tmp_path / "run", recipe(), resume=True)
    with pytest.raises(PdtoolsError, match="the valid data are not the same"):
        train(TaskInput(make_task("rs"), LENGTHS), tmp_path / "run", recipe(), resume=True)
    released = make_task("rs", as_released=True)
    with pytest.raises(PdtoolsError, match="the train data are not the same"):
        train(TaskInput(released, LENGTHS, pairs), tmp_path / "run", recipe(), resume=True)


@pytest.mark.parametrize("objective", ["masked", "causal"])
def test_plain_torch_does_the_same(objective: str, tmp_path: Path) -> None:
    """The mean loss of the symbols of y, Adam: on the strings that the task draws."""
    wanted = recipe(objective, NO_DROPOUT, steps=6, eps=1e-3, clip=0.5)
    task = make_task("sm")
    train(TaskInput(task, LENGTHS), tmp_path / "run", wanted)

    tokenizer = task_tokenizer(task)
    torch.manual_seed(wanted.train.seed)
    model = build_model("transformer", complete_recipe(wanted, tokenizer)[1])
    layout = RowLayout(task=task, tokenizer=tokenizer, objective=model.objective)
    optimizer = torch.optim.Adam(model.parameters(), lr=wanted.train.learning_rate, eps=1e-3)
    for batch_number in range(6):
        drawn = task.training_pairs(LENGTHS, 8, seed=wanted.train.seed, batch=batch_number)
        batch = layout.batch(drawn)
        optimizer.zero_grad()
        parts = model.forward_parts(batch)
        (-parts.token_logprobs[batch.scored].mean()).backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 0.5)
        optimizer.step()
    trained = load_file(tmp_path / "run/last/model.safetensors")
    for name, parameter in model.named_parameters():
        torch.testing.assert_close(trained[name], parameter.detach(), atol=2e-6, rtol=1e-4)


@pytest.mark.parametrize("size", [1, 2, 3, 11])
def test_ranks_divide_a_batch(size: int, pairs: Path) -> None:
    task = make_task("rs")
    wanted = recipe()
    model = build_model("transformer", complete_recipe(wanted, task_tokenizer(task))[1])
    strings, valid = TaskInput(task, LENGTHS, pairs).open(model, TrainConfig(), Rejects("fail"))
    assert valid is not None
    alone = strings.source(wanted.train, taken=2).take(ALONE)
    parts = []
    for rank in range(size):
        source = strings.source(wanted.train, taken=2)
        parts.append(source.take(Ranks(rank=rank, size=size)))
        assert source.taken == 3
    rows = [
        row for part in parts for row, used in zip(part.tokens, part.predicted().any(1), strict=True) if used
    ]
    assert sorted(row.tolist() for row in rows) == sorted(alone.tokens.tolist())

    limits = model_limits(wanted)
    turns = [list(valid.in_order(limits, Ranks(rank=rank, size=size))) for rank in range(size)]
    assert len({len(batches) for batches in turns}) == 1
    scored = sum(int(batch.predicted().sum()) for batches in turns for batch in batches)
    assert scored == 5 * 9 + 5 * 4


def model_limits(wanted: Recipe) -> Any:
    from pdtools.training import BatchLimits

    return BatchLimits(tokens=40, sentences=wanted.train.batch_sentences)


def test_batch_sizes(tmp_path: Path) -> None:
    task = make_task("rs")
    model = build_model("transformer", complete_recipe(recipe(), task_tokenizer(task))[1])
    strings, _ = TaskInput(task, LENGTHS).open(model, TrainConfig(), Rejects("fail"))
    assert strings.longest_row == 15  # ROOT, 7 of x, 7 of y
    source = strings.source(TrainConfig(**{**SHORT, "batch_tokens": 50}))
    assert len(source.take(ALONE).tokens) == 3
    with pytest.raises(PdtoolsError, match=r"raise train\.batch_tokens \(now 14\)"):
        strings.source(TrainConfig(**{**SHORT, "batch_tokens": 14}))
    with pytest.raises(PdtoolsError, match=r"train\.batch_sentences is 0"):
        train(TaskInput(task, LENGTHS), tmp_path / "run", recipe(batch_sentences=0, batch_tokens=99))
    with pytest.raises(PdtoolsError, match=r"train\.batches is stored: a task's strings are drawn anew"):
        train(TaskInput(task, LENGTHS), tmp_path / "run", recipe(batches="stored"))
    assert not (tmp_path / "run").exists()


def test_refusals(pairs: Path, tmp_path: Path) -> None:
    with pytest.raises(PdtoolsError, match="se: x has at least 3 symbols, not 1"):
        TaskInput(make_task("se"), range(1, 9))
    with pytest.raises(InputError, match="no pair of the task ma: 'b' is none of 0 1"):
        TaskInput(make_task("ma"), LENGTHS, pairs)
    with pytest.raises(PdtoolsError, match="validation shards are only for training shards"):
        train(TaskInput(make_task("rs"), LENGTHS), tmp_path / "run", recipe(), valid=pairs)
    learned = {"positions": "learned", "max_length": 16}
    with pytest.raises(PdtoolsError, match="19 positions"):
        train(TaskInput(make_task("rs"), LENGTHS, pairs), tmp_path / "run", recipe(options=learned))
    with pytest.raises(PdtoolsError, match="strings have no attachments"):
        train(
            TaskInput(make_task("rs"), LENGTHS),
            tmp_path / "run",
            Recipe(model="pushdown", options=TINY, train=TrainConfig(**SHORT)),
        )
    assert not (tmp_path / "run").exists()


def test_what_memory_has_no_room_for(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    data = TaskInput(make_task("rs"), LENGTHS)
    with pytest.raises(PdtoolsError, match="not enough memory: 1000000000000 strings are 447035 GiB before"):
        train(data, tmp_path / "run", recipe(batch_sentences=10**12))
    assert not (tmp_path / "run/last").exists()
    # Where the batch fits, and what is computed of it does not.
    for error in (
        RuntimeError(
            "[enforce fail at alloc_cpu.cpp:127] can't allocate memory: you tried to allocate 4 bytes"
        ),
        MemoryError("Unable to allocate 291. TiB"),
        torch.OutOfMemoryError("CUDA out of memory."),
    ):

        def fail(*arguments: Any, error: BaseException = error) -> None:
            raise error

        monkeypatch.setattr("pdtools.training.distributed.ParallelModel.loss", fail)
        with pytest.raises(PdtoolsError, match=r"^not enough memory: lower train\.batch_tokens or") as caught:
            train(data, tmp_path / "other", recipe(), overwrite=True)
        assert caught.value.__cause__ is error
    monkeypatch.setattr("pdtools.training.distributed.ParallelModel.loss", lambda *_: 1 / 0)
    with pytest.raises(ZeroDivisionError):
        train(data, tmp_path / "other", recipe(), overwrite=True)
