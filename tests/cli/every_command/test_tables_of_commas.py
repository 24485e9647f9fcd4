"""Tables with commas, where a file's name asks for them, as pandas and pdtools read them."""

from __future__ import annotations

import csv
import json
from pathlib import Path

import pandas
import pytest
from search_oracle import tiny_model
from toy_sets import write_pairs

from pdtools.cli.main import run
from pdtools.files import atomic_table, read_table
from pdtools.models import save_checkpoint
from pdtools.tokenization import split_spaces, train_bpe_tokenizer

LINES = ['He said, "no, 1,000".', "a,b \u00e9 'c'", "plain"]
SUFFIXES = ["csv", "csv.gz", "csv.zst"]


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("model") / "model"
    tokenizer = train_bpe_tokenizer([split_spaces(line) for line in LINES], size=290, min_count=1)
    save_checkpoint(folder, tiny_model(vocab_size=tokenizer.vocab_size, max_length=64), tokenizer, shards={})
    return folder


def command(*arguments: object) -> None:
    assert run([*map(str, arguments), "--quiet"]) == 0


def same_tables(commas: Path, tabs: Path) -> pandas.DataFrame:
    found = pandas.read_csv(commas, keep_default_na=False)
    expected = pandas.read_csv(tabs, sep="\t", quoting=csv.QUOTE_NONE, keep_default_na=False)
    pandas.testing.assert_frame_equal(found, expected)
    return found


@pytest.mark.parametrize("suffix", SUFFIXES)
@pytest.mark.parametrize("more", [[], ["--words"], ["--parses"]])
def test_surprisal(suffix: str, more: list[str], model: Path, tmp_path: Path) -> None:
    text = tmp_path / "in.txt"
    text.write_text("".join(line + "\n" for line in LINES))
    search = ["surprisal", text, "--model", model, "--beam", 2, "--device", "cpu", *more]
    command(*search, "-o", tmp_path / "out.tsv")
    command(*search, "-o", tmp_path / f"out.{suffix}")
    found = same_tables(tmp_path / f"out.{suffix}", tmp_path / "out.tsv")
    assert found.iloc[:, 2].str.contains('[,"]').any()


def test_what_is_written_is_read_back(model: Path, tmp_path: Path) -> None:
    """The sentences of BLiMP out, their surprisals in: the scores of the model itself."""
    pairs = [('He said, "no".', 'No said, "he".'), ("a,b c", "c a,b")]
    data = write_pairs(tmp_path / "toy.jsonl", pairs)
    sentences = tmp_path / "sentences.csv"
    command("eval-blimp", data, "--write-sentences", sentences)
    assert pandas.read_csv(sentences).text.tolist() == [text for pair in pairs for text in pair]
    text = tmp_path / "in.txt"
    command("eval-blimp", data, "--write-sentences", text)
    search = ["--model", model, "--beam", 2, "--device", "cpu"]
    command("surprisal", text, *search, "-o", tmp_path / "out.csv")
    command("eval-blimp", data, "--surprisals", tmp_path / "out.csv", "-o", tmp_path / "file")
    command("eval-blimp", data, *search, "-o", tmp_path / "model")
    scores = [
        json.loads((tmp_path / name / "results.json").read_text())["scores"] for name in ("file", "model")
    ]
    margins = [each.pop("margin_bits")["overall"] for each in scores]
    assert scores[0] == scores[1]
    assert margins[0] == pytest.approx(margins[1], abs=1e-7)  # surprisals have eight digits


@pytest.mark.parametrize(
    ("line", "reason"),
    [('1,"a,0,1,2', "not CSV"), ('1,"a" b,0,1,2', "not CSV"), ("1,a,0,1", "4 columns, the header has 5")],
)
def test_bad_commas_are_named_by_their_line(
    line: str, reason: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    data = write_pairs(tmp_path / "toy.jsonl", [("a", "b")])
    table = tmp_path / "t.csv"
    table.write_text(f"sentence_id,token,start,end,surprisal\n{line}\n")
    assert run(["eval-blimp", str(data), "--surprisals", str(table), "-o", str(tmp_path / "out")]) == 1
    error = capsys.readouterr().err
    assert f"{table}:2: {reason}" in error
    assert error.count("\n") == 1


def test_empty_lines_of_either_table_are_passed_over(tmp_path: Path) -> None:
    data = tmp_path / "toy.jsonl"
    data.write_text(json.dumps({"sentence_good": "a", "sentence_bad": "b"}) + "\n")
    for mark, suffix in ((",", "csv"), ("\t", "tsv")):
        table = tmp_path / f"t.{suffix}"
        rows = ("sentence_id", "word", "surprisal"), ("1", "a", "1"), (), ("2", "b", "3"), ()
        table.write_text("".join(mark.join(cells) + "\n" for cells in rows))
        assert [cells for _, cells in read_table(table)][2:] == [[], ["2", "b", "3"], []]
        command("eval-blimp", data, "--surprisals", table, "-o", tmp_path / suffix)
        scores = json.loads((tmp_path / suffix / "results.json").read_text())["scores"]
        assert scores["overall"] == 1


@pytest.mark.parametrize("suffix", SUFFIXES)
def test_formal_languages(suffix: str, tmp_path: Path) -> None:
    from pdtools.formal.bracket_prefixes import read_prefixes
    from pdtools.formal.transduction_data import read_pairs
    from pdtools.formal.transductions import make_task

    pairs = ["generate", "task", "rs", "--number", 3, "--lengths", "4-5", "--seed", 1]
    prefixes = ["generate", "dyck-prefixes", "--depths", "4-5", "--number", 4, "--seed", 1]
    for kind, made in (("pairs", pairs), ("prefixes", prefixes)):
        for name in (suffix, "tsv"):
            command(*made, "-o", tmp_path / f"{kind}.{name}")
        same_tables(tmp_path / f"{kind}.{suffix}", tmp_path / f"{kind}.tsv")
    commas, tabs = (read_pairs(make_task("rs"), tmp_path / f"pairs.{name}") for name in (suffix, "tsv"))
    assert all((commas[length].x == tabs[length].x).all() for length in tabs)
    assert read_prefixes(tmp_path / f"prefixes.{suffix}") == read_prefixes(tmp_path / "prefixes.tsv")


@pytest.mark.parametrize("cell", ["a\tb", "a\rb", "\r", "a\r\tb"])
def test_a_cell_is_never_two(cell: str, tmp_path: Path) -> None:
    for name in ("x.tsv", "x.tsv.gz"):
        with atomic_table(tmp_path / name, ["one", "two"]) as write:
            write([cell, "c"])
        shown = cell.replace("\t", "\\t").replace("\r", "\\r")
        assert [cells for _, cells in read_table(tmp_path / name)] == [["one", "two"], [shown, "c"]]
