from __future__ import annotations

import csv
import io
import json
import math
import re
import sys
from pathlib import Path
from typing import Any

import pandas
import pytest
import scipy.special
import torch
from search_oracle import tiny_model

from pdtools.cli.main import run
from pdtools.models import save_checkpoint
from pdtools.search import load_model
from pdtools.search.inputs import read_sentence
from pdtools.search.options import SearchOptions
from pdtools.search.scores import Unscorable
from pdtools.tokenization import split_spaces, train_bpe_tokenizer


@pytest.fixture
def text(tmp_path: Path) -> Path:
    path = tmp_path / "in.txt"
    path.write_text("a b c\n\nc b\n")
    return path


def surprisal(*arguments: object) -> int:
    return run(["surprisal", "--device", "cpu", *map(str, arguments)])


def table(path: Path) -> pandas.DataFrame:
    return pandas.read_csv(path, sep="\t", quoting=csv.QUOTE_NONE)


@pytest.mark.parametrize("model", ["pushdown", "head"])
def test_words_and_parses(models: dict[str, Path], text: Path, tmp_path: Path, model: str) -> None:
    out, plain = tmp_path / "out.tsv", tmp_path / "plain.tsv"
    assert surprisal(text, "--model", models[model], "-o", out, "--words", "--parses", "--beam", 3) == 0
    assert surprisal(text, "--model", models[model], "-o", plain, "--beam", 3) == 0
    rows = table(out)
    assert list(rows.columns) == ["sentence_id", "word_id", "word", "start", "end", "surprisal", "parse"]
    assert rows.parse.str.findall(r"[abc]").str.join("").tolist() == [
        "a",
        "ab",
        "abc",
        "abc",
        "c",
        "cb",
        "cb",
    ]
    assert rows.surprisal.tolist() == pytest.approx(table(plain).surprisal.tolist(), rel=2e-6, abs=1e-5)


def test_standard_input_and_output(
    models: dict[str, Path], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(b"a b\n")))
    assert surprisal("-", "--model", models["pushdown"], "--from", "tokens") == 0
    out, err = capsys.readouterr()
    assert [line.split("\t")[:5] for line in out.splitlines()[1:]] == [
        ["1", "1", "a", "0", "1"],
        ["1", "2", "b", "2", "3"],
        ["1", "3", "<eos>", "3", "3"],
    ]
    assert "surprisal in bits" in err


def test_a_sentence_without_a_score(
    models: dict[str, Path], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path, out = tmp_path / "in.txt", tmp_path / "out.tsv"
    path.write_text("a\nthe b\nc\n")
    assert surprisal(path, "--model", models["base"], "-o", out) == 1
    assert "in.txt:2: words unknown to the model: the" in capsys.readouterr().err
    assert not out.exists()
    assert surprisal(path, "--model", models["base"], "-o", out, "--on-error", "skip", "--json") == 0
    assert table(out).sentence_id.tolist() == [1, 1, 3, 3]
    report = json.loads(capsys.readouterr().out)
    assert report["counts"] == {"sentences": 3, "scored": 2, "rows": 4}
    assert report["settings"]["rows"] == "tokens"
    (record,) = [json.loads(line) for line in Path(f"{out}.rejects.jsonl").read_text().splitlines()]
    assert (record["line"], record["text"]) == (2, "the b")


@pytest.mark.parametrize("command", [["surprisal", "--on-error", "skip"], ["surprisal"], ["decode"]])
def test_a_broken_tree_gets_a_hint_that_works(
    command: list[str], models: dict[str, Path], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path, mended = tmp_path / "in.trees", str(tmp_path / "mended.trees")
    path.write_text("(S (X a) (X b)\n(S (X b) (X a))\n")
    more = ["--from", "treebank", "--model", str(models["pushdown"]), "--device", "cpu"]
    assert run([*command, str(path), *more]) == 1
    error = capsys.readouterr().err
    assert "in.trees:1: unbalanced brackets: not closed (noticed in line 2; pdtools parse " in error
    hint = error.partition("; pdtools ")[2].partition(" makes ")[0].split()
    assert run([*hint, str(path), "-o", mended, "-q"]) == 0
    assert run([*command, mended, *more]) == 0


@pytest.mark.parametrize(
    ("arguments", "reason"),
    [
        (["--model", "{base}", "--parses"], "without an attachment head"),
        (["--model", "{base}", "--no-bos"], "only Hugging Face"),
        (["--model", "{pushdown}", "--no-bos", "--parses"], "only Hugging Face"),
        (["--model", "{text}"], "plain text, not a pdtools checkpoint"),
    ],
)
def test_what_cannot_be_done(
    models: dict[str, Path], text: Path, arguments: list[str], reason: str, capsys: pytest.CaptureFixture[str]
) -> None:
    known = {**{name: str(path) for name, path in models.items()}, "text": str(text)}
    assert surprisal(text, *[argument.format(**known) for argument in arguments]) == 1
    out, err = capsys.readouterr()
    assert reason in err
    assert out == ""


def test_entropies_and_ranks_by_workers(models: dict[str, Path], text: Path, tmp_path: Path) -> None:
    common = [text, "--model", models["pushdown"], "--entropy", "--rank"]
    assert surprisal(*common, "-o", tmp_path / "one.tsv") == 0
    assert surprisal(*common, "-o", tmp_path / "two.tsv", "--workers", 2) == 0
    rows = table(tmp_path / "one.tsv")
    assert list(rows.columns)[-2:] == ["entropy", "rank"]
    assert rows["rank"].between(1, 6).all()
    pandas.testing.assert_frame_equal(table(tmp_path / "two.tsv"), rows)


@pytest.mark.parametrize("seed", range(12))
def test_every_cell_with_options_crossed(
    seed: int, models: dict[str, Path], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """The table, its rejects and its report are what the scores of Python make by hand."""
    flags = [bool(seed >> bit & 1) for bit in range(4)]
    nats, words, entropy, as_csv = flags[0], flags[1], flags[2] or flags[0], flags[3] != flags[0]
    rank = not words and seed % 3 != 1
    if (name := ["base", "pushdown", "raw"][seed % 3]) == "raw":
        lines = ["the dogs run, often.", "", "a  dog (runs)", "dogs often run"]
        tokenizer = train_bpe_tokenizer(
            [split_spaces(line) for line in lines], size=270, min_count=1, text_style="raw"
        )
        model = tmp_path / "raw"
        save_checkpoint(
            model, tiny_model(vocab_size=tokenizer.vocab_size, max_length=64), tokenizer, shards={}
        )
    else:
        lines, model = ["a b c", "", "c the b", "b  c a", "b"], models[name]
    source = "tokens" if seed in (2, 3, 7) else "text"
    path, out = tmp_path / "in.txt", tmp_path / ("out.csv" if as_csv else "out.tsv")
    path.write_text("\n".join(lines) + "\n")
    options = ["--nats"] * nats + ["--words"] * words + ["--entropy"] * entropy + ["--rank"] * rank
    options += ["--from", source, "--on-error", "skip", "--json", "--beam", "7", "-o", str(out)]
    assert surprisal(path, "--model", model, *options) == 0

    scorer = load_model(model, SearchOptions(beam=7))
    expected, rejected = [], []
    for number, line in enumerate(lines, 1):
        sentence = read_sentence(line, source, scorer.settings["text_style"])
        (following,) = scorer.next_tokens([sentence])
        if isinstance(following, Unscorable):
            rejected += [(number, line.strip())] if line.strip() else []
            continue
        score, unit = following.score, 1 if nats else 1 / math.log(2)
        rows = []
        for i, token in enumerate(score.tokens):
            of_next = scipy.special.log_softmax(following.logprobs[i]).tolist()
            measured = [-unit * math.fsum(math.exp(each) * each for each in of_next)] * entropy
            measured += [1 + sum(each > of_next[following.ids[i]] for each in of_next)] * rank
            rows.append([token, score.starts[i], score.ends[i], -float(score.logprobs[i]) * unit, *measured])
        if words:
            edges = [match.span() for match in re.finditer(r"\S+", line)]
            # The model may read other spaces between the same words.
            begin = [match.start() for match in re.finditer(r"\S+", score.text)]
            by_word: dict[int, list[list[Any]]] = {}
            for row, word in zip(rows, score.words, strict=True):
                own = score.text[row[1] : row[2]]
                at = row[1] + len(own) - len(own.lstrip())
                place = len(edges) if word < 0 else max(k for k, first in enumerate(begin) if first <= at)
                by_word.setdefault(place, []).append(row)
            rows = []
            for place, own in sorted(by_word.items()):
                start, end = edges[place] if place < len(edges) else (len(line), len(line))
                text = line[start:end] or own[0][0]
                rows.append([place + 1, text, start, end, math.fsum(row[3] for row in own), *own[0][4:]])
        else:
            rows = [[i, *row] for i, row in enumerate(rows, 1)]
        expected += [[number, *row] for row in rows]
    unit_name = "word" if words else "token"
    header = ["sentence_id", f"{unit_name}_id", unit_name, "start", "end", "surprisal"]
    header += ["entropy"] * entropy + ["rank"] * rank
    quoting = {} if as_csv else {"delimiter": "\t", "quoting": csv.QUOTE_NONE}
    with out.open(newline="") as stream:
        first, *found = csv.reader(stream, **quoting)  # type: ignore[arg-type]
    assert first == header
    assert len(found) == len(expected)
    for row, own in zip(found, expected, strict=True):
        assert row[:5] == list(map(str, own[:5]))
        assert list(map(float, row[5:])) == pytest.approx(own[5:], rel=2e-5, abs=2e-5)
    records = [json.loads(line) for line in Path(f"{out}.rejects.jsonl").read_text().splitlines()]
    assert [(each["line"], each["text"]) for each in records] == rejected
    printed = capsys.readouterr()
    report = json.loads(printed.out)
    scored = len({row[0] for row in expected})
    said = f"{scored} of {len(lines)} sentences scored, surprisal in {'nats' if nats else 'bits'}"
    assert said in printed.err.splitlines()
    assert report["counts"] == {"sentences": len(lines), "scored": scored, "rows": len(expected)}
    assert report["settings"]["unit"] == ("nats" if nats else "bits")
    of_words = "text words" if source == "text" else "words"
    assert report["settings"]["rows"] == (of_words if words else "tokens")
    assert sum(report["rejects"].values()) == len(rejected)
    assert report["provenance"]["inputs"]["model"]["path"] == str(model)


def test_threads_are_those_that_are_asked_for(
    models: dict[str, Path], text: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    before = torch.get_num_threads()
    try:
        for threads in (2, 1):
            more = ["--threads", threads, "--json", "--overwrite", "-o", tmp_path / "o"]
            assert surprisal(text, "--model", models["base"], *more) == 0
            assert json.loads(capsys.readouterr().out)["provenance"]["hardware"]["threads"] == threads
    finally:
        torch.set_num_threads(before)
