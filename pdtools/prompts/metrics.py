"""Accuracy, F1 and correlations of predictions."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pdtools.prompts.tasks import PromptTask

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
