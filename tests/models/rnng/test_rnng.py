"""RNNGs: against a plain formulation, enumeration, and, where there is a copy, the released code."""

from __future__ import annotations

import itertools
import math
import os
import sys
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
import torch
from enumeration import enumerate_derivations
from rnng_oracle import EACH, NAMES, legal, plain_actions, plain_logprobs, random_rows, rnng

from pdtools.cli.main import run
from pdtools.errors import PdtoolsError
from pdtools.models import LoadedModel
from pdtools.models.kernels import decoding
from pdtools.models.rnng.composition import AttentionComposition
from pdtools.models.rnng.config import RnngConfig
from pdtools.models.rnng.model import RnngLM
from pdtools.search.families.word_synchronous import word_synchronous_search
from pdtools.search.kinds import particle_search
from pdtools.search.model import Model
from pdtools.search.options import Particles, SearchOptions
from pdtools.search.sampling import sample
from pdtools.search.scores import SentenceScore, Unscorable
from pdtools.shards import ShardSet
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


@pytest.mark.parametrize(("name", "composition"), EACH)
@pytest.mark.parametrize("max_open", [1, 2])
def test_particles_open_no_more_than_there_is_room_for(name: str, composition: str, max_open: int) -> None:
    """All legal sequences of actions, from the plain formulation's list, are all that particles are."""
    in_order = name == "rnng-in-order"
    model = rnng(name, composition, labels=1, max_open=max_open, max_chain=1 if in_order else 2)
    ids = np.array([1, 3, 4, 5, 2], np.int32)

    def sequences(before: list[str | int], words: list[int]) -> Iterator[list[str | int]]:
        if (
            before
            and not words
            and (before[-1] == "." if in_order else before.count("(0") == before.count(")"))
        ):
            yield before
            return
        may = legal(before, model) - ({"word", "rest", "."} if words else {"word", "rest"})
        for action in sorted(may):
            yield from sequences([*before, "(0" if action == "(" else action], words)
        if words and "word" in legal(before, model):
            yield from sequences([*before, words[0]], words[1:])

    every = list(sequences([], ids[1:-1].tolist()))
    depths = [np.cumsum([{"(": 1, ")": -1}.get(str(a)[0], 0) for a in each]).max() for each in every]
    assert max(depths) == max_open
    wanted = torch.stack([plain_logprobs(model, each).sum() for each in every]).logsumexp(0)
    (found,) = particle_search(model, [ids], Particles(number=50_000, seed=0))
    assert found.prefix_logprobs[-1] == pytest.approx(wanted.item(), abs=1e-5)


@pytest.mark.parametrize("name", NAMES)
def test_words_that_no_token_stands_for(name: str) -> None:
    """Without <unk>, a sentence has no score and the others do; with it, the word is one."""
    for unk in (False, True):
        tokenizer = train_word_tokenizer(["a", "b", "c"], text_style="ptb", unk=unk).with_labels(("S", "NP"))
        model = rnng(name, words=tokenizer.vocab_size - 3)
        model.use_tokenizer(tokenizer)
        one = LoadedModel(model, tokenizer, {"model": name, "shards": {"layout": "sentence"}}, Path(name))
        asked = Model.of(one, SearchOptions(beam=20, word_beam=5))
        first, second, third = asked.score(["a b", "a zebra b xylem", "b"])
        assert isinstance(first, SentenceScore)
        assert isinstance(third, SentenceScore)
        if unk:
            assert isinstance(second, SentenceScore)
            assert second.tokens[:4] == ("a", "<unk>", "b", "<unk>")
        else:
            assert isinstance(second, Unscorable)
            assert second.reason == "words unknown to the model: zebra, xylem"


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


def binary_trees(first: int, past: int) -> Iterator[list[tuple[int, int]]]:
    """The spans of each binary tree over some words."""
    if past - first < 2:
        yield []
    for split in range(first + 1, past):
        for left, right in itertools.product(binary_trees(first, split), binary_trees(split, past)):
            yield [(first, past), *left, *right]


def constituents(spans: list[tuple[int, int]], n: int) -> Constituents:
    """Constituents of one label; those of one word too, if it is all."""
    starts, ends = zip(*(spans or [(0, 1)]), strict=True)
    opens, closes = (np.bincount(at, minlength=n).astype(np.int32) for at in (starts, np.array(ends) - 1))
    return Constituents(np.zeros(len(starts), np.int32), opens, closes)


@pytest.mark.parametrize("name", NAMES)
def test_constituents_that_are_open_at_once(name: str, tmp_path: Path) -> None:
    """All binary trees of up to six leaves, and deep ones: as many as the stack of their actions ever has."""
    trees = [(n, spans) for n in range(1, 7) for spans in binary_trees(0, n)]
    assert len(trees) == 1 + 1 + 2 + 5 + 14 + 42
    deep = 60
    left = [(0, past) for past in range(deep, 1, -1)]
    right = [(first, deep) for first in range(deep - 1)]
    trees += [(deep, left), (deep, right)]
    seen: dict[int, int] = {}
    models = {1: rnng(name, max_open=1, max_chain=deep)}
    for n, spans in trees:
        tree = constituents(spans, n)
        most = opened = 0
        for action in plain_actions([3] * n, tree, models[1]):
            opened += {"(": 1, ")": -1}.get(str(action)[0], 0)
            most = max(most, opened)
        for max_open in {max(1, most - 1), most, most + 1}:
            model = models.setdefault(max_open, rnng(name, max_open=max_open, max_chain=deep))
            problem = f"more than {max_open} constituents open at once (config.max_open)"
            assert model.problem(tree) == (None if most <= max_open else problem)
        seen[most] = seen.get(most, 0) + 1
    assert seen[deep - 1] == (2 if name == "rnng" else 1)
    assert name == "rnng" or seen[1] == 7  # left-branching

    def brackets(spans: list[tuple[int, int]]) -> str:
        return "".join(
            "(S " * sum(first == k for first, _ in spans)
            + "(X a)"
            + ")" * sum(past == k + 1 for _, past in spans)
            for k in range(deep)
        )

    (tmp_path / "some.trees").write_text(f"{brackets(left)}\n{brackets(right)}\n")
    command = ["tapes", str(tmp_path / "some.trees"), "--tokenizer", "word", "--min-count", "1", "-q"]
    assert run([*command, "-o", str(tmp_path / "shards")]) == 0
    shards = ShardSet.open(tmp_path / "shards")
    model = rnng(name, labels=1, words=shards.tokenizer.vocab_size - 3, max_chain=deep)
    unfit = model.unfit_rows(shards)
    assert [rows.tolist() for rows, _ in unfit] == [[name == "rnng", True]]
    assert unfit[0][1] == "more than 2 constituents open at once (config.max_open)"


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


def test_weights_and_vectors_are_each_constituents_own() -> None:
    """Constituents of 1, 3 and 2 children together, whose order by length is no order of pairs, and alone."""
    torch.manual_seed(0)
    config = RnngConfig(vocab_size=9, pad_id=0, root_id=1, eos_id=2, d_model=4, n_labels=3)
    composition = AttentionComposition(config).eval()
    vectors, state, labels = torch.randn(9, 4), torch.randn(3, 4), torch.tensor([0, 2, 1])
    children, counts = torch.tensor([[1, 0, 0], [2, 3, 4], [5, 6, 0]]), torch.tensor([1, 3, 2])
    with torch.no_grad():
        weights = composition.weights(vectors, children, counts, labels, state)
        composed = composition(vectors, labels, children, counts, labels, state)
        for c, n in enumerate(counts.tolist()):
            one = slice(c, c + 1)
            alone = children[one, :n], counts[one], labels[one], state[one]
            torch.testing.assert_close(weights[one, :n], composition.weights(vectors, *alone))
            torch.testing.assert_close(composed[one], composition(vectors, labels[one], *alone))


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
