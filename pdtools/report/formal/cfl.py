"""Tables and figures of cross-entropies against the exact bound of a context-free language."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from pdtools.evaluation.results import Results
from pdtools.report.tables import Cell, print_table
from pdtools.report.view.charts import curves
from pdtools.report.view.vega import save_chart

_LENGTHS_TOGETHER = 10


def print_cfl(results: Results) -> None:
    """Print the scores over all strings, and by ten lengths together (each length with equal weight)."""
    scores = results.scores
    columns = ["strings", "model", "bound", "difference"]
    overall: list[Cell] = [results.counts["strings"], *_cells(scores)]
    print_table(columns, [overall], title=_title(results), digits=4)
    print()
    tens: dict[int, list[tuple[int, dict[str, Any]]]] = {}
    for length, each in scores["by_length"].items():
        tens.setdefault(int(length) // _LENGTHS_TOGETHER, []).append((int(length), each))
    rows: list[tuple[Cell, ...]] = []
    for group in tens.values():
        means = {name: _mean([each[name] for _, each in group]) for name in _NAMES}
        strings = sum(each["strings"] for _, each in group)
        rows.append((f"{group[0][0]}-{group[-1][0]}", strings, *_cells(means)))
    print_table(["lengths", *columns], rows, title="By length, the bound given it (nats a symbol)", digits=4)


_NAMES = ("cross_entropy", "bound", "difference")


def draw_by_length(path: str | Path, scores: Mapping[str, Mapping[str, Any]]) -> None:
    """Draw the differences by length, a line for each model's scores (by its label).

    Figure 2 of the paper.
    """
    rows = [
        {"series": label, "x": int(length), "y": values["difference"]}
        for label, each in scores.items()
        for length, values in each["by_length"].items()
    ]
    save_chart(path, curves(rows, x="tokens", y="cross-entropy difference (nats a symbol)"))


def _cells(scores: Mapping[str, float | None]) -> list[Cell]:
    return [scores[name] for name in _NAMES]


def _mean(values: list[float | None]) -> float | None:
    known = [value for value in values if value is not None]
    return sum(known) / len(known) if known else None


def _title(results: Results) -> str:
    return f"{results.settings['language']['grammar']}: cross-entropy, nats a symbol"
