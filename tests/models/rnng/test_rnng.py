"""RNNGs: against a plain formulation, enumeration, and, where there is a copy, the released code."""

from __future__ import annotations

import itertools
import math
import os
import sys
from pathlib import Path

import numpy as np
import pytest
import torch
from rnng_oracle import EACH, NAMES, plain_actions, plain_logprobs, random_rows, rnng
from toy_grammar_lm import enumerate_derivations

from pdtools.errors import PdtoolsError
from pdtools.models.kernels import decoding
from pdtools.models.rnng.model import RnngLM
from pdtools.search.families.word_synchronous import word_synchronous_search
from pdtools.search.kinds import particle_search
from pdtools.search.options import Particles, SearchOptions
from pdtools.search.sampling import sample
from pdtools.tokenization import train_word_tokenizer
from pdtools.trees import Constituents

EVERYTHING = SearchOptions(beam=10_000, word_beam=10_000, fast_track=0)
ROOMY = {"max_open": 6, "max_chain": 6}


def logprobs(model: RnngLM, rows: list[tuple[np.ndarray, Constituents]]) -> torch.Tensor:
    """Log-probabilities of actions, (B, N - 1)."""
    parts = model.forward_parts(model.pack(rows))
    return (parts.token_logprobs + parts.attach_logprobs)[:, 1:]


def plain(model: RnngLM, row: tuple[np.ndarray, Constituents]) -> torch.Tensor:
    return plain_logprobs(model, plain_actions(row[0][1:-1].tolist(), row[1], model))


@pytest.mark.parametrize(("name", "composition"), EACH)
@pytest.mark.parametrize(("normalize", "continuing"), [("allowed", True), ("allowed", False), ("all", False)])
def test_a_batch_is_the_plain_formulation(
    name: str, composition: str, normalize: str, continuing: bool
) -> None:
    """Log p and gradients; in the batch, one by one, and with tokens that continue words."""
    model = rnng(name, composition, normalize=normalize, **ROOMY)
    if normalize == "all":  # padding too
        with torch.no_grad():
            model.action_head.bias[-1] = -1e9
    rows = random_rows(300 if continuing else 30)
    if continuing:
        model.continuing[5] = True
        whole = [tokens[1] != 5 and not _inside(tokens, tree) for tokens, tree in rows]
        rows = [row for row, fits in zip(rows, whole, strict=True) if fits][:30]
        assert sum(5 in tokens for tokens, _ in rows) > 3
    found = logprobs(model, rows)
    wanted = [plain(model, row) for row in rows]
    for b, each in enumerate(wanted):
        torch.testing.assert_close(found[b, : len(each)], each, atol=1e-5, rtol=1e-5)
        assert not found[b, len(each) :].any()
        if b < 5:
            torch.testing.assert_close(logprobs(model, [rows[b]])[0], each, atol=1e-5, rtol=1e-5)
    gradients = [
        torch.autograd.grad(total, [*model.parameters()]) for total in (found.sum(), torch.cat(wanted).sum())
    ]
    for mine, theirs in zip(*gradients, strict=True):
        torch.testing.assert_close(mine, theirs, atol=1e-4, rtol=1e-4)


def _inside(tokens: np.ndarray, tree: Constituents) -> bool:
    """Whether a constituent begins or ends inside of a word of several tokens."""
    inside = tokens[1:-1] == 5
    return bool(tree.opens[inside].any() or tree.closes[:-1][inside[1:]].any())


@pytest.mark.parametrize(("name", "composition"), EACH)
@pytest.mark.parametrize("continuing", [False, True])
def test_a_beam_for_all_derivations_is_the_enumeration(name: str, composition: str, continuing: bool) -> None:
    """Each derivation is read back, and scored the same from its tree."""
    model = rnng(name, composition, max_chain=1 if name == "rnng-in-order" else 2)
    model.continuing[4] = continuing
    strings = [[3], [3, 4], [5, 3, 4], [3, 4, 5, 3]]
    if name == "rnng-in-order":
        strings.pop()
    many = [np.array([1, *string, 2], np.int32) for string in strings]
    results = word_synchronous_search(model, many, search=EVERYTHING, next_tokens=True)
    for ids, found in zip(many, results, strict=True):
        every = enumerate_derivations(model, ids.tolist())
        assert found.prefix_logprobs == pytest.approx(every.prefix_logprobs, rel=2e-6, abs=1e-5)
        assert found.next_logprobs is not None
        n = len(ids) - 2
        following = found.next_logprobs[np.arange(n + 1), ids[1:]]
        assert following == pytest.approx(found.prefix_logprobs[1:], rel=2e-6, abs=1e-5)
        some = every.joints[:: max(1, len(every.joints) // 40)]
        trees = [(ids, model.read_derivation(np.array(choices))) for _, choices in some]
        for (_, choices), (_, tree) in zip(some, trees, strict=True):
            assert model._actions_of(ids[1:-1], tree)[1:] == list(choices)
            assert not (model.actions.in_order and tree.opens[model._continues[ids[1:-1]]].any())
        scores = [score for score, _ in some]
        assert logprobs(model, trees).sum(1).tolist() == pytest.approx(scores, rel=2e-6, abs=1e-5)
        words, word = ["a", "b", "c", "d"][:n], np.arange(n)
        brackets = [str(tree.tree(words, word, ["S", "NP"])) for _, tree in trees]
        assert len(set(brackets)) == len(trees)


@pytest.mark.parametrize(("name", "composition"), EACH)
def test_searches_do_not_depend_on_what_multiplies(
    name: str, composition: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Hypotheses that share children, by oneDNN, are what torch's LSTMs make of each."""
    model = rnng(name, composition, words=6, labels=3, max_open=4)
    ids = [np.array([1, *string, 2], np.int32) for string in ([3, 4, 5, 3, 8, 6, 4], [3, 4, 7], [6])]
    search = SearchOptions(beam=60, word_beam=12, fast_track=2)
    found = []
    for has_onednn in (torch.backends.mkldnn.is_available(), False):
        monkeypatch.setattr(decoding, "_HAS_ONEDNN", has_onednn)
        found.append(word_synchronous_search(model, ids, search=search, k_best=3))
    for mine, theirs in zip(*found, strict=True):
        assert mine.prefix_logprobs == pytest.approx(theirs.prefix_logprobs, abs=1e-5)
        assert np.isfinite(mine.prefix_logprobs).all()
        scores = [[score for score, _ in each.derivations] for each in (mine, theirs)]
        assert scores[0] == pytest.approx(scores[1], abs=1e-5)


@pytest.mark.parametrize("name", NAMES)
def test_what_has_ended_and_what_has_not_add_up_to_one(name: str) -> None:
    model = rnng(name, words=2, labels=1, max_chain=1)
    ended = under_way = 0.0
    for n in (1, 2):
        for tokens in itertools.product([3, 4], repeat=n):
            found = enumerate_derivations(model, [1, *tokens, 2]).prefix_logprobs
            ended += math.exp(found[-1]) if n < 2 else 0.0
            under_way += math.exp(found[-2]) if n == 2 else 0.0
    assert ended + under_way == pytest.approx(1, rel=2e-6, abs=1e-5)


@pytest.mark.parametrize(("name", "composition"), EACH)
def test_particles_are_exact_if_all_are_kept_and_unbiased_if_not(name: str, composition: str) -> None:
    model = rnng(name, composition, max_chain=1 if name == "rnng-in-order" else 2)
    ids = [np.array([1, 3, 4, 2], np.int32)]
    (wanted,) = word_synchronous_search(model, ids, search=EVERYTHING)
    (all_kept,) = particle_search(model, ids, Particles(number=5000, seed=0))
    assert all_kept.prefix_logprobs == pytest.approx(wanted.prefix_logprobs, rel=2e-6, abs=1e-5)
    drawn = [
        math.exp(
            particle_search(model, ids, Particles(number=2, seed=seed))[0].prefix_logprobs[-1]
            - wanted.marginal
        )
        for seed in range(60)
    ]
    assert np.std(drawn) > 0
    assert np.mean(drawn) == pytest.approx(1, abs=4 * float(np.std(drawn)) / len(drawn) ** 0.5)


@pytest.mark.parametrize("name", NAMES)
def test_draws_have_the_probabilities_of_their_trees(name: str) -> None:
    model = rnng(name, "attention")
    draws = [draw for draw in sample(model, number=20, max_tokens=6) if draw.complete]
    assert draws
    rows = [(np.array([1, *draw.tokens, 2]), draw.derivation) for draw in draws]
    found = logprobs(model, rows).sum(1).tolist()  # type: ignore[arg-type]
    assert found == pytest.approx([draw.logprob for draw in draws], rel=2e-6, abs=1e-4)


def test_dropout_and_every_weight_that_learns() -> None:
    for name, composition in EACH:
        model = rnng(name, composition, dropout=0.3, **ROOMY).train()
        rows = random_rows(12)
        states = model._step(torch.randn(100, 8), torch.randn(100, 2, 2, 8))
        # In place: what the next step reads of the lower layer has dropout.
        assert [float((states[:, 0, layer] == 0).float().mean()) for layer in (0, 1)] == pytest.approx(
            [0.3, 0.0], abs=0.06
        )
        losses = [model.loss(model.pack(rows)) for _ in range(2)]
        assert losses[0].sums["token_nll"] != losses[1].sums["token_nll"]
        sum(losses[0].sums.values(), torch.zeros(())).backward()
        for weight_name, weight in model.named_parameters():
            assert weight.grad is not None, weight_name
            assert weight.grad.abs().sum() > 0, (name, composition, weight_name)
        model.zero_grad()
        nothing = model.loss(model.pack([]))
        sum(nothing.sums.values(), torch.zeros(())).backward()
        assert not any(weight.grad.any() for weight in model.parameters() if weight.grad is not None)
        assert all(weight.grad is not None for weight in model.parameters())
        assert not any(float(value.detach()) for value in (*nothing.sums.values(), *nothing.counts.values()))


@pytest.mark.parametrize(
    ("name", "opens", "closes", "fits"),
    [
        ("rnng", [3, 0], [2, 1], False),
        ("rnng", [2, 1], [1, 2], True),
        ("rnng-in-order", [3, 0], [2, 1], False),  # the third opens after two rounds
        ("rnng-in-order", [3, 0], [0, 3], True),  # all but the first after a constituent of two words
        ("rnng-in-order", [2, 1], [1, 2], True),
        ("rnng-in-order", [3, 1], [0, 4], True),  # two after a constituent of several children
        ("rnng-in-order", [4, 1], [0, 5], False),
    ],
)
def test_chains_that_do_not_fit(name: str, opens: list[int], closes: list[int], fits: bool) -> None:
    labels = np.zeros(sum(opens), np.int32)
    tree = Constituents(labels, np.array(opens, np.int32), np.array(closes, np.int32))
    model = rnng(name, max_open=5, max_chain=2)
    found = model.problem(tree)
    assert found == (None if fits else "more than 2 constituents opened in a row (config.max_chain)")
    row = np.array([1, 3, 4, 2])
    assert bool(logprobs(model, [(row, tree)]).isneginf().any()) != fits
    assert not fits or len(model._actions_of(row[1:-1], tree)) - 1 <= model.derive(1, 2).most_steps


@pytest.mark.parametrize(
    ("settings", "problem"),
    [
        ({"max_chain": 0}, "max_chain must be at least 1, not 0"),
        ({"dropout": 1.0}, "dropout must be from 0 to below 1, not 1.0"),
        ({"composition": "sum"}, "composition must be one of lstm, attention, not 'sum'"),
    ],
)
def test_settings_that_make_no_model(settings: dict[str, object], problem: str) -> None:
    with pytest.raises(PdtoolsError, match=problem):
        rnng(**settings)  # type: ignore[arg-type]


def test_in_order_needs_to_see_where_words_begin() -> None:
    raw = train_word_tokenizer(["a", "b", "c"], text_style="raw", unk=False)
    rnng("rnng").use_tokenizer(raw)
    with pytest.raises(PdtoolsError, match="do not show where words begin"):
        rnng("rnng-in-order").use_tokenizer(raw)


@pytest.mark.parametrize(("name", "composition"), EACH)
def test_the_released_code(name: str, composition: str) -> None:
    """Log p, gradients and the word-synchronous beam; PDTOOLS_RNNG names a copy of rnng-pytorch."""
    if not (released := os.environ.get("PDTOOLS_RNNG")):
        pytest.skip("PDTOOLS_RNNG names no copy of the released code")
    sys.path.insert(0, str(Path(__file__).parents[3] / "benchmarks"))
    try:
        from rnng import differences
    finally:
        sys.path.pop(0)
    for line in differences(Path(released), name, composition):
        assert max(line.values()) < 1e-5
