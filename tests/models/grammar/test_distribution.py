"""Action models are distributions: numbers and probabilities of derivations against their enumeration."""

from __future__ import annotations

import copy
import itertools
import math

import numpy as np
import pytest
import torch
from action_oracle import KINDS, action_model
from enumeration import enumerate_derivations

from pdtools.errors import PdtoolsError
from pdtools.models.grammar.derivations import read_actions
from pdtools.models.grammar.model import GrammarLM
from pdtools.models.grammar.output import Allowed, Linear, OutputLayer
from pdtools.search.sampling import sample

ONE_OF_EACH = [("tg", "relative"), ("plm", "relative"), ("plm-mask", "learned")]


def probability(model: GrammarLM, tokens: list[int]) -> float:
    """p(x), from all derivations."""
    return math.exp(enumerate_derivations(model, [1, *tokens, 2]).prefix_logprobs[-1])


@pytest.mark.parametrize(("name", "positions"), ONE_OF_EACH)
@pytest.mark.parametrize(
    ("labels", "max_open", "numbers"),
    [
        (1, 2, [2, 5, 13, 34]),
        (1, 3, [3, 14, 70, 353]),
        (2, 2, [6, 22, 82, 306]),
        (2, 3, [14, 142, 1466]),
    ],
)
def test_numbers_of_derivations(
    name: str, positions: str, labels: int, max_open: int, numbers: list[int]
) -> None:
    model = action_model(name, positions, labels=labels, max_open=max_open, words=1)
    found = [len(enumerate_derivations(model, [1, *[3] * n, 2]).joints) for n in range(1, len(numbers) + 1)]
    assert found == numbers


@pytest.mark.parametrize(("name", "positions"), ONE_OF_EACH)
@pytest.mark.parametrize(
    ("labels", "words", "max_open", "wanted"),
    [
        (1, 1, 1, [1 / 2, 1 / 4, 1 / 8]),
        (1, 1, 2, [1 / 4, 1 / 6, 1 / 8, 7 / 72]),
        (1, 1, 3, [5 / 24, 11 / 96]),
        (1, 2, 2, [7 / 72, 19 / 576]),
        (2, 2, 2, [1 / 15, 7 / 300, 43 / 4500]),
    ],
)
def test_probabilities_where_all_that_is_allowed_is_as_likely(
    name: str, positions: str, labels: int, words: int, max_open: int, wanted: list[float]
) -> None:
    model = action_model(name, positions, labels=labels, words=words, max_open=max_open, zero=True)
    found = [probability(model, [3] * n) for n in range(1, len(wanted) + 1)]
    assert found == pytest.approx(wanted, rel=1e-6)


def test_prefixes_where_all_that_is_allowed_is_as_likely() -> None:
    model = action_model("tg", "relative", labels=1, words=2, max_open=2, zero=True)
    reached = enumerate_derivations(model, [1, 3, 3, 2]).prefix_logprobs
    assert np.exp(reached[1:3]) == pytest.approx([1 / 2, 29 / 144], rel=1e-6)


@pytest.mark.parametrize(("name", "positions"), ONE_OF_EACH)
@pytest.mark.parametrize("n_continuing", [0, 1])
def test_what_has_ended_and_what_has_not_add_up_to_one(name: str, positions: str, n_continuing: int) -> None:
    model = action_model(name, positions, words=2, labels=1)
    model.continuing[3 : 3 + n_continuing] = True
    ended = 0.0
    for n in range(1, 4):
        under_way = 0.0
        for tokens in itertools.product([3, 4], repeat=n):
            found = enumerate_derivations(model, [1, *tokens, 2]).prefix_logprobs
            under_way += math.exp(found[-2])
            ended += math.exp(found[-1]) if n < 3 else 0
        # What has n tokens, and goes on or ends: and what ended with fewer.
        fewer = (
            ended
            if n == 3
            else ended
            - sum(probability(model, list(tokens)) for tokens in itertools.product([3, 4], repeat=n))
        )
        assert under_way + fewer == pytest.approx(1, rel=2e-6, abs=1e-5)


def test_a_token_that_continues_a_word_comes_after_a_token_alone() -> None:
    model = action_model("tg", "relative")
    model.continuing[3] = True
    found = enumerate_derivations(model, [1, 4, 3, 5, 2])
    assert found.joints
    for _, choices in found.joints:
        assert choices[choices.index(3) - 1] == 4
    assert not enumerate_derivations(model, [1, 3, 4, 2]).joints


@pytest.mark.parametrize(("name", "positions"), ONE_OF_EACH)
@torch.no_grad()
def test_normalised_over_all_actions(name: str, positions: str) -> None:
    model = action_model(name, positions, normalize="all")
    ids = [1, 3, 4, 5, 2]
    joints = enumerate_derivations(model, ids).joints
    batch = model.pack([(np.array(ids), read_actions(np.array(each), model.actions)) for _, each in joints])
    logits = model.logits(model._read_actions(batch)[:, :-1])  # (B, N - 1, A)
    assert logits.shape[2] == model.actions.number
    chosen = logits.log_softmax(2).gather(2, batch.tokens[:, 1:, None])[..., 0]
    wanted = chosen.masked_fill(~batch.scored[:, 1:], 0).sum(1)
    np.testing.assert_allclose([score for score, _ in joints], wanted, rtol=2e-6, atol=2e-5)
    parts = model.forward_parts(batch)
    torch.testing.assert_close(
        (parts.token_logprobs + parts.attach_logprobs).sum(1), wanted, atol=2e-5, rtol=2e-6
    )
    assert float(wanted.logsumexp(0).exp()) < probability(action_model(name, positions), ids[1:-1])


# What a transformer may have besides.
SHAPES: list[dict[str, object]] = [
    {"scale_embeddings": True, "norm": "post"},
    {"embedding_norm": True, "output_transform": True, "output_bias": True},
    {"tie_embeddings": False, "attention_bias": False, "normalize": "all"},
]


@pytest.mark.parametrize(
    ("name", "positions", "shape"),
    [(*kind, {}) for kind in KINDS] + [(*kind, shape) for kind in ONE_OF_EACH for shape in SHAPES],
)
def test_action_by_action_is_one_pass(name: str, positions: str, shape: dict[str, object]) -> None:
    model = action_model(name, positions, **shape)
    ids = [1, 3, 4, 5, 3, 2]
    found = enumerate_derivations(model, ids)
    assert len(found.joints) == 306
    rows = [(np.array(ids), read_actions(np.array(choices), model.actions)) for _, choices in found.joints]
    batch = model.pack(rows)
    assert batch.lengths.tolist() == [model.row_length(*row) for row in rows]
    parts = model.forward_parts(batch)
    joint = (parts.token_logprobs + parts.attach_logprobs).sum(1)
    wanted = torch.tensor([score for score, _ in found.joints])
    torch.testing.assert_close(joint, wanted, atol=2e-5, rtol=2e-6)
    ends = batch.ends(2)
    assert (parts.token_logprobs[ends] < 0).all()  # the end is a token
    assert not parts.attach_logprobs[ends].any()
    with torch.no_grad():
        loss = model.loss(batch)
    assert int(loss.counts["tokens"]) == 5 * len(rows)  # the end is one of them
    assert int(loss.counts["attachments"]) == sum(2 * len(tree.labels) - 1 for _, tree in rows)
    assert float(loss.sums["token_nll"] + loss.sums["attachment_nll"]) == pytest.approx(
        -float(wanted.sum()), rel=1e-5
    )


@pytest.mark.parametrize(("name", "positions"), KINDS)
def test_padding_and_neighbours_change_nothing(name: str, positions: str) -> None:
    model = action_model(name, positions)
    rows = []
    for ids in ([1, 3, 4, 5, 2], [1, 3, 2], [1, 5, 4, 2]):
        joints = enumerate_derivations(model, ids).joints
        rows.append((np.array(ids), read_actions(np.array(joints[-1][1]), model.actions)))
    together = model.forward_parts(model.pack(rows))
    for b, row in enumerate(rows):
        alone = model.forward_parts(model.pack([row]))
        n = alone.token_logprobs.shape[1]
        torch.testing.assert_close(
            together.token_logprobs[b, :n], alone.token_logprobs[0], atol=1e-5, rtol=2e-6
        )
        torch.testing.assert_close(
            together.attach_logprobs[b, :n], alone.attach_logprobs[0], atol=1e-5, rtol=2e-6
        )
        assert not together.token_logprobs[b, n:].any()


@pytest.mark.parametrize(("name", "positions"), ONE_OF_EACH)
@pytest.mark.parametrize("mixed", [True, False])
def test_half_precision_is_close(name: str, positions: str, mixed: bool) -> None:
    """With bf16 weights, and with float32 weights under the mixed precision that training uses."""
    model = action_model(name, positions)
    half = model if mixed else copy.deepcopy(model).to(torch.bfloat16)
    ids = [1, 3, 4, 5, 2]
    joints = enumerate_derivations(model, ids).joints
    batch = model.pack(
        [(np.array(ids), read_actions(np.array(choices), model.actions)) for _, choices in joints]
    )
    with torch.no_grad():
        exact = model.forward_parts(batch)
        with torch.autocast("cpu", dtype=torch.bfloat16, enabled=mixed):
            found = half.forward_parts(batch)
    for logprobs, wanted in (
        (found.token_logprobs, exact.token_logprobs),
        (found.attach_logprobs, exact.attach_logprobs),
    ):
        assert logprobs.dtype == torch.float32
        assert 0 < (logprobs - wanted).abs().max() < 0.05


@pytest.mark.parametrize(("name", "positions"), ONE_OF_EACH)
def test_every_weight_learns_and_nothing_else_is_no_number(name: str, positions: str) -> None:
    model = action_model(name, positions).train()
    ids = [1, 3, 4, 5, 2]
    joints = enumerate_derivations(model.eval(), ids).joints
    rows = [(np.array(ids), read_actions(np.array(choices), model.actions)) for _, choices in joints[:3]]
    short = np.array([6, 3, model.actions.first_closer])
    rows.append((np.array([1, 3, 2]), read_actions(short, model.actions)))
    parts = model.train().loss(model.pack(rows))
    (parts.sums["token_nll"] + parts.sums["attachment_nll"]).backward()
    for weight_name, weight in model.named_parameters():
        assert weight.grad is not None, weight_name
        assert torch.isfinite(weight.grad).all(), weight_name
        assert weight.grad.abs().sum() > 0, weight_name


def test_draws_are_those_of_the_distribution() -> None:
    model = action_model("tg", "relative", labels=1, words=1, zero=True)
    lengths = [len(draw.tokens) for draw in sample(model, number=4000, max_tokens=30)]
    wanted = {1: 1 / 4, 2: 1 / 6, 3: 1 / 8, 4: 7 / 72}
    for n, share in wanted.items():
        assert lengths.count(n) / 4000 == pytest.approx(share, abs=0.025)


def test_draws_stop_where_there_is_no_room() -> None:
    model = action_model("plm", "learned", max_length=9)
    for draw in sample(model, number=50, max_tokens=30):
        length = 1 + len(draw.tokens) + 2 * len(draw.derivation.labels)  # type: ignore[attr-defined]
        assert length <= 9 if draw.complete else length >= 9


@pytest.mark.parametrize(
    ("name", "settings", "problem"),
    [
        ("tg", {"positions": "learned"}, "positions must be one of relative"),
        ("plm", {"positions": "rotary"}, "positions must be one of learned, relative"),
        ("plm-mask", {"positions": "relative"}, "positions must be one of learned, none"),
        ("plm", {"positions": "relative", "max_open": 0}, "max_open must be at least 1"),
        ("plm", {"positions": "relative", "labels": 0}, "n_labels must be at least 1"),
        ("plm", {"positions": "relative", "normalize": "some"}, "normalize must be one of allowed, all"),
        ("plm", {"positions": "relative", "objective": "masked"}, "causal"),
        ("plm-mask", {"positions": "learned", "heads": 1}, "heads must be at least 2"),
    ],
)
def test_settings_that_make_no_model(name: str, settings: dict[str, object], problem: str) -> None:
    with pytest.raises(PdtoolsError, match=problem):
        action_model(name, **settings)  # type: ignore[arg-type]


@pytest.mark.parametrize("seed", range(20))
def test_any_output_layer_computed_again(seed: int) -> None:
    """Of any mixture of prefixes: some that end in a token, some that do not, with and without closers."""
    draw = torch.Generator().manual_seed(seed)

    def some(*shape: int) -> torch.Tensor:
        return torch.rand(shape, generator=draw) < 0.5

    rows, vocabulary, structure, width = 7, 9, 4, 5
    begins, continues = some(vocabulary), torch.zeros(vocabulary, dtype=torch.bool)
    continues[2:] = ~begins[2:] & some(vocabulary - 2)  # what is neither is special
    weight = torch.randn(vocabulary + structure, width, generator=draw)
    bias = torch.randn(vocabulary + structure, generator=draw) if seed % 2 else None
    hidden = torch.randn(rows, width, generator=draw)
    may = Allowed(some(rows, structure), some(rows), some(rows))
    may.structure[:, 0] = True  # something may follow
    tokens = torch.randint(vocabulary, (rows,), generator=draw)
    found = OutputLayer.of(Linear(weight, bias), begins, continues).logprobs(hidden, may, tokens)
    logits = hidden @ weight.T if bias is None else hidden @ weight.T + bias
    allowed = (begins & may.tokens[:, None]) | (continues & may.continuing[:, None])
    wanted = logits.masked_fill(~torch.cat([allowed, may.structure], 1), -torch.inf).log_softmax(1)
    torch.testing.assert_close(found[0], wanted[:, vocabulary:])
    torch.testing.assert_close(found[1], wanted[torch.arange(rows), tokens])
