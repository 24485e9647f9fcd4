"""A benchmark as a record: its results say themselves what it is called and how its items are grouped."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pdtools.evaluation.record import SCORE, Evaluation, Outcomes

if TYPE_CHECKING:
    from pdtools.evaluation.benchmark.items import Items


def record_of(items: Items) -> Evaluation:
    """The record of a benchmark whose items are right or wrong."""
    title = items.benchmark.title
    return Evaluation(
        name=items.benchmark.task,
        title=title,
        in_text=title,
        printer="pdtools.report.benchmarks:print_benchmark",
        read={"scores.overall": SCORE},
        outcomes=Outcomes(
            score=f"{title}, accuracy (%)",
            counted="items",
            key=("item", "prediction"),
            content=("formula", *items.names),
            unit=items.unit,
            levels=items.levels,
            chance=items.chance,
        ),
    )
