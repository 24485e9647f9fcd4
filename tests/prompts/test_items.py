"""Data as people have them into items: what is a row, a sentence, a label, and what is refused."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from pdtools.errors import InputError
from pdtools.files import Rejects
from pdtools.prompts.items import (
    PromptItem,
    columns_of,
    data_file,
    is_held_out,
    label_names_of,
    make_items,
    read_prompts,
    read_records,
    write_items,
)
from pdtools.prompts.tasks import PromptTask, read_task

RTE = read_task("rte")


def items(
    file: Path, task: PromptTask = RTE, names: list[str] | None = None, rejects: Rejects | None = None
) -> list[PromptItem]:
    rejects = Rejects("fail") if rejects is None else rejects
    wanted = {name: task.names_of(name) for name in task.fields}
    records = read_records(str(file), wanted, rejects)
    return list(make_items(records, task, rejects, split=lambda part: [part], label_names=names))


def written(folder: Path, name: str, text: str) -> Path:
    (folder / name).write_bytes(text.encode())
    return folder / name


def test_tables_know_no_quotes(tmp_path: Path) -> None:
    header = "\ufeffindex\tsentence1\tsentence2\tlabel\r\n"
    lines = '7\tA "dog.\tB\tentailment\r\n8\t"C\tD" \x85E\tnot_entailment\r\n\r\n'
    file = written(tmp_path, "train.tsv", header + lines)
    assert items(file) == [
        PromptItem("7", ('Premise: A "dog.', "Hypothesis: B."), "entailment"),
        PromptItem("8", ('Premise: "C.', 'Hypothesis: D" E.'), "not_entailment"),
    ]


def test_columns_go_by_their_names_and_test_files_have_no_labels(tmp_path: Path) -> None:
    mrpc, stsb = read_task("mrpc"), read_task("stsb")
    file = written(tmp_path, "a.tsv", "Quality\t#1 ID\t#2 ID\t#1 String\t#2 String\n1\t5\t6\tA.\tB.\n")
    assert items(file, mrpc) == [PromptItem("0", ("Sentence1: A.", "Sentence2: B."), "1")]
    file = written(tmp_path, "b.tsv", "index\t#2 String\t#1 String\n3\tB\tA\n")
    assert items(file, mrpc) == [PromptItem("3", ("Sentence1: A.", "Sentence2: B."), None)]
    columns = "index\tgenre\tsource1\tsentence1\tsentence2\tscore"
    file = written(tmp_path, "c.tsv", f"{columns}\n0\tmain\tnone\tA.\tB.\t3.25\n")
    assert items(file, stsb) == [PromptItem("0", ("Sentence1: A.", "Sentence2: B."), 3.25)]


def test_missing_tabs_are_one_clear_line_or_excluded(tmp_path: Path) -> None:
    file = written(tmp_path, "x.tsv", "index\tsentence1\tsentence2\n0\tA B\n1\tA\tB\n2\tA\tB\tC\n3\tA\t \n")
    with pytest.raises(InputError, match=r"x.tsv:2: 2 cells between tabs, but 3 columns"):
        items(file)
    rejects = Rejects("skip")
    assert [item.id for item in items(file, rejects=rejects)] == ["1"]
    assert [record["line"] for record in rejects] == [2, 4, 5]
    with pytest.raises(InputError, match="no column #1 String or sentence1"):
        items(written(tmp_path, "y.tsv", "index\tlabel\n0\t1\n"), read_task("mrpc"))
    with pytest.raises(InputError, match="two columns 'label'"):
        items(written(tmp_path, "z.tsv", "label\tlabel\tsentence1\tsentence2\n0\t1\tA\tB\n"))


def test_sst_as_trees_or_as_lines(tmp_path: Path) -> None:
    sst5 = read_task("sst5")
    trees = "(3 (2 (2 The) (2 Rock)) (4 (2 is) (4 (2 n't) (4 -LRB-))))\n(0 bad)\n"
    lines = "3 The Rock isn't (\n0\tbad\n"
    table = "sentence\tlabel\nThe Rock isn't (\t3\nbad\t0\n"
    for name, text in (("a.txt", trees), ("b.txt", lines), ("c.tsv", table)):
        found = items(written(tmp_path, name, text), sst5)
        assert [item.label for item in found] == ["3", "0"]
        assert [item.sentences for item in found] == [("Sentence: The Rock isn't (.",), ("Sentence: bad.",)]


def test_lines_without_a_label_are_excluded_and_blanks_around_others_are_nothing(tmp_path: Path) -> None:
    file = written(tmp_path, "x.txt", " 3 The Rock\n  0 bad \n\nno label\n4\n1\t \n")
    rejects = Rejects("skip")
    assert items(file, read_task("sst5"), rejects=rejects) == [
        PromptItem("0", ("Sentence: The Rock.",), "3"),
        PromptItem("1", ("Sentence: bad.",), "0"),
    ]
    assert [(record["line"], record["reason"]) for record in rejects] == [
        (line, "no label before the sentence") for line in (4, 5, 6)
    ]


def as_json(folder: Path, rows: list[dict[str, Any]]) -> Path:
    return written(folder, "x.jsonl", "".join(json.dumps(row) + "\n" for row in rows))


def as_parquet(folder: Path, rows: list[dict[str, Any]]) -> Path:
    pq.write_table(pa.Table.from_pylist(rows), folder / "x.parquet")
    return folder / "x.parquet"


@pytest.mark.parametrize("write", [as_json, as_parquet])
def test_whole_numbers_need_names(
    tmp_path: Path, write: Callable[[Path, list[dict[str, Any]]], Path]
) -> None:
    rows = [{"sentence1": "A", "sentence2": "B", "label": label, "idx": 5 + label} for label in (0, 1, -1)]
    file = write(tmp_path, rows)
    with pytest.raises(InputError, match="what the label 0 means is not known: .* --label-names"):
        items(file)
    found = items(file, names=["entailment", "not_entailment"])
    assert [(item.id, item.label) for item in found] == [
        ("5", "entailment"),
        ("6", "not_entailment"),
        ("4", None),
    ]
    with pytest.raises(InputError, match="beyond the 1 label names"):
        items(file, names=["entailment"])
    assert [item.label for item in items(file, read_task("mrpc"))] == [
        "0",
        "1",
        None,
    ]  # its labels are numbers
    assert [item.label for item in items(file, read_task("stsb"))] == [0.0, 1.0, None]


@pytest.mark.parametrize(
    ("task", "names", "label"),
    [
        (RTE, ["entailment", "not_entailment"], "not_entailment"),
        (read_task("mrpc"), ["not_equivalent", "equivalent"], "1"),  # its labels are the numbers
        (read_task("sst5"), ["-2", "-1", "0", "1", "2"], "1"),
        (RTE, None, None),
    ],
)
def test_names_that_parquet_knows_are_used_where_the_task_knows_no_numbers(
    tmp_path: Path, task: PromptTask, names: list[str] | None, label: str | None
) -> None:
    rows = [{"sentence1": "A", "sentence2": "B", "sentence": "C", "label": 1}]
    file, table = tmp_path / "x.parquet", pa.Table.from_pylist(rows)
    features = {"info": {"features": {"label": {"names": names}}}}
    if names is not None:
        table = table.replace_schema_metadata({"huggingface": json.dumps(features)})
    pq.write_table(table, file)
    known = label_names_of(str(file), task)
    if label is None:
        assert known is None
    else:
        assert items(file, task, known)[0].label == label


def with_more(folder: Path, n: int, **more: pa.Array) -> Path:
    """Rows of RTE in Parquet beside other columns."""
    own = {"sentence1": ["A"] * n, "sentence2": ["B"] * n, "label": ["entailment"] * n, "idx": range(n)}
    pq.write_table(pa.table({**own, **more}), folder / "x.parquet", compression="zstd", store_schema=False)
    return folder / "x.parquet"


def repeated(value: Any, n: int) -> pa.Array:
    """An array in which all values are one that is in memory once."""
    return pa.DictionaryArray.from_arrays(pa.array(np.zeros(n, np.int32)), pa.array([value]))


@pytest.mark.parametrize(
    "more",
    [
        {"html": repeated("x" * 5000, 20_000)},  # 100 MB
        {"pixels": pa.ListArray.from_arrays(np.arange(20_001) * 500, np.zeros(10_000_000, np.int8))},
        {"sentence1": repeated("x" * 5000, 20_000)},
        {"idx": pa.array(np.zeros(20_000, np.int64)), "html": repeated("x" * 5000, 20_000)},
    ],
    ids=["text", "lists", "the sentence itself", "numbers and text"],
)
def test_little_of_parquet_is_in_memory(tmp_path: Path, more: dict[str, pa.Array]) -> None:
    file = with_more(tmp_path, 20_000, **more)
    assert file.stat().st_size < 200_000
    wanted = {name: RTE.names_of(name) for name in RTE.fields}
    before, most, n = pa.total_allocated_bytes(), 0, 0
    for record in read_records(str(file), wanted, Rejects("fail"), columns=columns_of(RTE)):
        n += 1
        assert record.line == n
        assert record.values["label"] == "entailment"
        assert set(record.values) == {"sentence1", "sentence2", "label", "idx"}
        most = max(most, pa.total_allocated_bytes() - before)
    assert n == 20_000
    assert most < 2e6


@pytest.mark.parametrize(
    "more",
    [
        {"sentence1": pa.array(["x" * 3_000_000])},
        {"label": pa.array(["x" * 3_000_000])},
        {"idx": pa.ListArray.from_arrays([0, 300_000], np.zeros(300_000, np.int8))},
    ],
    ids=lambda more: next(iter(more)),
)
def test_parquet_that_unpacks_to_more_than_text_does_is_refused(
    tmp_path: Path, more: dict[str, pa.Array], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("pdtools.files.tables.MAX_DOCUMENT_BYTES", 1 << 20)
    wanted = {name: RTE.names_of(name) for name in RTE.fields}
    found = read_records(
        str(with_more(tmp_path, 1, **more)), wanted, Rejects("fail"), columns=columns_of(RTE)
    )
    with pytest.raises(InputError, match="x.parquet: it unpacks to more than 100 times its packed size"):
        next(found)
    others = {f"other_{name}": column for name, column in more.items()}
    found = read_records(
        str(with_more(tmp_path, 1, **others)), wanted, Rejects("fail"), columns=columns_of(RTE)
    )
    assert next(found).values["sentence1"] == "A"


def test_a_column_of_parquet_may_have_parts(tmp_path: Path) -> None:
    """As idx of SuperGLUE's tasks has."""
    more = {"idx": pa.array([{"paragraph": 3, "answer": 1}]), "extra": pa.array([[1, 2]])}
    assert [item.id for item in items(with_more(tmp_path, 1, **more))] == ["{'paragraph': 3, 'answer': 1}"]


def test_parquet_whose_text_is_none_is_one_line(tmp_path: Path) -> None:
    broken = pa.StringArray.from_buffers(
        2, pa.py_buffer(np.array([0, 1, 3], np.int32)), pa.py_buffer(b"A\xff\xfe")
    )
    file = with_more(tmp_path, 2, sentence1=broken)
    with pytest.raises(InputError, match="x.parquet:2: text that is not UTF-8"):
        items(file)


def test_flat_columns_of_many_equal_values_are_not_much(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("pdtools.files.tables.MAX_DOCUMENT_BYTES", 1 << 20)
    file = with_more(tmp_path, 300_000, idx=repeated("7", 300_000))
    wanted = {name: RTE.names_of(name) for name in RTE.fields}
    assert next(read_records(str(file), wanted, Rejects("fail"))).values["idx"] == "7"


@pytest.mark.parametrize("name", ["x.jsonl", "x.txt", "x.tsv", "trees.txt"])
def test_what_cannot_be_read_is_excluded_by_its_line_and_the_others_are_read(
    tmp_path: Path, name: str
) -> None:
    """Lines 1 (of a table the columns) and 5 are good; 2 is blank, 3 unreadable, 4 has no such label."""
    good = [json.dumps({"sentence": text, "label": "3"}) for text in ("A", "B")]
    lines, reason = {
        "x.jsonl": ([good[0], " ", "5", json.dumps({"sentence": "C", "label": "9"}), good[1]], "not a JSON"),
        "x.txt": (["3 A", " ", "no", "9 C", "3 B"], "no label before"),
        "x.tsv": (["sentence\tlabel", " ", "A", "C\t9", "B\t3"], "1 cells between tabs"),
        "trees.txt": (["(3 A)", " ", "(3 (-NONE- *))", "(9 C)", "(3 B)"], "no words"),
    }[name]
    file = written(tmp_path, name, "\n".join(lines) + "\n")
    rejects = Rejects("skip")
    found = items(file, read_task("sst5"), rejects=rejects)
    assert [(item.sentences, item.label) for item in found] == [
        ((f"Sentence: {text}.",), "3") for text in ("A", "B")[name == "x.tsv" :]
    ]
    left_out = list(rejects)
    assert [(record["file"], record["line"]) for record in left_out] == [(str(file), 3), (str(file), 4)]
    assert left_out[0]["reason"].startswith(reason)
    assert left_out[0]["text"] == lines[2]
    assert "the label '9' is none of" in left_out[1]["reason"] or "label 9" in left_out[1]["reason"]
    records = read_records(str(file), {}, Rejects("skip"))
    assert [(record.file, record.line) for record in records][-1] == (str(file), 5)


def test_what_a_file_is_is_told_by_its_first_line_with_text(tmp_path: Path) -> None:
    sst5 = read_task("sst5")
    for text in ("  \n3 A\n", " \n (3 A)\n"):
        (item,) = items(written(tmp_path, "x.txt", text), sst5)
        assert (item.sentences, item.label) == (("Sentence: A.",), "3")
    with pytest.raises(InputError, match="nothing in it"):
        items(written(tmp_path, "x.txt", " \n\t\n"), sst5)
    with pytest.raises(InputError, match="x.jsonl:2: not JSON"):
        items(written(tmp_path, "x.jsonl", '{"sentence": "A", "label": "3"}\n{\n'), sst5)


def test_packed_files_are_what_the_ending_before_says(tmp_path: Path) -> None:
    import gzip

    import zstandard

    text = json.dumps({"sentence": "A", "label": "3"}).encode()
    for ending, packed in ((".gz", gzip.compress(text)), (".zst", zstandard.compress(text))):
        folder = tmp_path / ending
        folder.mkdir()
        file = folder / f"train.jsonl{ending}"
        file.write_bytes(packed)
        assert data_file(str(folder), "train") == str(file)
        assert items(file, read_task("sst5"))[0].label == "3"


def test_the_columns_of_a_task_are_the_only_ones_of_that_name(tmp_path: Path) -> None:
    sst5 = read_task("sst5")
    file = as_json(tmp_path, [{"sentence": "A", "label": "3", "idx": 7, "number": 8}])
    assert items(file, sst5)[0].id == "7"
    assert items(file, replace(sst5, columns={**sst5.columns, "id": ("number",)}))[0].id == "8"


@pytest.mark.parametrize(
    ("label", "said"),
    [
        ("maybe", "the label 'maybe' is none of entailment, not_entailment"),
        ("²", "the label '²' is none of"),
        ("7", "what the label 7 means is not known"),
        (True, "the label True is neither text nor a whole number"),
        (0.5, "the label 0.5 is neither text nor a whole number"),
    ],
)
def test_what_is_said_of_a_label(tmp_path: Path, label: object, said: str) -> None:
    with pytest.raises(InputError, match=said):
        items(as_json(tmp_path, [{"sentence1": "A", "sentence2": "B", "label": label}]))


SENTIMENT = PromptTask(
    name="sentiment",
    parts=("Review: {sentence}",),
    answer="Label: {label}",
    answers={"-1": "bad", "0": "neutral", "1": "good"},
    metric="accuracy",
)
VALENCE = PromptTask(name="valence", parts=SENTIMENT.parts, range=(-2.0, 2.0), metric="spearman")


@pytest.mark.parametrize(
    ("task", "label", "wanted"),
    [
        *((SENTIMENT, label, "-1") for label in (-1, "-1")),
        *((VALENCE, label, -1.0) for label in (-1, "-1", -1.0, "-1.0", "-1.00")),
        (replace(VALENCE, range=(-1.0, 1.0)), -1, -1.0),
        (replace(VALENCE, range=(-3.0, -1.0)), "-1", -1.0),
        *((replace(VALENCE, range=(0.0, 5.0)), label, None) for label in (-1, "-1", -1.0, "-1.0")),
        *((replace(VALENCE, range=(-0.5, 5.0)), label, None) for label in (-1, "-1")),
        *((read_task("sst5"), label, None) for label in (-1, "-1", -1.0)),
        *((task, label, None) for task in (SENTIMENT, VALENCE) for label in (None, "")),
    ],
)
def test_minus_one_is_hidden_where_the_task_has_no_such_label(
    tmp_path: Path, task: PromptTask, label: object, wanted: object
) -> None:
    (item,) = items(as_json(tmp_path, [{"sentence": "A", "label": label}]), task)
    assert item.label == wanted
    path = tmp_path / "prompts.jsonl"
    write_items(str(path), task, [item])
    assert read_prompts(str(path)).items == (item,)


@pytest.mark.parametrize("label", [-1.0, "-1.0", "-2", -2])
def test_what_is_like_a_label_is_none(tmp_path: Path, label: object) -> None:
    with pytest.raises(InputError, match="x.jsonl:1: .*label"):
        items(as_json(tmp_path, [{"sentence": "A", "label": label}]), SENTIMENT)


@pytest.mark.parametrize("score", ["6", "nan", "x", True])
def test_numbers_are_in_range(tmp_path: Path, score: object) -> None:
    file = as_json(tmp_path, [{"sentence1": "A", "sentence2": "B", "score": score}])
    with pytest.raises(InputError, match="the label .* is no"):
        items(file, read_task("stsb"))


def test_a_folder_has_splits(tmp_path: Path) -> None:
    file = written(tmp_path, "dev.tsv", "x")
    assert data_file(str(tmp_path), "dev") == str(file)
    assert data_file(str(file), "train") == str(file)
    with pytest.raises(InputError, match="no train.tsv"):
        data_file(str(tmp_path), "train")


def path_lines(path: Path) -> list[str]:
    import gzip

    return gzip.decompress(path.read_bytes()).decode().splitlines()


def test_prompts_are_read_as_written_and_held_out_by_what_they_say(tmp_path: Path) -> None:
    every = [PromptItem(str(i), (f"Premise: {i}.", "Hypothesis: B."), None) for i in range(400)]
    every += [PromptItem(str(400 + i), each.sentences, "entailment") for i, each in enumerate(every)]
    held = [item for item in every if is_held_out(item)]
    assert {item.sentences for item in held}.isdisjoint(
        item.sentences for item in every if not is_held_out(item)
    )
    assert 0.06 < len(held) / len(every) < 0.14
    # As in every process, release and platform.
    assert [int(item.id) for item in held][:4] == [16, 51, 70, 79]
    path = tmp_path / "x.jsonl.gz"
    assert write_items(str(path), RTE, every) == 800
    read = read_prompts(str(path))
    assert (read.task, list(read.items)) == (RTE, every)
    for line, message in (
        ("{}", "not a file of prompts"),
        ('{"format": "pdtools prompts", "format_version": "9", "task": {}}', "format version '9'"),
        ("", "no prompts in it"),
        (
            json.dumps({"format": "pdtools prompts", "format_version": "1", "task": RTE.record()}),
            "no prompts",
        ),
    ):
        with pytest.raises(InputError, match=message):
            read_prompts(str(written(tmp_path, "bad.jsonl", line)))
    header = {"format": "pdtools prompts", "format_version": "1", "task": RTE.record()}
    for item in (
        {"id": "1", "sentences": [], "label": None},
        {"id": "1", "sentences": ["a"], "label": "x"},
        {"id": 1, "sentences": ["a"], "label": None},
        {"id": "1", "sentences": "a", "label": None},
        {"id": "1", "sentences": ["a", " "], "label": None},
        1,
    ):
        bad = written(tmp_path, "bad.jsonl", f"{json.dumps(header)}\n{json.dumps(item)}\n")
        with pytest.raises(InputError, match="bad.jsonl:2: not an item"):
            read_prompts(str(bad))
    blank = written(tmp_path, "blank.jsonl", f"{json.dumps(header)}\n \n{path_lines(path)[1]}\n")
    assert (read_prompts(str(blank)).items, read_prompts(str(blank)).lines) == ((every[0],), (3,))
