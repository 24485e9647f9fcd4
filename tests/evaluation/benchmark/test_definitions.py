"""Benchmarks as files: what is read of them, and what is refused in one line."""

from __future__ import annotations

import json
import math
import os
import threading
import zipfile
from dataclasses import replace
from pathlib import Path
from statistics import fmean
from typing import Any

import pytest

from pdtools.errors import InputError, PdtoolsError
from pdtools.evaluation.benchmark.definition import Benchmark
from pdtools.evaluation.benchmark.evaluate import evaluate_items
from pdtools.evaluation.benchmark.from_toml import (
    BENCHMARKS,
    benchmark_from,
    benchmark_of_columns,
    read_benchmark,
)
from pdtools.evaluation.benchmark.item_files import Items
from pdtools.evaluation.benchmark.item_set import Item
from pdtools.evaluation.benchmark.templates import Template
from pdtools.evaluation.comparison.compare import compare
from pdtools.evaluation.comparison.groups import each_alone
from pdtools.evaluation.results import write_results
from pdtools.report.evaluations import print_benchmark
from pdtools.report.view.results import results_page

ARC = {"texts": "{choices.text}", "labels": "{choices.label}", "right": "{answer}"}
COLUMNS = {"texts": ["{p}", "{q}", "{r}"], "right": "{answer}"}
# Field, type, category, whether it is right, and number of items.
CROSSING = [
    *(("f", "t", "c", True, 3), ("f", "t", "c", False, 1), ("f", "t", "d", False, 2)),
    *(
        ("f", "u", "c", True, 1),
        ("f", "u", "d", True, 1),
        ("f", "u", "d", False, 4),
        ("g", "v", "e", True, 2),
    ),
]
OF_LINES = {"good": "{good.1}", "bad": "{bad.1}"}
PAIRS = {"strings": {"good": "{good}", "bad": "{bad}"}}


def benchmark(**parts: Any) -> Benchmark:
    return benchmark_from({**PAIRS, **parts}, "toy.toml", "toy")


def right_of(item: Item) -> str:
    """The text of the right option, which ``right > max(others)`` names first."""
    _, right = next(iter(item.formulas.values())).regions[0]
    return item.strings[right].text


def texts(source: Path, of: Benchmark) -> list[dict[str, str]]:
    return [{name: string.text for name, string in item.strings.items()} for item in Items(source, of)]


@pytest.mark.parametrize("name", BENCHMARKS.names)
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


def test_templates_reach_into_columns() -> None:
    """Objects and lists of objects, as in JSON and Parquet; a column whose name has a dot comes first."""
    choices = {"text": ["p", "q"], "label": ["A", "B"]}
    each = [{"text": "p", "of.key": 1}, {"text": "q", "of.key": 2}]
    row = {
        "choices": choices,
        "question": {"stem": "s", "choices": each},
        "a.b": "x",
        "a": {"b": "y", "c": 2},
    }
    found = {
        "{choices.text}": ["p", "q"],
        "{choices.label|1}": "B",
        "{question.stem}?": "s?",
        "{question.choices.text}": ["p", "q"],
        "{question.choices.of.key}": [1, 2],
        "{a.b}{a.c}": "x2",
    }
    assert {text: Template.parse(text).value(row) for text in found} == found
    for text, reason in {
        "{choices.texts}": "no column 'texts' (there are: text, label)",
        "{question.choices.label}": "no column 'label' (there are: text, of.key)",
        "{question.stem.x}": "column 'stem' holds no 'x': it is 's'",
        "{a.b.c}": "column 'a.b' holds no 'c': it is 'x'",
        "{b.c}": "no column 'b.c' (there are: choices, question, a.b, a)",
        "{choices.text|2}": "column 'choices.text': there is no number 2 (from 0) of ['p', 'q']",
        "{choices.text|0|0}": "column 'choices.text': there is no number 0 (from 0) of 'p'",
        "It is {choices.text}": "['p', 'q'] is no text: name one of it, {column|0}",
    }.items():
        with pytest.raises(PdtoolsError) as error:
            Template.parse(text).value(row)
        assert reason in str(error.value)


def test_the_text_of_a_template_is_bounded() -> None:
    """Filters that each double a cell, and many columns, are refused before the memory is needed."""
    doubled = "{a" + "|replace:a:aa" * 60 + "}"
    for text, cell in (
        (doubled, "a"),
        ("{a}" * 11, "a" * 100_000),
        ("{a|replace:a:" + "b" * 99 + "}", "a" * 1002),
    ):
        with pytest.raises(
            PdtoolsError, match="makes more than 10,000 characters, and 10 times those of the row"
        ):
            Template.parse(text).write({"a": cell})
    assert len(Template.parse("{a}" * 10).write({"a": "a" * 100_000})) == 1_000_000
    assert len(Template.parse("{a|replace:a:" + "b" * 10_000 + "}").write({"a": "a"})) == 10_000


@pytest.mark.parametrize(
    ("name", "text", "form"),
    [
        ("a.csv", 'good,bad\n"a ""b"", c",b\nd,e\n', {}),
        ("a.csv", 'good;bad\n"a ""b"", c";b\nd;e\n', {}),
        ("a.csv", '\ufeffgood,bad\r\n"a ""b"", c",b\r\nd,e\r\n', {}),
        ("a.csv", 'sep=;\ngood|bad\n"a ""b"", c"|b\nd|e\n', {"delimiter": "|"}),
        ("a.tsv", 'good\tbad\n"a ""b"", c"\tb\nd\te\n', {"quote": True}),
        ("a.tsv", 'good\tbad\na "b", c\tb\nd\te\n', {}),
        ("a.tsv", '"good"\t"bad"\n"a ""b"", c"\tb\n"d"\t"e"\n', {}),  # as R writes it
        ("a.tsv", '"good"\t"bad"\n"a \\"b\\", c"\t"b"\n"d"\t"e"\n', {}),
        ("a.tsv", 'good\tbad\n"a ""b"", c"\tb\nd\te\n', {}),  # as Excel does
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


@pytest.mark.parametrize(
    ("text", "of"),
    [
        ("a\nb\nc\nd\n", {"rows": {"every": 2, "as": ["good", "bad"]}, "strings": OF_LINES}),
        ("good|bad\na|b\nc|d\n", {"form": {"delimiter": "|"}}),
    ],
)
def test_items_of_a_pipe_are_read_once(tmp_path: Path, text: str, of: dict[str, Any]) -> None:
    """And can be gone through again; its name says nothing of its form."""
    os.mkfifo(tmp_path / "pipe")
    writing = threading.Thread(target=(tmp_path / "pipe").write_text, args=(text,))
    writing.start()
    items = Items(tmp_path / "pipe", benchmark(**of))
    writing.join()
    (tmp_path / "pipe").unlink()  # an error then, if it were opened again, and no endless wait
    for _ in range(2):
        found = [{name: string.text for name, string in item.strings.items()} for item in items]
        assert found == [{"good": "a", "bad": "b"}, {"good": "c", "bad": "d"}]


def test_quotes_of_tsv_can_be_kept(tmp_path: Path) -> None:
    (tmp_path / "a.tsv").write_text('good\tbad\n"a, b"\tc\n')
    items = Items(tmp_path, benchmark())
    assert next(iter(items)).strings["good"].text == "a, b"
    assert items.notes == [
        f"{tmp_path / 'a.tsv'}: quotes around cells with commas are taken for those of Excel"
    ]
    items = Items(tmp_path, benchmark(form={"quote": False}))
    assert (next(iter(items)).strings["good"].text, items.notes) == ('"a, b"', [])


@pytest.mark.parametrize("name", ["mine.tsv", "data-1.tsv"])
def test_a_named_file_is_read_whatever_files_are_called_and_that_is_said(name: str, tmp_path: Path) -> None:
    (tmp_path / name).write_text("good\tbad\na\tb\n")
    items = Items(tmp_path / name, benchmark(files="data-*.tsv"))
    said = f"{tmp_path / name}: read all the same: files of {items.title} are called data-*.tsv"
    assert (len(list(items)), items.notes) == (1, [said] * (name == "mine.tsv"))
    assert Items(tmp_path, benchmark(files=name)).notes == []


def test_a_parquet_file_and_a_line_break_in_a_cell(tmp_path: Path) -> None:
    import pyarrow as pa
    import pyarrow.parquet as pq

    pq.write_table(pa.table({"good": ["a\nb"], "bad": ["c"]}), tmp_path / "a.parquet")
    (tmp_path / "b.csv").write_text('good,bad\n"a\nb",c\n')
    assert texts(tmp_path, benchmark()) == [{"good": "a\nb", "bad": "c"}] * 2


def test_plain_columns_of_rows_that_belong_together_are_the_first_ones(tmp_path: Path) -> None:
    (tmp_path / "a.tsv").write_text("r\tk\ts\nno\tx\tb\nyes\ty\ta\n")
    rows = {"every": 2, "role": "{r}", "good": "yes", "bad": "no"}
    of = benchmark(rows=rows, strings=OF_ROWS, levels={"first": "{k}", "right": "{good.k}"})
    assert [item.levels for item in Items(tmp_path, of)] == [("x", "y")]


@pytest.mark.parametrize(
    ("options", "rows", "found", "doubtful"),
    [
        # A number is an index in every form of file, also where it is the text of another option.
        (COLUMNS, "p,q,r,answer\n1,2,3,1\n1,2,3,2\n0,1,2,1\n", ["2", "3", "1"], 2),
        (COLUMNS, "p,q,r,answer\na,b,c,1.0\na,b,c,0\na,b,c,b\n", ["b", "a", "b"], 0),
        (COLUMNS, [{"p": "1", "q": "2", "r": "3", "answer": 1}], ["2"], 0),
        (COLUMNS, [{"p": 1, "q": 2, "r": 3.5, "answer": "3.5"}], ["3.5"], 0),
        ({**COLUMNS, "labels": COLUMNS["texts"]}, "p,q,r,answer\n1,2,3,1\n1,2,3,2\n", ["1", "2"], 0),
        # Labels of a row's own.
        (ARC, [{"choices": {"text": ["a", "b"], "label": ["A", "B"]}, "answer": "B"}], ["b"], 0),
        (ARC, [{"choices": {"text": ["a", "b"], "label": ["1", "2"]}, "answer": "1"}], ["a"], 0),
        (ARC, [{"choices": {"text": ["a", "b", "c"], "label": [2, 1, 0]}, "answer": 1}], ["b"], 0),
        (
            ARC,
            [{"choices": [{"text": "a", "label": "D"}, {"text": "b", "label": "E"}], "answer": "E"}],
            ["b"],
            0,
        ),
        # Options that a row lacks; an index is that of the option as written.
        ({**COLUMNS, "missing": True}, "p,q,r,answer\na,b,,1\n,b,c,2\na,b,c,c\n", ["b", "c", "c"], 0),
        (
            {**COLUMNS, "missing": True},
            [
                {"p": "a", "q": None, "r": "c", "answer": 2},
                {"q": "a", "r": "c", "answer": 1},
                {"p": "a", "q": "b", "r": "c", "answer": "a"},
            ],
            ["c", "a", "a"],
            0,
        ),
        (
            {"texts": ["It is {p}", "It is {q}", "It is {r}"], "right": "{answer}", "missing": True},
            "p,q,r,answer\na,,c,2\na,b,c,1\n",
            ["It is c", "It is b"],
            0,
        ),
        (
            {"texts": ["{p}", "{q}", "{r}"], "right": "{answer}", "missing": True, "labels": ["A", "B", "C"]},
            "p,q,r,answer\n,b,c,B\na,b,,A\na,b,c,C\n",
            ["b", "a", "c"],
            0,
        ),
        (
            {**ARC, "missing": True},
            [{"choices": {"text": ["", "b", "c"], "label": "ABC"}, "answer": "C"}],
            None,
            0,
        ),
        (
            {**ARC, "missing": True},
            [{"choices": {"text": ["", "b", "c"], "label": ["A", "B", "C"]}, "answer": "C"}],
            ["c"],
            0,
        ),
    ],
)
def test_which_option_is_right(
    tmp_path: Path, options: dict[str, Any], rows: Any, found: list[str] | None, doubtful: int
) -> None:
    name = "a.csv" if isinstance(rows, str) else "a.jsonl"
    text = rows if isinstance(rows, str) else "".join(json.dumps(row) + "\n" for row in rows)
    (tmp_path / name).write_text(text)
    of = benchmark(strings={}, options=options)
    if found is None:
        with pytest.raises(InputError, match="the labels are 'ABC', not one for each of 3 options"):
            Items(tmp_path, of)
        return
    items = Items(tmp_path, of)
    assert [right_of(item) for item in items] == found
    assert items.record.outcomes is not None
    assert items.record.outcomes.chance == pytest.approx(fmean(1 / len(item.strings) for item in items))
    notes = [
        f"{doubtful} items: the right option's index (from 0) is also another option's text;"
        " if the text is meant, options.labels has to be what options.texts is"
    ]
    assert items.notes == (notes if doubtful else [])


def test_an_option_that_no_item_has_is_said(tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_text("p,q,s,answer\na,b,c,0\n")
    found = Items(tmp_path, benchmark(strings={}, options={**COLUMNS, "missing": True})).notes
    assert found == ["no item has all 3 options: is a column of options.texts misspelt?"]


def test_groups_of_paths_stand_before_columns(tmp_path: Path) -> None:
    """Also in rows that make one item, where a group is missing, and of the names that all rows have."""
    for part in ("a", "b"):
        (tmp_path / part).mkdir()
        (tmp_path / part / f"x{part}.jsonl").write_text(
            '{"good": "p", "bad": "q", "part": "c", "dir": "d"}\n' * 2
        )
    levels = {"part": "{part}", "dir": "{dir}"}
    of = benchmark(files="*.jsonl", path="/(?P<part>[ab])/x", levels=levels)
    assert [item.levels for item in Items(tmp_path, of)] == [("a", "d")] * 2 + [("b", "d")] * 2
    both = benchmark(
        path="/(?:(?P<part>[a])|[b])/(?P<dir>x).",
        levels=levels,
        rows={"every": 2, "as": ["good", "bad"]},
        strings={"good": "{good.good}", "bad": "{bad.part}{bad.bad}"},
    )
    found = [(item.levels, item.strings["bad"].text) for item in Items(tmp_path, both)]
    assert found == [(("a", "x"), "aq"), ((None, "x"), "q")]


@pytest.mark.parametrize(
    ("path", "folder", "reason"),
    [
        ("(?P<a>(?:a|a)*)b$", "a" * 200, "its path is not of the form (?P<a>(?:a|a)*)b$"),
        ("(?P<a>.*)" + ".*x" * 30 + "z$", "x" * 200, "its path is not of the form"),
        ("(", "a", "path (: Invalid regular expression: missing ): ("),
        ("(?=a)(?P<a>a)", "a", "path (?=a)(?P<a>a): Invalid regular expression: invalid perl operator: (?="),
        ("(a)(?P<b>a)", "a", "unnamed groups (groups without a name are written (?:...)"),
        (r"(?P<a>\w+)/", "é", r"(?P<a>\w+)/: RE2's \w, \b know only ASCII, and the path has other letters"),
    ],
)
def test_patterns_of_paths_take_linear_time(tmp_path: Path, path: str, folder: str, reason: str) -> None:
    (tmp_path / folder).mkdir()
    (tmp_path / folder / "c.tsv").write_text("good\tbad\na\tb\n")
    with pytest.raises(InputError) as error:
        Items(tmp_path, benchmark(path=path))
    assert reason in str(error.value)
    with pytest.raises(InputError, match="no files of toy"):  # patterns of names, too
        Items(tmp_path, benchmark(files="*a" * 60 + "b/*.tsv"))


def test_levels_that_cross(
    tmp_path: Path, word_scorer: type[Any], capsys: pytest.CaptureFixture[str]
) -> None:
    """Scores of levels that cross are over items; those of levels that hold the others, means of groups."""
    rows = [(f, t, c, r) for f, t, c, r, n in CROSSING for _ in range(n)]
    good = {True: "x", False: "xxx"}
    lines = "".join(
        f"{good[right]},yy,{field},{type_},{category}\n" for field, type_, category, right in rows
    )
    (tmp_path / "a.csv").write_text(f"good,bad,field,type,category\n{lines}")
    names = ("field", "type", "category")
    items = Items(tmp_path, benchmark(levels={name: f"{{{name}}}" for name in names}))
    assert (items.nested, items.crossing) == (False, ("type", "category"))
    results = evaluate_items(items, word_scorer())

    def share(of: list[bool]) -> float:
        return sum(of) / len(of)

    cells = {row[:3]: [each[3] for each in rows if each[:3] == row[:3]] for row in rows}
    by_field = {f: [share(of) for key, of in cells.items() if key[0] == f] for f in ("f", "g")}
    assert results.scores["by_field"] == {f: pytest.approx(fmean(of)) for f, of in by_field.items()}
    for place, name in enumerate(names[1:], start=1):
        of = {
            value: [row[3] for row in rows if row[place] == value]
            for value in dict.fromkeys(r[place] for r in rows)
        }
        assert results.scores[f"by_{name}"] == {value: pytest.approx(share(r)) for value, r in of.items()}
    assert results.scores["overall"] == pytest.approx(fmean(map(share, cells.values())))
    assert results.scores["mean_of_items"] == pytest.approx(share([row[3] for row in rows]))
    frame = results.table("items").to_pandas()
    frame = frame[frame.prediction == 1]
    for name in names[1:]:
        margins = frame.groupby(name).margin_bits.mean().to_dict()
        assert results.scores["margin_bits"][f"by_{name}"] == pytest.approx(margins)
    (note,) = results.settings["notes"]
    assert note == (
        "the levels type and category cross: their scores are over items, and overall is the mean of the"
        " 5 combinations (field / type / category)"
    )
    print_benchmark(results)
    printed = capsys.readouterr().out
    for line in ("overall (mean of 5 groups)", "type  accuracy over items", "field  accuracy  items"):
        assert line in printed

    write_results(tmp_path / "one", results, {})
    write_results(tmp_path / "two", evaluate_items(items, word_scorer(lambda word: len(word) - 9.0)), {})
    compared = compare(each_alone([tmp_path / "one", tmp_path / "two"]), samples=50)
    for name in names:
        found = {
            each.name: each.groups[0].mean / 100
            for each in compared.scores
            if each.level == name and not each.is_margin
        }
        assert found == {value: pytest.approx(s) for value, s in results.scores[f"by_{name}"].items()}
    page = results_page([str(tmp_path / "one")]).document["benchmarks"][0]["levels"]
    for name in names:
        shown = {row["name"]: row["score"] for row in page[name]}
        assert shown == {
            value: pytest.approx(s, abs=1e-4) for value, s in results.scores[f"by_{name}"].items()
        }


@pytest.mark.parametrize(
    ("groups", "crossing"),
    [
        ([("a", "x"), ("a", "y"), ("b", "z")], ()),  # nested
        ([("x", "a"), ("y", "a"), ("z", "b")], ()),  # the finest first
        ([("a", "x"), ("a", "y"), ("b", "x")], ("1", "2")),
        ([("a", ""), ("b", ""), ("b", "x")], ()),  # no name is no group
        ([("", "x"), ("a", "x"), ("a", "y")], ("1", "2")),  # but x is not within a
        ([("a", "p", "x"), ("a", "q", "x"), ("a", "q", "y"), ("b", "r", "z")], ("2", "3")),
    ],
)
def test_which_levels_cross(tmp_path: Path, groups: list[tuple[str, ...]], crossing: tuple[str, ...]) -> None:
    (tmp_path / "a.tsv").write_text("".join("\t".join(("a", "b", *group)) + "\n" for group in groups))
    levels = {f"l{i}": f"{{{i + 2}}}" for i in range(1, len(groups[0]) + 1)}
    of = benchmark(strings={"good": "{1}", "bad": "{2}"}, levels=levels, form={"header": False})
    assert Items(tmp_path, of).crossing == tuple(f"l{name}" for name in crossing)


def test_groups_are_in_their_order(tmp_path: Path, word_scorer: type[Any]) -> None:
    """By the finest level: so that a mean does not depend on the order of the data."""
    rows = [("z", "b"), ("a", "c"), ("z", "a")]
    (tmp_path / "a.csv").write_text("good,bad,up,low\n" + "".join(f"x,y,{up},{low}\n" for up, low in rows))
    items = Items(tmp_path, benchmark(levels={"up": "{up}", "low": "{low}"}))
    scores = evaluate_items(items, word_scorer()).scores
    assert [list(scores[f"by_{level}"]) for level in ("up", "low")] == [["a", "z"], ["a", "b", "c"]]


def test_two_columns_of_levels_that_would_have_one_name() -> None:
    found = benchmark_of_columns("toy", "g", "b", ["a b", "2", "item", "good"])
    assert list(found.levels) == ["a_b", "level_2", "level_item", "good"]
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
    table = evaluate_items(Items(tmp_path / "a.csv", benchmark()), scorer).table("items")
    assert table["outcome"].to_pylist() == ["tie", "right"]


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
        (
            {"levels": {"group": "{x}"}},
            "levels.group: a level cannot be called that, as a column of the results is: another name is"
            " needed, such as my_group",
        ),
        ({"levels": {"a-b": "{x}"}}, "levels.a-b: a level is called by a letter, and letters, digits and _"),
        ({"strings": {"max": "{x}"}}, "strings.max: a string cannot be called that, which formulas have in"),
        (
            {"scores": {"main": {"slln": 10**400}}},
            "scores.main.slln has to be a power of the number of",
        ),
        ({"form": {"skip": 10**30}}, "form.skip has to be a number of lines, from 0 to 1,000,000"),
        ({"options": {"texts": "{a}", "right": 0, "missing": 1}}, "options.missing has to be true or false"),
        ({"rows": {"every": 1}}, "rows.every has to be a number from 2 on"),
        ({"rows": {"every": 2}}, "rows has either as,"),
        ({"rows": {"every": 2, "by": "{k}"}}, "rows has either every, a number of rows, or by, a template"),
        ({"rows": {"every": 2, "as": ["a"]}}, "rows.as has a name for each of rows.every rows"),
        ({"rows": {"by": "{k}", "role": "{r}", "good": "x", "bad": "x"}}, "rows.role goes with a name for"),
        ({"strings": {"a": 3}}, "strings.a has to be a template, or a table of context and text"),
        ({"options": {"texts": "{a}"}}, "options has to say right"),
        ({"form": {"delimiter": "ab"}}, "form.delimiter has to be one character"),
        ({"threshold": 3}, "label and threshold go together"),
        ({"form": {"kind": "pickle"}}, "form.kind has to be one of tsv,"),
        ({"reader": "guess"}, "reader has to be one of lm_syneval, climp, linzen"),
        ({"files": 3}, "files has to be a list of strings"),
        ({"suites": True}, "a benchmark of suites has no 'strings'"),
        ({"strings": {"option_1": "{a}", "b": "{b}"}}, "strings.option_1: a string cannot be called that"),
        ({"levels": {"bits": {"flags": ["y"]}}}, "levels.bits: a level cannot be called that"),
        ({"strings": {"a": "{x|" + "9" * 5000 + "}", "b": "{b}"}}, "unknown filter '9999"),
        ({"scores": {"main": {"slln": float("nan")}}}, "scores.main.slln has to be a power"),
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


def test_a_number_of_thousands_of_digits(tmp_path: Path) -> None:
    (tmp_path / "a.toml").write_text(f"skip = {'9' * 5000}\n")
    with pytest.raises(InputError, match=r"a.toml: not TOML: .*4300 digits"):
        read_benchmark(str(tmp_path / "a.toml"))


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
        ("a.tsv", "\t\tgood\tgood\n1\t2\ta\tb\n", {}, "a.tsv:1: two columns 'good' in the header"),
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
            "r\tk\ts\nyes\t1\ta\nyes\t1\tb\nno\t1\tc\n",
            {"rows": {"by": "{k}", "role": "{r}", "good": "yes", "bad": "no"}, "strings": OF_ROWS},
            "a.tsv:3: a second good of the item 1",
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
        (
            "a.jsonl",
            '{"options": "ab", "label": 0}',
            OPTIONS,
            "the options are 'ab', not a list of two texts",
        ),
        ("a.jsonl", '{"option": ["a", "b"], "label": 0}', OPTIONS, "a.jsonl:1: no column 'options'"),
        (
            "a.jsonl",
            '{"options": ["a", null], "label": 0}',
            OPTIONS,
            "a.jsonl:1: option 2 is missing (options.missing = true leaves such out)",
        ),
        (
            "a.csv",
            "p,q,r,answer\na,b,,2\n",
            {"strings": {}, "options": {**COLUMNS, "missing": True}},
            "a.csv:2: none of 2 options is right: '2' (right is an index from 0, or a text)",
        ),
        (
            "a.csv",
            "p,q,r,answer\n,b,,2\n",
            {"strings": {}, "options": {**COLUMNS, "missing": True}},
            "the options are [None, 'b', None], not a list of two texts or more",
        ),
        (
            "a.csv",
            "p,q,r,answer\na,b,c,2\n",
            {"strings": {}, "options": {**COLUMNS, "labels": ["A", "B", "C"]}},
            "none of 3 options is right: '2' (right is one of A, B, C)",
        ),
        (
            "a.csv",
            "good,bad,npi\na,b,x\n",
            {"levels": {"kind": {"flags": ["npi"]}}},
            "a.csv:2: npi is 'x', where levels have flags: true or false, 1 or 0",
        ),
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
    files = ["*/eng/data.tsv", "other.tsv"]  # the longer one tells them apart
    deep = benchmark(files=files, levels={"all": "all"})
    assert [*Items(tmp_path, deep).by_file] == [
        str(tmp_path / folder / "eng" / "data.tsv") for folder in ("a", "b")
    ]


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
    ("name", "archive", "groups"),
    [
        ("multiblimp", "pairs/multiblimp_eng.zip", [1, 2]),
        ("clams", "pairs/clams_en_de_fr.zip", [1, 7]),
        ("lindsea", "pairs/lindsea_id.zip", [1, 4, 38]),
    ],
)
def test_published_sets_have_as_many_items_as_their_authors_say(
    test_data: Path, name: str, archive: str, groups: list[int]
) -> None:
    """Items by file, and groups by level."""
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
        assert [*counts.values()] == expected
    assert [len({*of_level}) for of_level in zip(*(item.levels for item in items), strict=True)] == groups
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
