"""Two models' answers to the same prompts: McNemar's test of accuracies, a paired bootstrap for the rest."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pdtools.errors import InputError, PdtoolsError
from pdtools.evaluation.comparison.difference import Difference
from pdtools.evaluation.comparison.statistics import bootstrap_p, interval, mcnemar
from pdtools.evaluation.results import check_columns

if TYPE_CHECKING:
    import numpy as np
    import pyarrow as pa
    from numpy.typing import NDArray

    from pdtools.prompts.metrics import Score

CLASSIFY = "classify"
NAMES = {"accuracy": "accuracy", "f1": "F1", "spearman": "Spearman's ρ", "pearson": "Pearson's r"}
# Sums of squares that exceed those of equal numbers by no more than this share have lost their digits.
_ROUNDING = 1e-12


@dataclass(frozen=True, kw_only=True, slots=True)
class AnswerSums:
    """A score of answers as one of sums over items, which can be drawn many times at once.

    Attributes:
        name: accuracy, f1 or pearson (a correlation of ranks is none of sums).
        positive: the label that F1 is of.
    """

    name: str
    positive: str | None

    def read(self, table: pa.Table, folder: str | Path) -> dict[str, tuple[float, ...]]:
        """What each item with a label adds: for accuracy whether it is right, and 1; for F1 whether gold and
        prediction are both positive, and each; for a correlation the numbers' moments."""
        gold, found = _read(table, folder, self.name != "pearson")
        if self.name == "pearson":  # a correlation stays the same, and its moments lose fewer digits
            gold, found = _from_first(gold), _from_first(found)
        return {item: self._adds(gold[item], found[item]) for item in gold}

    def _adds(self, gold: Any, found: Any) -> tuple[float, ...]:
        if self.name == "accuracy":
            return float(gold == found), 1.0
        if self.name == "f1":
            of_gold, of_found = gold == self.positive, found == self.positive
            return float(of_gold and of_found), float(of_gold), float(of_found)
        return 1.0, gold, found, gold * gold, found * found, gold * found

    def score(self, sums: NDArray[np.float64]) -> NDArray[np.float64]:
        """Sums (…, m) to the score (…), in percent; 0 where it is not defined."""
        import numpy as np

        if self.name == "accuracy":
            return np.asarray(100 * sums[..., 0] / sums[..., 1])
        if self.name == "f1":
            return np.asarray(200 * sums[..., 0] / np.maximum(sums[..., 1] + sums[..., 2], 1))
        n, x, y, xx, yy, xy = np.moveaxis(sums, -1, 0)
        vary = (n * xx > (1 + _ROUNDING) * x * x) & (n * yy > (1 + _ROUNDING) * y * y)
        scale = np.sqrt(np.where(vary, (n * xx - x * x) * (n * yy - y * y), 1))
        return np.where(vary, 100 * (n * xy - x * y) / scale, 0)


def _from_first(values: dict[str, Any]) -> dict[str, Any]:
    """Numbers less the first of them."""
    first = next(iter(values.values()), 0.0)
    return {item: value - first for item, value in values.items()}


def sums_of_label(label: str, document: Mapping[str, Any]) -> AnswerSums | None:
    """Of the name that a score has in tables; None if it is none of sums."""
    name = next(name for name, text in NAMES.items() if label.endswith(f", {text} (%)"))
    if name == "spearman":
        return None
    return AnswerSums(name=name, positive=document["settings"].get("positive"))


def compare_answers(
    documents: tuple[dict[str, Any], dict[str, Any]],
    tables: tuple[pa.Table, pa.Table],
    folders: tuple[str | Path, str | Path],
    *,
    seed: int,
    samples: int,
) -> tuple[list[Difference], int]:
    """The scores of two results of ``eval-classify`` over the labelled items that both have, the task's own
    first; and how many items have labels.

    Raises:
        PdtoolsError: if they are not over the same items.
    """
    import numpy as np

    from pdtools.prompts.metrics import WRONG, accuracy, f1, pearson, spearman

    scorers: dict[str, Score] = {"accuracy": accuracy, "f1": f1, "spearman": spearman, "pearson": pearson}
    metrics = [document["settings"]["metric"] for document in documents]
    names = {"f1": ("f1", "accuracy"), "spearman": ("spearman", "pearson")}.get(metrics[0], ("accuracy",))
    is_label = "accuracy" in names
    (gold, one), (golds, other) = (_read(*each, is_label) for each in zip(tables, folders, strict=True))
    items = [item for item in gold if item in golds]
    if different := next((item for item in items if gold[item] != golds[item]), None):
        raise PdtoolsError(f"{folders[0]} and {folders[1]}: item {different} is not the same in both")
    if metrics[0] != metrics[1] or not items:
        raise PdtoolsError(f"{folders[0]} and {folders[1]} have no labelled item in common")
    positive = documents[0]["settings"].get("positive")
    # Of labels F1's is 1, others from 2 on: all that scores ask is which are equal.
    values = sorted({v for found in (gold, one, other) for v in found.values() if v not in (positive, None)})
    codes = {positive: 1, None: WRONG} | {value: i + 2 for i, value in enumerate(values)}
    numbers = [
        np.array([codes[found[item]] if is_label else found[item] for item in items])
        for found in (gold, one, other)
    ]
    rng = np.random.default_rng(seed)
    drawn = [rng.integers(len(items), size=len(items)) for _ in range(samples)]
    found = [_difference(name, scorers[name], *numbers, drawn=drawn, is_label=is_label) for name in names]
    return [score for score in found if score is not None], max(len(gold), len(golds))


def _read(table: pa.Table, folder: str | Path, is_label: bool) -> tuple[dict[str, Any], dict[str, Any]]:
    """Labels and predictions by item, of items that have a label."""
    gold, kind = ("label", "strings") if is_label else ("target", "numbers")
    check_columns(table, {"item": "strings", gold: kind, "predicted": kind}, folder)
    rows = list(zip(*(table[name].to_pylist() for name in ("item", gold, "predicted")), strict=True))
    known = [row for row in rows if row[1] is not None]
    if len({item for item, _, _ in known}) < len(known):
        raise InputError("items: two of the same name", file=folder)
    return {item: label for item, label, _ in known}, {item: found for item, _, found in known}


def _difference(
    name: str,
    score: Score,
    gold: NDArray[Any],
    one: NDArray[Any],
    other: NDArray[Any],
    *,
    drawn: list[NDArray[np.int64]],
    is_label: bool,
) -> Difference | None:
    import numpy as np

    a, b = score(gold, one), score(gold, other)
    if a is None or b is None:
        return None
    found = [(score(gold[i], one[i]), score(gold[i], other[i])) for i in drawn]
    differences = np.array([y - x for x, y in found if x is not None and y is not None] or [b - a])
    low, high = interval(differences)
    right = (gold == one), (gold == other)
    only_a, only_b = int((right[0] & ~right[1]).sum()), int((right[1] & ~right[0]).sum())
    return Difference(
        level="score",
        name=NAMES[name],
        items=len(gold),
        a=a,
        b=b,
        low=low,
        high=high,
        only_a=only_a if is_label else None,
        only_b=only_b if is_label else None,
        p=mcnemar(only_a, only_b) if name == "accuracy" else bootstrap_p(differences),
    )
