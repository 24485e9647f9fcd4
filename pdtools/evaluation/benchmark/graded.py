"""Benchmarks without a right answer among strings: acceptability labels, and numbers given by people."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pdtools.evaluation.benchmark.item_set import Item, ItemSet
from pdtools.evaluation.benchmark.outcomes import NO_TOKENS, JudgedItems, Outcome, Part, Parts, values_of
from pdtools.evaluation.results import Results
from pdtools.prompts.tasks import pearson, ranks, spearman

Judged = Iterator[tuple[str, "tuple[Outcome | None, float | None, str | None]", tuple[Any, ...]]]
MAIN = "main"


def roc_auc(labels: NDArray[np.bool_], scores: NDArray[np.float64]) -> float | None:
    """The area under the ROC curve; None unless there are good and bad items.

    This is the share of pairs of a good and a bad item in which the good one has the higher score; ties count
    half.
    """
    good = int(labels.sum())
    pairs = good * (len(labels) - good)
    return float((ranks(scores)[labels].sum() - good * (good + 1) / 2) / pairs) if pairs else None


def best_threshold(labels: NDArray[np.bool_], scores: NDArray[np.float64]) -> float:
    """The threshold with the highest Matthews' correlation, half way between two scores; the lowest of these.

    Scores above it are predicted to be good. If scores do not differ, it is below them, and predicts all
    good.
    """
    order = np.argsort(scores, kind="stable")
    sorted_scores, good_below = scores[order], np.cumsum(labels[order])
    cuts = np.flatnonzero(np.diff(sorted_scores) > 0)  # after these items
    if not len(cuts):
        return float(sorted_scores[0]) - 1 if len(scores) else 0.0
    n, good = float(len(labels)), float(labels.sum())
    above = n - (cuts + 1)
    right = good - good_below[cuts]
    correlation = (n * right - good * above) / np.sqrt(np.maximum(1e-300, above * (n - above)))
    cut = cuts[int(np.argmax(correlation))]
    return float((sorted_scores[cut] + sorted_scores[cut + 1]) / 2)


class JudgedLabels(JudgedItems):
    """Strings that are acceptable or not, as a threshold of their scores predicts."""

    more: Mapping[str, str] = {"score": "float64", "acceptable": "bool"}

    def __init__(self, items: ItemSet, *, tokens: bool = True) -> None:
        self._train: list[tuple[float, bool]] = []
        self._excluded = 0  # excluded items among those that the threshold is chosen on
        self._found: list[tuple[tuple[str | None, ...], float, bool]] = []
        assert items.label is not None
        self._threshold = items.label.threshold
        super().__init__(items, tokens=tokens)

    def judged(self, item: Item, parts: Parts) -> Judged:
        """See :class:`JudgedItems`; no rows for items that the threshold is chosen on, which come first."""
        ((name, string),) = item.strings.items()
        part, label = parts[name], item.label
        assert label is not None
        score = part.value(string.scored, self.items.scores[MAIN]) if isinstance(part, Part) else None
        if item.trains:
            self._train += [] if score is None else [(score, label)]
            self._excluded += score is None
            return
        if score is None:
            reason = NO_TOKENS if isinstance(part, Part) else part.reason
            yield MAIN, ("unscorable", None, reason), (None, label)
            return
        if self._threshold is None:
            if not self._train:
                raise self.items.refused("no item that a threshold could be chosen on has a score")
            scores, labels = (np.array(column) for column in zip(*self._train, strict=True))
            self._threshold = best_threshold(labels, scores)
        self._found.append((item.levels, score, label))
        outcome: Outcome = "right" if (score > self._threshold) == label else "wrong"
        yield MAIN, (outcome, None, None), (score, label)

    def results(self, model: dict[str, Any]) -> Results:
        """See :class:`JudgedItems`: ``mcc`` and ``auc`` too, for all items and by finest group."""
        results = super().results(model)
        levels = sorted({levels for levels, _, _ in self._found}, key=self.items.named)
        of_groups = {
            self.items.named(group): self._scores([each for each in self._found if each[0] == group])
            for group in levels
        }
        by_unit = {
            f"{name}_by_{self.items.unit}": {group: scores[name] for group, scores in of_groups.items()}
            for name in ("mcc", "auc")
        }
        settings = {**results.settings, "threshold": self._threshold}
        counts = {**results.counts, "items_for_threshold": len(self._train)}
        if self._excluded:
            counts["items_for_threshold_unscorable"] = self._excluded
        scores = {**results.scores, **self._scores(self._found), **by_unit}
        return replace(results, scores=scores, counts=counts, settings=settings)

    def _scores(self, found: list[tuple[tuple[str | None, ...], float, bool]]) -> dict[str, float | None]:
        labels = np.array([label for _, _, label in found], dtype=bool)
        scores = np.array([score for _, score, _ in found])
        predicted = scores > (0.0 if self._threshold is None else self._threshold)
        # Matthews' correlation is Pearson's of truth values.
        mcc = pearson(labels.astype(np.float64), predicted.astype(np.float64))
        return {"mcc": mcc, "auc": roc_auc(labels, scores)}


class JudgedValues(JudgedItems):
    """Items with a number given by people, with which a formula of scores is correlated."""

    more: Mapping[str, str] = {"score": "float64", "value": "float64"}

    def __init__(self, items: ItemSet, *, tokens: bool = True) -> None:
        assert items.value is not None
        self._value = items.value
        self._found: list[tuple[tuple[str | None, ...], float, float]] = []
        super().__init__(items, tokens=tokens)

    def judged(self, item: Item, parts: Parts) -> Judged:
        """See :class:`JudgedItems`."""
        assert item.value is not None
        (formula,) = item.formulas.values()
        values = values_of(formula, self.items.scores[MAIN], item.strings, parts)
        if not isinstance(values, dict):
            yield MAIN, ("unscorable", None, values), (None, item.value)
            return
        found = formula.value(lambda *place: values[place])
        self._found.append((item.levels, found, item.value))
        yield MAIN, (None, None, None), (found, item.value)

    def results(self, model: dict[str, Any]) -> Results:
        """See :class:`JudgedItems`: correlations, overall and by finest group."""
        results = super().results(model)
        groups: dict[str, list[tuple[float, float]]] = {}
        for levels, found, value in self._found:
            groups.setdefault(self.items.named(levels), []).append((found, value))
        scores = {
            "overall": self._correlation([each[1:] for each in self._found]),
            f"by_{self.items.unit}": {name: self._correlation(groups[name]) for name in sorted(groups)},
        }
        settings = {**results.settings, "correlation": self._value.correlation}
        return replace(results, scores=scores, settings=settings)

    def _correlation(self, pairs: list[tuple[float, float]]) -> float | None:
        found, values = np.array(pairs, dtype=float).reshape(-1, 2).T
        return (spearman if self._value.correlation == "spearman" else pearson)(values, found)
