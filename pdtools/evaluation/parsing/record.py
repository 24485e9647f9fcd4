"""The record of the evaluation of parses, F1."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pdtools.evaluation.record import COUNT, FLAG, SCORE, STRING, Document, Evaluation, MainScores
from pdtools.evaluation.sums import Sums

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray


def _f1(sums: NDArray[np.float64]) -> NDArray[np.float64]:
    """F1 from matched, gold and predicted brackets: 2 · matched / (gold + predicted), in percent."""
    import numpy as np

    return 200 * sums[..., 0] / np.maximum(sums[..., 1] + sums[..., 2], 1)


F1 = Sums(key="line", columns=("matched", "gold", "predicted"), score=_f1, only=("status", "scored"))


def _main_scores(document: Document) -> MainScores:
    settings = document["settings"]
    kind = "labeled" if settings["labeled"] else "unlabeled"
    trees = "" if settings["binarize"] == "none" else f", {settings['binarize']}-binarized"
    return {
        f"{kind} F1{trees} (%)": (document["scores"]["f1"], (f"{document['counts']['scored']} sentences",))
    }


EVALUATIONS = (
    Evaluation(
        name="parse",
        title="Parsing",
        in_text="parsing",
        printer="pdtools.report.evaluations:print_parse",
        drawing="pdtools.report.view.items:PARSES",
        read={
            "settings.labeled": FLAG,
            "settings.binarize": STRING,
            "scores.f1": SCORE,
            "counts.scored": COUNT,
        },
        scores=_main_scores,
        item_score=lambda label, document: F1,
        columns=(F1.key, *F1.columns, "status"),
        data="gold",
        card={"f1": "F1 of parses (%)"},
    ),
)
