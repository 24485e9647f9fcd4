"""Scores with tokenizers of many kinds, of texts that begin oddly, against those of transformers alone."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
from toy_gpt2 import Reference
from toy_tokenizers import KINDS, save_kind
from wide_items import wide_items

from pdtools.evaluation.benchmark.evaluate import evaluate_items
from pdtools.evaluation.blimp.pairs import PairItems, pair_item
from pdtools.evaluation.perplexity.evaluate import evaluate_text_perplexity
from pdtools.files import GivenText, Rejects
from pdtools.search.contexts import with_documents
from pdtools.search.families.huggingface import _place
from pdtools.search.inputs import SourcedLine, read_inputs
from pdtools.search.model import Model, load_model
from pdtools.search.options import DOCUMENT, Context
from pdtools.search.surprisal import surprisals
from pdtools.tokenization import split_text_words

pytest.importorskip("transformers")

TEXTS = [
    "The dog barks.",
    "  The dog",
    "   the cats  bark",
    "2 dogs bark.",
    "12,000 dollars here",
    " 7",
    '"Go," he said.',
    "\u201cGo\u201d, he said",
    "'tis the dog's",
    "don't",
    "\U0001f408 the cat \U0001f9d1\u200d\U0001f692 barks",
    "\u05d4\u05db\u05dc\u05d1 \u05e0\u05d5\u05d1\u05d7",
    "\u732b\u304c dog",
    "e\u0301te\u0301 caf\u00e9",
    "na\u00efve dog ",
    "\ufb01ne \u00bd dog",
    "(a) b",
    "THE \u00a0DOG",
    "- a; b",
    "a",
]
CONTEXT = ("The dog barks.", "2 cats")


@dataclass
class Kind:
    """A model with a kind of tokenizer, ours and as transformers has it, with that one's log p of TEXTS."""

    folder: Path
    scorer: Model
    reference: Reference
    right: list[list[float]]


@pytest.fixture(scope="module", params=KINDS)
def kind(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Kind:
    folder = save_kind(tmp_path_factory.mktemp("kinds") / "model", request.param, positions=1024)
    reference = Reference(folder)
    right = [reference.logprobs(text) for text in TEXTS]
    return Kind(folder, load_model(folder), reference, right)


def lines() -> list[SourcedLine]:
    return list(read_inputs([GivenText.of(TEXTS)], "text", None))


def check_surprisals(
    texts: Iterable[SourcedLine], scorer: Model, right: Sequence[list[float]], **options: bool
) -> None:
    """Tokens have the right values; each word has one row, and their sum is that of the tokens."""
    given = list(texts)
    for words in (False, True):
        found = list(surprisals(given, scorer, rejects=Rejects(), unit="nats", words=words, **options))
        for line, sentence, values in zip(given, found, right, strict=True):
            rows = [row for row in sentence.rows if row.number <= len(line.sentence.words) or not words]
            assert -math.fsum(row.surprisal for row in sentence.rows) == near(math.fsum(values))
            if not words:
                assert [-row.surprisal for row in rows] == near(values)
                assert [row.start for row in rows] == sorted(row.start for row in rows)
                continue
            numbers = [row.number for row in rows]
            assert numbers == sorted({*numbers})
            assert [row.text for row in rows] == [line.sentence.words[number - 1] for number in numbers]


def near(expected: float | list[float]) -> Any:
    return pytest.approx(expected, abs=2e-4)


def test_surprisals(kind: Kind) -> None:
    check_surprisals(lines(), kind.scorer, kind.right)


def test_perplexity(kind: Kind) -> None:
    tokens = [value for values in kind.right for value in values]
    found = evaluate_text_perplexity(lines(), kind.scorer, rejects=Rejects())
    assert found.counts["tokens"] == len(tokens)
    right = math.exp(-math.fsum(tokens) / len(tokens))
    assert found.scores["ppl_token_marginal"] == pytest.approx(right, rel=1e-5)


def test_minimal_pairs(kind: Kind) -> None:
    """Of texts that follow each other, one is said to be the better one."""
    pairs = [pair_item(good, bad, good, paradigm="p") for good, bad in pairwise(TEXTS)]
    totals = dict(zip(TEXTS, map(math.fsum, kind.right), strict=True))
    rows = wide_items(evaluate_items(PairItems(pairs), kind.scorer)).to_dict("records")
    for pair, row in zip(pairs, rows, strict=True):
        assert row["logprob_good"] == near(totals[pair.strings["good"].text])
        assert row["logprob_bad"] == near(totals[pair.strings["bad"].text])
        if abs(totals[pair.strings["good"].text] - totals[pair.strings["bad"].text]) > 1e-3:
            assert row["correct"] == (totals[pair.strings["good"].text] > totals[pair.strings["bad"].text])


def test_after_other_sentences(kind: Kind) -> None:
    scorer = load_model(kind.folder, context=Context(of="file", sentences=CONTEXT))
    before = "".join(text + "\n" for text in CONTEXT)
    check_surprisals(lines(), scorer, [kind.reference.logprobs(text, before=before) for text in TEXTS])


def test_in_documents(kind: Kind) -> None:
    scorer = load_model(kind.folder, context=Context(of=DOCUMENT))
    document = lines()[:9]
    read = list(with_documents(document, 1024))
    before = ["".join(text + "\n" for text in TEXTS[:i]) for i in range(len(document))]
    right = [kind.reference.logprobs(text, before=given) for text, given in zip(TEXTS, before, strict=False)]
    check_surprisals(read, scorer, right)
    tokens = [value for values in right for value in values]
    found = evaluate_text_perplexity(read, scorer, rejects=Rejects())
    assert found.counts["tokens"] == len(tokens)
    assert math.log(found.scores["ppl_token_marginal"]) == near(-math.fsum(tokens) / len(tokens))


def test_documents_as_one_text(kind: Kind) -> None:
    scorer = load_model(kind.folder, context=Context(stride=8))
    right = kind.reference.logprobs("\n".join(TEXTS))
    found = list(surprisals(lines(), scorer, rejects=Rejects(), unit="nats", documents=True))
    assert [-row.surprisal for sentence in found for row in sentence.rows] == near(right)
    for words in surprisals(lines(), scorer, rejects=Rejects(), unit="nats", documents=True, words=True):
        numbers = [row.number for row in words.rows]
        assert numbers == sorted({*numbers})
        own = found[words.number - 1].rows
        assert math.fsum(row.surprisal for row in words.rows) == near(math.fsum(row.surprisal for row in own))
        assert all(0 <= row.start <= row.end <= len(TEXTS[words.number - 1]) for row in own)


@pytest.mark.parametrize(
    ("text", "span", "place"),
    [
        ("The  dog", (3, 4), (5, 5, 1)),  # before the word after it
        ("  The dog", (0, 1), (2, 2, 0)),
        ("The dog  ", (7, 8), (7, 7, 1)),  # at the end after the word before it
        ("The dog  ", (8, 9), (7, 7, 1)),
        ("The  \nA dog", (4, 5), (3, 3, 0)),
        ("The\n  dog", (4, 5), (6, 6, 1)),
        ("The\n\ndog", (3, 5), (3, 3, -1)),
    ],
)
def test_where_blanks_stand(text: str, span: tuple[int, int], place: tuple[int, int, int]) -> None:
    assert _place(split_text_words(text), "\u0120", *span) == place
