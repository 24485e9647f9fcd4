"""Every two models of a benchmark compared, with p corrected for how many comparisons there are."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import combinations
from typing import Any

from pdtools.errors import PdtoolsError
from pdtools.evaluation.comparison.compare import compare_runs
from pdtools.report.view.loaded import Loaded

_SAMPLES = 2000


def pairwise(of_task: Sequence[Loaded], *, seed: int) -> dict[str, Any]:
    """Differences b − a in points of percent, overall and by the coarsest groups, with intervals and p.

    Returns:
        ``rows`` (none for one model), ``said``: what was tested, and how p was corrected; ``notes``.
    """
    rows: list[dict[str, Any]] = []
    notes: list[str] = []
    for one, other in combinations(of_task, 2):
        try:
            found = compare_runs(one.folder, other.folder, seed=seed, samples=_SAMPLES)
        except PdtoolsError as error:
            notes.append(f"{one.model} and {other.model}: {error}")
            continue
        notes += [f"{one.model} and {other.model}: {note}" for note in found["notes"]]
        coarse = [group for group in found["groups"] if group.level in ("overall", found["groups"][1].level)]
        rows += [
            {
                "group": group.name or "overall",
                "a": one.model,
                "b": other.model,
                "difference": round(100 * group.difference, 3),
                "low": round(100 * group.low, 3),
                "high": round(100 * group.high, 3),
                "only_a": group.only_a,
                "only_b": group.only_b,
                "p": group.p,
            }
            for group in coarse
        ]
    for row, corrected in zip(rows, holm([row["p"] for row in rows]), strict=True):
        row["p_holm"] = corrected
    said = (
        "Intervals: 95%, paired bootstrap over items. p: McNemar's exact test, two-sided, over the items that"
        f" only one of the two has right; corrected for the {len(rows)} comparisons of this table by Holm's method."
    )
    return {"rows": rows, "said": said, "notes": notes}


def holm(ps: Sequence[float]) -> list[float]:
    """Holm's (1979) adjusted p-values, in the order given."""
    adjusted, largest = [0.0] * len(ps), 0.0
    for rank, i in enumerate(sorted(range(len(ps)), key=ps.__getitem__)):
        largest = max(largest, min(1.0, (len(ps) - rank) * ps[i]))
        adjusted[i] = largest
    return adjusted
