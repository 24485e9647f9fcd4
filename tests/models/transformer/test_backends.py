"""The table of backends: which of them takes what, and that each computes what its parts do, to the bit."""

from __future__ import annotations

import itertools
import math
import random
from collections.abc import Callable, Mapping
from typing import Any, ClassVar

import pytest
import torch
import torch.nn.functional as F
from model_oracle import random_row, small_model
from torch import Tensor

from pdtools.models import collate, tape_from_attachments
from pdtools.models.kernels import fused_works
from pdtools.models.kernels.block_attention import IN_C, attention_in_blocks, native_block_attention
from pdtools.models.kernels.grammar_attention import grammar_attention, visible_keys
from pdtools.models.kernels.terms import FORMS, Terms
from pdtools.models.transformer.backends import AttentionWork, attend, backend_of
from pdtools.models.transformer.block import TiltedLinearPositions, TwoSidedPositions
from pdtools.models.transformer.model import TransformerLM
from pdtools.models.transformer.score_terms import (
    DepthPositions,
    DepthScores,
    LinearPositions,
    RelativePositions,
    ScoreInputs,
    ScoreTerm,
    StackDistances,
)
from pdtools.models.transformer.tape import open_tokens_after

HEADS, D, DEPTHS = 2, 32, 4
KINDS: Mapping[str, Callable[[], list[ScoreTerm]]] = {
    "none": lambda: [],
    "relative": lambda: [RelativePositions(D, HEADS)],
    "two-sided": lambda: [TwoSidedPositions(D, HEADS)],
    "alibi": lambda: [LinearPositions(HEADS)],
    "tilted": lambda: [TiltedLinearPositions(HEADS)],
    "twice": lambda: [LinearPositions(HEADS), LinearPositions(HEADS)],
    "depths": lambda: [RelativePositions(D, HEADS), DepthScores(D, HEADS, DEPTHS, "key")],
    "distances": lambda: [DepthScores(D, HEADS, DEPTHS, "key"), StackDistances(HEADS)],
    "stack": lambda: [DepthPositions(D, HEADS)],
}


def work_of(
    kind: str, n: int = 20, *, mask: str = "causal", dropout: float = 0.0, dtype: torch.dtype = torch.float32
) -> AttentionWork:
    torch.manual_seed(n)
    terms = [term.to(dtype) for term in KINDS[kind]()]
    for term in terms:
        for parameter in term.parameters():
            torch.nn.init.normal_(parameter)
    q, k, v = torch.randn(2, n, 3, HEADS, D // HEADS, dtype=dtype).requires_grad_().permute(2, 0, 3, 1, 4)
    cells = torch.ones(n, n, dtype=torch.bool).tril()
    tape = torch.randint(DEPTHS, (2, 1, n, n), dtype=torch.uint8)
    masks: Mapping[str, Mapping[str, Any]] = {
        "causal": {"causal": cells},
        "padding": {"causal": None, "visible": (torch.arange(n) < n - 2).expand(2, 1, 1, n)},
        "constituents": {"causal": None, "innermost": ((torch.arange(n) // 7) * 7 - 1).int().expand(2, -1)},
        "stack": {
            "causal": None,
            "on_stack": visible_keys(
                torch.randint(n, (2, n)), torch.rand(2, n) < 0.3, torch.randint(4, (2, n))
            ),
        },
    }
    inputs = ScoreInputs(tape=tape, stack_distance=open_tokens_after(tape, cells), **masks[mask])
    return AttentionWork(q, k, v, terms, torch.empty(0), inputs, dropout)


def mixed_with_gradients(work: AttentionWork, mixed: Tensor) -> list[Tensor]:
    learned = [work.q, work.k, work.v, *(p for term in work.terms for p in term.parameters())]
    return [mixed, *torch.autograd.grad(mixed.sin().sum(), learned)]


@pytest.mark.parametrize(
    ("kind", "more", "expected"),
    [
        ("none", {}, "torch"),
        ("none", {"n": 128}, "C"),
        ("none", {"dropout": 0.1}, "C"),
        ("none", {"mask": "padding"}, "torch"),
        ("none", {"mask": "constituents"}, "C"),
        ("none", {"mask": "constituents", "dtype": torch.bfloat16}, "torch"),
        ("relative", {}, "C"),
        ("relative", {"dtype": torch.float64}, "C"),
        ("relative", {"dtype": torch.bfloat16}, "torch"),
        ("two-sided", {"mask": "padding"}, "torch"),
        ("tilted", {}, "torch"),
        ("twice", {}, "torch"),
        ("depths", {"dropout": 0.1}, "C"),
        ("distances", {}, "C"),
        ("stack", {"mask": "stack"}, "keys on the stack"),
    ],
)
def test_which_backend_takes_what(kind: str, more: dict[str, Any], expected: str) -> None:
    if IN_C.library(torch.float32) is None:
        pytest.skip("no C compiler")
    work = work_of(kind, **more)
    assert backend_of(work).name == expected
    with torch.no_grad():  # C is for training
        scoring = "torch" if expected == "C" and kind == "none" and more == {"n": 128} else expected
        assert backend_of(work).name == ("blocks by torch" if scoring == "C" else scoring)


@pytest.mark.parametrize(
    ("kind", "expected"),
    [
        ("none", False),
        ("relative", True),
        ("alibi", True),
        ("depths", True),
        ("distances", False),
        ("tilted", False),
        ("twice", False),
        ("stack", False),
    ],
)
def test_what_triton_takes(kind: str, expected: bool) -> None:
    work = work_of(kind)
    assert (bool(work.terms) and work.is_made_of(fused_works.TAKES)) == expected


@pytest.mark.parametrize("kind", [kind for kind in KINDS if kind not in ("stack",)])
def test_terms_give_what_they_say(kind: str) -> None:
    work = work_of(kind)
    for term in work.terms:
        if term.form:
            given = term.tensors(work.q, work.k, work.key_map, work.inputs)
            assert set(given) == set(term.form) <= set(FORMS) == set(Terms._fields)


@pytest.mark.parametrize("kind", ["relative", "alibi", "depths", "distances"])
@pytest.mark.parametrize("dropout", [0.0, 0.3])
@pytest.mark.parametrize("how", ["C", "blocks by torch", "torch"])
def test_a_backend_computes_what_its_kernel_does(
    kind: str, dropout: float, how: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    if how == "C" and IN_C.library(torch.float32) is None:
        pytest.skip("no C compiler")
    if how != "C":
        monkeypatch.setattr("pdtools.models.kernels.block_attention.native_takes", lambda *_: False)
    work = work_of(kind, dropout=dropout, dtype=torch.bfloat16 if how == "torch" else torch.float32)
    assert backend_of(work).name == how
    q, k, v, inputs = work.q, work.k, work.v, work.inputs
    torch.manual_seed(3)
    arguments = q, k, v, work.terms, work.key_map, inputs, dropout
    ours = mixed_with_gradients(work, attend(*arguments))

    parts = [term.tensors(q, k, work.key_map, inputs) for term in work.terms]
    given = {name: tensor for part in parts for name, tensor in part.items()}
    torch.manual_seed(3)
    if how == "torch":
        bias = sum(term(q, k, work.key_map, inputs) for term in work.terms) / math.sqrt(q.shape[3])
        bias = bias.masked_fill(~inputs.causal, -math.inf).to(q.dtype)
        mixed = F.scaled_dot_product_attention(q, k, v, attn_mask=bias, dropout_p=dropout)
    elif how == "C":
        if "alibi" in given:
            distance = (torch.arange(20)[:, None] - torch.arange(20)).abs()
            given["bias"] = -given.pop("alibi")[:, None, None] * distance * math.sqrt(q.shape[3])
        mixed = native_block_attention(q, k, v, Terms(**given), dropout)
    else:
        mixed = attention_in_blocks(q, k, v, Terms(**given), dropout, keep_weights=True)
    for one, other in zip(ours, mixed_with_gradients(work, mixed), strict=True):
        assert torch.equal(one, other)


@pytest.mark.parametrize("how", ["C", "blocks by torch", "torch", "keys on the stack"])
def test_what_is_dropped_is_another_in_each_pass_sentence_and_head(
    how: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of rows that are alike in all else."""
    if how == "C" and IN_C.library(torch.float32) is None:
        pytest.skip("no C compiler")
    if how != "C":
        monkeypatch.setattr("pdtools.models.kernels.block_attention.native_takes", lambda *_: False)
    stack = how == "keys on the stack"
    work = work_of(
        "stack" if stack else "relative",
        32,
        mask="stack" if stack else "causal",
        dropout=0.5,
        dtype=torch.bfloat16 if how == "torch" else torch.float32,
    )
    for parameter in (p for term in work.terms for p in term.parameters()):
        torch.nn.init.zeros_(parameter)
    work.q, work.k, work.v = (x[:1, :1].expand_as(x).contiguous() for x in (work.q, work.k, work.v))
    assert backend_of(work).name == how
    passes = torch.stack([backend_of(work).attend(work).detach() for _ in range(2)])  # (2, B, H, N, d)
    rows = passes[..., 16:, :].flatten(0, 2)
    for one, other in itertools.combinations(rows, 2):
        assert float((one == other).all(1).float().mean()) < 0.5  # few keys on a stack may be dropped alike


@pytest.mark.parametrize("dropout", [0.0, 0.3])
def test_keys_on_the_stack(dropout: float) -> None:
    work = work_of("stack", mask="stack", dropout=dropout)
    (term,) = work.terms
    assert isinstance(term, DepthPositions)
    torch.manual_seed(3)
    arguments = work.q, work.k, work.v, work.terms, work.key_map, work.inputs, dropout
    ours = mixed_with_gradients(work, attend(*arguments))
    torch.manual_seed(3)
    visible = work.inputs.on_stack
    assert visible is not None
    learned = term.vectors(20), term.content_bias, term.position_bias
    mixed = grammar_attention(work.q, work.k, work.v, visible, learned, dropout)
    for one, other in zip(ours, mixed_with_gradients(work, mixed), strict=True):
        assert torch.equal(one, other)


class OwnTerm(ScoreTerm):
    """A learned bonus for tokens that are open, which no kernel knows."""

    name = "open"
    reads: ClassVar = {"stack_distance": lambda tape, cells: (tape == 0).to(torch.int16)}

    def __init__(self) -> None:
        super().__init__()
        self.bonus = torch.nn.Parameter(torch.tensor(1.5))

    def forward(self, q: Tensor, k: Tensor, key_map: Tensor, inputs: ScoreInputs) -> Tensor:
        assert inputs.stack_distance is not None
        return self.bonus * inputs.stack_distance


def test_a_term_that_only_its_class_knows() -> None:
    torch.manual_seed(5)
    config = small_model("pushdown", d_model=D, heads=HEADS, positions="alibi").config
    terms = {layer: [OwnTerm()] for layer in range(config.layers)}
    model = TransformerLM(config, extra_terms=terms, depths=DEPTHS).eval()
    tokens, attach = random_row(9, config.vocab_size, random.Random(1))
    batch = collate([(tokens, attach)], 0)
    logprobs = model.forward_parts(batch).token_logprobs[0]
    assert float(torch.autograd.grad(logprobs.sum(), terms[0][0].bonus)[0]) != 0
    # Step by step, from the cache, it is computed too.
    tape = tape_from_attachments(batch.attach)  # (1, N, N)
    state = model.start(1, len(tokens))
    for k, token in enumerate(tokens[:-1]):
        model.advance(state, torch.tensor([token]), tape[:, k, : k + 1])
        found = model.next_token_logprobs(state)[0, tokens[k + 1]]
        torch.testing.assert_close(found, logprobs[k + 1].detach())
