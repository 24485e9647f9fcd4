"""The test suites of Hu et al. (2020), by circuit."""

from __future__ import annotations

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

_CIRCUIT_OF = {suite: circuit for circuit, suites in CIRCUITS.items() for suite in suites}

SCORED_31 = frozenset(_CIRCUIT_OF) - EXCLUDED
"""The suites whose mean is the SG score of Hu et al. (2020)."""

SCORED_33 = frozenset(_CIRCUIT_OF)
"""The same with the two deeper filler-gap suites: the 33 of Qian et al. (2021)."""


def circuit_of(suite: str, named: str | None = None) -> str:
    """The circuit of a suite: the paper's for its suites, else the suite's own, else "other"."""
    return _CIRCUIT_OF.get(suite) or named or OTHER
