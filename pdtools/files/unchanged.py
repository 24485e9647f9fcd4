"""Checks of input files: that they are there, and unchanged until the output made of them is complete."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterable, Iterator
from contextvars import ContextVar
from pathlib import Path

from pdtools.errors import InputError
from pdtools.files.source import source_of
from pdtools.files.system import recover_directory

# Files that identify a folder: a checkpoint, a Hugging Face model, or a set of shards.
_IDENTIFYING = ("config.json", "model.safetensors", "pytorch_model.bin", "tokenizer.json", "manifest.json")
IS_POINTER = b"version https://git-lfs.github.com/spec/"  # the beginning of a pointer of Git LFS
NO_FILE = "git lfs pull, in its repository, brings the file itself"
# The weights of large Hugging Face models, in several files.
_PARTS = ("model-*-of-*.safetensors", "pytorch_model-*-of-*.bin")


def input_folder(path: str | Path) -> Path:
    """The folder actually read for a path: the best checkpoint of a run, as for ``--model``."""
    path = Path(path)
    best = path / "best"
    for folder in (path, best):
        recover_directory(folder)
    return best if best.is_dir() else path


def identifying_files(folder: Path) -> list[Path]:
    """The files that identify a checkpoint, model or set of shards; none in another folder."""
    files = [folder / name for name in _IDENTIFYING if (folder / name).is_file()]
    return files + [file for parts in _PARTS for file in sorted(folder.glob(parts))]


def check_no_pointers(folder: str | Path) -> None:
    """Refuse a model's folder in which Git LFS has put pointers in place of files.

    Raises:
        InputError: naming the first.
    """
    for file in identifying_files(Path(folder)):
        if source_of(file).head(len(IS_POINTER)) == IS_POINTER:
            raise InputError("a Git LFS pointer, not the file itself", file=file, hint=NO_FILE)


def input_files(path: str | Path) -> list[Path]:
    """The files by which an input is checked: itself, a folder's identifying files, or all of its files."""
    place = input_folder(path)
    if not place.is_dir():
        return [place]
    return identifying_files(place) or sorted(file for file in place.rglob("*") if file.is_file())


class Unchanged:
    """Files with their state (inode, size, time) when they were added.

    Args:
        paths: files and folders; for folders, :func:`input_files`. Streams cannot change.
    """

    def __init__(self, paths: Iterable[str | Path] = ()) -> None:
        self._noted: dict[Path, tuple[int, ...] | None] = {}
        self.add(paths)

    def add(self, paths: Iterable[str | Path]) -> None:
        """Record the state of more files."""
        for path in paths:
            for place in source_of(path).paths:
                for file in input_files(place):
                    self._noted.setdefault(file, _state(file))

    def check(self) -> None:
        """Compare all files with their recorded state.

        Raises:
            InputError: naming the first that was written to, replaced or deleted since.
        """
        for file, noted in self._noted.items():
            if noted is not None and _state(file) != noted:
                raise InputError(
                    "changed while the command was running: what was made of it is not kept",
                    file=file,
                    hint="run the command again",
                )


def _state(file: Path) -> tuple[int, ...] | None:
    try:
        status = os.stat(file)
    except OSError:
        return None
    return status.st_dev, status.st_ino, status.st_size, status.st_mtime_ns


_inputs: ContextVar[Unchanged | None] = ContextVar("inputs", default=None)


@contextlib.contextmanager
def unchanged_inputs() -> Iterator[None]:
    """Check during and after the block that no input of :func:`watch_inputs` has changed.

    No output appears if one has, and at the end it is an error.
    """
    token = _inputs.set(Unchanged())
    try:
        yield
        check_inputs()
    except SystemExit as end:  # how commands end, also where all went well
        if not end.code:
            check_inputs()
        raise
    finally:
        _inputs.reset(token)


def watch_inputs(paths: Iterable[str | Path]) -> None:
    """Record inputs of the running command; does nothing outside of :func:`unchanged_inputs`."""
    if (noted := _inputs.get()) is not None:
        noted.add(paths)


def check_inputs() -> None:
    """Raise an InputError if a watched input has changed."""
    if (noted := _inputs.get()) is not None:
        noted.check()
