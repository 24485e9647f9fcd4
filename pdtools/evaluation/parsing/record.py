"""F1 of parses, and scores of dependencies, as records."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pdtools.evaluation.bootstrap import Sums
from pdtools.evaluation.record import COUNT, FLAG, SCORE, STRING, Document, Evaluation, MainScores

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray


def _f1(sums: NDArray[np.float64]) -> NDArray[np.float64]:
    """F1 from matched, gold and predicted brackets: 2 · matched / (gold + predicted), in percent."""
    import numpy as np

    return 200 * sums[..., 0] / np.maximum(sums[..., 1] + sums[..., 2], 1)


# By their labels: the score's name, the count of what it is over, and the sums that it is made of.
_DEPENDENCIES = {
    "UAS (%)": ("uas_f1", "words", ("correct_heads", "words", "predicted_words")),
    "LAS (%)": ("las_f1", "words", ("correct_relations", "words", "predicted_words")),
    "unlabeled arc F1 (%)": ("arc_f1", "arcs", ("correct_arcs", "arcs", "predicted_arcs")),
    "unlabeled arc F1, enhanced (%)": (
        "enhanced_arc_f1",
        "enhanced_arcs",
        ("correct_enhanced_arcs", "enhanced_arcs", "predicted_arcs"),
    ),
}


def _dependency_scores(document: Document) -> MainScores:
    scores, counts = document["scores"], document["counts"]
    return {
        label: (scores[name], (f"{counts[among]} {among.replace('_', ' ')}",))
        for label, (name, among, _) in _DEPENDENCIES.items()
        if scores[name] is not None
    }


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
        drawing="pdtools.report.view.drawing:PARSES",
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
    Evaluation(
        name="dependencies",
        title="Dependencies",
        in_text="dependencies",
        read={
            **{f"scores.{name}": SCORE for name, _, _ in _DEPENDENCIES.values()},
            **{f"counts.{among}": COUNT for _, among, _ in _DEPENDENCIES.values()},
        },
        scores=_dependency_scores,
        item_score=lambda label, document: Sums(key="sentence", columns=_DEPENDENCIES[label][2], score=_f1),
        columns=("sentence", *(name for _, _, columns in _DEPENDENCIES.values() for name in columns)),
        data="gold",
        card={"uas_f1": "UAS (%)", "las_f1": "LAS (%)", "arc_f1": "unlabeled arc F1 (%)"},
    ),
)
