"""The record of test suites of syntactic generalization."""

from __future__ import annotations

from pdtools.evaluation.record import SCORE, Evaluation, Outcomes
from pdtools.evaluation.sg.circuits import EXCLUDED

EVALUATIONS = (
    Evaluation(
        name="sg",
        title="Syntactic generalization",
        in_text="the SG test suites",
        printer="pdtools.report.evaluations:print_benchmark",
        read={"scores.overall": SCORE, "scores.sg_31": SCORE, "scores.margin_bits.overall": SCORE},
        may_be_missing="scores.",
        outcomes=Outcomes(
            score="SG score, mean of suites (%)",
            counted="items",
            key=("suite", "item", "prediction"),
            content=("formula",),
            unit="suite",
            levels=("circuit",),
            outside=EXCLUDED,
            margin="SG margin, mean of suites (bits)",
        ),
        ignores_end=True,  # end-of-sentence is in no region
        card={
            "sg_31": "SG score, mean of the 31 suites (%)",
            "overall": "test suites, mean of suites (%)",
        },
    ),
)
