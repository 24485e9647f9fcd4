"""Two gloo processes train what one trains; whatever ends them, the run resumes as if it had not."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from action_oracle import action_model
from safetensors.torch import load_file
from search_oracle import tiny_model
from stopping import metrics
from toy_prompts import HOW_LATE, SAME, toy_prompts

from pdtools.errors import PdtoolsError
from pdtools.formal.transduction_training import TaskInput
from pdtools.formal.transductions import make_task
from pdtools.training import Recipe, TrainConfig, train
from pdtools.training.distributed import ALONE, Ranks, local_device
from pdtools.training.run_folder import RunFolder
from pdtools.training.shard_input import Sentences

torch.distributed = pytest.importorskip("torch.distributed")
pytestmark = pytest.mark.skipif(not torch.distributed.is_gloo_available(), reason="needs gloo")

TINY = {"layers": 2, "d_model": 16, "heads": 2, "d_ff": 32}
NO_DROPOUT = {**TINY, "input_dropout": 0.0, "attention_dropout": 0.0, "output_dropout": 0.0}
# A large eps: AdamW's first steps are signs of the gradient else, and the sign of rounding errors is chance.
EVEN = {
    "steps": 8,
    "learning_rate": 0.05,
    "warmup_steps": 2,
    "eps": 0.05,
    "clip": 0.5,
    "batch_tokens": 60,
    "accumulate": 2,
    "eval_every": 4,
    "log_every": 2,
    "seed": 5,
}
# Batches of one to three sentences, so that the second rank often has none.
UNEVEN = {**EVEN, "batch_tokens": 16, "batch_sentences": 3, "accumulate": 3}
# Nothing hides what the gradient is divided by.
SENTENCES = {**UNEVEN, "normalize": "sentence", "clip": 0.0, "eps": 1.0, "learning_rate": 0.1}
# They are trained by the same code: one of them both ways will do.
GRAMMARS = [
    ("tg", "relative", ("ddp", "fsdp")),
    ("plm", "learned", ("ddp",)),
    ("plm-mask", "learned", ("fsdp",)),
]
LONG = {**EVEN, "steps": 240, "eval_every": 80, "log_every": 10, "accumulate": 1}


def torchrun(*arguments: str | Path) -> subprocess.Popen[str]:
    command = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node", "2"]
    environment = {**os.environ, "OMP_NUM_THREADS": "1", "TORCH_CPP_LOG_LEVEL": "ERROR"}
    return subprocess.Popen(
        [*command, *map(str, arguments)], stderr=subprocess.PIPE, text=True, env=environment
    )


def recipe(work: dict[str, Any]) -> Recipe:
    config = TrainConfig(**work["train"])
    return Recipe(model=work.get("model", "pushdown"), options=work["options"], train=config)


@pytest.fixture(scope="module")
def runs(
    tmp_path_factory: pytest.TempPathFactory,
    toy_train: Path,
    toy_valid: Path,
    window_train: Path,
    window_valid: Path,
) -> Path:
    """A folder of runs: of one process (``one-*``), and of two, all made by one torchrun."""
    folder = tmp_path_factory.mktemp("runs")
    work: list[dict[str, Any]] = []

    def add(name: str, options: dict[str, Any], config: dict[str, Any], **more: Any) -> dict[str, Any]:
        work.append({"options": options, "train": config, "output": str(folder / name), **more})
        work[-1] |= {"shards": str(toy_train), "valid": str(toy_valid)}
        return work[-1]

    for batches, config in (("even", EVEN), ("uneven", UNEVEN), ("sentences", SENTENCES)):
        for distribution in ("ddp", "fsdp"):
            add(f"{distribution}-{batches}", NO_DROPOUT, config, distribution=distribution)
        train(toy_train, folder / f"one-{batches}", recipe(work[-1]), valid=toy_valid)
    add("ddp-transformer", NO_DROPOUT, EVEN, model="transformer")
    train(toy_train, folder / "one-transformer", recipe(work[-1]), valid=toy_valid)
    muon = {**EVEN, "optimizer": "muon", "learning_rate": 0.01}
    add("fsdp-muon", NO_DROPOUT, muon, distribution="fsdp")
    train(toy_train, folder / "one-muon", recipe(work[-1]), valid=toy_valid)
    # Often one sentence a batch, so that the second rank has none.
    for model, positions, distributions in GRAMMARS:
        options, config = {**NO_DROPOUT, "positions": positions}, {**EVEN, "batch_tokens": 80}
        for distribution in distributions:
            add(f"{distribution}-{model}", options, config, model=model, distribution=distribution)
        train(toy_train, folder / f"one-{model}", recipe(work[-1]), valid=toy_valid)
    uneven = {**EVEN, "batch_tokens": 32}
    add("fsdp-sclm", {**NO_DROPOUT, "scaffold": "past"}, uneven, model="sclm", distribution="fsdp")
    train(toy_train, folder / "one-sclm", recipe(work[-1]), valid=toy_valid)
    # TreeReg's term, which is divided by other numbers than the rest; uneven shares, and no clipping.
    tokens = {**SENTENCES, "normalize": "token"}
    treereg = {**tokens, "treereg_every": 3, "treereg_weight": 0.7}
    treereg_options = {**NO_DROPOUT, "treereg_layer": 1, "treereg_share": 0.5}
    for beside in ({}, {"treereg_shards": str(toy_valid)}):
        name = "treereg-beside" if beside else "treereg"
        for distribution in ("ddp", "fsdp"):
            run = f"{distribution}-{name}"
            add(run, treereg_options, treereg, model="transformer", distribution=distribution, **beside)
        train(toy_train, folder / f"one-{name}", recipe(work[-1]), valid=toy_valid, **beside)
    # One to three windows a batch.
    for name, model, own in (
        ("windows", "pushdown", {}),
        ("windows-base", "transformer", {}),
        ("windows-treereg", "transformer", {"treereg_layer": 1, "treereg_share": 0.5}),
    ):
        warmup = {"head_warmup_steps": 3} if model == "pushdown" else {}
        for distribution in ("ddp", "fsdp") if own or model == "pushdown" else ("ddp",):
            add(
                f"{distribution}-{name}",
                {**NO_DROPOUT, **own},
                {**(treereg if own else tokens), "batch_tokens": 60, **warmup},
                model=model,
                distribution=distribution,
            )
            work[-1] |= {"shards": str(window_train), "valid": str(window_valid)}
        train(window_train, folder / f"one-{name}", recipe(work[-1]), valid=window_valid)
    # One to three prompts a batch: answers by their weight, numbers by their count.
    answers = {**tokens, "answer_weight": 3.0}
    for name, task, model, prompts in (
        ("answers", SAME, "pushdown", answers),
        ("numbers", HOW_LATE, "transformer", tokens),
    ):
        shards = toy_prompts(folder / f"{name}-shards", 10, 1, task)
        for distribution in ("ddp", "fsdp"):
            options = {**NO_DROPOUT, "layout": "window"}
            add(f"{distribution}-{name}", options, prompts, model=model, distribution=distribution)
            work[-1] |= {"shards": str(shards), "valid": str(shards)}
        train(shards, folder / f"one-{name}", recipe(work[-1]), valid=shards)
    # Three strings a batch: two for one rank, one for the other.
    drawn = {**EVEN, "batch_sentences": 3, "batch_tokens": 0}
    add("ddp-task", NO_DROPOUT, drawn, model="transformer", task="sm", lengths=[1, 7])
    sm = TaskInput(make_task("sm"), range(1, 7))
    train(sm, folder / "one-task", recipe(work[-1]))
    for distribution in ("ddp", "fsdp"):
        add(f"{distribution}-dropout", TINY, EVEN, distribution=distribution)
        stopped = add(f"{distribution}-stopped", TINY, EVEN, distribution=distribution, stop_at=5)
        work.append({**stopped, "stop_at": None})
    add("two-then-one", NO_DROPOUT, EVEN, stop_at=3)
    add("one-then-two", NO_DROPOUT, EVEN, distribution="fsdp")
    asked = iter([False] * 3 + [True] * 9)
    train(toy_train, folder / "one-then-two", recipe(work[-1]), valid=toy_valid, stop=lambda: next(asked))
    add("long", TINY, LONG)

    (folder / "work.json").write_text(json.dumps(work))
    process = torchrun(Path(__file__).with_name("ranks_worker.py"), folder / "work.json")
    _, messages = process.communicate(timeout=300)
    assert process.returncode == 0, messages
    return folder


def assert_close_runs(run: Path, reference: Path) -> None:
    for checkpoint in ("best", "last"):
        ours, theirs = (load_file(r / checkpoint / "model.safetensors") for r in (run, reference))
        torch.testing.assert_close(ours, theirs, atol=2e-6, rtol=1e-4)
        for name in ("config.json", "tokenizer.json"):
            assert (run / checkpoint / name).read_bytes() == (reference / checkpoint / name).read_bytes()
    for ours_at, theirs_at in zip(metrics(run), metrics(reference), strict=True):
        assert ours_at.keys() == theirs_at.keys()
        for name, value in theirs_at.items():
            close = pytest.approx(value, rel=1e-5) if isinstance(value, float) else value
            assert ours_at[name] == close, name


def assert_same_runs(run: Path, reference: Path) -> None:
    for name in ("best/model.safetensors", "last/model.safetensors", "last/trainer/state.safetensors"):
        assert (run / name).read_bytes() == (reference / name).read_bytes(), name
    assert metrics(run) == metrics(reference)


# --- the same training ------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("run", "reference"),
    [
        ("ddp-even", "one-even"),
        ("fsdp-even", "one-even"),
        ("ddp-uneven", "one-uneven"),
        ("fsdp-uneven", "one-uneven"),
        ("ddp-sentences", "one-sentences"),
        ("fsdp-sentences", "one-sentences"),
        ("ddp-transformer", "one-transformer"),
        ("ddp-task", "one-task"),
        ("ddp-tg", "one-tg"),
        ("fsdp-tg", "one-tg"),
        ("ddp-plm", "one-plm"),
        ("fsdp-plm-mask", "one-plm-mask"),
        ("fsdp-sclm", "one-sclm"),
        ("ddp-treereg", "one-treereg"),
        ("fsdp-treereg", "one-treereg"),
        ("ddp-treereg-beside", "one-treereg-beside"),
        ("fsdp-treereg-beside", "one-treereg-beside"),
        ("ddp-windows", "one-windows"),
        ("fsdp-windows", "one-windows"),
        ("ddp-windows-base", "one-windows-base"),
        ("ddp-windows-treereg", "one-windows-treereg"),
        ("fsdp-windows-treereg", "one-windows-treereg"),
        ("ddp-answers", "one-answers"),
        ("fsdp-answers", "one-answers"),
        ("ddp-numbers", "one-numbers"),
        ("fsdp-numbers", "one-numbers"),
        ("fsdp-muon", "one-muon"),
    ],
)
def test_two_processes_train_what_one_trains(runs: Path, run: str, reference: str) -> None:
    assert_close_runs(runs / run, runs / reference)


def test_the_training_moves_the_weights_and_meets_empty_shares(runs: Path, toy_train: Path) -> None:
    # The comparisons above would pass if nothing were learned, or no share were empty.
    for name in ("one-even", *(f"one-{model}" for model, *_ in GRAMMARS)):
        losses = [record["loss"] for record in metrics(runs / name) if record["kind"] == "valid"]
        assert losses[-1] < losses[0] - 0.01
    from pdtools.shards import ShardSet
    from pdtools.training.batches import BatchLimits, plan_epoch

    shards = ShardSet.open(toy_train)
    actions = action_model("tg", "relative").row_lengths(shards)
    for lengths, limits in (
        (shards.lengths, BatchLimits(tokens=16, sentences=3)),
        (actions, BatchLimits(tokens=80)),
    ):
        plan = plan_epoch(lengths, limits, seed=5, epoch=0)
        assert {1, 2} <= {len(rows) for rows in plan}


def test_state_of_two_processes_has_the_tensors_of_one(runs: Path) -> None:
    one = load_file(runs / "one-even/last/trainer/state.safetensors")
    for name in ("ddp-even", "fsdp-even"):
        two = load_file(runs / name / "last/trainer/state.safetensors")
        assert two.keys() - one.keys() == {"rng.cpu.1"}
        for key in one.keys() - {"rng.cpu"}:
            torch.testing.assert_close(two[key], one[key], atol=1e-5, rtol=1e-4)


def test_ranks_have_their_own_dropout(runs: Path) -> None:
    state = load_file(runs / "ddp-dropout/last/trainer/state.safetensors")
    generators = [torch.Generator().set_state(state[name]) for name in ("rng.cpu", "rng.cpu.1")]
    assert generators[0].initial_seed() == EVEN["seed"] != generators[1].initial_seed()


@pytest.mark.parametrize(
    ("name", "positions"),
    [("pushdown", "relative"), ("transformer", "relative"), *((name, each) for name, each, _ in GRAMMARS)],
)
def test_a_batch_without_sentences_costs_nothing(name: str, positions: str, toy_train: Path) -> None:
    from pdtools.models import build_model
    from pdtools.shards import ShardSet
    from pdtools.training import complete_recipe

    shards = ShardSet.open(toy_train)
    options = {**TINY, "positions": positions}
    model = build_model(name, complete_recipe(Recipe(model=name, options=options), shards.tokenizer)[1])
    sentences = Sentences(shards, model, rejects=None)  # type: ignore[arg-type]
    parts = model.loss(sentences.batch(sentences.rows[:0]))
    (parts.sums["token_nll"] + parts.sums["attachment_nll"]).backward()
    assert all(float(value) == 0 for value in {**parts.sums, **parts.counts}.values())
    assert all(p.grad is not None and not p.grad.any() for p in model.parameters())


def test_validation_batches_are_divided(toy_valid: Path) -> None:
    from pdtools.shards import ShardSet
    from pdtools.training.batches import BatchLimits

    sentences = Sentences(ShardSet.open(toy_valid), tiny_model(), rejects=None)  # type: ignore[arg-type]
    limits = BatchLimits(sentences=5)  # three batches of twelve sentences
    shares = [list(sentences.in_order(limits, Ranks(rank=rank, size=2))) for rank in range(2)]
    assert [len(share) for share in shares] == [2, 2]
    assert sum(int(batch.predicted().sum()) for share in shares for batch in share) == sum(
        int(batch.predicted().sum()) for batch in sentences.in_order(limits, ALONE)
    )


# --- stopped and resumed ----------------------------------------------------------------------


@pytest.mark.parametrize("distribution", ["ddp", "fsdp"])
def test_stopped_by_one_rank_and_resumed(runs: Path, distribution: str) -> None:
    resumed = json.loads((runs / f"{distribution}-stopped/run.json").read_text())["resumed"]
    assert [entry["step"] for entry in resumed] == [4]  # the fifth question came in the evaluation
    assert_same_runs(runs / f"{distribution}-stopped", runs / f"{distribution}-dropout")


def test_resumed_with_another_number_of_processes(runs: Path, toy_train: Path, toy_valid: Path) -> None:
    report = train(toy_train, runs / "two-then-one", valid=toy_valid, resume=True)
    assert report["resumed_from"] == 3
    assert_close_runs(runs / "two-then-one", runs / "one-even")
    assert_close_runs(runs / "one-then-two", runs / "one-even")


def workers_of(process: subprocess.Popen[str]) -> list[int]:
    """The processes that torchrun started, by rank."""
    found = []
    for entry in Path("/proc").glob("[0-9]*"):
        try:
            parent = int((entry / "stat").read_text().rpartition(")")[2].split()[1])
        except OSError:
            continue
        if parent == process.pid:
            found.append(int(entry.name))
    return sorted(found)


def wait_until(condition: Callable[[], bool], process: subprocess.Popen[str]) -> None:
    deadline = time.monotonic() + 120
    while not condition():
        assert process.poll() is None, process.communicate()[1]
        assert time.monotonic() < deadline
        time.sleep(0.01)


def messages_of(process: subprocess.Popen[str]) -> list[str]:
    """The lines that are ours, not torchrun's, once it has ended."""
    _, text = process.communicate(timeout=120)
    return [
        line
        for line in text.splitlines()
        if line.startswith(("pdtools:", "starting", "resuming", "step", "/"))
    ]


@pytest.mark.skipif(not Path("/proc/self/stat").exists(), reason="needs /proc")
def test_signals_kills_and_damage_under_torchrun(
    runs: Path, toy_train: Path, toy_valid: Path, tmp_path: Path
) -> None:
    run = tmp_path / "run"
    settings = [f"config.{key}={value}" for key, value in TINY.items()]
    settings += [f"train.{key}={value}" for key, value in LONG.items()]
    command = ["-m", "pdtools", "train", toy_train, "--valid", toy_valid, "-o", run, "--resume"]
    command += ["--device", "cpu", "--threads", "1"]
    for setting in settings:
        command += ["--set", setting]

    def last_logged() -> int:
        if not (run / "metrics.jsonl").is_file():
            return 0
        return max((record["step"] for record in metrics(run)), default=0)

    def saved_step() -> int:
        return int(json.loads((run / "last/trainer/state.json").read_text())["step"])

    process = torchrun(*command)
    wait_until(lambda: last_logged() >= 10, process)
    with pytest.raises(PdtoolsError, match="another run is writing there"):
        train(toy_train, run, valid=toy_valid, resume=True)
    os.kill(workers_of(process)[-1], signal.SIGUSR1)  # one of them is enough
    ours = messages_of(process)
    stopped = saved_step()
    assert process.returncode == 1
    assert ours[-1] == f"{run}: stopped after step {stopped} of 240; --resume continues the run"
    assert 10 <= stopped < 240

    process = torchrun(*command)
    wait_until(lambda: last_logged() >= max(stopped + 10, 100), process)
    os.kill(workers_of(process)[-1], signal.SIGKILL)
    ours = messages_of(process)
    assert process.returncode == 1
    assert ours[0].startswith(f"resuming from step {stopped}:")
    assert len([line for line in ours if line.startswith("pdtools:")]) <= 1  # torchrun may be faster
    assert saved_step() in (80, 160)

    weights = run / "last/model.safetensors"
    whole = weights.read_bytes()
    weights.write_bytes(whole[:-5] + bytes([whole[-5] ^ 1]) + whole[-4:])
    process = torchrun(*command)
    ours = messages_of(process)
    assert process.returncode == 1
    assert len(ours) == 1
    assert ours[0].startswith(f"pdtools: {weights}: damaged")
    weights.write_bytes(whole)

    process = torchrun(*command)
    ours = messages_of(process)
    assert process.returncode == 0, ours
    assert_same_runs(run, runs / "long")


# --- refusals ---------------------------------------------------------------------------------


def test_two_runs_into_one_folder(toy_train: Path, tmp_path: Path) -> None:
    short = Recipe(options=TINY, train=TrainConfig(steps=1))
    (tmp_path / "link").symlink_to(tmp_path)
    with RunFolder(tmp_path / "run").locked():
        for name in ("run", "link/run"):
            for how in ({}, {"resume": True}, {"overwrite": True}):
                with pytest.raises(PdtoolsError, match="another run is writing there"):
                    train(toy_train, tmp_path / name, short, **how)
    assert not (tmp_path / "run").exists()
    train(toy_train, tmp_path / "run", short)


def test_a_run_is_replaced_through_a_link(toy_train: Path, tmp_path: Path) -> None:
    (tmp_path / "far").mkdir()
    (tmp_path / "run").symlink_to(tmp_path / "far")
    for steps in (1, 2):
        recipe = Recipe(options=TINY, train=TrainConfig(steps=steps))
        assert train(toy_train, tmp_path / "run", recipe, overwrite=True)["step"] == steps
    assert (tmp_path / "run").is_symlink()
    assert (tmp_path / "far" / "last").is_dir()


def test_a_run_killed_before_its_record_was_written(toy_train: Path, tmp_path: Path) -> None:
    run = tmp_path / "run"
    run.mkdir()
    (run / ".run.json.0123abcd-12-34-89abcdef.tmp").write_text("{")
    assert train(toy_train, run, Recipe(options=TINY, train=TrainConfig(steps=1)), resume=True)["step"] == 1
    assert not (run / ".run.json.0123abcd-12-34-89abcdef.tmp").exists()


@pytest.mark.parametrize(
    "name",
    [
        "last/model.safetensors",
        "last/config.json",
        "last/tokenizer.json",
        "last/trainer/state.json",
        "last/trainer/state.safetensors",
        "run.json",
    ],
)
def test_a_flipped_byte_is_named(name: str, toy_train: Path, tmp_path: Path) -> None:
    run = tmp_path / "run"
    short = Recipe(options=TINY, train=TrainConfig(steps=2, eval_every=1))
    asked = iter([False, True])
    train(toy_train, run, short, stop=lambda: next(asked))
    data = bytearray((run / name).read_bytes())
    # In JSON the last digit of something, so that it can still be read.
    place = len(data) // 2 if name.endswith(".safetensors") else last_digit(data)
    data[place] ^= 1
    (run / name).write_bytes(data)
    with pytest.raises(PdtoolsError, match=rf"{run / name}.*(damaged|not JSON)"):
        train(toy_train, run, None, resume=True)


def last_digit(data: bytearray) -> int:
    return next(
        i for i in range(len(data)) if data[i : i + 1].isdigit() and not data[i + 1 : i + 2].isdigit()
    )


def test_devices_under_torchrun(monkeypatch: pytest.MonkeyPatch) -> None:
    assert local_device("cuda:1") == "cuda:1"  # a process alone takes what it is told
    for name, value in {"RANK": "1", "WORLD_SIZE": "2", "LOCAL_RANK": "1"}.items():
        monkeypatch.setenv(name, value)
    assert local_device("cpu") == "cpu"
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 2)
    assert local_device("auto") == local_device("cuda") == "cuda:1"
    with pytest.raises(PdtoolsError, match="every process takes its own GPU"):
        local_device("cuda:0")
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 1)
    with pytest.raises(PdtoolsError, match="process 1 of this host has no GPU: there are 1"):
        local_device("auto")
