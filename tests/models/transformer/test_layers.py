"""Attention and attachment head, against the paper's figures 7 and 8: values and gradients."""

from __future__ import annotations

import random

import pytest
import torch
from model_oracle import plain_attention, plain_head, random_attach
from torch import Tensor, nn

import pdtools.models.kernels.block_attention as block_attention_module
from pdtools.models import legal_attachments, tape_from_attachments
from pdtools.models.kernels.block_attention import IN_C, attention_in_c
from pdtools.models.kernels.dropout import Dropout, multipliers, random_levels
from pdtools.models.transformer import backends
from pdtools.models.transformer.attachment import AttachmentHead
from pdtools.models.transformer.backends import NATIVE_LENGTH, attend
from pdtools.models.transformer.block import Attention
from pdtools.models.transformer.score_terms import (
    DepthScores,
    LinearPositions,
    RelativePositions,
    ScoreInputs,
    ScoreTerm,
    StackDistances,
)
from pdtools.models.transformer.tape import open_tokens_after

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
    "alibi": lambda: [LinearPositions(HEADS), DepthScores(D, HEADS, DEPTHS, "key")],
    "depths": lambda: [DepthScores(D, HEADS, DEPTHS, "key")],
    "hidden depths": lambda: [DepthScores(D, HEADS, DEPTHS, "hidden")],
    "both": lambda: [RelativePositions(D, HEADS), DepthScores(D, HEADS, DEPTHS, "key")],
    "stack distances": lambda: [
        LinearPositions(HEADS),
        DepthScores(D, HEADS, DEPTHS, "key"),
        StackDistances(HEADS),
    ],
}


@pytest.fixture
def how(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    """How attention is computed: in C, in blocks by torch, or by torch at once, as on other devices."""
    kind = str(request.param)
    if kind != "in C":
        monkeypatch.setattr(block_attention_module, "native_takes", lambda *_: False)
    elif IN_C.library(torch.float64) is None:
        pytest.skip("no C compiler")
    if kind == "at once":
        monkeypatch.setattr(backends, "BACKENDS", (backends.BY_TORCH,))
    return kind


in_each_way = pytest.mark.parametrize("how", ["in C", "in blocks", "at once"], indirect=True)
in_c_and_in_blocks = pytest.mark.parametrize("how", ["in C", "in blocks"], indirect=True)


@pytest.mark.parametrize("kind", TERMS)
@in_each_way
def test_attention_equals_figure_7(kind: str, how: str) -> None:
    terms: list[ScoreTerm] = TERMS[kind]()
    layer = Attention(D, HEADS, 0.0, 0.0, terms)
    randomize(layer)
    tape = random_tape().clamp(max=DEPTHS - 1).long()
    x = torch.randn(len(tape), N, D, dtype=torch.float64, requires_grad=True)
    causal = torch.ones(N, N, dtype=torch.bool).tril()
    above = open_tokens_after(tape, causal)[:, None]
    inputs = ScoreInputs(causal=causal, tape=tape[:, None].to(torch.uint8), stack_distance=above)
    ours = layer(x, inputs)
    assert_same_with_gradients(layer, x, ours, plain_attention(layer, x, tape))


def masked_attention(
    qkv: Tensor, terms: nn.ModuleList, key_map: Tensor, inputs: ScoreInputs, kept: Tensor | None = None
) -> Tensor:
    """All scores as one tensor; ``kept`` is what dropout multiplies the weights by."""
    q, k, v = qkv.permute(2, 0, 3, 1, 4)
    assert inputs.causal is not None
    scores = q @ k.transpose(2, 3) + sum(term(q, k, key_map, inputs) for term in terms)
    weights = (scores / q.shape[3] ** 0.5).masked_fill(~inputs.causal, float("-inf")).softmax(-1)
    return (weights if kept is None else weights * kept) @ v


def layer_inputs(n: int) -> tuple[Tensor, ScoreInputs]:
    """Queries, keys and values as a layer makes them: heads are strided, all three side by side."""
    rng = random.Random(n)
    attach = torch.tensor([[0, *random_attach(n - 1, rng)[1:-1]] for _ in range(3)])[:, :n]
    tape = tape_from_attachments(attach).clamp(max=DEPTHS - 1).to(torch.uint8)
    causal = torch.ones(n, n, dtype=torch.bool).tril()
    qkv = torch.randn(3, n, 3, HEADS, D // HEADS, dtype=torch.float64, requires_grad=True)
    above = open_tokens_after(tape, causal)[:, None]
    return qkv, ScoreInputs(causal=causal, tape=tape[:, None], stack_distance=above)


@pytest.mark.parametrize("kind", [kind for kind in TERMS if kind != "none"])
@pytest.mark.parametrize("n", [1, 17, 70])
@pytest.mark.parametrize(
    ("how", "cells", "kept"),
    [("in C", 0, 0), *(("in blocks", cells, kept) for cells in (1, 1 << 17) for kept in (0, 1 << 17))],
    indirect=["how"],
)
def test_attention_in_blocks_equals_masked_attention(
    kind: str, n: int, how: str, cells: int, kept: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(block_attention_module, "BLOCK_CELLS", cells)  # sentences one by one, or together
    monkeypatch.setattr(backends, "KEPT_LENGTH", kept)
    terms = nn.ModuleList(TERMS[kind]())
    key_map = nn.Linear(D, D, bias=False)
    module = randomize(nn.ModuleList([terms, *([key_map] if "hidden" in kind else [])]))
    qkv, inputs = layer_inputs(n)
    ours = attend(*qkv.permute(2, 0, 3, 1, 4), list(terms), key_map.weight, inputs)  # type: ignore[arg-type]
    assert_same_with_gradients(module, qkv, ours, masked_attention(qkv, terms, key_map.weight, inputs))


@pytest.mark.parametrize("how", ["in C"], indirect=True)
@pytest.mark.parametrize("n", [NATIVE_LENGTH - 1, NATIVE_LENGTH])
def test_long_rows_without_terms_are_computed_in_c(n: int, how: str, monkeypatch: pytest.MonkeyPatch) -> None:
    used = []
    monkeypatch.setattr(
        block_attention_module,
        "attention_in_c",
        lambda q, *rest: used.append(q.shape[2]) or attention_in_c(q, *rest),
    )
    qkv, inputs = layer_inputs(n)
    none, key_map = nn.ModuleList(), torch.empty(0)
    q, k, v = qkv.permute(2, 0, 3, 1, 4)
    ours = attend(q, k, v, [], key_map, inputs)
    assert used == [n] * (n >= NATIVE_LENGTH)
    assert_same_with_gradients(none, qkv, ours, masked_attention(qkv, none, key_map, inputs))
    with torch.no_grad():
        torch.testing.assert_close(attend(q, k, v, [], key_map, inputs), ours)
    with torch.autocast("cpu"):
        attend(q.float(), k.float(), v.float(), [], key_map, inputs)
    assert len(used) == (n >= NATIVE_LENGTH)


@pytest.mark.parametrize("kind", ["none", "both", "stack distances"])
@pytest.mark.parametrize(
    ("how", "kept"), [("in C", 0), ("in blocks", 0), ("in blocks", 1 << 17)], indirect=["how"]
)
def test_attention_in_blocks_with_dropout(
    kind: str, how: str, kept: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    n, d_head, dropout = 40, D // HEADS, 0.25
    monkeypatch.setattr(block_attention_module, "BLOCK_CELLS", 1)
    monkeypatch.setattr(backends, "KEPT_LENGTH", kept)
    terms = nn.ModuleList(TERMS[kind]())
    randomize(terms)
    qkv, inputs = layer_inputs(n)
    key_map = torch.empty(0)

    def ours(v: Tensor) -> Tensor:
        torch.manual_seed(4)
        q, k, _ = qkv.permute(2, 0, 3, 1, 4)
        return attend(q, k, v, list(terms), key_map, inputs, dropout)  # type: ignore[arg-type]

    # With unit vectors as values, some at a time, the output is the weights that dropout left.
    unit = torch.eye(n, dtype=torch.float64).expand(3, HEADS, n, n)
    weights = torch.cat([ours(some).detach() for some in unit.split(d_head, dim=3)], dim=3)
    is_kept = weights > 0
    below = torch.ones(n, n, dtype=torch.bool).tril()
    assert not bool(is_kept[..., ~below].any())
    assert abs(float(is_kept[..., below].double().mean()) - (1 - dropout)) < 0.02
    factors = is_kept / (1 - dropout)
    plain = masked_attention(qkv, terms, key_map, inputs, factors)
    assert_same_with_gradients(terms, qkv, ours(qkv[:, :, 2].transpose(1, 2)), plain)


@in_c_and_in_blocks
def test_dropout_in_blocks_is_the_same_when_the_threads_change(
    how: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(block_attention_module, "BLOCK_CELLS", HEADS * 32 * 40)  # a sentence a thread
    qkv, inputs = layer_inputs(40)
    gradients = []
    for threads in (1, 3):
        torch.manual_seed(4)
        monkeypatch.setattr(torch, "get_num_threads", lambda: 1)
        mixed = attend(*qkv.permute(2, 0, 3, 1, 4), [], torch.empty(0), inputs, 0.3)  # type: ignore[arg-type]
        monkeypatch.setattr(torch, "get_num_threads", lambda threads=threads: threads)
        gradients += torch.autograd.grad(mixed.sum(), qkv)
    assert torch.equal(*gradients)


@in_c_and_in_blocks
def test_attention_in_blocks_under_mixed_precision(how: str) -> None:
    terms = [RelativePositions(32, HEADS), DepthScores(32, HEADS, DEPTHS, "key"), StackDistances(HEADS)]
    layer = Attention(32, HEADS, 0.0, 0.0, terms)
    randomize(layer).float()
    n = 21
    inputs = layer_inputs(n)[1]
    x = torch.randn(3, n, 32).mul(0.1).requires_grad_()
    plain = layer(x, inputs)
    with torch.autocast("cpu", dtype=torch.bfloat16):
        ours = layer(x, inputs)
    assert ours.dtype == torch.bfloat16
    weight = torch.randn_like(plain)
    gradients = (
        torch.autograd.grad((y.float() * weight).sum(), [x, *layer.parameters()]) for y in (ours, plain)
    )
    names = ["output", "x", *(name for name, _ in layer.named_parameters())]
    pairs = zip(names, (ours.float(), *next(gradients)), (plain, *next(gradients)), strict=True)
    for name, one, other in pairs:
        # A slope's gradient is one sum over all pairs of positions, of numbers that cancel.
        within = 0.06 if name.endswith("log_slopes") else 0.03
        assert (one - other).norm().item() < within * other.norm().item(), name


def test_dropout() -> None:
    layer = Dropout(0.1).train()
    x = torch.rand(7, 11, 129, dtype=torch.float64).add(1).requires_grad_()
    torch.manual_seed(0)
    out = layer(x)
    assert not torch.equal(out, layer(x))
    kept = out != 0
    assert abs(float(kept.double().mean()) - 0.9) < 0.01
    torch.testing.assert_close(out[kept], x[kept] / (1 - round(0.1 * 2**16) / 2**16))
    (grad,) = torch.autograd.grad(out.sum(), x)
    torch.testing.assert_close(grad * x, out)
    torch.manual_seed(0)
    assert torch.equal(layer(x), out)
    assert torch.equal(layer.eval()(x), x)
    assert torch.equal(Dropout(0.0).train()(x), x)


@pytest.mark.parametrize("probability", [0.001, 0.25, 0.5, 0.9, 0.999999])
def test_dropout_keeps_the_mean(probability: float) -> None:
    torch.manual_seed(1)
    levels = random_levels((1000, 999))
    factors = multipliers(levels, probability, torch.float64)
    assert len(factors.unique()) == 2
    assert float((factors == 0).double().mean()) == pytest.approx(probability, abs=2e-3)
    every = torch.arange(-(2**15), 2**15, dtype=torch.int16)  # exactly, over all levels
    assert float(multipliers(every, probability, torch.float64).mean()) == pytest.approx(1)


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
