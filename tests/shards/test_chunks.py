"""Whole files to shards at once: to the byte what trees give that are read and encoded one by one."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
import zipfile
from collections import Counter
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st
from odd_treebanks import FILES, SOUP

from pdtools import data
from pdtools.errors import PdtoolsError
from pdtools.files import Rejects, Source, expand_inputs, some_trees
from pdtools.shards import (
    ShardSet,
    ShardSettings,
    TokenizerSettings,
    build_shards,
    encode,
    plain,
    shards_from_files,
    train_tokenizer,
    writer,
)
from pdtools.shards.build import label_vocabulary
from pdtools.shards.encode import EncodeWork
from pdtools.shards.plain import labels_of
from pdtools.tokenization import Tokenizer, train_word_tokenizer
from pdtools.trees import cut_chunks, read_trees

LABELLED = ShardSettings(constituents="labelled")
SETTINGS = [
    (TokenizerSettings(min_count=1), LABELLED),
    (TokenizerSettings(unk=False, min_count=2), replace(LABELLED, tape="none")),
    (TokenizerSettings(kind="bpe", size=270), replace(LABELLED, factor="left")),
    (TokenizerSettings(kind="bpe", size=270), LABELLED),
    (TokenizerSettings(kind="bpe", size=270, text_style="raw"), replace(LABELLED, factor="left")),
    (TokenizerSettings(min_count=3), ShardSettings()),  # with unknown words, without constituents
]


def plainly(
    files: list[str],
    tokenizer: TokenizerSettings,
    chosen: ShardSettings,
    out: Path,
    rejects: Rejects,
) -> None:
    passed_over = Rejects(rejects.on_error)
    found = list(some_trees(read_trees(files, passed_over), passed_over))
    made = train_tokenizer(found, tokenizer)
    if chosen.constituents == "labelled":
        labels = Counter(label for item in found for label in labels_of(item.tree))
        made = made.with_labels(label_vocabulary(labels))
    trees = read_trees(files, rejects)
    build_shards(trees, made, chosen, out, rejects, sources=files, overwrite=True)


def at_once(*arguments: Any, **more: Any) -> None:
    shards_from_files(*arguments, overwrite=True, **more)


def outcome(make: Any, files: list[str], chosen: Any, out: Path, on_error: str) -> Any:
    """All files of the shards, provenance aside; or what is wrong."""
    try:
        make(files, *chosen, out, Rejects(on_error))
    except PdtoolsError as error:
        return str(error)
    contents: dict[str, Any] = {path.name: path.read_bytes() for path in out.iterdir()}
    contents["manifest.json"] = {**json.loads(contents["manifest.json"]), "provenance": None}
    contents["pdtools.json"] = json.loads(contents["pdtools.json"])
    del contents["pdtools.json"]["files"]["manifest.json"]
    return contents


def assert_same(
    files: list[str],
    chosen: Any,
    folder: Path,
    *,
    rows_per_part: int = writer.ROWS_PER_PART,
    workers: int = 1,
) -> Any:
    fast = partial(at_once, workers=workers)
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(writer, "ROWS_PER_PART", rows_per_part)
        for on_error in ("fail", "skip"):
            expected = outcome(plainly, files, chosen, folder / "shards", on_error)
            found = outcome(fast, files, chosen, folder / "shards", on_error)
            assert found == expected
            if not isinstance(found, str):
                ShardSet.open(folder / "shards")  # which checks each row: both ways share the writer
    return expected


@settings(max_examples=60, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    contents=st.lists(st.one_of(FILES, FILES, FILES, SOUP), min_size=1, max_size=3),
    chosen=st.sampled_from(SETTINGS),
    size=st.sampled_from([30, 200, 10**6]),
    rows_per_part=st.sampled_from([1, 4, 7, 100]),
)
@example(
    contents=[b"(X (XX a) (XX b) (XX c))\n(X (XX a) (XX b))"], chosen=SETTINGS[0], size=99, rows_per_part=9
)
@example(
    contents=[b"(X (|XX a) (XX-1 b) (XX c))\n(X (XX \xef\xbf\xbd))"],
    chosen=SETTINGS[2],
    size=99,
    rows_per_part=9,
)
@example(
    contents=[b"(S (NN a))\n(-NONE- *)\n(S (X (XX a) (XX b)) (XX c))"],
    chosen=SETTINGS[1],
    size=20,
    rows_per_part=1,
)
def test_odd_treebanks(
    contents: list[bytes],
    chosen: Any,
    size: int,
    rows_per_part: int,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(encode, "cut_chunks", partial(cut_chunks, size=size))
    monkeypatch.setattr(writer, "_ROWS_PER_GROUP", 3)
    files = []
    for number, content in enumerate(contents):
        file = tmp_path / f"{number}.trees"
        file.write_bytes(content)
        files.append(str(file))
    assert_same(files, chosen, tmp_path, rows_per_part=rows_per_part)


@pytest.mark.parametrize("chosen", SETTINGS)
def test_the_bundled_treebank(chosen: Any, tmp_path: Path) -> None:
    expected = assert_same([str(data.treebank("test"))], chosen, tmp_path)
    assert expected["manifest.json"]["counts"]["sentences"] > 200


def test_row_groups_are_cut_before_their_tapes_get_long(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    import pyarrow.parquet as pq

    monkeypatch.setattr(writer, "_TAPE_BYTES_PER_GROUP", 3000)
    assert_same([str(data.treebank("test"))], SETTINGS[0], tmp_path)
    part = pq.ParquetFile(tmp_path / "shards" / "part-00000.parquet")
    groups = [part.read_row_group(i, ["tape"])["tape"].to_pylist() for i in range(part.num_row_groups)]
    assert len(groups) > 10
    assert all(sum(map(len, tapes)) <= 3000 or len(tapes) == 1 for tapes in groups)


@pytest.mark.parametrize("chosen", [0, 3, 4])
def test_rows_that_are_too_long_for_a_packed_tape(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, chosen: int
) -> None:
    for module in (encode, plain):
        monkeypatch.setattr(module, "MOST_PACKED", 20)
    written = assert_same([str(data.treebank("test"))], SETTINGS[chosen], tmp_path)
    manifest = written["manifest.json"]
    assert plain.TOO_LONG in json.dumps(manifest)
    lengths = ShardSet.open(tmp_path / "shards").lengths
    assert max(lengths) == 20


# --- labels of constituents -------------------------------------------------------------------


def test_labels_are_found_in_a_pass_of_their_own_if_the_tokenizer_has_none(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = str(data.treebank("test"))
    for style in ("ptb", "raw"):
        making = TokenizerSettings(kind="bpe", size=270, text_style=style)
        bare = train_tokenizer(read_trees([file], Rejects()), making)
        assert bare.labels == ()
        for stream in (False, True):
            monkeypatch.setattr(Source, "is_read_once", stream)
            both = [
                outcome(at_once, [file], (some, LABELLED), tmp_path / "s", "fail") for some in (making, bare)
            ]
            assert both[0] == both[1]
    shards = ShardSet.open(tmp_path / "s")
    counts = Counter(label for source in read_trees([file], Rejects()) for label in labels_of(source.tree))
    assert list(shards.labels) == shards.manifest["labels"] == sorted(counts, key=lambda x: (-counts[x], x))
    assert shards.tokenizer.fingerprint == bare.fingerprint


def test_labels_of_the_training_shards_are_kept(tmp_path: Path) -> None:
    texts = {"train": "(S (NP (NN a)) (VP (VB b)))\n(S (VP (VB b)) (VP (VB b)))\n(NN a)\n"}
    texts["valid"] = (
        "(Q (NP (NN a)) (Q (Q (VB b)) (VP (VB b))))\n(S (VP (VB b)) (ADVP|PRT (NN a)))\n(S (NN a))\n"
    )
    for name, text in texts.items():
        (tmp_path / f"{name}.trees").write_text(text)
    train = outcome(
        at_once,
        [str(tmp_path / "train.trees")],
        (TokenizerSettings(min_count=1), LABELLED),
        tmp_path / "s",
        "fail",
    )["manifest.json"]
    assert train["labels"] == ["VP", "S", "NP", "X"]
    assert {name: train["counts"][name] for name in LABEL_COUNTS} == dict(
        zip(LABEL_COUNTS, (1, 0, 0), strict=True)
    )
    tokenizer = Tokenizer.load(tmp_path / "s")
    valid = [str(tmp_path / "valid.trees")]
    at_once(valid, tokenizer, LABELLED, tmp_path / "fast", Rejects())
    build_shards(read_trees(valid, Rejects()), tokenizer, LABELLED, tmp_path / "plain", Rejects())
    for name in ("fast", "plain"):
        shards = ShardSet.open(tmp_path / name)
        assert shards.labels == tuple(train["labels"])
        assert [shards.constituents(i).labels.tolist() for i in range(3)] == [
            [-1, 2, -1, -1, 0],
            [1, 0, -1],
            [1],
        ]
        counts = {name: shards.manifest["counts"][name] for name in LABEL_COUNTS}
        assert counts == dict(zip(LABEL_COUNTS, (0, 1, 2), strict=True))


def test_kept_chunks_are_those_of_the_same_labels() -> None:
    tokenizer = train_word_tokenizer(["a"])
    works = [
        EncodeWork(tokenizer.with_labels(labels), LABELLED) for labels in ([], ["S"], ["NP"], ["S", "NP"])
    ]
    (chunk,) = cut_chunks([str(data.treebank("test"))])
    assert len({work.digest(chunk) for work in works}) == len(set(works)) == 4


LABEL_COUNTS = ("wrapped", "rewritten_labels", "unknown_labels")


# --- several processes ------------------------------------------------------------------------


def test_workers_change_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    treebank = data.treebank("test").read_bytes()
    files = [str(tmp_path / name) for name in ("a.mrg", "b.mrg", "c.mrg")]
    Path(files[0]).write_bytes(treebank + b"(S (NN odd) (NN one)\n" + treebank)
    Path(files[1]).write_bytes(treebank[: len(treebank) // 2] + b"\n(S (NN \xff))\n")
    Path(files[2]).write_bytes(b"(S (NN last))\n")
    monkeypatch.setattr(encode, "cut_chunks", partial(cut_chunks, size=10_000))
    expected = assert_same(files, SETTINGS[3], tmp_path, workers=2, rows_per_part=100)
    assert len(expected["manifest.json"]["parts"]) > 5


def test_rows_one_by_one_are_written_by_workers_too(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = tmp_path / "pipe.mrg"
    file.write_bytes(data.treebank("test").read_bytes())
    monkeypatch.setattr(Source, "is_read_once", True)
    assert_same([str(file)], SETTINGS[0], tmp_path, workers=2, rows_per_part=100)


def test_ctrl_c_ends_all_processes(tmp_path: Path) -> None:
    files = [str(data.treebank("train"))] * 100
    program = "import signal, sys; from pdtools.cli.main import run; "
    # Where tests are run in the background, programs that they start would ignore Ctrl-C.
    program += "signal.signal(signal.SIGINT, signal.default_int_handler); sys.exit(run(sys.argv[1:]))"
    options = ["-o", str(tmp_path / "shards"), "--workers", "2"]
    command = [sys.executable, "-c", program, "tapes", *files, *options]
    with subprocess.Popen(command, stderr=subprocess.PIPE, text=True, start_new_session=True) as process:
        while not any(tmp_path.iterdir()):  # until the first chunks are kept
            assert process.poll() is None
            time.sleep(0.01)
        os.killpg(process.pid, signal.SIGINT)
        _, errors = process.communicate(timeout=60)
    assert process.returncode == 130
    assert "Traceback" not in errors
    assert {path.name for path in tmp_path.iterdir()} <= {
        "shards.job"
    }  # the chunks that are done, to resume with


# --- real treebanks ---------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("name", "suffix", "every"),
    [("nltk_treebank", ".mrg", 13), ("gum_const", ".ptb", 19), ("craft_penn", ".tree", 16)],
)
def test_real_treebanks(name: str, suffix: str, every: int, test_data: Path, tmp_path: Path) -> None:
    with zipfile.ZipFile(test_data / "treebanks" / f"{name}.zip") as archive:
        archive.extractall(tmp_path)
    files = expand_inputs([str(tmp_path)], [suffix])[::every]
    for chosen in (SETTINGS[1], SETTINGS[3]):
        outcomes = [outcome(make, files, chosen, tmp_path / "shards", "fail") for make in (plainly, at_once)]
        assert outcomes[0] == outcomes[1]
