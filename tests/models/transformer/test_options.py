"""Options of the transformer: whatever its parts, step by step is the same as the whole row."""

from __future__ import annotations

import dataclasses
import math
import random
from typing import Any

import pytest
import torch
from model_oracle import PAD, ROOT, random_row, small_model
from torch import nn

from pdtools.errors import PdtoolsError
from pdtools.models import Batch, StackState, build_model, collate, make_config
from pdtools.models.transformer.block import rotate
from pdtools.models.transformer.score_terms import ScoreInputs, sinusoids_of
from pdtools.training import read_recipe

STACK = {"stack_layers": "all"}
VARIANTS: list[dict[str, Any]] = [
    *({"positions": p, **STACK} for p in ("learned", "sincos", "relative", "rotary", "alibi", "none")),
    {"positions": "rotary"},
    {"positions": "none", "as_released": True},
    {"positions": "alibi", "as_released": True},
    {"positions": "relative", "as_released": True},
    {"positions": "sincos", "as_released": True, **STACK},
    {"norm": "post", "activation": "relu", "attention_bias": False, "scale_embeddings": True, **STACK},
    {"embedding_norm": True, "output_transform": True, "output_bias": True, "stack_layers": "last 1"},
    {"name": "pushdown", "depths": 4, "positions": "learned", **STACK},
    {"name": "pushdown", "depths": 4, "positions": "sincos", "norm": "post", **STACK},
    {"name": "pushdown", "depths": 4, "pushdown_layers": "last 1", "head_reads": "prefix", **STACK},
    *(
        {"positions": positions, "tie_embeddings": tied, **parts}
        for positions, tied in (("learned", True), ("relative", False), ("alibi", True), ("none", False))
        for parts in (
            {"attachment_head": True},
            {"name": "pushdown", "depths": 4},
            {"name": "pushdown", "depths": 4, "pushdown_layers": "last 1", "depth_space": "hidden"},
            {"name": "pushdown", "depths": 4, "pushdown_layers": "last 1", "head_reads": "prefix"},
        )
    ),
]


def batch_of(lengths: list[int], seed: int = 0) -> Batch:
    rng = random.Random(seed)
    return collate([random_row(n, 11, rng) for n in lengths], PAD)


@torch.no_grad()
@pytest.mark.parametrize("variant", VARIANTS, ids=lambda v: "-".join(str(x) for x in v.values()))
def test_step_by_step_is_the_whole_row(variant: dict[str, Any]) -> None:
    model = small_model(**{"name": "transformer", **variant})
    length, count = 9, 4
    batch = batch_of([length] * count)
    parts = model.forward_parts(batch)
    tokens, attach = batch.tokens, batch.attach
    # Hypotheses are read in reverse order and half of them twice: rows that are dropped and copied.
    state = model.start(count, length + 2, entries=3 * count * length)
    stack = StackState.start(count, length + 2)
    order = torch.arange(count)
    model.advance(state, tokens[:, 0], stack.tape_row())
    for k in range(1, length + 2):
        following = model.next_token_logprobs(state)
        got = following.gather(1, tokens[order, k, None])[:, 0]
        torch.testing.assert_close(got, parts.token_logprobs[order, k], rtol=2e-6, atol=1e-5)
        asked = model.token_logprobs(state, tokens[order, k])
        torch.testing.assert_close(asked, got, rtol=2e-6, atol=1e-5)
        torch.testing.assert_close(following.exp().sum(1), torch.ones(len(order)), rtol=2e-6, atol=1e-5)
        if k == length + 1:
            break
        if model.head is not None:
            every = model.attach_logprobs(state, tokens[order, k], stack.legal())
            chosen = every.gather(1, attach[order, k, None])[:, 0]
            torch.testing.assert_close(chosen, parts.attach_logprobs[order, k], rtol=2e-6, atol=1e-5)
            assert torch.equal(every.argmax(1), parts.attach_best[order, k])
            assert torch.equal(every.isfinite(), stack.legal())
            torch.testing.assert_close(every.exp().sum(1), torch.ones(len(order)), rtol=2e-6, atol=1e-5)
        rows = {3: torch.tensor([3, 1, 1, 0, 2, 3]), 6: torch.tensor([5, 4, 0])}.get(k)
        if rows is not None:
            state.select(rows)
            stack = stack.select(rows)
            order = order[rows]
        stack.push(attach[order, k])
        model.advance(state, tokens[order, k], stack.tape_row())
    following = model.following_logprobs(
        dataclasses.replace(batch, tokens=tokens[:, :-1], attach=attach[:, :-1], lengths=batch.lengths - 1)
    )
    if not (model.config.as_released and model.config.positions == "sincos"):  # counts from the end
        torch.testing.assert_close(following[order], model.next_token_logprobs(state), rtol=2e-6, atol=1e-5)


@torch.no_grad()
@pytest.mark.parametrize("variant", VARIANTS, ids=lambda v: "-".join(str(x) for x in v.values()))
def test_padding_changes_nothing(variant: dict[str, Any]) -> None:
    model = small_model(**{"name": "transformer", **variant})
    together = model.forward_parts(batch_of([6, 3]))
    rng = random.Random(0)
    random_row(6, 11, rng)
    alone = model.forward_parts(collate([random_row(3, 11, rng)], PAD))
    torch.testing.assert_close(together.token_logprobs[1, :5], alone.token_logprobs[0], rtol=2e-6, atol=1e-5)


@torch.no_grad()
def test_as_released_the_token_before_is_not_seen() -> None:
    batch = batch_of([7])
    changed = batch.tokens.clone()
    changed[0, 4] = (changed[0, 4] + 1) % 11
    for as_released, first in ((False, 5), (True, 6)):
        model = small_model("transformer", as_released=as_released)
        before = model.forward_parts(dataclasses.replace(batch, targets=batch.tokens)).token_logprobs
        other = dataclasses.replace(batch, tokens=changed, targets=batch.tokens)
        after = model.forward_parts(other).token_logprobs
        differs = (before - after).abs()[0] > 1e-6
        assert differs.nonzero()[:, 0].tolist() == list(range(first, 9))


@torch.no_grad()
@pytest.mark.parametrize("objective", ["causal", "masked"])
def test_as_released_alibi_takes_half_a_step_off_the_past(objective: str) -> None:
    options = {"positions": "alibi", "objective": objective}
    released, ours = (
        small_model("transformer", as_released=as_released, **options).blocks[0].attention.terms[0]
        for as_released in (True, False)
    )
    q = torch.zeros(1, released.slopes.shape[0], 5, 4)
    inputs = ScoreInputs(causal=None, tape=None)
    found = released(q, q, q, inputs) - ours(q, q, q, inputs)
    expected = released.slopes * math.sqrt(4) * 0.5 * torch.ones(5, 5).tril(-1)
    torch.testing.assert_close(found, expected)


@pytest.mark.parametrize(("objective", "nearest"), [("causal", 1), ("masked", 0)])
def test_as_released_relative_positions(objective: str, nearest: int) -> None:
    options = {
        "vocab_size": 9,
        "pad_id": 0,
        "root_id": 1,
        "eos_id": 2,
        "positions": "relative",
        "objective": objective,
    }
    torch.manual_seed(0)
    term, ours = (
        build_model("transformer", make_config("transformer", {**options, "as_released": as_released}))
        .blocks[0]
        .attention.terms[0]
        for as_released in (True, False)
    )
    distance = torch.arange(4, -5 if objective == "masked" else -1, -1) + nearest
    expected = term.distance_map(sinusoids_of(distance, term.d_model, 256.0))
    found = term.vectors(5).transpose(0, 1).flatten(1)
    torch.testing.assert_close(found, expected)
    for bias in (term.content_bias, term.position_bias):
        assert float(bias.detach().std()) == pytest.approx(0.02, rel=0.2)
    assert (ours.timescale, ours.nearest) == (10000.0, 0)
    assert not ours.content_bias.any()


def test_as_released_masked_models_do_not_read_root() -> None:
    batch = batch_of([5, 3])
    other = dataclasses.replace(batch, tokens=torch.where(batch.tokens == ROOT, 7, batch.tokens))
    for as_released in (False, True):
        model = small_model("transformer", objective="masked", as_released=as_released, **STACK)
        scored = {"targets": batch.tokens}
        one = model.forward_parts(dataclasses.replace(batch, **scored)).token_logprobs
        two = model.forward_parts(dataclasses.replace(other, **scored)).token_logprobs
        assert torch.equal(one, two) is as_released
    empty = Batch(torch.tensor([[ROOT, PAD]]), torch.tensor([[0, 1]]), torch.tensor([1]))
    assert model.forward_parts(empty).token_logprobs.tolist() == [[0, 0]]


def test_rotary_products_depend_on_differences() -> None:
    q, k = torch.randn(2, 1, 2, 1, 6, generator=torch.Generator().manual_seed(0))
    near = (rotate(q, 3) * rotate(k, 1)).sum(-1)
    torch.testing.assert_close((rotate(q, 12) * rotate(k, 10)).sum(-1), near)
    assert not torch.allclose((rotate(q, 4) * rotate(k, 1)).sum(-1), near)
    torch.testing.assert_close(rotate(q, 0), q)


def test_the_stack_adds_its_term_and_nothing_else() -> None:
    torch.manual_seed(0)
    with_stack = small_model("transformer", **STACK)
    without = small_model("transformer")
    kept = {name: value for name, value in with_stack.state_dict().items() if ".stack." not in name}
    without.load_state_dict(kept)
    batch = batch_of([6])
    assert not torch.allclose(with_stack(batch).sums["token_nll"], without(batch).sums["token_nll"])
    for block in with_stack.blocks:
        block.stack.forward = lambda x, cache=None: torch.zeros_like(x)
    torch.testing.assert_close(with_stack(batch).sums["token_nll"], without(batch).sums["token_nll"])


def test_every_parameter_of_a_stack_gets_a_gradient() -> None:
    model = small_model("transformer", **STACK)
    model(batch_of([6, 4])).sums["token_nll"].backward()
    for name, parameter in model.named_parameters():
        assert parameter.grad is not None, name
        if ".stack." in name:
            assert bool(parameter.grad.abs().sum() > 0), name


def test_initial_weights_by_fan_in() -> None:
    values = {"vocab_size": 500, "pad_id": 0, "root_id": 1, "eos_id": 2, "layers": 1}
    torch.manual_seed(0)
    model = build_model("transformer", make_config("transformer", {**values, "initialization": "fan-in"}))
    for module in model.modules():
        if isinstance(module, nn.Linear | nn.Embedding):
            std = 0.02 if isinstance(module, nn.Embedding) else module.in_features**-0.5
            # Cut off at two, a normal distribution's deviation is 0.88 of what it was.
            assert float(module.weight.detach().std()) == pytest.approx(0.88 * std, rel=0.05)
            assert float(module.weight.detach().abs().max()) <= 2 * std
        if isinstance(module, nn.Linear) and module.bias is not None:
            assert not bool(module.bias.any())


@pytest.mark.parametrize("name", ["gilt", "dtg"])
def test_initial_weights_of_dependency_models_as_released(name: str) -> None:
    assert read_recipe(name).options["initialization"] == "depth-scaled"
    values = {"vocab_size": 500, "pad_id": 0, "root_id": 1, "eos_id": 2, "layers": 8, "positions": "relative"}
    torch.manual_seed(0)
    model = build_model(name, make_config(name, {**values, "initialization": "depth-scaled"}))
    scorer = {"scorer.head", "scorer.dependent"}
    kaiming = {f"{role}.{network}.1" for role in scorer for network in ("word", "pair")}
    for part, module in model.named_modules():
        if isinstance(module, nn.Linear):
            std = math.sqrt(2 / module.in_features)
            if part not in kaiming:
                std *= 0.88 / math.sqrt(8)
                assert module.bias is None or not bool(module.bias.any())
            assert float(module.weight.detach().std()) == pytest.approx(std, rel=0.1), part
        elif part == "embedding":
            bound = math.sqrt(3 / module.embedding_dim)
            assert float(module.weight.detach().abs().max()) == pytest.approx(bound, rel=1e-3)
    if name == "gilt":
        for part in ("scorer.arc_weight", "scorer.count_weight"):
            weight = model.get_parameter(part).detach()
            assert 0 <= float(weight.min()) < 0.1
            assert float(weight.max()) == pytest.approx(1, abs=0.1)
        assert float(model.get_parameter("feature_embedding.weight").detach().std()) == pytest.approx(
            1, rel=0.05
        )


def test_initial_weights_of_roberta_are_alike_in_all_layers() -> None:
    options = {"vocab_size": 500, "pad_id": 0, "root_id": 1, "eos_id": 2, "layers": 8}
    for name, factor in (("normal", 1), ("gpt2", 1 / 4)):
        torch.manual_seed(0)
        model = build_model("transformer", make_config("transformer", {**options, "initialization": name}))
        for weight in ("blocks.0.attention.output.weight", "blocks.7.feed_forward.2.weight"):
            deviation = float(model.get_parameter(weight).detach().std())
            assert deviation == pytest.approx(0.02 * factor, rel=0.05)
    assert read_recipe("roberta-stack").options["initialization"] == "normal"


@pytest.mark.parametrize(
    ("name", "given", "message"),
    [
        ("transformer", {"stack_layers": "last 3"}, 'stack_layers must be "none", "all" or "last N"'),
        ("transformer", {"stack_layers": "last 0"}, "N from 1 to 2, not 'last 0'"),
        ("transformer", {"norm": "both"}, "norm must be one of pre, post"),
        ("transformer", {"activation": "tanh"}, "activation must be one of"),
        (
            "transformer",
            {"initialization": "zero"},
            "initialization must be one of gpt2, normal, fan-in, depth-scaled",
        ),
        ("transformer", {"norm_eps": 0.0}, "norm_eps must be above 0"),
        ("transformer", {"positions": "rotary", "d_model": 12}, "rotary positions need an even"),
        ("transformer", {"positions": "sincos", "d_model": 15, "heads": 5}, "sincos positions need an even"),
        ("transformer", {"attachment_head": True, "as_released": True}, "no as_released"),
        ("pushdown", {"positions": "rotary"}, "rotary positions do not go with depths"),
    ],
)
def test_bad_settings_are_named(name: str, given: dict[str, Any], message: str) -> None:
    with pytest.raises(PdtoolsError, match=message):
        small_model(name, **given)
