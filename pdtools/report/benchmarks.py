"""Tables of benchmarks, as their command prints them."""

from __future__ import annotations

from typing import Any

from pdtools.evaluation.record import Outcomes
from pdtools.evaluation.results import Results
from pdtools.report.evaluations import percent, print_scores
from pdtools.report.tables import Cell, print_table


def _named(outcomes: Outcomes) -> list[str]:
    """Names of scores, as opposed to groups that items have as flags."""
    levels = [f"by_{level}" for level in (*outcomes.levels, outcomes.unit)]
    of_labels = [f"{name}_by_{outcomes.unit}" for name in ("mcc", "auc")]
    return ["overall", "mean_of_items", "by_prediction", "mcc", "auc", *levels, *of_labels]


def print_benchmark(results: Results, *, details: bool = False) -> None:
    """Print accuracy overall and by level; the finest groups with ``details``, or if there is one level."""
    scores, counts = results.scores, results.counts
    assert results.evaluation is not None
    outcomes = results.evaluation.outcomes
    if outcomes is None:
        print_scores(results)
        return
    overall = (percent(scores["overall"]), *(counts[key] for key in ("items", "items_scored", "ties")))
    columns = ["accuracy", "items", "scored", "ties"]
    groups = len(counts[f"by_{outcomes.unit}"])
    of_groups = f" (mean of {groups:,} groups)" if groups > 1 else ""
    rows: list[tuple[Cell, ...]] = [(f"overall{of_groups}", *overall)]
    rows.append(("mean of items", percent(scores["mean_of_items"]), None, None, None))
    rows += [
        (name.upper(), percent(scores[name]), None, None, None) for name in ("mcc", "auc") if name in scores
    ]
    others = [*scores["by_prediction"].items()][1:]
    rows += [(f"overall, {name}", percent(score), None, None, None) for name, score in others]
    print_table([f"{results.evaluation.title} (percent)", *columns], rows)
    flagged = [name.removeprefix("by_") for name in scores if name not in _named(outcomes)]
    for level in outcomes.levels:
        if scores[f"by_{level}"]:
            print()
            by_level = scores[f"by_{level}"].items()
            over = " over items" if level in outcomes.over_items else ""
            print_table([level, f"accuracy{over}"], [(name, percent(score)) for name, score in by_level])

    def print_groups(level: str) -> None:
        print()
        by_group: dict[str, Any] = counts[f"by_{level}"]
        groups: list[tuple[Cell, ...]] = [
            (name, percent(score), *(by_group[name][key] for key in ("items", "scored", "ties")))
            for name, score in scores[f"by_{level}"].items()
        ]
        print_table([level, *columns], groups)

    for level in flagged:
        if scores[f"by_{level}"]:
            print_groups(level)
    if details or not any(scores[f"by_{level}"] for level in outcomes.levels):
        print_groups(outcomes.unit)
