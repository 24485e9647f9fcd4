"""GiLT against its specification: distributions, graphs, worked examples, a plain formulation."""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from dataclasses import replace
from typing import cast

import numpy as np
import pytest
import torch
from enumeration import enumerate_derivations
from gilt_oracle import PlainNetwork
from plain import gilt as plain
from search_oracle import EOS, ROOT, row, tiny_model

from pdtools.errors import PdtoolsError
from pdtools.models.dependency.batch import ArcBatch
from pdtools.models.dependency.derivations import graph_of_history
from pdtools.models.dependency.model import ArcDerivations, GiltLM
from pdtools.models.dependency.scorer import (
    ArcPairs,
    Scores,
    arc_loss,
    best_candidates,
    best_sets,
    count_logprobs,
    log_polynomials,
    set_logprobs,
)
from pdtools.models.transformer.score_terms import RelativePositions
from pdtools.training.distributed import Ranks
from pdtools.training.loss import LossSums, StepWeights, base_count
from pdtools.training.recipe import TrainConfig
from pdtools.trees.graphs import Graph

SETTINGS = {"feature_width": 6, "input_dropout": 0.0, "attention_dropout": 0.0, "output_dropout": 0.0}
# Of "saw" in "the cat saw a dog": 0-3, 1-3, 2-3, 3-1, 3-2.
SAW = torch.tensor([2.0, -1.0, 0.0, 1.0, 3.0])


def gilt(seed: int = 0, **settings: object) -> GiltLM:
    model = cast(GiltLM, tiny_model("gilt", seed, **{**SETTINGS, **settings}).double())
    model.begins.copy_(torch.tensor([True] * 5 + [False]))  # token 5 goes on with a word
    return model


def packed(model: GiltLM, tokens: Sequence[int], graph: Graph) -> ArcBatch:
    return model.pack([(row(tokens), graph)])


def random_graph(m: int, seed: int, share: float = 0.3) -> Graph:
    generator = np.random.default_rng(seed)
    every = [(h, d) for h in range(m + 1) for d in range(1, m + 1) if h != d]
    arcs = [arc for arc in every if generator.random() < share]
    return Graph.of(m, [h for h, _ in arcs], [d for _, d in arcs])


# --- the worked example -----------------------------------------------------------------------


def test_the_best_arcs_of_saw() -> None:
    assert best_candidates(SAW, torch.tensor(2)).tolist() == [True, False, False, False, True]
    ties = best_candidates(torch.tensor([1.0, 3.0, 1.0, 1.0]), torch.tensor(2))
    assert ties.tolist() == [True, True, False, False]


def test_sets_of_saw() -> None:
    polynomials = log_polynomials(SAW.double())[-1, :6].exp()
    wanted = [sum(math.exp(sum(each)) for each in itertools.combinations(SAW.tolist(), a)) for a in range(6)]
    assert polynomials.tolist() == pytest.approx(wanted)
    assert wanted[1:] == pytest.approx([31.560754, 264.764938, 719.705721, 633.914696, 148.413159])
    chosen = torch.tensor([True, False, False, False, True])
    assert float(set_logprobs(SAW, chosen).exp()) == pytest.approx(0.560547, rel=2e-6, abs=1e-6)
    every = torch.tensor(list(itertools.product([False, True], repeat=5)))
    shares = set_logprobs(SAW.expand(32, 5), every).exp()
    for size in range(6):
        assert float(shares[every.sum(1) == size].sum()) == pytest.approx(1)


def test_the_loss_of_saw() -> None:
    pairs = ArcPairs(*(torch.tensor(each) for each in ([3], [0, 0, 0], [0, 0, 0], [0, 1, 2])))
    adjacency = torch.zeros(1, 4, 4, dtype=torch.bool)
    adjacency[0, 0, 3] = adjacency[0, 3, 2] = True
    never = torch.tensor([-1e4])  # of the word with itself
    scores = Scores(SAW[:3], torch.tensor([9.0, 1.0, 3.0]), never, torch.zeros(1, 30))
    assert float(arc_loss(scores, pairs, adjacency)) == pytest.approx(2.495186, rel=2e-6, abs=1e-6)


def test_the_best_sets_are_those_of_all() -> None:
    scores = torch.stack([SAW, torch.tensor([0.5, 0.25, -torch.inf, 1.5, -torch.inf])])
    sums, chosen = best_sets(scores, 4)
    for r, own in enumerate(scores.tolist()):
        for a in range(6):
            every = sorted((sum(each) for each in itertools.combinations(own, a)), reverse=True)
            wanted = [total for total in every if total > -math.inf][:4]
            found = sums[r, a]
            assert found[: len(wanted)].tolist() == pytest.approx(wanted)
            assert bool((found[len(wanted) :] == -torch.inf).all())
            for total, members in zip(wanted, chosen[r, a], strict=False):
                assert float(scores[r][members].sum()) == pytest.approx(total)


def test_the_best_sets_of_a_late_word() -> None:
    """Word 17 has 33 candidates, of which 29 at most become arcs."""
    scores = torch.randn(1, 33, generator=torch.Generator().manual_seed(0)).double()
    sums, chosen = best_sets(scores, 2)
    ranked = scores[0].sort(descending=True).values
    assert (sums.shape, chosen.shape) == ((1, 30, 2), (1, 30, 2, 33))
    for a in range(1, 30):  # the second set has the next candidate for its last one
        wanted = float(ranked[:a].sum())
        assert sums[0, a].tolist() == pytest.approx([wanted, wanted - float(ranked[a - 1] - ranked[a])])
        for total, members in zip(sums[0, a].tolist(), chosen[0, a], strict=True):
            assert int(members.sum()) == a
            assert float(scores[0][members].sum()) == pytest.approx(total)


# --- the distribution -------------------------------------------------------------------------


def test_legal_counts() -> None:
    words = torch.arange(1, 20)
    for masked in (True, False):
        found = count_logprobs(torch.zeros(19, 30).double(), words, masked=masked).exp()
        total = [1.0] * 19 if masked else [min(30, 2 * t) / 30 for t in range(1, 20)]
        assert found.sum(1).tolist() == pytest.approx(total)
        assert (found > 0).sum(1).tolist() == [min(30, 2 * t) for t in range(1, 20)]
    five = [float(count_logprobs(torch.zeros(5, 30), words[:5], masked=False).exp().sum(1).prod())]
    assert five == pytest.approx([1.6e-4], rel=0.03)


@pytest.mark.parametrize(("arcs", "numbers"), [("released", [1, 2, 8, 48]), ("set", [1, 2, 16, 512])])
def test_numbers_of_derivations(arcs: str, numbers: list[int]) -> None:
    model = gilt(arcs=arcs)
    found = [len(enumerate_derivations(model, row([3, 4, 3][:n]).tolist()).joints) for n in range(4)]
    assert found == numbers


def test_zero_weights() -> None:
    """p(x, a) = (V + 1)^-6 / 3840 of five words, for V tokens and end-of-sentence."""
    model = gilt()
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.zero_()
    model.begins.fill_(True)
    tokens = [3, 4, 3, 4, 5]
    found = model.forward_parts(packed(model, tokens, Graph.of(5, [], [])))
    joint = float((found.token_logprobs.sum() + found.attach_logprobs.sum()).detach())
    assert joint == pytest.approx(-6 * math.log(4) - math.log(3840))
    every = enumerate_derivations(model, row(tokens[:3]).tolist())
    assert every.prefix_logprobs[-1] == pytest.approx(-4 * math.log(4))
    assert all(joint == pytest.approx(-4 * math.log(4) - math.log(48)) for joint, _ in every.joints)


@pytest.mark.parametrize("arcs", ["released", "set"])
def test_all_strings_sum_to_1(arcs: str) -> None:
    """Strings of up to one token, and the beginnings of longer ones."""
    model = gilt(arcs=arcs)
    shares = [enumerate_derivations(model, row([]).tolist()).prefix_logprobs[-1]]
    for token in (3, 4, 5):
        shares.append(enumerate_derivations(model, row([token]).tolist()).prefix_logprobs[-1])
        for other in (3, 4, 5):
            shares.append(enumerate_derivations(model, [ROOT, token, other]).prefix_logprobs[-1])
    assert sum(map(math.exp, shares)) == pytest.approx(1)


# --- the plain formulation --------------------------------------------------------------------


@pytest.mark.parametrize("arcs", ["released", "set"])
@pytest.mark.parametrize("tokens", [[3, 4], [3, 5, 4]])
def test_equal_to_the_plain_search(arcs: str, tokens: list[int]) -> None:
    model = gilt(arcs=arcs)
    starts = [token != 5 for token in tokens]
    sums, hypotheses = plain.search(
        PlainNetwork(model), tokens, starts, root=ROOT, eos=EOS, sets=arcs == "set"
    )
    found = enumerate_derivations(model, row(tokens).tolist())
    assert found.prefix_logprobs[1:] == pytest.approx(sums, rel=2e-6, abs=1e-5)
    assert [joint for joint, _ in found.joints] == pytest.approx(
        [each.joint for each in hypotheses], rel=2e-6, abs=1e-5
    )
    for each in hypotheses[:5]:
        graph = Graph.of(2, *(list(ends) for ends in zip(*each.graph, strict=True))) if each.graph else None
        parts = model.forward_parts(packed(model, tokens, graph or Graph.of(2, [], [])))
        joint = float(parts.token_logprobs.sum() + parts.attach_logprobs.sum())
        assert joint == pytest.approx(each.joint, rel=2e-6, abs=1e-5)


def test_the_loss_is_that_of_the_plain_formulation() -> None:
    model, tokens = gilt(), [3, 4, 5, 3, 3]
    graph = random_graph(4, seed=1)
    network = PlainNetwork(model)
    starts = [token != 5 for token in tokens]
    read, said = plain.given(network, tokens, starts, graph.arcs, root=ROOT)
    wanted = {"token_nll": -sum(said) - network.tokens(read)[EOS], "count_nll": 0.0, "arc_bce": 0.0}
    for k, (token, start) in enumerate(zip(tokens, starts, strict=True), start=1):
        if not start:
            continue
        t = read[k].word
        old = plain.features(graph.arcs, t - 1)
        own = [arc for arc in graph.arcs if max(arc) == t]
        wanted["count_nll"] -= network.counts(read[:k], token, old)[len(own)]
        for arc, score in network.scores(read[:k], token, old).items():
            wanted["arc_bce"] += math.log1p(math.exp(-score if arc in own else score))
    found = model.loss(packed(model, tokens, graph))
    assert {name: float(each) for name, each in found.sums.items()} == pytest.approx(wanted, rel=1e-5)
    assert int(found.counts["words"]) == 4


@pytest.mark.parametrize("positions", ["relative", "learned"])
@pytest.mark.parametrize("norm", ["pre", "post"])
def test_token_by_token_equals_one_pass(positions: str, norm: str) -> None:
    """With a scorer of its own width, of several rows at once; counts need not reach their graphs."""
    model = gilt(positions=positions, norm=norm, scorer_width=4, layers=3)
    strings = [[3, 4, 5, 3, 4], [4, 5, 5, 3, 3]]
    graphs = [random_graph(4, seed=2), random_graph(3, seed=3)]
    batch = model.pack([(row(tokens), graph) for tokens, graph in zip(strings, graphs, strict=True)])
    parts = model.forward_parts(batch)
    made = ArcDerivations(model, 2, 7)
    state = made.state
    for k, tokens in enumerate(torch.tensor(strings).T, start=1):
        wanted = parts.token_logprobs[:, k]
        assert model.token_logprobs(state, tokens).tolist() == pytest.approx(
            wanted.tolist(), rel=2e-6, abs=1e-5
        )
        nodes = state.networks.shape[1]
        chosen = torch.zeros(2, 2 * nodes, dtype=torch.bool)
        for r, graph in enumerate(graphs):
            if batch.word[r, k] != batch.word[r, k - 1]:
                t = int(batch.word[r, k])
                of_t = [arc for arc in graph.arcs if max(arc) == t]
                for head, dependent in of_t:
                    chosen[r, head if dependent == t else nodes + dependent] = True
        made.read(tokens, chosen)
    assert [str(graph_of_history(each)) for each in made.history.numpy()] == list(map(str, graphs))
    last = model.next_token_logprobs(state)[:, EOS]
    assert last.tolist() == pytest.approx(parts.token_logprobs[:, -1].tolist(), rel=2e-6, abs=1e-5)


def test_vectors_of_steps_are_made_anew_after_weights_change() -> None:
    model = gilt()
    found = []
    for _ in range(2):
        with torch.inference_mode():
            made = ArcDerivations(model, 1, 4)
            for token in (3, 4):
                made.extend(torch.tensor([token]), torch.tensor([1]))
            found.append(model.next_token_logprobs(made.state)[0])
        with torch.no_grad():
            for parameter in model.blocks[0].attention.terms[1].parameters():
                parameter.mul_(2)
    assert float((found[0] - found[1])[2:].abs().max()) > 1e-3


@pytest.mark.parametrize("changed", ["key map", "tables"])
def test_vectors_of_steps_are_those_of_the_present_weights(changed: str) -> None:
    model = gilt()
    term, key_map = model.blocks[0].attention.terms[1], torch.randn(16, 16).double()
    with torch.no_grad():
        before = term.vectors(key_map, None)
        assert term.vectors(key_map, None) is before
        (key_map if changed == "key map" else model.feature_embedding.weight).mul_(2)
        torch.testing.assert_close(term.vectors(key_map, None), 2 * before)


def test_padding_changes_nothing() -> None:
    model = gilt(arcs="set")
    rows = [
        (row([3, 4, 5, 3]), random_graph(3, 1)),
        (row([4]), random_graph(1, 2)),
        (row([]), Graph.of(0, [], [])),
    ]
    together = model.forward_parts(model.pack(rows))
    for r, each in enumerate(rows):
        alone, n = model.forward_parts(model.pack([each])), len(each[0])
        for name in ("token_logprobs", "attach_logprobs"):
            one, other = getattr(alone, name)[0], getattr(together, name)[r]
            assert one.tolist() == pytest.approx(other[:n].tolist(), abs=1e-9)
            assert not other[n:].any()


def test_without_maps_of_features_it_is_a_plain_transformer() -> None:
    model = gilt()
    with torch.no_grad():
        for name, parameter in model.named_parameters():
            if ".maps." in name:
                parameter.zero_()
    plain_model = tiny_model("transformer", **{name: SETTINGS[name] for name in list(SETTINGS)[1:]}).double()
    plain_model.load_state_dict(
        {name: each for name, each in model.state_dict().items() if name in plain_model.state_dict()}
    )
    tokens, graph = [3, 4, 5, 3], random_graph(3, 4)
    batch = packed(model, tokens, graph)
    hidden, _ = model._read_rows(batch)
    logits = plain_model.logits(plain_model.final_states(batch))  # type: ignore[operator]
    logits[:, :, [model.pad_id, model.root_id]] = -torch.inf
    torch.testing.assert_close(model.logits(hidden), logits)
    assert any(isinstance(term, RelativePositions) for term in model.blocks[0].attention.terms)


def test_a_later_arc_changes_nothing_before_its_word() -> None:
    model, tokens = gilt(), [3, 4, 3, 4]
    before = Graph.of(4, [0, 2], [2, 1])
    after = Graph.of(4, [0, 2, 4, 4], [2, 1, 3, 1])
    found = [model.forward_parts(packed(model, tokens, graph)).token_logprobs[0] for graph in (before, after)]
    assert found[0][:5].tolist() == pytest.approx(found[1][:5].tolist(), abs=1e-12)
    assert abs(float(found[0][5] - found[1][5])) > 1e-4


def test_gradients_reach_all_weights() -> None:
    model = gilt()
    found = model.loss(packed(model, [3, 4, 5, 3], random_graph(3, 5)))
    sum(found.sums.values(), torch.zeros(())).backward()  # type: ignore[no-untyped-call]
    still = [name for name, each in model.named_parameters() if each.grad is None or not each.grad.any()]
    assert still == []


def test_features_are_clamped_and_counted() -> None:
    m = 30
    tokens = [3] * m
    graph = Graph.of(m, [0, *range(1, m)], range(1, m + 1))
    batch = packed(gilt(max_length=40), tokens, graph)
    far = sum(1 for t in range(1, m + 1) for j in range(t + 1) if t - j > 150)
    assert int(batch.clamped.sum()) == far == 0
    backwards = Graph.of(m, [*range(2, m + 1), 0], [*range(1, m), m])
    batch = packed(gilt(max_length=40), tokens, backwards)
    wanted = sum(1 for t in range(1, m + 1) for j in range(1, t + 1) if 10 * (t - j) > 150)
    assert int(batch.clamped.sum()) == wanted > 0
    assert int(batch.features.max()) == 150


@pytest.mark.parametrize("values", [50, 151])
def test_tokens_see_features_through_the_rows_in_use(values: int) -> None:
    """Few rows have places of 8 bits, more than 256 of 16."""
    m = 20
    batch = packed(gilt(max_length=30), [3, 4] * (m // 2), Graph.of(m, [], []))
    generator = torch.Generator().manual_seed(0)
    features = torch.randint(values, batch.features.shape, generator=generator, dtype=torch.uint8)
    place, rows = replace(batch, features=features).at_tokens()
    assert (len(rows) > 256) == (values == 151)
    word = torch.tensor([0, *range(1, m + 1), m])  # one token each; end-of-sentence has the last one's
    wanted = features[0][:, word][:, :, word].long()
    wanted[:, 0] = wanted[:, :, 0] = 0  # ROOT
    first = 151 * torch.arange(3)[:, None, None]
    assert torch.equal(rows[place[0].long()], wanted + first)


def test_token_by_token_equals_one_pass_where_features_are_clamped() -> None:
    """In a chain of 20 words distances are up to 190, beyond the 151 values with embeddings."""
    m = 20
    model = gilt(max_length=30)
    tokens, graph = [3, 4] * (m // 2), Graph.of(m, [*range(2, m + 1), 0], [*range(1, m), m])
    batch = packed(model, tokens, graph)
    assert int(batch.clamped) > 0
    wanted = model.forward_parts(batch).token_logprobs[0, 1:-1]
    made, found = ArcDerivations(model, 1, m + 2), []
    for t, token in enumerate(torch.tensor(tokens)[:, None], start=1):
        found.append(float(model.token_logprobs(made.state, token)))
        chosen = torch.zeros(1, 2 * made.state.networks.shape[1], dtype=torch.bool)
        chosen[0, 0] = t == m  # the root's arc; its other one is to the word before
        if t > 1:
            chosen[0, made.state.networks.shape[1] + t - 1] = True
        made.read(token, chosen)
    assert found == pytest.approx(wanted.tolist(), rel=2e-6, abs=1e-5)


def test_as_many_arcs_as_a_word_may_have() -> None:
    model = gilt()
    for number, problem in ((29, None), (30, "30 or more arcs at a word")):
        graph = Graph.of(40, range(number), [40] * number)
        assert model.problem(graph) == problem


@pytest.mark.parametrize(
    ("settings", "problem"),
    [
        ({"best_counts": -1}, "best_counts must be at least 0"),
        ({"scorer_width": -1}, "scorer_width must be at least 0"),
        ({"feature_width": 0}, "feature_width must be at least 1"),
        ({"counts": "legal"}, "counts must be one of masked, all, not 'legal'"),
        ({"arcs": "sets"}, "arcs must be one of released, set, not 'sets'"),
        ({"positions": "rotary"}, "rotary positions do not go with features of graphs"),
        ({"objective": "masked"}, "no windows, no masked objective"),
        ({"stack_layers": "all"}, "gilt has no attachment_head"),
    ],
)
def test_settings_that_make_no_model(settings: dict[str, object], problem: str) -> None:
    with pytest.raises(PdtoolsError, match=problem):
        gilt(**settings)


def test_the_loss_of_a_step() -> None:
    """Weights of its three sums, .4 by default, over sentences, of which there are two."""
    model = gilt()
    batch = model.pack([(row([3, 4, 5, 3]), random_graph(3, 1)), (row([4, 3]), random_graph(2, 2))])
    parts = model.loss(batch)
    token, count, arc = (float(parts.sums[name]) for name in ("token_nll", "count_nll", "arc_bce"))
    for weights, wanted in (
        ({}, token + 0.4 * (count + arc)),
        ({"count_weight": 0.5, "arc_weight": 0.125}, token + count / 2 + arc / 8),
    ):
        config = TrainConfig(normalize="sentence", **weights)
        assert float(StepWeights(config, [batch], Ranks()).loss(parts)) == pytest.approx(wanted)
        assert int(base_count(batch, config)) == 2
    sums = LossSums({name: float(each) for name, each in (parts.sums | parts.counts).items()})
    scores = sums.scores(TrainConfig(), model)
    assert scores["count_loss"] == pytest.approx(count / 5)
    assert scores["arc_loss"] == pytest.approx(arc / 5)
