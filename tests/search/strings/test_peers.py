"""Scores of Hugging Face models against minicons and against transformers' own loss."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pandas
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from toy_gpt2 import save_gpt2, transformers_losses

from pdtools import data
from pdtools.cli.main import run
from pdtools.evaluation.blimp.pairs import PairFiles
from pdtools.search import Model, SentenceScore, load_model

pytest.importorskip("transformers")
minicons = pytest.importorskip("minicons.scorer", reason="minicons is not installed")

# Both add float32 numbers, in another order.
TOLERANCE = 1e-4

ODD = [
    "I",
    "a",
    "THE DOG BARKS",
    "The dog barks .",
    "the dog , which barks , sleeps",
    "\"Quoted,\" she said; 'twice'!",
    "Don't you can't won't they're",
    "e-mail: x_y@z.org (1/2, 3.14 %)",
    "naïve façade Übermaß łódź",
    "北京 的 狗 叫 了 。",
    "Ελληνικά και русский",
    "\U0001f408\u200d\U0001f415 family \U0001f468\u200d\U0001f469\u200d\U0001f467",
    "  leading and trailing  ",
    "many    spaces\tand a tab",
    "no\u00a0break",
    "e\u0301 is not \u00e9",
    "...",
    "?",
    "A" * 40,
    "<s> </s> <pad> [CLS]",
]


def bundled_sentences() -> list[str]:
    """Sentences of the bundled minimal pairs, some of every paradigm."""
    return [string.text for pair in PairFiles(data.blimp(), limit=4) for string in pair.strings.values()]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    corpus = [string.text for pair in PairFiles(data.blimp(), limit=20) for string in pair.strings.values()]
    return save_gpt2(tmp_path_factory.mktemp("peers") / "gpt2", corpus, vocab_size=400, positions=256)


@pytest.fixture(scope="module")
def ours(folder: Path) -> Model:
    return load_model(folder)


@pytest.fixture(scope="module")
def theirs(folder: Path) -> Any:
    return minicons.IncrementalLMScorer(str(folder), "cpu")


def scores(scorer: Model, texts: list[str]) -> list[SentenceScore]:
    found = list(scorer.score(texts))
    assert all(isinstance(score, SentenceScore) for score in found)
    return found  # type: ignore[return-value]


def test_a_tokenizer_that_adds_the_first_token_itself_gives_the_model_one(tmp_path: Path) -> None:
    """As OPT's: minicons' ``bos_token=True`` puts another before it, and scores the second."""
    import transformers
    from tokenizers import processors

    folder = save_gpt2(tmp_path / "opt", bundled_sentences(), positions=256)
    tokenizer = transformers.AutoTokenizer.from_pretrained(folder)
    first = tokenizer.bos_token
    tokenizer.backend_tokenizer.post_processor = processors.TemplateProcessing(
        single=f"{first} $A", special_tokens=[(first, tokenizer.bos_token_id)]
    )
    tokenizer.save_pretrained(folder)
    texts = ["the dog barks .", "The dogs near the cat sleep .", "I"]
    assert transformers.AutoTokenizer.from_pretrained(folder)(texts[0])["input_ids"][0] == (
        tokenizer.bos_token_id
    )
    theirs = minicons.IncrementalLMScorer(str(folder), "cpu")
    found = [score.total for score in scores(load_model(folder), texts)]
    assert found == pytest.approx(theirs.sequence_score(texts, reduction=total), rel=2e-6, abs=TOLERANCE)
    twice = theirs.sequence_score(texts, reduction=total, bos_token=True)
    assert all(abs(one - other) > 1 for one, other in zip(found, twice, strict=True))


def total(values: Any) -> float:
    """How minicons is asked for sums instead of means."""
    return float(values.sum(0))


@pytest.mark.parametrize("batch", [1, 7])
def test_token_scores_are_those_of_minicons(ours: Model, theirs: Any, batch: int) -> None:
    texts = [*ODD, *bundled_sentences()]
    peer = [
        row
        for first in range(0, len(texts), batch)
        for row in theirs.token_score(texts[first : first + batch], bos_token=True)
    ]
    for found, row in zip(scores(ours, texts), peer, strict=True):
        # The row of the beginning-of-sentence token has no score there, and is no row of ours.
        assert row[0] == ("<|endoftext|>", 0.0)
        assert found.logprobs.tolist() == pytest.approx(
            [value for _, value in row[1:]], rel=2e-6, abs=TOLERANCE
        )


def test_sequence_scores_are_those_of_minicons_and_of_transformers(
    folder: Path, ours: Model, theirs: Any
) -> None:
    texts = [*ODD, *bundled_sentences()]
    found = [score.total for score in scores(ours, texts)]
    assert found == pytest.approx(
        theirs.sequence_score(texts, total, bos_token=True), rel=2e-6, abs=TOLERANCE
    )
    assert found == pytest.approx(
        [-loss for loss in transformers_losses(folder, texts)], rel=2e-6, abs=TOLERANCE
    )


def test_without_bos_too(folder: Path, theirs: Any) -> None:
    texts = [text for text in ODD if len(text) > 3]
    found = [score.total for score in scores(load_model(folder, bos=False), texts)]
    assert found == pytest.approx(theirs.sequence_score(texts, total), rel=2e-6, abs=TOLERANCE)


@settings(max_examples=50)
@given(st.text(st.characters(exclude_categories=["Cs", "Cc"]), min_size=1, max_size=30).filter(str.strip))
def test_any_text_has_the_score_that_minicons_gives(ours: Model, theirs: Any, text: str) -> None:
    (found,) = scores(ours, [text])
    (row,) = theirs.token_score([text], bos_token=True)
    assert found.logprobs.tolist() == pytest.approx([value for _, value in row[1:]], rel=2e-6, abs=TOLERANCE)


def test_blimp_accuracies_are_those_of_minicons(folder: Path, theirs: Any, tmp_path: Path) -> None:
    out = tmp_path / "results"
    options = ["--model", str(folder), "--device", "cpu", "--quiet"]
    assert run(["eval-blimp", str(data.blimp()), *options, "-o", str(out)]) == 0
    document = json.loads((out / "results.json").read_text())
    right: dict[str, list[bool]] = {}
    for pair in PairFiles(data.blimp()):
        good, bad = theirs.sequence_score([of.text for of in pair.strings.values()], total, bos_token=True)
        right.setdefault(pair.levels[-1], []).append(good > bad)
    accuracies = {name: sum(found) / len(found) for name, found in right.items()}
    assert document["scores"]["by_paradigm"] == accuracies
    assert document["scores"]["overall"] == pytest.approx(sum(accuracies.values()) / len(accuracies))
    assert document["counts"]["items_scored"] == len(pandas.read_parquet(out / "items.parquet")) / 2 == 720
    assert len({*accuracies.values()}) > 3  # the paradigms differ, or the test would say little
