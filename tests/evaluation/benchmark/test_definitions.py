"""Benchmarks as files: what is read of them, and what is refused in one line."""

from __future__ import annotations

import json
import math
import zipfile
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from pdtools.errors import InputError, PdtoolsError
from pdtools.evaluation.benchmark.definition import Benchmark
from pdtools.evaluation.benchmark.evaluate import evaluate_benchmark
from pdtools.evaluation.benchmark.from_toml import (
    benchmark_from,
    benchmark_of_columns,
    bundled,
    read_benchmark,
)
from pdtools.evaluation.benchmark.items import Items
from pdtools.evaluation.benchmark.templates import Template

PAIRS = {"strings": {"good": "{good}", "bad": "{bad}"}}


def benchmark(**parts: Any) -> Benchmark:
    return benchmark_from({**PAIRS, **parts}, "toy.toml", "toy")


def texts(source: Path, of: Benchmark) -> list[dict[str, str]]:
    return [{name: string.text for name, string in item.strings.items()} for item in Items(source, of)]


@pytest.mark.parametrize("name", bundled())
def test_every_bundled_one_says_what_it_is(name: str) -> None:
    found = read_benchmark(name)
    assert {"title", "right", "url", "licence", "get", "cite"} <= found.about.keys()
    assert found.files


def test_templates() -> None:
    row = {"a b": "x_y", "list": ["p", "q"], "n": 3, "yes": True, "none": None}
    written = {
        "{a b|replace:_: }.": "x y.",
        "{list|-1}{n}": "q3",
        "{{{yes}}}": "{true}",
        "{a b|split:_|1|upper}{none}": "Y",
    }
    assert {text: Template.parse(text).write(row) for text in written} == written
    assert Template.parse("{list}").value(row) == ["p", "q"]


@pytest.mark.parametrize(
    ("name", "text", "form"),
    [
        ("a.csv", 'good,bad\n"a ""b"", c",b\nd,e\n', {}),
        ("a.csv", 'good;bad\n"a ""b"", c";b\nd;e\n', {}),
        ("a.csv", '\ufeffgood,bad\r\n"a ""b"", c",b\r\nd,e\r\n', {}),
        ("a.tsv", 'good\tbad\n"a ""b"", c"\tb\nd\te\n', {"quote": True}),
        ("a.tsv", 'good\tbad\na "b", c\tb\nd\te\n', {}),
        ("a.txt", 'bad|good\nb|a "b", c\ne|d\n', {"delimiter": "|", "header": True}),
        ("a.jsonl", '{"good": "a \\"b\\", c", "bad": "b"}\n\n{"good": "d", "bad": "e"}\n', {}),
        ("a.json", '[{"good": "a \\"b\\", c", "bad": "b"}, {"good": "d", "bad": "e"}]', {}),
    ],
)
def test_forms_of_files(tmp_path: Path, name: str, text: str, form: dict[str, Any]) -> None:
    (tmp_path / name).write_bytes(text.encode())
    of = benchmark(form=form)
    assert texts(tmp_path, of) == texts(tmp_path / name, of)
    assert texts(tmp_path, of) == [{"good": 'a "b", c', "bad": "b"}, {"good": "d", "bad": "e"}]


def test_a_parquet_file_and_a_line_break_in_a_cell(tmp_path: Path) -> None:
    import pyarrow as pa
    import pyarrow.parquet as pq

    pq.write_table(pa.table({"good": ["a\nb"], "bad": ["c"]}), tmp_path / "a.parquet")
    (tmp_path / "b.csv").write_text('good,bad\n"a\nb",c\n')
    assert texts(tmp_path, benchmark()) == [{"good": "a\nb", "bad": "c"}] * 2


def test_rows_that_belong_together(tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_text("b 1\nb 2\n\nc 1\nc 2\n")
    two = {"good": "{good.1}", "bad": "{bad.1}"}
    wrong_first = benchmark(rows={"every": 2, "as": ["bad", "good"]}, strings=two)
    expected = [{"good": "b 2", "bad": "b 1"}, {"good": "c 2", "bad": "c 1"}]
    assert texts(tmp_path, wrong_first) == expected
    (tmp_path / "a.txt").write_text("y\tb 2\nn\tb 1\nn\tc 1\ny\tc 2\n")
    by_role = {"every": 2, "role": "{1}", "good": "y", "bad": "n"}
    form = {"delimiter": "\t", "header": False}
    two = {"good": "{good.2}", "bad": "{bad.2}"}
    assert texts(tmp_path, benchmark(rows=by_role, strings=two, form=form)) == expected
    (tmp_path / "a.txt").write_text("y\tb 2\t1\nn\tc 1\t2\nn\tb 1\t1\ny\tc 2\t2\n")
    by_key = {"by": "{3}", "role": "{1}", "good": "y", "bad": "n"}
    assert texts(tmp_path, benchmark(rows=by_key, strings=two, form=form)) == expected


def test_plain_columns_of_rows_that_belong_together_are_the_first_ones(tmp_path: Path) -> None:
    (tmp_path / "a.tsv").write_text("r\tk\ts\nno\tx\tb\nyes\ty\ta\n")
    rows = {"every": 2, "role": "{r}", "good": "yes", "bad": "no"}
    of = benchmark(rows=rows, strings=OF_ROWS, levels={"first": "{k}", "right": "{good.k}"})
    assert [item.levels for item in Items(tmp_path, of)] == [("x", "y")]


def test_the_number_of_an_option_may_be_a_float(tmp_path: Path) -> None:
    (tmp_path / "a.jsonl").write_text('{"options": ["a", "b", "c"], "label": 2.0}')
    assert [item.right for item in Items(tmp_path, benchmark(**OPTIONS))] == [2]


def test_levels_from_paths_and_columns(tmp_path: Path) -> None:
    for language, paradigm in (("de", "x"), ("en", "x"), ("en", "y")):
        folder = tmp_path / "toy" / language
        folder.mkdir(parents=True, exist_ok=True)
        (folder / f"{paradigm}.tsv").write_text("good\tbad\na\tb\na\tb\nc\tc\n")
    of = benchmark(files="*/*.tsv", levels={"language": "{dir}", "paradigm": "{file}"})
    items = Items(tmp_path, of)
    assert (items.unit, items.levels) == ("group", ("language", "paradigm"))
    assert list(dict.fromkeys(items.named(item.levels) for item in items)) == ["de / x", "en / x", "en / y"]
    (counts, *_) = items.by_file.values()
    assert (counts.items, counts.identical, counts.repeated) == (3, 1, 1)
    one = Items(tmp_path / "toy" / "en", of, limit=1)  # what was named may be a part of it
    assert (one.unit, one.levels, len(list(one))) == ("paradigm", ("language",), 2)


def test_groups_are_in_their_order(tmp_path: Path, word_scorer: type[Any]) -> None:
    """By the finest level: so that a mean does not depend on the order of the data."""
    rows = [("z", "b"), ("a", "c"), ("z", "a")]
    (tmp_path / "a.csv").write_text("good,bad,up,low\n" + "".join(f"x,y,{up},{low}\n" for up, low in rows))
    items = Items(tmp_path, benchmark(levels={"up": "{up}", "low": "{low}"}))
    scores = evaluate_benchmark(items, word_scorer()).scores
    assert [list(scores[f"by_{level}"]) for level in ("up", "low")] == [["a", "z"], ["a", "b", "c"]]


def test_two_columns_of_levels_that_would_have_one_name() -> None:
    found = benchmark_of_columns("toy", "g", "b", ["a b", "2", "item", "good"])
    assert list(found.levels) == ["a_b", "level_2", "level_item", "level_good"]
    with pytest.raises(PdtoolsError, match="--level a b and --level a-b are both called a_b"):
        benchmark_of_columns("toy", "g", "b", ["a b", "a-b"])


def test_groups_that_would_have_one_name(tmp_path: Path) -> None:
    for levels, rows in (
        ({"x": "{x}"}, "a,b,none,\na,b,,\n"),
        ({"x": "{x}", "y": "{y}"}, "a,b,p,q / r\na,b,p / q,r\na,b,z,r\n"),
    ):
        (tmp_path / "a.csv").write_text(f"good,bad,x,y\n{rows}")
        with pytest.raises(InputError, match="two groups are called"):
            Items(tmp_path / "a.csv", benchmark(levels=levels))


@pytest.mark.parametrize(
    ("name", "text", "form"),
    [
        ("a.txt", "a\n\nb\nc\n", {}),
        ("a.csv", "1\na\n\nb\nc\n", {}),
        ("a.txt", "1\na\n\nb\nc\n", {"header": True}),
        ("a.txt", "% said\na\n \nb\nc\n", {"skip": 1}),
    ],
)
def test_a_blank_line_does_not_shift_the_rows_of_items(
    tmp_path: Path, name: str, text: str, form: dict[str, Any]
) -> None:
    of = benchmark(
        rows={"every": 2, "as": ["good", "bad"]}, strings={"good": "{good.1}", "bad": "{bad.1}"}, form=form
    )
    (tmp_path / name).write_text(text)
    with pytest.raises(InputError, match=r": a blank line between the rows of an item") as error:
        Items(tmp_path, of)
    assert error.value.line == text.split("\n").index(" " if " \n" in text else "") + 1
    (tmp_path / name).write_text(text.replace("\n\n", "\n").replace(" \n", "") + "d\n\n\ne\nf\n")
    assert [each["good"] for each in texts(tmp_path, of)] == ["a", "c", "e"]


def test_lines_that_are_skipped_need_not_be_a_table(tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_text('said "so; and; so\n\ngood,bad\na,b\n')
    assert texts(tmp_path, benchmark(form={"skip": 2})) == [{"good": "a", "bad": "b"}]


def test_a_sheet(tmp_path: Path) -> None:
    openpyxl = pytest.importorskip("openpyxl", reason="openpyxl is not installed")
    book = openpyxl.Workbook()
    for row in (["good", "bad", "n"], ["a", "b", 1], [None, None, None], [0, 0, 0], ["c", "d", None]):
        book.active.append(row)
    book.create_sheet("other").append(["x"])
    book.save(tmp_path / "a.xlsx")
    of = benchmark(levels={"n": "{n}"})
    assert texts(tmp_path, of) == [{"good": g, "bad": b} for g, b in (("a", "b"), ("0", "0"), ("c", "d"))]
    assert [item.levels for item in Items(tmp_path, of)] == [("1",), ("0",), (None,)]
    with pytest.raises(InputError, match=r"a\.xlsx:2: no column 'worse'"):
        Items(tmp_path, benchmark(strings={"good": "{good}", "bad": "{worse}"}))


def test_infinite_scores_that_are_equal_are_a_tie(tmp_path: Path, word_scorer: type[Any]) -> None:
    (tmp_path / "a.csv").write_text("good,bad\nx,yy\nz,x\n")
    scorer = word_scorer(lambda word: -1.0 if word == "z" else -math.inf)
    table = evaluate_benchmark(Items(tmp_path / "a.csv", benchmark()), scorer).table("items")
    assert table["outcome"].to_pylist() == ["tie", "right"]


def test_the_limit_is_of_what_is_scored_and_counted(tmp_path: Path, word_scorer: type[Any]) -> None:
    rows = "x,y\nx,y\nz,z\nu,v\n"
    (tmp_path / "a.csv").write_text(f"good,bad\n{rows}")
    counts = [
        evaluate_benchmark(Items(tmp_path / "a.csv", benchmark(), limit), word_scorer()).counts
        for limit in (1, 2, 3, None)
    ]
    assert [(each["items"], each["repeated"], each["identical"]) for each in counts] == [
        *((1, 0, 0), (2, 1, 0), (3, 1, 1), (4, 1, 1))
    ]


OF_ROWS = {"good": "{good.s}", "bad": "{bad.s}"}
OPTIONS = {"options": {"texts": "{options}", "right": "{label}"}, "strings": {}}


@pytest.mark.parametrize(
    ("parts", "reason"),
    [
        ({"strings": {}}, "no strings"),
        ({"string": {}}, "a benchmark has no 'string'"),
        ({"predictions": {"main": "good > worse"}}, "unknown name 'worse' (known: good, bad)"),
        ({"predictions": {"main": "good + bad"}}, "a number, where a comparison is needed"),
        ({"predictions": {"main": "good > max(bad"}}, "')' expected for max"),
        ({"strings": {"a": "{b", "c": "d"}}, "strings.a: '{b': '{' is no column"),
        ({"strings": {"a": "{b|shout}"}}, "unknown filter 'shout'"),
        ({"strings": {"a": "{a}", "b": "{b}"}}, "no predictions"),
        ({"scores": {"main": "per_letter"}}, "scores.main has to be one of sum, per_token"),
        ({"scores": {"other": "sum"}}, "scores: of predictions has no 'other'"),
        ({"chance": {"main": 50}}, "chance.main has to be a number from 0 to 1"),
        ({"levels": {"item": "{x}"}}, "levels.item: a level cannot be called that"),
        ({"rows": {"every": 1}}, "rows.every has to be a number from 2 on"),
        ({"rows": {"every": 2}}, "rows has either as,"),
        ({"form": {"kind": "pickle"}}, "form.kind has to be one of tsv,"),
        ({"path": "("}, "path is no regular expression"),
        ({"reader": "guess"}, "unknown reader 'guess'"),
        ({"files": 3}, "files has to be a list of strings"),
        ({"suites": True}, "a benchmark of suites has no 'strings'"),
        ({"suites": 1}, "suites has to be true or false"),
        ({"form": {"skip": -1}}, "form.skip has to be a number of lines"),
        ({"strings": {"option_1": "{a}", "b": "{b}"}}, "strings.option_1: a string cannot be called that"),
        ({"levels": {"score": "{x}"}}, "levels.score: a level cannot be called that"),
        ({"levels": {"good": "{x}"}}, "two columns of the results would be called 'good'"),
        ({"levels": {"logprob_bad": "{x}"}}, "two columns of the results would be called 'logprob_bad'"),
        (
            {"levels": {"a": "{x}", "bad": {"flags": ["y"]}}},
            "two columns of the results would be called 'bad'",
        ),
        ({"strings": {"a": "{x|--1}", "b": "{b}"}}, "unknown filter '--1'"),
        ({"scores": {"main": {"slln": float("nan")}}}, "scores.main has to be one of"),
        ({**OPTIONS, "predictions": {"main": "right > others"}}, "unexpected ','"),
        (
            {"strings": {"s": "{s}"}, "label": "{l}", "threshold": float("nan")},
            "threshold has to be a number",
        ),
    ],
)
def test_files_that_are_no_benchmarks(parts: dict[str, Any], reason: str) -> None:
    with pytest.raises(InputError) as error:
        benchmark(**parts)
    assert str(error.value).startswith("toy.toml: ")
    assert reason in str(error.value)


@pytest.mark.parametrize(
    ("name", "text", "parts", "reason"),
    [
        (
            "a.tsv",
            "good\tworse\na\tb\n",
            {},
            "a.tsv:2: no column 'bad' (there are: file, dir, row, good, worse)",
        ),
        ("a.tsv", "good\tbad\na\n", {}, "a.tsv:2: 1 columns, the header has 2"),
        ("a.tsv", "good\tbad\tbad\na\tb\tc\n", {}, "a.tsv:1: two columns 'bad' in the header"),
        ("a.csv", 'good,bad\n"a,b\n', {}, "a.csv:2: not CSV: unexpected end of data"),
        ("a.csv", "good,bad\ra,b\r", {}, "a.csv:1: not CSV: a carriage return that ends no line"),
        ("a.jsonl", "[]\n", {}, "a.jsonl:1: not a JSON object"),
        ("a.json", "{}", {}, "a.json: not a list of objects"),
        ("a.json", "[\xff]", {}, "a.json:1: not UTF-8"),
        ("a.parquet", "PAR1", {}, "a.parquet: not Parquet"),
        ("a.xlsx", "PK", {}, "a.xlsx: "),
        ("a.tsv", "good\tbad\n", {}, "no items of toy in it"),
        ("a.doc", "good\tbad\n", {}, "no files of toy in it (they are called *.tsv"),
        (
            "a.txt",
            "a\nb\nc\n",
            {"rows": {"every": 2, "as": ["good", "bad"]}, "strings": {"good": "{good.1}", "bad": "{bad.1}"}},
            "a.txt:3: an item without bad",
        ),
        (
            "a.tsv",
            "r\tk\ts\nyes\t1\ta\nno\t1\tb\nyes\t2\tc\n",
            {"rows": {"by": "{k}", "role": "{r}", "good": "yes", "bad": "no"}, "strings": OF_ROWS},
            "a.tsv:4: an item without bad",
        ),
        (
            "a.tsv",
            "r\tk\ts\nyes\t1\ta\nmaybe\t1\tb\n",
            {"rows": {"every": 2, "role": "{r}", "good": "yes", "bad": "no"}},
            "a.tsv:3: {r} is 'maybe', not one of yes, no",
        ),
        ("a.jsonl", '{"options": ["a", "b"], "label": "c"}', OPTIONS, "none of 2 options is right: 'c'"),
        ("a.jsonl", '{"options": ["a", "a"], "label": "a"}', OPTIONS, "2 of 2 options are right: 'a'"),
        ("a.jsonl", '{"options": ["a", "b"], "label": 2}', OPTIONS, "none of 2 options is right: 2"),
        ("a.jsonl", '{"options": ["a"], "label": 0}', OPTIONS, "not a list of two texts or more"),
    ],
)
def test_rows_that_are_no_items(
    tmp_path: Path, name: str, text: str, parts: dict[str, Any], reason: str
) -> None:
    (tmp_path / name).write_bytes(text.encode("latin-1"))
    with pytest.raises(InputError) as error:
        Items(tmp_path, benchmark(**parts))
    assert reason in str(error.value)


def test_two_files_of_one_name_are_one_group_only_if_levels_say_so(tmp_path: Path) -> None:
    with zipfile.ZipFile(tmp_path / "a.zip", "w") as archive:
        for folder in ("en", "fr"):
            archive.writestr(f"{folder}/data.csv", "good,bad\na,b\n")
    with pytest.raises(InputError, match=r"two files of one name: .*en/data.csv and .*fr/data.csv"):
        Items(tmp_path / "a.zip", benchmark())
    named = benchmark(levels={"language": "{dir}"})
    assert [item.levels for item in Items(tmp_path / "a.zip", named)] == [("en",), ("fr",)]
    together = benchmark(levels={"all": "all"})
    assert [item.levels for item in Items(tmp_path / "a.zip", together)] == [("all",), ("all",)]


def test_two_sets_in_one_archive_are_refused(tmp_path: Path) -> None:
    for folder in ("a", "b"):
        (tmp_path / folder / "eng").mkdir(parents=True)
        (tmp_path / folder / "eng" / "data.tsv").write_text("good\tbad\na\tb\n")
    with pytest.raises(InputError, match=r"two sets in it: .*a/eng/data.tsv and .*b/eng/data.tsv"):
        Items(tmp_path, benchmark(files="*/data.tsv"))


# --- as others publish them -------------------------------------------------------------------


def of_published(test_data: Path, archive: str) -> tuple[Path, dict[str, dict[str, str]]]:
    """A set as its authors publish it, and what is known of its files."""
    folder = test_data / "benchmarks"
    if not folder.is_dir():
        pytest.skip("no published benchmarks there")
    known: dict[str, dict[str, str]] = {}
    for line in (folder / "expected.tsv").read_text("utf-8").splitlines():
        where, member, quantity, value = line.split("\t")
        if where == archive:
            known.setdefault(member, {})[quantity] = value
    return folder / archive, known


@pytest.mark.parametrize(
    ("name", "archive"),
    [
        ("multiblimp", "pairs/multiblimp_eng.zip"),
        ("zorro", "pairs/zorro.zip"),
        ("clams", "pairs/clams_en_de_fr.zip"),
        ("lindsea", "pairs/lindsea_id.zip"),
    ],
)
def test_published_sets_have_as_many_items_as_their_authors_say(
    test_data: Path, name: str, archive: str
) -> None:
    source, known = of_published(test_data, archive)
    of = read_benchmark(name)
    if name == "clams":  # the whole takes long
        of = replace(of, files=("fr_evalset/*.txt",))
    items = Items(source, of)
    found = {file.split(".zip/")[1]: counts for file, counts in items.by_file.items()}
    wanted = {member: about for member, about in known.items() if "pairs" in about}
    if name == "clams":
        wanted = {member: about for member, about in wanted.items() if member.startswith("fr_")}
    assert found.keys() == wanted.keys()
    for member, counts in found.items():
        expected = [int(wanted[member][name]) for name in ("pairs", "identical", "repeated")]
        assert [counts.items, counts.identical, counts.repeated] == expected
    first = next(iter(items))
    assert first.strings["good"] != first.strings["bad"]


def test_quotes_and_levels_of_multiblimp(test_data: Path) -> None:
    source, known = of_published(test_data, "pairs/multiblimp_eng.zip")
    items = list(Items(source, read_benchmark("multiblimp")))
    by_phenomenon = known["eng/data.tsv"]
    for phenomenon in ("SV-#", "SV-P"):
        of = [item for item in items if item.levels == ("eng", phenomenon)]
        assert str(len(of)) == by_phenomenon[f"pairs of {phenomenon}"]
    assert not any('""' in string.text for item in items for string in item.strings.values())


def test_json_lines_of_blimp_are_items(tmp_path: Path) -> None:
    row = {"sentence_good": "a", "sentence_bad": "b", "UID": "x", "linguistics_term": "s-selection"}
    (tmp_path / "x.jsonl").write_text(json.dumps({**row, "field": "syntax/semantics", "pairID": "0"}))
    (item,) = Items(tmp_path, read_benchmark("blimp"))
    assert item.levels == ("syntax_semantics", "argument_structure", "x")
