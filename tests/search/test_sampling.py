"""Samples against exact probabilities."""

from __future__ import annotations

import itertools
import math
from collections import Counter

import numpy as np
import pytest
import torch
from search_oracle import EOS, PAD, ROOT, all_attachments, parts, tiny_model

from pdtools.models import LanguageModel
from pdtools.search import sample
from pdtools.search.sampling import SampleCounts, sample_lines
from pdtools.tokenization import split_spaces, train_bpe_tokenizer, train_word_tokenizer
from pdtools.trees import Tree

NEVER_DRAWN = -40.0


def model_that_ends_soon() -> LanguageModel:
    """Padding and ROOT get no probability, and strings are short, so that few have to be enumerated."""
    model = tiny_model(tie_embeddings=False, seed=1)
    assert model.output is not None
    weight = model.output.weight.data
    # The last hidden feature is made a constant, through which the output layer gets biases.
    model.final_norm.weight.data[-1] = 0
    model.final_norm.bias.data[-1] = 1
    weight[:, -1] = 0
    weight[[PAD, ROOT], -1] = NEVER_DRAWN
    weight[EOS, -1] = 1.0
    return model


def test_frequencies_are_exact_probabilities() -> None:
    """Chi-square over all pairs of string and derivation of up to 2 tokens, and the rest together."""
    model, number = model_that_ends_soon(), 4000
    probability: dict[tuple[tuple[int, ...], tuple[int, ...]], float] = {}
    for n in range(3):
        derivations = list(all_attachments(n))
        for tokens in itertools.product((3, 4, 5), repeat=n):
            token, attach = parts(model, tokens, derivations)
            for derivation, joint in zip(derivations, token.sum(1) + attach.sum(1), strict=True):
                probability[tokens, tuple(r - 1 for r in derivation[1:-1])] = math.exp(joint)
    rest = 1 - sum(probability.values())
    assert 0.02 < rest < 0.9
    drawn = Counter(
        (tuple(s.tokens.tolist()), tuple(s.derivation.attach.tolist()))
        for s in sample(model, number=number, seed=5)
    )
    expected = np.array([*probability.values(), rest]) * number
    observed = np.array([drawn.pop(key, 0) for key in probability] + [0])
    observed[-1] = number - observed.sum()
    enough = expected >= 5
    assert enough.sum() > 10
    chi_square = ((observed - expected)[enough] ** 2 / expected[enough]).sum()
    degrees = int(enough.sum()) - 1
    assert chi_square < degrees + 4 * math.sqrt(2 * degrees)


@pytest.mark.parametrize("settings", [{}, {"pushdown_layers": "last 1", "head_reads": "prefix"}])
def test_log_probabilities_are_the_models_own(settings: dict[str, str]) -> None:
    model = tiny_model(**settings)
    for draw in sample(model, number=30, seed=2, max_tokens=6):
        attach = [0, *(draw.derivation.attach + 1).tolist(), 0]
        token, attached = parts(model, draw.tokens.tolist(), [attach])
        counted = token[0].sum() if draw.complete else token[0, :-1].sum()
        assert draw.logprob == pytest.approx(counted + attached[0].sum(), rel=2e-6, abs=1e-4)
        assert draw.complete or len(draw.tokens) == 6


def test_a_draw_depends_on_the_seed_and_its_number_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    model = tiny_model()
    many = list(sample(model, number=20, seed=3, max_tokens=8))
    monkeypatch.setattr("pdtools.search.sampling.BATCH", 3)
    few = list(sample(model, number=10, seed=3, max_tokens=8))
    assert [s.tokens.tolist() for s in few] == [s.tokens.tolist() for s in many[:10]]
    assert [s.derivation.attach.tolist() for s in few] == [s.derivation.attach.tolist() for s in many[:10]]
    other = list(sample(model, number=10, seed=4, max_tokens=8))
    assert [s.tokens.tolist() for s in few] != [s.tokens.tolist() for s in other]


def test_strings_stay_within_the_model() -> None:
    model = tiny_model(positions="learned", max_length=6)
    draws = list(sample(model, number=50, seed=0))
    assert max(len(s.tokens) for s in draws) == 4
    assert not all(s.complete for s in draws)


@pytest.mark.parametrize("name", ["transformer", "pushdown"])
@pytest.mark.parametrize(
    "settings", [{}, {"layout": "window"}, {"layout": "window", "window_roots": "given"}], ids=str
)
def test_no_token_is_drawn_that_no_string_has(name: str, settings: dict[str, str]) -> None:
    """Of the special tokens only the one that ends strings; in windows none does, but a predicted ROOT."""
    model = tiny_model(name, **settings)
    ends = set() if model.layout == "window" and model.end_id != ROOT else {model.end_id}
    logprobs = model.derive(1, 6).logprobs()[0]
    assert set(torch.nonzero(logprobs == -torch.inf)[:, 0].tolist()) == {PAD, ROOT, EOS} - ends


def test_a_model_without_a_head_draws_strings() -> None:
    model = tiny_model("transformer")
    (draw,) = sample(model, number=1, seed=1, max_tokens=5)
    assert draw.derivation.attach.tolist() == list(range(len(draw.tokens)))


def test_lines_are_trees_or_words() -> None:
    tokenizer = train_word_tokenizer(["a", "b", "("], unk=False)
    draws = list(sample(tiny_model(vocab_size=tokenizer.vocab_size), number=40, seed=7, max_tokens=5))
    counts = SampleCounts()
    trees = [Tree.from_brackets(line) for line in sample_lines(draws, tokenizer, counts=counts)]
    strings = list(sample_lines(draws, tokenizer, counts=SampleCounts(), strings=True))
    for draw, tree, string in zip(draws, trees, strings, strict=True):
        assert len(string.split()) == len(draw.tokens)
        assert tree.words == (tuple(string.replace("(", "-LRB-").split()) or ("*",))
    assert counts.strings == 40
    assert counts.tokens == sum(len(d.tokens) for d in draws)
    assert counts.empty == strings.count("") > 0
    assert counts.cut == sum(not d.complete for d in draws) > 0


def test_subwords_are_merged_into_words() -> None:
    tokenizer = train_bpe_tokenizer([split_spaces("the dog barks")], size=265, min_count=1)
    model = tiny_model(vocab_size=tokenizer.vocab_size)
    draws, counts = list(sample(model, number=20, seed=1, max_tokens=12)), SampleCounts()
    lines = list(sample_lines(draws, tokenizer, counts=counts, strings=True))
    assert sum(len(line.split(" ")) for line in lines) < counts.tokens == sum(len(d.tokens) for d in draws)
    for draw in draws:
        tree = draw.tree(tokenizer)
        if tree is not None:
            assert len(tree) == len(draw.words(tokenizer)) <= len(draw.tokens)
            assert Tree.from_brackets(str(tree)) == tree
