"""Windows of whole sentences against packing one sentence after the other."""

from __future__ import annotations

import dataclasses
import os
import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from zipfile import ZipFile

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from pdtools import data
from pdtools.errors import PdtoolsError
from pdtools.files import Rejects
from pdtools.jobs import Plan
from pdtools.shards import (
    ShardSet,
    ShardSettings,
    TokenizerSettings,
    describe_row,
    shards_from_files,
    trees_of_row,
)
from pdtools.shards.plain import row_of_tree
from pdtools.shards.rows import ShardRow, pack_rows, pack_windows
from pdtools.tokenization import train_word_tokenizer
from pdtools.trees import Tree, tree_from_attachments

TREES = (
    "(S (NP (DT the) (NN dog)) (VP (VBZ barks)))\n"
    "(S (NP (NNS cats)) (VP (VBP sleep)))\n"
    "(S (VB stop))\n"
    "(S (NP (DT the) (NN dog)) (VP (VBZ barks) (PP (IN in) (NP (DT the) (NN dog)))))\n"
)
TOKENIZER = train_word_tokenizer(
    ["the", "dog", "barks", "cats", "sleep", "stop", "in"], text_style="ptb", unk=False
)
ROOT = TOKENIZER.root_id


@dataclass(frozen=True)
class Window:
    """A row, plainly."""

    text: str
    tokens: list[int]
    attach: list[int]
    word: list[int]
    document: int


def plain_windows(sentences: Sequence[ShardRow], most: int, documents: str) -> list[Window]:
    """One sentence after the other into the last window, if it fits and is of its document."""
    windows: list[Window] = []
    document, file = -1, ""
    for row in sentences:
        begins = document < 0 or (
            documents != "none" and (row.file != file or (documents == "blank" and row.begins))
        )
        document, file = document + begins, row.file
        ids, word, attach = (
            row.encoding.ids[:-1].tolist(),
            row.encoding.word[:-1].tolist(),
            row.attach[:-1].tolist(),
        )
        attach[-1] = 0
        if begins or len(windows[-1].tokens) + len(ids) > most:
            windows.append(Window("", [], [], [], document))
        last = windows.pop()
        first, n_words = len(last.tokens), max([-1, *last.word]) + 1
        windows.append(
            Window(
                text=f"{last.text}\n{row.text}" if last.text else row.text,
                tokens=last.tokens + ids,
                attach=last.attach + [first + target for target in attach],
                word=[*last.word, -1, *(n_words + number for number in word[1:])],
                document=document,
            )
        )
    return windows


def settings_of(window: int, documents: str = "none") -> ShardSettings:
    return ShardSettings(layout="window", window=window, documents=documents, tape="none")  # type: ignore[arg-type]


def as_windows(table: pa.Table) -> list[Window]:
    return [Window(**record) for record in table.to_pylist()]


def build(folder: Path, files: Sequence[Path], chosen: ShardSettings, **options: object) -> Path:
    out = folder / "shards"
    shards_from_files(
        [str(file) for file in files],
        TokenizerSettings(min_count=1),
        chosen,
        out,
        Rejects("fail"),
        overwrite=True,
        **options,  # type: ignore[arg-type]
    )
    return out


def windows_of(out: Path) -> list[Window]:
    tables = [pq.read_table(part) for part in sorted(out.glob("part-*.parquet"))]
    return as_windows(pa.concat_tables(tables).drop_columns(["id"]))


def test_the_example_of_two_sentences(tmp_path: Path) -> None:
    (tmp_path / "a.trees").write_text(TREES)
    shards = ShardSet.open(build(tmp_path, [tmp_path / "a.trees"], settings_of(7)))
    assert shards.layout == "window"
    assert shards.attach(0).tolist() == [0, 1, 1, 0, 4, 5, 4]
    assert shards.word(0).tolist() == [-1, 0, 1, 2, -1, 3, 4]
    assert shards.text(0) == "the dog barks\ncats sleep"
    assert shards.tape(0)[6].tolist() == [1, 3, 3, 2, 1, 2, 2]
    assert [len(shards.tokens(i)) for i in range(3)] == [7, 2, 7]
    counts = shards.manifest["counts"]
    assert [counts[name] for name in ("rows", "sentences", "documents", "tokens", "words")] == [
        3,
        4,
        1,
        12,
        12,
    ]
    assert (counts["most_tokens"], counts["deepest"]) == (6, 5)


def test_windows_do_not_cross_files_if_they_are_documents(tmp_path: Path) -> None:
    for name in "ab":
        (tmp_path / f"{name}.trees").write_text(TREES)
    files = [tmp_path / "a.trees", tmp_path / "b.trees"]
    apart = windows_of(build(tmp_path, files, settings_of(100, "file")))
    assert [(w.document, w.text.count("\n")) for w in apart] == [(0, 3), (1, 3)]
    together = windows_of(build(tmp_path, files, settings_of(100, "none")))
    assert [(w.document, w.text.count("\n")) for w in together] == [(0, 7)]


def test_a_sentence_that_is_too_long_is_excluded_and_ends_nothing(tmp_path: Path) -> None:
    (tmp_path / "a.trees").write_text(TREES.replace("(S (VB stop))\n", "") + TREES)
    out = build(tmp_path, [tmp_path / "a.trees"], settings_of(6))
    manifest = ShardSet.open(out).manifest
    assert manifest["left_out"] == {"longer than the window": 2}
    assert "(IN in)" in (out / "rejects.jsonl").read_text()
    assert {window.document for window in windows_of(out)} == {0}


@pytest.mark.parametrize("workers", [1, 2])
def test_how_the_work_is_divided_changes_nothing(
    tmp_path: Path, workers: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in "abc":
        (tmp_path / f"{name}.trees").write_text(TREES * 7)
    files = [tmp_path / f"{name}.trees" for name in "abc"]
    whole = windows_of(build(tmp_path, files, settings_of(13, "file")))
    monkeypatch.setattr("pdtools.trees.chunks.cut_chunks.__defaults__", (150,))
    assert windows_of(build(tmp_path, files, settings_of(13, "file"), plan=Plan(workers=workers))) == whole
    assert len(whole) > 3


def sentence(attach: list[int], file: str) -> ShardRow:
    words = ["the", "dog", "barks"]
    tree = tree_from_attachments(
        np.array(attach), [words[k % 3] for k in range(len(attach))], ["T"] * len(attach)
    )
    row = row_of_tree(tree, TOKENIZER, settings_of(1000))
    assert isinstance(row, ShardRow)
    return ShardRow(row.text, row.encoding, row.attach, row.n_words, file=file)


@st.composite
def documents(draw: st.DrawFn) -> list[ShardRow]:
    rows = []
    for number in range(draw(st.integers(1, 4))):
        for _ in range(draw(st.integers(1, 6))):
            n, stack, attach = draw(st.integers(1, 7)), [], []
            for k in range(n):
                slot = draw(st.integers(0, len(stack)))
                attach.append(stack[slot] if slot < len(stack) else k)
                stack = [*stack[:slot], k]
            begins = draw(st.booleans())
            rows.append(dataclasses.replace(sentence(attach, f"{number}.trees"), begins=begins))
    return rows


@settings(deadline=None, max_examples=60)
@given(
    rows=documents(),
    most=st.integers(8, 25),
    kind=st.sampled_from(["blank", "file", "none"]),
    at_once=st.integers(1, 9),
)
def test_arrays_equal_one_sentence_after_the_other(
    rows: list[ShardRow], most: int, kind: str, at_once: int
) -> None:
    chosen = settings_of(most, kind)
    if kind != "blank":
        rows = [dataclasses.replace(row, begins=False) for row in rows]
    packed = [pack_rows(rows[i : i + at_once], chosen) for i in range(0, len(rows), at_once)]
    made = list(pack_windows(packed, chosen, ROOT))
    found = [window for some in made for window in as_windows(some.table)]
    wanted = plain_windows(rows, most, kind)
    assert found == wanted
    assert [line for window in found for line in window.text.split("\n")] == [row.text for row in rows]
    assert all(len(window.tokens) <= most for window in found)
    assert sum(some.n_words for some in made) == sum(row.n_words for row in rows)


@pytest.mark.parametrize(
    "middle",
    ["(S (V stop)))\n", "(S (NP) (V stop))\n", "stop\n", "(S (V stop\n", "x\n\ny\n", "(X (-NONE- *))\n"],
)
@pytest.mark.parametrize("blank", ["\n", ""])
def test_what_is_excluded_takes_no_blank_line_with_it(tmp_path: Path, middle: str, blank: str) -> None:
    cats = "(S (N cats) (V sleep))\n"
    (tmp_path / "a.trees").write_text(cats + blank + middle + cats)
    chosen, out = settings_of(9, "blank"), tmp_path / "shards"
    shards_from_files(
        [str(tmp_path / "a.trees")], TokenizerSettings(min_count=1), chosen, out, Rejects("skip")
    )
    ends = bool(blank) or "\n\n" in middle or "NONE" in middle
    assert [window.document for window in windows_of(out)] == ([0, 1] if ends else [0])


BLANK_LINES = ("\n\n", "\n \t\n", "\r\n\r\n", "\n\n\n", "\n(X (-NONE- *))\n", "\n\n(X (-NONE- *))\n\n")
NO_BLANK_LINES = ("\n", "\r\n", " ", " \n  ")
# What is left out ends nothing: too long a sentence, one without words, a placeholder; what makes the plain
# reader read.
LEFT_OUT = (
    "(S (A the) (B dog) (C barks) (D in) (E the) (F dog))",
    "(S (-NONE- *T*))",
    "(X (XX the) (XX dog) (XX barks))",
)
UNREADABLE = ("(S (NP) (VP (V stop)))", "(S (V stop)))", "stop", "(S\n\n  (V stop))")


@settings(deadline=None, max_examples=80, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(data=st.data(), chunk=st.integers(40, 400))
def test_documents_end_at_blank_lines(
    data: st.DataObject, chunk: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("pdtools.trees.chunks.cut_chunks.__defaults__", (chunk,))
    good = st.sampled_from(["(S (V stop))", "(S (N cats) (V sleep))", "(S (S (N cats)) (V\n sleep))"])
    files, wanted, number = [], [], -1
    for name in "ab":
        text, ended = data.draw(st.sampled_from(["", "\n", "\n\n", "(X (-NONE- *))\n"])), True
        for _ in range(data.draw(st.integers(1, 8))):
            kinds = [good, st.sampled_from(LEFT_OUT), st.sampled_from(UNREADABLE)]
            tree = data.draw(kinds[data.draw(st.sampled_from([0, 0, 0, 0, 1, 2]))])
            is_readable = tree not in UNREADABLE[:3]
            if is_readable and tree not in LEFT_OUT:
                number, ended = number + ended, False
                wanted.append((number, " ".join(re.findall(r"[a-z]+", tree))))
            gaps = BLANK_LINES if data.draw(st.booleans()) else NO_BLANK_LINES
            gap = data.draw(st.sampled_from(gaps))
            if not is_readable and gap not in BLANK_LINES:
                gap = "\n"
            ended |= gap in BLANK_LINES
            text += tree + gap
        path = tmp_path / f"{name}.trees"
        path.write_bytes((text + "(S (V stop))\n").encode())
        number += ended
        wanted.append((number, "stop"))
        files.append(path)
    chosen = settings_of(6, "blank")
    out = tmp_path / "shards"
    left_out = Rejects("skip")
    shards_from_files(
        [str(path) for path in files], TokenizerSettings(min_count=1), chosen, out, left_out, overwrite=True
    )
    found = [(window.document, line) for window in windows_of(out) for line in window.text.split("\n")]
    assert found == wanted
    assert "(X (-NONE- *))" not in (out / "rejects.jsonl").read_text()


@pytest.mark.parametrize("factor", ["right", "left"])
def test_trees_of_windows_are_those_of_their_sentences(tmp_path: Path, factor: str) -> None:
    found = {}
    for layout, window in (("sentence", 0), ("window", 60)):
        chosen = ShardSettings(layout=layout, window=window, factor=factor, tape="none")  # type: ignore[arg-type]
        out = tmp_path / layout
        subwords = TokenizerSettings(kind="bpe", size=400)  # words of several tokens
        shards_from_files([str(data.treebank("test"))], subwords, chosen, out, Rejects("skip"))
        rows = ShardSet.open(out)
        found[layout] = {(tree.words, str(tree)) for i in range(len(rows)) for tree in trees_of_row(rows, i)}
        if layout == "window":
            described = describe_row(rows, 1)
            texts = [" ".join(Tree.from_brackets(each).words) for each in described["trees"]]
            assert "\n".join(texts) == described["text"]
            assert described["tree"] is None
            assert described["document"] == 0
            words = [each["word"] for each in described["tokens"]]
            assert list(dict.fromkeys(words[-3:]))[-1] == described["text"].split(" ")[-1]
            short = {tree for tree in found["sentence"] if tree in found["window"]}
            assert len(short) == len(found["window"]) > 100
            assert len(found["sentence"]) > len(short)  # some are longer than the window


def test_windows_know_their_documents(tmp_path: Path) -> None:
    for name in "ab":
        (tmp_path / f"{name}.trees").write_text(TREES)
    shards = ShardSet.open(
        build(tmp_path, [tmp_path / f"{name}.trees" for name in "ab"], settings_of(9, "file"))
    )
    numbers = [shards.document(i) for i in range(len(shards))]
    assert numbers == sorted(numbers)
    assert set(numbers) == {0, 1}
    assert [some.document(i) for some in shards.blocks() for i in range(len(some))] == numbers
    assert row_without_document(tmp_path).document(0) is None


def row_without_document(folder: Path) -> ShardSet:
    """Shards of sentences."""
    return ShardSet.open(build(folder, [folder / "a.trees"], ShardSettings()))


@pytest.mark.parametrize("chosen", [{"layout": "window"}, {"window": 5}, {"layout": "window", "window": 1}])
def test_only_windows_have_a_length(chosen: dict[str, object]) -> None:
    with pytest.raises(PdtoolsError, match="windows have 2 positions or more"):
        ShardSettings(**chosen)  # type: ignore[arg-type]


@pytest.mark.parametrize(("most", "filled"), [(128, 88.6), (256, 94.5), (512, 96.7)])
def test_real_trees_fill_windows_as_they_should(tmp_path: Path, most: int, filled: float) -> None:
    sample = Path(os.environ.get("PDTOOLS_TEST_DATA", "../shared/data")) / "treebanks/nltk_treebank.zip"
    if not sample.is_file():
        pytest.skip("PDTOOLS_TEST_DATA has no nltk sample")
    with ZipFile(sample) as archive:
        names = sorted(name for name in archive.namelist() if name.endswith(".mrg") and "/combined/" in name)
        (tmp_path / "all.mrg").write_bytes(b"".join(archive.read(name) for name in names))
    shards = ShardSet.open(build(tmp_path, [tmp_path / "all.mrg"], settings_of(most)))
    positions = sum(len(shards.tokens(i)) for i in range(len(shards)))
    assert 100 * positions / (len(shards) * most) == pytest.approx(filled, abs=0.06)
