"""eval-sg and eval-blimp without a model: sentences out, surprisals in, results per item in."""

from __future__ import annotations

import csv
import json
import math
from pathlib import Path
from typing import Any

import pandas
import pytest
from search_oracle import tiny_model
from toy_gpt2 import save_gpt2
from toy_sets import condition, suite_of, write_pairs
from wide_items import wide_items

from pdtools.cli.main import run
from pdtools.models import save_checkpoint
from pdtools.tokenization import split_spaces, train_bpe_tokenizer


def table(path: Path) -> pandas.DataFrame:
    return pandas.read_csv(path, sep="\t", quoting=csv.QUOTE_NONE)


def lm_zoo(surprisals: Path, output: Path) -> Path:
    """The same table as LM-Zoo has it: four columns, no offsets."""
    table(surprisals)[["sentence_id", "token_id", "token", "surprisal"]].to_csv(
        output, sep="\t", index=False, quoting=csv.QUOTE_NONE
    )
    return output


CORPUS = ["The dogs did n't bark .", "company 's dog , she said , can not bark .", "the the dog dog"]


@pytest.fixture(scope="module")
def suites(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("suites")
    subjects = ["The dogs", "The company 's dog", "A cat", "She", "The painter , she said ,", "It"]
    items = [
        [
            condition("x", subject, "did", "n't", " bark ", "", "at all ."),
            condition("y", subject, "can not", "", " bark", "", "``at all'' ."),
        ]
        for subject in subjects
    ]
    sides = ("(2;%x%) + (3;%x%)", "(2;%y%)"), ("(*;%x%) - (1;%x%)", "(*;%y%) - (1;%y%)")
    formulas = [f"{a} {sign} {b}" for a, b in sides for sign in "<>"]
    for name in ("b", "a"):
        data = suite_of(*(items[:4] if name == "a" else items), name=name, circuit="Agreement")
        data["predictions"] = [{"type": "formula", "formula": f} for f in formulas]
        (folder / f"{name}.json").write_text(json.dumps(data))
    return folder


@pytest.fixture(scope="module")
def pairs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    sentences = [
        ("The dogs didn't bark.", "The dogs didn't barks."),
        ("The dog.", "The dog."),
        ('She said "bark".', 'She "said" bark.'),
        ("The dog can bark.", "The company's dog."),
        ("The dogs didn't bark.", "Dogs the bark not."),
    ]
    return write_pairs(tmp_path_factory.mktemp("blimp") / "toy.jsonl", sentences)


@pytest.fixture(scope="module", params=["ptb", "raw", "gpt2"])
def model(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> tuple[str, Path]:
    folder: Path = tmp_path_factory.mktemp("model") / "model"
    if request.param == "gpt2":
        pytest.importorskip("transformers", reason="transformers is not installed")
        save_gpt2(folder, CORPUS, vocab_size=290, positions=128)
    else:
        tokenizer = train_bpe_tokenizer(
            [split_spaces(text) for text in CORPUS], size=290, min_count=1, text_style=request.param
        )
        settings = tiny_model(vocab_size=tokenizer.vocab_size, max_length=128)
        save_checkpoint(folder, settings, tokenizer, shards={})
    return request.param, folder


def command(*arguments: object) -> int:
    return run([str(argument) for argument in arguments])


def assert_same_scores(found: dict[str, Any], expected: dict[str, Any]) -> None:
    """Equal shares, and margins as exactly as a file of surprisals has them."""
    (shares, margins), (wanted, wanted_margins) = (
        ({k: v for k, v in each["scores"].items() if k != "margin_bits"}, each["scores"].get("margin_bits"))
        for each in (found, expected)
    )
    assert shares == wanted
    assert margins.keys() == wanted_margins.keys()
    for level, means in margins.items():
        assert means == pytest.approx(wanted_margins[level], abs=1e-5)


def without_search(counts: dict[str, Any]) -> dict[str, Any]:
    """The counts of scores that are read: nobody knows what was dropped when they were made."""
    return {name: value for name, value in counts.items() if name != "dropped"}


def results(folder: Path) -> dict[str, Any]:
    found: dict[str, Any] = json.loads((folder / "results.json").read_text())
    return found


# --- the same scores as with --model -----------------------------------------------------------


@pytest.mark.parametrize("unit", ["bits", "nats"])
def test_surprisals_of_the_written_sentences_give_the_scores_of_the_model(
    suites: Path, model: tuple[str, Path], tmp_path: Path, unit: str
) -> None:
    style, folder = model
    text, values = tmp_path / "sentences.txt", tmp_path / "surprisals.tsv"
    search = ("--model", folder, "--beam", 3, "--device", "cpu")
    nats = ["--nats"] if unit == "nats" else []
    # A model of raw text: words as eval-sg hands them over, joined as people write them.
    source = "tokens" if style == "raw" else "text"
    assert command("eval-sg", suites, "--write-sentences", text) == 0
    assert command("surprisal", text, *search, "-o", values, *nats, "--from", source) == 0
    assert command("eval-sg", suites, *search, "-o", tmp_path / "model") == 0
    written = ["--text-style", "raw"] if style == "raw" else []
    assert command("eval-sg", suites, "--surprisals", values, "-o", tmp_path / "file", *nats, *written) == 0
    expected, found = results(tmp_path / "model"), results(tmp_path / "file")
    assert_same_scores(found, expected)
    assert found["counts"] == without_search(expected["counts"])
    assert found["settings"]["unit_of_file"] == unit
    for settings in (found["settings"], expected["settings"]):
        assert (settings["unit"], settings["log_base"]) == ("fraction of 1", "bits")
    assert found["settings"]["alignment"] == "characters"
    assert found["settings"]["eos"] == (style != "gpt2")
    assert "sha256" in found["provenance"]["inputs"]["surprisals"]
    mine, theirs = (pandas.read_parquet(tmp_path / name / "strings.parquet") for name in ("file", "model"))
    numbers = ["bits", "surprisals", "dropped"]  # nobody knows what scores that are read have lost
    pandas.testing.assert_frame_equal(mine.drop(columns=numbers), theirs.drop(columns=numbers))
    assert mine.bits.tolist() == pytest.approx(theirs.bits.tolist(), rel=2e-6, abs=1e-5)
    assert mine.region.isna().any() == (style != "gpt2")  # the rows of end-of-sentence
    items = [pandas.read_parquet(tmp_path / name / "items.parquet") for name in ("file", "model")]
    searched = ["beam", "margin", "margin_bits"]
    pandas.testing.assert_frame_equal(*(each.drop(columns=searched) for each in items))
    assert items[0].correct.nunique() == 2  # so that a mistake can show


# --- sentences out -----------------------------------------------------------------------------


@pytest.mark.parametrize("columns", ["offsets", "lm-zoo"])
def test_minimal_pairs_score_as_with_the_model(
    pairs: Path, model: tuple[str, Path], tmp_path: Path, columns: str
) -> None:
    _, folder = model
    text, values = tmp_path / "sentences.txt", tmp_path / "surprisals.tsv"
    search = ("--model", folder, "--beam", 3, "--device", "cpu")
    assert command("eval-blimp", pairs, "--write-sentences", text) == 0
    assert command("surprisal", text, *search, "-o", values) == 0
    assert command("eval-blimp", pairs, *search, "-o", tmp_path / "model") == 0
    if columns == "lm-zoo":
        values = lm_zoo(values, tmp_path / "lm-zoo.tsv")
    assert command("eval-blimp", pairs, "--surprisals", values, "-o", tmp_path / "file") == 0
    expected, found = results(tmp_path / "model"), results(tmp_path / "file")
    assert_same_scores(found, expected)
    assert found["counts"] == without_search(expected["counts"])
    assert found["counts"]["ties"] == 1
    mine, theirs = (wide_items(tmp_path / name) for name in ("file", "model"))
    for column in ("outcome", "tokens_good", "tokens_bad", "read_good"):
        assert mine[column].tolist() == theirs[column].tolist()
    assert mine.logprob_good.tolist() == pytest.approx(theirs.logprob_good.tolist(), rel=2e-6, abs=1e-5)
    assert mine.logprob_bad.tolist() == pytest.approx(theirs.logprob_bad.tolist(), rel=2e-6, abs=1e-5)


def test_written_sentences(pairs: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    out = tmp_path / "b.tsv"
    assert command("eval-blimp", pairs, "--write-sentences", out, "--limit", 2, "--json") == 0
    printed = capsys.readouterr()
    assert json.loads(printed.out)["counts"] == {"sentences": 4}
    assert printed.err == "4 sentences written\n"
    assert out.read_text().split("\n")[:3] == [
        "paradigm\titem\tstring\ttext",
        "toy\t0\tgood\tThe dogs didn't bark.",
        "toy\t0\tbad\tThe dogs didn't barks.",
    ]
    assert command("eval-blimp", pairs, "--write-sentences", out) == 1
    assert "exists already" in capsys.readouterr().err
    assert command("eval-blimp", pairs, "--write-sentences", tmp_path / "b.xlsx") == 1
    assert capsys.readouterr().err == f"pdtools: {tmp_path}/b.xlsx: tables are written as .csv or .tsv\n"


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        ([], "exactly one of --model, --surprisals, --write-sentences"),
        (["--model", "m", "--surprisals", "f", "-o", "r"], "exactly one of"),
        (["--surprisals", "f"], "-o"),
        (["--model", "m"], "-o"),
        (["--surprisals", "f", "-o", "r", "--beam", "3"], "--beam does not go with --surprisals"),
        (["--surprisals", "f", "-o", "r", "--context", "c"], "--context does not go with --surprisals"),
        (["--write-sentences", "f", "-o", "r"], "--output does not go with"),
        (["--write-sentences", "-", "--json"], "--json"),
        (["--write-sentences", "f", "--details"], "--details does not go with --write-sentences"),
        (["--write-sentences", "f", "--latex"], "--latex does not go with --write-sentences"),
        (["--from-items", "--details"], "--details does not go with --from-items"),
        (["--model", "m", "-o", "r", "--nats"], "--nats does not go with --model"),
        (["--from-items", "--text-style", "raw"], "--text-style does not go with"),
    ],
)
def test_wrong_usage(
    arguments: list[str], says: str, suites: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert command("eval-sg", suites, *arguments) == 2
    assert says in " ".join(capsys.readouterr().err.split())


# --- results per item in -----------------------------------------------------------------------


def test_item_results_of_several_files(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    header = "model,suite,item,correct\n"
    (tmp_path / "a.csv").write_text(
        header + "m_c_1,cleft,0,True\nm_c_1,cleft,1,False\nngram_c_1,cleft,0,True\nngram_c_2,cleft,0,True\n"
    )
    (tmp_path / "b.csv").write_text(header + "m_c_2,cleft,0,True\nngram_c_3,cleft,0,False\nplain,own,7,1\n")
    files = (tmp_path / "a.csv", tmp_path / "b.csv")
    assert command("eval-sg", "--from-items", *files, "-o", tmp_path / "r", "--json") == 0
    document = json.loads(capsys.readouterr().out)
    assert document == results(tmp_path / "r")
    assert document["counts"] == {
        "runs_read": 6,
        "runs": 4,
        "items": 5,
        "items_missing": {"m_c_1": 1, "m_c_2": 2, **{f"ngram_c_{n}": 2 for n in (1, 2, 3)}, "plain": 2},
    }
    items = pandas.read_parquet(tmp_path / "r" / "items.parquet")
    assert [*zip(items.model, items.seed, items.suite, items.item, items.correct, strict=True)] == [
        *(("m", "1", "cleft", 0, True), ("m", "1", "cleft", 1, False), ("m", "2", "cleft", 0, True)),
        *(("ngram", "majority3", "cleft", 0, True), ("plain", "", "own", 7, True)),
    ]
    assert command("eval-sg", "--from-items", tmp_path / "a.csv") == 0
    captured = capsys.readouterr()
    assert "majority2" in captured.out
    assert "50.00" in captured.out
    assert "ngram_c_2: 1 items that other runs have are missing" in captured.err
    assert not captured.err.startswith("m_c_1:")
    assert command("eval-sg", "--from-items", *files, tmp_path / "a.csv") == 1
    assert "a second result of cleft 0" in capsys.readouterr().err
    (tmp_path / "none.csv").write_text(header)
    assert command("eval-sg", "--from-items", tmp_path / "none.csv") == 1
    assert "no result" in capsys.readouterr().err


def test_published_scores(test_data: Path, tmp_path: Path) -> None:
    out = tmp_path / "r"
    assert command("eval-sg", "--from-items", test_data / "sg" / "sg_results.zip", "-o", out) == 0
    levels = {
        "overall": "sg_31",
        "alt_mean_of_circuits": "mean_of_circuits",
        "alt_mean_of_items": "mean_of_items",
    }
    rows = pandas.read_parquet(out / "scores.parquet")
    found = {
        (row.model, row.corpus, row.seed, row.level, row.name_): row.score
        for row in rows.rename(columns={"name": "name_"}).itertuples()
    }
    with (test_data / "sg" / "expected_scores.csv").open() as stream:
        expected = list(csv.DictReader(stream))
    assert len(expected) == 640
    for row in expected:
        level, name = levels.get(row["level"], row["level"]), row["name"]
        key = (row["model"], row["corpus"], row["seed"], level, "" if row["level"] in levels else name)
        assert math.isclose(found[key], float(row["score"]), abs_tol=1e-6), row
    runs = {(run["model"], run["corpus"], run["seed"]) for run in results(out)["scores"]["runs"]}
    assert runs == {(row["model"], row["corpus"], row["seed"]) for row in expected}
