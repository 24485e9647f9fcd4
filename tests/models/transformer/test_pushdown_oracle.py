"""Whole Pushdown LMs against the paper, written plainly: teacher forcing, step by step, and the search."""

from __future__ import annotations

import random
from typing import Any

import numpy as np
import pytest
import torch
from model_oracle import EOS, PAD, ROOT, derivations, random_row, small_model
from pushdown_oracle import PlainPushdown

from pdtools.models import StackState, TransformerLM, collate
from pdtools.search import beam_search
from pdtools.search.options import SearchOptions

Row = tuple[list[int], list[int]]

TABLES = [2, 3, 64]
VARIANTS: dict[str, dict[str, Any]] = {
    "relative": {"positions": "relative"},
    "alibi": {"positions": "alibi", "heads": 1, "layers": 1},
    "learned": {"positions": "learned", "tie_embeddings": False, "layers": 3, "pushdown_layers": "last 1"},
    "none": {"positions": "none", "depth_space": "hidden", "heads": 4},
    "distances": {"positions": "alibi", "stack_distances": True},
    "distances in attention": {"stack_distances": True, "distances_in": "attention"},
    "distances in the head": {"stack_distances": True, "distances_in": "head", "head_slope": 0.5},
    "prefix": {"layers": 3, "pushdown_layers": "last 1", "head_reads": "prefix"},
}
each_model = pytest.mark.parametrize(
    ("depths", "variant"),
    [
        (1, "distances"),
        (2, "prefix"),
        *((depths, variant) for depths in TABLES for variant in VARIANTS if variant != "prefix"),
    ],
)


def pushdown(depths: int, variant: str) -> TransformerLM:
    """With weights so large that a wrong row of a depth table shows in every score."""
    settings = {"d_model": 8, "heads": 2, "d_ff": 12, "layers": 2, "max_length": 80, **VARIANTS[variant]}
    model = small_model("pushdown", seed=depths, depths=depths, **settings).double()
    with torch.no_grad():
        for parameter in model.parameters():
            parameter *= 2
    return model


def rows_of(depths: int) -> list[Row]:
    """Random derivations, and a tape that is deeper than the table by two."""
    rng = random.Random(depths)
    deep = depths + 2
    left_branching = [0, 1, *range(1, deep + 1), deep + 2, 0]
    tokens = [ROOT, *(rng.randrange(EOS + 1, 11) for _ in range(deep + 2)), EOS]
    return [*(random_row(n, 11, rng) for n in (0, 1, 7, 9)), (tokens, left_branching)]


def assert_close(found: object, expected: object) -> None:
    np.testing.assert_allclose(found, expected, rtol=2e-6, atol=2e-5)  # log-probabilities are float32


@each_model
def test_teacher_forcing_equals_the_paper(depths: int, variant: str) -> None:
    model, rows = pushdown(depths, variant), rows_of(depths)
    plain = PlainPushdown(model)
    with torch.no_grad():
        found = model.forward_parts(collate(rows, PAD))
    for i, (tokens, attach) in enumerate(rows):
        of_tokens, of_attachments = plain.logprobs(tokens, attach)
        assert_close(found.token_logprobs[i, : len(tokens)], of_tokens)
        assert_close(found.attach_logprobs[i, : len(tokens)], of_attachments)


@each_model
def test_reading_token_by_token_equals_the_paper(depths: int, variant: str) -> None:
    model, (tokens, attach) = pushdown(depths, variant), rows_of(depths)[-1]
    of_tokens, of_attachments = PlainPushdown(model).logprobs(tokens, attach)
    state, stack = model.start(1, len(tokens)), StackState.start(1, len(tokens))
    model.advance(state, torch.tensor(tokens[:1]), stack.tape_row())
    for k in range(1, len(tokens)):
        token, target = torch.tensor([tokens[k]]), torch.tensor([attach[k]])
        assert_close(model.token_logprobs(state, token)[0], of_tokens[k])
        if k < len(tokens) - 1:
            assert_close(model.attach_logprobs(state, token, stack.legal())[0, attach[k]], of_attachments[k])
            stack.push(target)
            model.advance(state, token, stack.tape_row())


@each_model
def test_a_search_that_holds_everything_equals_the_paper(depths: int, variant: str) -> None:
    model, n = pushdown(depths, variant), 5
    strings = [random_row(n, 11, random.Random(seed))[0] for seed in range(2)]
    plain = PlainPushdown(model)
    results = beam_search(
        model, [np.array(tokens, np.int32) for tokens in strings], search=SearchOptions(beam=50), k_best=50
    )
    for tokens, found in zip(strings, results, strict=True):
        joints = {}
        prefixes: list[dict[tuple[int, ...], float]] = [{} for _ in tokens]  # histories, each counted once
        for attach in derivations(n):
            of_tokens, of_attachments = plain.logprobs(tokens, attach)
            joints[tuple(attach)] = sum(of_tokens) + sum(of_attachments)
            for t in range(len(tokens)):
                prefixes[t][tuple(attach[:t])] = sum(of_tokens[: t + 1]) + sum(of_attachments[:t])
        assert len(found.derivations) == len(joints) == 42
        for score, attach_found in found.derivations:
            assert_close(score, joints[tuple(attach_found.tolist())])
        assert_close(found.prefix_logprobs, [np.logaddexp.reduce(list(p.values())) for p in prefixes])
