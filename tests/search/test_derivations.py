"""One protocol for all derivations: attachments against the plain reference, and a model of another kind."""

from __future__ import annotations

import itertools
import json
import math
from collections import Counter
from collections.abc import Sequence
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from search_oracle import EOS, PAD, ROOT, WORDS, all_attachments, exhaustive_prefixes, parts, row, tiny_model
from toy_grammar_lm import (
    EnumeratingFamily,
    ToyConfig,
    ToyGrammarLM,
    enumerate_derivations,
)

from pdtools.cli.main import run
from pdtools.models import MODELS, LanguageModel, LoadedModel, ModelKind, save_checkpoint
from pdtools.search import beam_search, sample
from pdtools.search.kinds import SEARCHES
from pdtools.search.model import Model
from pdtools.search.options import SearchOptions
from pdtools.search.parses import Parsed, ParsedScore
from pdtools.search.scores import Unscorable
from pdtools.tokenization import train_word_tokenizer
from pdtools.trees import Tree

TOKENS = (3, 4, 5)


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


# --- an action model ---------------------------------------------------------------------------


@pytest.fixture
def toy(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A checkpoint of an action model, whose kind and searcher are registered for the time of a test."""
    monkeypatch.setitem(MODELS, "toy", None)
    MODELS["toy"] = ModelKind(ToyConfig, ToyGrammarLM)
    monkeypatch.setitem(SEARCHES, "toy actions", EnumeratingFamily)
    tokenizer = train_word_tokenizer(WORDS, text_style="ptb", unk=False).with_labels(("S", "Y"))
    shards = {"layout": "sentence", "factor": "right", "text_style": "ptb"}
    save_checkpoint(tmp_path / "toy", toy_model(), tokenizer, shards=shards)
    return tmp_path / "toy"


def toy_model(max_open: int = 3) -> ToyGrammarLM:
    torch.manual_seed(1)
    config = ToyConfig(vocab_size=6, pad_id=PAD, root_id=ROOT, eos_id=EOS, max_open=max_open)
    return ToyGrammarLM(config).eval()


def plain_marginal(model: ToyGrammarLM, tokens: Sequence[int]) -> float:
    """log p(x) by a recursion over (last action, open constituents, tokens there): no protocol, no beam."""

    @cache
    def rest(last: int, n_open: int, done: int) -> float:
        logprobs, total = model.action_logprobs(last, n_open), 0.0
        for action in model.allowed(last, n_open):
            weight = math.exp(logprobs[action])
            if action == EOS:
                total += weight * (done == len(tokens))
            elif action in (model.open_id, model.close_id):
                total += weight * rest(action, n_open + model.opened(action), done)
            elif done < len(tokens) and action == tokens[done]:
                total += weight * rest(action, n_open, done + 1)
        return total

    return math.log(rest(ROOT, 0, 0))


@pytest.mark.parametrize(("max_open", "numbers"), [(2, (2, 5, 13, 34)), (3, (3, 14, 70, 353))])
def test_the_toy_has_the_known_numbers_of_derivations(max_open: int, numbers: tuple[int, ...]) -> None:
    model = toy_model(max_open)
    for n, number in enumerate(numbers, start=1):
        tokens = [3, 4, 5, 3][:n]
        found = enumerate_derivations(model, row(tokens).tolist())
        assert len(found.joints) == number
        assert found.prefix_logprobs[-1] == pytest.approx(plain_marginal(model, tokens), abs=1e-9)


def test_perplexity_of_the_three_kinds(toy: Path, tmp_path: Path) -> None:
    (tmp_path / "in.trees").write_text("(S (X a) (X b))\n(S (Y (X c) (X a)) (X b))\n")
    shards, out = tmp_path / "shards", tmp_path / "ppl"
    assert run(["tapes", str(tmp_path / "in.trees"), "--tokenizer", str(toy), "-o", str(shards), "-q"]) == 0
    assert run(["eval-ppl", str(shards), "--model", str(toy), "-o", str(out), "-q", "--json"]) == 0
    model, scores = toy_model(), json.loads((out / "results.json").read_text())["scores"]
    strings = [[3, 4], [5, 3, 4]]
    n_tokens = sum(len(tokens) + 1 for tokens in strings)
    marginal = -sum(plain_marginal(model, tokens) for tokens in strings) / n_tokens
    assert math.log(scores["ppl_token_marginal"]) == pytest.approx(marginal, abs=1e-9)
    o, c = model.open_id, model.close_id
    actions = [[o, 3, 4, EOS], [o, o, 5, 3, c, 4, EOS]]
    joint = words = 0.0
    for line in actions:
        n_open = 0
        for last, action in itertools.pairwise([ROOT, *line]):
            logprob = float(model.action_logprobs(last, n_open)[action])
            joint, words = joint + logprob, words + logprob * (action < model.vocab_size)
            n_open += model.opened(action)
    assert math.log(scores["ppl_token_joint"]) == pytest.approx(-joint / n_tokens, abs=1e-9)
    assert math.log(scores["ppl_token_given_trees"]) == pytest.approx(-words / n_tokens, abs=1e-9)


def test_parses(toy: Path, tmp_path: Path) -> None:
    sentences = ["a b c", "c", "b a", "c a b"]
    (tmp_path / "in.txt").write_text("".join(line + "\n" for line in sentences))
    out = tmp_path / "out.trees"
    assert run(["decode", str(tmp_path / "in.txt"), "--model", str(toy), "-o", str(out), "-q"]) == 0
    model = toy_model()
    for line, sentence in zip(out.read_text().splitlines(), sentences, strict=True):
        parsed, ids = Tree.from_brackets(line), row([3 + WORDS.index(w) for w in sentence.split()])
        choices = enumerate_derivations(model, ids.tolist()).joints[0][1]
        best = model.derive(1, 1).derivation(np.array(choices, np.int32))
        best = best.tree(sentence.split(), range(len(sentence.split())), None)
        assert parsed.words == tuple(sentence.split())
        # Trees come out binary: with the constituents of the best derivation, and more.
        assert _spans(best) <= _spans(parsed)


def _spans(tree: Tree) -> set[tuple[int, int]]:
    """Of two words or more."""
    return {(s, e) for s, e in zip(tree.starts.tolist(), tree.ends.tolist(), strict=True) if e > s + 1}


def test_samples(toy: Path, tmp_path: Path) -> None:
    out = tmp_path / "out.trees"
    assert run(["sample", "--model", str(toy), "-n", "5", "-o", str(out), "-q"]) == 0
    assert len([Tree.from_brackets(line) for line in out.read_text().splitlines()]) == 5
    model = toy_model()
    drawn = list(sample(model, number=2000, seed=3, max_tokens=8))
    short = [draw for draw in drawn if draw.complete and len(draw.tokens) < 4][:20]
    assert len(short) == 20
    for draw in short:
        joints = enumerate_derivations(model, row(draw.tokens.tolist()).tolist()).joints
        assert min(abs(joint - draw.logprob) for joint, _ in joints) < 1e-9
    counts = Counter(tuple(draw.tokens.tolist()) for draw in drawn if draw.complete)
    for tokens in itertools.chain.from_iterable(itertools.product(TOKENS, repeat=n) for n in (1, 2)):
        p = math.exp(plain_marginal(model, tokens))
        assert counts[tokens] == pytest.approx(2000 * p, abs=5 * math.sqrt(2000 * p) + 3)


def test_what_may_follow_adds_up_to_one(toy: Path) -> None:
    from pdtools.models import load_checkpoint

    scorer = Model.of(load_checkpoint(toy), SearchOptions(beam=10))
    (found,) = scorer.continuations([np.array([ROOT, 3, 4], np.int32)])
    assert np.exp(found.logprobs).sum() == pytest.approx(1, abs=1e-9)
