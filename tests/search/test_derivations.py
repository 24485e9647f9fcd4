"""One protocol for all derivations: attachments against the plain reference."""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from enumeration import (
    enumerate_derivations,
)
from search_oracle import PAD, ROOT, all_attachments, exhaustive_prefixes, parts, row, tiny_model

from pdtools.models import LanguageModel, LoadedModel
from pdtools.search import beam_search
from pdtools.search.model import Model
from pdtools.search.options import SearchOptions
from pdtools.search.parses import Parsed, ParsedScore
from pdtools.search.scores import Unscorable
from pdtools.tokenization import train_word_tokenizer


@pytest.mark.parametrize(
    ("n", "settings"),
    [*((n, {}) for n in range(5)), (3, {"pushdown_layers": "last 1", "head_reads": "prefix"})],
)
def test_choices_of_a_pushdown_model_make_up_its_joint_and_marginal(n: int, settings: dict[str, str]) -> None:
    model, tokens = tiny_model(**settings), [3, 4, 5, 3][:n]
    found = enumerate_derivations(model, row(tokens).tolist())
    assert len(found.joints) == math.comb(2 * n, n) // (n + 1)
    assert found.prefix_logprobs == pytest.approx(exhaustive_prefixes(model, tokens), rel=2e-6, abs=1e-5)
    token, attach = parts(model, tokens, list(all_attachments(n)))
    plain = sorted(token.sum(1) + attach.sum(1), reverse=True)
    assert [joint for joint, _ in found.joints] == pytest.approx(plain, rel=2e-6, abs=1e-5)
    best = model.derive(1, 1).derivation(np.array(found.joints[0][1], np.int32))
    searched = beam_search(model, [row(tokens)], search=SearchOptions(beam=1000))[0].derivations[0][1]
    assert best.tokens.tolist() == tokens
    assert best.attach.tolist() == (searched[1:-1] - 1).tolist()


@pytest.mark.parametrize("kind", ["pushdown", "treereg", "gilt"])
def test_sentences_that_have_no_tree_are_named(kind: str) -> None:
    """One of unknown words, and one with a word that no tree can have; the others keep their places."""
    tokenizer = train_word_tokenizer(["a", "b", "\u200b"], text_style="ptb", unk=False)
    settings: dict[str, Any] = {
        "treereg": {"treereg_layer": 2, "treereg_share": 0.5},
        "gilt": {"feature_width": 6},
    }
    name = "transformer" if kind == "treereg" else kind
    model = tiny_model(name, **settings.get(kind, {})).eval()
    model.use_tokenizer(tokenizer)
    shards = {"layout": "sentence", "factor": "right"}
    of = LoadedModel(model, tokenizer, {"model": name, "shards": shards}, Path("there"))
    asked = Model.of(of, SearchOptions() if kind == "treereg" else SearchOptions(beam=50), parses=True)
    texts = ["a zebra", "b a", "a \u200b b"]
    unknown, good, invisible = asked.parse(texts)
    assert unknown == Unscorable(texts[0], "words unknown to the model: zebra")
    assert isinstance(good, Parsed)
    assert good.k_best[0][1].words == ("b", "a")
    assert invisible == Unscorable(texts[2], "a word without visible characters")
    if kind != "treereg":
        first, *others = asked.score_with_parses(texts)
        assert first == unknown
        assert all(isinstance(each, ParsedScore) for each in others)


@pytest.mark.parametrize("name", ["transformer", "pushdown"])
def test_what_has_ended_and_what_has_not_add_up_to_one(name: str) -> None:
    """Over two words, whatever padding and ROOT are given aside, which is never chosen."""
    model = tiny_model(name, vocab_size=5)
    for n in range(3):
        mass = 0.0
        for m in range(n + 1):
            for tokens in itertools.product((3, 4), repeat=m):
                found = enumerate_derivations(model, row(tokens).tolist()).prefix_logprobs
                mass += math.exp(found[-1])
                if m == n:  # what these strings go on with
                    mass += math.exp(found[-2]) - math.exp(found[-1])
        lost = _never_chosen(model, n)
        assert mass == pytest.approx(1 - lost, rel=2e-6, abs=1e-5)


def _never_chosen(model: LanguageModel, n: int) -> float:
    """The probability that padding or ROOT come within n tokens."""
    total = 0.0
    for m in range(n):
        for tokens in itertools.product((3, 4), repeat=m):
            for never in (PAD, ROOT):
                follows = parts_or_string(model, [*tokens, never])
                total += math.exp(follows)
    return total


def parts_or_string(model: LanguageModel, tokens: Sequence[int]) -> float:
    """log p of a prefix that may hold padding and ROOT, over all attachments of the tokens but the last."""
    later = [len(tokens), 0]
    attach = [a[:-1] + later for a in all_attachments(len(tokens) - 1)]
    token, attached = parts(model, tokens, attach)
    sums = token[:, : len(tokens) + 1].sum(1) + attached[:, : len(tokens)].sum(1)
    return float(np.logaddexp.reduce(sums)) if model.derivation_kind.exist else float(sums[0])
