"""Tasks given as prompts (Murty et al. 2023, appendix A): small TOML files, some bundled; their scores."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from pdtools.errors import InputError, PdtoolsError
from pdtools.files.typed_values import TomlFiles, UnknownKeyError, WrongTypeError, as_fields, missing

TASKS = TomlFiles("tasks", "task")
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


def read_task(source: str) -> PromptTask:
    """A task by its bundled name, or from a TOML file.

    Raises:
        InputError: if it is missing or damaged.
    """
    return task_from(TASKS.read(source), source)


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


# --- scores of predictions ---------------------------------------------------------------------

Float64 = NDArray[np.float64]
Int64 = NDArray[np.int64]
Score = Callable[..., float | None]

WRONG = -1
"""The prediction for an item whose best answers are equally probable: no label."""


def accuracy(gold: Int64, predicted: Int64) -> float | None:
    """The share of equal numbers; None if there are none."""
    return float((gold == predicted).mean()) if len(gold) else None


def f1(gold: Int64, predicted: Int64, positive: int = 1) -> float | None:
    """F1 of one class, 2 TP / (2 TP + FP + FN); None if neither gold nor predicted has it."""
    right = int(((gold == positive) & (predicted == positive)).sum())
    of_class = int((gold == positive).sum()) + int((predicted == positive).sum())
    return 2 * right / of_class if of_class else None


def pearson(gold: Float64, predicted: Float64) -> float | None:
    """Pearson's correlation; None if one of the two does not vary."""
    if (gold == gold[:1]).all() or (predicted == predicted[:1]).all():  # by rounding, the mean may differ
        return None
    return float((_deviations(gold) @ _deviations(predicted)).clip(-1, 1))


def _deviations(values: Float64) -> Float64:
    """Differences from the mean, scaled to a vector of length 1."""
    found = values - values[0]
    found = found / np.abs(found).max()
    found = found - found.mean()
    return found / np.linalg.norm(found)


def ranks(values: Float64) -> Float64:
    """Ranks from 1; equal values get their mean rank."""
    _, place, counts = np.unique(values, return_inverse=True, return_counts=True)
    last = np.cumsum(counts)
    return (last - (counts - 1) / 2)[place]


def spearman(gold: Float64, predicted: Float64) -> float | None:
    """Spearman's correlation: Pearson's of the ranks."""
    return pearson(ranks(gold), ranks(predicted))


def scores_of(task: PromptTask) -> dict[str, Score]:
    """A task's scores by name, the main one first; each takes gold and predicted.

    Both are indices of the task's labels (``WRONG`` for a tie), or numbers.
    """
    if task.range is not None:
        return {"spearman": spearman, "pearson": pearson}
    if task.metric == "accuracy":
        return {"accuracy": accuracy}
    positive = task.labels.index(task.positive)
    return {"f1": lambda gold, predicted: f1(gold, predicted, positive), "accuracy": accuracy}


def main_score(task: PromptTask, gold: NDArray[np.generic], predicted: NDArray[np.generic]) -> float:
    """The score that chooses checkpoints; 0 if it is not defined."""
    return next(iter(scores_of(task).values()))(gold, predicted) or 0.0


def predict(task: PromptTask, found: Float64) -> NDArray[Any]:
    """A model's predictions: indices of labels (:func:`decide`), or numbers within the task's range: (items).

    Args:
        task: the task.
        found: float64 (items, answers), log-probabilities, or (items, 1), numbers.
    """
    return decide(found) if task.range is None else found[:, 0].clip(*task.range)


def decide(scores: Float64) -> Int64:
    """The likeliest answer of each item; ``WRONG`` if two are.

    Args:
        scores: float64 (items, answers).

    Returns:
        int64 (items).
    """
    best = scores.argmax(1)
    tied = (scores == scores.max(1, keepdims=True)).sum(1) > 1
    return np.where(tied, WRONG, best)
