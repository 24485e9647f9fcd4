"""Data sets of the Hugging Face hub, or folders in their form, as sources of text: each row is a line.

A data set of the hub is read as a stream, at one commit. Rows that were read are kept beside the chunks of an
output, with the place where reading goes on: a resumed run asks the hub only for the rows after these.
"""

from __future__ import annotations

import hashlib
import json
import logging
import os
import re
from collections.abc import Generator, Iterator
from contextlib import ExitStack, closing
from dataclasses import dataclass
from functools import cached_property
from importlib.util import find_spec
from itertools import count
from pathlib import Path
from typing import IO, Any

from pdtools.errors import InputError, MissingDependencyError
from pdtools.files.source import Source, stream_of
from pdtools.provenance.hub import DATA_PREFIX, RESOLVED, commit_of, explained, first_line

_FORMS = f"write {DATA_PREFIX}NAME[@REVISION][/CONFIG]:SPLIT:COLUMN, where NAME is OWNER/NAME or a folder"
_OF_HUB = re.compile(  # without an owner, datasets takes some names for kinds of files: json, text
    r"(\w[\w.-]*/\w[\w.-]*)(?:@(refs/convert/\w+|refs/pr/\d+|[^\s/@]+))?(?:/([^\s/@]+))?", re.ASCII
)
_COMMIT = re.compile(r"[0-9a-f]{40}")
_TEXTS = ("string", "large_string", "string_view", "null")  # null: all cells that were looked at are empty
# Rows that are kept together: so many, or so many characters of them.
_ROWS, _CHARACTERS = 1024, 1 << 22


@dataclass(frozen=True, slots=True)
class _Parts:
    """The parts of a name; ``data`` is a repository or a folder."""

    data: str
    revision: str | None
    config: str | None
    split: str
    column: str


class DataSet(Source):
    """A column of a data set."""

    is_read_once = False
    is_far = True

    @cached_property
    def parts(self) -> _Parts:
        """The parts of the name.

        Raises:
            InputError: if it is no name of a data set.
        """
        place, *rest = self.removeprefix(DATA_PREFIX).rsplit(":", 2)
        if len(rest) == 2 and all((place, *rest)):
            folder, match = Path(place), _OF_HUB.fullmatch(place)
            if folder.is_dir():
                return _Parts(place, None, None, *rest)
            if len(folder.parts) > 1 + (match is not None) and folder.parent.is_dir():
                return _Parts(str(folder.parent), None, folder.name, *rest)
            if match is not None:
                return _Parts(*match.groups(), *rest)
        raise InputError("not a data set", file=self, hint=_FORMS)

    @property
    def paths(self) -> list[Path]:
        """The folder; nothing for a data set of the hub, which is read at one commit."""
        return [Path(self.parts.data)] if Path(self.parts.data).is_dir() else []

    def check(self) -> DataSet:
        """The data set at a commit, if it is of the hub.

        Raises:
            InputError: if there is no such data set or revision, or the hub cannot be reached.
            MissingDependencyError: without the package ``datasets``.
        """
        if find_spec("datasets") is None:
            raise MissingDependencyError("datasets", "data")
        parts = self.parts
        if self.paths or _COMMIT.fullmatch(parts.revision or ""):
            return self
        config = f"/{parts.config}" if parts.config else ""
        place = f"{parts.data}@{commit_of(parts.data, parts.revision, self)}{config}"
        RESOLVED[self] = f"{DATA_PREFIX}{place}:{parts.split}:{parts.column}"
        return DataSet(RESOLVED[self])

    def identify(self) -> dict[str, Any]:
        """The name, and the commit on the hub; or the SHA-256 of the folder."""
        if self.paths:
            return {**Source(self.parts.data).identify(), "path": str(self)}
        pinned = DataSet(RESOLVED[self]) if self in RESOLVED else self.check()
        return {"path": str(self), "hub": f"{self.parts.data}@{pinned.parts.revision}"}

    @property
    def version(self) -> str:
        """See :class:`Source`."""
        found = self.identify()
        return f"folder {self.parts.data}, sha256 {found['sha256'][:16]}" if self.paths else str(self)

    def _open(self, stack: ExitStack) -> IO[bytes]:
        return stack.enter_context(stream_of(self._lines()))

    def _lines(self) -> Generator[bytes]:
        """The rows, each as a line.

        Raises:
            InputError: for a cell without text, or with a line break inside.
        """
        with closing(self._cells()) as cells:
            for number, cell in enumerate(cells, start=1):
                if cell is None:
                    raise InputError("an empty cell (null), not text", file=self, line=number)
                text = cell.removesuffix("\n").removesuffix("\r")
                if "\n" in text:
                    hint = "a row is read as a line of a file is"
                    raise InputError("a line break inside a cell", file=self, line=number, hint=hint)
                yield text.encode("utf-8", "surrogatepass") + b"\n"

    def _cells(self) -> Generator[str | None]:
        """The cells: kept ones, and from the first row that is not kept those of the data set."""
        digest = hashlib.blake2b(self.version.encode(), digest_size=8).hexdigest()
        data, state, n_rows = None, None, 0
        with ExitStack() as stack:
            for number in count():
                if data is None and self.kept is not None and self.kept.has(number, digest):
                    try:
                        found = json.loads(self.kept.read(number, digest))
                        cells, state = found["cells"], found["state"]
                    except (ValueError, KeyError, TypeError) as error:
                        raise self.kept.damaged(number, digest) from error
                else:
                    if data is None:
                        data = self._loaded()
                        if state is not None:
                            data.load_state_dict(state)
                        rows = stack.enter_context(closing(iter(data)))
                    cells = self._some(rows, n_rows)
                    if self.kept is not None:
                        kept = {"cells": cells, "state": data.state_dict()}
                        self.kept.write(number, digest, json.dumps(kept).encode("ascii"))
                n_rows += len(cells)
                yield from cells
                if not cells:
                    return

    def _some(self, rows: Iterator[dict[str, Any]], n_read: int) -> list[str | None]:
        """The cells of the next rows; none at the end."""
        cells: list[str | None] = []
        size = 0
        while len(cells) < _ROWS and size < _CHARACTERS:
            try:
                row = next(rows, None)
            except Exception as error:  # errors of the network, and of every reader of files
                reason = f"cannot be read after row {n_read + len(cells)}: {first_line(error)}"
                raise InputError(reason, file=self) from error
            if row is None:
                break
            cells.append(self._cell(row))
            size += len(cells[-1] or "")
        return cells

    def _cell(self, row: dict[str, Any]) -> str | None:
        """The cell of a row; the form of a data set without a description shows only here."""
        column = self.parts.column
        if column not in row:
            raise InputError(f"no column {column}: there are {', '.join(row)}", file=self)
        if not isinstance(cell := row[column], (str, type(None))):
            raise InputError(f"the column {column} is no text ({type(cell).__name__})", file=self)
        return cell

    def _loaded(self) -> Any:
        """The data set, as a stream of rows with this column.

        Raises:
            InputError: if it cannot be read, or has no such configuration, split, or column of text.
        """
        import datasets

        parts = self.parts
        datasets.disable_progress_bars()
        datasets.logging.set_verbosity(logging.CRITICAL)
        data, revision = parts.data, None if self.paths else self.check().parts.revision
        if self.paths:
            data = os.path.abspath(data)  # a relative name may be one of datasets' own
        with explained(self, parts.revision, "data set"):
            try:
                splits = datasets.load_dataset(data, parts.config, revision=revision, streaming=True)
            except FileNotFoundError as error:
                raise InputError("no files of data in it (.parquet, .jsonl, .csv)", file=self) from error
            except ValueError as error:
                names = datasets.get_dataset_config_names(data, revision=revision)
                if parts.config in names:
                    raise InputError(first_line(error), file=self) from error
                reason = f"no configuration {parts.config}" if parts.config else "it has configurations"
                raise InputError(f"{reason}: there are {', '.join(names)}", file=self, hint=_FORMS) from error
        if parts.split not in splits:
            raise InputError(f"no split {parts.split}: there are {', '.join(splits)}", file=self)
        found = splits[parts.split]
        if found.features is None:
            return found
        self._cell(dict.fromkeys(found.features))
        kind = getattr(found.features[parts.column], "dtype", type(found.features[parts.column]).__name__)
        if kind not in _TEXTS:
            raise InputError(f"the column {parts.column} is no text ({kind})", file=self)
        return found.select_columns([parts.column])


SOURCE = DataSet
