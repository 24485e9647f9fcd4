"""The SG score from results per item, in every convention that papers use."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from pdtools.evaluation.results import mean
from pdtools.evaluation.sg.circuits import EXCLUDED, SCORED_31, SCORED_33
from pdtools.search.adaptive_beam import NO_WIDTH, Width

CONVENTIONS = ("overall", "sg_31", "sg_33", "mean_of_circuits", "mean_of_items")
"""The ways to combine all items into one number, see :func:`sg_scores`."""


@dataclass(frozen=True, kw_only=True, slots=True)
class ItemResult:
    """The outcome of one prediction on one item.

    Attributes:
        suite: the suite's name.
        circuit: its circuit.
        item: the item's number.
        prediction: the index of the prediction in the suite, from 1; the first is the scored one.
        correct: None if a sentence has no score.
        margin_bits: the amount in bits by which it holds; None: not known.
        dropped: the largest share of the probability of one of its sentences that a search dropped.
        width: the width of this item's search, if it has its own.
        reason: why it has none.
    """

    suite: str
    circuit: str
    item: int
    prediction: int = 1
    correct: bool | None
    margin_bits: float | None = None
    dropped: float | None = None
    width: Width = NO_WIDTH
    reason: str | None = None


def sg_scores(results: Iterable[ItemResult]) -> dict[str, Any]:
    """Scores from results per item, as fractions of 1.

    An item is right iff the suite's first prediction holds; a suite is the mean over its scored items; a
    circuit the unweighted mean of its suites. fgd-embed3, fgd-embed4 and nn-nv-rpl are in ``by_suite`` only.

    Returns:
        ``overall``: the mean of the suites (Hu et al. 2020: unweighted, neither of circuits nor of items)
        without the three excluded; ``sg_31``: the same, if all 31 suites of the paper are there, else None;
        ``sg_33``: with fgd-embed3 and fgd-embed4 (as Qian et al. 2021), if all are there;
        ``mean_of_circuits``; ``mean_of_items``; ``by_circuit``; ``by_suite``; ``by_prediction``: every
        prediction of every suite that has more than one; ``margin_bits``: ``overall``, ``by_circuit`` and
        ``by_suite`` of the means of margins, in bits, if any is known.
    """
    results = list(results)
    circuits = {result.suite: result.circuit for result in results}
    right: dict[tuple[str, int], list[float]] = {}
    margins: dict[tuple[str, int], list[float]] = {}
    for result in results:
        for values, value in ((right, result.correct), (margins, result.margin_bits)):
            of_prediction = values.setdefault((result.suite, result.prediction), [])
            if value is not None:
                of_prediction.append(float(value))
    found = _means(right, circuits)
    several = sorted({suite for suite, prediction in right if prediction > 1})
    of_items = [x for suite in sorted(circuits) if suite not in EXCLUDED for x in right[suite, 1]]
    return {
        "overall": found["overall"],
        "sg_31": _mean_of_all(found["by_suite"], SCORED_31),
        "sg_33": _mean_of_all(found["by_suite"], SCORED_33),
        "mean_of_circuits": mean([score for score in found["by_circuit"].values() if score is not None]),
        "mean_of_items": mean(of_items),
        "by_circuit": found["by_circuit"],
        "by_suite": found["by_suite"],
        "by_prediction": {
            suite: {str(p): mean(right[s, p]) for s, p in sorted(right) if s == suite} for suite in several
        },
        **({"margin_bits": _means(margins, circuits)} if any(margins.values()) else {}),
    }


def _means(values: Mapping[tuple[str, int], list[float]], circuits: Mapping[str, str]) -> dict[str, Any]:
    """Means of the first predictions' values, by suite and by circuit, and of the suites that count."""
    by_suite = {suite: mean(values[suite, 1]) for suite in sorted(circuits)}
    counted = {suite: score for suite, score in by_suite.items() if suite not in EXCLUDED}
    by_circuit: dict[str, list[float]] = {circuits[suite]: [] for suite in counted}
    for suite, score in counted.items():
        if score is not None:
            by_circuit[circuits[suite]].append(score)
    return {
        "overall": mean([score for score in counted.values() if score is not None]),
        "by_circuit": {circuit: mean(by_circuit[circuit]) for circuit in sorted(by_circuit)},
        "by_suite": by_suite,
    }


def _mean_of_all(by_suite: Mapping[str, float | None], wanted: frozenset[str]) -> float | None:
    """The mean of these suites, if every one of them has a score."""
    scores = [by_suite.get(suite) for suite in sorted(wanted)]
    present = [score for score in scores if score is not None]
    return mean(present) if len(present) == len(wanted) else None
