"""Answers to prompts: scores as sums over items, and the evaluation's record."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pdtools.errors import InputError
from pdtools.evaluation.bootstrap import of_sums
from pdtools.evaluation.record import COUNT, SCORE, STRING, Document, Evaluation, MainScores
from pdtools.evaluation.results import check_columns

if TYPE_CHECKING:
    import numpy as np
    import pyarrow as pa
    from numpy.typing import NDArray

    from pdtools.evaluation.record import Statistic

CLASSIFY = "classify"
NAMES = {"accuracy": "accuracy", "f1": "F1", "spearman": "Spearman's ρ", "pearson": "Pearson's r"}
# Sums of squares that exceed equal numbers' by no more than this share have lost their digits.
_ROUNDING = 1e-12


@dataclass(frozen=True, kw_only=True, slots=True)
class AnswerSums:
    """A score of answers computed from sums over items, for fast bootstraps.

    Attributes:
        name: accuracy, f1 or pearson (a rank correlation is not computed from sums).
        positive: the label whose F1 is computed.
    """

    name: str
    positive: str | int | None
    items, key = "items", "item"

    @property
    def content(self) -> tuple[str, ...]:
        """See :class:`pdtools.evaluation.record.ItemScore`."""
        return ("target",) if self.name == "pearson" else ("label",)

    @property
    def statistic(self) -> Statistic:
        """See :class:`pdtools.evaluation.record.ItemScore`."""
        return of_sums(self.score)

    @property
    def is_share(self) -> bool:
        """See :class:`pdtools.evaluation.record.ItemScore`."""
        return self.name == "accuracy"

    def read(self, table: pa.Table, folder: str | Path) -> dict[str, tuple[float, ...]]:
        """The numbers of each item with a label, to be summed.

        For accuracy: whether it is right, and 1; for F1: whether gold and prediction are both positive, and
            each;
        for a correlation: the numbers' moments.
        """
        items, gold, found = read_answers(table, folder, self.name != "pearson")
        return dict(zip(items, self.numbers(gold, found), strict=True))

    def numbers(self, gold: Sequence[Any], found: Sequence[Any]) -> list[tuple[float, ...]]:
        """The numbers of each item, from labels (or numbers) and predictions."""
        if self.name == "pearson":  # a shift keeps the correlation, and its moments lose fewer digits
            gold, found = _from_first(gold), _from_first(found)
        return list(map(self._adds, gold, found))

    def _adds(self, gold: Any, found: Any) -> tuple[float, ...]:
        if self.name == "accuracy":
            return float(gold == found), 1.0
        if self.name == "f1":
            of_gold, of_found = gold == self.positive, found == self.positive
            return float(of_gold and of_found), float(of_gold), float(of_found)
        return 1.0, gold, found, gold * gold, found * found, gold * found

    def score(self, sums: NDArray[np.float64]) -> NDArray[np.float64]:
        """Compute the score (…) from sums (…, m), in percent; NaN if it is not defined."""
        import numpy as np

        if self.name == "accuracy":
            return np.asarray(100 * sums[..., 0] / sums[..., 1])
        if self.name == "f1":
            of_class = sums[..., 1] + sums[..., 2]
            return np.where(of_class > 0, 200 * sums[..., 0] / np.maximum(of_class, 1), np.nan)
        n, x, y, xx, yy, xy = np.moveaxis(sums, -1, 0)
        vary = (n * xx > (1 + _ROUNDING) * x * x) & (n * yy > (1 + _ROUNDING) * y * y)
        scale = np.sqrt(np.where(vary, (n * xx - x * x) * (n * yy - y * y), 1))
        return np.where(vary, 100 * (n * xy - x * y) / scale, np.nan)


def _from_first(values: Sequence[float]) -> list[float]:
    """Numbers minus the first of them."""
    return [value - values[0] for value in values]


@dataclass(frozen=True, kw_only=True, slots=True)
class AnswerRanks:
    """Spearman's correlation of answers, in percent; NaN if it is not defined."""

    items, key, content, is_share = "items", "item", ("target",), False

    def read(self, table: pa.Table, folder: str | Path) -> dict[str, tuple[float, ...]]:
        """The target and the prediction of each item that has a target."""
        items, gold, found = read_answers(table, folder, is_label=False)
        return dict(zip(items, self.numbers(gold, found), strict=True))

    def numbers(self, gold: Sequence[float], found: Sequence[float]) -> list[tuple[float, ...]]:
        """The numbers of each item, from targets and predictions."""
        return list(zip(gold, found, strict=True))

    def statistic(self, numbers: NDArray[np.float64], times: NDArray[np.int64] | None) -> NDArray[np.float64]:
        """See :class:`pdtools.evaluation.record.ItemScore`."""
        import numpy as np

        n_items, n_runs, _ = numbers.shape
        taken = np.ones((1, n_items), dtype=np.int64) if times is None else times
        found = np.empty((len(taken), n_runs))
        for run in range(n_runs):
            gold, predicted = (_ranks(numbers[:, run, i], taken) for i in (0, 1))
            both, *each = (
                np.einsum("sk,sk,sk->s", taken, x, y)
                for x, y in ((gold, predicted), (gold, gold), (predicted, predicted))
            )
            scale = np.sqrt(each[0] * each[1])
            found[:, run] = np.where(scale > 0, 100 * both / np.where(scale > 0, scale, 1), np.nan)
        return found


def _ranks(values: NDArray[np.float64], times: NDArray[np.int64]) -> NDArray[np.float64]:
    """Ranks of values (K) in samples with given multiplicities (S, K), minus their mean: (S, K).

    Equal values have the mean of their ranks. All values are whole numbers and halves, so ranks in a
    sample without variance are exactly 0.
    """
    import numpy as np

    _, place = np.unique(values, return_inverse=True)
    order = np.argsort(place, kind="stable")
    last = np.flatnonzero(np.diff(place[order], append=-1))  # the last place of each value
    reached = np.cumsum(times[:, order], axis=1)[:, last]
    equal = np.diff(reached, axis=1, prepend=0)
    return (reached - equal / 2 - reached[:, -1:] / 2)[:, place]


def _item_score(label: str, document: Document) -> AnswerSums | AnswerRanks:
    """The item score of a main score, by its label."""
    name = next(name for name, text in NAMES.items() if label.endswith(f", {text} (%)"))
    return item_score(name, document["settings"].get("positive"))


def item_score(name: str, positive: str | int | None) -> AnswerSums | AnswerRanks:
    """The item score of a name in ``NAMES``; for F1, of the label ``positive``."""
    return AnswerRanks() if name == "spearman" else AnswerSums(name=name, positive=positive)


def read_answers(
    table: pa.Table, folder: str | Path, is_label: bool
) -> tuple[list[str], list[Any], list[Any]]:
    """Items that have a label, their labels and predictions."""
    gold, kind = ("label", "strings") if is_label else ("target", "numbers")
    check_columns(table, {"item": "strings", gold: kind, "predicted": kind}, folder)
    rows = list(zip(*(table[name].to_pylist() for name in ("item", gold, "predicted")), strict=True))
    known = [row for row in rows if row[1] is not None]
    items, labels, found = ([row[i] for row in known] for i in range(3))
    if len(set(items)) < len(items):
        raise InputError("items: two of the same name", file=folder)
    return items, labels, found


def _main_scores(document: Document) -> MainScores:
    scores, task = document["scores"], document["settings"]["prompt_task"]
    items = (f"{document['counts']['items_labelled']} items",)
    found = {name: value for name, value in scores.items() if name in NAMES}  # the task's own comes first
    return {
        f"{task}, {NAMES[name]} (%)": (None if value is None else 100 * value, items)
        for name, value in found.items()
    }


EVALUATIONS = (
    Evaluation(
        name=CLASSIFY,
        title="Prompts",
        in_text="classify",
        printer="pdtools.report.evaluations:print_classification",
        read={
            **{f"settings.{name}": STRING for name in ("prompt_task", "metric")},
            **{f"scores.{name}": SCORE for name in NAMES},
            "counts.items_labelled": COUNT,
        },
        may_be_missing="scores.",
        scores=_main_scores,
        item_score=_item_score,
        columns=("item", "label", "target", "predicted"),
        same={"prompt_task": "another task", "text_sha256": "other sentences"},
    ),
)
