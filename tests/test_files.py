"""Compression, globs, and outputs that appear whole or not at all."""

from __future__ import annotations

import gzip
import json
from pathlib import Path

import pytest
import zstandard

from pdtools import files
from pdtools.errors import InputError, PdtoolsError


def test_expand_inputs_folder_is_recursive_sorted_and_filtered(tmp_path: Path) -> None:
    for name in ("b.mrg", "a.mrg.gz", "sub/c.mrg", "notes.md"):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text("x")
    found = files.expand_inputs([str(tmp_path)], [".mrg"])
    assert [Path(f).relative_to(tmp_path).as_posix() for f in found] == ["a.mrg.gz", "b.mrg", "sub/c.mrg"]


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


def test_existing_folder_is_refused_or_replaced(tmp_path: Path) -> None:
    final = tmp_path / "d"
    final.mkdir()
    (final / "old").write_text("x")
    with pytest.raises(PdtoolsError, match="--overwrite"), files.atomic_directory(final):
        pass
    with files.atomic_directory(final, overwrite=True) as folder:
        (folder / "new").write_text("x")
    assert [p.name for p in final.iterdir()] == ["new"]
    assert [p.name for p in tmp_path.iterdir()] == ["d"]


def test_interrupted_swap_is_recovered(tmp_path: Path) -> None:
    (tmp_path / ".d.old").mkdir()
    (tmp_path / ".d.old" / "kept").write_text("x")
    files.recover_directory(tmp_path / "d")
    assert (tmp_path / "d" / "kept").exists()


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


def test_truncated_gzip_is_named(tmp_path: Path) -> None:
    path = tmp_path / "x.gz"
    path.write_bytes(gzip.compress(b"some text" * 1000)[:-20])
    with pytest.raises(InputError, match="damaged"):
        list(files.read_lines(path))


def test_rejects_fail_or_are_written(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"a\.mrg:3: unbalanced .*--on-error skip"):
        files.Rejects("fail").add("unbalanced", file="a.mrg", line=3, text="(S")
    rejects = files.Rejects("skip")
    rejects.add("unbalanced", file="a.mrg", line=3, text="(S")
    rejects.write(tmp_path / "rejects.jsonl")
    assert rejects.by_reason() == {"unbalanced": 1}
    assert json.loads((tmp_path / "rejects.jsonl").read_text()) == {
        "file": "a.mrg",
        "line": 3,
        "reason": "unbalanced",
        "text": "(S",
    }


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


def test_a_full_disk_names_the_output(tmp_path: Path) -> None:
    with (
        pytest.raises(PdtoolsError, match=r"x\.txt: cannot be written: No space"),
        files.atomic_text(tmp_path / "x.txt"),
        open("/dev/full", "w") as full,
    ):
        full.write("x")
        full.flush()
