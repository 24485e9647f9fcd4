"""Every command in chunks: the same output by whoever does them, and however often they are killed."""

from __future__ import annotations

import dataclasses
import errno
import itertools
import json
import os
import random
import shlex
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import zstandard
from small_jobs import COMMANDS, GRAMMARS, OTHER_PERPLEXITIES, Case

from pdtools.cli.main import run
from pdtools.jobs import job_path

pytestmark = pytest.mark.skipif(not hasattr(os, "fork"), reason="not a POSIX system")
Cases = Callable[[str], Case]


def pdtools(arguments: list[str]) -> int:
    """Run a command; what it is called with stands in its provenance, and in what merge does."""
    sys.argv = ["pdtools", *arguments]
    return run(arguments)


@pytest.fixture(autouse=True)
def _keep_arguments(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "argv", sys.argv)


def plain(case: Case) -> dict[str, bytes]:
    """What an undisturbed run makes."""
    assert pdtools(case()) == 0
    made = case.made()
    assert made
    case.clear()
    return made


def merge(case: Case) -> list[str]:
    """The command that makes the output of its jobs."""
    scores = ["--scores", f"{case.output}.tsv"] if "--scores" in case.arguments else []
    return ["merge", str(case.output), *scores]


def run_and_kill(arguments: list[str], step: int, *, after: bool) -> int:
    """Run a command in a process of its own, and kill that at one of its renamings or deletions.

    Args:
        step: at the how-manieth, from 0.
        after: when that is done, or just before.

    Returns:
        The exit status; -9 if it was killed.
    """
    child = os.fork()
    if child:
        _, status = os.waitpid(child, 0)
        return os.waitstatus_to_exitcode(status)
    try:
        steps = 0

        def deadly(function: Callable[..., Any]) -> Callable[..., Any]:
            def call(*args: Any, **options: Any) -> Any:
                nonlocal steps
                steps += 1
                if steps == step + 1 and not after:
                    os.kill(os.getpid(), signal.SIGKILL)
                result = function(*args, **options)
                if steps == step + 1:
                    os.kill(os.getpid(), signal.SIGKILL)
                return result

            return call

        os.replace, os.rename, shutil.rmtree = deadly(os.replace), deadly(os.rename), deadly(shutil.rmtree)
        os.dup2(os.open(os.devnull, os.O_WRONLY), 2)
        os._exit(pdtools(arguments))
    finally:
        os._exit(70)


@pytest.mark.parametrize("name", [*COMMANDS, "tg-sg"])
def test_killed_again_and_again(name: str, case: Cases) -> None:
    command = case(name)
    wanted = plain(command)
    rng = random.Random(name)
    kills = 0
    while True:
        status = run_and_kill(command("--resume", "-q"), rng.randrange(2 + kills), after=rng.random() < 0.5)
        if status == 0:
            break
        assert status == -signal.SIGKILL
        kills += 1
        assert kills < 200
    assert kills >= 2
    assert command.made() == wanted
    assert pdtools(command("--resume", "-q")) == 0  # done already; and what is left beside it is deleted
    assert command.made() == wanted
    assert not [path.name for path in command.output.parent.iterdir() if "job" in path.name]
    assert not list(command.output.parent.glob(".*"))


FOLDERS = ("eval-blimp", "tapes", "split")


def takes_the_name(output: Path, *, folder: bool) -> None:
    """As the line ``mkdir -p $OUT`` of a script does, or the shell for ``merge x.tsv > x.tsv``."""
    if folder:
        output.mkdir()
    else:
        output.touch()


def remove(output: Path) -> None:
    if output.is_dir():
        shutil.rmtree(output)
    else:
        output.unlink()


def chunks_of(command: Case) -> dict[str, bytes]:
    """The finished chunks of its unfinished run."""
    return {path.name: path.read_bytes() for path in command.output.parent.glob("*.job/*/*.zst")}


@pytest.mark.parametrize("name", ["parse", "surprisal", "decode", "eval-blimp", "tapes"])
def test_merging_killed_at_each_step(name: str, case: Cases) -> None:
    """From the first file beside the output to the last deletion; once with the output's name taken then."""
    command = case(name)
    for _ in range(1 + (name == "tapes")):
        assert pdtools(command("--shard", "0/1", "-q")) == 0
    folder, chunks = command.output.parent, chunks_of(command)
    kept = shutil.copytree(folder, folder.with_name("kept"))
    assert pdtools(merge(command)) == 0
    wanted, was_made = command.made(), []
    for step in itertools.count():
        shutil.rmtree(folder)
        shutil.copytree(kept, folder)
        status = run_and_kill(merge(command), step, after=True)
        if status == 0:
            break
        assert status == -signal.SIGKILL
        was_made.append(command.output.exists())
        if not was_made[-1]:
            assert chunks_of(command) == chunks
            if "made" not in json.loads((job_path(command.output) / "job.json").read_text()):
                continue
            takes_the_name(command.output, folder=name in FOLDERS)
            assert pdtools(merge(command)) == 1
            assert chunks_of(command) == chunks
            remove(command.output)
        assert pdtools(merge(command)) == 0
        assert command.made() == wanted
        assert not list(folder.glob(".*"))
        assert not list(folder.glob("*.job"))
    assert command.made() == wanted
    assert was_made == sorted(was_made)
    assert set(was_made) == {False, True}


OTHERS: dict[str, Callable[[Path], object]] = {
    "empty file": Path.touch,
    "empty folder": Path.mkdir,
    "file": lambda output: output.write_text("of somebody else"),
    "folder": lambda output: (output.mkdir(), (output / "slurm.log").write_text("of the cluster")),
}


@pytest.mark.parametrize(
    ("name", "other"),
    [
        ("surprisal", "empty file"),
        ("eval-blimp", "empty folder"),
        ("tapes", "folder"),
        ("split", "file"),
        ("decode", "folder"),
        ("treebank", "file"),
    ],
)
def test_an_output_that_no_run_made(
    name: str, other: str, case: Cases, capsys: pytest.CaptureFixture[str]
) -> None:
    command = case(name)
    OTHERS[other](command.output)
    if name != "treebank":
        assert pdtools(command("--resume")) == 1
    if other != "file":  # which might be from an earlier run
        assert pdtools(merge(command)) == 1
    remove(command.output)
    assert pdtools(command("--shard", "0/1")) == 0
    chunks = chunks_of(command)
    assert chunks
    OTHERS[other](command.output)
    for again in (command("--resume"), merge(command)):
        capsys.readouterr()
        assert pdtools(again) == 1
        error = capsys.readouterr().err
        assert f"{command.output}: exists already, but the unfinished run in" in error
        assert "its chunks are kept (move the output away" in error
        assert error.count("\n") == 1
        assert chunks_of(command) == chunks
    remove(command.output)
    assert pdtools(command("--resume")) == 0
    assert not list(command.output.parent.glob("*.job"))


def test_merging_replaces_only_what_was_there_when_its_jobs_began(case: Cases) -> None:
    command = case("decode")
    command.output.write_text("of long ago")
    assert pdtools(command("--shard", "0/1", "--overwrite")) == 0
    there = command.output.rename(command.output.with_name("there"))
    command.output.write_text("of somebody else")
    assert pdtools(merge(command)) == 1
    assert command.output.read_text() == "of somebody else"
    there.replace(command.output)
    assert pdtools(merge(command)) == 0
    assert command.output.read_text().startswith("(")


@pytest.mark.parametrize("number", range(5))
def test_after_a_full_disk_the_same_command_succeeds(
    number: int, case: Cases, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """The disk is full at one of the renamings: job.json, a chunk, the rejects, the record and the output."""
    command, calls = case("surprisal"), itertools.count()
    for name in ("LOOK_AHEAD", "SEARCH_LOOK_AHEAD"):  # one chunk, for which nobody needs --resume
        monkeypatch.setattr(f"pdtools.search.family.{name}", 100)
    wanted = plain(command)
    real = os.replace

    def replace(old: Any, new: Any) -> None:
        if next(calls) == number:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), str(old), None, str(new))
        real(old, new)

    with monkeypatch.context() as patched:
        patched.setattr(os, "replace", replace)
        assert pdtools(command()) == 1
    assert "No space left on device" in capsys.readouterr().err
    assert not command.made()
    assert pdtools(command("-q")) == 0
    assert command.made() == wanted


@pytest.mark.parametrize("name", [*COMMANDS, *GRAMMARS])
def test_slices_and_merge(name: str, case: Cases, capsys: pytest.CaptureFixture[str]) -> None:
    command = case(name)
    wanted = plain(command)
    for number in (2, 0):
        assert pdtools(command("--shard", f"{number}/3")) == 0
    assert pdtools(merge(command)) == 1
    assert "chunks are missing" in capsys.readouterr().err
    assert not command.made()
    assert pdtools(command("--shard=1/3", "-q")) == 0
    assert capsys.readouterr().err == ""
    if name == "tapes":  # that was the pass over words, and part of the next
        assert pdtools(merge(command)) != 0
        assert pdtools(command("--shard", "0/3")) == pdtools(command("--shard", "2/3")) == 0
    assert pdtools(merge(command)) == 0
    assert pdtools(merge(command)) == 0  # a job that was requeued
    assert "is there already" in capsys.readouterr().err
    assert command.made() == wanted
    assert not list(command.output.parent.glob("*.job"))


BEFORE = ("--context", "{inputs}/before.txt")
WINDOWS = ("--model", "{inputs}/windows/pushdown")
# Of a case of commands: its input where that is another one, and options that are given together.
TOGETHER: tuple[tuple[str, str, tuple[str, ...]], ...] = (
    ("surprisal", "", (*WINDOWS, *BEFORE, "--context-parses", "beam", "--words", "--entropy")),
    ("surprisal", "", (*WINDOWS, *BEFORE, "--window", "15", "--parses", "--nats", "--margin", "3")),
    (
        "surprisal",
        "documents.txt",
        (*WINDOWS, "--context", "document", "--window", "20", "--entropy", "--nats"),
    ),
    (
        "surprisal",
        "documents.txt",
        ("--model", "{inputs}/models/gpt2", *BEFORE, "--window", "20", "--beam", "1", "--no-bos", "--rank"),
    ),
    ("surprisal", "stimuli.csv", ("--column", "sentence=good,bad", "--margin", "2", "--parses")),
    (
        "surprisal",
        "stimuli.csv",
        (*WINDOWS, *BEFORE, "--correct-spaces", "--column", "sentence=bad", "--entropy"),
    ),
    (
        "surprisal",
        "stimuli.csv",
        ("--column", "sentence=good", "--frequencies", "{inputs}/counts.tsv", "--words"),
    ),
    ("eval-blimp", "", (*WINDOWS, *BEFORE, "--context-parses", "beam", "--limit", "9", "--details")),
    ("eval-sg", "", (*WINDOWS, *BEFORE, "--window", "17", "--details", "--margin", "2")),
    ("eval-ppl", "", ("--no-marginal", "--particles", "3", "--seed", "5")),
    (
        "eval-ppl",
        "documents.txt",
        (*WINDOWS, "--context", "document", "--context-parses", "beam", "--margin", "3"),
    ),
    ("treebank", "", ("--functions", "keep", "--binarize", "none", "--split", "0.5,0.5")),
    ("parse", "", ("--binarize", "left", "--margin", "3", "--search", "max_batch=3")),
    ("tapes", "", ("--lower-case", "--min-count", "2", "--text-style", "raw", "--binarize", "left")),
    ("tapes", "", ("--tokenizer", "bpe", "--vocab-size", "300", "--tape", "none")),
    ("tapes", "", ("--layout", "window", "--window", "24", "--documents", "file", "--tape", "packed")),
)


@pytest.mark.parametrize(("name", "source", "options"), TOGETHER)
def test_options_together_in_slices(
    name: str, source: str, options: tuple[str, ...], case: Cases, inputs: Path
) -> None:
    (inputs / "before.txt").write_text("a b\nb a\n")
    lines = (inputs / "lines.txt").read_text().splitlines()
    (inputs / "documents.txt").write_text("\n".join(line for i, line in enumerate(lines) if "z" not in line))
    rows = [f"{a},{b}" for a, b in itertools.pairwise(line for line in lines if line and "z" not in line)]
    (inputs / "stimuli.csv").write_text("\n".join(["good,bad", *rows]))
    (inputs / "counts.tsv").write_text("word\tcount\na\t5\nb\t3\n")
    if "{inputs}/models/gpt2" in options:
        case("ppl-gpt2")  # saves it, where transformers is installed
    command = case(name)
    first, given, *others = command(*(each.format(inputs=inputs) for each in options))
    arguments = (first, str(inputs / source) if source else given, *others)
    command = dataclasses.replace(command, arguments=arguments)
    wanted = plain(command)
    for number in (1, 0) * (1 + (name == "tapes")):
        assert pdtools(command("--shard", f"{number}/2", "-q")) == 0
    assert len(chunks_of(command)) > 1
    assert pdtools(merge(command)) == 0
    assert command.made() == wanted


@pytest.mark.parametrize("arguments", [[], ["generate", "dyck", "-o", "kept", "--overwrite"]])
def test_merging_calls_no_other_command(
    arguments: list[str], case: Cases, capsys: pytest.CaptureFixture[str]
) -> None:
    command = case("decode")
    assert pdtools(command("--shard", "0/1")) == 0
    path = command.output.with_name("decode.job") / "job.json"
    path.write_text(json.dumps({**json.loads(path.read_text()), "command": arguments}))
    capsys.readouterr()
    assert pdtools(merge(command)) == 1
    assert "not begun by a command of pdtools" in capsys.readouterr().err


# Of no JSON, and JSON of other shapes than a chunk has.
OTHER_FORMATS = (
    *(b"\xff\xfe", b"[", b"null", b"3", b"{}", b"[]", b"[[]]", b"[null]", b'["a"]', b'[{"a": 1}]'),
    *(b'{"a": 1}', b'[{"reason": 1, "token": []}]'),
    b'{"outcomes": [], "n_words": "a", "changes": {"rewritten": []}}',
)


@pytest.mark.parametrize("name", [*COMMANDS, *OTHER_PERPLEXITIES])
def test_chunks_of_other_formats_are_refused(
    name: str, case: Cases, capsys: pytest.CaptureFixture[str]
) -> None:
    command = case(name)
    assert pdtools(command("--shard", "0/1")) == 0
    for data in OTHER_FORMATS:
        for chunk in (command.output.parent / f"{command.output.name}.job").glob("*/*.zst"):
            chunk.write_bytes(zstandard.ZstdCompressor().compress(data))
        capsys.readouterr()
        assert pdtools(merge(command)) == 1, data
        error = capsys.readouterr().err
        assert "a damaged chunk of an unfinished run" in error, data
        assert error.count("\n") == 1
        assert not command.made()


@pytest.mark.parametrize("name", ["decode", "surprisal", "eval-blimp", "tapes", "split"])
def test_merging_from_another_folder(
    name: str, case: Cases, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Inputs and outputs are named from where the jobs ran."""
    command = case(name)
    here, there = command.output.parent, tmp_path / "there"
    there.mkdir()
    relative = [os.path.relpath(each, here) if each[:1] == "/" else each for each in command.arguments]
    monkeypatch.chdir(here)
    wanted = plain(dataclasses.replace(command, arguments=tuple(relative)))
    for shard in ("0/2", "1/2") * (1 + (name == "tapes")):
        monkeypatch.chdir(here)
        assert pdtools([*relative, "--shard", shard]) == 0
    monkeypatch.chdir(there)
    assert (
        pdtools([os.path.relpath(each, there) if each[:1] == "/" else each for each in merge(command)]) == 0
    )
    assert command.made() == wanted
    assert not list(there.iterdir())


def test_merging_makes_no_other_output(case: Cases, capsys: pytest.CaptureFixture[str]) -> None:
    command = case("decode")
    assert pdtools(command("--shard", "0/1")) == 0
    moved = command.output.with_name("moved")
    command.output.with_name("decode.job").rename(command.output.with_name("moved.job"))
    capsys.readouterr()
    assert pdtools(["merge", str(moved), "--scores", f"{command.output}.tsv"]) == 1
    assert f"its jobs were to make {command.output}" in capsys.readouterr().err
    assert not moved.exists()
    assert not command.made()


@pytest.mark.parametrize(
    ("name", "more", "written"),
    [
        ("decode", ["-o", "{mine}"], "{mine}"),
        ("decode", ["--output={mine}"], "{mine}"),
        ("decode", ["-o", "-"], "-"),
        ("decode", ["--scores", "{mine}"], "{mine}"),
        ("surprisal", ["-qo{mine}"], "{mine}"),
        ("parse", ["-o", "{mine}"], "{mine}"),
        ("tapes", ["-o", "{mine}.folder"], "{mine}.folder"),
        ("eval-blimp", ["--write-sentences", "{mine}"], "{mine}"),
        ("eval-sg", ["--write-sentences={mine}"], "{mine}"),
        ("eval-ppl", ["-o", "{mine}.folder"], "{mine}.folder"),
    ],
)
@pytest.mark.parametrize("overwrite", [[], ["--overwrite"]])
def test_merging_the_folder_of_somebody_else_writes_nothing_but_the_output(
    name: str,
    more: list[str],
    written: str,
    overwrite: list[str],
    case: Cases,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    command = case(name)
    assert pdtools(command("--shard", "0/1")) == 0
    mine = tmp_path / "mine" / "thesis.txt"
    mine.parent.mkdir()
    mine.write_text("ten years")
    path = command.output.with_name(f"{command.output.name}.job") / "job.json"
    job = json.loads(path.read_text())
    job["command"] += [*(option.format(mine=mine) for option in more), *overwrite]
    path.write_text(json.dumps(job))
    capsys.readouterr()
    before = sorted(path.parent.rglob("*"))
    assert pdtools(merge(command)) == 1
    error = capsys.readouterr().err
    assert f"its jobs were to make {written.format(mine=mine)}" in error.replace("to write", "to make")
    assert error.count("\n") == 1
    assert sorted(path.parent.rglob("*")) == before
    assert os.listdir(mine.parent) == ["thesis.txt"]
    assert mine.read_text() == "ten years"
    assert not command.made()


def test_a_lock_that_leads_elsewhere_is_not_followed(
    case: Cases, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    command = case("decode")
    assert pdtools(command("--shard", "0/1")) == 0
    lock = command.output.with_name("decode.job") / "lock"
    lock.unlink()
    lock.symlink_to(tmp_path / "made")
    capsys.readouterr()
    assert pdtools(merge(command)) == 1
    assert capsys.readouterr().err.count("\n") == 1
    assert not (tmp_path / "made").exists()


@pytest.mark.parametrize("name", ["decode", "parse"])
def test_a_slice_names_the_command_that_merges(
    name: str, case: Cases, capsys: pytest.CaptureFixture[str]
) -> None:
    command = case(name)
    arguments = (argument.replace("decode.tsv", "the scores.tsv") for argument in command.arguments)
    command = dataclasses.replace(command, arguments=tuple(arguments))
    assert pdtools(command("--shard", "0/1")) == 0
    said = capsys.readouterr().err.strip().partition("when all shards are: pdtools ")[2]
    assert pdtools(shlex.split(said)) == 0
    assert command.output.is_file()
    assert command.output.with_name("the scores.tsv").is_file() == (name == "decode")


def test_scores_are_named_when_merging(case: Cases, capsys: pytest.CaptureFixture[str]) -> None:
    command = case("decode")
    assert pdtools(command("--shard", "0/1")) == 0
    capsys.readouterr()
    assert pdtools(["merge", str(command.output)]) == 1
    said = capsys.readouterr().err.strip().partition("if that is right: pdtools ")[2].removesuffix(")")
    assert pdtools(shlex.split(said)) == 0


@pytest.mark.parametrize("name", ["decode", "parse"])
def test_merging_where_there_is_no_gpu(name: str, case: Cases) -> None:
    command = case(name)
    wanted = plain(command)
    assert pdtools(command("--shard", "0/1")) == 0
    job = command.output.with_name(f"{name}.job") / "job.json"
    job.write_text(job.read_text().replace('"cpu"', '"cuda:77"'))
    assert pdtools(merge(command)) == 0
    assert command.made() == wanted


@pytest.mark.parametrize("name", ["decode", "eval-ppl", "tg-ppl", "eval-dyck", "split", "tapes"])
def test_two_workers(name: str, case: Cases) -> None:
    command = case(name)
    wanted = plain(command)
    assert pdtools(command("--workers", 2)) == 0
    assert command.made() == wanted


@pytest.mark.parametrize("name", ["decode", "treebank", "split", "tapes"])
def test_reports_are_the_same_whoever_does_the_work(
    name: str, case: Cases, capsys: pytest.CaptureFixture[str]
) -> None:
    """What ``--json`` prints: of one process, of two, of jobs, and of half a job that another run ends."""
    command = case(name)

    def report(arguments: list[str]) -> dict[str, Any]:
        capsys.readouterr()
        assert pdtools(arguments) == 0
        return {key: of for key, of in json.loads(capsys.readouterr().out).items() if key != "provenance"}

    wanted = report(command("--json", "-q"))
    assert wanted["counts"]
    for slices in ("", "0", "010"):  # the first is called again for another pass
        command.clear()
        for number in slices:
            assert pdtools(command("--shard", f"{number}/2", "--json", "-q")) == 0
        last = command("--json", "-q", *(["--resume"] if slices else ["--workers", "2"]))
        assert report(merge(command) if len(slices) > 1 else last) == wanted


def test_overwriting_killed_and_gone_on_with(case: Cases, capsys: pytest.CaptureFixture[str]) -> None:
    command = case("decode")
    wanted = plain(command)
    command.output.write_text("of long ago")
    assert pdtools(command("--resume")) == 0
    assert "done already; a file does not record with which options" in capsys.readouterr().err
    assert command.output.read_text() == "of long ago"
    assert run_and_kill(command("--overwrite", "-q"), 4, after=True) == -signal.SIGKILL
    assert pdtools(command("--resume")) == 1  # is it the old one that is wanted?
    assert pdtools(command()) == 1
    assert command.output.read_text() == "of long ago"
    assert pdtools(command("--overwrite", "--resume")) == 0
    assert command.made() == wanted


def test_an_input_error_and_going_on(case: Cases, inputs: Path, tmp_path: Path, capsys: Any) -> None:
    lines = (inputs / "lines.txt").read_text().splitlines()
    source = tmp_path / "lines.txt"
    source.write_text("\n".join(lines))
    out = tmp_path / "out" / "s.tsv"
    model = ["--model", str(inputs / "models" / "pushdown"), "--device", "cpu", "--beam", "4"]
    command = ["surprisal", str(source), *model, "-o", str(out)]
    assert pdtools(command) == 1
    error = capsys.readouterr().err
    assert "lines.txt:21: words unknown to the model: zebra" in error
    assert "finished chunks are kept" in error
    assert error.count("\n") == 1
    kept = {path.name: path.stat().st_mtime_ns for path in out.with_name("s.tsv.job").glob("pieces/*")}
    assert len(kept) >= 4
    lines[20] = "a c"
    source.write_text("\n".join(lines))
    assert pdtools([*command, "--resume", "--json"]) == 0
    resumed = out.read_bytes()
    assert pdtools([*command, "--overwrite"]) == 0
    assert out.read_bytes() == resumed


@pytest.mark.parametrize(("name", "chunks"), [("decode", 5), ("eval-dyck", 2 + 3)])  # strings and prefixes
def test_json_of_a_slice_and_of_what_is_done(
    name: str, chunks: int, case: Cases, capsys: pytest.CaptureFixture[str]
) -> None:
    command = case(name)
    assert pdtools(command("--shard", "0/2", "--json", "-q")) == 0
    assert json.loads(capsys.readouterr().out)["counts"] == {"pieces": chunks}
    assert pdtools(command("--resume", "-q")) == 0
    capsys.readouterr()
    assert pdtools(command("--resume", "--json", "-q")) == 0
    assert json.loads(capsys.readouterr().out) == {"output": str(command.output), "done": "already"}


@pytest.mark.parametrize(
    ("name", "other", "said"),
    [
        ("eval-blimp", ["--beam", "3", "--margin", "2"], "--beam was 4, now 3, --margin was None, now 2.0"),
        ("eval-ppl", ["--no-marginal"], "--marginal was True, now False"),
        ("tapes", ["--lower-case", "--json"], "--lower-case was False, now True"),
    ],
)
def test_what_is_done_with_other_options_is_not_done(
    name: str,
    other: list[str],
    said: str,
    case: Cases,
    capsys: pytest.CaptureFixture[str],
) -> None:
    command = case(name)

    def called(*more: str) -> tuple[int, str]:
        return pdtools(command(*more)), capsys.readouterr().err

    assert called()[0] == 0
    made = command.made()
    assert called("--resume", "--workers", "2", "--json", "-q")[0] == 0
    status, error = called("--resume", *other)
    assert status == 1
    assert f"done already, but with other options: {said}" in error
    assert error.endswith(" (choose another name, or pass --overwrite)\n")
    assert error.count("\n") == 1
    assert command.made() == made


@pytest.mark.parametrize("option", [["--resume"], ["--shard", "0/2"]])
def test_a_pipe_has_no_folder(case: Cases, capsys: pytest.CaptureFixture[str], option: list[str]) -> None:
    command = case("decode").arguments[:-2]
    assert pdtools([*command, *option]) == 1
    assert "needs a file to write" in capsys.readouterr().err
    assert pdtools(["decode", "-", *command[2:], "-o", "x", "--shard", "0/2"]) == 1
    assert "--shard needs files" in capsys.readouterr().err


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGKILL])
def test_workers_end_with_the_first_process(number: int, tmp_path: Path) -> None:
    source, out = tmp_path / "many.trees", tmp_path / "out.trees"
    word = 25 * "b"  # so that a chunk is full, and done, sooner
    source.write_text(f"(S (A {word}) (C (D {word}) (F {word})))\n" * 300_000)
    script = "from pdtools.cli import entry; entry()"
    arguments = ["parse", str(source), "--from", "treebank", "-o", str(out), "--workers", "2"]
    command = [sys.executable, "-c", script, *arguments]
    (tmp_path / "tmp").mkdir()
    environment = {**os.environ, "TMPDIR": str(tmp_path / "tmp")}
    with subprocess.Popen(command, stderr=subprocess.PIPE, text=True, env=environment) as process:
        wait_for(lambda: len(list(tmp_path.glob("out.trees.job/pieces/*.zst"))) >= 2)
        workers = children(process.pid)
        assert len(workers) >= 2
        process.send_signal(number)
        _, error = process.communicate(timeout=60)
    wait_for(lambda: not any(Path(f"/proc/{pid}/cmdline").exists() for pid in workers))
    assert not list((tmp_path / "tmp").iterdir())
    if number != signal.SIGKILL:
        assert process.returncode == 143
        assert "finished chunks are kept: --resume continues the run\n" in error
        assert "Traceback" not in error
    assert not out.exists()
    assert (tmp_path / "out.trees.job" / "job.json").is_file()


def children(pid: int) -> list[int]:
    """The processes that a process has started."""
    path = Path(f"/proc/{pid}/task/{pid}/children")
    if not path.exists():
        pytest.skip("no /proc here")
    return [int(child) for child in path.read_text().split()]


def wait_for(condition: Callable[[], bool]) -> None:
    until = time.monotonic() + 60
    while not condition():
        assert time.monotonic() < until
        time.sleep(0.02)
