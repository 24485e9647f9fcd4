"""Prompts as ``pdtools prompts`` writes them: JSON lines, the task first, then the items.

Each further line is an item: ``id``, ``sentences`` (the prompt's, including lead-ins but not the answer, each
parsed by itself) and ``label``: a label of the task, a number, or null.
"""

from __future__ import annotations

import hashlib
import math
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from pdtools.errors import InputError
from pdtools.files import Rejects, atomic_text, json_text, read_lines
from pdtools.files.inputs import parse_json
from pdtools.prompts.readers import Record
from pdtools.prompts.tasks import PromptTask, task_from

FORMAT = "pdtools prompts"
FORMAT_VERSION = "1"
HELD_OUT = 0.1

Split = Callable[[str], list[str]]


@dataclass(frozen=True, slots=True)
class PromptItem:
    """An item of a task.

    Attributes:
        id: the data's, or its number in them, from 0.
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
        rejects: takes records that lack a field, or have a label that the task does not know.
        split: cuts a part into sentences.
        label_names: names of the labels 0, 1, … Without them, integers are refused if the task has names.
    """
    for number, record in enumerate(records):
        try:
            fields = {name: _text(_value(record, task, name), name) for name in task.fields}
            label = _label(_value(record, task, "label"), task, label_names)
        except ValueError as error:
            text = json_text({key: str(value) for key, value in record.values.items()})
            rejects.add(str(error), file=record.file, line=record.line, text=text)
            continue
        known = _value(record, task, "id")
        sentences = (sentence for part in task.write(fields) for sentence in split(part))
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
