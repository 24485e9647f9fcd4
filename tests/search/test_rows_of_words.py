"""Rows of words: text words of raw text, words of tokenized text, the same ones with every model."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Literal

import numpy as np
import pytest
from search_oracle import tiny_model
from toy_gpt2 import save_gpt2

from pdtools.files import Rejects
from pdtools.models import save_checkpoint
from pdtools.search import load_model
from pdtools.search.inputs import SentenceForm, read_inputs
from pdtools.search.options import SearchOptions
from pdtools.search.scores import SentenceScore
from pdtools.search.surprisal import (
    SentenceSurprisal,
    SurprisalRow,
    Unit,
    surprisals,
    token_rows,
    word_rows,
    write_surprisals,
)
from pdtools.tokenization import split_spaces, split_text_words, train_bpe_tokenizer
from pdtools.trees import stack_text

pytest.importorskip("transformers")

HOSTILE = [
    "The dog can't bark, happy.",
    "The\tdogs \t bark .",
    "  The   dog\u00a0barks !?  ",
    '"Don\'t," she\u2009said\u3000\u2014 "(naïve) \U0001f408!"',
    "\t",
    "cannot gonna 3.5% $5 U.S. . ... a/b e-mail don\u2019t",
    "e\u0301 \u200bx\u200b \u00ad . \u2028 after",
    "x\x0by\x0cz \x1f w \x85 v",
    "`` quoted '' and ''more``",
]
TOKENIZED = [
    "The dog ca n't bark , happy .",
    "The\tdogs  bark\t.",
    "`` 5\u00a0mg '' -LRB- really -RRB- ...",
    "gon na  He did n't .",
]


@pytest.fixture(scope="module")
def models(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    folder = tmp_path_factory.mktemp("models")
    corpus = ["The dogs can't bark, happy.", "The dog barks !"]
    made = {"gpt2": save_gpt2(folder / "gpt2", corpus, vocab_size=290, positions=256)}
    for style in ("ptb", "raw"):
        tokenizer = train_bpe_tokenizer(
            [split_spaces(text) for text in corpus], size=290, min_count=1, text_style=style
        )
        made[style] = folder / style
        model = tiny_model(vocab_size=tokenizer.vocab_size, max_length=256)
        save_checkpoint(made[style], model, tokenizer, shards={})
    return made


def rows(
    model: Path, file: Path, source: SentenceForm, *, words: bool, bos: bool = True
) -> list[list[SurprisalRow]]:
    """The rows of every line, without those for the end of a sentence."""
    scorer = load_model(model, SearchOptions(beam=2), bos=bos)
    lines = read_inputs([str(file)], source, scorer.settings["text_style"])
    found = surprisals(lines, scorer, rejects=Rejects("fail"), words=words)
    return [[row for row in line.rows if row.text != "<eos>"] for line in found]


@pytest.mark.parametrize(("source", "lines"), [("text", HOSTILE), ("tokens", TOKENIZED)])
def test_rows_of_different_models_join_by_characters(
    source: Literal["text", "tokens"], lines: list[str], models: dict[str, Path], tmp_path: Path
) -> None:
    file = tmp_path / "in.txt"
    file.write_text("".join(line + "\n" for line in lines))
    for line, *found in zip(
        lines, *(rows(model, file, source, words=True) for model in models.values()), strict=True
    ):
        wanted = line.split() if source == "text" else line.replace("\t", " ").split(" ")
        for of_model in found:
            assert [row.text for row in of_model] == [word for word in wanted if word]
            assert [line[row.start : row.end] for row in of_model] == [row.text for row in of_model]
            assert [row.number for row in of_model] == list(range(1, len(of_model) + 1))
        spans = [[(row.start, row.end) for row in of_model] for of_model in found]
        assert spans[0] == spans[1] == spans[2]


@pytest.mark.parametrize(("source", "lines"), [("text", HOSTILE), ("tokens", TOKENIZED)])
@pytest.mark.parametrize("name", ["ptb", "raw", "gpt2", "gpt2 without BOS"])
def test_rows_of_words_add_up_those_of_tokens(
    name: str, source: Literal["text", "tokens"], lines: list[str], models: dict[str, Path], tmp_path: Path
) -> None:
    file = tmp_path / "in.txt"
    file.write_text("".join(line + "\n" for line in lines))
    model, bos = models[name.split()[0]], name != "gpt2 without BOS"
    tokens = rows(model, file, source, words=False, bos=bos)
    words = rows(model, file, source, words=True, bos=bos)
    for line, of_tokens, of_words in zip(lines, tokens, words, strict=True):
        assert sum(row.surprisal for row in of_words) == pytest.approx(
            sum(row.surprisal for row in of_tokens), abs=1e-9
        )
        if source == "text":  # there, tokens have the same offsets: each belongs to the word it begins in
            edges = [*(row.start for row in of_words[1:]), len(line) + 1]
            for row, edge in zip(of_words, edges, strict=False):
                inside = [token.surprisal for token in of_tokens if row.start <= token.start < edge]
                assert row.surprisal == pytest.approx(sum(inside), abs=1e-9)
            assert not line.strip() or of_words


def test_rows_of_trees_are_their_words(models: dict[str, Path], tmp_path: Path) -> None:
    file = tmp_path / "in.trees"
    file.write_text("(S (NP (-NONE- *)) (X He) (X did) (X n't) (X -LRB-) (X `` ) (X .))\n")
    for model in models.values():
        (found,) = rows(model, file, "treebank", words=True)
        assert [(row.text, row.start, row.end) for row in found] == [
            ("He", 0, 2),
            ("did", 3, 6),
            ("n't", 7, 10),
            ("(", 11, 12),
            ("``", 13, 15),
            (".", 16, 17),
        ]


def test_without_bos_the_first_row_covers_what_is_scored(models: dict[str, Path], tmp_path: Path) -> None:
    file = tmp_path / "in.txt"
    file.write_text("barks The\n")
    (tokens,) = rows(models["gpt2"], file, "text", words=False, bos=False)
    ((first, second),) = rows(models["gpt2"], file, "text", words=True, bos=False)
    assert tokens[0].start > 0
    assert (first.number, first.start, first.end) == (1, tokens[0].start, 5)
    assert (second.number, second.text, second.start) == (2, "The", 6)


def test_the_parse_of_a_word_is_the_one_after_its_last_token() -> None:
    text = "barking dog ran"
    score = SentenceScore(
        text=text,
        tokens=("bark", "ing", "dog", "ran", "</s>"),
        words=(0, 0, 1, 2, -1),
        starts=(0, 4, 8, 12, 15),
        ends=(4, 7, 11, 15, 15),
        logprobs=np.array([-1.0, -2.0, -3.0, -4.0, -5.0]),
        n_unknown=0,
        eos=True,
    )
    attach = [[0], [0, 1], [0, 1, 1], [0, 1, 1, 2], [0, 1, 1, 2, 4], [0, 1, 1, 2, 4, 0]]
    incremental = [stack_text(np.array(each, dtype=np.int32), score.tokens) for each in attach[1:]]
    rows = list(word_rows(score, split_spaces(text), "nats", incremental))
    assert [(row.number, row.text, row.surprisal, row.parse) for row in rows] == [
        (1, "barking", 3.0, "(X bark ing)"),
        (2, "dog", 3.0, "(X (X bark ing) dog)"),
        (3, "ran", 4.0, "(X (X bark ing) dog) ran"),
        (4, "</s>", 5.0, "(X (X (X bark ing) dog) ran)"),
    ]


def test_a_word_has_seen_what_its_first_token_has() -> None:
    """And the entropy is that of the distribution that its first token is from; ranks are of tokens alone."""
    score = SentenceScore(
        text="barking dogs",
        tokens=("bark", "ing", "do", "g", "s", "</s>"),
        words=(0, 0, 1, 1, 1, -1),
        starts=(0, 4, 8, 10, 11, 12),
        ends=(4, 7, 10, 11, 12, 12),
        logprobs=-np.ones(6),
        n_unknown=0,
        eos=True,
        measures={"entropy": np.arange(6) / 2, "rank": np.arange(1, 7.0)},
        seen=(3, 4, 2, 3, 4, 5),
    )
    rows = list(word_rows(score, split_spaces(score.text), "nats"))
    assert [(row.seen, row.entropy, row.rank) for row in rows] == [
        (3, 0.0, None),
        (2, 1.0, None),
        (5, 2.5, None),
    ]


def test_the_end_has_a_number_of_its_own_where_a_word_has_no_row() -> None:
    score = SentenceScore(
        text="the dog ran",
        tokens=("the dog", "ran", "</s>"),
        words=(0, 2, -1),
        starts=(0, 8, 11),
        ends=(7, 11, 11),
        logprobs=np.array([-1.0, -2.0, -4.0]),
        n_unknown=0,
        eos=True,
    )
    rows = list(word_rows(score, split_spaces(score.text), "nats"))
    assert [(row.number, row.text, row.surprisal) for row in rows] == [
        (1, "the", 1.0),
        (3, "ran", 2.0),
        (4, "</s>", 4.0),
    ]


@pytest.mark.parametrize("number", [-0.0, 0.0, -1e-12])
def test_certain_tokens_have_no_surprisal_below_zero(number: float, tmp_path: Path) -> None:
    row = SurprisalRow(1, "a", 0, 1, number, None)
    out = tmp_path / "out.tsv"
    results = [SentenceSurprisal(1, (row,), True)]
    write_surprisals(results, str(out), rejects=Rejects("skip"), of_rows={"surprisal": "surprisal"})
    assert out.read_text() == "sentence_id\tsurprisal\n1\t0.00000000\n"


@pytest.mark.parametrize(("unit", "a_nat"), [("nats", 1.0), ("bits", 1 / math.log(2))])
def test_the_entropy_of_a_word_is_that_of_its_first_token(unit: Unit, a_nat: float) -> None:
    score = SentenceScore(
        text="abra b",
        tokens=("ab", "ra", "b", "<eos>"),
        words=(0, 0, 1, -1),
        starts=(0, 2, 5, 6),
        ends=(2, 4, 6, 6),
        logprobs=np.array([-1.0, -2.0, -4.0, -8.0]),
        n_unknown=0,
        eos=True,
        measures={"entropy": np.array([0.5, 0.25, 3.0, 7.0]), "rank": np.array([1.0, 9.0, 2.0, 4.0])},
    )
    tokens = list(token_rows(score, unit))
    assert [row.entropy for row in tokens] == pytest.approx([x * a_nat for x in (0.5, 0.25, 3, 7)])
    assert [row.surprisal for row in tokens] == pytest.approx([x * a_nat for x in (1, 2, 4, 8)])
    assert [row.rank for row in tokens] == [1, 9, 2, 4]
    words = list(word_rows(score, split_text_words(score.text), unit))
    assert [row.entropy for row in words] == pytest.approx([x * a_nat for x in (0.5, 3, 7)])
    assert [row.surprisal for row in words] == pytest.approx([x * a_nat for x in (3, 4, 8)])
    assert [row.rank for row in words] == [None] * 3
