"""Estimates of log p(x) by particles against the sum over all derivations."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch
from action_oracle import action_model
from enumeration import enumerate_derivations
from hypothesis import given, settings
from hypothesis import strategies as st
from search_oracle import row, tiny_model
from window_oracle import searched_row

from pdtools.errors import PdtoolsError
from pdtools.models import LanguageModel
from pdtools.models.grammar.model import GrammarLM
from pdtools.search import beam_search
from pdtools.search.families.actions import inside_words
from pdtools.search.families.word_synchronous import word_synchronous_search
from pdtools.search.kinds import particle_search, with_particles
from pdtools.search.options import Particles, SearchOptions
from pdtools.search.particles import by_choices, thin, uniform_of
from pdtools.search.scores import GivenRow, RowScore

A, B, C = 3, 4, 5
EVERY = 2000
WINDOW = searched_row([[B, A, C], [A, C, B, A]])


def draw(model: LanguageModel, ids: np.ndarray, number: int, seed: int = 0, **how: Any) -> np.ndarray:
    """log p̂ after every token."""
    return particle_search(model, [ids], Particles(number=number, seed=seed), **how)[0].prefix_logprobs


# --- what is kept of weights ----------------------------------------------------------------------


@settings(max_examples=40)
@given(
    logs=st.lists(st.one_of(st.floats(-8, 8), st.just(-math.inf)), min_size=1, max_size=12),
    most=st.integers(1, 13),
)
def test_thinned_weights_are_the_weights_in_expectation(logs: list[float], most: int) -> None:
    """Over a fine grid of the one random number that is drawn, so that the mean is known to its spacing."""
    grid = 1000
    uniform = (torch.arange(grid, dtype=torch.float64) + 0.5) / grid
    weights = torch.tensor(logs, dtype=torch.float64)
    found = thin(weights.expand(grid, -1), torch.full((grid,), most), uniform).exp()
    assert int((found > 0).sum(1).max()) <= most
    assert found.mean(0).numpy() == pytest.approx(
        weights.exp().numpy(), abs=4e-3 * float(weights.exp().sum())
    )
    if sum(x > -math.inf for x in logs) <= most:
        assert torch.equal(found[0], weights.exp())
    else:  # the heaviest stay as they are, the rest weigh the same: nothing varies but which these are
        assert torch.allclose(found.sum(1), weights.exp().sum())
        for some in found[:: grid // 8]:
            drawn = some[(some > 0) & ~torch.isclose(some, weights.exp())]
            assert not len(drawn) or torch.allclose(drawn, drawn[0])


def test_random_numbers_depend_on_seed_and_prefix() -> None:
    prefixes = [np.array(p, np.int32) for p in itertools.product((1, 3), (3, 4), (4, 5))]
    found = [uniform_of(seed, prefix) for seed in range(500) for prefix in prefixes]
    assert len(set(found)) == len(found)
    assert 0 < min(found) < 0.01 < 0.99 < max(found) < 1
    assert np.mean(found) == pytest.approx(0.5, abs=4 / math.sqrt(12 * len(found)))


# --- estimates ------------------------------------------------------------------------------------

MODELS = {
    "sentence": (lambda: tiny_model(), row([A, B, C, A])),
    "window": (lambda: tiny_model(layout="window"), WINDOW),
    "tg": (lambda: action_model("tg", "relative"), row([A, B])),
    "plm": (lambda: action_model("plm", "learned"), row([A, B])),
    "plm-mask": (lambda: action_model("plm-mask", "none"), row([A, B])),
}


@pytest.fixture
def draws(monkeypatch: pytest.MonkeyPatch) -> Callable[[LanguageModel, np.ndarray, int, int], np.ndarray]:
    """Many independent draws in one batch: (S, n + 2)."""
    rng = np.random.default_rng(0)
    for module in ("attachment_beam", "word_synchronous"):
        monkeypatch.setattr(f"pdtools.search.families.{module}.uniform_of", lambda seed, prefix: rng.random())

    def many(model: LanguageModel, ids: np.ndarray, number: int, times: int) -> np.ndarray:
        found = particle_search(model, [ids] * times, Particles(number=number), share_prefixes=False)
        return np.array([each.prefix_logprobs for each in found])

    return many


def exact(model: LanguageModel, ids: np.ndarray) -> np.ndarray:
    """A_t over all derivations."""
    if model.layout == "window":  # a full beam is compared with its definition elsewhere
        return beam_search(model, [ids], search=SearchOptions(beam=EVERY))[0].prefix_logprobs
    return np.array(enumerate_derivations(model, ids.tolist()).prefix_logprobs)


@pytest.mark.parametrize("name", MODELS)
def test_estimates_are_unbiased_and_exact_with_enough_particles(
    name: str, draws: Callable[..., np.ndarray]
) -> None:
    make, ids = MODELS[name]
    model = make()
    wanted = exact(model, ids)
    np.testing.assert_allclose(draw(model, ids, EVERY), wanted, rtol=2e-6, atol=1e-5)
    deviations = []
    for number in (2, 6):
        ratio = np.exp(draws(model, ids, number, 400) - wanted)  # (S, n + 2)
        error = ratio.std(0, ddof=1) / math.sqrt(len(ratio))
        assert np.all(np.abs(ratio.mean(0) - 1) < 4.5 * error + 1e-4)
        deviations.append(ratio.std(0, ddof=1)[-1])
    assert deviations[0] > 1e-4  # there was something to draw
    assert deviations[1] < deviations[0]


def test_every_choice_is_thinned_by_a_number_of_its_own(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[tuple[int, bytes]] = []

    def half(seed: int, prefix: np.ndarray) -> float:
        asked.append((seed, prefix.tobytes()))
        return 0.5

    monkeypatch.setattr("pdtools.search.particles.uniform_of", half)
    for seed in (0, 7):
        by_choices(tiny_model(), row([A, B, C, A]), Particles(number=2, seed=seed))
    assert len(set(asked)) == len(asked) > 10


def test_particles_beat_those_that_draw_one_attachment_each(draws: Callable[..., np.ndarray]) -> None:
    """The bootstrap filter, written plainly, over the same strings and as many particles."""
    model, ids, number = tiny_model(seed=1), row([A, B, C, A, B]), 4
    wanted = exact(model, ids)[-1]
    plain = np.exp([bootstrap(model, ids.tolist(), number, seed) - wanted for seed in range(40)])
    ours = np.exp(draws(model, ids, number, 40)[:, -1] - wanted)
    assert plain.mean() == pytest.approx(1, abs=4.5 * plain.std() / math.sqrt(40))
    assert ours.std() < plain.std()


@torch.no_grad()
def bootstrap(model: LanguageModel, ids: list[int], number: int, seed: int) -> float:
    """log p̂(x): every particle draws from the model, those of a token are drawn again by their weights."""
    rng = np.random.default_rng(seed)
    derivations, total = model.derive(number, len(ids)), 0.0
    for token in ids[1:]:
        logs = derivations.logprobs()[:, token]  # (N,)
        total += float(torch.logsumexp(logs, 0)) - math.log(number)
        if token == ids[-1]:
            return total
        weights = torch.softmax(logs, 0).numpy()
        derivations.select(torch.from_numpy(rng.choice(number, number, p=weights / weights.sum())))
        derivations.push(torch.full((number,), token))
        choices = torch.multinomial(
            derivations.logprobs().exp(),
            1,
            generator=torch.Generator().manual_seed(int(rng.integers(1 << 30))),
        )
        derivations.push(choices[:, 0])
    raise AssertionError


@pytest.mark.parametrize("name", ["sentence", "window", "tg"])
def test_what_is_drawn_together_changes_nothing(name: str) -> None:
    make, ids = MODELS[name]
    model = make()
    # Some begin as the string does, and come before it.
    others = (
        [searched_row([[A], [B]]), WINDOW]
        if name == "window"
        else [row([A, B, B]), row([C]), row([A, C]), row([A, B, C]), row([A, A])]
    )
    for seed, max_batch in ((5, None), (5, 1), (6, None), (7, None)):
        alone = draw(model, ids, 2, seed=seed)
        together = particle_search(
            model, [*others, ids, ids], Particles(number=2, seed=seed), max_batch=max_batch
        )
        for found in together[-2:]:
            np.testing.assert_allclose(found.prefix_logprobs, alone, rtol=2e-6, atol=1e-5)
    assert np.array_equal(draw(model, ids, 2, seed=7), alone)
    assert len({float(draw(model, ids, 2, seed)[-1]) for seed in range(6)}) > 1


@pytest.mark.parametrize("name", ["window", "tg"])
def test_rows_have_their_own_estimates(name: str) -> None:
    """Of rows of different lengths, with words of several tokens; exact where there are enough particles."""
    model = MODELS[name][0]()
    if name == "tg":
        ids = [row([A, B, C]), row([B]), row([A, C])]
        words = [np.array([-1, 0, 0, 1, -1]), np.array([-1, 0, -1]), np.array([-1, 0, 1, -1])]
        rows = [GivenRow(tokens, None, word) for tokens, word in zip(ids, words, strict=True)]
        beam = SearchOptions(beam=EVERY, word_beam=EVERY, fast_track=0)
        inside = [inside_words(word) for word in words]
        assert isinstance(model, GrammarLM)
        searched: list[Any] = list(word_synchronous_search(model, ids, search=beam, inside_words=inside))
        ends = [float(found.logprobs[-1]) for found in searched]
    else:
        ids = [WINDOW, searched_row([[A], [B]]), searched_row([[C, A, B]])]
        rows = [GivenRow(tokens[:-1], None, np.zeros(len(tokens) - 1, np.int32)) for tokens in ids]
        searched = list(beam_search(model, ids, search=SearchOptions(beam=EVERY)))
        ends = [
            float(found.logprobs[np.isin(tokens[1:], (1, 2))].sum())
            for tokens, found in zip(ids, searched, strict=True)
        ]
    known = [RowScore(-1.0, -2.0, None, -0.5, 0.0)] * len(rows)
    scored = with_particles(model, rows, known, Particles(number=EVERY))
    for score, found, end in zip(scored, searched, ends, strict=True):
        assert (score.given_tree, score.joint, score.marginal, score.end_given_tree) == (-1, -2, None, -0.5)
        assert score.particles == pytest.approx(found.marginal, rel=2e-6, abs=1e-5)
        assert score.end_particles == pytest.approx(end, rel=2e-6, abs=1e-5)


def test_what_cannot_be_asked_for() -> None:
    with pytest.raises(PdtoolsError, match="at least 1 particle"):
        Particles(number=0)
    with pytest.raises(PdtoolsError, match="log p.x. is exact"):
        draw(tiny_model("transformer"), row([A]), 3)
    model = tiny_model()
    with torch.no_grad():
        next(model.parameters()).fill_(math.nan)
    with pytest.raises(PdtoolsError, match="not numbers"):
        draw(model, row([A, B, C]), 1)
