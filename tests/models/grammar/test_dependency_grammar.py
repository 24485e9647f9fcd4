"""Dependency Transformer Grammars: against enumeration, the specification's numbers, and a stack kept by
hand."""

from __future__ import annotations

import copy
import itertools
import math
from typing import Any

import numpy as np
import pytest
import torch
from arc_oracle import (
    arc_model,
    heads_by_hand,
    is_projective,
    positions_by_hand,
    projective_trees,
    sequences,
)
from enumeration import enumerate_derivations

from pdtools.errors import PdtoolsError
from pdtools.models.base import TokenParts
from pdtools.models.grammar.batch import TransitionBatch
from pdtools.models.grammar.model import GrammarLM
from pdtools.models.grammar.transition_derivations import TransitionKind
from pdtools.models.kernels.grammar_attention import NEAREST
from pdtools.search.sampling import sample
from pdtools.trees import Graph
from pdtools.trees.arc_standard import heads_of, static_oracle


def rows_of(model: GrammarLM, ids: list[int]) -> tuple[list[float], list[tuple[np.ndarray, object]]]:
    """Log joints and rows of all derivations of a string."""
    joints = enumerate_derivations(model, ids).joints
    rows = [(np.array(ids, np.int32), model.read_derivation(np.array(each))) for _, each in joints]
    return [score for score, _ in joints], rows


def test_probabilities_where_all_that_is_allowed_is_as_likely() -> None:
    model = arc_model(words=1, zero=True)
    wanted = [1 / 2, 1 / 6, 5 / 54, 29 / 486, 181 / 4374]
    for n, probability in enumerate(wanted, start=1):
        found = enumerate_derivations(model, [1, *[3] * n, 2])
        assert len(found.joints) == len(sequences(n))
        assert math.exp(found.prefix_logprobs[-1]) == pytest.approx(probability, rel=1e-6)


def test_derivations_are_the_sequences_and_their_trees() -> None:
    _, rows = rows_of(arc_model(), [1, 3, 4, 5, 3, 2])
    trees = {tuple(heads_of(derivation)) for _, derivation in rows}  # type: ignore[arg-type]
    assert trees == set(projective_trees(4)) == {heads_by_hand(each) for each in sequences(4)}


@pytest.mark.parametrize(("continuing", "max_open"), [(0, 100), (1, 100), (1, 1), (0, 1), (0, 2)])
def test_what_has_ended_and_what_has_not_add_up_to_one(continuing: int, max_open: int) -> None:
    model = arc_model(words=2, continuing=continuing, max_open=max_open)
    ended = 0.0
    for n in range(1, 4):
        under_way = ending = 0.0
        for tokens in itertools.product([3, 4], repeat=n):
            found = enumerate_derivations(model, [1, *tokens, 2]).prefix_logprobs
            under_way += math.exp(found[-2])
            ending += math.exp(found[-1])
        assert under_way + ended == pytest.approx(1, rel=2e-6, abs=1e-5)
        ended += ending


@pytest.mark.parametrize(
    "shape",
    [
        {},
        {"scale_embeddings": True, "norm": "post", "output_bias": True, "initialization": "fan-in"},
        {"tie_embeddings": False, "attention_bias": False, "embedding_norm": True, "output_transform": True},
    ],
)
def test_action_by_action_is_one_pass(shape: dict[str, Any]) -> None:
    model = arc_model(continuing=1, **shape)
    for ids in ([1, 4, 5, 3, 5, 4, 2], [1, 4, 3, 3, 2]):
        joints, rows = rows_of(model, ids)
        n_words = 1 + sum(token > 3 for token in ids[2:-1])
        assert len(joints) == len(sequences(n_words))
        batch = model.pack(rows)
        assert batch.lengths.tolist() == [model.row_length(*row) for row in rows]
        parts = model.forward_parts(batch)
        joint = (parts.token_logprobs + parts.attach_logprobs).sum(1)
        torch.testing.assert_close(joint, torch.tensor(joints), atol=2e-5, rtol=2e-6)
        assert (parts.token_logprobs[batch.ends(2)] < 0).all()
        with torch.no_grad():
            loss = model.loss(batch)
        assert int(loss.counts["tokens"]) == (len(ids) - 1) * len(rows)
        assert int(loss.counts["attachments"]) == (n_words - 1) * len(rows)
        assert float(sum(loss.sums.values())) == pytest.approx(-sum(joints), rel=1e-5)


def test_what_positions_see_and_how_far_it_is() -> None:
    model = arc_model(continuing=1)
    for ids in ([1, 4, 5, 3, 5, 4, 2], [1, 4, 3, 3, 5, 2]):
        _, rows = rows_of(model, ids)
        batch = model.pack(rows)
        assert isinstance(batch, TransitionBatch)
        position = torch.arange(batch.tokens.shape[1])
        distances, seen = model._visible(
            batch, (batch.tokens >= model.vocab_size) & (batch.pop != position)
        ).dense
        for b, (_, actions) in enumerate(rows):
            row = positions_by_hand(ids[1:-1], actions, 1)
            for i, each in enumerate(row):
                keys = torch.nonzero(seen[b, i])[:, 0].tolist()
                assert {j: int(distances[b, i, j]) + NEAREST for j in keys} == each.sees


def test_padding_and_neighbours_change_nothing() -> None:
    model = arc_model()
    rows = [rows_of(model, ids)[1][-1] for ids in ([1, 3, 4, 5, 2], [1, 3, 2], [1, 5, 4, 2])]
    together = model.forward_parts(model.pack(rows))
    for b, row in enumerate(rows):
        alone = model.forward_parts(model.pack([row]))
        n = alone.token_logprobs.shape[1]
        for name in ("token_logprobs", "attach_logprobs"):
            of_all = getattr(together, name)[b]
            torch.testing.assert_close(of_all[:n], getattr(alone, name)[0], atol=1e-5, rtol=2e-6)
            assert not of_all[n:].any()
    with torch.no_grad():
        nothing = model.loss(model.pack([]))
    assert float(sum(nothing.sums.values())) == 0
    assert int(nothing.counts["tokens"]) == 0


def test_trees_of_derivations() -> None:
    model = arc_model(continuing=1)
    words = ["the", "cats", "saw", "dogs"]
    heads = np.array([1, 2, -1, 2], np.int32)
    oracle = static_oracle(heads, np.array([1, 2, 1, 1]))
    found = model.config.derivation_kind.read(np.array([1, 4, 5, 3, 4, 5, 2], np.int32), oracle)
    word_of_token = [0, 1, 1, 2, 3]
    assert found.text(["the", "cat", "s", "saw", "dogs"]) == "((the) cats) saw (dogs)"
    tree = found.tree(words, word_of_token, None)
    assert tree.to_brackets() == "(X (X (XX the) (XX cats)) (XX saw) (XX dogs))"
    # Cut off: what is left depends on what lies beneath it.
    actions = model.actions
    cut = model.read_derivation(np.array([4, 5, 3, actions.left, 4, 5]))
    assert cut.text(["the", "cat", "s", "saw", "dogs"]) == "(the) cats | saw | dogs"
    brackets = cut.tree(words, word_of_token, None).to_brackets()
    assert brackets == "(X (XX the) (XX cats) (X (XX saw) (XX dogs)))"


@pytest.mark.parametrize(
    ("heads", "problem"),
    [
        ([0, 0], "2 roots, not one"),
        ([2, 1, 0], "the heads form a cycle"),
        ([3, 4, 0, 3], "arcs cross (config.lift=true lifts them)"),
    ],
)
def test_trees_without_actions(heads: list[int], problem: str) -> None:
    word = np.array([-1, *range(len(heads)), -1], np.int32)
    assert not is_projective([head - 1 for head in heads])
    found = TransitionKind().of_graph(Graph.of_heads(heads), word)
    assert found == problem
    lifted = TransitionKind(lift=True).of_graph(Graph.of_heads(heads), word)
    if isinstance(lifted, str):
        assert lifted == problem
    else:
        assert heads_of(lifted).tolist() == [2, 2, -1, 2]


def test_projective_trees_alone_have_actions() -> None:
    for words in range(1, 5):
        word = np.array([-1, *range(words), -1], np.int32)
        for heads in itertools.product(range(-1, words), repeat=words):
            if all(head != k for k, head in enumerate(heads)):
                found = TransitionKind().of_graph(Graph.of_heads(np.array(heads) + 1), word)
                assert isinstance(found, str) != is_projective(heads)


def test_draws_are_those_of_the_distribution() -> None:
    model = arc_model(words=1, zero=True)
    lengths = [len(draw.tokens) for draw in sample(model, number=1000, max_tokens=9)]
    for n, share in {1: 1 / 2, 2: 1 / 6, 3: 5 / 54, 4: 29 / 486}.items():
        assert lengths.count(n) / 1000 == pytest.approx(share, abs=0.05)


@pytest.mark.parametrize(
    ("settings", "problem"),
    [
        ({"positions": "learned"}, "positions must be one of relative"),
        ({"max_open": 0}, "max_open must be at least 1"),
        ({"normalize": "all"}, "normalize"),
        ({"objective": "masked"}, "causal"),
    ],
)
def test_settings_that_make_no_model(settings: dict[str, Any], problem: str) -> None:
    with pytest.raises(PdtoolsError, match=problem):
        arc_model(**settings)


@pytest.mark.parametrize("mixed", [True, False])
def test_half_precision_is_close(mixed: bool) -> None:
    """With bf16 weights, and with float32 weights under the mixed precision that training uses."""
    model = arc_model(continuing=1)
    half = model if mixed else copy.deepcopy(model).to(torch.bfloat16)
    _, rows = rows_of(model, [1, 4, 5, 3, 5, 2])
    batch = model.pack(rows)
    with torch.no_grad():
        exact = model.forward_parts(batch)
        with torch.autocast("cpu", dtype=torch.bfloat16, enabled=mixed):
            found = half.forward_parts(batch)
    for name in ("token_logprobs", "attach_logprobs"):
        logprobs, wanted = getattr(found, name), getattr(exact, name)
        assert logprobs.dtype == torch.float32
        assert 0 < (logprobs - wanted).abs().max() < 0.05
    if not mixed:
        stepwise = enumerate_derivations(half, [1, 4, 5, 3, 5, 2]).prefix_logprobs
        assert stepwise[-1] == pytest.approx(float(exact_sum(exact)), abs=0.05)


def exact_sum(parts: TokenParts) -> torch.Tensor:
    """log Σ over the rows of their joint probabilities."""
    return (parts.token_logprobs + parts.attach_logprobs).sum(1).logsumexp(0)
