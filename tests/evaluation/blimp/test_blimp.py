"""BLiMP: reading, outcomes, means."""

from __future__ import annotations

import gzip
import json
import math
import os
import threading
import tracemalloc
import zipfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import pyarrow as pa
import pytest
from minimal_pair import judged
from wide_items import wide_items

from pdtools.errors import InputError, PdtoolsError
from pdtools.evaluation.benchmark.evaluate import ItemComparison, evaluate_items
from pdtools.evaluation.benchmark.item_set import Item
from pdtools.evaluation.blimp.pairs import PairFiles, PairItems, pair_item
from pdtools.search.scores import SentenceScore, Unscorable


def pair(
    uid: str, number: int, good: str, bad: str, field: str = "syntax", term: str = "binding"
) -> dict[str, Any]:
    return {
        "UID": uid,
        "pairID": str(number),
        "sentence_good": good,
        "sentence_bad": bad,
        "field": field,
        "linguistics_term": term,
    }


def write(folder: Path, *pairs: dict[str, Any]) -> Path:
    folder.mkdir(exist_ok=True)
    for uid in {p["UID"] for p in pairs}:
        lines = [json.dumps(p) for p in pairs if p["UID"] == uid]
        (folder / f"{uid}.jsonl").write_text("\n".join(lines) + "\n")
    return folder


def texts(item: Item) -> tuple[str, ...]:
    return tuple(string.text for string in item.strings.values())


# A sentence is the more probable, the fewer letters it has.
SMALL = (
    pair("one", 0, "He is .", "He are .", "syntax", "binding"),  # right
    pair("one", 1, "They are .", "They is .", "syntax", "binding"),  # wrong
    pair("two", 0, "We go .", "We go .", "syntax/semantics", "s-selection"),  # a tie: the same sentence
    pair("two", 1, "We go .", "Go we .", "syntax/semantics", "s-selection"),  # a tie: the same length
    pair("two", 2, "We go .", "We runs .", "syntax/semantics", "s-selection"),  # right
    pair("three", 0, "I know .", "I knows .", "syntax_semantics", "argument_structure"),  # right
)


def test_outcomes_and_means(word_scorer: Any, tmp_path: Path) -> None:
    scorer = word_scorer()
    results = evaluate_items(PairItems(PairFiles(write(tmp_path / "d", *SMALL))), scorer)
    scores, counts = results.scores, results.counts
    assert scores["by_paradigm"] == pytest.approx({"one": 1 / 2, "two": 1 / 3, "three": 1.0})
    assert scores["by_phenomenon"] == pytest.approx({"argument_structure": (1 / 3 + 1) / 2, "binding": 1 / 2})
    assert scores["by_field"] == pytest.approx({"syntax": 1 / 2, "syntax_semantics": (1 / 3 + 1) / 2})
    assert scores["overall"] == pytest.approx((1 / 2 + 1 / 3 + 1) / 3)
    assert scores["mean_of_items"] == pytest.approx(3 / 6)
    assert (counts["items"], counts["ties"], counts["items_unscorable"]) == (6, 2, 0)
    assert len(scorer.seen) == len(set(scorer.seen)) == counts["strings"]
    rows = wide_items(results).to_dict("records")
    assert [row["outcome"] for row in rows] == ["right", "wrong", "right", "tie", "tie", "right"]
    assert (rows[0]["logprob_good"], rows[0]["logprob_bad"]) == pytest.approx((-6.0, -7.0))
    margins = {"one": 0.0, "two": (0 + 0 + 2) / 3, "three": 1.0}  # letters that the bad sentence has more
    found = scores["margin_bits"]
    assert found["by_paradigm"] == pytest.approx({name: of / math.log(2) for name, of in margins.items()})
    assert found["by_field"]["syntax_semantics"] == pytest.approx((2 / 3 + 1) / 2 / math.log(2))
    assert found["overall"] == pytest.approx((0 + 2 / 3 + 1) / 3 / math.log(2))
    assert [row["margin_bits"] for row in rows] == pytest.approx(
        [(row["logprob_good"] - row["logprob_bad"]) / math.log(2) for row in rows]
    )


@pytest.mark.parametrize("eos", [-1.0, None])
def test_the_surprisals_of_a_pair_are_its_totals(word_scorer: Any, tmp_path: Path, eos: float | None) -> None:
    """Row by row they are what the scorer says of the sentence, whose characters they cover."""
    scorer = word_scorer(eos=eos, unknown=frozenset({"knows"}), subwords=2)
    rows = (
        evaluate_items(PairItems(PairFiles(write(tmp_path / "d", *SMALL))), scorer)
        .table("strings")
        .to_pylist()
    )
    assert len(rows) == 2 * len(SMALL)
    for row in rows:
        tokens = row["surprisals"]
        if "knows" in row["text"]:
            assert (tokens, row["bits"], row["reason"]) == (None, None, "words unknown to the model: knows")
            continue
        (score,) = scorer.score([row["text"]])
        assert [token["bits"] for token in tokens] == pytest.approx(list(-score.logprobs / math.log(2)))
        assert sum(token["bits"] for token in tokens) == pytest.approx(row["bits"])
        assert len(tokens) == row["tokens"]
        words = tokens if eos is None else tokens[:-1]
        text = row["read"]
        assert [text[token["start"] : token["end"]] for token in words] == [t["token"] for t in words]


def test_sentences_that_are_the_same_to_the_model_are_a_tie() -> None:
    def score(last: str, end: int, rounding: float) -> SentenceScore:
        logprobs = np.array([-1.0, -2.0 + rounding, -1.0])
        return SentenceScore(
            "", ("He", last, "<eos>"), (0, 1, -1), (0, 3, end), (2, end, end), logprobs, 1, True
        )

    unknown = judged(score("<unk>", 6, 1e-7), score("<unk>", 8, 0.0))
    row, _ = unknown.table("items").to_pylist()
    assert (row["outcome"], row["correct"], unknown.scores["by_prediction"]["per_token"]) == (
        "tie",
        False,
        0.0,
    )
    known = judged(score("zyx", 6, 1e-7), score("zyxes", 8, 0.0))
    assert (known.scores["overall"], known.scores["by_prediction"]["per_token"]) == (1.0, 1.0)


def test_a_pair_is_decided_when_its_total_and_its_mean_per_token_are(word_scorer: Any) -> None:
    items = PairItems([pair_item("a a a a", "b b", "1", paradigm="p")])
    (comparison,) = (ItemComparison.of(item, items) for item in items)

    def decided(a: float, b: float, error_bound: float) -> bool:
        scorer = word_scorer(lambda word: {"a": a, "b": b}[word], eos=None)
        return comparison.decided(list(scorer.score(comparison.sentences)), error_bound)

    # Totals −4 and −5, which differ by 1; means −1 and −2.5, by 1.5, of two tokens by 3.
    assert decided(-1.0, -2.5, 0.99)
    assert not decided(-1.0, -2.5, 1.01)
    # Totals −4 and −2.2, which differ by 1.8; means −1 and −1.1, of two tokens by 0.2.
    assert decided(-1.0, -1.1, 0.19)
    assert not decided(-1.0, -1.1, 0.21)
    (good,) = word_scorer(eos=None).score(["a"])
    assert comparison.decided([good, Unscorable("b", "unknown")], 99.0)
    assert comparison.decided([good, good], 99.0)  # the same to the model: a tie


def test_scores_that_are_not_numbers_are_never_judged(word_scorer: Any, tmp_path: Path) -> None:
    with pytest.raises(PdtoolsError, match="weights are damaged"):
        evaluate_items(
            PairItems(PairFiles(write(tmp_path / "d", *SMALL))), word_scorer(lambda word: float("nan"))
        )


def test_sentences_with_unknown_words_are_counted(tmp_path: Path) -> None:
    class Unknowing:
        settings: ClassVar = {"kind": "test"}

        def score(self, texts: list[str]) -> Iterator[SentenceScore]:
            for text in texts:
                spot = (len(text), len(text))
                values = np.array([-1.0])
                n = 2 * ("They" in text)  # strings are counted, not words
                yield SentenceScore(text, ("<eos>",), (-1,), spot[:1], spot[:1], values, n, True)

    results = evaluate_items(PairItems(PairFiles(write(tmp_path / "d", *SMALL))), Unknowing())  # type: ignore[arg-type]
    assert results.counts["strings_with_unknown_words"] == 2


def test_limit_and_zip(tmp_path: Path) -> None:
    folder = write(tmp_path / "d", *SMALL)
    assert [(p.levels[-1], p.name) for p in PairFiles(folder, limit=1)] == [
        ("one", "0"),
        ("three", "0"),
        ("two", "0"),
    ]
    with zipfile.ZipFile(tmp_path / "d.zip", "w") as archive:
        for path in folder.iterdir():
            archive.write(path, f"data/{path.name}")
        archive.writestr("__MACOSX/data/._one.jsonl", "x")
    assert list(PairFiles(tmp_path / "d.zip")) == list(PairFiles(folder))
    every = list(PairFiles(folder))
    for name in (".hidden.jsonl", "._one.jsonl"):
        (folder / name).write_text("no JSON")
    assert list(PairFiles(folder)) == every


@pytest.mark.parametrize(
    ("line", "says"),
    [
        ("{", "not JSON"),
        ("{}", "'sentence_good' is missing"),
        ('{"sentence_good": "He is ."}', "'sentence_bad' is missing"),
        ("[]", "not a JSON object"),
        (json.dumps({**SMALL[1], "sentence_good": None}), "no text"),
        (json.dumps(SMALL[0]), "second"),
    ],
)
def test_bad_lines_are_named(tmp_path: Path, line: str, says: str) -> None:
    file = write(tmp_path / "d", SMALL[0]) / "one.jsonl"
    file.write_text(file.read_text() + line + "\n")
    with pytest.raises(InputError, match=r"one\.jsonl:2: ") as caught:
        PairFiles(tmp_path / "d")
    assert says in str(caught.value)


def test_pairs_of_ones_own_need_two_sentences(word_scorer: Any, tmp_path: Path) -> None:
    sentences = [("He is .", "He are ."), ("They are .", "They is .")]
    names = ("sentence_good", "sentence_bad")
    (tmp_path / "own.jsonl").write_text(
        "".join(json.dumps(dict(zip(names, s, strict=True))) + "\n" for s in sentences)
    )
    (tmp_path / "mine.v2.tsv").write_text(
        "sentence_bad\tmade by\tsentence_good\r\n\n"
        + "".join(f"{bad}\tme\t{good}\n" for good, bad in sentences)
    )
    pairs = list(PairFiles(tmp_path))
    assert [(p.levels[-1], p.name, *texts(p)) for p in pairs] == [
        ("mine.v2", "3", *sentences[0]),
        ("mine.v2", "4", *sentences[1]),
        ("own", "1", *sentences[0]),
        ("own", "2", *sentences[1]),
    ]
    with zipfile.ZipFile(tmp_path / "all.zip", "w") as archive:
        for file in ("own.jsonl", "mine.v2.tsv"):
            archive.write(tmp_path / file, f"data/{file}")
    assert sorted(PairFiles(tmp_path / "all.zip"), key=pairs.index) == pairs
    assert {p.levels[:-1] for p in pairs} == {(None, None)}
    results = evaluate_items(PairItems(pairs), word_scorer())
    assert results.scores["by_paradigm"] == {"mine.v2": 0.5, "own": 0.5}
    assert results.scores["by_field"] == results.scores["by_phenomenon"] == {}
    assert results.scores["overall"] == 0.5
    assert results.table("items").to_pylist()[0]["field"] is None
    some = [*pairs, *PairFiles(write(tmp_path / "d", *SMALL))]
    assert evaluate_items(PairItems(some), word_scorer()).scores["by_field"].keys() == {
        "syntax",
        "syntax_semantics",
    }


@pytest.mark.parametrize("ending", [".tsv", ".jsonl"])
def test_compressed_pairs_are_those_of_the_file(tmp_path: Path, ending: str) -> None:
    rows = {
        ".tsv": "sentence_good\tsentence_bad\nHe is .\tHe are .\n",
        ".jsonl": '\n{"sentence_good": "He is .", "sentence_bad": "He are ."}\n',
    }
    file = tmp_path / f"mine{ending}.gz"
    file.write_bytes(gzip.compress(rows[ending].encode()))
    for source in (file, tmp_path):
        assert [(p.levels[-1], p.name, *texts(p)) for p in PairFiles(source)] == [
            ("mine", "2", "He is .", "He are .")
        ]


@pytest.mark.parametrize("name", ["p.tsv", "P.TSV", "p.tsv.gz", "p.zip"])
def test_quotes_of_tables_of_pairs_are_undone(tmp_path: Path, name: str) -> None:
    """As Excel writes cells with a comma, and R all cells."""
    text = '"sentence_good"\t"sentence_bad"\n"He, ""Al"", is ."\tHe are .\nA "b"\t"c" d\n'
    if name == "p.zip":
        with zipfile.ZipFile(tmp_path / name, "w") as archive:
            archive.writestr("p.tsv", text)
    else:
        (tmp_path / name).write_bytes(gzip.compress(text.encode()) if name.endswith("gz") else text.encode())
    found = [texts(pair) for pair in PairFiles(tmp_path / name)]
    assert found == [('He, "Al", is .', "He are ."), ('A "b"', '"c" d')]


@pytest.mark.parametrize("name", ["p.csv", "P.CSV", "p.csv.gz", "p.xlsx", "p.parquet"])
def test_other_tables_name_what_reads_them(tmp_path: Path, name: str) -> None:
    (tmp_path / name).write_text("sentence_good,sentence_bad\na,b\n")
    with pytest.raises(InputError) as caught:
        PairFiles(tmp_path / name)
    kind = name.lower().split(".")[1]
    command = f"pdtools eval-benchmark {tmp_path / name} --good COLUMN --bad COLUMN reads it"
    assert str(caught.value) == f"{tmp_path / name}: a .{kind} table, not .jsonl or .tsv ({command})"


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("He is .\tHe are .\n", "p.tsv: plain text, not minimal pairs"),
        ("sentence_good\tbad\nHe is .\tHe are .\n", "p.tsv:1: no column sentence_bad in the header"),
        ("sentence_good\tsentence_bad\na\n", "p.tsv:2: 1 columns, the header has 2"),
        ("sentence_good\tsentence_bad\tpairID\na\tb\t1\nc\td\t1\n", "p.tsv:3: a second pair 1 of p"),
        ("sentence_good\tsentence_bad\n", "p.tsv: no minimal pairs"),
        ("sentence_good\tsentence_bad\tsentence_bad\na\tb\tc\n", "p.tsv:1: two columns 'sentence_bad'"),
        ("", "p.tsv:1: no column"),
    ],
)
def test_bad_tables_of_pairs(tmp_path: Path, text: str, says: str) -> None:
    (tmp_path / "p.tsv").write_text(text)
    with pytest.raises(InputError) as caught:
        PairFiles(tmp_path / "p.tsv")
    assert says in str(caught.value)


class ManyPairs:
    """Pairs that are made as they are gone through."""

    def __init__(self, number: int) -> None:
        self.number = number

    def __iter__(self) -> Iterator[Item]:
        for i in range(self.number):
            yield pair_item(f"The {i} dogs bark .", f"The {i} dogs barks .", str(i), paradigm="one")


def test_memory_does_not_grow_with_the_pairs(word_scorer: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("pdtools.evaluation.benchmark.evaluate.BLOCK", 64)
    scorer = word_scorer()
    peaks = []
    for number in (192, 768):
        tracemalloc.start()
        before = pa.total_allocated_bytes()
        results = evaluate_items(PairItems(ManyPairs(number)), scorer)
        kept = pa.total_allocated_bytes() - before
        peaks.append(tracemalloc.get_traced_memory()[1] + kept)
        tracemalloc.stop()
        assert results.table("items").num_rows == 2 * number
    assert peaks[1] - peaks[0] < 400 * (768 - 192)  # a pair with its scores takes 2 kB


def test_pairs_from_a_pipe(word_scorer: Any, tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    text = "\n".join(map(json.dumps, SMALL))
    writing = threading.Thread(target=(tmp_path / "pipe").write_text, args=(text,))
    writing.start()
    piped = evaluate_items(PairItems(PairFiles(tmp_path / "pipe")), word_scorer())
    writing.join()
    assert (
        piped.scores
        == evaluate_items(PairItems(PairFiles(write(tmp_path / "d", *SMALL))), word_scorer()).scores
    )


def test_too_few_or_too_many_scores_are_refused(word_scorer: Any, tmp_path: Path) -> None:
    scorer = word_scorer()
    pairs = list(PairFiles(write(tmp_path / "d", *SMALL)))
    for change in (lambda found: found[:-1], lambda found: [*found, found[0]]):
        broken = word_scorer()
        broken.score = lambda texts, change=change: iter(change(list(scorer.score(texts))))
        with pytest.raises(ValueError, match="shorter|more scores"):
            evaluate_items(PairItems(pairs), broken)


def test_empty_sources(tmp_path: Path) -> None:
    (tmp_path / "empty.jsonl").write_text("\n")
    with pytest.raises(InputError, match="no minimal pairs"):
        PairFiles(tmp_path / "empty.jsonl")
    with pytest.raises(InputError, match="no such file"):
        PairFiles(tmp_path / "nowhere")


def test_the_official_data(test_data: Path, word_scorer: Any) -> None:
    pairs = list(PairFiles(test_data / "blimp" / "BLiMP.zip"))
    assert len(pairs) == 67_000
    fields, phenomena, paradigms = (set(names) for names in zip(*(p.levels for p in pairs), strict=True))
    assert (len(phenomena), len(paradigms)) == (12, 67)
    assert fields == {"morphology", "semantics", "syntax", "syntax_semantics"}
    assert len({p.levels[-1] for p in pairs if p.levels[1] == "argument_structure"}) == 9
    identical = [p for p in pairs if len({*texts(p)}) == 1]
    assert len(identical) == 7
    assert evaluate_items(PairItems(identical), word_scorer()).counts["ties"] == 7


def test_the_same_tokens_in_other_words_are_no_tie() -> None:
    def score(text: str, starts: tuple[int, int], logprob: float) -> SentenceScore:
        ends = (starts[0] + 3, starts[1] + 3)
        words, logprobs = (0, int(" " in text)), np.array([logprob, -1.0])
        return SentenceScore(text, ("can", "not"), words, starts, ends, logprobs, 0, eos=False)

    for good, bad in ((-1.0, -2.0), (-2.0, -1.0)):
        results = judged(score("can not", (0, 4), good), score("cannot", (0, 3), bad))
        assert results.scores["overall"] == (good > bad)
        assert results.counts["ties"] == 0
