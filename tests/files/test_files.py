"""Compression, globs, and outputs that appear whole or not at all."""

from __future__ import annotations

import contextlib
import ctypes
import errno
import gzip
import hashlib
import json
import os
import re
import shutil
import stat
import tempfile
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import zstandard
from hypothesis import given, settings
from hypothesis import strategies as st

from pdtools import files
from pdtools.cli.main import run
from pdtools.cli.running import check_picture
from pdtools.errors import InputError, PdtoolsError
from pdtools.evaluation.benchmark.from_toml import read_benchmark
from pdtools.evaluation.benchmark.rows import data_files, items_of
from pdtools.evaluation.blimp.pairs import PairFiles
from pdtools.evaluation.results import read_results
from pdtools.evaluation.sg.suites import SuiteFiles
from pdtools.files import manifest, outputs, system
from pdtools.files.inputs import number_of, read_bytes
from pdtools.files.manifest import write_manifest
from pdtools.files.source import ZipMember
from pdtools.files.system import exchange, may_live, this_process
from pdtools.files.tables import by_column
from pdtools.models.checkpoint import checkpoint_folder
from pdtools.prompts.items import data_file
from pdtools.provenance import provenance
from pdtools.search.decoding import is_conllu
from pdtools.shards import ShardFolder
from pdtools.tokenization import Tokenizer
from pdtools.trees.forms import may_be_brackets

ENDINGS = (".mrg", ".MRG", ".trees", ".mrg.gz", ".trees.zst", ".txt", ".md", "", ".mrg.bak")
NAMES = st.tuples(
    st.lists(st.sampled_from(["x", "Y", "deep", "a b", "z.mrg"]), max_size=2),
    st.sampled_from(["one", "Two", ".hidden", "10", "9", "[x]"]),
    st.sampled_from(ENDINGS),
)
# Patterns below the folder g: what a path there, split at slashes, has to be.
PATTERNS: dict[str, Callable[[list[str]], bool]] = {
    "*": lambda parts: len(parts) == 1,
    "*.mrg": lambda parts: len(parts) == 1 and parts[-1].endswith(".mrg"),
    "**/*.mrg": lambda parts: parts[-1].endswith(".mrg"),
    "*/[oT]*": lambda parts: len(parts) == 2 and parts[-1][0] in "oT",
}


@settings(max_examples=25)
@given(
    places=st.lists(st.tuples(st.sampled_from(["f", "g", "z", "named"]), NAMES), max_size=14, unique_by=str),
    pattern=st.sampled_from(sorted(PATTERNS)),
    order=st.permutations(["f", "g", "z.zip", "named"]),
    as_glob=st.booleans(),
)
def test_trees_of_folders_archives_patterns_and_files(
    places: list[tuple[str, tuple[list[str], str, str]]], pattern: str, order: list[str], as_glob: bool
) -> None:
    """A command reads what is named, in that order; of folders and archives what has an ending of trees."""
    with tempfile.TemporaryDirectory() as name:
        root = Path(name)
        found: dict[str, list[str]] = {"f": [], "g": [], "z": [], "named": []}
        for i, (where, (folders, stem, ending)) in enumerate(places):
            path = "/".join([*folders, stem]) + ending
            file = root / where / path
            file.parent.mkdir(parents=True, exist_ok=True)
            if file.is_dir() or path in found[where]:
                continue
            found[where].append(path)
            tree = f"(S (A w{places.index((where, (folders, stem, ending)))}))\n".encode()
            packed = {".gz": gzip.compress, ".zst": zstandard.compress}.get(file.suffix, bytes)
            file.write_bytes(packed(tree))
            assert i < 14
        numbers = {
            f"{where}/" + "/".join([*folders, stem]) + ending: i
            for i, (where, (folders, stem, ending)) in reversed(list(enumerate(places)))
        }
        with zipfile.ZipFile(root / "z.zip", "w") as archive:
            for path in found["z"]:
                archive.write(root / "z" / path, path)

        def are_trees(path: str) -> bool:
            plain = re.sub(r"\.(gz|zst)$", "", path.lower())
            return plain.endswith((".mrg", ".trees", ".txt"))

        def is_seen(path: str) -> bool:
            return not any(part.startswith(".") for part in path.split("/"))

        named, expected = [], []
        for each in order:
            if each == "named":
                own = found[each]
                named += [str(root / each / path) for path in own]
                expected += [numbers[f"named/{path}"] for path in own]
                continue
            where = each.partition(".")[0]
            own = [path for path in found[where] if are_trees(path) and (where != "z" or is_seen(path))]
            given = str(root / each)
            if each == "g" and as_glob:
                own = [path for path in found["g"] if is_seen(path) and PATTERNS[pattern](path.split("/"))]
                given = str(root / "g" / pattern)
            # Paths are sorted as texts.
            own = sorted(own, key=lambda path: path if where == "z" else str(root / where / path))
            if own:
                named.append(given)
                expected += [numbers[f"{where}/{path}"] for path in own]
        if not named:
            return
        out = root / "out.trees"
        assert run(["parse", *named, "--from", "treebank", "--binarize", "none", "-o", str(out), "-q"]) == 0
        assert [int(number) for number in re.findall(r"w(\d+)", out.read_text())] == expected


def test_a_folder_without_trees_names_what_is_there(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    for name in ("a/1.xyz", "b/2.md", "b/3.md", "b/.hid.xyz", "c/.4.xyz"):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text("x\n")
    with pytest.raises(InputError, match=rf"\(name the files: '{tmp_path}/b/\*\.md'\)"):
        files.expand_inputs([str(tmp_path)], [".mrg"])


def test_what_a_pattern_matches_is_checked_as_what_is_named(tmp_path: Path) -> None:
    (tmp_path / "x.trees").write_text("The dog barks.\nIt runs.\n")
    for name in ("x.trees", "*.trees"):
        with pytest.raises(InputError, match="plain text, not bracketed trees"):
            files.expand_inputs([str(tmp_path / name)], [".mrg"], files.Kind.TREES)


def test_expand_inputs_takes_a_file_whose_name_looks_like_a_glob(tmp_path: Path) -> None:
    strange = tmp_path / "a[1].mrg"
    strange.write_text("x")
    assert files.expand_inputs([str(strange)], [".mrg"]) == [str(strange)]


@pytest.mark.parametrize("name", ["missing.mrg", "*.mrg", "empty"])
def test_expand_inputs_names_what_is_missing(tmp_path: Path, name: str) -> None:
    (tmp_path / "empty").mkdir()
    with pytest.raises(InputError, match=r"no such|matches no|no files"):
        files.expand_inputs([str(tmp_path / name)], [".mrg"])


@pytest.mark.parametrize("suffix", ["", ".gz", ".zst"])
def test_text_round_trip_through_compression(tmp_path: Path, suffix: str) -> None:
    path = tmp_path / f"x.txt{suffix}"
    with files.atomic_text(path) as stream:
        stream.write("eins\nzwei\u2028drei\r\n")
    assert list(files.read_lines(path)) == [(1, "eins"), (2, "zwei\u2028drei")]


def test_compressed_files_are_really_compressed(tmp_path: Path) -> None:
    for suffix, read in ((".gz", gzip.decompress), (".zst", zstandard.ZstdDecompressor().decompressobj)):
        path = tmp_path / f"x{suffix}"
        with files.atomic_text(path) as stream:
            stream.write("text")
        data = path.read_bytes()
        assert (read(data) if suffix == ".gz" else read().decompress(data)) == b"text"


@pytest.mark.parametrize("suffix", ["", ".gz", ".zst"])
def test_the_same_text_is_the_same_bytes_at_another_time_and_place(
    suffix: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    written = []
    for name, seconds in (("a", 1e9), ("b", 2e9)):
        monkeypatch.setattr("time.time", lambda seconds=seconds: seconds)
        with files.atomic_text(tmp_path / f"{name}{suffix}") as stream:
            stream.write("text\n")
        written.append((tmp_path / f"{name}{suffix}").read_bytes())
    assert written[0] == written[1]


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("a.jsonl", True),
        ("data/a.jsonl", True),
        (".a.jsonl", False),
        ("data/.a.jsonl", False),
        (".cache/a.jsonl", False),
        ("data/.cache/deep/a.jsonl", False),
        ("__MACOSX/data/a.jsonl", False),
    ],
)
def test_what_is_data_in_an_archive(name: str, expected: bool, tmp_path: Path) -> None:
    with zipfile.ZipFile(tmp_path / "x.zip", "w") as archive:
        archive.writestr(name, "{}")
    found = ZipMember.within(str(tmp_path / "x.zip"), (".jsonl",))
    assert found == ([f"{tmp_path}/x.zip/{name}"] if expected else [])


def test_a_member_of_an_archive_is_named_after_it(tmp_path: Path) -> None:
    archive = tmp_path / "x.zip"
    with zipfile.ZipFile(archive, "w") as opened:
        opened.writestr("data/a.txt", "one\ntwo\n")
        opened.writestr("data/b.txt", "three\n")
    (found,) = files.expand_inputs([f"{archive}/data/a.txt"], [".txt"])
    assert list(files.read_lines(found)) == [(1, "one"), (2, "two")]
    with pytest.raises(InputError, match=r"x\.zip/a\.txt: no such file in this archive"):
        files.expand_inputs([f"{archive}/a.txt"], [".txt"])
    packed = bytearray(archive.read_bytes())
    for header, flags in ((b"PK\3\4", 6), (b"PK\1\2", 8)):
        packed[packed.index(header) + flags] |= 1  # encrypted
    archive.write_bytes(packed)
    with pytest.raises(InputError, match="x.zip: cannot be unpacked: .*encrypted"):
        files.expand_inputs([f"{archive}/data/a.txt"], [".txt"])


def test_failed_output_leaves_nothing_and_keeps_the_old_one(tmp_path: Path) -> None:
    path = tmp_path / "x.txt"
    path.write_text("old")
    with pytest.raises(RuntimeError), files.atomic_text(path) as stream:
        stream.write("new")
        raise RuntimeError
    assert path.read_text() == "old"
    assert [p.name for p in tmp_path.iterdir()] == ["x.txt"]


def test_failed_folder_leaves_nothing(tmp_path: Path) -> None:
    with pytest.raises(RuntimeError), files.atomic_directory(tmp_path / "d") as folder:
        (folder / "part").write_text("x")
        raise RuntimeError
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("has_links", [True, False])
def test_a_file_that_appears_meanwhile(
    has_links: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def link(new: Path, final: Path) -> None:
        raise OSError(errno.EPERM, os.strerror(errno.EPERM))

    if not has_links:
        monkeypatch.setattr(os, "link", link)
    final = tmp_path / "x.txt"
    with files.atomic_text(final, overwrite=False) as stream:
        stream.write("first")
    with (
        pytest.raises(PdtoolsError, match=r"x\.txt: exists already: another process"),
        files.atomic_text(final, overwrite=False) as stream,
    ):
        stream.write("second")
    assert final.read_text() == "first"
    with files.atomic_text(final) as stream:
        stream.write("third")
    assert final.read_text() == "third"
    assert os.listdir(tmp_path) == ["x.txt"]


def trees(folder: Path, content: str) -> Path:
    """A folder as parse --split writes it."""
    folder.mkdir(exist_ok=True)
    for name in ("train.trees", "valid.trees", "rejects.jsonl"):
        (folder / name).write_text(content)
    write_manifest(folder, "trees of parse --split", {})
    return folder


def content(folder: Path) -> str:
    """What :func:`trees` wrote, all of it of one kind."""
    names = sorted(path.name for path in folder.iterdir())
    assert names == ["pdtools.json", "rejects.jsonl", "train.trees", "valid.trees"]
    found = {path.read_text() for path in folder.iterdir() if path.name != "pdtools.json"}
    assert len(found) == 1
    return found.pop()


@pytest.fixture(params=["exchanged", "renamed"])
def swap(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    """How folders are replaced: at one blow, or where the system cannot, by two renames."""
    if request.param == "renamed":
        monkeypatch.setattr(outputs, "exchange", lambda one, other: False)
    return str(request.param)


def test_two_runs_that_replace_the_same_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    final, real = trees(tmp_path / "d", "old"), os.rename

    def rename(source: Path, target: Path) -> None:
        real(source, target)
        if source == final:  # out of the way: now another run comes
            monkeypatch.setattr(os, "rename", real)
            with files.atomic_directory(final, overwrite=True) as folder:
                trees(folder, "other")

    monkeypatch.setattr(outputs, "exchange", lambda one, other: False)
    monkeypatch.setattr(os, "rename", rename)
    with files.atomic_directory(final, overwrite=True) as folder:
        trees(folder, "new")
    assert content(final) == "new"
    assert os.listdir(tmp_path) == ["d"]


def test_a_reader_between_the_two_renames(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    final, real = trees(tmp_path / "d", "old"), os.rename

    def rename(source: Path, target: Path) -> None:
        real(source, target)
        if source == final and not (tmp_path / "read").exists():
            (tmp_path / "read").touch()
            files.recover_directory(final)
            assert content(final) == "old"

    monkeypatch.setattr(outputs, "exchange", lambda one, other: False)
    monkeypatch.setattr(os, "rename", rename)
    with files.atomic_directory(final, overwrite=True) as folder:
        trees(folder, "new")
    assert content(final) == "new"
    assert sorted(os.listdir(tmp_path)) == ["d", "read"]


def test_existing_folder_is_refused_or_replaced(tmp_path: Path, swap: str) -> None:
    final = trees(tmp_path / "d", "old")
    with pytest.raises(PdtoolsError, match="--overwrite"), files.atomic_directory(final):
        pass
    with files.atomic_directory(final, overwrite=True) as folder:
        trees(folder, "new")
    assert content(final) == "new"
    assert [p.name for p in tmp_path.iterdir()] == ["d"]


def test_a_folder_is_never_away_where_the_system_can_exchange_two(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "a").mkdir()
    (tmp_path / "b").mkdir()
    if not exchange(tmp_path / "a", tmp_path / "b"):
        pytest.skip("no exchange here")
    final, real = trees(tmp_path / "d", "old"), os.rename

    def rename(source: Path, target: Path) -> None:
        assert source != final
        real(source, target)

    monkeypatch.setattr(os, "rename", rename)
    with files.atomic_directory(final, overwrite=True) as folder:
        trees(folder, "new")
    assert content(final) == "new"


def killed_at(step: int, *, swapping: str, how: str, work: Callable[[], None]) -> bool:
    """Do some work in a process of its own that ends at one of its renames or deletions; whether it did."""
    child = os.fork()
    if child:
        return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 9
    steps = 0

    def deadly(function: Callable[..., Any]) -> Callable[..., Any]:
        def call(*arguments: Any, **options: Any) -> Any:
            nonlocal steps
            steps += 1
            if steps == step + 1:
                if how == "raises":
                    raise OSError(errno.EIO, os.strerror(errno.EIO))
                if how == "after":
                    function(*arguments, **options)
                os._exit(9)
            return function(*arguments, **options)

        return call

    try:
        outputs.exchange = deadly(outputs.exchange if swapping == "exchanged" else lambda one, other: False)
        for name in ("rename", "replace", "unlink", "rmdir", "link"):
            setattr(os, name, deadly(getattr(os, name)))
        with contextlib.suppress(OSError, PdtoolsError):
            work()
        os._exit(9 if steps > step else 0)
    finally:
        os._exit(70)


def test_a_reader_of_a_run_brings_back_its_best_checkpoint(tmp_path: Path) -> None:
    """As it brings back the run: a swap was cut between its two renames."""
    for cut in ("run", "run/best", "other"):
        final = tmp_path / cut
        (tmp_path / "run" / "best").mkdir(parents=True, exist_ok=True)
        (tmp_path / "other").mkdir(exist_ok=True)
        new = outputs.temporary_name(final)
        new.mkdir()
        final.rename(new.with_suffix(".old"))
        read = tmp_path / cut.partition("/")[0]
        assert files.input_folder(read) == (read / "best" if cut.startswith("run") else read)
        assert final.is_dir()
        new.rmdir()


def test_sums_of_files_are_those_of_sha256sum(tmp_path: Path) -> None:
    for name in ("b", "a", "c d"):
        (tmp_path / name).write_text(name)
    manifest.write_checksums(tmp_path, ["b", "a"])
    manifest.check_checksums(tmp_path)
    sums = {name: hashlib.sha256(name.encode()).hexdigest() for name in ("a", "b", "c d")}
    text = (tmp_path / "SHA256SUMS").read_text()
    assert text == f"{sums['a']}  a\n{sums['b']}  b\n"
    (tmp_path / "b").write_text("other")
    with pytest.raises(
        InputError, match=rf"^{tmp_path}/b: damaged: its SHA-256 is not the one in SHA256SUMS"
    ):
        manifest.check_checksums(tmp_path)
    manifest.update_checksums(tmp_path, ["b", "c d"])
    manifest.check_checksums(tmp_path)
    sums["b"] = hashlib.sha256(b"other").hexdigest()
    assert manifest.read_checksums(tmp_path / "SHA256SUMS") == sums
    (tmp_path / "a").unlink()
    with pytest.raises(InputError, match=rf"^{tmp_path}/a: no such file, but SHA256SUMS lists it"):
        manifest.check_checksums(tmp_path)
    (tmp_path / "SHA256SUMS").write_text(text + "damaged\n")
    with pytest.raises(InputError, match=rf"^{tmp_path}/SHA256SUMS:3: damaged: not a line of sha256sum"):
        manifest.check_checksums(tmp_path)
    (tmp_path / "SHA256SUMS").unlink()
    manifest.check_checksums(tmp_path)  # nothing to compare
    manifest.update_checksums(tmp_path, ["b"])
    assert manifest.read_checksums(tmp_path / "SHA256SUMS") == {"b": sums["b"]}


@pytest.mark.parametrize("number", [0, 1, -1, 2**31 - 1, 2**31, -(2**31), -(2**31) - 1, 3**31, 10**400])
def test_whole_numbers_of_documents_have_32_bits(number: int) -> None:
    for value in (number, str(number)):
        if -(2**31) <= number < 2**31:
            assert number_of(value) == number
        else:
            with pytest.raises(ValueError, match="is out of range"):
                number_of(value)


@pytest.mark.skipif(not hasattr(os, "fork"), reason="not a POSIX system")
@pytest.mark.parametrize("how", ["before", "after", "raises"])
@pytest.mark.parametrize("swapping", ["exchanged", "renamed"])
def test_killed_at_every_step_of_a_swap(swapping: str, how: str, tmp_path: Path) -> None:
    """At the name is the whole old or the whole new folder; what was replaced never returns."""
    seen = set()
    for step in range(100):
        place = tmp_path / f"{step}"
        place.mkdir()
        final = trees(place / "d", "old")

        def work(final: Path = final) -> None:
            with files.atomic_directory(final, overwrite=True) as folder:
                trees(folder, "new")

        was_killed = killed_at(step, swapping=swapping, how=how, work=work)
        if swapping == "exchanged" or not was_killed:
            assert final.is_dir()
        files.recover_directory(final)  # what a reader does
        seen.add(content(final))
        shutil.rmtree(final)
        files.recover_directory(final)
        assert not final.exists()
        with files.atomic_directory(final) as folder:
            trees(folder, "newer")
        assert content(final) == "newer"
        assert os.listdir(place) == ["d"]
        if not was_killed:
            break
    assert seen == ({"new"} if how == "after" and swapping == "exchanged" else {"old", "new"})
    assert step > 2


@pytest.mark.skipif(not hasattr(os, "fork"), reason="not a POSIX system")
@pytest.mark.parametrize("how", ["before", "after"])
def test_killed_at_every_step_of_a_new_file(how: str, tmp_path: Path) -> None:
    for overwrite in (True, False):
        for step in range(10):
            final = tmp_path / f"{overwrite}-{step}" / "x.txt"
            final.parent.mkdir()

            def work(final: Path = final, overwrite: bool = overwrite) -> None:
                with files.atomic_text(final, overwrite=overwrite) as stream:
                    stream.write("whole")

            was_killed = killed_at(step, swapping="exchanged", how=how, work=work)
            assert not final.exists() or final.read_text() == "whole"
            with files.atomic_text(final) as stream:
                stream.write("again")
            assert [(path.name, path.read_text()) for path in final.parent.iterdir()] == [("x.txt", "again")]
            if not was_killed:
                break
        assert 0 < step < 9


@pytest.mark.linux
def test_what_living_processes_and_other_machines_left_stays(tmp_path: Path) -> None:
    final = tmp_path / "x.txt"
    mine = this_process()
    machine, number, start = mine.split("-")
    elsewhere = f"{'f' * 8}-{number}-{start}"
    living = [
        f".x.txt.{mine}-0a0a0a0a.tmp",
        f".x.txt.{elsewhere}-0a0a0a0a.tmp",
        ".x.txt.new.tmp",
    ]
    dead = [f".x.txt.{machine}-{number}-{int(start or 0) + 1}-0a0a0a0a.tmp"]
    child = os.fork()
    if not child:
        os._exit(0)
    os.waitpid(child, 0)
    dead.append(f".x.txt.{machine}-{child}-{start}-0a0a0a0a.tmp")
    for name in (*living, *dead, ".x.txt.bak", ".x.tmp", "x.txt.tmp"):
        (tmp_path / name).write_text("x")
    with files.atomic_text(final) as stream:
        stream.write("new")
    assert set(os.listdir(tmp_path)) == {*living, "x.txt", ".x.txt.bak", ".x.tmp", "x.txt.tmp"}


def test_hidden_names_of_others_are_no_interrupted_swap(tmp_path: Path) -> None:
    for name in (".x.backup.old", ".x.backup.tmp"):
        (tmp_path / name).write_text("ten years")
    files.recover_directory(tmp_path / "x")
    assert sorted(os.listdir(tmp_path)) == [".x.backup.old", ".x.backup.tmp"]


def test_a_process_that_lives_is_known_by_its_start() -> None:
    mine = this_process()
    assert may_live(mine)
    machine, number, _ = mine.split("-")
    assert not may_live(f"{machine}-{number}-1")
    assert may_live(f"{machine}-1-{this_process().split('-')[2]}") or os.getpid() != 1
    assert may_live(f"00000000-{number}-1")


@pytest.mark.linux
def test_what_is_written_is_on_the_disk_before_it_has_its_name(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, swap: str
) -> None:
    """Every file once; then the folders; then the renaming; then the folder of that."""
    happened: list[str] = []
    real = {name: getattr(os, name) for name in ("fsync", "rename", "replace")}

    def fsync(descriptor: int) -> None:
        happened.append(Path(os.readlink(f"/proc/self/fd/{descriptor}")).name)
        real["fsync"](descriptor)

    monkeypatch.setattr(os, "fsync", fsync)
    for name in ("rename", "replace"):
        monkeypatch.setattr(
            os, name, lambda a, b, name=name: (happened.append(f"-> {Path(b).name}"), real[name](a, b))
        )
    with files.atomic_directory(tmp_path / "d") as folder:
        (folder / "part").write_text("x")
        files.write_json(folder / "x.json", {})
    inside = happened.index(folder.name)
    assert sorted(name for name in happened[:inside] if "->" not in name) == ["part", "x.json"]
    assert happened[inside:] == [folder.name, "-> d", tmp_path.name]
    happened.clear()
    with files.atomic_text(tmp_path / "x.txt") as stream:
        stream.write("x")
    assert happened[0].startswith(".x.txt.")
    assert happened[1:] == ["-> x.txt", tmp_path.name]


@pytest.mark.linux
@pytest.mark.parametrize("mode", [0o644, 0o444])
def test_a_system_that_syncs_only_files_open_for_writing(
    mode: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, swap: str
) -> None:
    """Windows, which opens no folder either, and for writing no file that is read-only."""
    import fcntl

    synced: list[str] = []
    real_open, real_sync = os.open, os.fsync

    def open_file(path: Any, flags: int, *arguments: int, **options: Any) -> int:
        if not options:  # else it is rmtree, which does without on Windows
            status = os.stat(path)
            if stat.S_ISDIR(status.st_mode) or (flags & os.O_RDWR and not status.st_mode & stat.S_IWUSR):
                raise PermissionError(errno.EACCES, os.strerror(errno.EACCES), path)
        return real_open(path, flags, *arguments, **options)

    def fsync(descriptor: int) -> None:
        if not fcntl.fcntl(descriptor, fcntl.F_GETFL) & os.O_RDWR:
            raise OSError(errno.EBADF, os.strerror(errno.EBADF))
        real_sync(descriptor)
        synced.append(Path(os.readlink(f"/proc/self/fd/{descriptor}")).name)

    monkeypatch.setattr(os, "open", open_file)
    monkeypatch.setattr(os, "fsync", fsync)
    for _ in range(2):
        with files.atomic_directory(tmp_path / "d", kind="trees", overwrite=True) as folder:
            (folder / "rejects.jsonl").write_text("")
            for name in ("train.trees", "valid.trees"):
                (folder / name).write_text("(S (A b))\n")
                (folder / name).chmod(mode)
        files.write_json(tmp_path / "x.json", {})
        with files.atomic_text(tmp_path / "x.txt.gz") as stream:
            stream.write("x")
    trees = ["train.trees", "valid.trees"] * (mode == 0o644)
    wanted = [".x.json", ".x.txt.gz", "pdtools.json", "rejects.jsonl", *trees] * 2
    assert sorted(re.sub(r"\.[0-9a-f]{8}-.*tmp", "", name) for name in synced) == sorted(wanted)
    assert sorted(os.listdir(tmp_path)) == ["d", "x.json", "x.txt.gz"]


@pytest.mark.linux
@pytest.mark.parametrize("error", [None, errno.ENOSYS, errno.EIO])
def test_a_folder_of_many_files_is_synced_at_once(
    error: int | None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """While it has its temporary name; file by file where the system cannot, and not at all if it fails."""
    happened: list[str] = []
    real_sync = os.fsync

    def sync_all(descriptor: int) -> int:
        happened.append(
            "all" if list(tmp_path.glob(".d.*.tmp")) and not (tmp_path / "d").exists() else "late"
        )
        ctypes.set_errno(error or 0)
        return -1 if error else 0

    def sync(descriptor: int) -> None:
        happened.append("one")
        real_sync(descriptor)

    monkeypatch.setattr(system, "_of_libc", lambda name, *types: sync_all if name == "syncfs" else None)
    monkeypatch.setattr(os, "fsync", sync)
    with contextlib.suppress(PdtoolsError), files.atomic_directory(tmp_path / "d", kind="data") as folder:
        for i in range(1000):
            (folder / str(i)).touch()
    assert (tmp_path / "d").exists() == (error != errno.EIO)
    assert happened == ["all"] + ["one"] * {None: 1, errno.ENOSYS: 1003, errno.EIO: 0}[error]


def test_bad_utf8_is_named_by_line(tmp_path: Path) -> None:
    path = tmp_path / "latin.txt"
    path.write_bytes(b"fine\ncaf\xe9\n")
    with pytest.raises(InputError, match=r"latin\.txt:2: not UTF-8 \(byte 0xe9\)"):
        list(files.read_lines(path))


@pytest.mark.parametrize("suffix", [".gz", ".zst"])
def test_damaged_compression_is_named(tmp_path: Path, suffix: str) -> None:
    path = tmp_path / f"x{suffix}"
    path.write_bytes(b"this is not compressed at all")
    with pytest.raises(InputError, match="damaged|cannot be read"):
        files.read_bytes(path)


# Many compressed blocks of whole lines, so that a file can be cut, or spoilt, where only its frame tells.
LINES = "".join(f"line {number * 7919 % 10007}\n" for number in range(100_000)).encode()
PACK = {".gz": gzip.compress, ".zst": zstandard.ZstdCompressor(write_checksum=True).compress}


@pytest.mark.parametrize("suffix", [".gz", ".zst"])
@pytest.mark.parametrize("share", [0.3, 0.6, 0.99])
def test_a_compressed_file_cut_short_is_named(tmp_path: Path, suffix: str, share: float) -> None:
    path = tmp_path / f"x{suffix}"
    packed = PACK[suffix](LINES)
    path.write_bytes(packed[: int(len(packed) * share)])
    with pytest.raises(InputError, match=r"x\.(gz|zst): damaged compressed file"):
        list(files.read_lines(path))


@pytest.mark.parametrize("suffix", [".gz", ".zst"])
def test_a_compressed_file_damaged_inside_is_named(tmp_path: Path, suffix: str) -> None:
    path = tmp_path / f"x{suffix}"
    packed = bytearray(PACK[suffix](LINES))
    middle = len(packed) // 2
    packed[middle : middle + 50] = b"\xff" * 50
    path.write_bytes(packed)
    with pytest.raises(InputError, match=r"x\.(gz|zst): damaged compressed file"):
        list(files.read_lines(path))


@pytest.mark.parametrize("suffix", [".gz", ".zst"])
def test_compressed_files_written_one_after_the_other_are_read_whole(tmp_path: Path, suffix: str) -> None:
    path = tmp_path / f"x{suffix}"
    path.write_bytes(PACK[suffix](LINES) + PACK[suffix](b"last\n"))
    lines = [line for _, line in files.read_lines(path)]
    assert len(lines) == 100_001
    assert lines[-1] == "last"


@pytest.mark.parametrize("name", [".", "sub/.."])
def test_a_folder_without_a_name_cannot_be_an_output(
    tmp_path: Path, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "sub").mkdir()
    monkeypatch.chdir(tmp_path)
    with (
        pytest.raises(PdtoolsError, match="the current directory is not replaced"),
        files.atomic_directory(name, overwrite=True),
    ):
        pass
    with pytest.raises(PdtoolsError, match="cannot be replaced"), files.atomic_text(name):
        pass


@pytest.mark.linux
def test_a_pipe_is_written_to_and_never_replaced(tmp_path: Path) -> None:
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    files.check_output(pipe, overwrite=False)
    reader = os.open(pipe, os.O_RDONLY | os.O_NONBLOCK)
    try:
        with files.atomic_text(pipe) as stream:
            stream.write("text\n")
        assert os.read(reader, 100) == b"text\n"
    finally:
        os.close(reader)
    assert pipe.is_fifo()
    with pytest.raises(PdtoolsError, match="folder"), files.atomic_directory(pipe, overwrite=True):
        pass
    assert pipe.is_fifo()


def test_a_folder_with_the_input_in_it_is_not_overwritten(tmp_path: Path) -> None:
    inside = tmp_path / "d" / "sub" / "in.trees"
    inside.parent.mkdir(parents=True)
    inside.write_text("x")
    with pytest.raises(PdtoolsError, match=r"holds the input .*in\.trees"):
        files.check_output(tmp_path / "d", overwrite=True, inputs=["elsewhere", str(inside)])
    with pytest.raises(PdtoolsError, match="is the input"):
        files.check_output(tmp_path / "d", overwrite=True, inputs=[f"{tmp_path}/d/sub/.."])
    files.check_output(tmp_path / "other", overwrite=True, inputs=[str(inside)])


def test_json_of_a_file_name_that_is_not_utf8(tmp_path: Path) -> None:
    name = os.fsdecode(b"caf\xe9 \xc3\xa9.trees")
    files.write_json(tmp_path / "x.json", {"file": name})
    assert "é.trees" in (tmp_path / "x.json").read_text(encoding="utf-8")
    assert files.read_json(tmp_path / "x.json") == {"file": name}


def test_a_table_that_is_held_is_read_again() -> None:
    given = files.GivenText.of(["a\tb", "1\t2"])
    assert (
        list(files.read_table(given)) == list(files.read_table(given)) == [(1, ["a", "b"]), (2, ["1", "2"])]
    )


@pytest.mark.parametrize(
    ("rows", "found"),
    [
        ([["a", "", ""], ["1", "2", "3"]], [(2, "1")]),  # columns without a name, which nobody asks for
        ([["a", "b"], [" "], ["1", "2"]], [(3, "1")]),
        ([["a"], [" "], ["1"]], [(2, " "), (3, "1")]),
    ],
)
def test_rows_by_column(rows: list[list[str]], found: list[tuple[int, str]]) -> None:
    """A blank cell alone is a row only where rows have one cell."""
    by_name = by_column(enumerate(rows, start=1), "t.tsv")
    assert [(number, row["a"]) for number, row in by_name] == found


def test_json_errors_name_the_line(tmp_path: Path) -> None:
    path = tmp_path / "x.json"
    path.write_text('{\n"a": }')
    with pytest.raises(InputError, match=r"x\.json:2: not JSON"):
        files.read_json(path)


@pytest.mark.parametrize("place", ["blocked/x", "blocked/deep/x", "/proc/x"])
def test_an_output_that_cannot_be_written_is_named_as_the_user_named_it(tmp_path: Path, place: str) -> None:
    (tmp_path / "blocked").write_text("a file, not a folder")
    final = tmp_path / place
    with pytest.raises(PdtoolsError, match="cannot be written"), files.atomic_text(final) as stream:
        stream.write("x")
    with pytest.raises(PdtoolsError, match="cannot be written"), files.atomic_directory(final):
        pass


@pytest.mark.linux
def test_a_full_disk_names_the_output(tmp_path: Path) -> None:
    with (
        pytest.raises(PdtoolsError, match=r"x\.txt: cannot be written: No space"),
        files.atomic_text(tmp_path / "x.txt"),
        open("/dev/full", "w") as full,
    ):
        full.write("x")
        full.flush()


@pytest.mark.parametrize("code", [errno.EIO, errno.EACCES, errno.ESTALE])
@pytest.mark.parametrize("where", ["writing", "syncing"])
def test_an_error_of_the_system_without_a_name_names_the_output(
    code: int, where: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fails(*arguments: object) -> None:
        raise OSError(code, os.strerror(code))

    if where == "syncing":
        monkeypatch.setattr(outputs.os, "fsync", fails)
    for open_output in (files.atomic_text, files.atomic_directory):
        with (
            pytest.raises(PdtoolsError, match=f"{tmp_path / 'x'}: cannot be written: {os.strerror(code)}"),
            open_output(tmp_path / "x") as made,
        ):
            if isinstance(made, Path):
                (made / "part").touch()
            if where == "writing":
                fails()
    assert not list(tmp_path.iterdir())


def cut_swap(folder: Path) -> None:
    """Leave a folder as a process does that is killed between the two renames of a swap."""
    folder.rename(folder.with_name(f".{folder.name}.new.old"))
    folder.with_name(f".{folder.name}.new.tmp").mkdir(exist_ok=True)


def test_every_reader_of_folders_recovers(tmp_path: Path) -> None:
    place = trees(tmp_path / "d", "(S (A b))")
    cut_swap(place)
    assert len(files.expand_inputs([str(place)], [".trees"])) == 2
    cut_swap(place)
    assert provenance({"data": place})["inputs"]["data"]["files"] == 4
    document = {"format": 3, "scores": {}, "counts": {}, "settings": {"task": "sg"}}
    (place / "results.json").write_text(json.dumps(document))
    cut_swap(place)
    with pytest.raises(InputError, match=r"no items\.parquet"):
        read_results(place)
    (place / "results.json").unlink()
    cut_swap(place)
    with pytest.raises(InputError, match=r"d/tokenizer\.json: no such tokenizer"):
        Tokenizer.load(place)
    cut_swap(place)
    with pytest.raises(InputError, match="not shards"):
        ShardFolder.open(place)
    cut_swap(place)
    with pytest.raises(InputError, match="not a (pdtools )?checkpoint"):
        checkpoint_folder(place)
    (tmp_path / ".d.new.tmp").rmdir()
    with pytest.raises(PdtoolsError, match="exists already"):
        files.check_output(place, overwrite=False)


def test_zstd_files_that_are_cut_short_or_damaged(tmp_path: Path) -> None:
    """At every byte of one frame and of a second one; another package's frames are the oracle."""
    frame = PACK[".zst"](b"a line\n" * 40 + bytes(range(32, 127)))
    data = zstandard.ZstdDecompressor().decompress(frame)
    source = tmp_path / "x.zst"
    source.write_bytes(frame + frame)
    assert read_bytes(source) == data + data
    source.write_bytes(b"")
    assert read_bytes(source) == b""
    for end in set(range(1, 2 * len(frame))) - {len(frame)}:
        source.write_bytes((frame + frame)[:end])
        with pytest.raises(InputError, match="damaged compressed file"):
            read_bytes(source)
    for place in range(len(frame)):
        source.write_bytes(frame[:place] + bytes([frame[place] ^ 0x55]) + frame[place + 1 :])
        with pytest.raises(InputError, match="damaged compressed file"):
            read_bytes(source)


def test_rejects_are_counted_by_reason_and_long_ones_cut() -> None:
    rejects = files.Rejects("skip")
    assert (len(rejects), rejects.by_reason(), rejects.summary()) == (0, {}, "")
    for number, reason in enumerate(("unbalanced", "empty", "unbalanced"), start=1):
        rejects.add(reason, file="x", line=number, text="(" * number)
    for characters in (65_536, 65_537):
        rejects.exclude("long", file="x", line=4, text="ä" * characters)
    assert len(rejects) == 5
    assert list(rejects.by_reason().items()) == [("empty", 1), ("long", 2), ("unbalanced", 2)]
    assert rejects.summary() == " (1 excluded: empty, 2 excluded: long, 2 excluded: unbalanced)"
    *_, whole, cut = rejects
    assert whole == {"file": "x", "line": 4, "reason": "long", "text": "ä" * 65_536}
    assert cut == {**whole, "characters": 65_537}
    strict = files.Rejects("fail")
    strict.exclude("by rule", file="x", line=1, text="")
    with pytest.raises(InputError, match=r"first; --on-error skip excludes it"):
        strict.add("bad", file="x", line=1, text="", note="first")
    with pytest.raises(InputError) as raised:
        files.Rejects("fail", hint=None).add("bad", file="x", line=1, text="")
    assert "on-error" not in str(raised.value)


def test_what_is_excluded_after_a_look_at_the_rejects_is_kept_too(tmp_path: Path) -> None:
    rejects = files.Rejects("skip")
    for number in (1, 2):
        rejects.add("no tree", file="x", line=number, text="(")
        assert [record["line"] for record in rejects] == list(range(1, number + 1))
    rejects.write(tmp_path / "rejects.jsonl")
    assert len((tmp_path / "rejects.jsonl").read_text().splitlines()) == 2


def test_endings_count_in_any_case(tmp_path: Path) -> None:
    """Wherever a name's ending is read: compression, archives, folders, tables, pictures, benchmarks."""
    for name in ("a.TXT.GZ", "b.txt.Zst"):
        with files.atomic_text(tmp_path / name) as stream:
            stream.write("text\n")
        assert (tmp_path / name).read_bytes() != b"text\n"
        assert list(files.read_lines(tmp_path / name)) == [(1, "text")]
    assert [Path(name).name for name in files.expand_inputs([str(tmp_path)], [".txt"])] == [
        "a.TXT.GZ",
        "b.txt.Zst",
    ]
    assert not may_be_brackets(str(tmp_path / "a.TXT.GZ"))
    for name in ("t.CSV", "t.csv.GZ", "t.Tsv"):
        with files.atomic_table(tmp_path / name, ["a", "b"]) as write:
            write(["x,y", "z"])
        assert [cells for _, cells in files.read_table(tmp_path / name)] == [["a", "b"], ["x,y", "z"]]
        assert read_bytes(tmp_path / name).startswith(b"a,b\n") == ("csv" in name.lower())
    pair = {"sentence_good": "a", "sentence_bad": "b"}
    (tmp_path / "p.JSONL").write_text(json.dumps(pair) + "\n")
    (tmp_path / "q.TSV").write_text("sentence_good\tsentence_bad\na\tb\n")
    with zipfile.ZipFile(tmp_path / "P.ZIP", "w") as archive:
        archive.write(tmp_path / "p.JSONL", "p.JSONL")
        archive.write(tmp_path / "q.TSV", "q.TSV")
    assert [each.levels[-1] for each in PairFiles(tmp_path / "P.ZIP")] == ["p", "q"]
    assert [each.levels[-1] for each in PairFiles(tmp_path / "q.TSV")] == ["q"]
    assert files.kind_of(tmp_path / "P.ZIP") is files.Kind.PAIRS
    assert list(files.read_lines(files.expand_inputs([str(tmp_path / "P.ZIP")], [".tsv"])[0]))[1:] == [
        (2, "a\tb")
    ]
    (tmp_path / "b.toml").write_text(
        'files = ["*.TSV", "*.jsonl"]\n[strings]\ngood = "{sentence_good}"\nbad = "{sentence_bad}"\n'
    )
    benchmark = read_benchmark(str(tmp_path / "b.toml"))
    for place, names in ((tmp_path / "P.ZIP", ["p", "q"]), (tmp_path / "q.TSV", ["q"])):
        found = [
            (file.columns["file"], len(list(items_of(file, benchmark))))
            for file in data_files(place, benchmark)
        ]
        assert found == [(name, 1) for name in names]
    (tmp_path / "suites").mkdir()
    (tmp_path / "suites/S.JSON").write_text("{}")
    with pytest.raises(InputError, match=r"S\.JSON"):
        SuiteFiles(tmp_path / "suites")
    (tmp_path / "train.TSV").write_text("x")
    assert data_file(str(tmp_path), "train") == str(tmp_path / "train.TSV")
    assert is_conllu("x.CoNLLU.gz")
    check_picture(str(tmp_path / "x.SVG"), overwrite=False, inputs=[])
