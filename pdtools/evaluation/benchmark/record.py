"""The record of a benchmark: its results themselves hold its title and the groups of its items."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from pdtools.evaluation.record import SCORE, Document, Evaluation, MainScores, Outcomes

if TYPE_CHECKING:
    from pdtools.evaluation.benchmark.items import Items


def record_of(items: Items, chance: float | None) -> Evaluation:
    """The record of a benchmark whose items are right or wrong, or have a label, or a number.

    Args:
        chance: the share of right items by guessing; None: not known.
    """
    benchmark, title = items.benchmark, items.title
    return Evaluation(
        name=benchmark.task,
        title=title,
        in_text=title,
        printer="pdtools.report.evaluations:print_benchmark",
        read={"scores.overall": SCORE, "scores.margin_bits.overall": SCORE},
        may_be_missing="scores.",
        outcomes=None
        if benchmark.value is not None
        else Outcomes(
            score=f"{title}, accuracy (%)",
            counted="items",
            key=(items.unit, "item", "prediction"),
            content=("formula",),
            unit=items.unit,
            levels=items.levels,
            over_items=items.crossing,
            chance=chance,
            margin=None if items.label or items.value else f"{title}, margin (bits)",
        ),
        scores=None if benchmark.label is None and benchmark.value is None else _scores(items),
    )


def _scores(items: Items) -> Callable[[Document], MainScores]:
    """Main scores besides shares of items: Matthews' correlation for labels, a correlation for numbers."""
    title, value = items.benchmark.title, items.benchmark.value
    if value is not None:
        names = {"overall": f"{title}, {CORRELATIONS[value.correlation]} (%)"}
    else:
        names = {"overall": f"{title}, accuracy (%)", "mcc": f"{title}, MCC (%)", "auc": f"{title}, AUC (%)"}

    def scores(document: Document) -> MainScores:
        over = (f"{document['counts']['items_scored']} items",)
        found = {label: document["scores"].get(name) for name, label in names.items()}
        return {label: (None if score is None else 100 * score, over) for label, score in found.items()}

    return scores


CORRELATIONS = {"spearman": "Spearman's ρ", "pearson": "Pearson's r"}
