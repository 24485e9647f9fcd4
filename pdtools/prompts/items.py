"""Data of classification tasks, and the prompts made of them, as ``pdtools prompts`` writes them.

A file of prompts is JSON lines, the task first, then the items. Each further line is an item: ``id``,
``sentences`` (the prompt's, including lead-ins but not the answer, each parsed by itself) and ``label``: a
label of the task, a number, or null.
"""

from __future__ import annotations

import hashlib
import json
import math
import os
import re
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from glob import escape
from itertools import product
from pathlib import Path
from typing import Any

from pdtools.errors import InputError
from pdtools.files import Rejects, atomic_text, json_text, read_lines, recover_directory
from pdtools.files.inputs import parse_json, read_json_lines
from pdtools.files.packed import COMPRESSED, ending, has_ending
from pdtools.files.tables import parquet_rows
from pdtools.prompts.tasks import PromptTask, task_from
from pdtools.tokenization import join_words
from pdtools.trees import normalize, read_trees, unescape

FORMAT = "pdtools prompts"
FORMAT_VERSION = "1"
HELD_OUT = 0.1

Split = Callable[[str], list[str]]


@dataclass(frozen=True, slots=True)
class PromptItem:
    """An item of a task.

    Attributes:
        id: the data's, or its number in them, from 0; items that are excluded count.
        sentences: the prompt's sentences, without the answer.
        label: a label, a number, or None if it is not known.
    """

    id: str
    sentences: tuple[str, ...]
    label: str | float | None


def make_items(
    records: Iterable[Record],
    task: PromptTask,
    rejects: Rejects,
    *,
    split: Split,
    label_names: Sequence[str] | None = None,
) -> Iterator[PromptItem]:
    """Make prompts from records.

    Args:
        records: lines of data.
        task: the task.
        rejects: takes records that lack a field, or have a label that the task does not know; it holds what
            the reader of records excluded.
        split: cuts a part into sentences.
        label_names: names of the labels 0, 1, … Without them, integers are refused if the task has names.
    """
    made = 0
    for record in records:
        try:
            fields = {name: _text(_value(record, task, name), name) for name in task.fields}
            label = _label(_value(record, task, "label"), task, label_names)
        except ValueError as error:
            text = json_text({key: str(value) for key, value in record.values.items()})
            rejects.add(str(error), file=record.file, line=record.line, text=text)
            continue
        known = _value(record, task, "id")
        sentences = (sentence for part in task.write(fields) for sentence in split(part))
        number = made + len(rejects)
        made += 1
        yield PromptItem(str(number if known is None else known), tuple(sentences), label)


def columns_of(task: PromptTask) -> set[str]:
    """All columns of data that :func:`make_items` may read."""
    return {column for name in (*task.fields, "label", "id") for column in _names(task, name)}


def _names(task: PromptTask, name: str) -> tuple[str, ...]:
    return ("id", "idx", "index") if name == "id" and name not in task.columns else task.names_of(name)


def _value(record: Record, task: PromptTask, name: str) -> Any:
    return next((record.values[each] for each in _names(task, name) if each in record.values), None)


def _text(value: Any, name: str) -> str:
    if not isinstance(value, str) or not value.strip() or "\0" in value:
        raise ValueError(f"no text in {name}")
    return value


def _label(value: Any, task: PromptTask, label_names: Sequence[str] | None) -> str | float | None:
    if value is None or value == "":
        return None
    is_defined = "-1" in task.answers if task.range is None else task.range[0] <= -1 <= task.range[1]
    if value in (-1, "-1", "-1.0") and not is_defined:  # hidden, in some copies of GLUE
        return None
    if task.range is not None:
        return _number(value, task.range)
    if isinstance(value, bool) or not isinstance(value, (str, int)):
        raise ValueError(f"the label {value!r} is neither text nor a whole number")
    label = str(value)
    if label_names is not None and label.isascii() and label.isdecimal():
        if int(label) >= len(label_names):
            raise ValueError(f"the label {label} is beyond the {len(label_names)} label names")
        label = label_names[int(label)]
    if label not in task.answers:
        known = ", ".join(task.labels)
        if label.isdecimal():
            raise ValueError(f"what the label {label} means is not known: name 0, 1, … with --label-names")
        raise ValueError(f"the label {label!r} is none of {known}")
    return label


def _number(value: Any, numbers: tuple[float, float]) -> float:
    least, most = numbers
    try:
        number = float(value)
    except (TypeError, ValueError):
        raise ValueError(f"the label {value!r} is no number") from None
    if isinstance(value, bool) or not math.isfinite(number) or not least <= number <= most:
        raise ValueError(f"the label {value!r} is not from {least:g} to {most:g}")
    return number


def is_held_out(item: PromptItem) -> bool:
    """Return whether an item is in the held-out share, by a hash of its prompt."""
    digest = hashlib.blake2b("\n".join(item.sentences).encode(errors="surrogatepass"), digest_size=8).digest()
    return int.from_bytes(digest, "big") / 2**64 < HELD_OUT


def write_items(path: str, task: PromptTask, items: Iterable[PromptItem], *, overwrite: bool = False) -> int:
    """Write a file of prompts, whole or not at all; return the number of items."""
    count = 0
    with atomic_text(path, overwrite=overwrite) as stream:
        header = {"format": FORMAT, "format_version": FORMAT_VERSION, "task": task.record()}
        stream.write(json_text(header) + "\n")
        for item in items:
            record = {"id": item.id, "sentences": list(item.sentences), "label": item.label}
            stream.write(json_text(record) + "\n")
            count += 1
    return count


@dataclass(frozen=True, slots=True)
class Prompts:
    """A file of prompts in memory.

    Attributes:
        file: its path.
        task: the task.
        items: the items.
        lines: the line of each item.
    """

    file: str
    task: PromptTask
    items: tuple[PromptItem, ...]
    lines: tuple[int, ...]

    @property
    def sentences(self) -> Iterator[tuple[int, str]]:
        """The sentences of all prompts, in order, each with the number of its item."""
        for number, item in enumerate(self.items):
            for sentence in item.sentences:
                yield number, sentence


def read_prompts(file: str) -> Prompts:
    """Read a file of ``pdtools prompts``.

    Raises:
        InputError: if it is none.
    """
    task: PromptTask | None = None
    items, lines = [], []
    for number, line in read_lines(file):
        if not line.strip():
            continue
        value = parse_json(line, file, number) if line.startswith("{") else None
        if task is None:
            if not isinstance(value, dict) or value.get("format") != FORMAT:
                hint = "pdtools prompts makes them of data"
                raise InputError("not a file of prompts", file=file, line=number, hint=hint)
            if value.get("format_version") != FORMAT_VERSION or not isinstance(value.get("task"), dict):
                reason = f"prompts of format version {value.get('format_version')!r}, not {FORMAT_VERSION}"
                raise InputError(reason, file=file, line=number, hint="make them again with pdtools prompts")
            task = task_from(value["task"], file)
        else:
            items.append(_item(value, task, file, number))
            lines.append(number)
    if task is None or not items:
        raise InputError("no prompts in it", file=file, hint="pdtools prompts makes them of data")
    return Prompts(file, task, tuple(items), tuple(lines))


def _item(value: Any, task: PromptTask, file: str, line: int) -> PromptItem:
    try:
        identity, sentences, label = value["id"], value["sentences"], value["label"]
        if not isinstance(identity, str) or not isinstance(sentences, list) or not sentences:
            raise ValueError("no id, or no sentences")
        if not all(isinstance(sentence, str) and sentence.strip() for sentence in sentences):
            raise ValueError("a sentence that is no text")
        return PromptItem(identity, tuple(sentences), None if label is None else _label(label, task, None))
    except (KeyError, TypeError, ValueError) as error:
        reason = f"not an item of a prompt: {str(error) or type(error).__name__}"
        raise InputError(reason, file=file, line=line) from error


# --- data in common formats: GLUE's tables, SST's trees, JSON lines, Parquet -------------------

# Endings of a split's file in a folder: GLUE's first.
_ENDINGS = (".tsv", ".jsonl", ".parquet", ".txt")
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
        rows = parquet_rows(file, columns, lambda there: _check_columns(there, names, file))
        yield from (Record(values, file, number) for number, values in rows)
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
    for number, value in read_json_lines(file):
        if isinstance(value, dict):
            yield Record(value, file, number)
        else:
            rejects.add("not a JSON object", file=file, line=number, text=json_text(value))


def label_names_of(file: str, task: PromptTask) -> list[str] | None:
    """The names of integer labels, if a Parquet file of Hugging Face's ``datasets`` has them.

    None also if the integers themselves are labels of the task, as in MRPC.

    Args:
        file: a data file of any kind.
        task: the task.
    """
    if not has_ending(file, ".parquet"):
        return None
    import pyarrow as pa
    import pyarrow.parquet as pq

    try:
        with pa.OSFile(os.fsencode(file)) as stream:
            metadata = pq.read_schema(stream).metadata or {}
        features = json.loads(metadata[b"huggingface"])["info"]["features"]
        found = next(features[name]["names"] for name in task.names_of("label") if name in features)
    except (pa.ArrowException, OSError, ValueError, KeyError, TypeError, StopIteration):
        return None
    if not isinstance(found, list) or all(str(number) in task.answers for number in range(len(found))):
        return None
    return [str(name) for name in found]
