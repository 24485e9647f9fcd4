"""The folder beside an output that keeps finished pieces until the output is whole.

``OUTPUT.job/`` holds ``job.json`` (the command, and the settings that what is made depends on), and for each
pass over the input a folder of files ``00012-DIGEST.zst``: what became of piece 12, whose content has that
digest. A piece is used again only if its content is the same, so inputs may be mended between two runs.
"""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import sys
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pdtools import __version__
from pdtools.errors import InputError, PdtoolsError
from pdtools.files import atomic_path, is_stream, read_json, write_json
from pdtools.jobs.plan import Plan, Shard
from pdtools.locks import locked

FORMAT = "pdtools job"
_JOB_FILE = "job.json"


def job_path(output: str | Path) -> Path:
    """The folder that keeps the pieces of an output."""
    output = Path(output)
    return output.with_name(f"{output.name}.job")


@dataclass(frozen=True, slots=True)
class Pieces:
    """What became of the pieces of one pass; to be pickled to workers that see the same files."""

    folder: Path

    def path(self, number: int, digest: str) -> Path:
        """The file of a piece."""
        return self.folder / f"{number:05d}-{digest}.zst"

    def has(self, number: int, digest: str) -> bool:
        """Whether a piece is done."""
        return self.path(number, digest).is_file()

    def write(self, number: int, digest: str, data: bytes) -> None:
        """Keep what became of a piece; it is there whole or not at all."""
        import zstandard

        with atomic_path(self.path(number, digest)) as temporary:
            temporary.write_bytes(zstandard.ZstdCompressor(write_checksum=True).compress(data))

    def read(self, number: int, digest: str) -> bytes:
        """What became of a piece.

        Raises:
            InputError: if the file is damaged.
        """
        import zstandard

        path = self.path(number, digest)
        try:
            return zstandard.ZstdDecompressor().decompress(path.read_bytes())
        except zstandard.ZstdError as error:
            hint = "delete this file; --resume then does its piece again"
            raise InputError("a damaged piece of an unfinished run", file=path, hint=hint) from error


@dataclass(frozen=True, slots=True)
class JobFolder:
    """A run's pieces.

    Attributes:
        output: the file or folder that they will make.
        folder: where they are.
    """

    output: str
    folder: Path

    def pieces(self, name: str) -> Pieces:
        """Those of one pass over the input."""
        found = Pieces(self.folder / name)
        found.folder.mkdir(exist_ok=True)
        return found


@contextlib.contextmanager
def job_folder(
    output: str | Path, settings: Mapping[str, Any], plan: Plan, *, overwrite: bool = False
) -> Iterator[JobFolder | None]:
    """The folder for the pieces of an output; deleted if the block succeeds, kept if it is cut short.

    Args:
        output: the file or folder to be made. Nothing is kept of what goes to a pipe (None).
        settings: all that what is made depends on, besides the pieces' content; JSON-ready.
        plan: who does the pieces.
        overwrite: whether what an earlier run left may be thrown away.

    Raises:
        PdtoolsError: if an earlier run left pieces and the plan does not go on with them, or they were made
            with other settings, or another process is at work there, or a shard's output is a pipe.
    """
    if is_stream(output):
        if plan.shard is not None or plan.resume:
            option = "--resume" if plan.shard is None else "--shard"
            raise PdtoolsError(f"{option} needs a file to write: name one with -o")
        yield None
        return
    folder = job_path(output)
    left = folder.exists()
    if left and overwrite and plan.shard is None and not plan.resume:
        with _alone(folder):
            shutil.rmtree(folder)
        left = False
    if left and not plan.resume and plan.shard is None and not plan.merging:
        raise PdtoolsError(
            f"{folder}: an unfinished run (--resume goes on with it, --overwrite starts from the beginning)"
        )
    if plan.merging and not left:
        raise PdtoolsError(f"{folder}: no such folder: there are no pieces to merge")
    folder.mkdir(parents=True, exist_ok=True)
    with _alone(folder, plan.shard):
        _check_settings(folder, settings)
        try:
            yield JobFolder(str(output), folder)
        except BaseException:
            if not any(folder.glob("*/*.zst")) and plan.shard is None:
                shutil.rmtree(folder)  # nothing is lost
            raise
        shutil.rmtree(folder)


@contextlib.contextmanager
def _alone(folder: Path, shard: Shard | None = None) -> Iterator[None]:
    """Refuse a second run over the same pieces: of the same shard, or of all while a shard is at work."""
    with contextlib.ExitStack() as stack:
        busy = f"{folder}: another process is at work there"
        stack.enter_context(locked(folder / "lock", busy, shared=shard is not None))
        if shard is not None:
            name = f"lock-{shard.number}-of-{shard.of}"
            stack.enter_context(locked(folder / name, f"{busy}, on shard {shard}"))
        yield


def _check_settings(folder: Path, settings: Mapping[str, Any]) -> None:
    """Write down what the pieces depend on, or compare it with what is written."""
    wanted = json.loads(json.dumps({"pdtools": __version__, **settings}))
    path = folder / _JOB_FILE
    if not path.exists():
        write_json(
            path,
            {"format": FORMAT, "command": sys.argv[1:], "folder": os.getcwd(), "settings": wanted},
        )
    found = read_job(folder)["settings"]
    differing = sorted(
        key for key in wanted.keys() | found.keys() if wanted.get(key, folder) != found.get(key, folder)
    )
    if differing:
        what = ", ".join(f"{key} was {found.get(key)!r}, now {wanted.get(key)!r}" for key in differing)
        raise PdtoolsError(f"{folder}: begun with other settings: {what} (--overwrite starts again)")


def read_job(folder: Path) -> dict[str, Any]:
    """What ``job.json`` says: ``command`` (arguments), ``folder`` (where it was called), ``settings``.

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
        or not isinstance(job.get("folder"), str)
    ):
        raise InputError("damaged", file=path, hint=f"delete {folder} and start again")
    return job
