"""Chunks, the folder that keeps them, and who does them."""

from __future__ import annotations

import contextlib
import errno
import itertools
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
import textwrap
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from forked import killed_at
from hypothesis import given, settings
from hypothesis import strategies as st
from toy_work import Doubling

from pdtools import __version__
from pdtools.errors import InputError, PdtoolsError
from pdtools.files import atomic_text
from pdtools.files.locks import locked
from pdtools.files.system import this_process
from pdtools.jobs import (
    Done,
    Plan,
    Slice,
    SliceDone,
    begun,
    cut,
    finished,
    is_to_replace,
    job_folder,
    job_path,
    map_chunks,
    only_merging,
    read_job,
)
from pdtools.provenance.origin import code_digest

NUMBERS = list(range(20))
CHUNKS = list(cut(NUMBERS, 3))
DOUBLED = [2 * number for number in NUMBERS]


@pytest.fixture
def work(tmp_path: Path) -> Doubling:
    log = tmp_path / "log"
    log.mkdir()
    return Doubling(log)


def make(
    output: Path,
    work: Doubling,
    plan: Plan | None = None,
    chunks: Sequence[list[int]] = CHUNKS,
    *,
    stop_after: int | None = None,
    settings: dict[str, Any] | None = None,
    overwrite: bool = False,
) -> list[int]:
    """Write the doubled numbers; ``stop_after`` so many chunks were handed out, as Ctrl-C would."""
    plan = plan or Plan()
    with job_folder(output, settings or {"factor": 2}, plan, overwrite=overwrite) as job:
        found: list[int] = []
        for handed_out, (_, result) in enumerate(map_chunks(work, chunks, plan, job), start=1):
            found += result
            if handed_out == stop_after:
                raise KeyboardInterrupt
        with atomic_text(output) as stream:
            stream.write(str(found))
    return found


def interrupt(output: Path, work: Doubling, after: int, **options: Any) -> None:
    with pytest.raises(KeyboardInterrupt):
        make(output, work, stop_after=after, **options)


# --- plans ------------------------------------------------------------------------------------


@given(of=st.integers(1, 9), chunks=st.integers(0, 40))
def test_slices_are_disjoint_and_complete(of: int, chunks: int) -> None:
    taken = [i for number in range(of) for i in range(chunks) if i in Slice.parse(f"{number}/{of}")]
    assert sorted(taken) == list(range(chunks))


@pytest.mark.parametrize("text", ["", "1", "1/1", "2/1", "-1/2", "a/b", "0/0", "1/2/3", " 0/2", "0.5/2"])
def test_a_slice_is_i_of_n(text: str) -> None:
    with pytest.raises(PdtoolsError, match="I/N"):
        Slice.parse(text)


def test_a_scheduler_has_workers_of_its_own() -> None:
    with pytest.raises(PdtoolsError, match="--workers does not go with"):
        Plan(scheduler="tcp://x:1", workers=2)


@pytest.mark.parametrize("workers", [1, 2])
@pytest.mark.parametrize("slice_", [None, Slice(0, 2)])
@pytest.mark.parametrize("scheduler", [None, "tcp://x:1"])
@pytest.mark.parametrize("resume", [False, True])
@pytest.mark.parametrize("merges", [False, True])
def test_what_plans_say(
    workers: int, slice_: Slice | None, scheduler: str | None, resume: bool, merges: bool
) -> None:
    if scheduler and workers > 1:
        return
    plan = Plan(workers=workers, slice=slice_, scheduler=scheduler, resume=resume)
    with only_merging() if merges else contextlib.nullcontext():
        assert plan.merging == merges
        assert plan.has_other_processes == (workers == 2 or scheduler is not None)
        assert plan.resumes == (resume or merges or slice_ is not None)
        is_same = slice_ is not None or merges
        assert plan.how_to_resume == (
            "the same command continues it" if is_same else "--resume continues the run"
        )
    assert not plan.merging


@given(size=st.integers(1, 9), length=st.integers(0, 30))
def test_cutting_keeps_everything(size: int, length: int) -> None:
    chunks = list(cut(range(length), size))
    assert list(itertools.chain.from_iterable(chunks)) == list(range(length))
    assert all(len(chunk) == size for chunk in chunks[:-1])


# --- the folder -------------------------------------------------------------------------------


def test_nothing_is_left_of_a_whole_run(tmp_path: Path, work: Doubling) -> None:
    out = tmp_path / "out"
    assert make(out, work) == DOUBLED
    assert sorted(os.listdir(tmp_path)) == ["log", "out"]


def test_a_pipe_keeps_nothing(work: Doubling) -> None:
    with job_folder("-", {}, Plan()) as job:
        assert job is None
        assert [x for _, r in map_chunks(work, CHUNKS, Plan(), job) for x in r] == DOUBLED
    for plan in (Plan(resume=True), Plan(slice=Slice(0, 2))):
        with pytest.raises(PdtoolsError, match="needs a file to write"), job_folder("-", {}, plan):
            pass


@pytest.mark.parametrize("workers", [1, 2])
def test_going_on_does_nothing_twice(workers: int, tmp_path: Path, work: Doubling) -> None:
    """Whoever began it."""
    out = tmp_path / "out"
    interrupt(out, work, 4)
    assert begun(out)
    assert len(work.done()) == 4
    assert make(out, work, Plan(resume=True, workers=workers)) == DOUBLED
    assert set(work.done().values()) == {"once\n"}
    assert not begun(out)


@pytest.mark.linux
def test_killed_at_each_operation_up_to_the_first_chunk(tmp_path: Path, work: Doubling) -> None:
    for operation in itertools.count():
        folder = tmp_path / f"{operation}"
        folder.mkdir()
        begin = partial(make, folder / "out", work, Plan(resume=True))
        assert killed_at(operation, folder, begin)
        if list(folder.glob("*.job/*/*.zst")):
            break
        assert begin() == DOUBLED
        assert os.listdir(folder) == ["out"]
    assert operation > 5


def test_other_content_is_done_again(tmp_path: Path, work: Doubling) -> None:
    out = tmp_path / "out"
    interrupt(out, work, 4)
    mended = [CHUNKS[0], [100, 101], *CHUNKS[2:]]
    assert make(out, work, Plan(resume=True), mended) == [2 * x for chunk in mended for x in chunk]
    assert work.done()["100-101"] == "once\n"
    assert work.done()["0-1-2"] == "once\n"


@pytest.mark.parametrize("plan", [Plan(resume=True), Plan(slice=Slice(0, 2))])
def test_other_code_does_not_go_on(
    plan: Plan, tmp_path: Path, work: Doubling, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Else the output would be made of chunks of two versions."""
    out = tmp_path / "out"
    monkeypatch.setattr("pdtools.jobs.folder.code_digest", lambda: "0123456789ab")
    interrupt(out, work, 4)
    monkeypatch.undo()
    now = re.escape(f"now '{__version__}, code {code_digest()}'")
    resume = r"\(resume with the code that began it, or delete it to start again\)"
    with pytest.raises(PdtoolsError, match=rf"pdtools was '.*, code 0123456789ab', {now} {resume}"):
        make(out, work, plan)
    with only_merging(), pytest.raises(PdtoolsError, match="code 0123456789ab"):
        make(out, work)
    assert len(work.done()) == 4


def test_other_code_and_another_commit_of_the_model(
    tmp_path: Path, work: Doubling, monkeypatch: pytest.MonkeyPatch
) -> None:
    out = tmp_path / "out"
    monkeypatch.setattr("pdtools.jobs.folder.code_digest", lambda: "0123456789ab")
    interrupt(out, work, 4, settings={"model": {"hub": "toy@1"}})
    monkeypatch.undo()
    ways = "(name hf:toy@1 to go on, or resume with the code that began it, or delete it to start again)"
    with pytest.raises(PdtoolsError, match=re.escape(ways)):
        make(out, work, Plan(resume=True), settings={"model": {"hub": "toy@2"}})


def test_an_unfinished_run_is_not_overwritten_by_mistake(tmp_path: Path, work: Doubling) -> None:
    out = tmp_path / "out"
    interrupt(out, work, 4)
    with pytest.raises(PdtoolsError, match="unfinished run"):
        make(out, work)
    assert make(out, work, overwrite=True) == DOUBLED
    assert work.done()["0-1-2"] == "once\nagain\n"


@pytest.mark.parametrize("after", [0, 1])
def test_what_a_chunk_took_is_not_worth_a_refusal(tmp_path: Path, work: Doubling, after: int) -> None:
    out = tmp_path / "out"
    with pytest.raises(KeyboardInterrupt), job_folder(out, {}, Plan()) as job:
        list(itertools.islice(map_chunks(work, CHUNKS, Plan(), job), after))
        raise KeyboardInterrupt
    assert os.listdir(tmp_path) == ["log"]


def test_files_beside_that_were_there_before_outlive_a_run_that_fails(tmp_path: Path) -> None:
    old, new = tmp_path / "old", tmp_path / "new"
    old.write_text("mine")
    with (
        pytest.raises(InputError),
        job_folder(tmp_path / "out", {}, Plan(), beside=[str(old), str(new)], overwrite=True),
    ):
        new.write_text("half")
        raise InputError("line 7")
    assert {path.name: path.read_text() for path in tmp_path.iterdir()} == {"old": "mine"}


def test_other_settings_are_refused(tmp_path: Path, work: Doubling) -> None:
    out = tmp_path / "out"
    interrupt(out, work, 2, settings={"beam": 3, "model": "x"})
    with pytest.raises(PdtoolsError, match="beam was 3, now 4"):
        make(out, work, Plan(resume=True), settings={"beam": 4, "model": "x"})
    with pytest.raises(PdtoolsError, match="beam was 3, now None"):
        make(out, work, Plan(resume=True), settings={"model": "x"})
    with pytest.raises(PdtoolsError, match="trees was None, now 't'"):
        make(out, work, Plan(resume=True), settings={"beam": 3, "model": "x", "trees": "t"})
    assert make(out, work, Plan(resume=True), settings={"model": "x", "beam": 3}) == DOUBLED


@pytest.mark.parametrize(
    ("models", "said"),
    [
        ([{"beam": 3, "dtype": "a"}, {"beam": 4, "dtype": "a"}], "model 2: beam was 3, now 4 ("),
        ([{"beam": 3, "dtype": "b"}], "model 1: dtype was 'a', now 'b', models was 2, now 1 ("),
        ([{"beam": 3, "dtype": "a"}, {"beam": 3}], "model 2: dtype was 'a', now None ("),
    ],
)
def test_of_several_models_only_what_differs_is_named(
    tmp_path: Path, work: Doubling, models: list[dict[str, Any]], said: str
) -> None:
    interrupt(tmp_path / "out", work, 2, settings={"models": [{"beam": 3, "dtype": "a"}] * 2})
    with pytest.raises(PdtoolsError, match=re.escape(f"out.job: begun with other settings: {said}")):
        make(tmp_path / "out", work, Plan(resume=True), settings={"models": models})


HUGE = b"\x28\xb5\x2f\xfd\xe0" + (1 << 60).to_bytes(8, "little")  # the header of a frame of 2^60 bytes


@pytest.mark.parametrize(
    "damage",
    [lambda b: b[:-3], lambda b: b"", lambda b: b[:-1] + bytes([b[-1] ^ 1]), lambda b: HUGE + b[5:]],
)
def test_a_damaged_chunk_is_named(tmp_path: Path, work: Doubling, damage: Any) -> None:
    out = tmp_path / "out"
    interrupt(out, work, 4)
    chunk = sorted(job_path(out).glob("pieces/00002-*.zst"))[0]
    chunk.write_bytes(damage(chunk.read_bytes()))
    with pytest.raises(InputError, match="00002-.*damaged chunk"):
        make(out, work, Plan(resume=True))
    chunk.unlink()
    assert make(out, work, Plan(resume=True)) == DOUBLED


def test_a_damaged_job_is_named(tmp_path: Path, work: Doubling) -> None:
    out = tmp_path / "out"
    interrupt(out, work, 4)
    path = job_path(out) / "job.json"
    job = json.loads(path.read_text())
    for wrong in ({}, job | {"command": [1]}, job | {"command": ["a\0"]}, job | {"folder": "a\0"}):
        path.write_text(json.dumps(wrong))
        with pytest.raises(InputError, match="job.json: damaged"):
            read_job(job_path(out))
    with pytest.raises(InputError, match="job.json: damaged"):
        make(out, work, Plan(resume=True))


def test_a_folder_of_someone_else_is_left_alone(tmp_path: Path, work: Doubling) -> None:
    folder = job_path(tmp_path / "out")
    folder.mkdir()
    (folder / "thesis.tex").write_text("mine")
    for plan in (Plan(), Plan(resume=True), Plan(slice=Slice(0, 2))):
        with pytest.raises(PdtoolsError, match="something else"):
            make(tmp_path / "out", work, plan, overwrite=True)
    assert (folder / "thesis.tex").read_text() == "mine"


def test_an_error_keeps_what_is_finished_and_says_so(tmp_path: Path, work: Doubling) -> None:
    out = tmp_path / "out"
    with (
        pytest.raises(PdtoolsError, match=r"line 7; finished chunks are kept in .*out\.job"),
        job_folder(out, {"factor": 2}, Plan()) as job,
    ):
        for number, _ in enumerate(map_chunks(work, CHUNKS, Plan(), job)):
            if number == 3:
                raise InputError("line 7")
    assert make(out, work, Plan(resume=True)) == DOUBLED
    assert set(work.done().values()) == {"once\n"}


def test_temporary_files_of_killed_runs_are_deleted(tmp_path: Path, work: Doubling) -> None:
    out = tmp_path / "out"
    dead = f"{this_process().partition('-')[0]}-4194305-1-0a0a0a0a"  # no process has that number
    for name in (f".out.{dead}.tmp", f".out.job.{dead}.tmp"):
        (tmp_path / name).mkdir()
    (tmp_path / f".out.{dead.replace('0a', '0b')}.tmp").write_text("half")
    kept = [".out.notes.tmp", ".outer.1.tmp"]
    for name in kept:
        (tmp_path / name).write_text("not ours")
    make(out, work)
    assert sorted(os.listdir(tmp_path)) == [*kept, "log", "out"]


def test_files_of_others_stay_in_a_folder_of_chunks(tmp_path: Path, work: Doubling) -> None:
    out, folder = tmp_path / "out", tmp_path / "out.job"
    folder.mkdir()
    for name in ("lockdown.txt", ".job.json.mine"):
        (folder / name).write_text("ten years")
        with pytest.raises(PdtoolsError, match="holds something else"):
            make(out, work)
        (folder / name).unlink()
    for already_made in (False, True):
        interrupt(out, work, 4)
        for name in ("notes.txt", "pieces/notes.txt", ".notes.old"):
            (folder / name).write_text("ten years")
        if already_made:
            make_without_deleting(out, work)
            assert finished(out)
        else:
            assert make(out, work, Plan(resume=True)) == DOUBLED
        left = sorted(str(path.relative_to(folder)) for path in folder.rglob("*"))
        assert left == [".notes.old", "lock", "notes.txt", "pieces", "pieces/notes.txt"]
        shutil.rmtree(folder)


def make_without_deleting(output: Path, work: Doubling) -> None:
    """As a process does that is killed when the output has just got its name."""
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr("pdtools.jobs.folder._discard", lambda folder: None)
        assert make(output, work, Plan(resume=True)) == DOUBLED
    assert begun(output)


def test_whether_a_killed_run_had_finished(tmp_path: Path, work: Doubling) -> None:
    out = tmp_path / "out"
    out.write_text("of long ago")
    interrupt(out, work, 4)
    assert not finished(out)  # the chunks are to replace what is there
    make_without_deleting(out, work)
    dead = f"{this_process().partition('-')[0]}-4194305-1-0a0a0a0a"  # no process has that number
    for name in ("out", "beside"):
        (tmp_path / f".{name}.{dead}.tmp").write_text("half")
    assert finished(out, [str(tmp_path / "beside")])
    assert sorted(os.listdir(tmp_path)) == ["log", "out"]


def of_somebody_else(out: Path) -> None:
    out.unlink(missing_ok=True)
    out.write_text(str(DOUBLED))


def copied(out: Path) -> None:
    of_somebody_else(out)
    copy = Path(shutil.copy2(out, out.with_name("copy")))
    copy.replace(out)


def changed(out: Path) -> None:
    of_somebody_else(out)
    out.write_text(f"{DOUBLED} and more")


def linked(out: Path) -> None:
    of_somebody_else(out)
    out.rename(out.with_name("elsewhere"))
    out.symlink_to("elsewhere")


def a_folder(out: Path) -> None:
    out.unlink(missing_ok=True)
    out.mkdir()
    (out / "out").write_text(str(DOUBLED))


OTHERS = [of_somebody_else, copied, changed, linked, a_folder]


@pytest.mark.parametrize("appears", [Path.touch, Path.mkdir, *OTHERS])
def test_what_appears_meanwhile_is_not_the_output(tmp_path: Path, work: Doubling, appears: Any) -> None:
    out = tmp_path / "out"
    interrupt(out, work, 4)
    chunks = sorted(job_path(out).rglob("*"))
    appears(out)
    assert not finished(out)
    assert not is_to_replace(out)
    assert sorted(job_path(out).rglob("*")) == chunks


@pytest.mark.parametrize("replaces", OTHERS)
def test_what_takes_the_place_of_the_output_is_not_it(tmp_path: Path, work: Doubling, replaces: Any) -> None:
    out = tmp_path / "out"
    make_without_deleting(out, work)
    chunks = sorted(job_path(out).rglob("*"))
    kept = out.rename(tmp_path / "kept")  # not deleted, or its inode's number might be given to another one
    assert not finished(out)
    replaces(out)
    assert not finished(out)
    assert sorted(job_path(out).rglob("*")) == chunks
    out.rename(tmp_path / "moved")
    kept.rename(out)
    assert finished(out)


def test_an_output_that_was_written_to_is_not_as_it_was_made(tmp_path: Path, work: Doubling) -> None:
    """Its inode and size are the same."""
    out = tmp_path / "out"
    make_without_deleting(out, work)
    made = out.stat()
    with out.open("r+b") as file:
        file.write(b"?")
    os.utime(out, ns=(made.st_atime_ns, made.st_mtime_ns + 1_000_000_000))
    assert (out.stat().st_ino, out.stat().st_size) == (made.st_ino, made.st_size)
    assert not finished(out)
    assert begun(out)


@pytest.mark.parametrize("kind", [None, "results"])
def test_a_folder_is_the_output_as_long_as_it_has_its_files(kind: str | None, tmp_path: Path) -> None:
    from pdtools.files import atomic_directory

    out = tmp_path / "out"
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr("pdtools.jobs.folder._discard", lambda folder: None)
        with job_folder(out, {}, Plan()), atomic_directory(out, kind=kind) as made:
            (made / "best").mkdir()
            for name in ("a", "best/b"):
                (made / name).write_text("x")
    assert list(read_job(job_path(out))["made"]) == (["a", "best/b"] if kind is None else ["pdtools.json"])
    (out / "slurm-7.out").write_text("of the cluster")
    (out / "best" / "b").rename(out / "b")
    assert not finished(out)
    (out / "b").rename(out / "best" / "b")
    written = (out / "a").stat().st_mtime_ns
    (out / "a").write_text("y")
    assert not finished(out)
    (out / "a").write_text("x")
    os.utime(out / "a", ns=(written, written))
    assert finished(out)


def test_another_folder_of_the_same_files_is_the_output(tmp_path: Path) -> None:
    """A copy, which has other inodes and times; not one of a list that differs, or is damaged."""
    from pdtools.files import atomic_directory

    out = tmp_path / "out"
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr("pdtools.jobs.folder._discard", lambda folder: None)
        with job_folder(out, {}, Plan()), atomic_directory(out, kind="results") as made:
            (made / "a").write_text("x")
    shutil.copytree(out, tmp_path / "copy", copy_function=shutil.copy)
    shutil.rmtree(out)
    assert not finished(out)
    for data in ("y", "x"):
        with atomic_directory(out, kind="results", overwrite=True) as made:
            (made / "a").write_text(data)
            (made / "b").write_text("x")
        assert not finished(out)
    (out / "pdtools.json").write_text("{")
    assert not finished(out)
    shutil.rmtree(out)
    (tmp_path / "copy").rename(out)
    assert finished(out)
    assert os.listdir(tmp_path) == ["out"]


def test_what_was_there_when_a_run_began(tmp_path: Path, work: Doubling) -> None:
    """Another file than that, even with its number, as file systems give it to the next one."""
    out = tmp_path / "out"
    out.write_text("of long ago")
    interrupt(out, work, 4)
    assert is_to_replace(out)
    then = out.stat().st_mtime_ns
    out.write_text("made")
    os.utime(out, ns=(then + 1_000_000, then + 1_000_000))
    assert not is_to_replace(out)


# --- any order of all these ----------------------------------------------------------------------

STEPS = st.one_of(
    st.tuples(st.just("edit"), st.integers(0, 4), st.integers(0, 3)),
    st.tuples(st.just("run"), st.booleans(), st.booleans(), st.none() | st.integers(1, 5)),
    st.tuples(st.just("shard"), st.integers(0, 1)),
    st.tuples(st.just("merge")),
    st.tuples(st.just("settings"), st.integers(1, 2)),
)


@settings(max_examples=60)
@given(n=st.integers(1, 5), steps=st.lists(STEPS, min_size=3, max_size=9))
def test_runs_in_any_order(n: int, steps: list[tuple[Any, ...]]) -> None:
    """What is kept, done again, refused and made, as a model of sets says it."""
    with tempfile.TemporaryDirectory() as name:
        out, log = Path(name, "out"), Path(name, "log")
        log.mkdir()
        work, chunks, factor = Doubling(log), [[i, 10 + i] for i in range(n)], 1
        kept: set[tuple[int, str]] | None = None  # numbers of chunks with their content; None: no folder
        of_kept = 0  # the settings that they were made with
        counts: Counter[str] = Counter()

        def key(number: int) -> tuple[int, str]:
            return number, "-".join(map(str, chunks[number]))

        def chunks_of(numbers: Iterable[int]) -> set[tuple[int, str]]:
            return {key(number) for number in numbers}

        for what, *more in steps:
            options: dict[str, Any] = {"settings": {"factor": factor}}
            if what == "edit":
                chunks[more[0] % n] = [more[0] % n, 10 + more[1]]
                continue
            if what == "settings":
                factor = more[0]
                continue
            if what == "run":
                resume, overwrite, stop = more
                plan = Plan(resume=resume)
                options |= {"overwrite": overwrite, "stop_after": stop}
            else:
                plan = Plan(slice=Slice(more[0], 2)) if what == "shard" else Plan()
            uses = what != "run" or plan.resume
            is_refused = (what == "merge" and kept is None) or (
                kept is not None
                and (factor != of_kept if uses else not options["overwrite"] and len(kept) > 1)
            )
            before = set() if kept is None or (not uses and not is_refused) else kept
            mine = [i for i in range(n) if what != "shard" or i % 2 == more[0]]
            is_missing = what == "merge" and not is_refused and not chunks_of(range(n)) <= before
            stop_at = options.get("stop_after")
            if stop_at is not None and stop_at <= n:
                mine = mine[:stop_at]
            with only_merging() if what == "merge" else contextlib.nullcontext():
                try:
                    made: list[int] | str = make(out, work, plan, chunks, **options)
                except (KeyboardInterrupt, SliceDone, PdtoolsError) as error:
                    made = type(error).__name__
            if is_refused or is_missing:
                assert made == "PdtoolsError", (what, more)
            else:
                if what != "merge":
                    counts.update(text for number, text in chunks_of(mine) - before)
                after = before | chunks_of(mine)
                if what == "shard":
                    assert made == "SliceDone"
                    kept, of_kept = after, factor
                elif stop_at is not None and stop_at <= n:
                    assert made == "KeyboardInterrupt"
                    kept, of_kept = (after, factor) if len(after) > 1 else (None, 0)
                else:
                    assert made == [2 * number for chunk in chunks for number in chunk]
                    assert out.read_text() == str(made)
                    kept = None
            folder = job_path(out)
            assert folder.is_dir() == (kept is not None)
            if kept is not None:
                files = {path.name.partition("-") for path in folder.glob("pieces/*.zst")}
                digests = {(i, work.digest(list(map(int, text.split("-"))))) for i, text in kept}
                assert {(int(i), digest.removesuffix(".zst")) for i, _, digest in files} == digests
            assert {name: text.count("\n") for name, text in work.done().items()} == dict(counts)


# --- shards -----------------------------------------------------------------------------------


def test_slices_and_merge(tmp_path: Path, work: Doubling) -> None:
    out = tmp_path / "out"
    for number in (2, 0, 1):
        with pytest.raises(SliceDone) as done:
            make(out, work, Plan(slice=Slice(number, 3)))
        assert done.value.report["counts"]["pieces"] == [3, 2, 2][number]
    assert not out.exists()
    assert set(work.done().values()) == {"once\n"}
    with only_merging():
        assert make(out, work) == DOUBLED
    assert set(work.done().values()) == {"once\n"}
    assert sorted(os.listdir(tmp_path)) == ["log", "out"]


def test_merging_needs_all_chunks(tmp_path: Path, work: Doubling) -> None:
    out = tmp_path / "out"
    with only_merging(), pytest.raises(PdtoolsError, match="no chunks to merge"):
        make(out, work)
    with pytest.raises(SliceDone):
        make(out, work, Plan(slice=Slice(1, 3)))
    with only_merging(), pytest.raises(PdtoolsError, match=r"5 chunks are missing: 0, 2, 3, 5, 6 "):
        make(out, work)
    assert len(work.done()) == 2
    assert make(out, work, Plan(resume=True)) == DOUBLED  # instead of the other shards
    assert set(work.done().values()) == {"once\n"}


def test_the_only_chunk_of_slices_is_kept(tmp_path: Path, work: Doubling) -> None:
    """Whatever fails: another slice, or merging before it is done."""
    out, two = tmp_path / "out", CHUNKS[:2]
    with pytest.raises(SliceDone):
        make(out, work, Plan(slice=Slice(0, 2)), two)
    with only_merging(), pytest.raises(PdtoolsError, match="missing"):
        make(out, work, chunks=two)
    with pytest.raises(ValueError, match="negative"):
        make(out, work, Plan(slice=Slice(1, 2)), [two[0], [-1]])
    with pytest.raises(SliceDone):
        make(out, work, Plan(slice=Slice(1, 2)), two)
    with only_merging():
        assert make(out, work, chunks=two) == DOUBLED[:6]
    assert set(work.done().values()) == {"once\n"}


def test_a_slice_resumes_by_itself(tmp_path: Path, work: Doubling) -> None:
    out = tmp_path / "out"
    plan = Plan(slice=Slice(0, 2))
    bad = [*CHUNKS[:4], [-1], *CHUNKS[5:]]
    with pytest.raises(ValueError, match="negative"):
        make(out, work, plan, bad)
    with pytest.raises(SliceDone):
        make(out, work, plan)
    assert work.done()["0-1-2"] == "once\n"


# --- several processes ------------------------------------------------------------------------


def test_two_workers_do_the_same(tmp_path: Path, work: Doubling) -> None:
    out = tmp_path / "out"
    assert make(out, work, Plan(workers=2)) == DOUBLED
    assert set(work.done().values()) == {"once\n"}


# --- locks ------------------------------------------------------------------------------------

HOLD = """
import sys, time
from pathlib import Path
from toy_work import Doubling
from pdtools.jobs import Plan, Slice, job_folder, map_chunks
out, log, shard = Path(sys.argv[1]), Path(sys.argv[2]), sys.argv[3]
plan = Plan(slice=Slice.parse(shard) if shard else None)
with job_folder(out, {"factor": 2}, plan) as job:
    print("at work", flush=True)
    for result in map_chunks(Doubling(log, 60), [[1], [2], [3]], plan, job):
        pass
"""


@pytest.fixture
def other_process(tmp_path: Path) -> Iterator[Any]:
    started: list[subprocess.Popen[str]] = []

    def start(shard: str = "") -> subprocess.Popen[str]:
        (tmp_path / "log").mkdir(exist_ok=True)
        arguments = [sys.executable, "-c", HOLD, str(tmp_path / "out"), str(tmp_path / "log"), shard]
        environment = {**os.environ, "PYTHONPATH": str(Path(__file__).parent.parent / "helpers")}
        process = subprocess.Popen(arguments, stdout=subprocess.PIPE, text=True, env=environment)
        started.append(process)
        assert process.stdout is not None
        assert process.stdout.readline() == "at work\n"
        return process

    yield start
    for process in started:
        process.kill()
        process.wait()
        assert process.stdout is not None
        process.stdout.close()


def test_a_second_run_is_refused_and_a_killed_one_leaves_no_lock(
    tmp_path: Path, work: Doubling, other_process: Any
) -> None:
    process = other_process()
    for plan in (Plan(), Plan(resume=True), Plan(slice=Slice(0, 2))):
        with pytest.raises(PdtoolsError, match="another process is at work"):
            make(tmp_path / "out", work, plan, overwrite=True)
    process.kill()
    process.wait()
    assert make(tmp_path / "out", work, Plan(resume=True)) == DOUBLED


def test_slices_run_side_by_side_but_not_twice(tmp_path: Path, work: Doubling, other_process: Any) -> None:
    other_process("0/2")
    with pytest.raises(PdtoolsError, match="on shard 0/2"):
        make(tmp_path / "out", work, Plan(slice=Slice(0, 2)))
    with pytest.raises(SliceDone):
        make(tmp_path / "out", work, Plan(slice=Slice(1, 2)))
    for plan in (Plan(), Plan(resume=True)):
        with pytest.raises(PdtoolsError, match="another process is at work"):
            make(tmp_path / "out", work, plan)
    with only_merging(), pytest.raises(PdtoolsError, match="another process is at work"):
        make(tmp_path / "out", work)


def test_slices_that_begin_at_the_same_moment(
    tmp_path: Path, work: Doubling, monkeypatch: pytest.MonkeyPatch
) -> None:
    from pdtools.jobs import folder

    real = folder._holds_others

    def holds_others(path: Path) -> bool:
        monkeypatch.setattr(folder, "_holds_others", real)
        with pytest.raises(SliceDone):
            make(tmp_path / "out", work, Plan(slice=Slice(1, 2)))
        return real(path)

    monkeypatch.setattr(folder, "_holds_others", holds_others)
    with pytest.raises(SliceDone):
        make(tmp_path / "out", work, Plan(slice=Slice(0, 2)))
    with only_merging():
        assert make(tmp_path / "out", work) == DOUBLED


@pytest.mark.linux
@pytest.mark.parametrize("number", [errno.ENOSYS, errno.ENOLCK, errno.EOPNOTSUPP, errno.EINVAL, 524])
def test_no_locks_on_this_file_system(
    number: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, recwarn: pytest.WarningsRecorder
) -> None:
    """524 is what Linux says where a network file system has none."""

    def flock(descriptor: int, operation: int) -> None:
        raise OSError(number, "not here")

    monkeypatch.setattr("pdtools.files.locks.fcntl.flock", flock)
    with locked(tmp_path / "lock", "busy"):
        pass
    assert not recwarn.list
    with locked(tmp_path / "lock", "busy", warns=True):
        pass
    (said,) = recwarn.list
    assert str(said.message) == (
        f"{tmp_path}/lock: this file system has no locks (not here), so a second process that writes there is"
        " not noticed: start no other one"
    )


@pytest.mark.linux
def test_no_folder_with_an_open_file_is_moved(
    tmp_path: Path, work: Doubling, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Windows refuses that, and to delete the file."""
    out, real, real_unlink = tmp_path / "out", os.rename, Path.unlink

    def rename(old: Path, new: Path) -> None:
        for descriptor in Path("/proc/self/fd").iterdir():
            if descriptor.is_symlink() and str(descriptor.readlink()).startswith(f"{old}/"):
                raise PermissionError(errno.EACCES, os.strerror(errno.EACCES), str(old))
        real(old, new)

    def unlink(path: Path, *arguments: bool, **options: bool) -> None:
        if any(each.resolve() == path.resolve() for each in Path("/proc/self/fd").iterdir()):
            raise PermissionError(errno.EACCES, os.strerror(errno.EACCES), str(path))
        real_unlink(path, *arguments, **options)

    monkeypatch.setattr(os, "rename", rename)
    monkeypatch.setattr(Path, "unlink", unlink)
    monkeypatch.setattr("pdtools.jobs.folder.OPEN_FILES_STAY", True)
    interrupt(out, work, 1)
    assert sorted(os.listdir(tmp_path)) == ["log"]  # nothing is worth keeping
    interrupt(out, work, 4)
    assert make(out, work, Plan(resume=True)) == DOUBLED
    assert sorted(os.listdir(tmp_path)) == ["log", "out"]


@pytest.mark.linux
def test_a_lock_that_was_deleted_under_way_counts_for_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    import fcntl

    path, real = tmp_path / "lock", fcntl.flock

    def flock(descriptor: int, operation: int) -> None:
        path.unlink()  # by the process that held it, and is done
        real(descriptor, operation)

    monkeypatch.setattr("pdtools.files.locks.fcntl.flock", flock)
    with pytest.raises(PdtoolsError, match="busy"), locked(path, "busy"):
        pass


# --- disks ------------------------------------------------------------------------------------


def test_a_full_disk_is_one_line_and_no_loss(
    tmp_path: Path, work: Doubling, monkeypatch: pytest.MonkeyPatch
) -> None:
    out, real, written = tmp_path / "out", Path.write_bytes, itertools.count()

    def write_bytes(path: Path, data: bytes) -> int:
        if next(written) >= 3:
            real(path, data[:5])
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), str(path))
        return real(path, data)

    with monkeypatch.context() as patched:
        patched.setattr(Path, "write_bytes", write_bytes)
        with pytest.raises(PdtoolsError, match=r"00003-.*No space left on device; finished") as error:
            make(out, work)
    assert "\n" not in str(error.value)
    assert make(out, work, Plan(resume=True)) == DOUBLED
    assert sorted(work.done().values()) == ["once\n"] * 6 + ["once\nagain\n"]


@pytest.mark.linux
def test_a_limit_on_file_size_is_one_line(tmp_path: Path) -> None:
    script = textwrap.dedent("""
        import resource, signal, sys
        signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
        resource.setrlimit(resource.RLIMIT_FSIZE, (4000, 4000))
        from pdtools.cli.main import run
        sys.exit(run(["parse", sys.argv[1], "--from", "treebank", "-o", sys.argv[2]]))
    """)
    source, out = tmp_path / "in.trees", tmp_path / "out.trees"
    source.write_text("".join(f"(S (A a{i}) (B b{i * i}))\n" for i in range(3000)))
    arguments = [sys.executable, "-c", script, str(source), str(out)]
    process = subprocess.run(arguments, capture_output=True, text=True, check=False)
    assert process.returncode == 1
    assert process.stderr.count("\n") == 1
    assert "File too large" in process.stderr
    assert os.listdir(tmp_path) == ["in.trees"]


def test_what_was_read_wrong_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="not an unfinished run"):
        read_job(tmp_path)
    assert Done("x", {}).report == {}
