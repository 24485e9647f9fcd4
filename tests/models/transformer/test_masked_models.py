"""Masked models see both sides and predict at the same position; what is scored is what a batch says."""

from __future__ import annotations

import dataclasses
import itertools
import random
from typing import Any

import pytest
import torch
from model_oracle import PAD, random_row, small_model
from torch import Tensor

from pdtools.errors import PdtoolsError
from pdtools.models import Batch, TransformerLM, collate
from pdtools.models.transformer.block import Attention, TiltedLinearPositions, TwoSidedPositions
from pdtools.models.transformer.score_terms import LinearPositions
from pdtools.models.transformer.stack_attention import stack_attention

MASKED_POSITIONS = ("none", "learned", "sincos", "relative", "rotary", "alibi")
VARIANTS: list[dict[str, Any]] = [
    *({"positions": positions} for positions in MASKED_POSITIONS),
    *({"positions": positions, "as_released": True} for positions in ("none", "sincos", "relative", "alibi")),
    {"norm": "post", "activation": "relu", "attention_bias": False, "scale_embeddings": True},
    {"norm": "post", "activation": "gelu-exact", "embedding_norm": True, "output_transform": True},
    {"output_bias": True, "tie_embeddings": False, "norm_eps": 0.1},
    {"stack_layers": "all", "norm": "post"},
    {"stack_layers": "last 1", "as_released": True},
]


def batch_of(lengths: list[int], seed: int = 0) -> Batch:
    rng = random.Random(seed)
    return collate([random_row(n, 11, rng) for n in lengths], PAD)


def plain_sinusoid(position: int, d_model: int, timescale: float) -> Tensor:
    rate = torch.tensor([timescale ** (-2 * m / d_model) for m in range(d_model // 2)])
    return torch.cat([(position * rate).sin(), (position * rate).cos()])


def plain_rotation(x: Tensor) -> Tensor:
    """Rotary positions of x (N, H, d_head): neighbouring values are complex numbers, turned."""
    n, _, d_head = x.shape
    pairs = torch.view_as_complex(x.reshape(*x.shape[:2], d_head // 2, 2).contiguous())
    turns = [[i * 10000 ** (-2 * m / d_head) for m in range(d_head // 2)] for i in range(n)]
    turned = pairs * torch.polar(torch.ones(n, d_head // 2), torch.tensor(turns))[:, None]
    return torch.view_as_real(turned).flatten(2)


def plain_two_sided(layer: Attention, x: Tensor) -> Tensor:
    """Attention of one row x (N, D) without padding, one pair of positions at a time."""
    n, d_model = x.shape
    heads, d_head = layer.heads, d_model // layer.heads
    q, k, v = (part.view(n, heads, d_head) for part in layer.qkv(x).split(d_model, dim=1))
    if layer.rotate is not None:
        q, k = plain_rotation(q), plain_rotation(k)
    scores = torch.zeros(heads, n, n)
    for h, i, j in itertools.product(range(heads), range(n), range(n)):
        score = q[i, h] @ k[j, h]
        for term in layer.terms:
            if isinstance(term, TwoSidedPositions):
                sinusoid = plain_sinusoid(i - j, d_model, term.timescale)
                r = term.distance_map(sinusoid).view(heads, d_head)[h]
                score = score + term.content_bias[h, 0] @ k[j, h] + (q[i, h] + term.position_bias[h, 0]) @ r
            elif isinstance(term, LinearPositions):
                distance = abs(i - j) - (0.5 if isinstance(term, TiltedLinearPositions) and j < i else 0)
                score = score - 2 ** (-8 * (h + 1) / heads) * distance * d_head**0.5
        scores[h, i, j] = score / d_head**0.5
    mixed = torch.einsum("hij,jhd->ihd", scores.softmax(-1), v)
    return layer.output(mixed.reshape(n, d_model))


def plain_hidden(model: TransformerLM, tokens: Tensor) -> Tensor:
    """Final hidden states of a row, (N, D)."""
    config, n = model.config, len(tokens)
    x = model.embedding(tokens) * (config.d_model**0.5 if config.scale_embeddings else 1)
    if model.position_embedding is not None:
        x = x + model.position_embedding.weight[:n]
    if config.positions == "sincos":
        places = range(n, 0, -1) if config.as_released else range(n)
        x = x + torch.stack([plain_sinusoid(i, config.d_model, 256) for i in places])
    if model.embedding_norm is not None:
        x = model.embedding_norm(x)
    for block in model.blocks:
        if config.norm == "post":
            x = block.attention_norm(x + plain_two_sided(block.attention, x))
            x = block.feed_forward_norm(x + block.feed_forward(x))
        else:
            x = x + plain_two_sided(block.attention, block.attention_norm(x))
            x = x + block.feed_forward(block.feed_forward_norm(x))
        if block.stack is not None:
            x = x + stack_attention(block.stack.actions(x).softmax(-1)[None])[0] @ x
    x = model.final_norm(x)
    return x if model.output_transform is None else model.output_transform(x)


@pytest.mark.parametrize("variant", VARIANTS, ids=lambda v: "-".join(str(x) for x in v.values()))
def test_masked_model_equals_the_plain_formulation(variant: dict[str, Any]) -> None:
    model = small_model("transformer", objective="masked", **{"positions": "none", **variant})
    skipped = int(model.config.as_released)  # ROOT is not read
    batch = batch_of([4, 7, 2])
    targets = torch.randint(11, batch.tokens.shape, generator=torch.Generator().manual_seed(1))
    with torch.no_grad():
        found = model.forward_parts(dataclasses.replace(batch, targets=targets)).token_logprobs
        for row, length in enumerate(batch.lengths.tolist()):
            hidden = plain_hidden(model, batch.tokens[row, skipped:length])
            weight = model.embedding.weight if model.output is None else model.output.weight
            logits = hidden @ weight.T + (0 if model.output_bias is None else model.output_bias)
            wanted = logits.log_softmax(-1).gather(1, targets[row, skipped:length, None])[:, 0]
            torch.testing.assert_close(found[row, 1:length], wanted[1 - skipped :], rtol=2e-6, atol=1e-5)
            assert (found[row, length:] == 0).all()
            assert found[row, 0] == 0


@pytest.mark.parametrize("objective", ["causal", "masked"])
def test_targets_and_scored_positions(objective: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    model = small_model("transformer", objective=objective)
    batch = batch_of([5, 3])
    scored = torch.zeros_like(batch.tokens, dtype=torch.bool)
    scored[0, 2:4] = scored[1, 3] = True
    targets = (batch.tokens + 1) % 11
    given = dataclasses.replace(batch, targets=targets, scored=scored)
    with torch.no_grad():
        parts = model.forward_parts(given)
        sums = model.loss(given)
        changed = dataclasses.replace(given, targets=torch.where(scored, targets, 0))
        again = model.forward_parts(changed)
    assert ((parts.token_logprobs != 0) == scored).all()
    monkeypatch.setattr(TransformerLM, "_selects", lambda *_: False)  # as of few tokens on a GPU
    with torch.no_grad():
        torch.testing.assert_close(model.forward_parts(given).token_logprobs, parts.token_logprobs)
    assert int(sums.counts["tokens"]) == 3
    assert torch.equal(parts.token_logprobs, again.token_logprobs)
    torch.testing.assert_close(sums.sums["token_nll"], -parts.token_logprobs.sum())


def test_a_causal_model_predicts_targets_from_the_tokens_before() -> None:
    model = small_model("transformer")
    batch = batch_of([5])
    targets = torch.randint(11, batch.tokens.shape, generator=torch.Generator().manual_seed(1))
    with torch.no_grad():
        found = model.forward_parts(dataclasses.replace(batch, targets=targets)).token_logprobs
        state = model.start(1, 7)
        for k in range(6):
            model.advance(state, batch.tokens[:, k], torch.zeros(1, k + 1, dtype=torch.int16))
            following = model.next_token_logprobs(state)
            torch.testing.assert_close(following[0, targets[0, k + 1]], found[0, k + 1], rtol=2e-6, atol=1e-5)


def test_a_masked_model_looks_at_both_sides_and_at_its_own_position() -> None:
    model = small_model("transformer", objective="masked")
    batch = batch_of([6])
    for changed in (1, 3, 6):
        tokens = batch.tokens.clone()
        tokens[0, changed] = (tokens[0, changed] + 1) % 11
        other = dataclasses.replace(batch, tokens=tokens, targets=batch.tokens)
        with torch.no_grad():
            before = model.forward_parts(dataclasses.replace(batch, targets=batch.tokens)).token_logprobs
            assert (model.forward_parts(other).token_logprobs != before)[0, 1:].all()


def test_batches_keep_targets_and_scored_positions() -> None:
    batch = batch_of([2])
    assert batch.to("cpu").targets is None
    given = dataclasses.replace(batch, targets=batch.tokens, scored=batch.predicted()).to("cpu")
    assert torch.equal(given.targets, batch.tokens)
    assert torch.equal(given.scored, batch.predicted())


def test_masked_models_refuse_what_needs_a_next_token() -> None:
    model = small_model("transformer", objective="masked")
    for ask in (lambda: model.start(1, 4), lambda: model.following_logprobs(batch_of([3]))):
        with pytest.raises(PdtoolsError, match="masked language model"):
            ask()
    with pytest.raises(PdtoolsError, match="causal objective"):
        small_model("pushdown", objective="masked")
    with pytest.raises(PdtoolsError, match="objective must be one of causal, masked"):
        small_model("transformer", objective="both")


@pytest.mark.parametrize("objective", ["causal", "masked"])
def test_where_nothing_is_scored_the_loss_is_zero_with_gradients_of_zero(objective: Any) -> None:
    model = small_model("transformer", objective=objective)
    batch = batch_of([3])
    sums = model.loss(dataclasses.replace(batch, scored=torch.zeros_like(batch.tokens, dtype=torch.bool)))
    sums.sums["token_nll"].backward()
    assert float(sums.sums["token_nll"].detach()) == 0
    assert model.embedding.weight.grad is not None
    assert not bool(model.embedding.weight.grad.any())
