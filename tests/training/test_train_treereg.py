"""Training with TreeReg: its weight in the loss, when it is there, its own corpus, resuming, the log."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file
from stopping import StopAfter, assert_same_run, metrics
from toy_language import WORDS, toy_tokenizer

from pdtools.errors import PdtoolsError
from pdtools.files import Rejects
from pdtools.models import build_model, load_checkpoint, make_config
from pdtools.models.treereg import residual_norms
from pdtools.shards import ShardSet
from pdtools.shards.build import blocks_from_files
from pdtools.training import Recipe, Sentences, TrainConfig, complete_recipe, train
from pdtools.training.batches import BatchLimits
from pdtools.training.distributed import ALONE
from pdtools.training.sweep import make_runs, sweep

TINY = {"layers": 2, "d_model": 16, "heads": 2, "d_ff": 32, "treereg_layer": 1}
NO_DROPOUT = {"input_dropout": 0.0, "attention_dropout": 0.0, "output_dropout": 0.0}
ONE_STEP = TrainConfig(
    steps=1,
    optimizer="sgd",
    learning_rate=0.5,
    warmup_steps=0,
    schedule="constant",
    clip=0.0,
    weight_decay=0.0,
    batch_tokens=40,
    accumulate=3,
    treereg_every=1,
    treereg_weight=0.7,
    eval_every=1,
    log_every=1,
    seed=3,
)
SEVERAL = dataclasses.replace(
    ONE_STEP, optimizer="adamw", learning_rate=3e-3, steps=9, treereg_every=2, eval_every=3, accumulate=2
)


def recipe(config: TrainConfig, model: str = "transformer", **options: Any) -> Recipe:
    return Recipe(model=model, options={**TINY, **options}, train=config)


@pytest.mark.parametrize("normalize", ["token", "sentence"])
@pytest.mark.parametrize("own_corpus", [False, True])
def test_the_loss_of_a_step(
    normalize: str, own_corpus: bool, toy_train: Path, toy_valid: Path, tmp_path: Path
) -> None:
    # The mean over all tokens (or sentences), and that over all trees, of three uneven batches together.
    chosen = recipe(dataclasses.replace(ONE_STEP, normalize=normalize), **NO_DROPOUT)  # type: ignore[arg-type]
    parsed = {"treereg_shards": toy_valid} if own_corpus else {}
    train(toy_train, tmp_path / "run", chosen, **parsed)

    tokenizer = toy_tokenizer()
    torch.manual_seed(chosen.train.seed)
    model = build_model("transformer", complete_recipe(chosen, tokenizer)[1])

    def parts_of(folder: Path) -> list[Any]:
        source = Sentences(ShardSet.open(folder), model, rejects=Rejects("fail")).source(chosen.train)
        return [model.loss(source.take(ALONE)) for _ in range(3)]

    learned = parts_of(toy_train)
    trees = parts_of(toy_valid) if own_corpus else learned
    source = Sentences(ShardSet.open(toy_train), model, rejects=Rejects("fail")).source(chosen.train)
    rows = sum(len(source.take(ALONE).tokens) for _ in range(3))
    divisor = rows if normalize == "sentence" else sum(parts.counts["tokens"] for parts in learned)
    n_trees = sum(parts.counts["trees"] for parts in trees)
    assert len({int(parts.counts["trees"]) for parts in trees}) > 1
    tree_loss = sum(parts.sums["treereg"] for parts in trees) / n_trees
    loss = sum(parts.sums["token_nll"] for parts in learned) / divisor + 0.7 * tree_loss
    loss.backward()
    trained = load_file(tmp_path / "run/last/model.safetensors")
    for name, parameter in model.named_parameters():
        torch.testing.assert_close(
            trained[name], parameter.detach() - 0.5 * parameter.grad, atol=1e-6, rtol=1e-4
        )
    (logged,) = metrics(tmp_path / "run", "train")
    assert logged["treereg_loss"] == pytest.approx(tree_loss.item())
    right, splits = (sum(p.counts[name] for p in trees) for name in ("splits_right", "splits"))
    assert logged["treereg_accuracy"] == pytest.approx(int(right) / int(splits))
    assert logged["loss"] == pytest.approx(
        float(sum(p.sums["token_nll"] for p in learned) / sum(p.counts["tokens"] for p in learned))
    )


def test_every_so_many_steps(toy_train: Path, toy_valid: Path, tmp_path: Path) -> None:
    report = train(toy_train, tmp_path / "run", recipe(SEVERAL), valid=toy_valid)
    with_term = [r["step"] for r in metrics(tmp_path / "run", "train") if r["treereg_loss"] is not None]
    assert with_term == [2, 4, 6, 8]
    valid = metrics(tmp_path / "run", "valid")
    assert all(0 <= record["treereg_accuracy"] <= 1 for record in valid)
    # It is not part of what chooses the best checkpoint.
    model = load_checkpoint(tmp_path / "run/last").model
    sentences = Sentences(ShardSet.open(toy_valid), model, rejects=Rejects("fail"))
    with torch.no_grad():
        parts = [model.loss(batch) for batch in sentences.in_order(BatchLimits(sentences=5))]
    nll, tokens = sum(p.sums["token_nll"] for p in parts), sum(p.counts["tokens"] for p in parts)
    assert valid[-1]["loss"] == pytest.approx(float(nll / tokens), rel=1e-5)
    treereg = sum(p.sums["treereg"] for p in parts) / sum(p.counts["trees"] for p in parts)  # type: ignore[misc]
    assert valid[-1]["treereg_loss"] == pytest.approx(float(treereg), rel=1e-5)
    assert report["best"]["loss"] == min(record["loss"] for record in valid)


def test_without_weight_nothing_changes(toy_train: Path, tmp_path: Path) -> None:
    for name, weight, layer in (("off", 1.0, 0), ("zero", 0.0, 1), ("on", 1.0, 1)):
        config = dataclasses.replace(SEVERAL, treereg_weight=weight)
        train(toy_train, tmp_path / name, recipe(config, treereg_layer=layer))
    off, zero, on = (load_file(tmp_path / name / "last/model.safetensors") for name in ("off", "zero", "on"))
    assert all(torch.equal(off[name], zero[name]) for name in off)
    assert not all(torch.equal(off[name], on[name]) for name in off)
    assert "treereg_loss" not in metrics(tmp_path / "off", "train")[0]


def test_norms_are_not_rounded() -> None:
    states = torch.randn(2, 9, 4, generator=torch.Generator().manual_seed(0))
    with torch.autocast("cpu", torch.bfloat16):
        rounded = residual_norms(states)
    assert torch.equal(rounded, residual_norms(states))


def test_it_learns_the_trees(toy_train: Path, toy_valid: Path, tmp_path: Path) -> None:
    config = dataclasses.replace(SEVERAL, steps=60, treereg_every=1, learning_rate=1e-2, eval_every=30)
    train(toy_train, tmp_path / "run", recipe(config, **NO_DROPOUT), valid=toy_valid)
    before, after = metrics(tmp_path / "run", "train")[0], metrics(tmp_path / "run", "valid")[-1]
    assert after["treereg_loss"] < before["treereg_loss"] - 0.1
    assert after["treereg_accuracy"] > 0.8


@pytest.mark.parametrize("own_corpus", [False, True])
@pytest.mark.parametrize("step", [1, 2, 5])
def test_stopped_and_resumed(
    own_corpus: bool, step: int, make_shards: Callable[..., Path], toy_valid: Path, tmp_path: Path
) -> None:
    folder = make_shards(24, seed=1)
    # So few parsed sentences that their epochs end in the middle of the run.
    options: dict[str, Any] = {"treereg_shards": make_shards(7, seed=8)} if own_corpus else {}
    options["valid"] = toy_valid
    chosen = recipe(SEVERAL)
    train(folder, tmp_path / "whole", chosen, **options)
    stop = StopAfter(step)
    train(folder, tmp_path / "run", chosen, listener=stop, stop=stop, **options)
    torch.manual_seed(99)
    train(folder, tmp_path / "run", chosen, resume=True, **options)
    assert_same_run(tmp_path / "run", tmp_path / "whole")
    state = json.loads((tmp_path / "run/last/trainer/state.json").read_text())
    assert state["beside"].keys() == ({"treereg"} if own_corpus else set())
    assert not own_corpus or state["beside"]["treereg"][0] > 0
    if own_corpus:
        with pytest.raises(PdtoolsError, match="the treereg data are not the same"):
            train(folder, tmp_path / "run", chosen, resume=True, valid=toy_valid, treereg_shards=folder)


def test_a_sweep_trains_the_same(toy_train: Path, toy_valid: Path, tmp_path: Path) -> None:
    train(toy_train, tmp_path / "run", recipe(SEVERAL), valid=toy_valid)
    settings = [f"config.{key}={value}" for key, value in TINY.items()]
    recipe_of_run = dataclasses.asdict(SEVERAL).items()
    settings += [f"train.{key}={value}" for key, value in recipe_of_run if not isinstance(value, tuple)]
    settings = [each for each in settings if not each.startswith("train.treereg_weight")]
    runs = make_runs(
        ["train.treereg_weight=0.7,0"],
        data=str(toy_train),
        valid=str(toy_valid),
        output=tmp_path / "sweep",
        model="transformer",
        settings=settings,
    )
    outcomes = sweep(runs)
    assert [outcome.status for outcome in outcomes] == ["finished", "finished"]
    alone, swept = (
        (folder / "last/model.safetensors").read_bytes() for folder in (tmp_path / "run", runs[0].output)
    )
    assert alone == swept


def test_blocks_with_parsed_sentences_beside(toy_train: Path, toy_valid: Path, tmp_path: Path) -> None:
    (tmp_path / "text.txt").write_text("the dog barks\na cat near the bird sleeps\n" * 20)
    text, rejects = str(tmp_path / "text.txt"), Rejects("fail")
    blocks_from_files([text], toy_tokenizer(), tmp_path / "blocks", rejects, length=10)
    with pytest.raises(PdtoolsError, match="these data have no trees: name shards with .* --treereg-shards"):
        train(tmp_path / "blocks", tmp_path / "run", recipe(SEVERAL))
    report = train(tmp_path / "blocks", tmp_path / "run", recipe(SEVERAL), treereg_shards=toy_train)
    assert report["finished"] == "steps"
    assert metrics(tmp_path / "run", "train")[1]["treereg_loss"] is not None
    with pytest.raises(PdtoolsError, match="blocks of running text have no trees for TreeReg"):
        train(toy_train, tmp_path / "other", recipe(SEVERAL), treereg_shards=tmp_path / "blocks")


def test_refusals(make_shards: Callable[..., Path], toy_train: Path, tmp_path: Path) -> None:
    others = make_shards(5, tokenizer=toy_tokenizer([*WORDS, "perhaps"]))
    with pytest.raises(PdtoolsError, match="tokenized differently from the training shards"):
        train(toy_train, tmp_path / "run", recipe(SEVERAL), treereg_shards=others)
    with pytest.raises(PdtoolsError, match="--treereg-shards is for models with TreeReg"):
        train(toy_train, tmp_path / "run", recipe(SEVERAL, treereg_layer=0), treereg_shards=toy_train)
    with pytest.raises(PdtoolsError, match="--treereg-shards is for models without attachment_head"):
        train(toy_train, tmp_path / "run", recipe(SEVERAL, attachment_head=True), treereg_shards=toy_train)
    with pytest.raises(PdtoolsError, match="treereg_layer is for causal models without tapes"):
        train(toy_train, tmp_path / "run", recipe(SEVERAL, "transformer", objective="masked"))
    tokens = {"vocab_size": 9, "pad_id": 0, "root_id": 1, "eos_id": 2}
    with pytest.raises(PdtoolsError, match="treereg_layer is for causal models without tapes or actions"):
        make_config("tg", {**TINY, **tokens, "n_labels": 3})
    for key, value, message in (
        ("treereg_layer", 3, "treereg_layer must be from 0 .off. to 2, not 3"),
        ("treereg_share", 0.05, "two values of d_model or more, not 0.05"),
        ("treereg_share", 1.5, "treereg_share must be above 0, at most 1"),
    ):
        with pytest.raises(PdtoolsError, match=message):
            train(toy_train, tmp_path / "run", recipe(SEVERAL, **{key: value}))
    with pytest.raises(PdtoolsError, match="treereg_every must be at least 1"):
        TrainConfig(treereg_every=0)
