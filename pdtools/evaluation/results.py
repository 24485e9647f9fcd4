"""The output of an evaluation: ``results.json`` and ``items.parquet``."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar, cast

from pdtools.errors import InputError
from pdtools.evaluation.record import (
    COUNT,
    FLAG,
    NUMBER,
    OBJECT,
    OBJECT_OR_NULL,
    READ_OF_ITEMS,
    READ_OF_ITSELF,
    SCORE,
    SOME_STRINGS,
    STRING,
    STRINGS,
    Evaluation,
    evaluations,
)
from pdtools.files import (
    REJECTS_FILE,
    Kind,
    atomic_directory,
    check_kind,
    read_json,
    recover_directory,
    write_json,
)
from pdtools.files.tables import parquet_errors

if TYPE_CHECKING:
    import pyarrow as pa

    from pdtools.files import Rejects

T = TypeVar("T")
Progress = Callable[[Iterator[Any], "int | None"], Iterator[Any]]
"""Passes an iterator of so many items (None: unknown) through, and shows its progress."""

RESULTS = "results.json"
ITEMS, STRINGS_TABLE = "items", "strings"
FORMAT = 3
"""The form of ``results.json``: documents of another are refused."""
_LARGEST = 1e300


class Batches:
    """A table that grows batch by batch; the batches are kept packed, in little memory.

    Args:
        schema: the schema of all batches.
    """

    def __init__(self, schema: pa.Schema) -> None:
        self.schema = schema
        self._packed: list[pa.Buffer] = []

    def append(self, rows: Sequence[tuple[Any, ...]]) -> None:
        """Add rows, each with a value for every column."""
        import pyarrow as pa

        if not rows:
            return
        columns = zip(zip(*rows, strict=True), self.schema.types, strict=True)
        sink = pa.BufferOutputStream()
        packed = pa.ipc.IpcWriteOptions(compression="zstd")
        with pa.ipc.new_stream(sink, self.schema, options=packed) as stream:
            stream.write_batch(pa.record_batch([pa.array(*each) for each in columns], schema=self.schema))
        self._packed.append(sink.getvalue())

    def __iter__(self) -> Iterator[pa.RecordBatch]:
        import pyarrow as pa

        for packed in self._packed:
            with pa.ipc.open_stream(packed) as stream:
                yield from stream

    def table(self) -> pa.Table:
        """The table of all rows."""
        import pyarrow as pa

        return pa.Table.from_batches(self, self.schema)


@dataclass(frozen=True, kw_only=True)
class Results:
    """The results of an evaluation: the content of ``results.json``, and its tables.

    Attributes:
        scores: by name; None if there was nothing to score.
        counts: numbers of items by kind.
        settings: the evaluation's settings and units.
        tables: ``items`` (one row per item, or prediction of it) and further ones, each a Parquet file.
        record: the evaluation's record; by default the one that ``settings.task`` names.
    """

    scores: dict[str, Any]
    counts: dict[str, Any]
    settings: dict[str, Any]
    tables: Mapping[str, pa.Table | Batches] = field(default_factory=dict)
    record: Evaluation | None = None

    @property
    def evaluation(self) -> Evaluation | None:
        """The evaluation's record; None: not known."""
        return self.record or evaluations().get(self.settings.get("task", ""))

    def table(self, name: str) -> pa.Table:
        """One of the tables, with all rows."""
        table = self.tables[name]
        return table.table() if isinstance(table, Batches) else table

    def document(self, provenance: Mapping[str, Any]) -> dict[str, Any]:
        """The JSON document.

        Keys:
            format: 3; results with another number are refused.
            scores: accuracies are fractions of 1, bracketing scores percentages.
            counts: excluded items, ties, unknown words; ``dropped`` has mean and maximum.
            settings: beam, end-of-sentence, text style; ``unit`` of the scores; ``log_base`` of all
                logarithms: ``nats``, or ``bits`` for items and strings.
            evaluation: how ``compare`` and ``view`` read the results.
            provenance: command, versions, hardware, SHA-256 of model and data; ``code`` has ``version``, git
                ``commit`` and ``modified`` (null if unknown), in ``run.json`` also ``digest``.
        """
        document: dict[str, Any] = {
            "format": FORMAT,
            "scores": self.scores,
            "counts": self.counts,
            "settings": self.settings,
        }
        if (record := self.evaluation) is not None:
            with contextlib.suppress(InputError):  # a document may lack entries that records read
                check_values(document, record.read, RESULTS, optional=record.may_be_missing)
                document["evaluation"] = record.as_data(document)
        return {**document, "provenance": dict(provenance)}


def write_results(
    folder: str | Path,
    results: Results,
    provenance: Mapping[str, Any],
    *,
    rejects: Rejects | None = None,
    overwrite: bool = False,
) -> None:
    """Write a results folder; it appears whole or not at all.

    Args:
        folder: the folder to be made.
        results: scores and tables.
        provenance: the command that made them, with its inputs.
        rejects: excluded inputs, as ``rejects.jsonl``.
        overwrite: whether the folder may exist.

    Raises:
        PdtoolsError: if the folder exists and may not be overwritten.
    """
    import pyarrow as pa
    import pyarrow.parquet as pq

    document = results.document(provenance)
    command = provenance["command"][1:2] if "command" in provenance else []
    kind = f"results of {command[0]}" if command and command[0].startswith("eval-") else "results"
    with atomic_directory(folder, kind=kind, overwrite=overwrite) as temporary:
        write_json(temporary / RESULTS, document)
        if rejects is not None:
            rejects.write(temporary / REJECTS_FILE)
        for name, table in results.tables.items():
            # A path as bytes: pyarrow takes no others in folders whose names are not UTF-8.
            with pa.OSFile(os.fsencode(temporary / f"{name}.parquet"), "wb") as file:
                if isinstance(table, Batches):
                    with pq.ParquetWriter(file, table.schema, compression="zstd") as writer:
                        for batch in table:
                            writer.write_batch(batch)
                else:
                    pq.write_table(table, file, compression="zstd")


def read_results(folder: str | Path) -> tuple[dict[str, Any], pa.Table]:
    """Read a results folder: the JSON document and the table of items.

    Raises:
        InputError: if one of the two is missing or damaged.
    """
    return read_document(folder), read_items_table(folder)


def read_items_table(folder: str | Path, columns: Collection[str] | None = None) -> pa.Table:
    """The table of items of a results folder.

    Args:
        folder: an evaluation's results folder.
        columns: the wanted columns, as far as they exist. None: all.

    Raises:
        InputError: if it is missing or damaged.
    """
    items = read_table(folder, ITEMS, columns)
    if items is None:
        raise InputError(f"no {ITEMS}.parquet in it", file=folder)
    return items


def read_document(folder: str | Path) -> dict[str, Any]:
    """Read ``results.json`` of a results folder.

    Raises:
        InputError: if it is missing or damaged.
    """
    folder = Path(folder)
    recover_directory(folder)
    if not (folder / RESULTS).is_file():
        check_kind(folder, Kind.RESULTS)
        if not folder.exists():
            raise InputError("no such folder", file=folder, hint="the folder after -o of an evaluation")
        raise InputError(f"no {RESULTS} in it: not a folder of results", file=folder)
    document = read_json(folder / RESULTS)
    _check_shape(document, folder / RESULTS)
    return cast("dict[str, Any]", document)


def read_table(folder: str | Path, name: str, columns: Collection[str] | None = None) -> pa.Table | None:
    """One of the tables of a results folder; None if it has none of this name.

    Args:
        folder: an evaluation's results folder.
        name: without ``.parquet``.
        columns: the wanted columns, as far as they exist. None: all.

    Raises:
        InputError: if it is damaged.
    """
    import pyarrow as pa
    import pyarrow.parquet as pq

    path = Path(folder) / f"{name}.parquet"
    if not path.exists():
        return None
    with parquet_errors(path), pa.OSFile(os.fsencode(path)) as file:
        table = pq.ParquetFile(file)
        names = table.schema_arrow.names
        return table.read([name for name in names if columns is None or name in columns])


def _check_shape(document: Any, file: Path) -> None:
    """Refuse a document that is not in the form of results, as far as it is read."""
    if not isinstance(document, dict):
        raise InputError("not results of an evaluation: no JSON object", file=file)
    for name in ("scores", "counts", "settings"):
        if not isinstance(document.get(name), dict):
            raise InputError(f"not results of an evaluation: no object {name!r}", file=file)
    if document.get("format") != FORMAT:
        hint = "the evaluation has to be run again"
        raise InputError(f"results of another version of pdtools: no format {FORMAT}", file=file, hint=hint)
    task = document["settings"].get("task")
    if not isinstance(task, str):
        raise InputError("not results of an evaluation: settings.task is no string", file=file)
    if (record := evaluations().get(task)) is not None:
        check_values(document, record.read, file, optional=record.may_be_missing)
    elif "evaluation" in document:
        data = document["evaluation"]
        has_items = isinstance(data, dict) and data.get("items") is not None
        check_values(document, READ_OF_ITSELF | (READ_OF_ITEMS if has_items else {}), file, optional=" ")


def check_values(
    document: Any, kinds: Mapping[str, str], file: str | Path, *, what: str = "results", optional: str = ""
) -> None:
    """Refuse a document some of whose values are not of the required kind.

    Args:
        document: any JSON.
        kinds: the kinds of values at these paths, with dots; ``*`` is any name: see
            :mod:`pdtools.evaluation.record`.
        file: the file to name.
        what: the document's name in messages.
        optional: prefix of paths that may be missing; by default all.

    Raises:
        InputError: naming the first of them.
    """
    for path, kind in kinds.items():
        for value in _values(document, path.split(".")):
            missing = value is _MISSING and path.startswith(optional)
            if not missing and not _is_kind(value, kind):
                raise InputError(f"damaged {what}: {path} has to be {kind}", file=file)


def check_columns(
    items: pa.Table, columns: Mapping[str, str], folder: str | Path, *, what: str = "items"
) -> None:
    """Refuse a table of items whose columns are not in an evaluation's form.

    Args:
        items: the table from :func:`read_results`.
        columns: the required content of each: ``strings``, ``integers``, ``names`` (one of these two),
            ``numbers``, ``booleans`` or ``tokens`` (lists of tokens with their surprisals).
        folder: the folder to name.
        what: the name of the table's rows.

    Raises:
        InputError: for a column that is missing, is there twice, or holds values of another kind.
    """
    import pyarrow as pa

    types = pa.types
    is_type: dict[str, Callable[[pa.DataType], bool]] = {
        "strings": lambda found: types.is_string(found) or types.is_large_string(found),
        "integers": types.is_integer,
        "names": lambda found: is_type["strings"](found) or types.is_integer(found),
        "numbers": lambda found: types.is_integer(found) or types.is_floating(found),
        "booleans": types.is_boolean,
        "tokens": lambda found: (
            types.is_list(found)
            and types.is_struct(found.value_type)
            and {"token", "bits"} <= {field.name for field in found.value_type}
        ),
    }
    if missing := [name for name in columns if items.column_names.count(name) != 1]:
        raise InputError(f"{what} without a column {', '.join(missing)}", file=folder)
    for name, kind in columns.items():
        found = items.schema.field(name).type
        if not (is_type[kind](found) or types.is_null(found)):
            raise InputError(f"{what}: column {name} holds {found}, not {kind}", file=folder)


_MISSING = object()


def _values(value: Any, path: list[str]) -> Iterator[Any]:
    """Every value at a path; ``_MISSING`` if it ends before."""
    if not path:
        yield value
    elif not isinstance(value, dict):
        yield _MISSING
    else:
        for name in list(value) if path[0] == "*" else [path[0]]:
            yield from _values(value.get(name, _MISSING), path[1:])


def _is_kind(value: Any, kind: str) -> bool:
    if kind == COUNT:
        return type(value) is int and 0 <= value < 2**63
    if kind in (NUMBER, SCORE):
        is_number = type(value) in (int, float) and abs(value) <= _LARGEST
        return is_number or (value is None and kind == SCORE)
    if kind in (STRINGS, SOME_STRINGS):
        is_list = isinstance(value, list) and all(isinstance(each, str) for each in value)
        return is_list and (kind == STRINGS or value != [])
    kinds: dict[str, Any] = {OBJECT: dict, OBJECT_OR_NULL: (dict, type(None)), STRING: str, FLAG: bool}
    return isinstance(value, kinds[kind])


def no_progress(items: Iterator[T], total: int | None) -> Iterator[T]:
    """Return the items unchanged: the default wrapper of evaluations' iterators, without a progress bar."""
    return items


def mean(values: Sequence[float]) -> float | None:
    """The unweighted mean; None if there are no values."""
    return sum(values) / len(values) if values else None
