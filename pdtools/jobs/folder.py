"""The folder beside an output that keeps finished chunks until the output is complete.

``OUTPUT.job/`` holds ``job.json`` (the command, and the settings that its results depend on), and for each
pass over the input a folder of files ``00012-DIGEST.zst``: the result of chunk 12, whose content has that
digest. A chunk is used again only if its content is the same, so inputs may be mended between two runs.
Before the output gets its name, ``job.json`` records its files, or their list: anything else of that name is
not the output, and no chunk is deleted for it.

Keys:
    format, command, folder: arguments and working directory, with which ``pdtools merge`` calls the command
        again.
    settings: the settings that the chunks depend on.
    replaces: the file or folder that had the output's name before: inode and time, or null.
    made: the output's files, written just before it gets its name (inode, size, time in ns; for a folder with
        a list, the SHA-256 of ``pdtools.json``). Only these count as the output.
"""

from __future__ import annotations

import contextlib
import json
import os
import re
import shutil
import stat
import sys
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import Any

from pdtools import __version__
from pdtools.errors import InputError, PdtoolsError
from pdtools.files import (
    atomic_path,
    before_renaming,
    is_stream,
    read_json,
    remove_stale,
    sha256_file,
    temporary_name,
    write_json,
)
from pdtools.files.locks import OPEN_FILES_STAY, locked
from pdtools.files.manifest import (
    MANIFEST,
    Manifest,
    check_all_ours,
    holds_others,
    paths_below,
    read_manifest,
)
from pdtools.files.packed import compress_zstd, open_zstd
from pdtools.jobs.plan import Plan, Slice
from pdtools.provenance.hub import DATA_PREFIX, PREFIX, pinned
from pdtools.provenance.origin import code_digest

FORMAT = "pdtools job"
_JOB_FILE = "job.json"
_LOCK = "lock"  # the beginning of names of locked files
_CONTENT = Manifest(
    kind="unfinished run", parts=re.compile(r"job\.json|lock(-\d+-of-\d+)?|[a-z]+(/\d+-[0-9a-f]+\.zst)?")
)


def job_path(output: str | Path) -> Path:
    """The folder that keeps the chunks of an output.

    Raises:
        PdtoolsError: if the output has no name.
    """
    output = Path(output)
    if not output.name or output.name == "..":
        raise PdtoolsError(f"an output needs a name, which {str(output)!r} is not")
    return output.with_name(f"{output.name}.job")


@dataclass(frozen=True, slots=True)
class Chunks:
    """The kept chunks of one pass; to be pickled to workers that see the same files."""

    folder: Path

    def path(self, number: int, digest: str) -> Path:
        """The path of a chunk's file."""
        return self.folder / f"{number:05d}-{digest}.zst"

    def has(self, number: int, digest: str) -> bool:
        """Return whether a chunk is done."""
        return self.path(number, digest).is_file()

    def write(self, number: int, digest: str, data: bytes) -> None:
        """Keep a chunk's result, whole or not at all."""
        with atomic_path(self.path(number, digest), durable=False) as temporary:
            temporary.write_bytes(compress_zstd(data))

    def read(self, number: int, digest: str) -> bytes:
        """Read a chunk's result.

        Raises:
            InputError: if the file is damaged.
        """
        path = self.path(number, digest)
        try:
            with path.open("rb") as packed, open_zstd(packed) as stream:
                return stream.read()
        except Exception as error:  # the error type of zstd is only importable with the package
            if not isinstance(error, (EOFError, MemoryError)) and type(error).__name__ != "ZstdError":
                raise
            raise self.damaged(number, digest) from error

    def damaged(self, number: int, digest: str) -> InputError:
        """An error that says a chunk's file is damaged."""
        hint = "delete this file; --resume then does its chunk again"
        file = self.path(number, digest)
        return InputError("a damaged chunk of an unfinished run", file=file, hint=hint)


@dataclass(frozen=True, slots=True)
class JobFolder:
    """The folder of a run's chunks.

    Attributes:
        output: the file or folder to be made of them.
        folder: the folder of the chunks.
    """

    output: str
    folder: Path

    def chunks(self, name: str) -> Chunks:
        """The chunks of one pass over the input."""
        found = Chunks(self.folder / name)
        found.folder.mkdir(exist_ok=True)
        return found

    def record(self, made: Path, final: Path) -> None:
        """Record the files that the output consists of, before ``made`` is renamed to it."""
        path = self.folder / _JOB_FILE
        if os.path.abspath(final) == os.path.abspath(self.output) and path.exists():
            write_json(path, {**read_job(self.folder), "made": _made_of(made)})

    def worth_keeping(self) -> bool:
        """Return whether there is more than one chunk, so that deleting the folder would lose work."""
        return len(list(islice(self.folder.glob("*/*.zst"), 2))) > 1


@contextlib.contextmanager
def job_folder(
    output: str | Path,
    settings: Mapping[str, Any],
    plan: Plan,
    *,
    beside: Iterable[str] = (),
    overwrite: bool = False,
) -> Iterator[JobFolder | None]:
    """The folder for the chunks of an output; deleted if the block succeeds, kept if it is interrupted.

    Args:
        output: the file or folder to be made. Nothing is kept for a pipe (None).
        settings: all settings that the results depend on, besides the chunks' content; JSON-ready.
        plan: how the chunks are distributed.
        beside: other files that are made.
        overwrite: whether an earlier run's chunks may be deleted.

    Raises:
        PdtoolsError: if an earlier run left chunks and the plan does not resume it, or they were made
            with other settings, or another process is at work there, or a slice's output is a pipe.
    """
    if is_stream(output):
        if plan.slice is not None or plan.resume:
            option = "--resume" if plan.slice is None else "--shard"
            raise PdtoolsError(f"{option} needs a file to write: name one with -o")
        yield None
        return
    output = Path(output)
    folder = job_path(output)
    if plan.merging and not folder.is_dir():
        raise PdtoolsError(f"{folder}: no such folder: there are no chunks to merge")
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        reason = error.strerror or "no folder"
        raise PdtoolsError(
            f"{output}: no folder can be made beside it ({error.filename}: {reason}): choose another -o"
        ) from error
    with _alone(folder, plan.slice):
        if (folder / _JOB_FILE).exists():
            if not plan.resumes:
                if not overwrite and JobFolder(str(output), folder).worth_keeping():
                    raise PdtoolsError(
                        f"{folder}: an unfinished run (--resume continues it, --overwrite starts again)"
                    )
                read_job(folder)  # it is one
                check_all_ours(folder, _CONTENT)
                _empty(folder)
        elif _holds_others(folder) and not (folder / _JOB_FILE).exists():  # another slice's, by now
            raise PdtoolsError(f"{folder}: chunks would be kept there, but it holds something else")
        if plan.slice is None:
            _delete_stale(output, beside)
        _check_settings(output, settings)
        job = JobFolder(str(output), folder)
        new = [path for path in map(Path, beside) if not os.path.lexists(path)]
        try:
            with before_renaming(job.record):
                yield job
        except BaseException as error:
            if plan.slice is None and not plan.merging and not job.worth_keeping():
                for path in new:  # or the same command would find it in its way
                    path.unlink(missing_ok=True)
                _discard(folder)
            elif isinstance(error, PdtoolsError) and not plan.merging:
                error.args = (f"{error}; finished chunks are kept in {folder}: {plan.how_to_resume}",)
            raise
        _discard(folder)


def _holds_others(folder: Path) -> bool:
    """Return whether a folder holds files that no run leaves before its first chunk."""
    return holds_others(folder, _CONTENT) or not all(
        path.name.startswith((_LOCK, f".{_JOB_FILE}.")) for path in folder.iterdir()
    )


def finished(output: str | Path, beside: Iterable[str] = ()) -> bool:
    """Return whether a killed run had already made its output; if so, its left-over files are deleted.

    Args:
        output, beside: see :func:`job_folder`.

    Raises:
        PdtoolsError: if the run is still at work.
    """
    output = Path(output)
    folder = job_path(output)
    if not folder.exists():
        _delete_stale(output, beside)
    if not begun(output):
        return False
    try:
        with _alone(folder):
            made = read_job(folder).get("made")
            if not made or not _is_made(output, made):
                return False
            _discard(folder)
            _delete_stale(output, beside)
    except FileNotFoundError:  # the run has just come to its end
        return False
    return True


def is_to_replace(output: str | Path) -> bool:
    """Return whether the output's present file or folder was there when the unfinished run began."""
    return bool(read_job(job_path(output))["replaces"] == _identity(Path(output)))


def begun(output: str | Path) -> bool:
    """Return whether an unfinished run has left its folder."""
    return (job_path(output) / _JOB_FILE).exists()


@contextlib.contextmanager
def _alone(folder: Path, slice_: Slice | None = None) -> Iterator[None]:
    """Refuse a second run over the same chunks: of the same slice, or of all while a slice is at work."""
    with contextlib.ExitStack() as stack:
        if OPEN_FILES_STAY:
            stack.callback(_delete_locks, folder)  # when they are closed
        busy = f"{folder}: another process is at work there"
        stack.enter_context(locked(folder / _LOCK, busy, shared=slice_ is not None))
        if slice_ is not None:
            name = f"{_LOCK}-{slice_.number}-of-{slice_.of}"
            stack.enter_context(locked(folder / name, f"{busy}, on shard {slice_}"))
        yield


def _delete_locks(folder: Path) -> None:
    """Delete the lock files that :func:`_discard` had to leave on Windows, if it was called."""
    if not os.path.lexists(folder / _JOB_FILE):
        with contextlib.suppress(OSError):  # another process has them, or something else is there
            for path in folder.glob(f"{_LOCK}*"):
                path.unlink()
            folder.rmdir()


def _discard(folder: Path) -> None:
    """Delete a job's folder, atomically for other processes; files of others in it stay."""
    if OPEN_FILES_STAY or folder.is_symlink() or holds_others(folder, _CONTENT):
        _empty(folder)
        return
    gone = temporary_name(folder)
    with contextlib.suppress(FileNotFoundError):
        os.rename(folder, gone)
    shutil.rmtree(gone, ignore_errors=True)


def _empty(folder: Path) -> None:
    """Delete a run's files in a folder, except locks."""
    for name in reversed(list(paths_below(folder))):  # job.json at last
        path = folder / name
        if path.is_dir() and not path.is_symlink():
            with contextlib.suppress(OSError):  # it holds something else
                path.rmdir()
        elif _CONTENT.problem(name, folder) is None and not name.startswith(_LOCK):
            path.unlink()


def _delete_stale(output: Path, beside: Iterable[str]) -> None:
    """Delete temporary files that killed runs left beside their outputs."""
    for final in (output, job_path(output), *map(Path, beside)):
        remove_stale(final)


def _identity(path: Path) -> list[int] | None:
    """Identity of a file or folder (inode, time), to tell it from a replacement; None if it is missing."""
    try:
        status = os.lstat(path)
    except OSError:
        return None
    # A folder's own time changes with its content; the folder that replaces it is made while it exists.
    return [status.st_ino, 0 if stat.S_ISDIR(status.st_mode) else status.st_mtime_ns]


def _made_of(path: Path) -> dict[str, Any]:
    """The record that identifies an output: its files, or the SHA-256 of a folder's list of them."""
    return {MANIFEST: sha256_file(path / MANIFEST)} if (path / MANIFEST).is_file() else _files(path)


def _is_made(output: Path, made: dict[str, Any]) -> bool:
    """Return whether an output is the recorded one; further files in it may be from anyone."""
    if not isinstance(made.get(MANIFEST), str):
        return made.items() <= _files(output).items()
    manifest = read_manifest(output)
    return manifest is not None and made == _made_of(output) and manifest.is_as_written(output)


def _files(path: Path) -> dict[str, list[int]]:
    """Inode, size and time (ns) of a file (``.``), or of a folder's files by relative path."""
    found = {}
    for name in (".", *paths_below(path)):
        with contextlib.suppress(OSError):
            status = os.lstat(path / name)
            if stat.S_ISREG(status.st_mode):
                found[name] = [status.st_ino, status.st_size, status.st_mtime_ns]
    return found


def _check_settings(output: Path, settings: Mapping[str, Any]) -> None:
    """Record the settings that the chunks depend on, or compare them with the recorded ones."""
    wanted = json.loads(json.dumps({"pdtools": f"{__version__}, code {code_digest()}", **settings}))
    folder = job_path(output)
    path = folder / _JOB_FILE
    if not path.exists():
        job = {
            "format": FORMAT,
            "command": pinned(sys.argv[1:]),
            "folder": Path.cwd().as_posix(),  # Windows takes these too
            "output": Path(os.path.abspath(output)).as_posix(),
            "replaces": _identity(output),
            "settings": wanted,
        }
        write_json(path, job)
        return
    found = read_job(folder)["settings"]
    if found == wanted:
        return
    found, wanted = _by_model(found, wanted), _by_model(wanted, found)
    differing = sorted(
        key for key in wanted.keys() | found.keys() if wanted.get(key, folder) != found.get(key, folder)
    )
    what = ", ".join(
        f"{key} was {_shown(found.get(key))}, now {_shown(wanted.get(key))}" for key in differing
    )
    before = [_shown(found.get(key)) for key in differing]
    ways = [f"name {each} to go on" for each in before if each.startswith((PREFIX, DATA_PREFIX))]
    ways += ["resume with the code that began it"] if "pdtools" in differing else []
    again = ", or ".join([*ways, "delete it to start again"])
    raise PdtoolsError(f"{folder}: begun with other settings: {what} ({again})")


def _by_model(settings: Mapping[str, Any], other: Mapping[str, Any]) -> dict[str, Any]:
    """Settings by name, with the number of models, and those of each model that both have apart."""
    models, others = settings.get("models"), other.get("models")
    if not isinstance(models, list) or not isinstance(others, list):
        return {**settings}
    apart = {
        f"model {n}: {name}": value
        for n, (of, _) in enumerate(zip(models, others, strict=False), start=1)
        for name, value in of.items()
    }
    return {**settings, "models": len(models), **apart}


def _shown(value: Any) -> str:
    """A setting as text for a message: what is from the Hugging Face hub by its name and commit."""
    if isinstance(value, str) and value.startswith(DATA_PREFIX):
        return value
    return f"{PREFIX}{value['hub']}" if isinstance(value, dict) and "hub" in value else repr(value)


def read_job(folder: Path) -> dict[str, Any]:
    """Read ``job.json``: ``command`` (arguments), ``folder`` (working directory), ``output``,
    ``settings``, ``replaces`` (the earlier file or folder of the output's name; None: none), and once the
    output is whole ``made`` (its files, or the SHA-256 of their list).

    Raises:
        InputError: if there is none, or it is damaged.
    """
    path = folder / _JOB_FILE
    if not path.is_file():
        raise InputError("not an unfinished run of pdtools", file=folder, hint=f"no {_JOB_FILE} in it")
    job = read_json(path)
    if (
        not isinstance(job, dict)
        or job.get("format") != FORMAT
        or not isinstance(job.get("settings"), dict)
        or not isinstance(job.get("command"), list)
        # No argument and no path of a system holds a NUL.
        or not all(
            isinstance(text, str) and "\0" not in text
            for text in (*job["command"], job.get("folder"), job.get("output"))
        )
        or "replaces" not in job
        or not isinstance(job.get("made", {}), dict)
    ):
        raise InputError("damaged", file=path, hint=f"delete {folder} and start again")
    return job
