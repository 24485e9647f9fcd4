"""The record of minimal pairs."""

from __future__ import annotations

from pdtools.evaluation.record import SCORE, Evaluation, Outcomes

EVALUATIONS = (
    Evaluation(
        name="blimp",
        title="BLiMP",
        in_text="BLiMP",
        printer="pdtools.report.evaluations:print_benchmark",
        read={"scores.overall": SCORE, "scores.margin_bits.overall": SCORE},
        may_be_missing="scores.",
        outcomes=Outcomes(
            score="BLiMP accuracy (%)",
            counted="items",
            key=("paradigm", "item", "prediction"),
            content=("formula",),
            unit="paradigm",
            levels=("field", "phenomenon"),
            chance=0.5,
            margin="BLiMP margin (bits)",
        ),
        card={"overall": "minimal pairs, accuracy, mean of paradigms (%)"},
    ),
)
