"""One score a string: those that others published come to the accuracies that they are known by."""

from __future__ import annotations

import json
import zipfile
from dataclasses import replace
from pathlib import Path

import pytest

from pdtools.cli.main import run
from pdtools.errors import InputError
from pdtools.evaluation.benchmark.evaluate import evaluate_published
from pdtools.evaluation.benchmark.from_toml import benchmark_from, benchmark_of_columns, read_benchmark
from pdtools.evaluation.benchmark.item_files import Items
from pdtools.evaluation.benchmark.rows import data_files, items_of


def known_of(test_data: Path, archive: str) -> tuple[Path, dict[tuple[str, str], float]]:
    folder = test_data / "benchmarks"
    if not folder.is_dir():
        pytest.skip("no published benchmarks there")
    lines = (folder / "expected.tsv").read_text("utf-8").splitlines()
    cells = [line.split("\t") for line in lines[1:]]
    return folder / archive, {(of[1], of[2]): float(of[3]) for of in cells if of[0] == archive}


def write(path: Path, scores: list[tuple[int, str, str]]) -> Path:
    rows = [("item", "string", "score"), *scores]
    path.write_text("".join("\t".join(map(str, row)) + "\n" for row in rows))
    return path


def test_roberta_on_zorro(tmp_path: Path, test_data: Path) -> None:
    source, known = known_of(test_data, "pairs/zorro.zip")
    table = tmp_path / "scores.tsv"
    with zipfile.ZipFile(source) as archive, table.open("w") as out:
        out.write("item\tstring\tsurprisal\n")
        names = sorted(name for name in archive.namelist() if name.startswith("sentences/"))
        references = sorted(name for name in archive.namelist() if "/probing_" in name)
        for number, name in enumerate(references):
            lines = archive.read(name).decode().splitlines()
            for i, line in enumerate(lines):  # cross entropies; the wrong one of a pair comes first
                item = number * 2000 + i // 2 + 1
                out.write(f"{item}\t{('bad', 'good')[i % 2]}\t{line.rpartition(' ')[2]}\n")
    results = tmp_path / "results"
    given = ["--as", "zorro", "--scores", str(table), "-o", str(results), "--quiet"]
    assert run(["eval-benchmark", str(source), *given]) == 0
    document = json.loads((results / "results.json").read_text())
    of_reference: dict[str, dict[str, float]] = {quantity: {} for _, quantity in known}
    for (member, quantity), value in known.items():
        paradigm = Path(member).stem.removeprefix("probing_").removesuffix("_results_500000")
        of_reference[quantity][paradigm] = value
    right, ties = of_reference["accuracy of RoBERTa-base (tie wrong)"], of_reference["ties"]
    found = document["scores"]["by_paradigm"]
    assert found.keys() == right.keys() == {Path(name).stem for name in names}
    for name in found:
        assert found[name] == pytest.approx(right[name], rel=2e-6, abs=5e-5)
        assert document["counts"]["by_paradigm"][name]["ties"] == ties[name]
    (mean,) = of_reference["mean accuracy of the 23 paradigms"].values()
    assert document["scores"]["overall"] == pytest.approx(mean, rel=2e-6, abs=5e-5)


@pytest.mark.parametrize(
    ("member", "columns"),
    [
        ("English/best_model", ["hidden650_batch128_dropout0.2_lr20.0", "freq"]),
        ("Italian/best_model_mturk", ["hidden650_batch64_dropout0.2_lr10.0", "mturk_count", "freq"]),
    ],
)
def test_lstms_and_people_on_colorlessgreen(
    tmp_path: Path, test_data: Path, member: str, columns: list[str]
) -> None:
    source, known = known_of(test_data, "pairs/colorlessgreen_en_it.zip")
    member = f"data/evaluation_output/{member}.tab"
    of = replace(read_benchmark("colorlessgreen"), files=(member,))
    items = Items(source, of)
    (counts,) = items.by_file.values()
    assert counts["items"] == known[member, "pairs"]
    (file,) = data_files(source, of)
    rows = list(items_of(file, of))
    for column in columns:
        scores = [
            (number, side, row.cells[f"{side}.{column}"])
            for number, row in enumerate(rows, start=1)
            for side in ("good", "bad")
        ]
        results = evaluate_published(items, write(tmp_path / "scores.tsv", scores))
        wanted = {
            quantity.split(", ")[-1].split()[0]: value
            for (where, quantity), value in known.items()
            if where == member and quantity.startswith(f"accuracy {column}, ")
        }
        assert set(wanted) == {"original", "generated"}
        for kind, value in wanted.items():
            assert results.scores["by_type"][kind] == pytest.approx(value, rel=2e-6, abs=5e-5)


PAIRS = benchmark_from(
    {
        "strings": {"good": "{good}", "bad": "{bad}"},
        "predictions": {"main": "good > bad", "per_token": "good > bad"},
        "scores": {"per_token": "per_token"},
    },
    "toy.toml",
    "toy",
)


def test_what_is_about_tokens_is_excluded(tmp_path: Path) -> None:
    (tmp_path / "a.tsv").write_text("good\tbad\na\tb\nc\td\n")
    rows = [(1, "good", "2"), (1, "bad", "1"), (2, "good", "1"), (2, "bad", "1")]
    results = evaluate_published(Items(tmp_path / "a.tsv", PAIRS), write(tmp_path / "scores.tsv", rows))
    assert results.scores["by_prediction"] == {"main": 0.5}
    assert results.counts["ties"] == 1
    assert results.table("strings")["reason"].to_pylist() == [None] * 4
    about_tokens = replace(PAIRS, scores=dict(reversed(PAIRS.scores.items())))
    with pytest.raises(InputError, match="its prediction is about tokens"):
        evaluate_published(Items(tmp_path / "a.tsv", about_tokens), tmp_path / "scores.tsv")


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("item\tscore\n1\t2\n", "no column string in the header"),
        ("item\tstring\tscore\n1\tgood\n", ":2: 2 columns, the header has 3"),
        ("item\tstring\tscore\n\n\t\t\n", ":3: item '' with the score '': two numbers"),
        ("item\tstring\tscore\nx\tgood\t1\n", ":2: item 'x' with the score '1': two numbers are needed"),
        ("item\tstring\tscore\n1\tgood\tnan\n", ":2: item '1' with the score 'nan': two numbers"),
        ("item\tstring\tscore\n1\tgood\t1\n1\tgood\t1\n", ":3: a second score of good of item 1"),
        ("item\tstring\tscore\n1\tgood\t1\n", "no score of bad of item 1 (--write-sentences writes"),
    ],
)
def test_tables_that_are_no_scores(tmp_path: Path, text: str, reason: str) -> None:
    (tmp_path / "a.tsv").write_text("good\tbad\na\tb\n")
    (tmp_path / "scores.tsv").write_text(text)
    with pytest.raises(InputError) as error:
        evaluate_published(Items(tmp_path / "a.tsv", PAIRS), tmp_path / "scores.tsv")
    assert reason in str(error.value)


def test_pairs_of_two_columns(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "mine.csv").write_text("sen;wrong;the kind\na;b;x\nc;d;y\ne;f;y\n")
    scores = [(n, side, str(n * (side == "good"))) for n in (1, 2, 3) for side in ("good", "bad")]
    write(tmp_path / "scores.tsv", scores)
    given = ["eval-benchmark", str(tmp_path / "mine.csv"), "--scores", str(tmp_path / "scores.tsv"), "--json"]
    of_columns = ["--good", "sen", "--bad", "wrong", "--level", "the kind"]
    assert run([*given, *of_columns, "-o", str(tmp_path / "out")]) == 0
    document = json.loads(capsys.readouterr().out)
    assert document["scores"]["by_the_kind"] == {"x": 1.0, "y": 1.0}
    for wrong in (["--good", "sen"], ["--as", "zorro", "--level", "x"], []):
        assert run([*given, *wrong, "-o", str(tmp_path / "other")]) == 2
        assert "give either --as, or --good and --bad" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("data", "name", "overall", "by"),
    [
        ("t9_digits.csv", "t9_digits", 1.0, {}),
        ("t9_digits.jsonl", "t9_digits", 1.0, {}),
        ("t10_flags.csv", "t10_flags", 1.0, {"npi": 1, "binding": 2}),
    ],
)
def test_small_tables(
    tmp_path: Path, test_data: Path, data: str, name: str, overall: float, by: dict[str, int]
) -> None:
    """An index that is also an option's text; flags as pandas writes them."""
    cases = test_data.parent / "cases" / "4"
    if not cases.is_dir():
        pytest.skip("no small tables there")
    scores = str(cases / f"{name.split('_')[0]}_scores.tsv")
    definition = str(cases / f"{name}.toml")
    given = ["eval-benchmark", str(cases / data), "--as", definition, "--scores", scores, "--quiet"]
    assert run([*given, "-o", str(tmp_path / "r")]) == 0
    found = json.loads((tmp_path / "r" / "results.json").read_text())
    assert found["scores"]["overall"] == overall
    assert {flag: of["items"] for flag, of in found["counts"].get("by_kind", {}).items()} == by


def test_quotes_and_paths_of_small_sets(test_data: Path) -> None:
    cases = test_data.parent / "cases" / "4"
    if not cases.is_dir():
        pytest.skip("no small tables there")
    of_columns = benchmark_of_columns("t12", "good", "bad", ["kind"])
    excel, plain = (list(Items(cases / f"t12_{name}.tsv", of_columns)) for name in ("excel", "plain"))
    assert [item.strings for item in excel] == [item.strings for item in plain]
    for name in ("m", "m2"):
        items = Items(cases / "path_column", read_benchmark(str(cases / "path_column" / f"{name}.toml")))
        assert [item.levels[-1] for item in items] == ["a", "b"]


def test_predictions_keep_their_numbers_where_some_are_excluded(tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_text("good,bad\nx,y\n")
    table = {
        "strings": {"good": "{good}", "bad": "{bad}"},
        "predictions": {"main": "good > bad", "long": "good > bad", "words": "bad > good"},
        "scores": {"long": "per_token", "words": "per_word"},
    }
    items = Items(tmp_path / "a.csv", benchmark_from(table, "toy.toml", "toy"))
    results = evaluate_published(items, write(tmp_path / "s.tsv", [(1, "good", "2"), (1, "bad", "1")]))
    rows = results.table("items").to_pydict()
    assert (rows["prediction"], rows["outcome"]) == ([1, 3], ["right", "wrong"])


def test_scores_that_are_of_no_string_are_counted(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "a.tsv").write_text('good\tbad\n"x, z"\ty\n')
    scores = [(1, "good", "2"), (1, "bad", "1"), (2, "good", "2"), (1, "god", "3")]
    write(tmp_path / "s.tsv", scores)
    given = ["--good", "good", "--bad", "bad", "--scores", str(tmp_path / "s.tsv")]
    assert run(["eval-benchmark", str(tmp_path / "a.tsv"), *given, "-o", str(tmp_path / "out")]) == 0
    err = capsys.readouterr().err
    assert "2 scores are of no string of these items" in err
    assert "quotes around cells with commas are taken for those of Excel" in err
