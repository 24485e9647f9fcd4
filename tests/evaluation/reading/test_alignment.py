"""Tokens and a corpus' words: hostile tokenisations, and a plain loop over characters."""

from __future__ import annotations

import dataclasses
import itertools
import math
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from search_oracle import tiny_model
from toy_gpt2 import save_gpt2

from pdtools.evaluation.reading.scoring import CROSSING, UNCOVERED, UNKNOWN, WordValues, align
from pdtools.models import save_checkpoint
from pdtools.search import SentenceScore, load_model
from pdtools.search.model import Model
from pdtools.search.scores import Unscorable
from pdtools.tokenization import join_words, split_words, train_bpe_tokenizer, train_word_tokenizer

BIT = math.log(2)


def score_of(text: str, spans: list[tuple[int, int]], **more: object) -> SentenceScore:
    """Tokens of −1, −2, −4, … bits, so that a sum tells which ones are in it."""
    return SentenceScore(
        text=text,
        tokens=tuple(text[a:b] for a, b in spans),
        words=(0,) * len(spans),
        starts=tuple(a for a, _ in spans),
        ends=tuple(b for _, b in spans),
        logprobs=-BIT * 2.0 ** np.arange(len(spans)),
        n_unknown=0,
        eos=False,
        **more,  # type: ignore[arg-type]
    )


def spans_of(text: str, *tokens: str) -> list[tuple[int, int]]:
    """Where tokens are that follow each other, spaces aside."""
    spans, at = [], 0
    for token in tokens:
        start = text.index(token, at)
        spans.append((start, start + len(token)))
        at = start + len(token)
    return spans


def aligned(words: list[str], *tokens: str) -> WordValues:
    written = join_words(words, "ptb")
    return align(written, [(0, score_of(written.text, spans_of(written.text, *tokens)))])


def test_subwords_may_cross_punctuation_but_not_words() -> None:
    found = aligned(["U.S.-led", "a", "b", "c."], "U.S", ".-l", "ed", "a b", "c.")
    assert found.values["surprisal"] == pytest.approx([7, math.nan, math.nan, 16], nan_ok=True)
    assert found.reasons == {1: CROSSING, 2: CROSSING}


def test_a_word_with_a_part_outside_of_tokens_has_no_value() -> None:
    written = join_words(["naïve", "cat"], "ptb")
    found = align(written, [(0, score_of(written.text, [(0, 2), (3, 5), (6, 9)]))])
    assert found.reasons == {0: UNCOVERED}
    assert found.values["surprisal"][1] == pytest.approx(4)


def test_parts_of_a_character_and_tokens_of_space_count_in_their_word() -> None:
    written = join_words(["a", "🐈b", "c"], "ptb")
    spans = [(0, 1), (2, 2), (2, 3), (2, 3), (2, 3), (3, 4), (5, 6)]  # the second: a space, before the cat
    found = align(written, [(0, score_of(written.text, spans))])
    assert found.values["surprisal"] == pytest.approx([1, 2 + 4 + 8 + 16 + 32, 64])


def test_words_of_the_corpus_may_hold_spaces() -> None:
    found = aligned(["New York,", "10\xa0km"], "New", "York", ",", "10", "km")
    assert found.values["surprisal"] == pytest.approx([7, 24])


def test_unknown_words_and_sentences_without_scores() -> None:
    written = join_words(["the", "zebra", "ran.", "It", "<unk>"], "ptb")
    first = score_of("the zebra ran.", spans_of("the zebra ran.", "the", "zebra", "ran", "."))
    first = dataclasses.replace(first, tokens=("the", "<unk>", "ran", "."), n_unknown=1)
    found = align(written, [(0, first), (15, Unscorable("It <unk>", "longer than the model"))])
    assert found.reasons == {1: UNKNOWN, 3: "longer than the model", 4: "longer than the model"}
    written = join_words(["<unk>"], "ptb")  # as text, it is known
    assert not align(written, [(0, score_of("<unk>", [(0, 5)]))]).reasons


def test_parts_without_a_score_say_nothing_of_the_others() -> None:
    """The first part has one word, the second no score; in the last, <unk> is what the text says."""
    written = join_words(["Oh!", "the", "zebra", "ran.", "It", "a", "<unk>", "x"], "ptb")
    places = [0, 4, 19, 22]
    texts = [written.text[a : b and b - 1] for a, b in zip(places, [*places[1:], None], strict=True)]
    assert texts == ["Oh!", "the zebra ran.", "It", "a <unk> x"]
    tokens = [["Oh", "!"], [], ["It"], ["a", "<unk>", "x"]]
    scored: list[tuple[int, SentenceScore | Unscorable]] = []
    for at, text, own in zip(places, texts, tokens, strict=True):
        score = score_of(text, spans_of(text, *own), seen=tuple(range(10, 10 + len(own))))
        scored.append((at, score if own else Unscorable(text, "too long")))
    last = scored[-1][1]
    assert isinstance(last, SentenceScore)
    scored[-1] = (places[-1], dataclasses.replace(last, tokens=("a", "<unk>", "<unk>"), n_unknown=1))
    for order in (scored, scored[::-1]):
        found = align(written, order)
        assert found.reasons == {1: "too long", 2: "too long", 3: "too long", 7: UNKNOWN}
        assert found.values["surprisal"] == pytest.approx(
            [3, *[math.nan] * 3, 1, 1, 2, math.nan], nan_ok=True
        )
        assert found.seen.tolist() == [10, -1, -1, -1, 10, 10, 11, 12]


def test_a_token_may_end_with_the_space_after_its_word() -> None:
    written = join_words(["a", "b", "c"], "ptb")
    found = align(written, [(0, score_of(written.text, [(0, 2), (2, 3), (3, 5)]))])
    assert found.reasons == {1: CROSSING, 2: CROSSING}  # as the last one: it begins with the space
    assert found.values["surprisal"][0] == pytest.approx(1)


@given(st.data())
def test_a_plain_loop_over_characters_agrees(data: st.DataObject) -> None:
    words = data.draw(st.lists(st.text("a.’é", min_size=1, max_size=4), min_size=1, max_size=5))
    written = join_words(words, "ptb")
    n = len(written.text)
    cuts = sorted({0, n, *data.draw(st.lists(st.integers(0, n), max_size=8))})
    spans = []
    for a, b in itertools.pairwise(cuts):
        while a < b and written.text[a].isspace():
            a += 1
        while b > a and written.text[b - 1].isspace():
            b -= 1
        if a < b and data.draw(st.integers(0, 9)):
            spans.append((a, b))
    found = align(written, [(0, score_of(written.text, spans))] if spans else [])
    for w, (start, end) in enumerate(zip(written.starts, written.ends, strict=True)):
        touching = [i for i, (a, b) in enumerate(spans) if a < end and b > start]
        inside = all(start <= spans[i][0] and spans[i][1] <= end for i in touching)
        covered = {c for i in touching for c in range(*spans[i])} >= set(range(start, end))
        if inside and covered:
            assert found.values["surprisal"][w] == pytest.approx(sum(2.0**i for i in touching))
            assert w not in found.reasons
        else:
            assert w in found.reasons
            assert not spans or math.isnan(found.values["surprisal"][w])


def test_measures_of_words() -> None:
    """Entropy is that of the first token; a corrected word lacks the space before and has the one after."""
    written = join_words(["ab", "cd"], "ptb")
    measures = {
        "entropy": np.array([1.0, 2, 4]) * BIT,
        "begins": np.array([0, 0, -0.5]) * BIT,
        "ends": np.array([-7, -0.25, -2]) * BIT,
        "attachment": np.array([1.0, 2, 4]) * BIT,
        "closed": np.array([1.0, 2, 4]),
    }
    score = score_of(written.text, [(0, 1), (1, 2), (3, 5)], measures=measures, seen=(5, 6, 7))
    plain, corrected = (align(written, [(0, score)], spaces=spaces) for spaces in (False, True))
    assert plain.values["surprisal"] == pytest.approx([3, 4])
    assert corrected.values["surprisal"] == pytest.approx([3 + 0.25, 4 + 2 - 0.5])
    assert plain.values["entropy"] == pytest.approx([1, 4])
    assert plain.values["attachment"] == pytest.approx([3, 4])
    assert plain.values["closed"] == pytest.approx([3, 4])
    assert plain.seen.tolist() == [5, 7]


# --- real tokenizers ------------------------------------------------------------------------------------

HOSTILE = ['"I', "can't,", "they'd", "gonna…", "naïve", "🐈‍⬛s", "(U.S.)", "x\u0301y", "—", 'won’t."']


def total(scorer: Model, words: list[str]) -> tuple[WordValues, SentenceScore]:
    written = join_words(words, "ptb")
    (score,) = scorer.score([written.text])
    assert isinstance(score, SentenceScore)
    return align(written, [(0, score)]), score


def test_byte_level_bpe(tmp_path: Path) -> None:
    pytest.importorskip("transformers")
    folder = save_gpt2(tmp_path / "gpt2", ["I can't say they'd go."])
    found, score = total(load_model(folder), HOSTILE)
    assert not found.reasons
    assert found.values["surprisal"].sum() * BIT == pytest.approx(-score.total)


@pytest.mark.parametrize("style", ["ptb", "raw"])
@pytest.mark.parametrize("kind", ["word", "bpe"])
def test_models_of_ours_read_raw_text_in_their_style(tmp_path: Path, style: str, kind: str) -> None:
    known = ["``", "I", "ca", "n't", ",", "they", "'d", "gon", "na", "(", "U.S.", ")", "—", "''", '"']
    tokenizer = (
        train_word_tokenizer(known, text_style=style, unk=True)
        if kind == "word"
        else train_bpe_tokenizer([split_words("I say they say I", style)], size=280, text_style=style)
    )
    model = tiny_model("transformer", vocab_size=tokenizer.vocab_size, max_length=80)
    shards = {"layout": "sentence", "factor": "right", "text_style": style}
    save_checkpoint(tmp_path / "m", model, tokenizer, shards=shards)
    found, score = total(load_model(tmp_path / "m"), HOSTILE)
    assert len(found.reasons) == (5 if kind == "word" else 0)
    assert set(found.reasons.values()) <= {UNKNOWN}
    ends = score.logprobs[np.array(score.words) < 0].sum()
    if kind == "bpe":
        assert found.values["surprisal"].sum() * BIT == pytest.approx(ends - score.total)
    else:
        tokens = dict(zip(score.tokens, score.logprobs.tolist(), strict=True))
        assert found.values["surprisal"][1] * BIT == pytest.approx(
            -tokens["ca"] - tokens["n't"] - tokens[","]
        )
        assert found.values["surprisal"][6] * BIT == pytest.approx(
            -tokens["("] - tokens["U.S."] - tokens[")"]
        )
