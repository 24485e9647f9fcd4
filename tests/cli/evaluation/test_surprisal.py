from __future__ import annotations

import csv
import io
import json
import math
import sys
from pathlib import Path

import pandas
import pytest
from search_oracle import save_checkpoints

from pdtools.cli.main import run
from pdtools.search import SentenceScore, load_model
from pdtools.search.options import SearchOptions


@pytest.fixture(scope="module")
def models(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    return save_checkpoints(tmp_path_factory.mktemp("models"))[0]


@pytest.fixture
def text(tmp_path: Path) -> Path:
    path = tmp_path / "in.txt"
    path.write_text("a b c\n\nc b\n")
    return path


def surprisal(*arguments: object) -> int:
    return run(["surprisal", "--device", "cpu", *map(str, arguments)])


def table(path: Path) -> pandas.DataFrame:
    return pandas.read_csv(path, sep="\t", quoting=csv.QUOTE_NONE)


@pytest.mark.parametrize("model", ["pushdown", "head", "base"])
@pytest.mark.parametrize("unit", ["bits", "nats"])
def test_rows_sum_to_the_score(
    models: dict[str, Path], text: Path, tmp_path: Path, model: str, unit: str
) -> None:
    out = tmp_path / "out.tsv"
    options = ["--beam", 10, *(["--nats"] if unit == "nats" else [])]
    assert surprisal(text, "--model", models[model], "-o", out, *options) == 0
    rows = table(out)
    assert list(rows.columns) == ["sentence_id", "token_id", "token", "start", "end", "surprisal"]
    assert rows.sentence_id.tolist() == [1, 1, 1, 1, 3, 3, 3]
    assert rows.token_id.tolist() == [1, 2, 3, 4, 1, 2, 3]
    assert rows.token.tolist() == ["a", "b", "c", "<eos>", "c", "b", "<eos>"]
    assert rows.start.tolist() == [0, 2, 4, 5, 0, 2, 3]
    scale = math.log(2) if unit == "bits" else 1
    scorer = load_model(models[model], SearchOptions(beam=10))
    for number, score in zip([1, 3], scorer.score(["a b c", "c b"]), strict=True):
        assert isinstance(score, SentenceScore)
        total = rows[rows.sentence_id == number].surprisal.sum() * scale
        assert total == pytest.approx(-score.total, rel=2e-6, abs=1e-5)


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


@pytest.mark.parametrize(("more", "rows"), [([], "tokens"), (["--words"], "text words")])
@pytest.mark.parametrize("unit", ["bits", "nats"])
def test_the_report_names_one_unit_and_what_rows_are(
    models: dict[str, Path],
    text: Path,
    tmp_path: Path,
    unit: str,
    more: list[str],
    rows: str,
    capsys: pytest.CaptureFixture[str],
) -> None:
    nats = ["--nats"] if unit == "nats" else []
    assert surprisal(text, "--model", models["base"], "-o", tmp_path / "o", "--json", *nats, *more) == 0
    settings = json.loads(capsys.readouterr().out)["settings"]
    other = {"bits", "nats"} - {unit}
    assert settings["unit"] == unit
    assert settings["rows"] == rows
    assert not other & set(map(str, settings.values()))


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


def test_nothing_to_score_leaves_no_table(
    models: dict[str, Path], text: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    text.write_text("")
    assert surprisal(text, "--model", models["pushdown"]) == 1
    out, err = capsys.readouterr()
    assert (out, err.count("there is no sentence")) == ("", 1)


def test_entropies_and_ranks_by_workers(models: dict[str, Path], text: Path, tmp_path: Path) -> None:
    common = [text, "--model", models["pushdown"], "--entropy", "--rank"]
    assert surprisal(*common, "-o", tmp_path / "one.tsv") == 0
    assert surprisal(*common, "-o", tmp_path / "two.tsv", "--workers", 2) == 0
    rows = table(tmp_path / "one.tsv")
    assert list(rows.columns)[-2:] == ["entropy", "rank"]
    assert rows["rank"].between(1, 6).all()
    pandas.testing.assert_frame_equal(table(tmp_path / "two.tsv"), rows)
