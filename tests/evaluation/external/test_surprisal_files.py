"""Tables of surprisals: what they are read as, and what is said of those that do not fit."""

from __future__ import annotations

import math
from collections.abc import Sequence
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pdtools.errors import InputError, PdtoolsError
from pdtools.evaluation.external.recorded import RecordedSurprisals, align_tokens
from pdtools.evaluation.external.sentence_files import (
    place_names,
    write_sentences,
)
from pdtools.evaluation.sg.suites import Condition, Suite, SuiteItem, SuiteItems
from pdtools.search.scores import SentenceScore, Unscorable

OFFSETS = "sentence_id\ttoken_id\ttoken\tstart\tend\tsurprisal"
PLAIN = "sentence_id\ttoken_id\ttoken\tsurprisal"
TEXTS = ["The dog ran .", "It barks"]


def read(
    folder: Path, header: str, rows: Sequence[str], texts: Sequence[str] = TEXTS, **options: Any
) -> list[SentenceScore | Unscorable]:
    path = folder / "in.tsv"
    path.write_text("".join(line.replace(" | ", "\t") + "\n" for line in (header, *rows)))
    return list(RecordedSurprisals(path, [f"item {text}" for text in texts], **options).score(texts))


def only(found: list[SentenceScore | Unscorable]) -> SentenceScore:
    (score,) = found
    assert isinstance(score, SentenceScore)
    return score


# --- tables with offsets -----------------------------------------------------------------------

FIRST = ["1 | 1 | The | 0 | 3 | 1.5", "1 | 2 | dog | 4 | 7 | 2", "1 | 3 | ran . | 8 | 13 | 4"]
SECOND = ["2 | 1 | It | 0 | 2 | 1", "2 | 2 | barks | 3 | 8 | 1e1"]


def test_offsets(tmp_path: Path) -> None:
    first, second = read(tmp_path, OFFSETS, FIRST + SECOND)
    assert isinstance(first, SentenceScore)
    assert isinstance(second, SentenceScore)
    assert (first.starts, first.ends, first.words) == ((0, 4, 8), (3, 7, 13), (0, 1, 2))
    assert first.logprobs.tolist() == pytest.approx([-x * math.log(2) for x in (1.5, 2, 4)])
    assert second.total == pytest.approx(-11 * math.log(2))
    assert not first.eos
    in_nats = read(tmp_path, OFFSETS, FIRST + SECOND, unit="nats")[1]
    assert isinstance(in_nats, SentenceScore)
    assert in_nats.total == pytest.approx(-11)


def test_the_end_of_the_sentence(tmp_path: Path) -> None:
    score = only(read(tmp_path, OFFSETS, [*FIRST, "1 | 4 | [end] | 13 | 13 | 0.5"], TEXTS[:1]))
    assert score.eos
    assert score.words[-1] == -1
    assert score.total == pytest.approx(-8 * math.log(2))


def test_a_row_for_the_beginning_is_passed_over(tmp_path: Path) -> None:
    score = only(read(tmp_path, OFFSETS, ["1 | 0 | <s> | 0 | 0 | 9", *FIRST], TEXTS[:1]))
    assert score.tokens == ("The", "dog", "ran .")
    assert score.total == pytest.approx(-7.5 * math.log(2))


def test_an_empty_sentence_may_have_an_end(tmp_path: Path) -> None:
    score = only(read(tmp_path, OFFSETS, ["1 | 1 | </s> | 0 | 0 | 3"], [""]))
    assert (score.tokens, score.words, score.eos) == (("</s>",), (-1,), True)
    assert score.total == pytest.approx(-3 * math.log(2))


def test_offsets_may_have_the_space_before_a_token(tmp_path: Path) -> None:
    rows = ["1 | 1 | The | 0 | 3 | 1", "1 | 2 | dog | 3 | 7 | 2", "1 | 3 | Ġran | 7 | 11 | 3"]
    score = only(read(tmp_path, OFFSETS, [*rows, "1 | 4 | . | 11 | 13 | 4"], TEXTS[:1]))
    assert (score.starts, score.ends, score.words) == ((0, 4, 8, 12), (3, 7, 11, 13), (0, 1, 2, 3))
    with pytest.raises(InputError, match="the token 'cat' is 'dog'"):
        read(tmp_path, OFFSETS, [rows[0], rows[1].replace("dog", "cat")], TEXTS[:1])


def test_tokens_that_share_characters(tmp_path: Path) -> None:
    rows = [FIRST[0], "1 | 1 | T | 0 | 1 | 1", *FIRST[1:]]  # of which the longer one says what is covered
    score = only(read(tmp_path, OFFSETS, rows, TEXTS[:1]))
    assert (score.starts, score.ends) == ((0, 0, 4, 8), (3, 1, 7, 13))


def test_a_first_token_without_a_row(tmp_path: Path) -> None:
    score = only(read(tmp_path, OFFSETS, FIRST[1:], TEXTS[:1]))
    assert score.starts == (4, 8)


def test_words_instead_of_tokens_and_other_columns(tmp_path: Path) -> None:
    header = "word | sentence_id | surprisal | end | start | parse".replace(" | ", "\t")
    score = only(read(tmp_path, header, ["It | 1 | 2 | 2 | 0 | x", "barks | 1 | 3 | 8 | 3 | y"], TEXTS[1:]))
    assert score.tokens == ("It", "barks")
    assert score.total == pytest.approx(-5 * math.log(2))


def test_blank_sentences_and_blank_lines(tmp_path: Path) -> None:
    found = read(tmp_path, OFFSETS, [*FIRST, "", *(row.replace("2", "3", 1) for row in SECOND)], _blank())
    assert isinstance(found[1], Unscorable)
    assert found[1].reason == "no words"
    assert isinstance(found[2], SentenceScore)


def _blank() -> list[str]:
    return [TEXTS[0], "", TEXTS[1]]


@pytest.mark.parametrize(
    ("rows", "says"),
    [
        ([*FIRST], r"in\.tsv: sentence 2 \(item It barks\): no surprisals"),
        ([*SECOND], r"in\.tsv:2: sentence 1 \(item The dog ran \.\): no surprisals"),
        ([*FIRST, *SECOND, "3 | 1 | x | 0 | 1 | 1"], r":7: sentence 3: there are only 2 sentences"),
        ([*SECOND, *FIRST], r":4: sentence 1: after sentence 2"),
        (["0 | 1 | The | 0 | 3 | 1"], r":2: sentence 0: numbers are from 1"),
        (["1 | 1 | The | 0 | 3 | many"], r":2: surprisal 'many' is no number"),
        (["1 | 1 | The | 0 | 3 | nan"], r":2: surprisal 'nan' is no number"),
        (["1 | 1 | The | 0 | x | 1"], r":2: end 'x' is no number"),
        (["one | 1 | The | 0 | 3 | 1"], r":2: sentence_id 'one' is no number"),
        (["1 | 1 | The | 0 | 3"], r":2: 5 columns, the header has 6"),
        ([*FIRST[:2], *SECOND], r"line 3|tokens up to character 7 only, of 13"),
        ([FIRST[0], FIRST[2], *SECOND], r"line 3: characters 8 to 13 do not follow"),
        ([*FIRST[1::-1], FIRST[2], *SECOND], r"line 3: characters 0 to 3 do not follow"),
        (["1 | 1 | The | 0 | 99 | 1"], r"line 2: characters 0 to 99 do not follow"),
        ([FIRST[0], FIRST[1].replace("dog", "cat")], r"line 3: the token 'cat' is 'dog' in the sentence"),
        ([row.replace("| 1.5", "| -9") for row in FIRST], r"log-probabilities"),
        ([*FIRST, "1 | 4 | <eos> | 13 | 13 | 1", *SECOND], r"sentence 2.*no row for the end"),
        ([row.replace("| 1.5", "| inf") for row in FIRST], r"sentence 1 .*not finite"),
        ([row.replace("| 1.5", "| inf").replace("13 | 4", "13 | -inf") for row in FIRST], r"not finite"),
        ([row.replace("| 1.5", "| 1e308").replace("7 | 2", "7 | 1.7e308") for row in FIRST], r"not finite"),
    ],
)
def test_tables_that_do_not_fit(tmp_path: Path, rows: list[str], says: str) -> None:
    with pytest.raises(InputError, match=says) as caught:
        read(tmp_path, OFFSETS, rows)
    assert "in.tsv" in str(caught.value)


def test_a_sum_may_be_below_0_by_rounding_alone(tmp_path: Path) -> None:
    rows = ["1 | 1 | It | 0 | 2 | -0.001", "1 | 2 | barks | 3 | 8 | 0.0001"]
    assert only(read(tmp_path, OFFSETS, rows, TEXTS[1:])).total == pytest.approx(0.0009 * math.log(2))
    assert only(read(tmp_path, OFFSETS, rows, TEXTS[1:], unit="nats")).total == pytest.approx(0.0009)
    with pytest.raises(InputError, match="the sum of its surprisals is below 0"):
        read(tmp_path, OFFSETS, [rows[0].replace("-0.001", "-0.0012"), rows[1]], TEXTS[1:], unit="nats")


def test_a_sentence_has_as_many_rows_as_are_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("pdtools.evaluation.external.recorded.MAX_ROWS", 3)
    assert len(only(read(tmp_path, OFFSETS, FIRST, TEXTS[:1])).tokens) == 3
    with pytest.raises(InputError, match="sentence 1 has more than 3 rows") as caught:
        read(tmp_path, OFFSETS, [*FIRST, "1 | 4 | [end] | 13 | 13 | 0.5"], TEXTS[:1])
    assert caught.value.line == 5


def test_a_token_before_the_first_word_is_of_it(tmp_path: Path) -> None:
    rows = ["1 | 1 | ▁ | 0 | 0 | 1", "1 | 2 | <unk> | 1 | 3 | 1", "1 | 3 | UNK-LC | 4 | 9 | 1"]
    score = only(read(tmp_path, OFFSETS, rows, [" It barks"]))
    assert (score.words, score.n_unknown) == ((0, 0, 1), 2)
    assert score.total == pytest.approx(-3 * math.log(2))


def test_what_does_not_fit_can_be_excluded(tmp_path: Path) -> None:
    first, second = read(tmp_path, OFFSETS, SECOND, on_error="skip")
    assert isinstance(first, Unscorable)
    assert first.reason == "no surprisals"
    assert isinstance(second, SentenceScore)
    # Only sentences that can be used say whether all have a row for the end.
    end = "1 | 4 | [end] | 13 | 13 | 0.5"
    first, second = read(
        tmp_path, OFFSETS, [*FIRST[:2], "1 | 3 | ran . | 8 | 13 | inf", end, *SECOND], on_error="skip"
    )
    assert isinstance(first, Unscorable)
    assert isinstance(second, SentenceScore)
    first, second = read(tmp_path, OFFSETS, [*FIRST, end, *SECOND], on_error="skip")
    assert isinstance(first, SentenceScore)
    assert isinstance(second, Unscorable)
    assert second.reason == "no row for the end of the sentence, unlike the sentences before it"
    with pytest.raises(InputError, match="no number"):  # but a broken table is broken
        read(tmp_path, OFFSETS, ["1 | 1 | The | 0 | 3 | many"], on_error="skip")


@pytest.mark.parametrize(
    ("name", "header", "says"),
    [
        ("in.tsv", "", "in.tsv:1: no column sentence_id, surprisal in the header (tabs)"),
        (
            "in.csv",
            "sentence_id;token;surprisal",
            "in.csv:1: no column sentence_id, surprisal in the header (commas)",
        ),
        ("in.tsv", "sentence_id\tsurprisal\n1\t2", "in.tsv: no column token or word in the header"),
    ],
)
def test_a_table_without_its_columns(tmp_path: Path, name: str, header: str, says: str) -> None:
    (tmp_path / name).write_text(f"{header}\n" if header else "")
    with pytest.raises(InputError) as caught:
        list(RecordedSurprisals(tmp_path / name, ["a"]).score(["a"]))
    assert str(caught.value).endswith(says)


# --- tables without offsets --------------------------------------------------------------------


def test_tokens_are_found_in_words(tmp_path: Path) -> None:
    rows = ["1 | 1 | <s> | 9", "1 | 2 | the | 0", "1 | 3 | <unk> | 2", "1 | 4 | ran | 3", "1 | 5 | . | 4"]
    score = only(read(tmp_path, PLAIN, [*rows, "1 | 6 | </s> | 5"], TEXTS[:1]))
    assert score.tokens == ("the", "<unk>", "ran", ".", "</s>")
    assert score.starts == (0, 4, 8, 12, 13)
    assert score.n_unknown == 1
    assert score.eos
    assert score.total == pytest.approx(-14 * math.log(2))  # without the row before the first word


@pytest.mark.parametrize(
    ("tokens", "says"),
    [
        ("the cat ran .", "line 3: the token 'cat' cannot be aligned"),
        ("the dogran .", "line 3: the token 'dogran' cannot be aligned"),
        ("the dog_ran .", "line 3: the token 'dog ran' cannot be aligned"),
        ("the dog ran", "its tokens end too early"),
        ("the dog ran . .", "line 6: the token '.' cannot be aligned"),
        ("<s>", "its tokens end too early"),
    ],
)
def test_sentences_that_cannot_be_aligned_are_named(tmp_path: Path, tokens: str, says: str) -> None:
    cells = [token.replace("_", " ") for token in tokens.split(" ")]
    rows = [f"1 | {i} | {token} | 1" for i, token in enumerate(cells, start=1)]
    with pytest.raises(InputError, match=r"in\.tsv:2: sentence 1 \(item The dog ran \.\): ") as caught:
        read(tmp_path, PLAIN, rows, TEXTS[:1])
    assert says in str(caught.value)


@pytest.mark.parametrize(
    ("text", "tokens", "spans"),
    [
        ("The dogs bark.", "The Ġdogs Ġ bark .", "The dogs  bark ."),
        ("The dogs bark.", "▁The ▁do gs ▁bark .", "The do gs bark ."),
        ("The dogs bark.", "the do ##gs bark .", "The do gs bark ."),
        ("The dogs bark.", "The do@@ gs bark.</w>", "The do gs bark."),
        ("The dogs bark.", "The UNK-LC-s <unk> .", "The dogs bark ."),
        ("The dogs bark.", "[UNK] <unk> <UNK>", "The dogs bark."),
        ("I saw unk .", "I saw unk .", "I saw unk ."),
        ("(The) # @@ ##", "-LRB- The -RRB- # @@ ##", "( The ) # @@ ##"),
        ('He said "go" .', "He said `` go '' .", 'He said " go " .'),
        ('He said "go" .', "He said ` ` go ' ' .", 'He said  " go  " .'),
        ("Ġ ▁x", "Ġ ▁x", "Ġ ▁x"),
        ("", "", ""),
    ],
)
def test_alignment(text: str, tokens: str, spans: str) -> None:
    found = align_tokens(text, tokens.split())
    assert isinstance(found, list)
    assert " ".join(text[start:end] for start, end in found) == spans


words = st.text(alphabet="aBc.'é", min_size=1, max_size=5)


@given(st.lists(words, min_size=1, max_size=5), st.data())
def test_any_split_of_the_words_is_found_again(sentence: list[str], data: st.DataObject) -> None:
    text = " ".join(sentence)
    spans = []
    for number, word in enumerate(sentence):
        offset = sum(len(w) + 1 for w in sentence[:number])
        cuts = data.draw(st.sets(st.integers(1, len(word) - 1)) if len(word) > 1 else st.just(set()))
        spans += [(offset + a, offset + b) for a, b in pairwise([0, *sorted(cuts), len(word)])]
    assert align_tokens(text, [text[a:b] for a, b in spans]) == spans
    # With whole words unknown, every word is still found.
    unknown = data.draw(st.lists(st.booleans(), min_size=len(sentence), max_size=len(sentence)))
    tokens = ["<unk>" if hidden else word for word, hidden in zip(sentence, unknown, strict=True)]
    found = align_tokens(text, tokens)
    assert isinstance(found, list)
    assert [text[a:b] for a, b in found] == sentence


def test_unknown_words_that_share_a_long_word() -> None:
    # Every way to divide it is possible: as many steps as letters, not as pairs of letters.
    text = "a" * 50_000 + " b"
    assert align_tokens(text, ["<unk>"] * 4 + ["b"]) == [
        (0, 49_997),
        (49_997, 49_998),
        (49_998, 49_999),
        (49_999, 50_000),
        (50_001, 50_002),
    ]


# --- sentences ---------------------------------------------------------------------------------


@pytest.mark.parametrize("mark", ["\t", "\n", "\r"])
def test_no_sentence_breaks_its_line(tmp_path: Path, mark: str) -> None:
    conditions = (Condition(name=f"a{mark}b", regions=("x",), numbers=(1,)),)
    suite = Suite(
        name="toy", circuit="other", formulas=(), items=(SuiteItem(number=1, conditions=conditions),)
    )
    with pytest.raises(InputError, match="tab or line break"):
        write_sentences(SuiteItems([suite]), tmp_path / "out.tsv")
    assert list(tmp_path.iterdir()) == []


def test_sentences_of_suites_are_spaced_as_there_or_as_people_write(tmp_path: Path) -> None:
    conditions = tuple(
        Condition(name=name, regions=("She can't", "do n't", end), numbers=(1, 2, 3))
        for name, end in (("a", ", he said ."), ("b", "( so )"))
    )
    suite = Suite(
        name="toy", circuit="other", formulas=(), items=(SuiteItem(number=4, conditions=conditions),)
    )
    for style, texts in (
        ("ptb", ["She can't do n't , he said .", "She can't do n't ( so )"]),
        ("raw", ["She can't don't, he said.", "She can't don't (so)"]),
    ):
        items = SuiteItems([suite]).written(style)
        assert [of.text for item in items for of in item.strings.values()] == texts
    assert list(place_names(items)) == [f"suite toy, item 4, string {name}" for name in "ab"]
    out = tmp_path / "out.tsv"
    assert write_sentences(items, out) == 2
    header, first, _ = out.read_text().splitlines()
    assert header == "suite\titem\tstring\ttext"
    assert first == "toy\t4\ta\tShe can't don't, he said."
    assert write_sentences(items, tmp_path / "out.txt") == 2
    assert (tmp_path / "out.txt").read_text() == "She can't don't, he said.\nShe can't don't (so)\n"
    with pytest.raises(PdtoolsError, match="exists"):
        write_sentences(items, out, overwrite=False)
