"""Folders that pdtools wrote: what their list names is pdtools', and nothing else that ends alike."""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import time
from pathlib import Path

import pytest

from pdtools.errors import PdtoolsError
from pdtools.files import atomic_directory, check_output, manifest
from pdtools.files.manifest import MANIFEST, growing, holds_others, is_part_of, is_whole, written_as


@pytest.fixture
def listed(tmp_path: Path) -> Path:
    """A folder with a list, and with a folder in it."""
    with atomic_directory(tmp_path / "made", kind="results of eval-blimp") as folder:
        (folder / "results.json").write_text("{}")
        (folder / "inner").mkdir()
        (folder / "inner" / "rows").write_bytes(b"1234")
    return tmp_path / "made"


def test_a_folder_lists_its_files(listed: Path) -> None:
    def entry(data: bytes) -> dict[str, object]:
        return {"size": len(data), "sha256": hashlib.sha256(data).hexdigest()}

    assert json.loads((listed / MANIFEST).read_text()) == {
        "format": "pdtools folder",
        "kind": "results of eval-blimp",
        "files": {"results.json": entry(b"{}"), "inner/rows": entry(b"1234")},
    }
    assert written_as(listed) == "the results of eval-blimp"
    assert is_whole(listed)
    assert not holds_others(listed)
    assert is_part_of(listed, "inner/rows")
    assert is_part_of(listed, "inner")
    assert not is_part_of(listed, "inner/notes")


def test_sums_that_are_known_are_not_computed_again(tmp_path: Path) -> None:
    with atomic_directory(tmp_path / "made", kind="shards", sums={"inner/a": "0"}) as folder:
        (folder / "inner").mkdir()
        for name in "ab":
            (folder / "inner" / name).touch()
        (folder / "inner" / "SHA256SUMS").write_text(f"{'1' * 64}  b\n")
    files = json.loads((tmp_path / "made" / MANIFEST).read_text())["files"]
    assert (files["inner/a"]["sha256"], files["inner/b"]["sha256"]) == ("0", "1" * 64)


@pytest.mark.parametrize("name", ["README.md", "inner/README.md", "items.parquet", "part/b", ".hidden"])
def test_what_is_not_listed_is_named(name: str, listed: Path) -> None:
    (listed / name).parent.mkdir(exist_ok=True)
    (listed / name).write_text("ten years")
    first = name if name != "part/b" else "part"
    with pytest.raises(PdtoolsError, match=f"holds {first}, which pdtools did not write there"):
        written_as(listed)
    assert holds_others(listed)
    with (
        pytest.raises(PdtoolsError, match=f"holds {first}"),
        atomic_directory(listed, kind="results", overwrite=True),
    ):
        raise AssertionError


def test_a_list_in_a_listed_folder_lists_nothing(listed: Path) -> None:
    """Else it would give away what someone has put there with it."""
    (listed / "inner" / MANIFEST).write_text(json.dumps(growing("training run")))
    (listed / "inner" / "run.json").write_text("ten years")
    with pytest.raises(PdtoolsError, match="holds inner/pdtools.json, which pdtools did not write there"):
        written_as(listed)


EVENTS = "tensorboard/events.out.tfevents.12"


def grow(folder: Path) -> Path:
    """A folder that grows, with one in it that appeared whole."""
    folder.mkdir()
    (folder / MANIFEST).write_text(json.dumps(growing("training run")))
    (folder / "run.json").write_text("x")
    (folder / "tensorboard").mkdir()
    (folder / EVENTS).write_text("x")
    with atomic_directory(folder / "best", kind="checkpoint") as best:
        (best / "weights").write_text("x")
    return folder


def test_a_folder_that_grows_says_what_it_may_hold(tmp_path: Path) -> None:
    folder = grow(tmp_path / "run")
    assert written_as(folder) == "the training run"
    (folder / "run.json").write_text("y")
    assert written_as(folder) == "the training run"
    assert is_part_of(folder, "best/weights")
    assert is_part_of(folder, EVENTS)
    assert not is_part_of(folder, "best/notes")


@pytest.mark.parametrize("name", ["README.md", "tensorboard/x", "best/README.md", f"best/{EVENTS}", "b/a"])
def test_what_a_folder_that_grows_does_not_hold_is_named(name: str, tmp_path: Path) -> None:
    folder = grow(tmp_path / "run")
    (folder / name).parent.mkdir(exist_ok=True)
    (folder / name).write_text("ten years")
    with pytest.raises(PdtoolsError, match="which pdtools did not write there"):
        written_as(folder)
    assert holds_others(folder)


@pytest.mark.parametrize("parts", [".*", "(n|n)*b", "notes|run.json", "(", 3])
@pytest.mark.parametrize("kind", ["training run", "exported revisions"])
def test_a_pattern_in_the_file_allows_nothing(kind: str, parts: object, tmp_path: Path) -> None:
    """Anybody can have written it; one with a catastrophic pattern would never be matched."""
    document = {"format": "pdtools folder", "kind": kind, "parts": parts}
    (tmp_path / MANIFEST).write_text(json.dumps(document))
    (tmp_path / ("n" * 60)).write_text("ten years")
    with pytest.raises(PdtoolsError, match="holds n+, which pdtools did not write there"):
        check_output(tmp_path, overwrite=True, folder=True)


def test_a_listed_file_of_a_folder_in_one_that_grows(tmp_path: Path) -> None:
    folder = grow(tmp_path / "run")
    (folder / "best" / "weights").write_text("y")
    with pytest.raises(PdtoolsError, match="holds best/weights, which is not as pdtools wrote it"):
        written_as(folder)


@pytest.mark.parametrize("large", [False, True])
@pytest.mark.parametrize("old", [False, True])
def test_a_listed_file_that_changed_is_named(
    large: bool, old: bool, listed: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One of the same size, even if its time was set back; and of large ones, too."""
    if large:
        monkeypatch.setattr(manifest, "ALWAYS_READ", 0)
    assert written_as(listed) is not None
    (listed / "inner" / "rows").write_bytes(b"1235")
    if old:
        os.utime(listed / "inner" / "rows", (0, 0))
    with pytest.raises(PdtoolsError, match=r"holds inner/rows, which is not as pdtools wrote it \(move it"):
        written_as(listed)
    (listed / "inner" / "rows").write_bytes(b"1234")
    assert written_as(listed) is not None  # touched, and the same


def test_large_files_that_nobody_touched_are_not_read(listed: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(manifest, "ALWAYS_READ", 0)
    time.sleep(0.05)  # longer than a tick of the clock of files
    (listed / MANIFEST).write_text((listed / MANIFEST).read_text())
    monkeypatch.setattr(manifest, "sha256_file", lambda path: "read")
    assert written_as(listed) is not None


@pytest.mark.linux
def test_what_takes_the_place_of_a_listed_file_or_folder(listed: Path, tmp_path: Path) -> None:
    shutil.move(listed / "inner", tmp_path / "mine")
    (listed / "inner").write_text("ten years")
    with pytest.raises(PdtoolsError, match="holds inner, which is not as pdtools wrote it"):
        written_as(listed)
    (listed / "inner").unlink()
    assert written_as(listed) == "the results of eval-blimp"  # it lacks one
    assert not is_whole(listed)
    (listed / "results.json").rename(tmp_path / "mine.json")
    (listed / "results.json").symlink_to(tmp_path / "mine.json")
    with pytest.raises(PdtoolsError, match=r"holds results.json, which is not as"):
        written_as(listed)


@pytest.mark.parametrize("copy", [shutil.copy, shutil.copy2])
def test_copies_are_as_they_were_written(copy: object, listed: Path, tmp_path: Path) -> None:
    shutil.copytree(listed, tmp_path / "copy", copy_function=copy)  # type: ignore[arg-type]
    assert written_as(tmp_path / "copy") == "the results of eval-blimp"
    (tmp_path / "copy" / "inner" / "rows").write_bytes(b"1235")
    with pytest.raises(PdtoolsError, match="holds inner/rows"):
        written_as(tmp_path / "copy")


@pytest.mark.parametrize(
    "text",
    [
        *("", "{", "[]", "{}", '{"format": "pdtools folder"}'),
        '{"format": "other", "kind": "results", "files": {}}',
        '{"format": "pdtools folder", "kind": 3, "files": {}}',
        '{"format": "pdtools folder", "kind": "results", "files": ["notes"]}',
        '{"format": "pdtools folder", "kind": "results", "parts": ".*"}',
        '{"format": "pdtools folder", "kind": "mine", "parts": "(a|a)*b"}',
        '{"format": "pdtools folder", "kind": "training run", "files": 3}',
        '{"format": "pdtools folder", "kind": "results", "files": {"notes": 3}}',
        '{"format": "pdtools folder", "kind": "results", "files": {"notes": {"size": 4}}}',
    ],
)
def test_a_damaged_list_lists_nothing(text: str, tmp_path: Path) -> None:
    (tmp_path / "notes").write_text("mine")
    (tmp_path / MANIFEST).write_text(text)
    with pytest.raises(PdtoolsError, match="not a folder that pdtools wrote"):
        written_as(tmp_path)
    assert holds_others(tmp_path)
    assert not is_whole(tmp_path)


def test_an_unfinished_run_is_to_be_resumed(tmp_path: Path) -> None:
    """Until its state says why it is over."""
    (tmp_path / MANIFEST).write_text(json.dumps(growing("training run")))
    state = tmp_path / "last" / "trainer" / "state.json"
    for finished in ("nothing yet", None, "steps", "patience"):
        if finished != "nothing yet":
            state.parent.mkdir(parents=True, exist_ok=True)
            state.write_text(json.dumps({"finished": finished}))
        with pytest.raises(PdtoolsError, match="exists already") as raised:
            check_output(tmp_path, overwrite=False, folder=True)
        assert ("--resume continues it" in str(raised.value)) == (finished in ("nothing yet", None))
