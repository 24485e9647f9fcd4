"""eval-ppl in chunks: all kinds of models, what --resume refuses, and the same scores as without chunks."""

from __future__ import annotations

import dataclasses
import itertools
import json
import math
import shutil
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from small_jobs import OTHER_PERPLEXITIES, Case

from pdtools.cli.main import run
from pdtools.errors import InputError
from pdtools.evaluation.perplexity.evaluate import evaluate_perplexity
from pdtools.evaluation.perplexity.shard_rows import RowToScore, RowWork
from pdtools.files import Rejects
from pdtools.files.arrow import cut_tables
from pdtools.formal import Dyck, string_shards
from pdtools.models import load_checkpoint
from pdtools.search.options import SearchOptions
from pdtools.shards import ShardFolder, ShardSet
from pdtools.trees import Tree

Cases = Callable[[str], Case]


@pytest.fixture(autouse=True)
def _keep_arguments(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "argv", sys.argv)


def pdtools(arguments: list[str]) -> int:
    sys.argv = ["pdtools", *arguments]
    return run(arguments)


def rows_scored(
    arguments: list[str], monkeypatch: pytest.MonkeyPatch, *, status: int = 0, chunks: int = 10**6
) -> list[int]:
    """The rows that a command scores until it is interrupted after so many chunks."""
    done: list[list[int]] = []
    real = RowWork.__call__

    def call(work: RowWork, chunk: Sequence[RowToScore]) -> Any:
        if len(done) == chunks:
            raise KeyboardInterrupt
        done.append([row.number for row in chunk])
        return real(work, chunk)

    with monkeypatch.context() as patched:
        patched.setattr(RowWork, "__call__", call)
        assert pdtools(arguments) == status
    return list(itertools.chain.from_iterable(done))


@pytest.mark.parametrize("name", OTHER_PERPLEXITIES)
def test_every_kind_of_model_in_slices(name: str, case: Cases) -> None:
    command = case(name)
    assert pdtools(command("-q")) == 0
    wanted = command.made()
    reads_any_length = name in ("ppl-gpt2", "ppl-base")
    assert json.loads(wanted["results.json"])["counts"]["sentences"] == 33 + reads_any_length
    command.clear()
    for number in (1, 0):
        assert pdtools(command("--shard", f"{number}/2", "-q")) == 0
    assert len(list(command.output.with_name(f"{name}.job").glob("pieces/*.zst"))) >= 4
    assert pdtools(["merge", str(command.output)]) == 0
    assert command.made() == wanted


def test_what_is_finished_is_not_done_again(case: Cases, monkeypatch: pytest.MonkeyPatch) -> None:
    command = case("eval-ppl")
    before = rows_scored(command("-q"), monkeypatch, status=130, chunks=4)
    assert not command.output.exists()
    after = rows_scored(command("--resume", "-q"), monkeypatch)
    assert 12 < len(before) < 17
    assert len({*before, *after}) == len(before) + len(after) == 33


@pytest.mark.parametrize("changed", ["model", "shards", "beam"])
def test_other_inputs_are_refused(
    changed: str, case: Cases, inputs: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: Any
) -> None:
    command = case("eval-ppl")
    for name, source in (("model", inputs / "models" / "pushdown"), ("shards", inputs / "shards")):
        shutil.copytree(source, tmp_path / name)
        there = tuple(str(tmp_path / name) if part == str(source) else part for part in command.arguments)
        command = dataclasses.replace(command, arguments=there)
    rows_scored(command("-q"), monkeypatch, status=130, chunks=3)
    if changed == "model":
        shutil.rmtree(tmp_path / "model")
        shutil.copytree(inputs / "models" / "head", tmp_path / "model")
    elif changed == "shards":
        shutil.rmtree(tmp_path / "shards")
        tapes = [
            "tapes",
            f"{inputs}/rows.trees",
            "--tokenizer",
            f"{inputs}/models/base",
            "--binarize",
            "left",
        ]
        assert pdtools([*tapes, "-q", "-o", f"{tmp_path}/shards"]) == 0
    capsys.readouterr()
    assert pdtools(command("--resume", *(["--beam", 5] if changed == "beam" else []))) == 1
    error = capsys.readouterr().err
    assert f"begun with other settings: {changed} was" in error
    assert error.count("\n") == 1


DRAWN = {"--particles": 3, "--seed": 1}


@pytest.mark.parametrize(
    ("name", "before", "changed", "said"),
    [
        ("ppl-given-trees", DRAWN, ["--particles", 2], "particles was 3, now 2"),
        ("ppl-given-trees", DRAWN, ["--seed", 2], "particles_seed was 1, now 2"),
        ("eval-ppl", {}, ["--no-marginal"], "marginal was True, now False"),
    ],
)
def test_other_options_are_refused(
    name: str,
    before: dict[str, Any],
    changed: list[Any],
    said: str,
    case: Cases,
    monkeypatch: pytest.MonkeyPatch,
    capsys: Any,
) -> None:
    command = dataclasses.replace(case(name), arguments=tuple(case(name)(*itertools.chain(*before.items()))))
    rows_scored(command("-q"), monkeypatch, status=130, chunks=3)
    capsys.readouterr()
    assert pdtools(command("--resume", *changed)) == 1
    assert f"begun with other settings: {said} (" in capsys.readouterr().err


def test_rows_whose_trees_changed_are_scored_again(
    case: Cases, inputs: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(ShardFolder, "sha256", "of whatever is there")  # so that only the rows can tell
    left = tmp_path / "left.trees"
    trees = [Tree.from_brackets(line) for line in (inputs / "rows.trees").read_text().splitlines()]
    opened = ["(S " * len(tree) + " ".join(f"(X {word}))" for word in tree.words) for tree in trees]
    left.write_text("".join(f"{line}\n" for line in opened))
    tapes = ["tapes", str(left), "--tokenizer", f"{inputs}/models/base", "-q", "-o", f"{tmp_path}/left"]
    assert pdtools(tapes) == 0
    shutil.copytree(inputs / "shards", tmp_path / "shards")
    command = case("eval-ppl")
    there = (str(tmp_path / "shards") if part.endswith("shards") else part for part in command.arguments)
    command = dataclasses.replace(command, arguments=tuple(there))
    rows_scored(command("-q"), monkeypatch, status=130, chunks=3)
    (tmp_path / "shards").rename(tmp_path / "right")
    (tmp_path / "left").rename(tmp_path / "shards")
    again = rows_scored(command("--resume", "-q"), monkeypatch)
    long = [number for number, tree in enumerate(trees) if 2 < len(tree) < 16]  # others have one tree
    assert set(long) <= set(again)
    resumed = command.made()
    command.clear()
    assert pdtools(command("-q")) == 0
    assert command.made() == resumed


@pytest.mark.parametrize(
    "option", [["--workers", "2"], ["--shard", "0/2"], ["--scheduler", "tcp://x:1"], ["--resume"]]
)
def test_a_stream_is_not_in_chunks(
    option: list[str], case: Cases, capsys: pytest.CaptureFixture[str]
) -> None:
    assert pdtools(case("ppl-base")("--stream", *option)) == 1
    error = capsys.readouterr().err
    assert "--resume cannot be used" in error
    assert error.count("\n") == 1


@pytest.mark.parametrize("name", ["ppl-gpt2", "ppl-base"])
def test_no_marginal_where_there_is_nothing_else(
    name: str, case: Cases, capsys: pytest.CaptureFixture[str]
) -> None:
    stream = ["--stream"] if name == "ppl-base" else []
    assert pdtools(case(name)("--no-marginal", *stream)) == 1
    error = capsys.readouterr().err
    assert "with --no-marginal there is nothing to compute" in error
    assert error.count("\n") == 1


def test_without_a_folder_nothing_is_kept(case: Cases, capsys: pytest.CaptureFixture[str]) -> None:
    command = case("eval-ppl")
    to_nowhere = list(command.arguments[:-2])
    assert pdtools([*to_nowhere, "--json", "-q"]) == 0
    scores = json.loads(capsys.readouterr().out)["scores"]
    assert pdtools(command("-q")) == 0
    assert json.loads(command.made()["results.json"])["scores"] == scores
    assert pdtools([*to_nowhere, "--resume"]) == 1
    assert "name one with -o" in capsys.readouterr().err


def test_blocks_of_rows_change_nothing(case: Cases, inputs: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    case("eval-ppl")  # small blocks and chunks
    loaded = load_checkpoint(inputs / "models" / "pushdown")
    shards = ShardSet.open(inputs / "shards")
    small = evaluate_perplexity(shards, loaded, search=SearchOptions(beam=4), rejects=Rejects("skip"))
    monkeypatch.undo()
    whole = evaluate_perplexity(shards, loaded, search=SearchOptions(beam=4), rejects=Rejects("skip"))
    assert small.counts == whole.counts
    for name, score in whole.scores.items():
        assert small.scores[name] == pytest.approx(score, rel=1e-6)
    assert small.table("items")["id"] == whole.table("items")["id"]
    assert whole.table("items")["id"].to_pylist() == sorted(whole.table("items")["id"].to_pylist())


@pytest.mark.parametrize("size", [1, 5, 12, 34, 100])
def test_blocks_from_the_disk_and_from_memory(
    size: int, inputs: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("pdtools.shards.reader.ROWS_PER_BLOCK", size)
    folder, shards = ShardFolder.open(inputs / "shards"), ShardSet.open(inputs / "shards")
    assert len(folder) == len(shards) == 34
    assert folder.sha256 == shards.sha256
    first = 0
    for streamed, held in zip(folder.blocks(), shards.blocks(), strict=True):
        assert len(streamed) == len(held) == min(size, 34 - first)
        for i in range(len(held)):
            for name in ("text", "tokens", "attach", "word"):
                rows = [getattr(each, name)(i) for each in (streamed, held)]
                assert all(np.array_equal(row, getattr(shards, name)(first + i)) for row in rows), name
            assert streamed.ids[i] == held.ids[i] == shards.ids[first + i]
            assert streamed.lengths[i] == held.lengths[i] == len(shards.tokens(first + i))
        first += len(held)
    assert first == 34


def test_shards_that_are_replaced_while_they_are_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("pdtools.shards.reader.ROWS_PER_BLOCK", 2)
    language = Dyck(brackets=2, depth=3)
    string_shards(language, 5, 1, tmp_path / "shards")
    wanted = [shards.text(0) for shards in ShardFolder.open(tmp_path / "shards").blocks()]
    opened = ShardFolder.open(tmp_path / "shards")
    blocks = opened.blocks()
    found = [next(blocks).text(0)]
    string_shards(language, 5, 2, tmp_path / "shards", overwrite=True)
    assert [*found, *(block.text(0) for block in blocks)] == wanted  # the file that was begun
    with pytest.raises(InputError, match="damaged, or replaced"):
        next(opened.blocks())


@given(lengths=st.lists(st.integers(0, 9), max_size=8), size=st.integers(1, 7))
def test_cutting_tables(lengths: list[int], size: int) -> None:
    import pyarrow as pa

    numbers = iter(range(1000))
    tables = [pa.table({"n": pa.array([next(numbers) for _ in range(n)], pa.int64())}) for n in lengths]
    cut = list(cut_tables(tables, size))
    assert [n for table in cut for n in table["n"].to_pylist()] == list(range(sum(lengths)))
    assert all(len(table) == size for table in cut[:-1])
    assert all(0 < len(table) <= size for table in cut)


@given(
    numbers=st.lists(
        st.tuples(st.floats(), st.floats() | st.none(), st.integers(0, 2**40)).map(list), max_size=5
    )
)
def test_numbers_come_back_as_they_were(numbers: list[list[Any]]) -> None:
    work = RowWork(None, len, tuple[float | None, ...])  # type: ignore[arg-type]
    back = work.unpack(work.pack(numbers))
    for one, other in zip(numbers, back, strict=True):
        for a, b in zip(one, other, strict=True):
            assert a == b or (math.isnan(a) and math.isnan(b))
