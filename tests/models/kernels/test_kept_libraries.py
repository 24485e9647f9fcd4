"""Compiled libraries that later processes find, and when they do not."""

from __future__ import annotations

import ctypes
import errno
import os
import shutil
import subprocess
import tempfile
import time
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from pdtools.files import kept
from pdtools.models.kernels import native
from pdtools.models.kernels.native import processor

pytestmark = pytest.mark.skipif(
    not any(map(shutil.which, native.COMPILERS)) or processor() is None,
    reason="libraries are kept where there is a compiler and /proc/cpuinfo",
)


@pytest.fixture
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    folder = tmp_path / "cache"
    monkeypatch.setenv("PDTOOLS_CACHE", str(folder))
    return folder


@pytest.fixture
def compiled(monkeypatch: pytest.MonkeyPatch) -> list[list[str]]:
    """The commands of the compiler."""
    commands: list[list[str]] = []
    run = subprocess.run

    def noted(command: list[str], **options: Any) -> Any:
        commands.append(command)
        return run(command, **options)

    monkeypatch.setattr(subprocess, "run", noted)
    return commands


def build(*options: str) -> ctypes.CDLL:
    """As a new process does."""
    library = native.native_library.__wrapped__("pdtools.models.kernels", "stack_attention", (), *options)
    assert library is not None
    return library


@pytest.mark.linux
def test_a_later_process_compiles_nothing(cache: Path, compiled: list[list[str]]) -> None:
    build()
    (file,) = cache.iterdir()
    assert file.name.startswith("stack_attention-")
    assert file.stat().st_mode & 0o077 == 0
    assert cache.stat().st_mode & 0o077 == 0
    assert build()._name == str(file)
    assert len(compiled) == 1
    # Other options, or a source that has changed, are another library.
    build("-DOTHER")
    assert len(compiled) == 2
    assert len(list(cache.iterdir())) == 2


def test_another_source_compiler_or_processor_is_another_library(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    compiler = tmp_path / "cc"
    compiler.write_text("")
    command, sources = [str(compiler), "-O3"], {"a.c": b"int a;", "b.h": b""}

    def digests() -> set[str | None]:
        return {
            native._made_from(command, sources),
            native._made_from([*command, "-g"], sources),
            native._made_from([str(compiler), "-O3 "], sources),
            native._made_from(command, {"a.c": b"int b;", "b.h": b""}),
            native._made_from(command, {"a.c": b"int a;b.h", "": b""}),
            native._made_from(command, {"a.c": b"int a;"}),
        }

    found = digests()
    assert native._made_from(command, dict(reversed(sources.items()))) in found
    assert len(found) == 6
    os.utime(compiler, ns=(0, 0))  # an upgrade
    found |= digests()
    assert len(found) == 12
    monkeypatch.setattr(native, "processor", lambda: "another")
    found |= digests()
    assert len(found) == 18
    monkeypatch.setattr(native, "processor", lambda: None)
    assert digests() == {None}


@pytest.mark.linux
def test_a_processor_is_told_by_its_instructions_and_not_by_its_speed(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def described(flags: str, speed: str) -> str | None:
        text = f"model name\t: one\ncpu MHz\t\t: {speed}\nflags\t\t: {flags}\n\nmodel name\t: other\n"
        monkeypatch.setattr(Path, "read_text", lambda *_, **__: text)
        return processor.__wrapped__()

    first = described("sse avx", "2000")
    assert first == described("sse avx", "3000")
    assert first not in (None, described("sse", "2000"))


@pytest.mark.parametrize("damage", [b"", b"cut", None])
def test_a_damaged_library_is_compiled_again(
    damage: bytes | None, cache: Path, compiled: list[list[str]]
) -> None:
    build()
    (file,) = cache.iterdir()
    content = file.read_bytes()
    file.write_bytes(content[:-1] if damage is None else damage)
    build()
    assert len(compiled) == 2
    assert file.read_bytes() == content


@pytest.mark.linux
@pytest.mark.parametrize("why", ["off", "OFF", "others write", "a group writes", "another's", "no folder"])
def test_where_nothing_is_kept(
    why: str, tmp_path: Path, compiled: list[list[str]], monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = tmp_path / "cache"
    if why == "no folder":
        folder.write_text("")
    else:
        folder.mkdir()
    if why in ("others write", "a group writes"):
        folder.chmod(0o777 if why == "others write" else 0o770)
    if why == "another's":
        monkeypatch.setattr(os, "getuid", lambda: folder.stat().st_uid + 1)
    monkeypatch.setenv("PDTOOLS_CACHE", why if why.lower() == "off" else str(folder))
    monkeypatch.chdir(tmp_path)
    build()
    build()
    assert len(compiled) == 2
    assert [file.name for file in tmp_path.iterdir()] == ["cache"]
    assert why == "no folder" or list(folder.iterdir()) == []


def test_libraries_unused_for_90_days_are_deleted(cache: Path) -> None:
    build()
    (first,) = cache.iterdir()
    zeros, ones = "0" * 32, "1" * 64
    names = (f"stack_attention-{zeros}-{ones}.so", f"stack_attention-{zeros}-{'2' * 64}.so")
    others = (f"gelu-{zeros}-{ones}.so", "stack_attention-mine.so")  # the last is somebody's
    unused, used, other, mine = files = [first.with_name(name) for name in (*names, *others)]
    for file in files:
        file.write_bytes(b"")
    for file, days in ((first, 91), (unused, 91), (used, 89), (other, 91), (mine, 91)):
        os.utime(file, (time.time() - days * 86400,) * 2)
    assert build()._name == str(first)  # which is used again
    build("-DOTHER")
    left = set(cache.iterdir())
    assert {first, used, other, mine} < left
    assert unused not in left
    assert len(left) == 5


@pytest.mark.linux
@pytest.mark.parametrize("cache_runs", [True, False, None])
def test_temporary_files_that_may_not_be_run(
    cache_runs: bool | None, cache: Path, compiled: list[list[str]], monkeypatch: pytest.MonkeyPatch
) -> None:
    """As where TMPDIR is mounted with noexec; the cache may be, too, or there is none."""
    if cache_runs is None:
        monkeypatch.setenv("PDTOOLS_CACHE", "off")
    statvfs = os.statvfs

    def noexec(path: str) -> Any:
        is_run = cache_runs and str(path).startswith(str(cache))
        return statvfs(path) if is_run else SimpleNamespace(f_flag=os.ST_NOEXEC)

    def refused(path: str) -> Any:
        if not path.startswith(str(cache)):
            raise OSError("failed to map segment from shared object")
        return load(path)

    load = ctypes.CDLL
    monkeypatch.setattr(os, "statvfs", noexec)
    monkeypatch.setattr(ctypes, "CDLL", refused)
    native._say_that_there_is_none.cache_clear()
    if cache_runs:
        build()
        (file,) = cache.iterdir()
        assert build()._name == str(file)
        assert len(compiled) == 1
        return
    with pytest.warns(UserWarning, match=r"no folder for temporary files that may be run \(noexec\?") as said:
        found = [native.native_library.__wrapped__("pdtools.models.kernels", "gelu", ()) for _ in range(2)]
    assert (found, len(said), compiled) == ([None, None], 1, [])
    native._say_that_there_is_none.cache_clear()


@pytest.mark.parametrize("kept", [True, False])
def test_no_temporary_files_at_all(
    kept: bool, cache: Path, compiled: list[list[str]], monkeypatch: pytest.MonkeyPatch
) -> None:
    """As in a container that can only be read, but perhaps for the cache."""

    def none() -> str:
        raise FileNotFoundError(errno.ENOENT, "No usable temporary directory found")

    monkeypatch.setattr(tempfile, "gettempdir", none)
    if kept:
        build()
        assert len(list(cache.iterdir())) == len(compiled) == 1
        return
    monkeypatch.setenv("PDTOOLS_CACHE", "off")
    native._say_that_there_is_none.cache_clear()
    with pytest.warns(UserWarning, match="no folder for temporary files that may be run"):
        assert native.native_library.__wrapped__("pdtools.models.kernels", "gelu", ()) is None
    native._say_that_there_is_none.cache_clear()


@pytest.mark.linux
@pytest.mark.parametrize("given", [".", "kept", "kept/", "../kept"])
def test_a_cache_named_from_the_working_folder(
    given: str, tmp_path: Path, compiled: list[list[str]], monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "work").mkdir()
    monkeypatch.chdir(tmp_path / "work")
    monkeypatch.setenv("PDTOOLS_CACHE", given)
    build()
    build()
    assert len(compiled) == 1


@pytest.mark.linux
def test_a_disk_that_is_only_read(cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refused(*_: object) -> None:
        raise OSError(30, "Read-only file system")

    build()
    (file,) = cache.iterdir()
    monkeypatch.setattr(os, "utime", refused)
    assert build()._name == str(file)


def test_a_full_disk_leaves_nothing(
    cache: Path, compiled: list[list[str]], monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(*_: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "replace", full)
    build()
    assert list(cache.iterdir()) == []


def test_a_library_that_does_not_load_here_is_compiled_again(cache: Path, compiled: list[list[str]]) -> None:
    """Of another system with the same home: whole, and of no use."""
    build()
    (file,) = cache.iterdir()
    name, made_from, _ = file.stem.rsplit("-", 2)
    file.unlink()
    kept.keep(b"of another system", f"{name}.so", made_from)
    build()
    assert len(compiled) == 2


def test_by_default_it_is_in_the_users_cache(
    tmp_path: Path, compiled: list[list[str]], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("PDTOOLS_CACHE", raising=False)
    monkeypatch.delenv("XDG_CACHE_HOME", raising=False)
    monkeypatch.setenv("HOME", str(tmp_path))
    build()
    assert len(list((tmp_path / ".cache" / "pdtools").iterdir())) == 1
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "elsewhere"))
    build()
    assert len(list((tmp_path / "elsewhere" / "pdtools").iterdir())) == 1
