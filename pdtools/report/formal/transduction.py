"""Tables and figures of the transduction tasks."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from pdtools.evaluation.results import Results, mean
from pdtools.report.tables import Cell, percent, print_table
from pdtools.report.view.charts import curves
from pdtools.report.view.vega import save_chart

_LENGTHS_TOGETHER = 10  # in a printed table of lengths


def print_transduction(results: Results) -> None:
    """Print accuracy on average, and by ten lengths together."""
    scores, settings = results.scores, results.settings
    rows: list[tuple[Cell, ...]] = [
        (name.replace("_", " "), percent(scores[name]))
        for name in ("accuracy", "accuracy_beyond_training", "accuracy_as_released", "exact")
    ]
    title = f"Task {settings['formal_task']}, {settings['objective']}, {settings['decoding']} (percent)"
    print_table(["average over lengths", "score"], rows, title=title)
    print()
    tens: dict[int, list[dict[str, Any]]] = {}
    for length, each in scores["by_length"].items():
        tens.setdefault((int(length) - 1) // _LENGTHS_TOGETHER, []).append({"length": length, **each})
    print_table(
        ["lengths", "pairs", "accuracy", "exact"],
        [
            (
                f"{group[0]['length']}-{group[-1]['length']}",
                sum(each["pairs"] for each in group),
                percent(mean([each["accuracy"] for each in group])),
                percent(mean([each["exact"] for each in group])),
            )
            for group in tens.values()
        ],
    )


def draw_by_length(path: str | Path, results: Results) -> None:
    """Draw the accuracy by length."""
    label = f"{results.settings['formal_task']}, {results.settings['objective']}"
    rows = [
        {"series": label, "x": int(length), "y": 100 * each["accuracy"]}
        for length, each in results.scores["by_length"].items()
    ]
    save_chart(path, curves(rows, x="symbols of x", y="symbols of y right (percent)", percent=True))
