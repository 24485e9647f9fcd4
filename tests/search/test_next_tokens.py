"""What may stand at every place of sentences: the scores are its entries of the tokens that came."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from action_oracle import action_model
from hypothesis import given
from hypothesis import strategies as st
from search_oracle import tiny_model
from toy_gpt2 import save_gpt2
from toy_models import loaded

from pdtools.errors import PdtoolsError
from pdtools.models import LanguageModel
from pdtools.search import SentenceScore, load_model
from pdtools.search.model import Model
from pdtools.search.next_tokens import likeliest, ranks, word_beginnings
from pdtools.search.options import Context, SearchOptions
from pdtools.search.scores import NextTokens, Unscorable
from pdtools.tokenization import Sentence, split_spaces, train_bpe_tokenizer

TEXTS = ["a b c a", "c", "b zebra", "", "b c", "c b a b c"]
BEFORE = Context(of="x", sentences=("a b", "c"))


def after(*texts: str) -> Sentence:
    *before, last = map(split_spaces, texts)
    return Sentence(last.text, last.words, last.starts, last.ends, tuple(before))


def models() -> dict[str, tuple[LanguageModel, Context]]:
    return {
        "pushdown": (tiny_model(), Context()),
        "head": (tiny_model("transformer", attachment_head=True), Context()),
        "base": (tiny_model("transformer", positions="learned"), Context()),
        "windows": (tiny_model("transformer", layout="window", window_roots="predicted"), Context()),
        "context": (tiny_model("transformer", layout="window", window_roots="predicted"), BEFORE),
        "tg": (action_model("tg", "relative"), Context()),
    }


def same(one: SentenceScore, other: SentenceScore) -> None:
    for name in ("text", "tokens", "words", "starts", "ends", "n_unknown", "eos", "first_token", "seen"):
        assert getattr(one, name) == getattr(other, name), name
    np.testing.assert_allclose(one.logprobs, other.logprobs, rtol=2e-6, atol=1e-5)
    assert one.dropped == pytest.approx(other.dropped, abs=1e-6)  # a share, or None


@pytest.mark.parametrize("name", models())
def test_tables_have_the_scores(name: str) -> None:
    model, context = models()[name]
    scorer: Any = Model.of(loaded(name, model), SearchOptions(beam=3), context=context, measures=("entropy",))
    dropped = []
    for found, score in zip(scorer.next_tokens(TEXTS), scorer.score(TEXTS), strict=True):
        if isinstance(score, Unscorable):
            assert found == score
            continue
        assert isinstance(found, NextTokens)
        same(found.score, score)
        p = np.exp(found.logprobs)
        p /= p.sum(1, keepdims=True)
        np.testing.assert_allclose(
            score.measures["entropy"], -(p * np.log(p.clip(1e-300))).sum(1), rtol=2e-6, atol=1e-4
        )
        assert found.logprobs.shape == (len(score.tokens), model.vocab_size)
        rows = np.arange(len(score.tokens))
        np.testing.assert_allclose(found.logprobs[rows, found.ids], score.logprobs, rtol=2e-6, atol=1e-5)
        assert [scorer.vocabulary[token] for token in found.ids[:-1]] == list(score.tokens[:-1])
        assert found.ids[-1] == model.end_id
        assert found.after is None
        dropped.append(score.dropped)
        if not score.dropped:
            np.testing.assert_allclose(np.exp(found.logprobs).sum(1), 1, rtol=2e-6, atol=1e-4)
    assert max(each or 0 for each in dropped) > 0 or name not in ("pushdown", "tg")


@pytest.mark.parametrize("settings", [{"name": "pushdown"}, {"name": "transformer", "window_roots": "given"}])
def test_where_trees_or_shards_end_sentences_nothing_is_known_of_what_follows(
    settings: dict[str, Any],
) -> None:
    scorer: Any = Model.of(loaded("windows", tiny_model(**settings, layout="window")), SearchOptions(beam=3))
    with pytest.raises(PdtoolsError, match="give no distribution of the next token"):
        list(scorer.next_tokens(["a"]))


@pytest.mark.parametrize("name", ["pushdown", "tg"])
def test_what_follows_a_narrow_search_is_a_distribution(name: str) -> None:
    """The mixture of what is kept; likelier by the same factor than the tables' last row, which lost some."""
    scorer: Any = Model.of(loaded(name, models()[name][0]), SearchOptions(beam=3))
    for text in ("a b c a", "c b"):
        found = scorer.following(text)
        assert np.exp(found).sum() == pytest.approx(1, abs=1e-9)
        (table,) = scorer.next_tokens([text])
        words = slice(3, 6)
        assert np.ptp(found[words] - table.logprobs[-1][words]) < 1e-4


@given(st.lists(st.lists(st.integers(-3, 0), min_size=4, max_size=4), min_size=1, max_size=5), st.data())
def test_any_rank_is_that_among_likelier_tokens(rows: list[list[int]], data: st.DataObject) -> None:
    """Equally probable tokens have the same rank, the best."""
    tokens = [data.draw(st.integers(0, 3)) for _ in rows]
    found = ranks(np.array(rows, np.float64), np.array(tokens, np.int32)).tolist()
    assert found == [
        sorted(row, reverse=True).index(row[token]) + 1 for row, token in zip(rows, tokens, strict=True)
    ]


@pytest.fixture(scope="module")
def gpt2(tmp_path_factory: pytest.TempPathFactory) -> Path:
    pytest.importorskip("transformers")
    return save_gpt2(tmp_path_factory.mktemp("hf") / "gpt2", ["The dog barks at cats."], positions=24)


@pytest.mark.parametrize("bos", [True, False])
def test_tables_of_a_hugging_face_model(gpt2: Path, bos: bool) -> None:
    import torch
    import transformers

    model: Any = transformers.AutoModelForCausalLM.from_pretrained(gpt2).eval()
    tokenizer: Any = transformers.AutoTokenizer.from_pretrained(gpt2)
    scorer: Any = load_model(gpt2, bos=bos, context=Context(of="document"))
    texts = [after("The dog barks.", "The cats."), "barks", after("A", "B", "dog barks at cats"), ""]
    for text, found, score in zip(texts, scorer.next_tokens(texts), scorer.score(texts), strict=True):
        if isinstance(score, Unscorable):
            assert found == score
            continue
        same(found.score, score)
        whole = text if isinstance(text, str) else "\n".join(each.text for each in (*text.before, text))
        row = [0] * bos + tokenizer(whole)["input_ids"]
        with torch.no_grad():
            every = model(torch.tensor([row])).logits[0].double().log_softmax(-1).numpy()
        m = len(score.tokens)
        assert found.ids.tolist() == row[-m:]
        assert [scorer.vocabulary[token] for token in found.ids] == [each.strip() for each in score.tokens]
        np.testing.assert_allclose(found.logprobs, every[-m - 1 : -1], rtol=2e-6, atol=1e-4)
        np.testing.assert_allclose(found.after, every[-1], rtol=2e-6, atol=1e-4)
        if isinstance(text, str):
            np.testing.assert_allclose(scorer.following(text), every[-1], rtol=2e-6, atol=1e-4)


@pytest.mark.parametrize("bos", [True, False])
def test_what_is_longer_than_a_hugging_face_model_has_no_tables(gpt2: Path, bos: bool) -> None:
    scorer: Any = load_model(gpt2, bos=bos)
    fits, long = "d" * (24 - bos), "d" * (25 - bos)
    found, problem = scorer.next_tokens([fits, long])
    assert isinstance(found, NextTokens)
    assert len(found.ids) == 23
    assert problem == Unscorable(long, "longer than the model: 25 tokens, at most 24")
    of: Model = load_model(gpt2, bos=bos, context=Context(of="document", window=16))
    (score,) = of.score([after("dog barks", "d" * 8, "The dog")])
    assert isinstance(score, SentenceScore)
    assert score.seen is not None
    assert score.seen[0] >= 9


@pytest.mark.parametrize("style", ["ptb", "raw"])
def test_a_word_has_ended_before_each_beginning_of_one_and_each_end(style: str) -> None:
    """In windows ROOT is an end."""
    made = train_bpe_tokenizer([split_spaces("the dog barks")], size=270, min_count=1, text_style=style)
    begins = np.flatnonzero(word_beginnings(made)).tolist()
    special = {made.pad_id, made.root_id, made.eos_id}
    spaced = {i for i in range(made.vocab_size) if made.text([i]).startswith(" ")} - special
    assert set(begins) - {made.pad_id} == spaced | {made.root_id, made.eos_id}


def test_numbers_that_are_no_tokens_have_ranks_and_no_rows() -> None:
    """Of a model with room for more tokens than its tokenizer has."""
    found = likeliest(np.log([0.125, 0.5, 0.375]), ("a", "b"))
    assert found == [
        [1, "b", pytest.approx(0.5), pytest.approx(1)],
        [3, "a", pytest.approx(0.125), pytest.approx(3)],
    ]
