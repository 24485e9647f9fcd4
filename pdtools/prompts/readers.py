"""Data of classification tasks in common formats: GLUE's tables, SST's trees, JSON lines, Parquet."""

from __future__ import annotations

import json
import os
import re
from collections import Counter
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from glob import escape
from itertools import product
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pdtools.errors import InputError
from pdtools.files import Rejects, read_lines, recover_directory
from pdtools.files.inputs import MAX_DOCUMENT_BYTES, parse_json
from pdtools.files.packed import COMPRESSED, check_packed, ending, has_ending
from pdtools.tokenization import join_words
from pdtools.trees import normalize, read_trees, unescape

if TYPE_CHECKING:
    import pyarrow.parquet as pq

# Endings of a split's file in a folder: GLUE's first.
_ENDINGS = (".tsv", ".jsonl", ".parquet", ".txt")
_ROWS_AT_ONCE, _BYTES_OF_VALUE = 1 << 10, 8
_LABELLED_LINE = re.compile(r"(\d+)[ \t]+(\S.*)")


@dataclass(frozen=True, slots=True)
class Record:
    """A line of data, by column; ``line``: its number, for Parquet the row's, from 1."""

    values: Mapping[str, Any]
    file: str
    line: int


def data_file(data: str, split: str) -> str:
    """The data file: the named one, or a split's in a folder such as GLUE's.

    Raises:
        InputError: if there is none.
    """
    recover_directory(Path(data))
    if not os.path.isdir(data):
        return data
    there = sorted(each for each in Path(data).glob(f"{escape(split)}.*") if each.is_file())
    for kind, packed in product(_ENDINGS, ("", *COMPRESSED)):
        for each in there:
            if each.name[len(split) :].lower() == kind + packed:
                return str(each)
    hint = "name the file itself, or another --split"
    raise InputError(f"no {', '.join(split + kind for kind in _ENDINGS)} in it", file=data, hint=hint)


def read_records(
    file: str, names: Mapping[str, Sequence[str]], rejects: Rejects, *, columns: Collection[str] | None = None
) -> Iterator[Record]:
    """Read the records of a file.

    JSON lines and Parquet are recognized by their endings. Else: trees begin with a bracket, and the root has
    their label; lines that begin with a digit are a label and a sentence; all other files are tables whose
    first line names the columns, with tabs between cells, in which a quote is an ordinary character.

    Args:
        file: UTF-8, perhaps compressed, or with a byte order mark, or CRLF.
        names: required fields, with the possible names of each.
        rejects: takes lines that cannot be read.
        columns: all that are needed; no others are read from Parquet. None: all.

    Raises:
        InputError: if the file is none of these, or lacks a column.
    """
    if ending(file) == ".parquet":
        yield from _parquet(file, names, columns)
    elif ending(file) in (".jsonl", ".json"):
        yield from _json(file, rejects)
    else:
        first = next((line for _, line in read_lines(file) if line.strip()), "")
        if not first:
            raise InputError("nothing in it", file=file)
        if first.lstrip().startswith("("):
            yield from _trees(file, rejects)
        elif _LABELLED_LINE.fullmatch(first.strip()):
            yield from _lines(file, rejects)
        else:
            yield from _table(file, names, rejects)


def _table(file: str, names: Mapping[str, Sequence[str]], rejects: Rejects) -> Iterator[Record]:
    lines = read_lines(file)
    columns = next(lines)[1].split("\t")
    _check_columns(columns, names, file)
    for number, line in lines:
        if not line.strip():
            continue
        cells = line.split("\t")
        if len(cells) != len(columns):
            reason = f"{len(cells)} cells between tabs, but {len(columns)} columns"
            rejects.add(reason, file=file, line=number, text=line)
            continue
        yield Record(dict(zip(columns, cells, strict=True)), file, number)


def _check_columns(columns: Sequence[str], names: Mapping[str, Sequence[str]], file: str) -> None:
    if twice := [name for name, times in Counter(columns).items() if times > 1]:
        raise InputError(f"two columns {twice[0]!r}", file=file, line=1)
    for possible in names.values():
        if not {*possible} & {*columns}:
            reason = f"no column {' or '.join(possible)} (there are: {', '.join(columns)})"
            hint = "the first line of a table names its columns; [columns] of a task may name others"
            raise InputError(reason, file=file, line=1, hint=hint)


def _lines(file: str, rejects: Rejects) -> Iterator[Record]:
    for number, line in read_lines(file):
        if not line.strip():
            continue
        if (found := _LABELLED_LINE.fullmatch(line.strip())) is None:
            rejects.add("no label before the sentence", file=file, line=number, text=line)
        else:
            yield Record({"label": found[1], "sentence": found[2]}, file, number)


def _trees(file: str, rejects: Rejects) -> Iterator[Record]:
    for sourced in read_trees([file], rejects):
        tree = normalize(sourced.tree)
        if tree is None:
            rejects.add("no words", file=file, line=sourced.line, text=sourced.text)
            continue
        # The whole is the first constituent; a tree of one word has only its tag.
        label = sourced.tree.labels[0] if sourced.tree.labels else sourced.tree.tags[0]
        sentence = join_words([unescape(word) for word in tree.words], "raw").text
        yield Record({"label": label, "sentence": sentence}, file, sourced.line)


def _json(file: str, rejects: Rejects) -> Iterator[Record]:
    for number, line in read_lines(file):
        if not line.strip():
            continue
        value = parse_json(line, file, number)
        if isinstance(value, dict):
            yield Record(value, file, number)
        else:
            rejects.add("not a JSON object", file=file, line=number, text=line)


def _parquet(
    file: str, names: Mapping[str, Sequence[str]], columns: Collection[str] | None
) -> Iterator[Record]:
    """Read rows, few at a time. A text that many rows share is in memory once, as in a packed row group."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    number = 0
    try:
        with pa.OSFile(os.fsencode(file)) as stream:
            schema = pq.read_schema(stream)
            _check_columns(schema.names, names, file)
            needed = [name for name in schema.names if columns is None or name in columns]
            flat = [name for name in needed if not pa.types.is_nested(schema.field(name).type)]
            table = pq.ParquetFile(stream, read_dictionary=flat)
            _check_sizes(table.metadata, needed, file)
            for batch in table.iter_batches(_ROWS_AT_ONCE, columns=needed):
                for cells in zip(*batch.columns, strict=True):
                    number += 1
                    values = (cell.as_py() for cell in cells)
                    yield Record(dict(zip(needed, values, strict=True)), file, number)
    except FileNotFoundError as error:
        raise InputError("no such file", file=file) from error
    except UnicodeDecodeError as error:
        raise InputError("text that is not UTF-8", file=file, line=number) from error
    except (pa.ArrowException, OSError) as error:
        raise InputError(f"not Parquet: {str(error).splitlines()[0]}", file=file) from error


def _check_sizes(about: pq.FileMetaData, columns: Collection[str], file: str) -> None:
    """Refuse a file whose columns unpack to much more data than text does."""
    for group in range(about.num_row_groups):
        for i in range(about.num_columns):
            column = about.row_group(group).column(i)
            name, _, is_nested = column.path_in_schema.partition(".")
            if name in columns:
                # In lists, few bytes may encode many equal values.
                values = _BYTES_OF_VALUE * column.num_values if is_nested else 0
                unpacked = max(column.total_uncompressed_size, values)
                check_packed(unpacked, column.total_compressed_size, file, MAX_DOCUMENT_BYTES)


def label_names_of(file: str, columns: Sequence[str]) -> list[str] | None:
    """The names of integer labels, if a Parquet file of Hugging Face's ``datasets`` has them.

    Args:
        file: a data file of any kind.
        columns: possible names of the label column.
    """
    if not has_ending(file, ".parquet"):
        return None
    import pyarrow as pa
    import pyarrow.parquet as pq

    try:
        with pa.OSFile(os.fsencode(file)) as stream:
            metadata = pq.read_schema(stream).metadata or {}
        features = json.loads(metadata[b"huggingface"])["info"]["features"]
        found = next(features[name]["names"] for name in columns if name in features)
    except (pa.ArrowException, OSError, ValueError, KeyError, TypeError, StopIteration):
        return None
    return [str(name) for name in found] if isinstance(found, list) else None
