"""Scores of a part of a string given what stands before it."""

from __future__ import annotations

import json
import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from search_oracle import save_checkpoints
from toy_gpt2 import save_gpt2, transformers_losses
from wide_items import wide_items

from pdtools.evaluation.benchmark.evaluate import ItemComparison, evaluate_items
from pdtools.evaluation.benchmark.from_toml import benchmark_from, read_benchmark
from pdtools.evaluation.benchmark.item_files import Items
from pdtools.evaluation.benchmark.item_set import Score, String
from pdtools.evaluation.benchmark.outcomes import Part, judge, part_of
from pdtools.evaluation.sg.formula import Formula
from pdtools.search import SearchOptions, load_model
from pdtools.search.model import Model
from pdtools.search.scores import SentenceScore, Unscorable

CONDITIONAL = {
    "strings": {
        "good": {"context": "{a}", "text": "{b}"},
        "bad": {"context": "{c}", "text": "{b}"},
    },
}
EXHAUSTIVE = 10_000


def items_of(folder: Path, rows: str, **parts: Any) -> Items:
    (folder / "a.csv").write_text(rows)
    return Items(folder / "a.csv", benchmark_from({**CONDITIONAL, **parts}, "toy.toml", "toy"))


def logprob(scorer: Model, text: str) -> float:
    """log p of the tokens of a text, not of its end."""
    (score,) = scorer.score([text])
    assert isinstance(score, SentenceScore)
    return float(score.logprobs[: len(score.tokens) - score.eos].sum())


def test_the_blank_belongs_to_the_text_unless_there_is_none(tmp_path: Path) -> None:
    rows = "a,b,c\nx y,z,\nx y , z,w\n"
    (first, second) = items_of(tmp_path, rows)
    assert first.strings == {"good": String("x y z", 3), "bad": String("z", 0)}
    assert second.strings == {"good": String("x y  z", 4), "bad": String("w z", 1)}
    glued = {"good": {"context": "{a}", "text": "{b}", "blank": ""}, "bad": "{b}"}
    (first, _) = items_of(tmp_path, rows, strings=glued)
    assert first.strings == {"good": String("x yz", 3), "bad": String("z")}
    assert [string.scored for string in first.strings.values()] == ["z", "z"]


def test_only_the_text_is_scored_and_not_the_end(word_scorer: type[Any]) -> None:
    scorer = word_scorer(subwords=2)
    for text, start, expected, tokens in (
        ("ab cd efg", 5, -3.0, 2),
        ("ab cd efg", 0, -7.0, 6),
        ("ab cd efg", 4, -4.0, 3),
        ("abcd efg", 1, -7.0, 4),  # the token "ab" reaches beyond the context
        ("ab cd efg", None, -8.0, 7),
    ):
        part = part_of(String(text, start), next(scorer.score([text])))
        assert isinstance(part, Part)
        assert (part.logprob, part.tokens) == (pytest.approx(expected), tokens)
    nothing = part_of(String("ab", 2), next(scorer.score(["ab"])))
    assert isinstance(nothing, Unscorable)


def test_line_feeds_and_lone_blanks_belong_to_the_text_that_they_stand_in() -> None:
    """Tokens that belong to no word, or of whose characters nothing but their place is left."""

    def scored(text: str, tokens: list[tuple[str, int, int, int]], start: int) -> tuple[float, int | None]:
        names, words, starts, ends = zip(*tokens, strict=True)
        # Each token has a log-probability of its own: what is summed tells which were taken.
        logprobs = -(2.0 ** np.arange(len(tokens)))
        part = part_of(
            String(text, start),
            SentenceScore(text, names, words, starts, ends, logprobs, 0, eos=names[-1] == "<eos>"),
        )
        assert isinstance(part, Part)
        return part.logprob, part.tokens

    lines = [("a", 0, 0, 1), ("\n", -1, 1, 1), ("b", 1, 2, 3), ("\n", -1, 3, 3), ("c", 2, 4, 5)]
    assert scored("a\nb\nc", lines, 2) == (-(4.0 + 8 + 16), 3)
    assert scored("a\nb\nc", lines, 1) == (-(2.0 + 4 + 8 + 16), 4)
    assert scored("a\nb\nc", [*lines, ("<eos>", -1, 5, 5)], 3) == (-(8.0 + 16), 2)
    lone = [("x", 0, 0, 1), ("\u2581", 1, 2, 2), ("2", 1, 2, 3)]
    assert scored("x 2", lone, 1) == (-(2.0 + 4), 2)
    assert scored("x 2", lone, 0) == (-7.0, 3)


def test_line_feeds_of_hugging_face_models(tmp_path: Path) -> None:
    """What transformers alone says of all tokens after those of the context."""
    pytest.importorskip("transformers")
    folder = save_gpt2(tmp_path / "gpt2", ["the dog that chased the cats barks", "a\nb c\n\n d"])
    cells = [("x", "a\n\nb", "y\nx"), ("a b", "\nc", "b")]
    (tmp_path / "a.jsonl").write_text(
        "".join(json.dumps(dict(zip("abc", row, strict=True))) + "\n" for row in cells)
    )
    items = Items(tmp_path / "a.jsonl", benchmark_from(CONDITIONAL, "toy.toml", "toy"))
    table = wide_items(evaluate_items(items, load_model(folder)))
    for side in ("good", "bad"):
        texts = table[side].tolist()
        contexts = [text[: int(start)] for text, start in zip(texts, table[f"start_{side}"], strict=True)]
        whole, before = (np.array(transformers_losses(folder, of)) for of in (texts, contexts))
        assert table[f"logprob_{side}"].tolist() == pytest.approx(before - whole, rel=2e-6, abs=1e-4)


def test_items_that_are_cut_elsewhere_do_not_repeat_others(tmp_path: Path) -> None:
    both = {"good": {"context": "{a}", "text": "{b}"}, "bad": {"context": "{a}", "text": "{b} {c}"}}
    items = items_of(tmp_path, "a,b,c\nu v,w,x\nu,v w,x\nu,v w,x\n", strings=both)
    assert {string.text for item in items for string in item.strings.values()} == {"u v w", "u v w x"}
    assert items.counts["repeated"] == 1


def test_the_same_text_after_two_contexts(tmp_path: Path, word_scorer: type[Any]) -> None:
    items = items_of(tmp_path, "a,b,c\nx y,z,u v w\nx,zz,x\n")
    results = evaluate_items(items, word_scorer())
    table = wide_items(results)
    assert table["outcome"].tolist() == ["tie", "tie"]
    assert table["logprob_good"].tolist() == table["logprob_bad"].tolist() == [-1.0, -2.0]
    assert table["start_bad"].tolist() == [5, 1]


@pytest.mark.parametrize("name", ["base", "pushdown"])
def test_it_is_what_the_whole_has_less_what_the_context_has(tmp_path: Path, name: str) -> None:
    """Exactly so where beams are exhaustive: the context is a prefix of the whole in one search."""
    models, _ = save_checkpoints(tmp_path / "models")
    scorer = load_model(models[name], SearchOptions(beam=EXHAUSTIVE if name == "pushdown" else 10))
    items = items_of(tmp_path, "a,b,c\na b,c,b\nb,c a,a c\n")
    table = wide_items(evaluate_items(items, scorer))
    for side in ("good", "bad"):
        for text, start, found in zip(
            table[side], table[f"start_{side}"], table[f"logprob_{side}"], strict=True
        ):
            assert found == pytest.approx(
                logprob(scorer, text) - logprob(scorer, text[: int(start)]), rel=2e-6, abs=1e-5
            )


@pytest.mark.parametrize("bos", [True, False])
def test_minicons_says_the_same(tmp_path: Path, bos: bool) -> None:
    minicons = pytest.importorskip("minicons.scorer", reason="minicons is not installed")
    corpus = ["the dog that chased the cats barks", "a box has the apple in it", "the cats sleep"]
    folder = save_gpt2(tmp_path / "gpt2", corpus)
    rows = "a,b,c\nthe dog,barks in it,a box\nthe cats that,chased the dog,the apple\n"
    results = evaluate_items(items_of(tmp_path, rows), load_model(folder, bos=bos))
    table = wide_items(results)
    theirs = minicons.IncrementalLMScorer(str(folder), "cpu")
    for side, of_context in (("good", "a"), ("bad", "c")):
        contexts = [row.split(",")["abc".index(of_context)] for row in rows.splitlines()[1:]]
        texts = [row.split(",")[1] for row in rows.splitlines()[1:]]
        expected = theirs.conditional_score(
            contexts, texts, reduction=lambda scores: scores.sum(0).item(), bos_token=bos
        )
        assert table[f"logprob_{side}"].tolist() == pytest.approx(expected, rel=2e-6, abs=1e-4)


@pytest.mark.parametrize(
    ("kind", "formula", "error_bound", "decided"),
    [
        ("sum", "a > b", 0.9, True),  # -4 and -5
        ("sum", "a > b", 1.1, False),
        ("sum", "a > b & b > c", 0.9, True),
        ("sum", "a > b | c > a", 1.1, False),
        ("sum", "max(b, c) > a", 0.5, True),
        ("per_token", "a > b", 0.6, True),  # -2 and -5/3: a third apart, and off by half of the bound
        ("per_token", "a > b", 0.7, False),
        ("sum", "a > d", 9.0, True),  # the same tokens: a tie
        ("sum", "a > e", 9.0, True),  # which has no score
    ],
)
def test_when_an_item_is_decided(
    word_scorer: type[Any], kind: str, formula: str, error_bound: float, decided: bool
) -> None:
    texts = {"a": "abc", "b": "ab cd", "c": "abcdefgh", "d": "abc", "e": "zebra"}
    strings = tuple((name, String(text)) for name, text in texts.items())
    comparison = ItemComparison(strings, ((Formula.parse(formula, texts), Score(kind)),))
    scorer = word_scorer(unknown=frozenset({"zebra"}))
    assert comparison.decided(list(scorer.score(comparison.sentences)), error_bound) == decided


@pytest.mark.parametrize(("error_bound", "decided"), [(0.5, True), (1.5, False)])
def test_an_error_per_word_is_one_of_the_scored_words(
    word_scorer: type[Any], error_bound: float, decided: bool
) -> None:
    context = "x y z w "
    strings = tuple(
        (name, String(context + text, len(context))) for name, text in (("a", "abc"), ("b", "ab cd"))
    )
    comparison = ItemComparison(strings, ((Formula.parse("b > a", dict(strings)), Score("per_word")),))
    assert comparison.decided(list(word_scorer().score(comparison.sentences)), error_bound) == decided


def test_strings_that_are_the_same_tokens_are_a_tie(tmp_path: Path, word_scorer: type[Any]) -> None:
    """Where scores of different batches differ by rounding, and one of two texts has a blank more."""
    (tmp_path / "a.csv").write_text("good,bad\nx y,x  y\n")
    of = benchmark_from({"strings": {"good": "{good}", "bad": "{bad}"}}, "toy.toml", "toy")
    rounding = iter((-1.0, -2.0, -1.0, -2.0 - 1e-9))
    (outcome,) = (
        evaluate_items(Items(tmp_path / "a.csv", of), word_scorer(lambda word: next(rounding)))
        .table("items")["outcome"]
        .to_pylist()
    )
    assert outcome == "tie"


def test_the_same_tokens_after_other_contexts_are_no_tie(tmp_path: Path, word_scorer: type[Any]) -> None:
    """One text, of which one string scores more: the scored parts differ, though all tokens are the same."""
    given = {name: {"context": f"{{{name}}}", "text": f"{{of_{name}}}"} for name in ("good", "bad")}
    (tmp_path / "a.csv").write_text("good,of_good,bad,of_bad\nx y,z,x,y z\n")
    items = Items(tmp_path / "a.csv", benchmark_from({"strings": given}, "toy.toml", "toy"))
    found = evaluate_items(items, word_scorer(lambda word: -1.0)).table("items")
    assert found["outcome"].to_pylist() == ["right"]
    assert found["margin_bits"].to_pylist() == pytest.approx([1 / math.log(2)])


def test_empty_strings_are_counted(tmp_path: Path) -> None:
    models, _ = save_checkpoints(tmp_path / "models")
    items = items_of(tmp_path, "a,b,c\na,,b\n,b,a\n,,\n")
    results = evaluate_items(items, load_model(models["base"]))
    assert (results.counts["items"], results.counts["items_scored"]) == (3, 1)
    assert results.table("items")["reason"].to_pylist() == [
        "good: nothing in it is scored; bad: nothing in it is scored",
        None,
        "good: no words; bad: no words",
    ]


@pytest.mark.parametrize(
    ("name", "archive"),
    [
        ("multiblimp", "multiblimp_eng"),
        ("lindsea", "lindsea_id"),
        ("colorlessgreen", "colorlessgreen_en_it"),
    ],
)
def test_transformers_alone_says_the_same(tmp_path: Path, test_data: Path, name: str, archive: str) -> None:
    """On a few items of each finest group of published sets."""
    source = test_data / "benchmarks" / "pairs" / f"{archive}.zip"
    if not source.is_file():
        pytest.skip("no published benchmarks there")
    pytest.importorskip("transformers")
    folder = save_gpt2(tmp_path / "gpt2", ["the dog that chased the cats barks"], positions=512)
    items = Items(source, read_benchmark(name), limit=8)
    table = wide_items(evaluate_items(items, load_model(folder)))
    texts = [text for side in ("good", "bad") for text in table[side]]
    starts = [int(start) for side in ("good", "bad") for start in table[f"start_{side}"].fillna(0)]
    found = [logprob for side in ("good", "bad") for logprob in table[f"logprob_{side}"]]
    expected = -np.array(transformers_losses(folder, texts))
    given = [i for i, start in enumerate(starts) if start]
    # A context ends before a blank, at which no token of this model goes on.
    expected[given] += transformers_losses(folder, [texts[i][: starts[i]] for i in given])
    assert found == pytest.approx(expected, rel=1e-5, abs=1e-3)


def test_nothing_is_divided_by_a_number_of_tokens_that_is_not_known() -> None:
    parts = {"a": Part(-6.0, None), "b": Part(0.0, 0)}
    strings = {name: String(name) for name in parts}
    reason = "a: its number of tokens is not known; b: it has no tokens to divide by"
    found = judge(Formula.parse("a > b", parts), Score("per_token"), strings, parts)
    assert found == ("unscorable", None, reason)


def test_words_are_what_stands_between_blanks_of_any_number() -> None:
    assert Part(-6.0, 4).value("a  b\u00a0c ", Score("per_word")) == -2.0
