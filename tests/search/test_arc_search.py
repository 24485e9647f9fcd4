"""Search over arcs: against enumeration, and a plain search written from the specification."""

from __future__ import annotations

import math
from collections import Counter
from typing import cast

import numpy as np
import pytest
import torch
from enumeration import enumerate_derivations
from gilt_oracle import PlainNetwork
from hypothesis import given
from hypothesis import strategies as st
from plain import gilt as plain
from search_oracle import EOS, ROOT, row, tiny_model
from toy_models import loaded

from pdtools.models.dependency.derivations import graph_of_history
from pdtools.models.dependency.model import GiltLM
from pdtools.search import beam_search, sample
from pdtools.search.checkpoints import Searched
from pdtools.search.kinds import particle_search
from pdtools.search.model import Model
from pdtools.search.options import Particles, SearchOptions
from pdtools.search.parses import Parsed, ParsedScore
from pdtools.trees import Tree

STRINGS = [[3, 4, 3], [3, 5, 4], [4], [3, 4, 4], [], [3, 5]]


def gilt(arcs: str = "released", **settings: object) -> GiltLM:
    model = cast(GiltLM, tiny_model("gilt", feature_width=6, arcs=arcs, **settings).double())
    model.begins.copy_(torch.tensor([True] * 5 + [False]))  # token 5 goes on with a word
    return model


def joint_of(model: GiltLM, tokens: list[int], history: np.ndarray) -> float:
    with torch.no_grad():
        parts = model.forward_parts(model.pack([(row(tokens), graph_of_history(history))]))
    return float(parts.token_logprobs.sum() + parts.attach_logprobs.sum())


@pytest.mark.parametrize("arcs", ["released", "set"])
def test_a_full_beam_is_the_sum_over_all(arcs: str) -> None:
    model = gilt(arcs)
    found = beam_search(
        model, [row(tokens) for tokens in STRINGS], search=SearchOptions(beam=600), k_best=600
    )
    for tokens, result in zip(STRINGS, found, strict=True):
        every = enumerate_derivations(model, row(tokens).tolist())
        assert result.prefix_logprobs.tolist() == pytest.approx(every.prefix_logprobs, rel=2e-6, abs=1e-5)
        best = [joint for joint, _ in every.joints]
        assert [joint for joint, _ in result.derivations] == pytest.approx(best, rel=2e-6, abs=1e-5)
        assert result.dropped == pytest.approx(0, abs=1e-9)
        for joint, history in result.derivations[:3]:
            assert joint_of(model, tokens, history) == pytest.approx(joint, rel=2e-6, abs=1e-5)


@pytest.mark.parametrize(
    ("arcs", "beam", "counts", "best_counts"),
    [
        ("released", 1, "masked", 0),
        ("released", 5, "masked", 0),
        ("set", 3, "masked", 0),
        ("released", 600, "masked", 2),
        ("released", 600, "all", 5),
        ("set", 60, "all", 3),
    ],
)
def test_a_narrow_beam_is_that_of_the_plain_search(
    arcs: str, beam: int, counts: str, best_counts: int
) -> None:
    model, tokens = gilt(arcs, counts=counts, best_counts=best_counts), [3, 4, 5, 3]
    sums, hypotheses = plain.search(
        PlainNetwork(model),
        tokens,
        [True, True, False, True],
        root=ROOT,
        eos=EOS,
        beam=beam,
        sets=arcs == "set",
        best_counts=best_counts,
    )
    (found,) = beam_search(model, [row(tokens)], search=SearchOptions(beam=beam), k_best=beam)
    assert found.prefix_logprobs[1:].tolist() == pytest.approx(sums, rel=2e-6, abs=1e-5)
    graphs = [sorted(graph_of_history(history).arcs) for _, history in found.derivations]
    assert graphs == [sorted(each.graph) for each in hypotheses]
    assert found.dropped > 0


def test_a_hypothesis_keeps_its_best_legal_count() -> None:
    model, plain = gilt(counts="all", best_counts=5), gilt(counts="all")
    for each in (model, plain):  # illegal counts of words 1 to 3 are the best ones
        torch.nn.init.zeros_(each.scorer.count.weight)
        each.scorer.count.bias.data.copy_(torch.arange(30.0))
    (found,), (every,) = (
        beam_search(each, [row([3, 4])], search=SearchOptions(beam=600), k_best=600)
        for each in (model, plain)
    )
    ((joint, history),) = found.derivations
    assert [len(graph_of_history(history)), len(every.derivations)] == [1 + 3, 8]
    assert joint == pytest.approx(max(each for each, _ in every.derivations))
    assert 0.3 < found.dropped < 1 - every.dropped


def test_a_margin_is_from_the_best_hypothesis_that_is_followed() -> None:
    model = gilt("set", best_counts=1)
    torch.nn.init.zeros_(model.scorer.count.weight)
    # One arc is the likeliest count, but no arcs are likelier than each set of one.
    model.scorer.count.bias.data[:2] = torch.tensor([2.0, 2.1])
    (found,) = beam_search(model, [row([3, 4])], search=SearchOptions(beam=600, margin=0.0), k_best=600)
    assert all(len(graph_of_history(history)) == 2 for _, history in found.derivations)


def test_arcs_after_each_token_are_those_of_the_best_hypothesis() -> None:
    asked = Model.of(loaded("gilt", gilt()), SearchOptions(beam=600), parses=True)
    (found,), (searched,) = asked.score_with_parses(["a b a"]), asked.trace(["a b a"], hypotheses=1)
    assert isinstance(found, ParsedScore)
    assert isinstance(searched, Searched)
    best = [step.derivations[0] for step in searched.result.steps]
    assert list(found.incremental) == [str(graph_of_history(history)) for history in best]
    every = enumerate_derivations(asked.loaded.model, searched.encoded.ids.tolist())
    joint, whole = searched.result.derivations[0]
    assert joint == pytest.approx(every.joints[0][0], rel=2e-6, abs=1e-5)
    assert found.incremental[-1] == str(graph_of_history(whole))


@pytest.mark.parametrize("arcs", ["released", "set"])
def test_particles_that_all_end_before_an_impossible_token(arcs: str) -> None:
    """Beside a string that is possible."""
    strings = [row([3, ROOT, 4]), row([3, 4])]
    (wanted,) = beam_search(gilt(arcs), strings[1:], search=SearchOptions(beam=600))
    impossible, possible = particle_search(gilt(arcs), strings, Particles(number=10_000))
    sums = wanted.prefix_logprobs.tolist()
    assert impossible.prefix_logprobs.tolist() == pytest.approx([*sums[:2], *[-math.inf] * 3], rel=2e-6)
    assert possible.prefix_logprobs.tolist() == pytest.approx(sums, rel=2e-6, abs=1e-9)


def test_particles_are_unbiased() -> None:
    for arcs, number in (("released", 5), ("set", 4)):
        model, tokens = gilt(arcs, best_counts=1), [3, 4, 3]
        exact = enumerate_derivations(model, row(tokens).tolist()).prefix_logprobs[-1]
        estimates = [
            math.exp(
                particle_search(model, [row(tokens)], Particles(number=number, seed=s))[0].marginal - exact
            )
            for s in range(25)
        ]
        error = float(np.std(estimates)) / math.sqrt(len(estimates))
        assert 0 < error < 0.2
        assert np.mean(estimates) == pytest.approx(1, abs=4 * error)


@pytest.mark.parametrize("arcs", ["released", "set"])
def test_samples_have_the_probabilities_of_strings_and_graphs(arcs: str) -> None:
    model = gilt(arcs)
    drawn = [each for each in sample(model, number=1500, seed=2, max_tokens=4) if each.complete]
    for each in drawn[:40]:
        with torch.no_grad():
            parts = model.forward_parts(model.pack([(row(each.tokens.tolist()), each.derivation.graph)]))
        joint = float(parts.token_logprobs.sum() + parts.attach_logprobs.sum())
        assert each.logprob == pytest.approx(joint, rel=2e-6, abs=1e-4)
    counts = Counter(tuple(each.tokens.tolist()) for each in drawn)
    for tokens in ([], [3], [4, 3]):
        p = math.exp(enumerate_derivations(model, row(tokens).tolist()).prefix_logprobs[-1])
        assert counts[tuple(tokens)] == pytest.approx(1500 * p, abs=5 * math.sqrt(1500 * p) + 3)


def test_parses_with_the_same_arcs_are_one() -> None:
    tree = Tree.from_brackets("(X a b)")
    derivations = [(math.log(share), tree) for share in (0.4, 0.3, 0.2)]
    arcs = ("0-1 1-2", "0-2 2-1", "0-2 2-1")
    found = Parsed.of(derivations, 0.0, 0.0, k_best=2, arcs=arcs)
    assert found.arcs == ("0-2 2-1", "0-1 1-2")
    assert [joint for joint, _ in found.k_best] == pytest.approx([math.log(0.5), math.log(0.4)])
    one = Parsed.of(derivations[:1], 0.0, 0.0, k_best=1, arcs=arcs[:1])
    assert (one.arcs, one.k_best) == (arcs[:1], tuple(derivations[:1]))


@pytest.mark.parametrize(("arcs", "beam", "seed"), [("released", 4, 1), ("set", 6, 2), ("released", 7, 3)])
def test_as_many_hypotheses_as_before_have_scores_of_their_own(arcs: str, beam: int, seed: int) -> None:
    """A full beam stays as wide from word to word, though its hypotheses are others."""
    model, tokens = gilt(arcs, seed=seed), [3, 3, 3, 3]
    starts = [True] * 4
    network = PlainNetwork(model)
    sums, hypotheses = plain.search(
        network, tokens, starts, root=ROOT, eos=EOS, beam=beam, sets=arcs == "set"
    )
    (found,) = beam_search(model, [row(tokens)], search=SearchOptions(beam=beam), k_best=beam)
    assert found.prefix_logprobs[1:].tolist() == pytest.approx(sums, rel=2e-6, abs=1e-5)
    graphs = [sorted(graph_of_history(history).arcs) for _, history in found.derivations]
    assert graphs == [sorted(each.graph) for each in hypotheses]


@given(
    st.lists(st.tuples(st.sampled_from("abcd"), st.sampled_from([-1.0, -2.0, -2.5])), min_size=1, max_size=8)
)
def test_any_parses_equally_probable_are_in_the_order_of_their_derivations(
    found: list[tuple[str, float]],
) -> None:
    """Each the sum of its derivations, of which the most probable come first."""
    found = sorted(found, key=lambda pair: -pair[1])
    derivations = [(joint, Tree.from_brackets(f"(S (X {word}))")) for word, joint in found]
    sums: dict[str, list[float]] = {}
    for word, joint in found:
        sums.setdefault(word, []).append(joint)
    order = sorted(sums, key=lambda word: -float(np.logaddexp.reduce(sums[word])))
    parsed = Parsed.of(derivations, 0.0, 0.0, k_best=9)
    assert [tree.words[0] for _, tree in parsed.k_best] == order
    assert [joint for joint, _ in parsed.k_best] == [float(np.logaddexp.reduce(sums[word])) for word in order]
