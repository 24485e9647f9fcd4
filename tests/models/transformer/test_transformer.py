"""Whole models: probabilities sum to one, nothing looks ahead, a batch changes nothing."""

from __future__ import annotations

import dataclasses
import itertools
import math
import random
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from model_oracle import EOS, PAD, ROOT, derivations, random_row, small_model
from torch import Tensor

import pdtools.configs
from pdtools.errors import PdtoolsError
from pdtools.models import (
    MODELS,
    Batch,
    StackState,
    TransformerConfig,
    TransformerLM,
    build_model,
    collate,
    count_parameters,
    make_config,
    registry,
)
from pdtools.trees import tape as numpy_tape

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

IDS = {"vocab_size": 50257, "pad_id": 0, "root_id": 1, "eos_id": 2}
VARIANTS = [
    {"name": "transformer", "attachment_head": True, "positions": "learned"},
    {"name": "pushdown", "depths": 4, "pushdown_layers": "last 1", "depth_space": "hidden"},
    {"name": "pushdown", "depths": 4, "tie_embeddings": False, "positions": "alibi"},
]


def sentences(lengths: list[int], seed: int = 0) -> list[tuple[list[int], list[int]]]:
    rng = random.Random(seed)
    return [random_row(n, 11, rng) for n in lengths]


@pytest.mark.parametrize("name", ["transformer", "pushdown"])
def test_probabilities_of_everything_sum_to_one(name: str) -> None:
    # All strings that end within 2 tokens, and all beginnings of 3 tokens, each with all derivations.
    settings = {"attachment_head": True, "vocab_size": 5, "max_length": 6}
    model = small_model(name, **settings)
    words = [token for token in range(5) if token != EOS]
    total = 0.0
    for n in range(4):
        rows = [
            ([ROOT, *string, EOS], attach)
            for string in itertools.product(words, repeat=n)
            for attach in derivations(n)
        ]
        with torch.no_grad():
            parts = model.forward_parts(collate(rows, PAD))
        scored = parts.token_logprobs if n < 3 else parts.token_logprobs[:, :-1]
        joint = scored.sum(1) + parts.attach_logprobs.sum(1)
        total += float(joint.double().exp().sum())
    assert total == pytest.approx(1, rel=2e-6, abs=1e-5)


@pytest.mark.parametrize("in_c", [True, False])
@pytest.mark.parametrize("cells", [1, 30, 1000])
def test_given_next_tokens_are_scored_block_by_block(
    cells: int, in_c: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("pdtools.models.kernels.decoding.LOGIT_CELLS_CPU", cells)
    if not in_c:
        monkeypatch.setattr("pdtools.models.kernels.decoding.normalises_in_c", lambda hidden: False)
    model = small_model("pushdown")
    state, stack = model.start(7, 4), StackState.start(7, 4)
    model.advance(state, torch.tensor([ROOT] * 7), stack.tape_row())
    stack.push(torch.tensor([1] * 7))
    model.advance(state, torch.arange(3, 10), stack.tape_row())
    tokens = torch.tensor([4, 3, 9, EOS, 5, 5, 10])
    expected = model.next_token_logprobs(state)[torch.arange(7), tokens]
    torch.testing.assert_close(model.token_logprobs(state, tokens), expected, rtol=2e-6, atol=1e-6)


def test_given_next_tokens_have_no_probability_above_one_in_bfloat16() -> None:
    model = small_model("transformer", d_model=64).to(torch.bfloat16)
    model.embedding.weight.data *= 100  # the likeliest token is nearly certain
    state, stack = model.start(8, 1), StackState.start(8, 1)
    model.advance(state, torch.arange(3, 11), stack.tape_row())
    logprobs, tokens = model.next_token_logprobs(state).max(1)
    assert float(logprobs.exp().mean()) > 0.9
    torch.testing.assert_close(model.token_logprobs(state, tokens), logprobs, rtol=2e-6, atol=1e-4)


@pytest.mark.parametrize("entries", [None, 5])
def test_a_state_says_when_it_is_full(entries: int | None) -> None:
    model = small_model("pushdown")
    state, stack = model.start(1, 4, entries), StackState.start(1, 4)
    model.advance(state, torch.tensor([ROOT]), stack.tape_row())
    every = torch.zeros(4, dtype=torch.int64)
    state.select(every)
    stack = stack.select(every)
    stack.push(torch.tensor([1] * 4))
    if entries == 5:
        model.advance(state, torch.tensor([3] * 4), stack.tape_row())
        stack.push(torch.tensor([2] * 4))
    with pytest.raises(PdtoolsError, match=f"room for {entries or 4} tokens"):
        model.advance(state, torch.tensor([4] * 4), stack.tape_row())


@pytest.mark.parametrize("reads", ["embedding", "prefix"])
def test_attachments_of_any_next_tokens_may_be_asked(reads: str) -> None:
    """Also of others than the ones that are read then."""
    model = small_model("pushdown", layers=3, pushdown_layers="last 1", head_reads=reads)
    rows = sentences([6] * 3, seed=1)
    tokens, attach = (torch.tensor([row[i] for row in rows]) for i in range(2))
    with torch.no_grad():
        expected = model.forward_parts(collate(rows, PAD))
    state, stack = model.start(3, 8), StackState.start(3, 8)
    model.advance(state, tokens[:, 0], stack.tape_row())
    for k in range(1, 7):
        token, target = tokens[:, k], attach[:, k, None]
        if k == 3:
            model.attach_logprobs(state, token.flip(0), stack.legal())
        found = model.attach_logprobs(state, token, stack.legal()).gather(1, target)[:, 0]
        torch.testing.assert_close(found, expected.attach_logprobs[:, k], rtol=2e-6, atol=1e-5)
        if k in (2, 5):
            model.attach_logprobs(state, (token + 1) % 11, stack.legal())
        stack.push(target[:, 0])
        model.advance(state, token, stack.tape_row())
        found = model.token_logprobs(state, tokens[:, k + 1])
        torch.testing.assert_close(found, expected.token_logprobs[:, k + 1], rtol=2e-6, atol=1e-5)


@pytest.mark.parametrize("variant", VARIANTS, ids=str)
def test_later_tokens_and_attachments_change_nothing_before(variant: dict[str, Any]) -> None:
    model = small_model(**variant)
    tokens, _ = sentences([7])[0]
    attach = [0, 1, 1, 3, 3, 4, 1, 7, 0]
    other = [0, 1, 1, 3, 4, 2, 6, 2, 0]  # differs from position 4 on
    with torch.no_grad():
        first = model.forward_parts(collate([(tokens, attach)], PAD))
        moved = model.forward_parts(collate([(tokens, other)], PAD))
        changed = [*tokens[:4], *(3 + (t - 2) % 8 for t in tokens[4:-1]), EOS]
        spelled = model.forward_parts(collate([(changed, attach)], PAD))
    assert torch.equal(first.token_logprobs[:, :5], moved.token_logprobs[:, :5])
    assert torch.equal(first.attach_logprobs[:, :4], moved.attach_logprobs[:, :4])
    assert torch.equal(first.attach_best[:, :5], moved.attach_best[:, :5])
    assert torch.equal(first.token_logprobs[:, :4], spelled.token_logprobs[:, :4])
    assert torch.equal(first.attach_logprobs[:, :4], spelled.attach_logprobs[:, :4])
    # And what may depend on them does.
    assert (
        not torch.equal(first.token_logprobs[:, 5:], moved.token_logprobs[:, 5:])
        or not model.derivation_kind.conditions_tokens
    )
    assert not torch.equal(first.attach_logprobs[:, 4], spelled.attach_logprobs[:, 4])


@pytest.mark.parametrize("variant", VARIANTS, ids=str)
def test_sentences_score_the_same_alone_and_in_a_batch(variant: dict[str, Any]) -> None:
    model = small_model(**variant)
    rows = sentences([1, 4, 20, 9])
    with torch.no_grad():
        together = model.forward_parts(collate(rows, PAD))
        sums = model.loss(collate(rows, PAD))
        parts = [model.loss(collate([row], PAD)) for row in rows]
        for i, row in enumerate(rows):
            n = len(row[0])
            alone = model.forward_parts(collate([row], PAD))
            for field in ("token_logprobs", "attach_logprobs", "attach_best"):
                one, other = getattr(together, field)[i, :n], getattr(alone, field)[0]
                torch.testing.assert_close(one, other, rtol=2e-6, atol=1e-5)
            assert not bool(together.token_logprobs[i, n:].any())
            assert not bool(together.attach_logprobs[i, n - 1 :].any())
    for kind in ("sums", "counts"):
        for name, value in getattr(sums, kind).items():
            added = torch.stack([getattr(each, kind)[name] for each in parts]).sum(0)
            torch.testing.assert_close(value, added)
    assert int(sums.counts["tokens"]) == sum(len(t) - 1 for t, _ in rows)
    assert int(sums.counts["attachments"]) == sum(len(t) - 2 for t, _ in rows)


def test_gradients_are_finite_with_padding() -> None:
    model = small_model("pushdown", depths=4).train()
    loss = model(collate(sentences([1, 12, 5]), PAD))
    (loss.sums["token_nll"] + loss.sums["attachment_nll"]).backward()
    for name, parameter in model.named_parameters():
        assert parameter.grad is not None, name
        assert bool(parameter.grad.isfinite().all()), name


def test_the_attachment_head_trains_the_layers_below_the_first_pushdown_layer() -> None:
    """Where it reads what these make of a token; what attaches to it later is read from hidden states."""
    batch = collate([([ROOT, 3, 4, EOS], [0, 1, 1, 0])], PAD)
    for reads, reached in (("embedding", False), ("prefix", True)):
        model = small_model("pushdown", layers=2, pushdown_layers="last 1", head_reads=reads)
        assert model.head is not None
        for part in (model.head.query_and_key, model.blocks[1]):  # no other way is left
            part.requires_grad_(False)
        with torch.no_grad():
            model.head.query_and_key.weight.zero_()
        model.loss(batch).sums["attachment_nll"].backward()
        found = model.blocks[0].feed_forward[0].weight.grad
        assert (found is not None and bool(found.any())) == reached


def test_depths_beyond_the_table_are_counted() -> None:
    attach = [0, 1, 1, 2, 3, 4, 5, 0]
    left_branching = ([ROOT, *[3] * 6, EOS], attach)
    longer = ([ROOT, *[3] * 9, EOS], [*range(10), 0])  # shifts only: nothing is deep, the first is padded
    assert int(small_model("pushdown", depths=6).loss(collate([left_branching], PAD)).counts["clamped"]) == 0
    model = small_model("pushdown", depths=4)
    deep = int((numpy_tape(attach)[:-1] >= 4).sum())  # what EOS does to the tape is never looked at
    assert deep == 5
    assert int(model.loss(collate([left_branching, longer], PAD)).counts["clamped"]) == deep
    state, stack = model.start(1, 8), StackState.start(1, 8)
    for k in range(7):
        if k:
            stack.push(torch.tensor([attach[k]]))
        model.advance(state, torch.tensor([3]), stack.tape_row())
    assert int(state.n_clamped) == deep


def test_base_model_needs_no_derivation() -> None:
    model = small_model("transformer")
    assert not model.derivation_kind.conditions_tokens
    assert not model.derivation_kind.exist
    tokens, attach = sentences([6])[0]
    batch = collate([(tokens, attach), (tokens, [0, *range(1, 7), 0])], PAD)
    parts = model.forward_parts(batch)
    assert torch.equal(parts.token_logprobs[0], parts.token_logprobs[1])
    assert not bool(parts.attach_logprobs.any())
    assert int(model.loss(batch).counts["attachments"]) == 0
    state = model.start(1, 3)
    with pytest.raises(PdtoolsError, match="attachment head"):
        model.attach_logprobs(state, torch.tensor([3]), torch.tensor([[True]]))


def test_too_long_sentences_are_refused_by_learned_positions_only() -> None:
    batch = collate(sentences([30]), PAD)
    learned = small_model("pushdown", positions="learned")
    with pytest.raises(PdtoolsError, match=r"32 positions.*max_length of 24"):
        learned.loss(batch)
    with pytest.raises(PdtoolsError, match="32 positions"):
        learned.start(1, 32)
    relative = small_model("pushdown", positions="relative")
    assert relative.max_length is None
    assert math.isfinite(relative.loss(batch).sums["token_nll"].item())


def test_dropout_only_in_training() -> None:
    batch = collate(sentences([9]), PAD)
    for where in ("input_dropout", "attention_dropout", "output_dropout"):
        rates = dict.fromkeys(("input_dropout", "attention_dropout", "output_dropout"), 0.0) | {where: 0.5}
        model = small_model("pushdown", **rates)
        assert torch.equal(model.loss(batch).sums["token_nll"], model.loss(batch).sums["token_nll"])
        model.train()
        assert not torch.equal(model.loss(batch).sums["token_nll"], model.loss(batch).sums["token_nll"])


def test_dropout_of_attention_token_by_token() -> None:
    model = small_model("transformer", attention_dropout=0.5, input_dropout=0.0, output_dropout=0.0)

    def after_four() -> Tensor:
        state = model.start(1, 4)
        for k in range(4):
            model.advance(state, torch.tensor([5]), torch.zeros(1, k + 1, dtype=torch.int16))
        return model.next_token_logprobs(state)

    assert torch.equal(after_four(), after_four())
    model.train()
    assert not torch.equal(after_four(), after_four())


def test_parameter_counts() -> None:
    def count(name: str, **settings: Any) -> int:
        with torch.device("meta"):
            return count_parameters(build_model(name, make_config(name, {**IDS, **settings})))

    shape = recipe("gpt2-small-last6")["config"]
    plain = {key: value for key, value in shape.items() if key != "pushdown_layers"}
    assert count("transformer", **plain) == 124_439_808  # GPT-2 small
    head = count("transformer", **plain, attachment_head=True) - 124_439_808
    d = 768
    assert head == (d + 1) * 2 * d + 2 * ((2 * d + 1) * d + (d + 1) * d) + 2 * (d + 1) * d
    # A depth table per pushdown layer, shared by heads; one for the head, whose key network is wider.
    tables = 6 * 64 * 64 + 64 * d + d * d
    assert count("pushdown", **shape) == 124_439_808 + head + tables
    medium = recipe("gpt2-medium-last12")["config"]
    plain = {key: value for key, value in medium.items() if key not in ("pushdown_layers", "depth_init")}
    assert count("transformer", **plain) == 354_823_168  # GPT-2 medium
    assert count("transformer", **plain, tie_embeddings=False) == 354_823_168 + 50257 * 1024


def recipe(name: str) -> dict[str, Any]:
    return tomllib.loads((Path(pdtools.configs.__path__[0]) / f"{name}.toml").read_text("utf-8"))


@pytest.mark.parametrize("name", ["tiny", "small", "dyck", "bllip", "gpt2-small-last6", "gpt2-medium-last12"])
def test_recipes_build(name: str) -> None:
    table = recipe(name)
    with torch.device("meta"):
        model = build_model(table["model"], make_config(table["model"], {**IDS, **table["config"]}))
    assert isinstance(model, TransformerLM)
    assert model.derivation_kind.exist
    assert model.derivation_kind.conditions_tokens


@pytest.mark.parametrize(
    ("name", "settings", "message"),
    [
        ("pushup", {}, "unknown model 'pushup'.*pushdown.*transformer"),
        ("transformer", {"depths": 4}, "no setting 'depths'"),
        ("transformer", {"layers": "six"}, "layers must be a whole number"),
        ("transformer", {"layers": True}, "layers must be a whole number"),
        ("transformer", {"layers": 0}, "layers must be at least 1"),
        ("transformer", {"heads": 7}, "multiple of heads"),
        ("transformer", {"positions": "absolute"}, "positions must be one of"),
        ("transformer", {"input_dropout": 1}, "input_dropout must be"),
        ("transformer", {"pad_id": 60000}, "pad_id must be below"),
        ("pushdown", {"attachment_head": False}, "needs its attachment_head"),
        ("pushdown", {"pushdown_layers": "last 7"}, "pushdown_layers must be"),
        ("pushdown", {"pushdown_layers": "last 0"}, "pushdown_layers must be"),
        ("pushdown", {"pushdown_layers": "first 2"}, "pushdown_layers must be"),
        ("pushdown", {"depths": 0}, "depths must be"),
        ("pushdown", {"head_slope": 0.0}, "head_slope must be"),
        ("pushdown", {"stack_distances": True, "distances_in": "tape"}, "distances_in must be one of"),
        ("pushdown", {"distances_in": "head"}, "distances_in needs stack_distances"),
        ("pushdown", {"depth_space": "value"}, "depth_space must be one of"),
        ("pushdown", {"head_reads": "everything"}, "head_reads must be one of embedding, prefix"),
        ("pushdown", {"head_reads": "prefix"}, "needs layers below the first pushdown layer"),
        ("pushdown", {"head_reads": "prefix", "pushdown_layers": "last 6"}, "needs layers below"),
        ("transformer", {"head_reads": "prefix"}, "no setting 'head_reads'"),
    ],
)
def test_bad_settings_are_named(name: str, settings: dict[str, Any], message: str) -> None:
    with pytest.raises(PdtoolsError, match=message):
        make_config(name, {**IDS, **settings})
    with pytest.raises(PdtoolsError, match="missing settings: vocab_size"):
        make_config("transformer", {"pad_id": 0, "root_id": 1, "eos_id": 2})


def test_distances_are_where_they_are_set() -> None:
    for distances_in, has_slope, terms in ("both", True, 3), ("attention", False, 3), ("head", True, 2):
        settings = {**IDS, "stack_distances": True, "distances_in": distances_in}
        model = build_model("pushdown", make_config("pushdown", settings))
        assert isinstance(model, TransformerLM)
        assert model.head is not None
        assert (model.head.log_slope is not None) == has_slope
        assert {len(block.attention.terms) for block in model.blocks} == {terms}


def test_the_head_s_slope_starts_where_it_is_set() -> None:
    for settings, slope in ({}, 10.0), ({"head_slope": 0.25}, 0.25):
        config = make_config("pushdown", {**IDS, "stack_distances": True, **settings})
        model = build_model("pushdown", config)
        assert isinstance(model, TransformerLM)
        assert model.head is not None
        assert model.head.log_slope is not None
        assert model.head.log_slope.exp().item() == pytest.approx(slope)


def test_pushdown_layers_are_the_chosen_ones() -> None:
    model = small_model("pushdown", layers=3, pushdown_layers="last 2")
    assert [len(block.attention.terms) for block in model.blocks] == [1, 2, 2]
    assert set(MODELS) >= {"transformer", "pushdown"}


def test_batch_masks() -> None:
    batch = collate(sentences([1, 3]), PAD)
    assert isinstance(batch, Batch)
    assert batch.tokens[0, 3:].tolist() == [PAD, PAD]
    assert batch.attach[0, 3:].tolist() == [3, 4]
    assert batch.predicted().tolist() == [[False, True, True, False, False], [False, True, True, True, True]]
    assert batch.attached().tolist() == [[False, True, False, False, False], [False, True, True, True, False]]


def test_mixed_precision_gives_nearly_the_same_loss() -> None:
    model = small_model("pushdown", depths=4)
    batch = collate(sentences([9, 12]), PAD)
    exact = model.loss(batch)
    with torch.autocast("cpu", dtype=torch.bfloat16):
        mixed = model.loss(batch)
    assert mixed.sums["token_nll"].dtype == mixed.sums["attachment_nll"].dtype == torch.float32
    (mixed.sums["token_nll"] + mixed.sums["attachment_nll"]).backward()
    assert all(p.grad is not None and bool(p.grad.isfinite().all()) for p in model.parameters())
    torch.testing.assert_close(mixed.sums["token_nll"], exact.sums["token_nll"], rtol=0.05, atol=0)
    torch.testing.assert_close(mixed.sums["attachment_nll"], exact.sums["attachment_nll"], rtol=0.05, atol=0)


def test_rows_may_be_read_only_arrays(recwarn: pytest.WarningsRecorder) -> None:
    tokens, attach = (np.array(column, dtype=np.int32) for column in sentences([4])[0])
    tokens.flags.writeable = attach.flags.writeable = False
    batch = collate([(tokens, attach)], PAD)
    assert batch.tokens.tolist() == [tokens.tolist()]
    assert batch.tokens.dtype == batch.attach.dtype == batch.lengths.dtype == torch.int64
    assert not recwarn.list


def test_a_new_kind_of_model_is_found_by_its_name(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(registry, "MODELS", dict(MODELS))

    @dataclasses.dataclass(frozen=True, kw_only=True)
    class Config(TransformerConfig):
        layers: int = 1

    registry.MODELS["shallow"] = registry.ModelKind(Config, TransformerLM)
    config = registry.make_config("shallow", {**IDS, "vocab_size": 9})
    assert registry.model_name(config) == "shallow"
    assert len(registry.build_model("shallow", config).blocks) == 1
