from __future__ import annotations

import contextlib
import dataclasses
import json
import math
import os
import shutil
import signal
import struct
import sys
import warnings
from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path
from typing import Any

import pytest
import torch
from forked import killed_at, run_script
from safetensors.torch import load_file, save_file
from search_oracle import tiny_model
from stopping import DieAfter, StopAfter, assert_same_run, metrics
from tensorboardX.proto.event_pb2 import Event
from toy_language import WORDS, toy_tokenizer

from pdtools import __version__
from pdtools.errors import InputError, PdtoolsError
from pdtools.jobs import devices
from pdtools.models import build_model, load_checkpoint
from pdtools.shards import ShardSet
from pdtools.training import (
    LossSums,
    Recipe,
    Sentences,
    TrainConfig,
    TrainOptions,
    complete_recipe,
    evaluate,
    open_run,
    run_state,
    train,
)
from pdtools.training.batches import BatchLimits, plan_epoch
from pdtools.training.loop import NullListener
from pdtools.training.loss import autocast
from pdtools.training.metrics import MetricsLog
from pdtools.training.optimizer import learning_rate, undecayed_parameters

TINY = {"layers": 2, "d_model": 16, "heads": 2, "d_ff": 32}
NO_DROPOUT = {"input_dropout": 0.0, "attention_dropout": 0.0, "output_dropout": 0.0}
SHORT = TrainConfig(
    steps=12,
    learning_rate=3e-3,
    warmup_steps=3,
    batch_tokens=60,
    accumulate=2,
    eval_every=4,
    log_every=3,
    seed=5,
)


def recipe(model: str = "pushdown", options: Mapping[str, Any] | None = None, **changes: Any) -> Recipe:
    given = {**TINY, **(options or {})}
    return Recipe(model=model, options=given, train=dataclasses.replace(SHORT, **changes))


OPENING = sys.modules["pdtools.training.train"]  # the package has the function of that name


def train_until(shards: Path, run: Path, wanted: Recipe, valid: Path, *steps: int) -> None:
    """Train, stopped after each of these steps and resumed after all but the last."""
    for step in steps:
        stop = StopAfter(step)
        train(shards, run, wanted, valid=valid, listener=stop, stop=stop, resume=True)


@pytest.fixture(scope="module", params=["pushdown", "transformer"])
def reference(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory, toy_train: Path, toy_valid: Path
) -> tuple[Recipe, Path]:
    """A run that nothing interrupted; dropout is on."""
    wanted = recipe(request.param)
    run = tmp_path_factory.mktemp("reference") / "run"
    train(toy_train, run, wanted, valid=toy_valid)
    return wanted, run


@pytest.mark.parametrize("step", [1, 4, 5, 11])
def test_stopped_and_resumed(
    step: int, reference: tuple[Recipe, Path], toy_train: Path, toy_valid: Path, tmp_path: Path
) -> None:
    wanted, uninterrupted = reference
    run = tmp_path / "run"
    stop = StopAfter(step)
    report = train(toy_train, run, wanted, valid=toy_valid, listener=stop, stop=stop)
    assert report["finished"] is None
    assert report["step"] == step
    torch.manual_seed(99)  # another process has other random numbers
    report = train(toy_train, run, wanted, valid=toy_valid, resume=True)
    assert report["finished"] == "steps"
    assert report["resumed_from"] == step
    assert_same_run(run, uninterrupted)


@pytest.mark.parametrize("step", [2, 6, 8])
def test_killed_and_resumed(
    step: int, reference: tuple[Recipe, Path], toy_train: Path, toy_valid: Path, tmp_path: Path
) -> None:
    wanted, uninterrupted = reference
    run = tmp_path / "run"
    with pytest.raises(DieAfter.Dead):
        train(toy_train, run, wanted, valid=toy_valid, listener=DieAfter(step))
    report = train(toy_train, run, None if step > 4 else wanted, valid=toy_valid, resume=True)
    assert report["resumed_from"] == (None if step < 4 else 4)
    assert_same_run(run, uninterrupted)


@pytest.mark.linux
def test_killed_at_each_operation_up_to_the_first_checkpoint(toy_train: Path, tmp_path: Path) -> None:
    wanted = recipe(steps=1)
    train(toy_train, tmp_path / "whole", wanted)
    operation = 0
    while True:
        folder = tmp_path / f"{operation}"
        folder.mkdir()
        begin = partial(train, toy_train, folder / "run", wanted, resume=True)
        if not killed_at(operation, folder, begin) or (folder / "run" / "last").is_dir():
            break
        step = 3 if (folder / "run" / "run.json").exists() else 1
        assert begin()["finished"] == "steps"
        assert not [path.name for path in (folder / "run").iterdir() if path.name.startswith(".")]
        assert sorted(os.listdir(folder)) == [".run.lock", "run"]
        assert_same_run(folder / "run", tmp_path / "whole")
        operation += step
    assert operation > 10


@pytest.mark.parametrize(
    "name", ["mine", ".mine.tmp", ".pdtools.json", ".run.json.mine.tmp", "pdtools.json.tmp"]
)
def test_a_folder_that_holds_other_files_is_not_empty(name: str, toy_train: Path, tmp_path: Path) -> None:
    (tmp_path / "run").mkdir()
    (tmp_path / "run" / name).write_text("ten years")
    with pytest.raises(PdtoolsError, match=r"not a training run \(run\.json is missing\)"):
        train(toy_train, tmp_path / "run", recipe(steps=1), resume=True)
    assert (tmp_path / "run" / name).read_text() == "ten years"


def test_other_code_goes_on_and_is_recorded(
    toy_train: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    run, stop = tmp_path / "run", StopAfter(1)
    monkeypatch.setattr(OPENING, "code_digest", lambda: "0123456789ab")
    train(toy_train, run, recipe(steps=3), listener=stop, stop=stop)
    options = TrainOptions(resume=True, stop=lambda: True)
    with open_run(toy_train, run, None, options) as same:
        assert same.other_code is None
    monkeypatch.setattr(OPENING, "code_digest", lambda: "ba9876543210")
    with open_run(toy_train, run, None, options) as other:
        assert other.other_code == (
            f"{run}: trained so far by pdtools {__version__}, code 0123456789ab;"
            f" goes on under {__version__}, code ba9876543210"
        )
    with open_run(toy_train, run, None, options) as again:
        assert again.other_code is None
    train(toy_train, run, resume=True)
    record = json.loads((run / "run.json").read_text())
    codes = [each["code"]["digest"] for each in (record["provenance"], *record["resumed"])]
    assert codes == ["0123456789ab"] * 2 + ["ba9876543210"] * 3
    with open_run(toy_train, run, None, options) as finished:
        assert finished.other_code is None


def test_muon_stopped_and_resumed(toy_train: Path, toy_valid: Path, tmp_path: Path) -> None:
    wanted = recipe(optimizer="muon", head_warmup_steps=2)  # in the first steps Muon has no state
    train(toy_train, tmp_path / "whole", wanted, valid=toy_valid)
    train_until(toy_train, tmp_path / "run", wanted, toy_valid, 1, 5)
    train(toy_train, tmp_path / "run", wanted, valid=toy_valid, resume=True)
    assert_same_run(tmp_path / "run", tmp_path / "whole")


def test_interrupted_twice_and_a_cut_swap(
    reference: tuple[Recipe, Path], toy_train: Path, toy_valid: Path, tmp_path: Path
) -> None:
    wanted, uninterrupted = reference
    run = tmp_path / "run"
    train_until(toy_train, run, wanted, toy_valid, 3, 7)
    (run / "last").rename(run / ".last.new.old")  # killed between the two renames of a swap
    (run / ".last.new.tmp").mkdir()
    with open(run / "metrics.jsonl", "a") as stream:
        stream.write('{"kind": "train", "st')
    train(toy_train, run, wanted, valid=toy_valid, resume=True)
    assert_same_run(run, uninterrupted)
    assert {path.name for path in run.iterdir()} == {
        "best",
        "last",
        "metrics.jsonl",
        "pdtools.json",
        "run.json",
        "tensorboard",
    }


@pytest.mark.linux
@pytest.mark.parametrize("reference", ["pushdown"], indirect=True)
def test_killed_by_the_system(
    reference: tuple[Recipe, Path], toy_train: Path, toy_valid: Path, tmp_path: Path
) -> None:
    wanted, uninterrupted = reference
    run = tmp_path / "run"
    program = f"""
import os, signal, torch
from pdtools.training import *
from pdtools.training.loop import NullListener
torch.set_num_threads(1)
class Kill(NullListener):
    def stepped(self, step):
        if step == 7:
            os.kill(os.getpid(), signal.SIGKILL)
recipe = Recipe(model={wanted.model!r}, options={dict(wanted.options)!r}, train={wanted.train!r})
train({str(toy_train)!r}, {str(run)!r}, recipe, valid={str(toy_valid)!r}, listener=Kill())
"""
    done = run_script(program)
    assert done.returncode == -signal.SIGKILL
    train(toy_train, run, wanted, valid=toy_valid, resume=True)
    assert_same_run(run, uninterrupted)


def test_stopped_in_an_evaluation(
    reference: tuple[Recipe, Path], toy_train: Path, toy_valid: Path, tmp_path: Path
) -> None:
    wanted, uninterrupted = reference
    run = tmp_path / "run"
    asked = {"times": 0}
    stop = StopAfter(8)

    def in_the_evaluation() -> bool:
        asked["times"] += stop()
        return asked["times"] > 1

    report = train(toy_train, run, wanted, valid=toy_valid, listener=stop, stop=in_the_evaluation)
    assert report["step"] == 8
    state = json.loads((run / "last/trainer/state.json").read_text())
    assert state["evaluated_step"] == 4
    train(toy_train, run, wanted, valid=toy_valid, resume=True)
    assert_same_run(run, uninterrupted)


def test_a_finished_run_stays_as_it_is(
    reference: tuple[Recipe, Path], toy_train: Path, toy_valid: Path
) -> None:
    wanted, run = reference
    before = {path: path.read_bytes() for path in run.rglob("*") if path.is_file()}
    report = train(toy_train, run, wanted, valid=toy_valid, resume=True)
    assert report["already_finished"]
    assert {path: path.read_bytes() for path in run.rglob("*") if path.is_file()} == before


def test_no_step_twice_in_the_log(reference: tuple[Recipe, Path]) -> None:
    steps = [(r["kind"], r["step"]) for r in metrics(reference[1])]
    assert [s for kind, s in steps if kind == "train"] == [3, 6, 9, 12]
    assert [s for kind, s in steps if kind == "valid"] == [4, 8, 12]


def test_best_is_the_best_evaluation(reference: tuple[Recipe, Path], toy_valid: Path) -> None:
    wanted, run = reference
    losses = {r["step"]: r["loss"] for r in metrics(run) if r["kind"] == "valid"}
    state = json.loads((run / "last/trainer/state.json").read_text())
    assert state["best_loss"] == min(losses.values()) == losses[state["best_step"]]
    loaded = load_checkpoint(run)
    sentences = Sentences(ShardSet.open(toy_valid), tiny_model(), rejects=None)  # type: ignore[arg-type]
    sums = evaluate(loaded.model, sentences.in_order(BatchLimits(sentences=1)))
    assert sums is not None
    assert sums.loss(wanted.train) == pytest.approx(state["best_loss"], rel=1e-5)
    assert loaded.config["shards"]["factor"] == "right"


# --- what is optimized ------------------------------------------------------------------------


def weights(run: Path) -> dict[str, torch.Tensor]:
    return load_file(run / "last/model.safetensors")


@pytest.mark.parametrize("model", ["pushdown", "transformer"])
def test_accumulation_equals_one_big_batch(model: str, toy_train: Path, tmp_path: Path) -> None:
    # A step holds the whole corpus, however it is divided. A large eps, because AdamW's first steps are
    # signs of the gradient else, and the sign of rounding errors is chance.
    common = {"steps": 3, "eps": 0.1, "learning_rate": 0.1, "weight_decay": 0.1}
    big = recipe(model, NO_DROPOUT, **common, batch_tokens=0, batch_sentences=24, accumulate=1)
    small = recipe(model, NO_DROPOUT, **common, batch_tokens=0, batch_sentences=5, accumulate=5)
    train(toy_train, tmp_path / "big", big)
    train(toy_train, tmp_path / "small", small)
    start = build_weights(big, toy_train)
    moved = 0.0
    for name, tensor in weights(tmp_path / "big").items():
        torch.testing.assert_close(weights(tmp_path / "small")[name], tensor, atol=1e-6, rtol=1e-5)
        moved = max(moved, float((tensor - start[name]).abs().max()))
    assert moved > 1e-2


def build_weights(wanted: Recipe, shards: Path) -> dict[str, torch.Tensor]:
    torch.manual_seed(wanted.train.seed)
    _, config = complete_recipe(wanted, ShardSet.open(shards).tokenizer)
    return {name: p.detach().clone() for name, p in build_model(wanted.model, config).named_parameters()}


@pytest.mark.parametrize(
    ("weight", "clip", "alone"), [(1.0, 0.0, 0), (0.5, 0.05, 0), (0.0, 1.0, 0), (0.5, 0.05, 2)]
)
def test_steps_equal_plain_torch(
    weight: float, clip: float, alone: int, toy_train: Path, tmp_path: Path
) -> None:
    """In the first steps the head may learn alone: the norm that is clipped is its own then."""
    wanted = recipe(
        "pushdown",
        NO_DROPOUT,
        steps=3,
        attachment_weight=weight,
        clip=clip,
        weight_decay=0.2,
        batch_tokens=80,
        eps=1e-3,
        head_warmup_steps=alone,
    )
    train(toy_train, tmp_path / "run", wanted)

    config = wanted.train
    shards = ShardSet.open(toy_train)
    torch.manual_seed(config.seed)
    model = build_model("pushdown", complete_recipe(wanted, shards.tokenizer)[1])
    undecayed = undecayed_parameters(model)
    optimizer = torch.optim.AdamW(
        [
            {"params": [p], "weight_decay": 0.0 if name in undecayed else 0.2}
            for name, p in model.named_parameters()
        ],
        eps=1e-3,
    )
    data = Sentences(shards, tiny_model(), rejects=None)  # type: ignore[arg-type]
    plan = [
        rows
        for epoch in range(6)
        for rows in plan_epoch(shards.lengths, BatchLimits(tokens=80), seed=config.seed, epoch=epoch)
    ]
    for step in range(1, 4):
        losses, tokens = [], 0
        for rows in plan[2 * (step - 1) : 2 * step]:
            for row in rows:  # one sentence at a time, without padding
                parts = model.loss(data.batch(row[None]))
                losses.append(parts.sums["token_nll"] + weight * parts.sums["attachment_nll"])
                tokens += len(shards.tokens(row)) - 1
        optimizer.zero_grad()
        (torch.stack(losses).sum() / tokens).backward()
        for name, p in model.named_parameters():
            if step <= alone and not name.startswith("head."):
                p.grad = None
        if clip:
            norm = torch.sqrt(sum(p.grad.square().sum() for p in model.parameters() if p.grad is not None))
            for p in model.parameters():
                if p.grad is not None:
                    p.grad *= min(1.0, clip / float(norm))
        for group in optimizer.param_groups:
            group["lr"] = learning_rate(step, config)
        optimizer.step()
    for name, parameter in model.named_parameters():
        torch.testing.assert_close(weights(tmp_path / "run")[name], parameter.detach(), atol=2e-6, rtol=1e-4)


@pytest.mark.parametrize("model", ["pushdown", "transformer"])
def test_a_language_is_learned(model: str, toy_train: Path, toy_valid: Path, tmp_path: Path) -> None:
    wanted = recipe(
        model, NO_DROPOUT, steps=150, learning_rate=1e-2, batch_tokens=300, accumulate=1, eval_every=30
    )
    report = train(toy_train, tmp_path / "run", wanted, valid=toy_valid)
    vocabulary = ShardSet.open(toy_train).tokenizer.vocab_size
    # Only the determiner, the nouns and the number of phrases are free: the language's perplexity is 1.76.
    assert report["best"]["ppl_token_given_trees"] < 2.4 < vocabulary / 4
    if model == "pushdown":
        assert report["best"]["attachment_accuracy"] > 0.95
        assert report["best"]["ppl_token_joint"] < 2.6
    else:
        assert report["best"]["attachment_accuracy"] is None


def test_where_the_time_went_is_reported(toy_train: Path, tmp_path: Path) -> None:
    report = train(toy_train, tmp_path / "run", recipe())
    spent = report["time"]
    assert 0 < spent["loading"] < spent["steps"]
    assert spent["steps"] + spent["other"] == pytest.approx(report["seconds"], abs=2e-3)
    records = (tmp_path / "run/metrics.jsonl").read_text().splitlines()
    shares = [json.loads(record)["loading_share"] for record in records]
    assert all(0 < share < 1 for share in shares)


@pytest.mark.parametrize(
    ("model", "positions"),
    [("pushdown", "relative"), ("plm-mask", "learned")],
)
def test_bf16_learns_and_keeps_float32_weights(
    model: str, positions: str, toy_train: Path, tmp_path: Path
) -> None:
    losses = []
    for precision in ("float32", "bf16"):
        train(toy_train, tmp_path / precision, recipe(model, {"positions": positions}, precision=precision))
        losses.append([record["loss"] for record in metrics(tmp_path / precision)])
    assert losses[1] == pytest.approx(losses[0], rel=0.01)
    assert losses[1] != losses[0]
    assert losses[1][-1] < losses[1][0] - 0.1
    assert all(tensor.dtype == torch.float32 for tensor in weights(tmp_path / "bf16").values())


@pytest.mark.filterwarnings("ignore:CUDA is not available")
@pytest.mark.parametrize("native", [True, False])
def test_auto_precision_does_not_emulate_bf16(native: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    def is_bf16_supported(including_emulation: bool = True) -> bool:
        return native or including_emulation

    monkeypatch.setattr(torch.cuda, "is_bf16_supported", is_bf16_supported)
    context = autocast("cuda:0", "auto")
    assert isinstance(context, torch.autocast if native else contextlib.nullcontext)


# --- early stop -------------------------------------------------------------------------------


def scripted(losses: list[float]) -> Callable[..., LossSums]:
    remaining = iter(losses)
    return lambda *args, **kwargs: LossSums({"token_nll": next(remaining), "tokens": 1})


@pytest.mark.parametrize("steps", [24, 16])
def test_early_stop(
    steps: int, toy_train: Path, toy_valid: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    seen = {}

    class Watch(NullListener):
        def evaluated(self, step: int, scores: Mapping[str, Any], is_best: bool) -> None:
            seen[step] = ((tmp_path / "run/best/model.safetensors").read_bytes(), is_best)

    monkeypatch.setattr("pdtools.training.loop.evaluate", scripted([3.0, 2.0, 2.5, 2.0, 1.0, 0.5]))
    wanted = recipe(steps=steps, eval_every=4, patience=2)
    report = train(toy_train, tmp_path / "run", wanted, valid=toy_valid, listener=Watch())
    assert report["finished"] == "patience"
    assert report["step"] == 16
    assert report["best_step"] == 8
    assert [is_best for _, is_best in seen.values()] == [True, True, False, False]
    assert seen[8][0] == seen[16][0] != seen[4][0]
    again = train(toy_train, tmp_path / "run", wanted, valid=toy_valid, resume=True)
    assert (again["finished"], again["step"]) == ("patience", 16)


# --- the recipe of small recurrent models -----------------------------------------------------

PLATEAU = {"schedule": "plateau", "decay": 0.5, "decay_patience": 2, "warmup_steps": 0, "eval_every": 4}


def rates(run: Path) -> dict[int, float]:
    return {r["step"]: r["learning_rate"] for r in metrics(run) if r["kind"] == "train"}


def test_plateau(toy_train: Path, toy_valid: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    losses = [3.0, 3.5, 4.0, 3.0, 2.0, 2.0, 2.5, 2.5, 2.5, 9.0]
    wanted = recipe(**PLATEAU, steps=80, learning_rate=0.5, log_every=4, patience=4)
    monkeypatch.setattr("pdtools.training.loop.evaluate", scripted(losses))
    report = train(toy_train, tmp_path / "run", wanted, valid=toy_valid)
    assert (report["finished"], report["step"], report["best_step"]) == ("patience", 36, 20)
    # Halved after the evaluations at steps 12 (two worse ones), 28 and 36.
    assert rates(tmp_path / "run") == {
        step: 0.5 if step <= 12 else 0.25 if step <= 28 else 0.125 for step in range(4, 37, 4)
    }

    monkeypatch.setattr("pdtools.training.loop.evaluate", scripted(losses))
    train_until(toy_train, tmp_path / "other", wanted, toy_valid, 6, 13, 29)
    train(toy_train, tmp_path / "other", wanted, valid=toy_valid, resume=True)
    assert_same_run(tmp_path / "other", tmp_path / "run")


@pytest.mark.parametrize("optimizer", ["adamw", "sgd"])
def test_the_rate_that_plateau_has_come_to_is_the_one_of_the_steps(
    optimizer: str, toy_train: Path, toy_valid: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    changes = {**PLATEAU, "decay": 1e-12, "decay_patience": 1, "learning_rate": 0.1, "optimizer": optimizer}
    weights = []
    for steps in (4, 8, 12):
        monkeypatch.setattr("pdtools.training.loop.evaluate", scripted([3.0, 4.0, 4.0]))
        run = tmp_path / str(steps)
        train(toy_train, run, recipe("transformer", NO_DROPOUT, **changes, steps=steps), valid=toy_valid)
        weights.append(load_file(run / "last" / "model.safetensors"))
    first, second, third = weights
    assert any((first[name] - second[name]).abs().max() > 1e-3 for name in first)
    for name in second:  # nothing to be seen is learned after the second evaluation
        torch.testing.assert_close(third[name], second[name], rtol=2e-6, atol=1e-6)


def test_plateau_needs_validation(toy_train: Path, tmp_path: Path) -> None:
    with pytest.raises(PdtoolsError, match=r"schedule plateau needs validation sentences"):
        train(toy_train, tmp_path / "run", recipe(**PLATEAU))


@pytest.mark.parametrize(("clip", "eps", "accumulate"), [(0.7, 1e-3, 1), (0.0, 0.1, 1), (0.0, 0.1, 2)])
def test_stored_batches_and_a_loss_per_sentence(
    clip: float, eps: float, accumulate: int, toy_train: Path, toy_valid: Path, tmp_path: Path
) -> None:
    """Plain torch: loss summed over time, mean over the step's sentences, batches as they are stored.

    A gradient that is clipped, or much larger than Adam's eps, has the same effect whatever divides it.
    """
    stored = {"batches": "stored", "normalize": "sentence", "batch_tokens": 0, "batch_sentences": 5}
    wanted = recipe(
        "transformer",
        NO_DROPOUT,
        **PLATEAU,
        **stored,
        steps=7,
        accumulate=accumulate,
        eps=eps,
        clip=clip,
        weight_decay=0.0,
    )
    train(toy_train, tmp_path / "run", wanted, valid=toy_valid)
    train_until(toy_train, tmp_path / "other", wanted, toy_valid, 3, 6)
    train(toy_train, tmp_path / "other", wanted, valid=toy_valid, resume=True)
    assert_same_run(tmp_path / "other", tmp_path / "run")

    shards = ShardSet.open(toy_train)
    torch.manual_seed(wanted.train.seed)
    model = build_model("transformer", complete_recipe(wanted, shards.tokenizer)[1])
    optimizer = torch.optim.Adam(model.parameters(), lr=wanted.train.learning_rate, eps=eps)
    data = Sentences(shards, tiny_model(), rejects=None)  # type: ignore[arg-type]
    plan = [
        rows
        for epoch in range(4)
        for rows in plan_epoch(
            shards.lengths, BatchLimits(sentences=5), seed=wanted.train.seed, epoch=epoch, stored=True
        )
    ]
    for step in range(7):
        sentences = [row for rows in plan[accumulate * step : accumulate * (step + 1)] for row in rows]
        optimizer.zero_grad()
        torch.stack(
            [model.loss(data.batch(row[None])).sums["token_nll"] for row in sentences]
        ).mean().backward()
        if clip:
            torch.nn.utils.clip_grad_norm_(model.parameters(), clip)
        optimizer.step()
    for name, parameter in model.named_parameters():
        torch.testing.assert_close(weights(tmp_path / "run")[name], parameter.detach(), atol=2e-6, rtol=1e-4)


@pytest.mark.parametrize("schedule", ["constant", "plateau"])
def test_a_finished_run_can_be_given_more_steps(
    schedule: str, toy_train: Path, toy_valid: Path, tmp_path: Path
) -> None:
    """It ends as if it had had them from the start."""
    few, many = (
        recipe(steps=8, eval_every=4, schedule=schedule),
        recipe(steps=16, eval_every=4, schedule=schedule),
    )
    assert train(toy_train, tmp_path / "whole", many, valid=toy_valid)["step"] == 16
    for wanted in (few, many):
        found = train(toy_train, tmp_path / "run", wanted, valid=toy_valid, resume=True)
    assert (found["step"], found["finished"]) == (16, "steps")
    assert json.loads((tmp_path / "run" / "run.json").read_text())["recipe"]["train"]["steps"] == 16
    for name in ("last", "best"):
        whole, run = (
            (tmp_path / each / name / "model.safetensors").read_bytes() for each in ("whole", "run")
        )
        assert whole == run
    with pytest.raises(PdtoolsError, match=r"cannot be resumed: train\.steps is 8, but was 16"):
        train(toy_train, tmp_path / "run", few, valid=toy_valid, resume=True)


# --- refusals ---------------------------------------------------------------------------------


def test_resume_with_other_settings_or_data(
    reference: tuple[Recipe, Path], toy_train: Path, toy_valid: Path, make_shards: Callable[..., Path]
) -> None:
    wanted, run = reference
    longer = dataclasses.replace(wanted, train=dataclasses.replace(wanted.train, steps=99))
    with pytest.raises(PdtoolsError, match=r"cannot be resumed: train\.steps is 99, but was 12"):
        train(toy_train, run, longer, valid=toy_valid, resume=True)
    with pytest.raises(PdtoolsError, match="the train data are not the same"):
        train(make_shards(24, seed=3), run, wanted, valid=toy_valid, resume=True)
    with pytest.raises(PdtoolsError, match="the valid data are not the same"):
        train(toy_train, run, wanted, resume=True)


def test_existing_outputs(toy_train: Path, tmp_path: Path) -> None:
    folder = tmp_path / "precious"
    folder.mkdir()
    (folder / "thesis.tex").write_text("ten years")
    for options in ({}, {"overwrite": True}, {"resume": True}):
        with pytest.raises(PdtoolsError, match=r"exists already|holds thesis\.tex|not a training run"):
            train(toy_train, folder, recipe(), **options)
    assert (folder / "thesis.tex").read_text() == "ten years"

    run = tmp_path / "run"
    train(toy_train, run, recipe(steps=1))
    with pytest.raises(PdtoolsError, match="exists already"):
        train(toy_train, run, recipe(steps=2))
    assert train(toy_train, run, recipe(steps=2), overwrite=True)["step"] == 2

    shutil.copytree(toy_train, run / "shards")
    with pytest.raises(PdtoolsError, match="holds the input"):
        train(run / "shards", run, recipe(steps=2), overwrite=True)
    assert (run / "shards").is_dir()


class KillAfter(NullListener):
    """Ends the process at a step, as the system would."""

    def __init__(self, step: int) -> None:
        self.step = step

    def stepped(self, step: int) -> None:
        if step == self.step:
            os._exit(9)


def contents(folder: Path) -> dict[str, bytes]:
    return {str(p.relative_to(folder)): p.read_bytes() for p in folder.rglob("*") if p.is_file()}


def test_hidden_folders_of_others_beside_and_in_a_run_stay(
    toy_train: Path, toy_valid: Path, tmp_path: Path
) -> None:
    run = tmp_path / "run"
    train(toy_train, run, recipe(steps=1), valid=toy_valid)
    others = [place / "ch.tex" for place in (tmp_path / ".run.new.old", run / ".best.mine.old")]
    for file in others:
        file.parent.mkdir()
        file.write_text("ten years")
    train(toy_train, run, recipe(steps=1), valid=toy_valid, resume=True)
    assert [file.read_text() for file in others] == ["ten years"] * 2


@pytest.mark.linux
@pytest.mark.skipif(not hasattr(os, "fork"), reason="not a POSIX system")
@pytest.mark.parametrize("exchanges", [True, False])
def test_the_old_run_stays_until_the_new_one_has_a_checkpoint(
    exchanges: bool, toy_train: Path, toy_valid: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    if not exchanges:
        monkeypatch.setattr("pdtools.files.outputs.exchange", lambda one, other: False)
    run, wanted = tmp_path / "run", recipe(steps=8)
    train(toy_train, run, recipe(steps=1), valid=toy_valid)
    old = contents(run)

    def killed(step: int) -> None:
        if not (child := os.fork()):
            with contextlib.suppress(BaseException):
                train(toy_train, run, wanted, valid=toy_valid, overwrite=True, listener=KillAfter(step))
            os._exit(70)
        assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 9

    killed(3)  # the first checkpoint is that of step 4
    assert contents(run) == old
    assert load_checkpoint(run).folder == run / "best"
    assert train(toy_train, run, resume=True, valid=toy_valid)["step"] == 1
    assert not (tmp_path / ".run.new.tmp").exists()
    killed(3)
    with pytest.raises(DieAfter.Dead):
        train(toy_train, run, wanted, valid=toy_valid, overwrite=True, listener=DieAfter(2))
    assert contents(run)["last/model.safetensors"] == old["last/model.safetensors"]
    assert sorted(os.listdir(tmp_path)) == [".run.lock", "run"]
    killed(6)
    assert run_state(run).step == 4
    report = train(toy_train, run, wanted, valid=toy_valid, resume=True)
    assert (report["resumed_from"], report["finished"]) == (4, "steps")
    other = tmp_path / "other"
    train(toy_train, other, wanted, valid=toy_valid)
    assert_same_run(run, other)
    assert sorted(os.listdir(tmp_path)) == [".other.lock", ".run.lock", "other", "run"]


def test_files_of_others_in_a_checkpoint_are_not_deleted(toy_train: Path, tmp_path: Path) -> None:
    run = tmp_path / "run"
    stop = StopAfter(2)
    train(toy_train, run, recipe(), listener=stop, stop=stop)
    (run / "last" / "notes.txt").write_text("mine")
    with pytest.raises(PdtoolsError, match=r"last: holds notes\.txt, which pdtools did not write"):
        train(toy_train, run, recipe(), resume=True)
    assert (run / "last" / "notes.txt").read_text() == "mine"
    (run / "last" / "notes.txt").unlink()
    assert train(toy_train, run, recipe(), resume=True)["resumed_from"] == 2


def test_another_tokenizer_or_binarization(
    toy_train: Path, make_shards: Callable[..., Path], tmp_path: Path
) -> None:
    other = make_shards(4, tokenizer=toy_tokenizer([*WORDS, "zebra"]))
    with pytest.raises(PdtoolsError, match="tokenized differently from the training shards"):
        train(toy_train, tmp_path / "run", recipe(), valid=other)
    with pytest.raises(
        PdtoolsError, match="binarized to the left, but the trees of training are binarized to the right"
    ):
        train(toy_train, tmp_path / "run", recipe(), valid=make_shards(4, factor="left"))
    assert not (tmp_path / "run").exists()


def test_sentences_longer_than_the_model(toy_train: Path, tmp_path: Path) -> None:
    shards = ShardSet.open(toy_train)
    limit = 8
    too_long = [i for i in range(len(shards)) if shards.lengths[i] > limit]
    assert too_long
    wanted = recipe(options={"positions": "learned", "max_length": limit}, steps=1)
    first = too_long[0]
    with pytest.raises(
        InputError,
        match=rf"id {shards.ids[first]} \({shards.lengths[first]} positions\): longer than the model's 8",
    ):
        train(toy_train, tmp_path / "run", wanted)
    assert not (tmp_path / "run").exists()
    report = train(toy_train, tmp_path / "run", wanted, on_error="skip")
    assert report["counts"]["sentences"] == {"train": 24 - len(too_long)}
    assert report["counts"]["left_out"] == {"longer than the model's 8 positions": len(too_long)}
    rejects = [json.loads(line) for line in (tmp_path / "run/rejects.jsonl").read_text().splitlines()]
    assert [r["line"] for r in rejects] == [int(shards.ids[i]) for i in too_long]
    train(toy_train, tmp_path / "run", wanted, on_error="skip", overwrite=True)  # also with excluded ones
    with pytest.raises(InputError, match="no sentences that the model can take"):
        tiny = recipe(options={"positions": "learned", "max_length": 2}, steps=1)
        train(toy_train, tmp_path / "none", tiny, on_error="skip")


@pytest.mark.parametrize(
    ("model", "key"),
    [
        *(("pushdown", key) for key in ("treereg", "arc", "count", "answer")),
        *(("transformer", key) for key in ("attachment", "treereg", "answer")),
    ],
)
def test_a_weight_of_no_loss(model: str, key: str, toy_train: Path, tmp_path: Path) -> None:
    """A weight whose loss the model does not have would change nothing."""
    with pytest.raises(
        PdtoolsError, match=f"train.{key}_weight = 0.7 weighs a loss that this model does not"
    ):
        train(toy_train, tmp_path / "run", recipe(model, **{f"{key}_weight": 0.7}))
    assert not (tmp_path / "run").exists()


def test_a_loss_that_is_not_finite(toy_train: Path, toy_valid: Path, tmp_path: Path) -> None:
    wanted = recipe(learning_rate=1e30, clip=0.0, warmup_steps=0)
    with pytest.raises(PdtoolsError, match=r"not finite.*train\.learning_rate"):
        train(toy_train, tmp_path / "run", wanted, valid=toy_valid)
    assert not (tmp_path / "run/last").exists()


def test_a_validation_loss_that_is_not_finite(
    toy_train: Path, toy_valid: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("pdtools.training.loop.evaluate", scripted([2.0, math.nan, 1.0]))
    with pytest.raises(PdtoolsError, match="run: the validation loss is not finite at step 8"):
        train(toy_train, tmp_path / "run", recipe(eval_every=4), valid=toy_valid)
    assert load_checkpoint(tmp_path / "run/best").config["step"] == 4


def test_damaged_state(toy_train: Path, tmp_path: Path) -> None:
    run = tmp_path / "run"
    stop = StopAfter(2)
    train(toy_train, run, recipe(), listener=stop, stop=stop)
    state = run / "last/trainer/state.safetensors"
    state.write_bytes(state.read_bytes()[:100])
    with pytest.raises(PdtoolsError, match=r"state\.safetensors: damaged"):
        train(toy_train, run, recipe(), resume=True)
    (state.parent / "SHA256SUMS").unlink()  # a run from before there were sums
    with pytest.raises(PdtoolsError, match="damaged trainer state"):
        train(toy_train, run, recipe(), resume=True)


@pytest.mark.parametrize(("precision", "told"), [("bf16", 1), ("float32", 0), ("auto", 0)])
def test_a_processor_that_is_slower_in_bf16_is_named(
    precision: str, told: int, toy_train: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(devices, "_bf16_by_float32", lambda: 1.8)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        train(toy_train, tmp_path / "run", recipe(steps=1, precision=precision))
    said = [each for each in caught if "1.8 times" in str(each.message)]
    assert len(said) == told
    assert all('use train.precision = "float32"' in str(each.message) for each in said)


@pytest.mark.parametrize("optimizer", ["adamw", "muon"])
def test_a_state_of_the_optimizer_that_is_not_whole(optimizer: str, toy_train: Path, tmp_path: Path) -> None:
    run, stop = tmp_path / "run", StopAfter(2)
    wanted = recipe(optimizer=optimizer)
    train(toy_train, run, wanted, listener=stop, stop=stop)
    folder = run / "last/trainer"
    (folder / "SHA256SUMS").unlink()  # a run from before there were sums
    tensors = load_file(folder / "state.safetensors")
    moment = "optimizer.exp_avg.embedding.weight"
    matrix = "blocks.0.attention.qkv.weight"
    other = f"optimizer.{'momentum_buffer' if optimizer == 'muon' else 'exp_avg_sq'}.{matrix}"
    for changed, reason in (
        ({name: each for name, each in tensors.items() if name != moment}, "damaged trainer state.*exp_avg"),
        ({**tensors, other: tensors[other][:1].clone()}, f"state of {matrix} has shape"),
    ):
        save_file(changed, folder / "state.safetensors")
        with pytest.raises(PdtoolsError, match=reason):
            train(toy_train, run, wanted, resume=True)


@pytest.mark.linux
def test_a_full_disk(toy_train: Path, tmp_path: Path) -> None:
    resource = pytest.importorskip("resource")
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (20_000, before[1]))
    try:
        with pytest.raises(PdtoolsError, match="cannot be written"):
            train(toy_train, tmp_path / "run", recipe(steps=4))
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)
    assert {path.name for path in (tmp_path / "run").iterdir()} == {
        "metrics.jsonl",
        "pdtools.json",
        "run.json",
        "tensorboard",
    }
    train(toy_train, tmp_path / "run", recipe(steps=4), resume=True)
    assert (tmp_path / "run/last/model.safetensors").stat().st_mode & 0o444 == (
        (tmp_path / "run/run.json").stat().st_mode & 0o444
    )


@pytest.mark.linux
def test_a_full_disk_while_the_log_is_written(
    toy_train: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """TensorBoard's file, which is the only one on that disk, and ``metrics.jsonl``."""
    with monkeypatch.context() as patch:
        patch.setattr("tensorboardX.record_writer.open_file", lambda path: open("/dev/full", "wb"))  # noqa: SIM115
        with pytest.raises(PdtoolsError, match=r"run/tensorboard: cannot be written: No space left"):
            train(toy_train, tmp_path / "run", recipe(steps=4, log_every=1))
    assert train(toy_train, tmp_path / "run", recipe(steps=4, log_every=1), resume=True)["step"] == 4
    with (
        pytest.raises(PdtoolsError, match=r"metrics\.jsonl: cannot be written: No space left"),
        MetricsLog(tmp_path / "run", size=1 << 20) as log,
    ):
        log._stream = open("/dev/full", "ab")  # noqa: SIM115
        log.write("train", 1, {"loss": 1.0})


@pytest.mark.linux
def test_the_log_of_a_run_in_the_place_of_another_names_that_place(
    toy_train: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Before its first checkpoint, while the run is in a hidden folder, and after it."""
    run, write = tmp_path / "run", MetricsLog.write
    train(toy_train, run, recipe(steps=1))
    for full_at in (1, 6):  # the first checkpoint is that of step 4

        def full(log: MetricsLog, kind: str, step: int, values: Any, full_at: int = full_at) -> None:
            if step >= full_at:
                log._stream = open("/dev/full", "ab")  # noqa: SIM115
            write(log, kind, step, values)

        with monkeypatch.context() as patch:
            patch.setattr(MetricsLog, "write", full)
            with pytest.raises(PdtoolsError, match=f"^{run}/metrics.jsonl: cannot be written: No space left"):
                train(toy_train, run, recipe(steps=8, log_every=1), overwrite=True)


def events_of(run: Path) -> list[Event]:
    """What TensorBoard reads of a run."""
    (file,) = (run / "tensorboard").glob("events.out.tfevents.*")
    data, events = file.read_bytes(), []
    while data:
        (size,) = struct.unpack("<Q", data[:8])
        events.append(Event.FromString(data[12 : 12 + size]))
        data = data[12 + size + 4 :]
    return events


def test_tensorboard_forgets_what_came_after_the_step_that_a_run_goes_on_from(tmp_path: Path) -> None:
    """A START takes off all that an earlier part wrote of its step and later ones."""
    with MetricsLog(tmp_path, step=7) as log:
        log.write("train", 8, {"loss": 1.0})
    starts = [event.step for event in events_of(tmp_path) if event.HasField("session_log")]
    assert starts == [8]


def test_what_tensorboard_reads(toy_train: Path, toy_valid: Path, tmp_path: Path) -> None:
    run = tmp_path / "run"
    train(toy_train, run, recipe(), valid=toy_valid)
    events = events_of(run)
    found = {(e.step, v.tag): v.simple_value for e in events for v in e.summary.value}
    wanted = {(r["step"], f"{r['kind']}/loss"): pytest.approx(r["loss"], rel=1e-6) for r in metrics(run)}
    assert {key: value for key, value in found.items() if key[1].endswith("/loss")} == wanted


def test_run_json(reference: tuple[Recipe, Path], toy_train: Path) -> None:
    described = json.loads((reference[1] / "run.json").read_text())
    assert described["recipe"]["train"]["seed"] == 5
    assert described["recipe"]["config"]["layers"] == 2
    assert set(described["data"]) == {"train", "valid"}
    assert {"command", "code", "versions", "hardware", "inputs"} <= set(described["provenance"])


def test_perplexities_and_accuracy() -> None:
    values = {"token_nll": 6.0, "attachment_nll": 2.0, "tokens": 2, "attachments": 2, "attachments_right": 1}
    both, model = LossSums(values) + LossSums(values), tiny_model("pushdown")
    assert {name: both[name] for name in values} == {name: 2 * value for name, value in values.items()}
    scores = both.scores(TrainConfig(attachment_weight=0.5), model)
    assert scores["loss"] == pytest.approx((12 + 0.5 * 4) / 4)
    assert scores["ppl_token_given_trees"] == pytest.approx(math.exp(3))
    assert scores["ppl_token_joint"] == pytest.approx(math.exp(4))
    assert scores["attachment_accuracy"] == 0.5
    too_many = LossSums({"token_nll": 1e6, "tokens": 1}).scores(TrainConfig(), model)
    assert too_many["ppl_token_given_trees"] is None


@pytest.mark.parametrize(
    "changes",
    [
        {"step": -1},
        {"step": 0.5},
        {"tokens": 2**63},
        {"best_scores": []},
        {"finished": 1},
        {"x": 1},
        {"beside": {"treereg": [1, -4]}},
    ],
)
def test_states_of_other_shapes_are_refused(changes: dict[str, Any], tmp_path: Path) -> None:
    from pdtools.errors import InputError
    from pdtools.training.run_state import RunState, run_state

    trainer = tmp_path / "last" / "trainer"
    trainer.mkdir(parents=True)
    state = {**vars(RunState(step=3, best_loss=-0.5)), "seconds": 1}
    (trainer / "state.json").write_text(json.dumps(state))
    assert run_state(tmp_path).step == 3
    (trainer / "state.json").write_text(json.dumps({**state, **changes}))
    with pytest.raises(InputError, match="damaged trainer state"):
        run_state(tmp_path)
