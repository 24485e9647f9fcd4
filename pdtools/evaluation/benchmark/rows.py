"""The rows of a benchmark's files: tables, JSON and text, in folders and zip archives."""

from __future__ import annotations

import re
import sys
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from fnmatch import fnmatchcase
from itertools import count, islice
from pathlib import Path, PurePosixPath
from typing import Any

from pdtools.errors import InputError, PdtoolsError
from pdtools.evaluation.benchmark.definition import KINDS, Benchmark, Rows
from pdtools.evaluation.benchmark.readers import READERS
from pdtools.evaluation.benchmark.templates import Cells, Template
from pdtools.files import decode_utf8, is_stream, read_bytes, read_lines
from pdtools.files.inputs import parse_json, read_json_lines
from pdtools.files.packed import SUFFIX, ending, has_ending, is_data, plain_name
from pdtools.files.source import ZipMember
from pdtools.files.tables import Delimited, by_column, parquet_rows
from pdtools.files.workbooks import workbook_rows

_SHOWN = 3
_OF_ASCII = re.compile(r"\\[wWbB]")


@dataclass(frozen=True, slots=True)
class Row:
    """The cells of a line, or of several that make an item, by column, and their place.

    A blank line has no cells.
    """

    file: str
    line: int
    cells: Cells


@dataclass(frozen=True, slots=True)
class DataFile:
    """A file, and its whole path."""

    name: str
    path: PurePosixPath

    @property
    def columns(self) -> dict[str, str]:
        """The cells that every row of the file has: file (its name without its ending) and dir."""
        return {"file": self.path.stem, "dir": self.path.parent.name}

    def is_called(self, pattern: str) -> bool:
        """Return whether the end of the path is of this form, part by part, in any case.

        Unlike ``PurePath.match`` of Python 3.13, it takes linear time for any pattern.
        """
        parts = PurePosixPath(pattern.lower()).parts
        ending = PurePosixPath(str(self.path).lower()).parts[-len(parts) :]
        return len(ending) == len(parts) and all(map(fnmatchcase, ending, parts))


def data_files(source: str | Path, benchmark: Benchmark) -> list[DataFile]:
    """The files of a benchmark in a folder or zip archive, by name; a single file is taken itself.

    Raises:
        InputError: if there are none, or two with the same name.
    """
    if is_stream(source):
        return [DataFile(str(source), PurePosixPath("stdin"))]
    path = Path(source)
    if not path.exists():
        raise InputError("no such file or folder", file=source)
    if path.is_dir():
        found = sorted(each for each in path.rglob("*") if each.is_file())
        names = [str(each) for each in found if is_data(each.relative_to(path).as_posix())]
    elif has_ending(path, SUFFIX):
        names = [each for each in ZipMember.within(str(source), ("",), sys.maxsize) if each[-1] != "/"]
    else:
        return [DataFile(str(source), _path(source))]
    patterns = benchmark.files or tuple(f"*.{kind}" for kind in KINDS)
    every = [DataFile(name, _path(name)) for name in names]
    wanted = [each for each in every if any(each.is_called(one) for one in patterns)]
    if not wanted:
        there = ", ".join(names[:_SHOWN]) + ", …" * (len(names) > _SHOWN)
        hint = f"they are called {', '.join(patterns)}; there are: {there or 'none'}"
        raise InputError(f"no files of {benchmark.title} in it", file=source, hint=hint)
    if benchmark.files:
        depth = max(len(PurePosixPath(each).parts) for each in patterns)
        tails = [each.path.parts[-depth:] for each in wanted]
        if twice := next((tail for tail, times in Counter(tails).items() if times > 1), None):
            one, other, *_ = (each for each, tail in zip(wanted, tails, strict=True) if tail == twice)
            reason = f"two sets in it: {one.name} and {other.name}"
            raise InputError(reason, file=source, hint="name the folder of one, or unpack the archive")
    return wanted


def _path(name: str | Path) -> PurePosixPath:
    """The whole path of a file, without a compression suffix."""
    return PurePosixPath(plain_name(Path(name).absolute().as_posix()))


def items_of(file: DataFile, benchmark: Benchmark, notes: list[str] | None = None) -> Iterator[Row]:
    """The items of a file: its rows, or groups of rows.

    Args:
        file: one of :func:`data_files`.
        benchmark: its definition.
        notes: takes doubts about the file's form, a line each; None: they are not kept.

    Raises:
        InputError: for unreadable files, and rows that do not make an item.
    """
    columns = file.columns
    groups = {} if benchmark.path is None else path_groups(file, benchmark.path)
    lines = (
        READERS[benchmark.reader](file.name)
        if benchmark.reader
        else table_rows(file.name, benchmark.form, notes)
    )
    numbers = count(1)
    rows = (
        Row(
            file.name,
            line,
            {**columns, "row": str(next(numbers)), **cells, **groups} if cells else {},
        )
        for line, cells in lines
    )
    return (
        (row for row in rows if row.cells) if benchmark.rows is None else _joined_rows(rows, benchmark.rows)
    )


def path_groups(file: DataFile, pattern: str) -> dict[str, str]:
    """The groups of a pattern in a file's path.

    The pattern may be anybody's: RE2 takes linear time for any, unlike Python's own module.

    Raises:
        InputError: if the path is not of this form, or RE2 cannot read the pattern.
    """
    import pyarrow as pa
    import pyarrow.compute as pc

    path = str(file.path)
    if not path.isascii() and _OF_ASCII.search(pattern):
        reason = f"{pattern}: RE2's \\w, \\b know only ASCII, and the path has other letters"
        raise InputError(reason, file=file.name, hint="name the characters: [^/]")
    try:
        found = pc.extract_regex(pa.scalar(path), pattern).as_py()
    except pa.ArrowInvalid as error:
        hint = "groups without a name are written (?:...); there is no lookaround, no backreference"
        raise InputError(f"path {pattern}: {error}", file=file.name, hint=hint) from error
    if found is None:
        raise InputError(f"its path is not of the form {pattern}", file=file.name)
    return dict(found)


def _joined_rows(rows: Iterator[Row], form: Rows) -> Iterator[Row]:
    """The rows of each item as one, as soon as all are there."""
    names, size = list(form.roles), form.every or len(form.roles)
    pending: dict[str, dict[str, Row]] = {}
    number = 0
    for row in rows:
        if not row.cells:
            if form.by is None and pending:
                raise InputError("a blank line between the rows of an item", file=row.file, line=row.line)
            continue
        key = str(number // size + 1) if form.by is None else write(form.by, row)
        name = names[number % size] if form.role is None else _role(row, form)
        number += 1
        group = pending.setdefault(key, {})
        if name in group:
            raise InputError(f"a second {name} of the item {key}", file=row.file, line=row.line)
        group[name] = row
        if len(group) == size:
            yield _joined(pending.pop(key))
    for group in pending.values():
        first = next(iter(group.values()))
        lacking = ", ".join(name for name in names if name not in group)
        others = f", nor have {len(pending) - 1} others theirs" if len(pending) > 1 else ""
        raise InputError(f"an item without {lacking}{others}", file=first.file, line=first.line)


def _role(row: Row, form: Rows) -> str:
    assert form.role is not None
    value = write(form.role, row)
    for name, wanted in form.roles.items():
        if value == wanted:
            return name
    known = ", ".join(form.roles.values())
    raise InputError(f"{form.role.text} is {value!r}, not one of {known}", file=row.file, line=row.line)


def _joined(group: Mapping[str, Row]) -> Row:
    """Merge rows: columns with the row's name before them (``good.text``), the first row's also without."""
    first = min(group.values(), key=lambda row: row.line)
    cells = {f"{name}.{column}": value for name, row in group.items() for column, value in row.cells.items()}
    return Row(first.file, first.line, {**first.cells, **cells})


def write(template: Template, row: Row) -> str:
    """Fill in a template with a row.

    Raises:
        InputError: with the row's place.
    """
    try:
        return template.write(row.cells)
    except PdtoolsError as error:
        raise InputError(str(error), file=row.file, line=row.line) from None


# --- files to rows ----------------------------------------------------------------------------


def table_rows(
    name: str, form: Mapping[str, Any], notes: list[str] | None = None
) -> Iterator[tuple[int, Cells]]:
    """The lines of a file with their numbers: values by column, which are 1, 2, … without a header.

    A blank line is empty.

    Args:
        name: a file.
        form: see :class:`Benchmark`; by default determined by the file's ending.
        notes: see :func:`items_of`.

    Raises:
        InputError: for a file that cannot be read, or a line that does not fit the header.
    """
    kind = form.get("kind") or ending(name)[1:]
    if kind not in KINDS:
        kind = "tsv" if form.get("delimiter") else "txt"
    if kind in ("jsonl", "json"):
        return _json_rows(name, lines=kind == "jsonl")
    if kind == "parquet":
        return parquet_rows(name)
    if kind == "xlsx":
        return by_column(enumerate(workbook_rows(name)[0], start=1), name, blanks=True)
    if kind == "txt" and not {"delimiter", "header"} & form.keys():
        lines = islice(read_lines(name), form.get("skip", 0), None)
        return ((number, {"1": line} if line.strip() else {}) for number, line in lines)
    delimited = Delimited(
        name, kind, delimiter=form.get("delimiter"), quoted=form.get("quote"), skip=form.get("skip", 0)
    )
    if delimited.doubt and notes is not None:
        notes.append(f"{name}: {delimited.doubt}")
    return by_column(iter(delimited), name, header=form.get("header", kind != "txt"), blanks=True)


def _json_rows(name: str, *, lines: bool) -> Iterator[tuple[int, Cells]]:
    found: Iterable[tuple[int, Any]]
    if lines:
        found = read_json_lines(name)
    else:
        data = parse_json(decode_utf8(read_bytes(name), name), name)
        if not isinstance(data, list):
            hint = 'objects on lines of their own are read with form = {kind = "jsonl"}'
            raise InputError("not a list of objects", file=name, hint=hint)
        found = enumerate(data, start=1)
    for number, value in found:
        if not isinstance(value, dict):
            raise InputError("not a JSON object", file=name, line=number)
        yield number, value
