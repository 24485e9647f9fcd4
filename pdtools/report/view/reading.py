"""Which model predicts reading times: gains in held-out likelihood, for the page of evaluations."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from pdtools.report.view.charts import dots
from pdtools.report.view.drawing import Drawing
from pdtools.report.view.loaded import Loaded


def _gains(of_task: Sequence[Loaded], _: object) -> tuple[dict[str, Any], dict[str, Any]]:
    """The rows of a chart of each model's gain over its baseline, nats a word, and the chart.

    Args:
        of_task: results of eval-reading; models are named with their folders' names, if there are several.
    """
    rows = []
    for each in of_task:
        baseline = " + ".join(each.document["settings"].get("baseline", [])) or "the baseline"
        words = each.document["counts"]["words_regressed"]
        for name, found in each.document["scores"]["by_model"].items():
            series = f"{each.model}: {name}" if len(of_task) > 1 else name
            rows.append(
                {
                    "name": f"over {baseline}",
                    "series": series,
                    "score": found["delta_ll"],
                    "low": found["low"],
                    "high": found["high"],
                    "n": words,
                }
            )
    chart = dots(series=[row["series"] for row in rows], title="ΔLL (nats a word)", chance=0.0, shares=False)
    return {"gains": rows, "chart": chart}, {}


GAINS = Drawing(parts=_gains)
