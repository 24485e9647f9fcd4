from __future__ import annotations

import math
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from safetensors.torch import load_file
from search_oracle import tiny_model
from torch import nn

from pdtools.errors import PdtoolsError
from pdtools.models import build_model, make_config
from pdtools.training import Recipe, TrainConfig, build_optimizer, learning_rate, read_recipe, train
from pdtools.training.optimizer import undecayed_parameters


@given(st.integers(1, 500), st.integers(0, 600), st.floats(0, 1), st.data())
def test_cosine_against_the_formula(steps: int, warmup: int, ratio: float, data: st.DataObject) -> None:
    step = data.draw(st.integers(1, steps))
    config = TrainConfig(steps=steps, warmup_steps=warmup, min_learning_rate_ratio=ratio, learning_rate=0.5)
    if step <= warmup:
        expected = 0.5 * step / warmup
    else:
        lowest = 0.5 * ratio
        expected = lowest + (0.5 - lowest) * (1 + math.cos(math.pi * (step - warmup) / (steps - warmup))) / 2
    assert learning_rate(step, config) == pytest.approx(expected, abs=1e-12)


def test_corner_values() -> None:
    config = TrainConfig(steps=110, warmup_steps=10, learning_rate=2.0, min_learning_rate_ratio=0.1)
    assert [learning_rate(s, config) for s in (1, 10, 60, 110)] == pytest.approx([0.2, 2.0, 1.1, 0.2])
    linear = replace(config, schedule="linear")
    assert [learning_rate(s, linear) for s in (5, 10, 35, 60, 110)] == pytest.approx(
        [1.0, 2.0, 1.55, 1.1, 0.2]
    )
    constant = TrainConfig(steps=110, warmup_steps=10, learning_rate=2.0, schedule="constant")
    assert [learning_rate(s, constant) for s in (5, 10, 60, 110)] == [1.0, 2.0, 2.0, 2.0]


@given(
    steps=st.integers(1, 60),
    warmup=st.integers(0, 40),
    factor=st.floats(0.01, 1),
    schedule=st.sampled_from(["cosine", "linear", "constant", "plateau"]),
    data=st.data(),
)
def test_any_rate_is_the_schedules_times_the_factor(
    steps: int, warmup: int, factor: float, schedule: Any, data: st.DataObject
) -> None:
    """In the warm-up too, which an evaluation may come before the end of."""
    config = TrainConfig(steps=steps, warmup_steps=warmup, schedule=schedule)
    step = data.draw(st.integers(1, steps))
    assert learning_rate(step, config, factor) == pytest.approx(factor * learning_rate(step, config))


def test_only_matrices_decay() -> None:
    config = make_config(
        "pushdown",
        {
            "vocab_size": 9,
            "pad_id": 0,
            "root_id": 1,
            "eos_id": 2,
            "layers": 1,
            "d_model": 8,
            "heads": 2,
            "d_ff": 16,
            "stack_distances": True,
        },
    )
    model = build_model("pushdown", config)
    undecayed = undecayed_parameters(model)
    names = {name for name, _ in model.named_parameters()}
    decayed = names - undecayed
    assert decayed
    assert all(name.endswith("weight") for name in decayed)
    assert not any("embedding" in name or "norm" in name for name in decayed)
    vectors = ("bias", "slope", "slopes")
    assert all("embedding" in name or "norm" in name or name.endswith(vectors) for name in undecayed)

    before = {name: p.detach().clone() for name, p in model.named_parameters()}
    optimizer = build_optimizer(model, TrainConfig(learning_rate=0.1, weight_decay=0.5))
    for parameter in model.parameters():
        parameter.grad = torch.zeros_like(parameter)
    optimizer.step()
    for name, parameter in model.named_parameters():
        expected = before[name] * (0.95 if name in decayed else 1.0)
        torch.testing.assert_close(parameter.detach(), expected)


def test_embeddings_may_learn_at_a_rate_of_their_own(toy_train: Path, tmp_path: Path) -> None:
    assert read_recipe("dtg").train.embedding_rate == 2
    constant = {"learning_rate": 0.1, "warmup_steps": 0, "schedule": "constant", "clip": 0.0}
    config = TrainConfig(steps=1, optimizer="sgd", weight_decay=0.0, eval_every=1, **constant)  # type: ignore[arg-type]
    weights = []
    for name, settings in (
        ("none", {"learning_rate": 1e-30}),
        ("one", {}),
        ("three", {"embedding_rate": 3.0}),
    ):
        options = {"layers": 1, "d_model": 16, "heads": 2, "d_ff": 32}
        chosen = Recipe(model="transformer", options=options, train=replace(config, **settings))  # type: ignore[arg-type]
        train(toy_train, tmp_path / name, chosen)
        weights.append(load_file(tmp_path / name / "last" / "model.safetensors"))
    for name, before in weights[0].items():
        one, other = (each[name] - before for each in weights[1:])
        factor = 3 if "embedding" in name else 1
        torch.testing.assert_close(other, factor * one, atol=1e-6, rtol=1e-3)
        assert bool(one.any()) or "norm" in name or "bias" in name, name


@pytest.mark.parametrize("name", ["adamw", "sgd"])
def test_the_optimizer_is_the_one_of_the_recipe(name: Any) -> None:
    config = TrainConfig(
        optimizer=name, learning_rate=0.5, weight_decay=0.25, betas=(0.5, 0.75), eps=0.125, steps=9
    )
    model = tiny_model()
    optimizer = build_optimizer(model, config)
    assert type(optimizer) is (torch.optim.SGD if name == "sgd" else torch.optim.AdamW)
    groups = optimizer.param_groups
    assert [group["weight_decay"] for group in groups] == [0.25, 0.0, 0.0]
    assert {id(p) for group in groups for p in group["params"]} == set(map(id, model.parameters()))
    for group in groups:
        assert group["lr"] == 0.5
        if name == "adamw":
            assert (group["betas"], group["eps"]) == ((0.5, 0.75), 0.125)


MUON = TrainConfig(optimizer="muon", learning_rate=0.5, weight_decay=0.25, betas=(0.5, 0.75), eps=0.125)


@pytest.mark.parametrize("model", [tiny_model("pushdown"), tiny_model("gilt")], ids=["pushdown", "gilt"])
def test_muon_has_the_matrices_in_blocks_and_adamw_the_rest(model: nn.Module) -> None:
    *adamw, muon = build_optimizer(model, replace(MUON, embedding_rate=3.0)).param_groups
    names = {id(p): name for name, p in model.named_parameters()}
    linear = {
        f"blocks.{name}.weight"
        for name, module in model.get_submodule("blocks").named_modules()
        if isinstance(module, nn.Linear)
    }
    assert {names[id(p)] for p in muon["params"]} == linear
    assert [g["lr"] for g in (*adamw, muon)] == [0.5] * 4
    assert [g["factor"] for g in (*adamw, muon)] == [1.0, 1.0, 3.0, 1.0]
    assert [g["weight_decay"] for g in (*adamw, muon)] == [0.25, 0.0, 0.0, 0.25]
    assert [(g["betas"], g["eps"]) for g in adamw] == [((0.5, 0.75), 0.125)] * 3
    divided = [names.pop(id(p)) for g in (*adamw, muon) for p in g["params"]]
    assert not names
    assert len(divided) == len(set(divided))


@pytest.mark.skipif(not hasattr(torch.optim, "Muon"), reason="PyTorch 2.9 or newer")
def test_steps_of_muon_against_torch(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch.Tensor, "bfloat16", lambda x: x.clone())  # torch's own is in bf16
    model, other = tiny_model(), tiny_model()
    ours = build_optimizer(model, MUON)
    named, groups = list(other.named_parameters()), ours.param_groups
    places = {id(p): place for place, p in enumerate(model.parameters())}
    of = [[named[places[id(p)]][1] for p in group["params"]] for group in groups]
    adamw = {"lr": 0.5, "betas": (0.5, 0.75), "eps": 0.125}
    theirs = [
        torch.optim.AdamW(of[0], **adamw, weight_decay=0.25),
        torch.optim.AdamW(of[1], **adamw, weight_decay=0.0),
        torch.optim.AdamW(of[2], **adamw, weight_decay=0.0),
        torch.optim.Muon(of[3], lr=0.5, weight_decay=0.25, adjust_lr_fn="match_rms_adamw"),
    ]
    for rate in (0.1, 0.4, 0.2):
        for p, q in zip(model.parameters(), other.parameters(), strict=True):
            p.grad = torch.randn_like(p)
            q.grad = p.grad.clone()
        for group in (*groups, *(group for each in theirs for group in each.param_groups)):
            group["lr"] = rate  # as the loop sets it
        for each in (ours, *theirs):
            each.step()
        for (name, q), p in zip(named, model.parameters(), strict=True):
            torch.testing.assert_close(p, q, msg=lambda text, name=name: f"{name}: {text}")


def test_muon_is_refused_for_a_model_without_blocks() -> None:
    config = make_config("rnn", {"vocab_size": 9, "pad_id": 0, "root_id": 1, "eos_id": 2})
    with pytest.raises(PdtoolsError, match=r'^train.optimizer = "muon" is for transformers'):
        build_optimizer(build_model("rnn", config), MUON)
