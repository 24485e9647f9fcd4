"""Fuzz targets: lines, formulas, EVALB's parameters, suites, minimal pairs, archives, tables, workbooks."""

from __future__ import annotations

import csv
import gzip
import io
import json
import re
import zipfile
from datetime import date, datetime, time, timedelta
from pathlib import Path
from xml.sax.saxutils import escape

import pandas as pd
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st
from toy_workbooks import rows_of, write_workbook

from fuzz.hostile import broken, deep, documents, fuzz, refusing
from pdtools.errors import InputError
from pdtools.evaluation.blimp.pairs import PairFiles, PairItems
from pdtools.evaluation.external.recorded import RecordedSurprisals
from pdtools.evaluation.external.sentence_files import write_sentences
from pdtools.evaluation.parsing.evaluate import read_excluded
from pdtools.evaluation.parsing.prm import read_parameters
from pdtools.evaluation.sg.formula import Formula, FormulaError
from pdtools.evaluation.sg.item_results import read_item_results, tallies_of
from pdtools.evaluation.sg.suites import SuiteFiles, SuiteItems
from pdtools.files import Rejects, read_json, read_lines
from pdtools.files.tables import read_sheet
from pdtools.files.workbooks import workbook_rows
from pdtools.stimuli.columns import as_pandas, make_table, sheet_of_pandas
from pdtools.stimuli.surprisals import Surprisals
from pdtools.stimuli.table import read_stimuli

CONDITIONS = [
    {
        "condition_name": name,
        "regions": [{"region_number": n, "content": f"{name} word {n}"} for n in (1, 2)],
    }
    for name in ("a", "b")
]
SUITE = {
    "meta": {"name": "cleft", "metric": "sum", "circuit": "x"},
    "predictions": [{"type": "formula", "formula": "(1;%a%) < (2;%b%) & [(*;%a%) + 1.5 = (*;%b%)]"}],
    "items": [{"item_number": n, "conditions": CONDITIONS} for n in (1, 2)],
}
PAIR = {
    "field": "syntax",
    "linguistics_term": "s-selection",
    "UID": "one",
    "pairID": "3",
    "sentence_good": "The dog barks.",
    "sentence_bad": "The dog bark.",
}
PRM = b"DEBUG 0\nMAX_ERROR 10\nCUTOFF_LEN 40\nLABELED 1\nDELETE_LABEL TOP\nEQ_LABEL ADVP PRT\n# x\n"
TABLE = (
    b"sentence_id\ttoken_id\ttoken\tstart\tend\tsurprisal\n"
    b"1\t1\tThe\t0\t3\t2.5\n1\t2\tdog\t4\t7\t1e-3\n2\t1\tBark\t0\t4\t7\n"
)
WORDS = (
    b"sentence_id\ttoken_id\ttoken\tsurprisal\n1\t1\t<s>\t0\n1\t2\tThe\t2.5\n1\t3\t<unk>\t1\n2\t1\tBark\t7\n"
)
ITEMS = b"model,suite,item,correct\nm_c_1,cleft,1,True\nm_c_1,cleft,2,False\n"


def archive(name: str, data: bytes) -> bytes:
    packed = io.BytesIO()
    with zipfile.ZipFile(packed, "w", zipfile.ZIP_DEFLATED) as out:
        out.writestr(name, data)
    return packed.getvalue()


@fuzz
@given(
    content=st.one_of(st.binary(max_size=60), broken(b"one\r\ntwo\n")),
    suffix=st.sampled_from(["", ".gz", ".zst"]),
)
def test_lines(content: bytes, suffix: str, tmp_path: Path) -> None:
    file = tmp_path / f"x{suffix}"
    file.write_bytes(content)
    with refusing():
        assert all("\n" not in line and "\0" not in line for _, line in read_lines(file))


@fuzz
@given(content=broken(gzip.compress(b"one\ntwo\n" * 20, mtime=0)))
def test_damaged_gzip(content: bytes, tmp_path: Path) -> None:
    file = tmp_path / "x.gz"
    file.write_bytes(content)
    with refusing():
        list(read_lines(file))


CHUNKS = [
    "(1;%a%)",
    "(*;%b%)",
    "(",
    ")",
    "[",
    "]",
    "<",
    ">",
    "=",
    "&",
    "|",
    "+",
    "-",
    "1",
    "1e999",
    ".5",
    " ",
    "%",
    ";",
]
CHUNKS += ["(12345678901;%a%)", "(1;%%)", "(;%a%)", "٣", "\0", "é", "1.", "(1;%" + "x" * 50]


@fuzz
@given(text=st.one_of(st.lists(st.sampled_from(CHUNKS), max_size=25).map("".join), st.text(max_size=30)))
def test_formulas(text: str) -> None:
    with refusing():
        assert Formula.parse(text).truth(lambda region, condition: 1.0) in (True, False)


@pytest.mark.parametrize(
    "text",
    [
        deep("(", "1<2", ")", 40_000),
        deep("[", "1<2", "", 90_000),
        deep("(", "", ""),
        "1<" * 90_000,
        "1+" * 200_000 + "1<2",
    ],
    ids=["brackets", "open", "too long", "chain", "long chain"],
)
def test_formulas_without_an_end(text: str) -> None:
    with pytest.raises(FormulaError) as caught:
        Formula.parse(text)
    assert len(str(caught.value)) < 500


@fuzz
@given(content=st.one_of(broken(PRM), st.binary(max_size=40)))
def test_parameter_files(content: bytes, tmp_path: Path) -> None:
    file = tmp_path / "x.prm"
    file.write_bytes(content)
    with refusing():
        read_parameters(file)


@fuzz
@given(content=documents(SUITE), zipped=st.booleans())
def test_suites(content: bytes, zipped: bool, tmp_path: Path) -> None:
    file = tmp_path / ("x.zip" if zipped else "x.json")
    file.write_bytes(archive("x.json", content) if zipped else content)
    with refusing():
        suites = list(SuiteFiles(file))
        for suite in suites:
            for item in suite.items:
                assert all(len(condition.spans) == len(condition.regions) for condition in item.conditions)
            for formula in suite.formulas:
                formula.truth(lambda region, condition: 1.0)
        for style in ("ptb", "raw"):
            write_sentences(SuiteItems(suites).written(style), tmp_path / "out.tsv")


@fuzz
@given(contents=st.lists(documents(PAIR), min_size=1, max_size=3), zipped=st.booleans())
def test_pairs(contents: list[bytes], zipped: bool, tmp_path: Path) -> None:
    file = tmp_path / ("x.zip" if zipped else "x.jsonl")
    lines = b"\n".join(contents)
    file.write_bytes(archive("x.jsonl", lines) if zipped else lines)
    with refusing():
        write_sentences(PairItems(PairFiles(file)), tmp_path / "out.tsv")


@fuzz
@given(content=broken(archive("x.jsonl", json.dumps(PAIR).encode())))
def test_damaged_archives(content: bytes, tmp_path: Path) -> None:
    file = tmp_path / "x.zip"
    file.write_bytes(content)
    with refusing():
        PairFiles(file)
    with refusing():
        SuiteFiles(file)
    with refusing():
        read_item_results([file])


@fuzz
@given(
    content=st.one_of(broken(TABLE), broken(WORDS), st.binary(max_size=60)),
    on_error=st.sampled_from(["fail", "skip"]),
)
def test_tables_of_surprisals(content: bytes, on_error: str, tmp_path: Path) -> None:
    file = tmp_path / "x.tsv"
    file.write_bytes(content)
    with refusing():
        scorer = RecordedSurprisals(file, ["one", "two"], on_error=on_error)  # type: ignore[arg-type]
        assert len(list(scorer.score(["The dog", "Bark"]))) == 2


@fuzz
@given(content=st.one_of(broken(ITEMS), st.binary(max_size=60)))
def test_tables_of_items(content: bytes, tmp_path: Path) -> None:
    file = tmp_path / "x.csv"
    file.write_bytes(content)
    with refusing():
        for correct in read_item_results([file]).values():
            tallies_of(correct)


@fuzz
@given(content=documents({"file": "x", "line": 3, "reason": "r", "text": "t"}))
def test_rejects(content: bytes, tmp_path: Path) -> None:
    file = tmp_path / "x.jsonl"
    file.write_bytes(content)
    with refusing():
        read_excluded(file)


@fuzz
@given(content=documents(SUITE))
def test_json(content: bytes, tmp_path: Path) -> None:
    file = tmp_path / "x.json"
    file.write_bytes(content)
    with refusing():
        read_json(file)


@pytest.mark.parametrize(
    "text", [deep("[", "", "]"), deep('{"a":', "1", "}"), deep("[", "", "")], ids=["lists", "objects", "open"]
)
def test_json_nested_without_an_end(text: str, tmp_path: Path) -> None:
    for name, read in (
        ("x.json", read_json),
        ("x.json", SuiteFiles),
        ("x.jsonl", PairFiles),
        ("x.jsonl", read_excluded),
    ):
        file = tmp_path / name
        file.write_text(text)
        with pytest.raises(InputError):
            read(file)  # type: ignore[operator]


# Cells of spreadsheets: texts of any characters that a file can hold, and the other types of Excel, each as
# XML and as what it stands for. In the second style, numbers are dates.
LETTERS = st.characters(exclude_categories=("Cs", "Cc"), exclude_characters="\ufeff\ufffe\uffff")
TEXT = st.text(st.one_of(st.sampled_from(" ,;\t\"'|\n_x0D="), LETTERS), max_size=12)
STYLES = '<cellXfs><xf/><xf numFmtId="22"/></cellXfs>'


def text_cell(text: str) -> tuple[str, object]:
    return f'<c t="str"><v>{escape(text.replace("_x", "_x005F_x"))}</v></c>', text


def date_cell(moment: datetime) -> tuple[str, object]:
    moment = moment.replace(microsecond=0)
    days = (moment - datetime(1899, 12, 30)) / timedelta(days=1)
    return f'<c s="1"><v>{days!r}</v></c>', moment.date() if moment.time() == time() else moment


CELLS = st.one_of(
    st.just(("<c/>", None)),
    st.booleans().map(lambda value: (f'<c t="b"><v>{value:d}</v></c>', value)),
    st.integers(-(10**14), 10**14).map(lambda value: (f"<c><v>{value}</v></c>", value)),
    st.floats(allow_nan=False, allow_infinity=False).map(lambda value: (f"<c><v>{value!r}</v></c>", value)),
    st.datetimes(datetime(1900, 3, 1), datetime(9999, 12, 31)).map(date_cell),
    st.sampled_from(["#REF!", "#N/A"]).map(lambda value: (f'<c t="e"><v>{value}</v></c>', value)),
    TEXT.map(text_cell),
)


def is_blank(value: object) -> bool:
    return value is None or not str(value).strip()


@fuzz
@given(
    rows=st.lists(st.tuples(TEXT, TEXT, TEXT), max_size=4),
    between=st.sampled_from(",;\t"),
    quoting=st.sampled_from([csv.QUOTE_MINIMAL, csv.QUOTE_ALL]),
    end=st.sampled_from(["\n", "\r\n"]),
    mark=st.sampled_from(["", "\ufeff"]),
    is_named=st.booleans(),
    suffix=st.sampled_from([".csv", ".CSV", ".csv.gz"]),
)
def test_dialects(
    rows: list[tuple[str, ...]],
    between: str,
    quoting: int,
    end: str,
    mark: str,
    is_named: bool,
    suffix: str,
    tmp_path: Path,
) -> None:
    """Every dialect is read as it was written, without blank rows; decimal commas are not here."""
    assume(between != ";" or not any(re.fullmatch(r"[-+]?\d+,\d+", cell) for row in rows for cell in row))
    is_named |= between == "\t"
    written = io.StringIO()
    write = csv.writer(written, delimiter=between, quoting=quoting, lineterminator=end)  # type: ignore[arg-type]
    write.writerows([["item", "sentence", "note"], *rows])
    text = mark + f"sep={between}{end}" * is_named + written.getvalue()
    file = tmp_path / f"t{suffix}"
    file.write_bytes(gzip.compress(text.encode()) if suffix.endswith("gz") else text.encode())
    sheet = read_sheet(str(file))
    assert sheet.columns == ("item", "sentence", "note")
    kept = [row for row in rows if not all(map(is_blank, row))]
    assert [tuple(each) for each in zip(*sheet.cells, strict=True)] == kept
    with refusing():
        found = read_stimuli(sheet)
        assert len(found.texts) == len(kept)


@fuzz
@given(rows=st.lists(st.tuples(CELLS, CELLS), max_size=4), data=st.data())
def test_types_of_excel(
    rows: list[tuple[tuple[str, object], ...]], data: st.DataObject, tmp_path: Path
) -> None:
    """Every cell has the value that it was given; of damaged workbooks any part may be refused in a line."""
    written = rows_of(["item", "word"], *([xml for xml, _ in row] for row in rows))
    file = write_workbook(tmp_path / "t.xlsx", written, styles=STYLES)
    kept = [[value for _, value in row] for row in rows if not all(is_blank(value) for _, value in row)]
    found = [row for row in workbook_rows(str(file))[0][1:] if row]
    assert found == kept
    assert all(
        isinstance(one, bool) == isinstance(other, bool)
        for row, own in zip(found, kept, strict=True)
        for one, other in zip(row, own, strict=True)
    )
    with refusing():
        stimuli = read_stimuli(read_sheet(str(file)))
        assert all(not isinstance(row[1], (bool, date)) for row in kept), stimuli.notes
    with zipfile.ZipFile(file) as archive:
        parts = {name: archive.read(name) for name in archive.namelist()}
    name = data.draw(st.sampled_from(sorted(parts)))
    parts[name] = data.draw(broken(parts[name]))
    with zipfile.ZipFile(tmp_path / "u.xlsx", "w") as archive:
        for each, content in parts.items():
            archive.writestr(each, content)
    with refusing():
        read_stimuli(read_sheet(str(tmp_path / "u.xlsx")))


MISSING = [None, float("nan"), pd.NA, pd.NaT]
PANDAS_TEXTS = st.sampled_from(["a", "b", "The dog | barks.", "c d", "é"])
PANDAS_CELLS = st.one_of(
    st.sampled_from(["a", "The dog | barks.", "[a] b", "", " ", "null", "NA", "a\nb", "é"]),
    st.sampled_from([*MISSING, 1, 2.5, -0.0, 10**30, float("inf"), True, b"a", ["a"], pd.Timestamp(0)]),
)
DTYPES = [
    "object",
    "category",
    "string[python]",
    "string[pyarrow]",
    "str",
    "Int64",
    "float64",
    "int64[pyarrow]",
]
NAMES = [
    "sentence",
    "item",
    "condition",
    "word",
    "text",
    "region",
    "number",
    "word_number",
    "x",
    0,
    None,
    "x",
]
LABELS = st.sampled_from(["range", "texts", "same", "levels", "times", "categories"])


def labelled(frame: pd.DataFrame, kind: str) -> pd.DataFrame:
    n = len(frame)
    indices = {
        "range": pd.RangeIndex(n),
        "texts": pd.Index([f"r{(7 * i) % 5}" for i in range(n)], dtype="str"),
        "same": pd.Index([0] * n),
        "levels": pd.MultiIndex.from_arrays([["a"] * n, range(n)], names=["list", None]),
        "times": pd.date_range("2026-01-01", periods=n),
        "categories": pd.CategoricalIndex([f"r{i % 2}" for i in range(n)]),
    }
    return frame.set_axis(indices[kind])


@fuzz
@given(
    read=st.sampled_from([["sentence"], ["item", "word"], ["item", "region", "text"]]),
    columns=st.lists(
        st.tuples(
            st.sampled_from(NAMES),
            st.sampled_from(DTYPES),
            st.lists(st.one_of(PANDAS_TEXTS, PANDAS_CELLS), min_size=5, max_size=5),
        ),
        max_size=4,
    ),
    texts=st.lists(PANDAS_TEXTS, min_size=5, max_size=5),
    dtype=st.sampled_from(DTYPES[:5]),
    labels=LABELS,
    order=st.lists(st.integers(0, 4), max_size=5),
    words=st.booleans(),
)
def test_tables_of_pandas(
    read: list[str],
    columns: list[tuple[object, str, list[object]]],
    texts: list[str],
    dtype: str,
    labels: str,
    order: list[int],
    words: bool,
) -> None:
    """A table of any types, filtered or drawn, is refused or comes back with its index and its cells."""
    series = [pd.Series(texts, dtype=dtype) for _ in read]
    for _, kind, cells in columns:
        try:
            series.append(pd.Series(cells, dtype=kind))
        except (TypeError, ValueError, OverflowError):  # pandas has no such column
            series.append(pd.Series(cells, dtype=object))
    names = [*read, *(name for name, _, _ in columns)]
    frame = pd.concat(series, axis=1).set_axis(names, axis=1)
    frame = labelled(frame, labels).iloc[order]
    before = frame.copy(deep=True)
    with refusing():
        stimuli = read_stimuli(sheet_of_pandas(frame), words=words)
        made = make_table(stimuli, {"m": Surprisals(stimuli, "text", "bits", Rejects("skip"))})
        found = as_pandas(made)
        assert found.index.equals(frame.index.take(made.rows))
        pd.testing.assert_frame_equal(found.iloc[:, : frame.shape[1]], frame.iloc[made.rows])
    pd.testing.assert_frame_equal(frame, before)
