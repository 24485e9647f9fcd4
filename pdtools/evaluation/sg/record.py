"""The record of test suites of syntactic generalization, and the suites of Hu et al. (2020), by circuit."""

from __future__ import annotations

from pdtools.evaluation.record import SCORE, Evaluation, Outcomes

# Circuits and their suites. All suites count in the paper's SG score except the excluded ones.
CIRCUITS: dict[str, tuple[str, ...]] = {
    "Agreement": ("number_orc", "number_prep", "number_src"),
    "Center Embedding": ("center_embed", "center_embed_mod"),
    "Garden-Path Effects": ("mvrr", "mvrr_mod", "npz_ambig", "npz_ambig_mod", "npz_obj", "npz_obj_mod"),
    "Gross Syntactic State": (
        "subordination",
        "subordination_orc-orc",
        "subordination_pp-pp",
        "subordination_src-src",
    ),
    "Licensing": (
        "npi_orc_any",
        "npi_orc_ever",
        "npi_src_any",
        "npi_src_ever",
        "reflexive_orc_fem",
        "reflexive_orc_masc",
        "reflexive_prep_fem",
        "reflexive_prep_masc",
        "reflexive_src_fem",
        "reflexive_src_masc",
    ),
    "Long-Distance Dependencies": (
        "cleft",
        "cleft_modifier",
        "fgd-embed3",
        "fgd-embed4",
        "fgd_hierarchy",
        "fgd_object",
        "fgd_pp",
        "fgd_subject",
    ),
}

# Reported, but in no circuit's score and not in the paper's SG score.
EXCLUDED = frozenset({"fgd-embed3", "fgd-embed4", "nn-nv-rpl"})

OTHER = "other"

CIRCUIT_OF = {suite: circuit for circuit, suites in CIRCUITS.items() for suite in suites}
"""The circuits of the paper's suites."""

SCORED_31 = frozenset(CIRCUIT_OF) - EXCLUDED
"""The suites whose mean is the SG score of Hu et al. (2020)."""

SCORED_33 = frozenset(CIRCUIT_OF)
"""The same with the two deeper filler-gap suites: the 33 of Qian et al. (2021)."""


CONVENTIONS = ("overall", "sg_31", "sg_33", "mean_of_circuits", "mean_of_items")
"""The ways to combine all items into one number (:class:`pdtools.evaluation.sg.suites.SuiteItems`)."""


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
