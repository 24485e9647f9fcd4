"""Word-synchronous search over arc-standard actions: the enumeration where the beam holds all."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import torch
from arc_oracle import arc_model, sequences
from enumeration import enumerate_derivations
from plain import dependency_grammar, word_synchronous

from pdtools.models.grammar.dependency import DependencyGrammarLM
from pdtools.search.families.word_synchronous import word_synchronous_search
from pdtools.search.kinds import particle_search
from pdtools.search.options import Particles, SearchOptions

STRINGS = [[4, 5, 3, 5], [5], [4, 4], [4, 3, 3], [4, 5, 4]]
EVERYTHING = SearchOptions(beam=10_000, word_beam=10_000, fast_track=0)


def row(tokens: list[int]) -> np.ndarray:
    return np.array([1, *tokens, 2], np.int32)


def test_a_beam_for_all_derivations_is_the_enumeration() -> None:
    model = arc_model(continuing=1)
    results = word_synchronous_search(
        model, [row(s) for s in STRINGS], search=EVERYTHING, k_best=5, next_tokens=True
    )
    for string, found in zip(STRINGS, results, strict=True):
        every = enumerate_derivations(model, row(string).tolist())
        assert len(every.joints) == len(sequences(sum(token != 3 for token in string)))
        assert found.prefix_logprobs == pytest.approx(every.prefix_logprobs, rel=2e-6, abs=1e-5)
        best = [score for score, _ in every.joints[:5]]
        assert [score for score, _ in found.derivations] == pytest.approx(best, rel=2e-6, abs=1e-5)
        wanted = model.read_derivation(np.array(every.joints[0][1]))
        for name in ("tokens", "begins", "arcs", "left"):
            assert getattr(found.derivations[0][1], name).tolist() == getattr(wanted, name).tolist()
        assert [len(each.tokens) for each in found.incremental] == [*range(1, len(string) + 1), len(string)]
        assert found.next_logprobs is not None
        chosen = found.next_logprobs[np.arange(len(string) + 1), [*string, 2]]
        assert chosen == pytest.approx(found.prefix_logprobs[1:], rel=2e-6, abs=1e-5)
        with torch.no_grad():
            whole = model.forward_parts(model.pack([(row(string), found.derivations[0][1])]))
        joint = float((whole.token_logprobs + whole.attach_logprobs).sum())
        assert joint == pytest.approx(found.derivations[0][0], rel=2e-6, abs=2e-5)


def plain_search(model: DependencyGrammarLM, tokens: list[int], beam: SearchOptions, margin: float) -> Any:
    """The plain formulation of the model in a plain search."""
    network = dependency_grammar.Network(
        model.state_dict(), heads=model.config.heads, continues=model.continues.tolist(), special=[0, 1, 2]
    )
    return word_synchronous.search(
        model,
        [1, *tokens, 2],
        beam,
        margin,
        following=lambda actions: network.next_logprobs(actions, 1),
        opened=network.opened,
    )


@pytest.mark.parametrize(
    ("beam", "margin", "strings"),
    [
        (EVERYTHING, math.inf, [[4, 5, 4], [4, 3, 3, 5]]),
        (SearchOptions(beam=6, word_beam=3, fast_track=2), math.inf, STRINGS),
        (SearchOptions(beam=4, word_beam=2, fast_track=0), 1.0, STRINGS),
    ],
)
def test_the_search_is_the_plain_formulation(
    beam: SearchOptions, margin: float, strings: list[list[int]]
) -> None:
    model = arc_model(continuing=1)
    found = word_synchronous_search(
        model, [row(s) for s in strings], search=replace(beam, margin=margin), k_best=beam.width_of_words
    )
    for string, own in zip(strings, found, strict=True):
        sums, kept, _ = plain_search(model, string, beam, margin)
        assert own.prefix_logprobs == pytest.approx(sums, rel=2e-6, abs=2e-5)
        assert [score for score, _ in own.derivations] == pytest.approx(
            [h.score for h in kept], rel=2e-6, abs=2e-5
        )
        best = model.read_derivation(np.array(kept[0].actions))
        assert own.derivations[0][1].closes.tolist() == best.arcs.tolist()


@pytest.mark.parametrize("beam", [EVERYTHING, SearchOptions(beam=6, word_beam=3, fast_track=2)])
def test_neighbours_batches_and_shared_prefixes_change_nothing(beam: SearchOptions) -> None:
    model = arc_model(continuing=1)
    strings = [row(s) for s in STRINGS]
    together = word_synchronous_search(model, strings, search=beam)
    apart = word_synchronous_search(model, strings, search=beam, share_prefixes=False, max_batch=2)
    alone = [word_synchronous_search(model, [string], search=beam)[0] for string in strings]
    for others in (apart, alone):
        for a, b in zip(others, together, strict=True):
            assert a.prefix_logprobs == pytest.approx(b.prefix_logprobs, rel=2e-6, abs=1e-5)


def test_a_stack_of_few_words() -> None:
    """With two words at most, arcs come as soon as they can; with one there are none."""
    for most, number in ((2, 8), (1, 0)):
        model = arc_model(max_open=most)
        (found,) = word_synchronous_search(model, [row([4, 5, 3, 5])], search=EVERYTHING, k_best=100)
        assert len(found.derivations) == number
        assert all(each.most_words == most for _, each in found.derivations)  # type: ignore[attr-defined]


def test_particles_are_unbiased() -> None:
    model = arc_model(continuing=1)
    ids = row([4, 5, 4])
    wanted = np.exp(enumerate_derivations(model, ids.tolist()).prefix_logprobs)
    estimates = []
    for seed in range(40):
        (found,) = particle_search(model, [ids], Particles(number=2, seed=seed))
        estimates.append(np.exp(found.prefix_logprobs))
    mean, error = np.mean(estimates, 0), np.std(estimates, 0) / np.sqrt(len(estimates))
    assert (np.abs(mean - wanted) <= 4 * error + 1e-7).all()
    assert error[-1] > 0
