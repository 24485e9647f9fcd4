"""Region surprisals under real tokenizers: they add up to the sentence's, whatever straddles a boundary."""

from __future__ import annotations

import math
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from search_oracle import tiny_model
from toy_gpt2 import save_gpt2

from pdtools.evaluation.benchmark.outcomes import Part, part_of
from pdtools.evaluation.sg.suites import Condition, present
from pdtools.models import save_checkpoint
from pdtools.search import AttachmentFamily, Model, SentenceScore, load_model
from pdtools.search.options import SearchOptions
from pdtools.tokenization import split_spaces, train_bpe_tokenizer

CORPUS = ["The dogs did n't bark .", "company 's dog , she said , can not bark .", "the the dog dog"]

parts = st.sampled_from(
    [
        "The",
        "dog",
        "dogs",
        "did",
        "n't",
        "company",
        "'s",
        ",",
        ".",
        "(",
        ")",
        "naïve",
        "can",
        "not",
        "x",
        "``",
    ]
)
# Regions as suites write them: empty ones, and blanks before and after the text.
regions = st.lists(
    st.builds(
        lambda before, words, after: before + " ".join(words) + after,
        st.sampled_from(["", " "]),
        st.lists(parts, max_size=3),
        st.sampled_from(["", " "]),
    ),
    min_size=1,
    max_size=6,
).filter(lambda contents: any(text.strip() for text in contents))


@pytest.fixture(scope="module", params=["ptb", "raw", "gpt2"])
def scorer(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Model:
    folder: Path = tmp_path_factory.mktemp("model") / "model"
    if request.param == "gpt2":
        pytest.importorskip("transformers", reason="transformers is not installed")
        return load_model(save_gpt2(folder, CORPUS, vocab_size=290, positions=128))
    tokenizer = train_bpe_tokenizer(
        [split_spaces(text) for text in CORPUS], size=290, min_count=1, text_style=request.param
    )
    model = tiny_model(vocab_size=tokenizer.vocab_size, max_length=128)
    save_checkpoint(folder, model, tokenizer, shards={})
    return load_model(folder, SearchOptions(beam=2))


@settings(max_examples=40)
@given(contents=regions)
def test_regions_add_up_to_the_sentence(scorer: Model, contents: list[str]) -> None:
    normalized = tuple(" ".join(text.split()) for text in contents)
    condition = Condition(name="c", regions=normalized, numbers=tuple(range(1, len(contents) + 1)))
    presented = present(condition, scorer.settings["text_style"])
    (score,) = scorer.score([presented.asked])
    assert isinstance(score, SentenceScore)
    found = part_of(presented, score)
    assert isinstance(found, Part)
    total = math.fsum(span.bits or 0.0 for span in found.spans)
    assert total * math.log(2) == pytest.approx(-score.total, abs=1e-9)
    spans = found.spans[: len(normalized)]
    assert found.tokens == sum(span.tokens or 0 for span in spans) == len(score.logprobs) - score.eos
    for text, span in zip(normalized, spans, strict=True):
        if not text:
            assert (span.bits, span.tokens) == (0, 0)

    # The same sums by the definition: every token belongs where its first visible character lies.
    expected = [0.0] * len(normalized)
    for start, logprob in list(zip(score.starts, score.logprobs.tolist(), strict=True))[: found.tokens]:
        (inside,) = (i for i, (first, stop) in enumerate(presented.spans) if first <= start < stop)
        expected[inside] -= logprob / math.log(2)
    assert [span.bits for span in spans] == pytest.approx(expected)


@settings(max_examples=30)
@given(contents=regions, data=st.data())
def test_beginnings_have_the_surprisals_of_the_whole(
    scorer: Model, contents: list[str], data: st.DataObject
) -> None:
    if not isinstance(scorer.family, AttachmentFamily):
        pytest.skip("nothing is searched")
    normalized = tuple(" ".join(text.split()) for text in contents)
    condition = Condition(name="c", regions=normalized, numbers=tuple(range(1, len(contents) + 1)))
    presented = present(condition, scorer.settings["text_style"])
    needed = data.draw(st.integers(0, len(contents)))
    part = replace(presented, needed=needed)
    whole, beginning = map(part_of, (presented, part), scorer.score([presented.asked, part.asked]))
    assert isinstance(whole, Part)
    assert isinstance(beginning, Part)
    bits, tokens = (
        [[getattr(span, name) for span in of.spans[:needed]] for of in (beginning, whole)]
        for name in ("bits", "tokens")
    )
    assert bits[0] == pytest.approx(bits[1], rel=2e-6, abs=1e-4)
    assert tokens[0] == tokens[1]
    assert len(beginning.spans) == len(contents)  # and no end
    assert {span.bits for span in beginning.spans[needed:]} <= {None}
