"""Attention and attachment head, against the paper's figures 7 and 8: values and gradients."""

from __future__ import annotations

import random

import pytest
import torch
from model_oracle import plain_attention, plain_head, random_attach
from torch import Tensor, nn

import pdtools.models.depth_attention as depth_attention_module
from pdtools.models import legal_attachments, tape_from_attachments
from pdtools.models.attachment import AttachmentHead
from pdtools.models.attention import Attention, DepthScores, RelativePositions, ScoreInputs, ScoreTerm
from pdtools.models.depth_attention import depth_attention

N, D, HEADS, DEPTHS = 9, 8, 2, 4


def random_tape(batch: int = 3) -> Tensor:
    rng = random.Random(1)
    tape = tape_from_attachments(torch.tensor([random_attach(N - 2, rng) for _ in range(batch)]))
    assert int(tape.max()) >= DEPTHS  # some are deeper than the table
    return tape


def randomize(module: nn.Module) -> nn.Module:
    torch.manual_seed(2)
    for parameter in module.parameters():
        nn.init.normal_(parameter)
    return module.double()


def assert_same_with_gradients(module: nn.Module, x: Tensor, ours: Tensor, plain: Tensor) -> None:
    finite = plain.isfinite()
    assert torch.equal(finite, ours.isfinite())
    weight = torch.randn(plain.shape, dtype=plain.dtype)
    inputs = [x, *module.parameters()]
    torch.testing.assert_close(ours, plain)
    for one, other in zip(
        torch.autograd.grad((ours * weight)[finite].sum(), inputs, allow_unused=True),
        torch.autograd.grad((plain * weight)[finite].sum(), inputs, allow_unused=True),
        strict=True,
    ):
        assert one is not None
        torch.testing.assert_close(one, other)


TERMS = {
    "none": lambda: [],
    "relative": lambda: [RelativePositions(D, HEADS)],
    "depths": lambda: [DepthScores(D, HEADS, DEPTHS, "key")],
    "hidden depths": lambda: [DepthScores(D, HEADS, DEPTHS, "hidden")],
    "both": lambda: [RelativePositions(D, HEADS), DepthScores(D, HEADS, DEPTHS, "key")],
}


@pytest.mark.parametrize("kind", TERMS)
def test_attention_equals_figure_7(kind: str) -> None:
    terms: list[ScoreTerm] = TERMS[kind]()
    layer = Attention(D, HEADS, 0.0, 0.0, terms)
    randomize(layer)
    tape = random_tape().clamp(max=DEPTHS - 1).long()
    x = torch.randn(len(tape), N, D, dtype=torch.float64, requires_grad=True)
    causal = torch.ones(N, N, dtype=torch.bool).tril()
    ours = layer(x, ScoreInputs(causal=causal, tape=tape[:, None]))
    assert_same_with_gradients(layer, x, ours, plain_attention(layer, x, tape))


@pytest.mark.parametrize("n", [1, 2, 31, 32, 33, 70])
@pytest.mark.parametrize("cells", [1, 1 << 17])
def test_attention_in_blocks_equals_masked_attention(
    n: int, cells: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(depth_attention_module, "BLOCK_CELLS", cells)  # sentences one by one, or together
    rng = random.Random(n)
    attach = torch.tensor([[0, *random_attach(n - 1, rng)[1:-1]] for _ in range(3)])[:, :n]
    tape = tape_from_attachments(attach).clamp(max=DEPTHS - 1).long()
    term = DepthScores(D, HEADS, DEPTHS, "key")
    randomize(term)
    # As a layer makes them: heads are strided.
    qkv = torch.randn(3, n, 3, HEADS, D // HEADS, dtype=torch.float64, requires_grad=True)
    q, k, v = qkv.permute(2, 0, 3, 1, 4)
    causal = torch.ones(n, n, dtype=torch.bool).tril()
    bias = term(q, k, torch.empty(0), ScoreInputs(causal=causal, tape=tape[:, None])) / (D // HEADS) ** 0.5
    masked = torch.nn.functional.scaled_dot_product_attention(
        q, k, v, attn_mask=bias.masked_fill(~causal, float("-inf"))
    )
    assert_same_with_gradients(term, qkv, depth_attention(q, k, v, term.embedding.weight, tape), masked)


@pytest.mark.parametrize("depths", [DEPTHS, None])
def test_attachment_head_equals_figure_8(depths: int | None) -> None:
    head = AttachmentHead(D, depths)
    randomize(head)
    tape = random_tape()
    legal = legal_attachments(tape)
    clamped = tape.clamp(max=DEPTHS - 1).long()
    x = torch.randn(len(tape), N, D, dtype=torch.float64, requires_grad=True)
    embedding = torch.randn(len(tape), N, D, dtype=torch.float64)
    arrival = None if depths is None else clamped.diagonal(dim1=1, dim2=2)
    ours = head.logprobs(x, arrival, embedding, legal)
    plain = plain_head(head, x[:, :-1], clamped[:, :-1, :-1], embedding[:, 1:], legal[:, 1:])
    assert_same_with_gradients(head, x, ours[:, 1:], plain)
    torch.testing.assert_close(ours.exp().sum(-1), torch.ones(len(tape), N, dtype=torch.float64))
    assert bool((ours[:, 0, 0] == 0).all())
