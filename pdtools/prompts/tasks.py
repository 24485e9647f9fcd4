"""Tasks given as prompts (Murty et al. 2023, appendix A): small TOML files, some of them bundled."""

from __future__ import annotations

import re
import sys
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from importlib import resources
from pathlib import Path
from typing import Any, Literal

from pdtools.errors import InputError, PdtoolsError
from pdtools.files import decode_utf8, read_bytes
from pdtools.files.typed_values import UnknownKeyError, WrongTypeError, as_fields, missing

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

Metric = Literal["accuracy", "f1", "spearman"]

_FIELD = re.compile(r"\{(\w+)\}")
_LABEL = "{label}"


@dataclass(frozen=True, kw_only=True)
class PromptTask:
    """A task: how records of data become prompts, and the possible answers.

    Attributes:
        name: its name.
        parts: the prompt, a list: lead-ins with fields of the data in braces, ``Premise:
            {sentence1}.``
        metric: the score that chooses checkpoints: ``accuracy``, ``f1`` (of the label ``positive``),
            ``spearman``.
        answer: the last part, a lead-in and the label: ``Label: {label}``; none for a task of numbers.
        answers: a table: for each label in the data, the words of the answer.
        range: instead of these two: the least and the largest number, for a task of numbers.
        positive: the label whose F1 is computed; by default ``1``.
        columns: a table: other names of fields, ``label`` and ``id`` in the data; the first that is
            there counts.
    """

    name: str
    parts: tuple[str, ...]
    metric: Metric
    answer: str | None = None
    answers: Mapping[str, str] = field(default_factory=dict)
    range: tuple[float, float] | None = None
    positive: str = "1"
    columns: Mapping[str, tuple[str, ...]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        if not self.parts or not all(part.strip() for part in self.parts):
            raise PdtoolsError("parts must not be empty")
        if "label" in self.fields:
            raise PdtoolsError(f"{_LABEL} goes into answer, not into parts")
        if (self.range is None) == (self.answer is None):
            raise PdtoolsError("either answer is given, or the range of numbers")
        if self.range is not None:
            if self.answers or self.metric != "spearman" or not self.range[0] < self.range[1]:
                raise PdtoolsError(
                    "a task of numbers has a range from less to more, metric spearman, no answers"
                )
            return
        if self.metric == "spearman" or (self.metric == "f1" and self.positive not in self.answers):
            raise PdtoolsError("metric must be accuracy, or f1 with one of the labels as positive")
        if self.lead_in + _LABEL != self.answer or not self.lead_in.strip():
            raise PdtoolsError(f"answer must be a lead-in that ends with {_LABEL}")
        words = [" ".join(answer.split()) for answer in self.answers.values()]
        if len(words) < 2 or len({*words}) < len(words) or "" in words:
            raise PdtoolsError("answers must be two or more, of different words")

    @property
    def fields(self) -> list[str]:
        """The fields of a record that a prompt needs."""
        return list(dict.fromkeys(name for part in self.parts for name in _FIELD.findall(part)))

    @property
    def labels(self) -> list[str]:
        """The labels in the data, in order."""
        return list(self.answers)

    @property
    def lead_in(self) -> str:
        """The text before the answer."""
        return (self.answer or "").removesuffix(_LABEL)

    def names_of(self, field_name: str) -> tuple[str, ...]:
        """Possible names of a field in the data."""
        return tuple(self.columns.get(field_name, (field_name,)))

    def write(self, record: Mapping[str, str]) -> list[str]:
        """The parts of a record's prompt, with its fields filled in.

        If a field ends with a full stop, and the template has one there too, one is dropped.
        """

        def value(found: re.Match[str]) -> str:
            text = " ".join(record[found[1]].split())
            doubled = text.endswith(".") and found.string[found.end() :].startswith(".")
            return text[:-1] if doubled else text

        return [_FIELD.sub(value, part) for part in self.parts]

    def record(self) -> dict[str, Any]:
        """The task, JSON-ready."""
        return asdict(self)


def bundled_tasks() -> list[str]:
    """Names of the tasks that come with pdtools (``configs/tasks/*.toml``)."""
    return sorted(Path(entry.name).stem for entry in _bundled().iterdir() if entry.name.endswith(".toml"))


def read_task(source: str) -> PromptTask:
    """A task by its bundled name, or from a TOML file.

    Raises:
        InputError: if it is missing or damaged.
    """
    if source in bundled_tasks() and not Path(source).is_file():
        text = _bundled().joinpath(f"{source}.toml").read_text("utf-8")
    elif Path(source).is_file():
        text = decode_utf8(read_bytes(source), source)
    else:
        hint = f"tasks: {', '.join(bundled_tasks())}, or a TOML file"
        raise InputError("no such file, nor a task of this name", file=source, hint=hint)
    try:
        table = tomllib.loads(text)
    except (tomllib.TOMLDecodeError, RecursionError) as error:
        raise InputError(f"not TOML: {error}", file=source) from error
    return task_from(table, source)


def task_from(table: Mapping[str, Any], place: str | Path) -> PromptTask:
    """A task from the content of a TOML or JSON document.

    Raises:
        InputError: naming the place and the fault.
    """
    try:
        fields = as_fields(table, PromptTask)
        if absent := missing(fields, PromptTask):
            raise InputError(f"a task without {', '.join(absent)}", file=place)
        return PromptTask(**fields)
    except UnknownKeyError as error:
        known = ", ".join(error.known)
        raise InputError(f"a task has no {error.key!r} (known: {known})", file=place) from None
    except WrongTypeError as error:
        raise InputError(f"{error.key} {error}", file=place) from None
    except InputError:
        raise
    except PdtoolsError as error:
        raise InputError(str(error), file=place) from None


def _bundled() -> Any:
    return resources.files("pdtools.configs").joinpath("tasks")
