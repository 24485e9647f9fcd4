"""Training on windows: resuming, gradients in parts, mixed precision; TreeReg of their sentences."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from safetensors.torch import load_file
from stopping import DieAfter, StopAfter, assert_same_run, metrics

from pdtools.errors import PdtoolsError
from pdtools.files import Rejects
from pdtools.models import LanguageModel, LossParts, build_model, load_checkpoint
from pdtools.shards import ShardSet
from pdtools.shards.build import blocks_from_files
from pdtools.training import Recipe, Sentences, TrainConfig, complete_recipe, train
from pdtools.training.batches import BatchLimits

TINY = {"layers": 2, "d_model": 16, "heads": 2, "d_ff": 32}
NO_DROPOUT = {"input_dropout": 0.0, "attention_dropout": 0.0, "output_dropout": 0.0}
TREEREG = {"treereg_layer": 1, "treereg_share": 0.5}
SHORT = TrainConfig(
    steps=9,
    learning_rate=3e-3,
    warmup_steps=2,
    batch_tokens=90,
    accumulate=2,
    eval_every=3,
    log_every=1,
    treereg_every=2,
    seed=3,
)
# A plain step, so that its gradient can be read off the weights.
ONE_STEP = dataclasses.replace(
    SHORT,
    steps=1,
    optimizer="sgd",
    learning_rate=0.5,
    warmup_steps=0,
    schedule="constant",
    clip=0.0,
    weight_decay=0.0,
    accumulate=3,
    treereg_every=1,
    eval_every=1,
)
# Every kind of model that reads windows.
KINDS: dict[str, tuple[str, dict[str, Any]]] = {
    "base": ("transformer", {}),
    "given": ("transformer", {"window_roots": "given"}),
    "head": ("transformer", {"attachment_head": True}),
    "pushdown": ("pushdown", {}),
    "treereg": ("transformer", TREEREG),
}


def recipe(kind: str, config: TrainConfig, **options: Any) -> Recipe:
    name, own = KINDS[kind]
    if kind == "treereg":  # others have no such loss
        config = dataclasses.replace(config, treereg_weight=0.7)
    return Recipe(model=name, options={**TINY, **own, **options}, train=config)


def sentences_of(folder: Path, model: LanguageModel) -> Sentences:
    return Sentences(ShardSet.open(folder), model, rejects=Rejects("fail"))


# --- any model of windows ---------------------------------------------------------------------


@pytest.mark.parametrize("kind", KINDS)
def test_stopped_or_killed_and_resumed(
    kind: str, window_train: Path, window_valid: Path, tmp_path: Path
) -> None:
    chosen = recipe(kind, SHORT)  # with dropout
    train(window_train, tmp_path / "whole", chosen, valid=window_valid)
    stop = StopAfter(2)
    train(window_train, tmp_path / "run", chosen, valid=window_valid, listener=stop, stop=stop)
    torch.manual_seed(99)
    with pytest.raises(DieAfter.Dead):
        train(window_train, tmp_path / "run", chosen, valid=window_valid, resume=True, listener=DieAfter(7))
    torch.manual_seed(98)
    report = train(window_train, tmp_path / "run", chosen, valid=window_valid, resume=True)
    assert report["resumed_from"] == 6  # killed after the seventh step, which was not written
    assert_same_run(tmp_path / "run", tmp_path / "whole")


@pytest.mark.parametrize("normalize", ["token", "sentence"])
@pytest.mark.parametrize("kind", KINDS)
def test_batches_of_a_step_count_as_one_batch(
    kind: str, normalize: Any, window_train: Path, tmp_path: Path
) -> None:
    # Gradients of two plans that hold every window once: small batches added up, and all in one.
    found = {}
    windows = len(ShardSet.open(window_train))
    for name, size, accumulate in (("parts", 3, -(-windows // 3)), ("whole", windows, 1)):
        config = dataclasses.replace(
            ONE_STEP, batch_tokens=0, batch_sentences=size, accumulate=accumulate, normalize=normalize
        )
        run = tmp_path / name
        report = train(window_train, run, recipe(kind, config, **NO_DROPOUT))
        assert report["epoch"] <= 1
        found[name] = load_file(run / "last/model.safetensors"), metrics(run, "train")[0]
    torch.testing.assert_close(found["parts"][0], found["whole"][0], atol=1e-6, rtol=1e-4)
    parts, whole = (record for _, record in found.values())
    for name, value in whole.items():
        if isinstance(value, float):
            assert parts[name] == pytest.approx(value, rel=1e-5), name


@pytest.mark.parametrize("kind", ["pushdown", "treereg"])
def test_mixed_precision(kind: str, window_train: Path, window_valid: Path, tmp_path: Path) -> None:
    found = {}
    for precision in ("float32", "bf16"):
        config = dataclasses.replace(SHORT, precision=precision)
        train(window_train, tmp_path / precision, recipe(kind, config, **NO_DROPOUT), valid=window_valid)
        found[precision] = metrics(tmp_path / precision, "valid")
        model = load_checkpoint(tmp_path / precision / "last").model.eval()
        nll, tokens = 0.0, 0
        for batch in sentences_of(window_valid, model).in_order(BatchLimits(tokens=SHORT.batch_tokens)):
            with torch.no_grad(), torch.autocast("cpu", torch.bfloat16, enabled=precision == "bf16"):
                parts = model.loss(batch)
            nll += float(parts.sums["token_nll"]) + float(parts.sums["attachment_nll"])
            tokens += int(parts.counts["tokens"])
        assert found[precision][-1]["loss"] == pytest.approx(nll / tokens, rel=1e-6)
    assert len(found["bf16"]) == 3
    for rounded, plain in zip(found["bf16"], found["float32"], strict=True):
        assert rounded["loss"] == pytest.approx(plain["loss"], rel=0.02)
    assert found["bf16"][-1]["loss"] < found["bf16"][0]["loss"]


def model_of(chosen: Recipe, shards: Path) -> LanguageModel:
    opened = ShardSet.open(shards)
    if opened.layout == "window":
        chosen = dataclasses.replace(chosen, options={**chosen.options, "layout": "window"})
    torch.manual_seed(4)
    return build_model(chosen.model, complete_recipe(chosen, opened.tokenizer)[1]).eval()


# --- TreeReg ----------------------------------------------------------------------------------


def parts_of(model: LanguageModel, folder: Path) -> LossParts:
    """Of all rows in one batch."""
    (batch,) = sentences_of(folder, model).in_order(BatchLimits(sentences=1000))
    return model.loss(batch)


def test_treereg_of_windows_of_one_sentence_is_that_of_sentences(
    make_shards: Callable[..., Path], toy_train: Path
) -> None:
    lengths = ShardSet.open(toy_train).lengths - 1  # without end-of-sentence
    chosen = recipe("treereg", SHORT, **NO_DROPOUT)
    # States of a sentence that is alone do not depend on the layout.
    apart = make_shards(24, seed=1, window=int(lengths.max()))
    rows = ShardSet.open(apart)
    alone = [i for i in range(len(rows)) if "\n" not in rows.text(i)]
    assert len(alone) > 3
    windows, sentences = model_of(chosen, apart), model_of(chosen, toy_train)
    opened = ShardSet.open(toy_train)
    texts = {opened.text(i): i for i in range(len(opened))}
    found = [
        model.loss(sentences_of(folder, model).batch(np.array(numbers)))
        for model, folder, numbers in (
            (windows, apart, alone),
            (sentences, toy_train, [texts[rows.text(i)] for i in alone]),
        )
    ]
    values = [{**parts.sums, **parts.counts} for parts in found]
    for name in ("treereg", "trees", "splits", "splits_right"):
        assert values[0][name].item() == pytest.approx(values[1][name].item()), name
    gradients = [
        torch.autograd.grad(parts.sums["treereg"], model.embedding.weight)[0]
        for parts, model in zip(found, (windows, sentences), strict=True)
    ]
    assert gradients[0].any()
    torch.testing.assert_close(*gradients)


def test_all_sentences_of_windows_have_a_term(window_train: Path, toy_train: Path) -> None:
    chosen = recipe("treereg", SHORT)
    windows = parts_of(model_of(chosen, window_train), window_train)
    sentences = parts_of(model_of(chosen, toy_train), toy_train)
    for name in ("trees", "splits"):
        assert windows.counts[name].item() == sentences.counts[name].item() > 0, name
    rows = ShardSet.open(window_train)
    assert any("\n" in rows.text(i) for i in range(len(rows)))


@pytest.mark.parametrize("layout", ["window", "sentence"])
def test_parsed_shards_beside_windows(
    layout: str, window_train: Path, toy_valid: Path, window_valid: Path, tmp_path: Path
) -> None:
    parsed = window_valid if layout == "window" else toy_valid
    chosen = recipe("treereg", ONE_STEP, **NO_DROPOUT)
    train(window_train, tmp_path / "run", chosen, treereg_shards=parsed)
    (logged,) = metrics(tmp_path / "run", "train")
    assert logged["treereg_loss"] > 0
    assert load_checkpoint(tmp_path / "run").model.layout == "window"
    # The text's own trees are not looked at.
    train(window_train, tmp_path / "own", chosen)
    (own,) = metrics(tmp_path / "own", "train")
    assert logged["treereg_loss"] != own["treereg_loss"]
    assert logged["loss"] == own["loss"]


def test_windows_are_not_beside_sentences_or_blocks(
    toy_train: Path, window_valid: Path, tmp_path: Path
) -> None:
    (tmp_path / "text.txt").write_text("the dog barks\na cat near the bird sleeps\n" * 20)
    tokenizer = ShardSet.open(toy_train).tokenizer
    blocks_from_files(
        [str(tmp_path / "text.txt")], tokenizer, tmp_path / "blocks", Rejects("fail"), length=10
    )
    with pytest.raises(PdtoolsError, match="layout is window, but sentence in the training shards"):
        train(toy_train, tmp_path / "run", recipe("base", SHORT), valid=window_valid)
    with pytest.raises(PdtoolsError, match=r"config\.layout is window, but sentence in the training shards"):
        train(toy_train, tmp_path / "run", recipe("base", SHORT, layout="window"))
    for data in (toy_train, tmp_path / "blocks"):
        with pytest.raises(PdtoolsError, match="windows are for models that learn from windows"):
            train(data, tmp_path / "run", recipe("treereg", SHORT), treereg_shards=window_valid)
