"""The mini BLiMP: paradigms of minimal pairs as templates, and their records in the official key format."""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from pdtools.data.grammar import Grammar
from pdtools.data.templates import raw_text, render

# Values of the template variables, used in turn: a number and the other one, a gender and the other one.
NUMBERS = ({"n": "sg", "m": "pl"}, {"n": "pl", "m": "sg"})
GENDERS = ({"r": "him", "q": "her"}, {"r": "her", "q": "him"})
ANY: tuple[dict[str, str], ...] = ({},)


@dataclass(frozen=True, kw_only=True)
class Paradigm:
    """Two templates that differ in one point of grammar; ``^`` stands before the word after two prefixes."""

    uid: str
    field: str
    term: str
    good: str
    bad: str
    values: Sequence[dict[str, str]] = ANY
    prefix: str = ""  # "one": same prefix, another word; "two": another prefix, the same word


PARADIGMS = (
    Paradigm(
        uid="mini_subject_verb_agreement_pp",
        field="morphology",
        term="subject_verb_agreement",
        good="""the {N#1 c=person a=$n} {P#1 c=person o=person} the {N#2 c=person a=$m}
            {Be#1 f=pres a=$n} {Adj#1 c=person} .""",
        bad="""the {N#1 c=person a=$n} {P#1 c=person o=person} the {N#2 c=person a=$m}
            {Be#1 f=pres a=$m} {Adj#1 c=person} .""",
        values=NUMBERS,
        prefix="one",
    ),
    Paradigm(
        uid="mini_subject_verb_agreement_relative",
        field="morphology",
        term="subject_verb_agreement",
        good="""the {N#1 c=person a=$n} who the {N#2 c=person a=$m} {V#1 k=trans s=person o=person f=past}
            {V#2 k=trans s=person o=$o f=pres a=$n} the {N#3 c=$o} .""",
        bad="""the {N#1 c=person a=$n} who the {N#2 c=person a=$m} {V#1 k=trans s=person o=person f=past}
            {V#2 k=trans s=person o=$o f=pres a=$m} the {N#3 c=$o} .""",
        values=NUMBERS,
        prefix="one",
    ),
    Paradigm(
        uid="mini_determiner_noun_agreement",
        field="morphology",
        term="determiner_noun_agreement",
        good="{Name#1} {V#1 k=trans s=person o f=past} {D#1 a=$n points=yes} {N#1 c=$o a=$n} .",
        bad="{Name#1} {V#1 k=trans s=person o f=past} {D#1 a=$n points=yes} {N#1 c=$o a=$m} .",
        values=NUMBERS,
        prefix="one",
    ),
    Paradigm(
        uid="mini_irregular_past",
        field="morphology",
        term="irregular_forms",
        good="the {N#1 c=person} {V#1 k=trans s=person o f=past same=no} {Base#1 c=$o} .",
        bad="the {N#1 c=person} {V#1 k=trans s=person o f=pp same=no} {Base#1 c=$o} .",
        prefix="one",
    ),
    Paradigm(
        uid="mini_anaphor_gender",
        field="morphology",
        term="anaphor_agreement",
        good="{Name#1 r} near the {N#1 c=person gender=$q a=sg} {V#1 k=refl s=person f=past} {Refl r} .",
        bad="{Name#1 r} near the {N#1 c=person gender=$q a=sg} {V#1 k=refl s=person f=past} {Refl r=$q} .",
        values=GENDERS,
        prefix="one",
    ),
    Paradigm(
        uid="mini_anaphor_number",
        field="morphology",
        term="anaphor_agreement",
        good="the {N#1 c=person a=pl} near {Name#1 r} {V#1 k=refl s=person f=past} themselves .",
        bad="the {N#1 c=person a=pl} near {Name#1 r} {V#1 k=refl s=person f=past} {Refl r} .",
        prefix="one",
    ),
    Paradigm(
        uid="mini_principle_a_domain",
        field="syntax_semantics",
        term="binding",
        good="""the {N#1 c=person a=sg gender=$q} {V#1 k=say s=person f=past} that {Name#1 r}
            {V#2 k=refl s=person f=past} {Refl r} .""",
        bad="""the {N#1 c=person a=sg gender=$q} {V#1 k=say s=person f=past} that {Name#1 r}
            {V#2 k=refl s=person f=past} {Refl r=$q} .""",
        values=GENDERS,
        prefix="one",
    ),
    Paradigm(
        uid="mini_npi_licensor",
        field="semantics",
        term="npi_licensing",
        good="""no {N#1 c=person a=$n} {Have#1 f=pres a=$n}
            ^ ever {V#1 k=trans s=person o f=pp} {Base#1 c=$o} .""",
        bad="""the {N#1 c=person a=$n} {Have#1 f=pres a=$n}
            ^ ever {V#1 k=trans s=person o f=pp} {Base#1 c=$o} .""",
        values=NUMBERS,
        prefix="two",
    ),
    Paradigm(
        uid="mini_npi_scope",
        field="syntax_semantics",
        term="npi_licensing",
        good="""no {N#1 c=person a=$n} who the {N#2 c=person} {V#1 k=trans s=person o=person f=past}
            {Have#1 f=pres a=$n} ^ ever {V#2 k=trans s=person o f=pp} the {N#3 c=$o} .""",
        bad="""the {N#1 c=person a=$n} who no {N#2 c=person} {V#1 k=trans s=person o=person f=past}
            {Have#1 f=pres a=$n} ^ ever {V#2 k=trans s=person o f=pp} the {N#3 c=$o} .""",
        values=NUMBERS,
        prefix="two",
    ),
    Paradigm(
        uid="mini_wh_object_gap",
        field="syntax",
        term="filler_gap_dependency",
        good="""the {N#1 c=person a=sg} knows what the {N#2 c=person}
            {V#1 k=trans s=person o=$o f=past bare=no} yesterday .""",
        bad="""the {N#1 c=person a=sg} knows that the {N#2 c=person}
            {V#1 k=trans s=person o=$o f=past bare=no} yesterday .""",
        values=({"o": "doc"}, {"o": "thing"}, {"o": "food"}),
    ),
    Paradigm(
        uid="mini_wh_no_gap",
        field="syntax",
        term="filler_gap_dependency",
        good="""the {N#1 c=person a=sg} knows that the {N#2 c=person}
            {V#1 k=trans s=person o=$o f=past} the {N#3 c=$o} .""",
        bad="""the {N#1 c=person a=sg} knows what the {N#2 c=person}
            {V#1 k=trans s=person o=$o f=past} the {N#3 c=$o} .""",
        values=({"o": "doc"}, {"o": "thing"}, {"o": "food"}),
    ),
    Paradigm(
        uid="mini_transitive",
        field="syntax",
        term="argument_structure",
        good="the {N#1 c=person} {V#1 k=trans s=person o f=past} {Base#1 c=$o} .",
        bad="the {N#1 c=person} {V#2 k=never s=person f=past} {Base#1 c=$o} .",
        prefix="one",
    ),
)


def pair(
    paradigm: Paradigm, grammar: Grammar, rng: random.Random, number: int
) -> tuple[list[str], list[str], dict[str, Any]]:
    """Draw one pair: the words of both sentences, and the record without its ``pairID``.

    Raises:
        DeadEnd: the grammar has nothing that fits.
    """
    values = paradigm.values[number % len(paradigm.values)]
    ((good,), (bad,)) = render(grammar, rng, [[paradigm.good], [paradigm.bad]], values)
    prefixes: dict[str, str] = {}
    if paradigm.prefix == "two":
        cut_good, cut_bad = good.index("^"), bad.index("^")
        prefixes = {
            "two_prefix_prefix_good": raw_text(good[:cut_good]),
            "two_prefix_prefix_bad": raw_text(bad[:cut_bad]),
            "two_prefix_word": good[cut_good + 1],
        }
        good.remove("^")
        bad.remove("^")
    elif paradigm.prefix == "one":
        cut = next(index for index, (one, other) in enumerate(zip(good, bad, strict=False)) if one != other)
        prefixes = {
            "one_prefix_prefix": raw_text(good[:cut]),
            "one_prefix_word_good": good[cut],
            "one_prefix_word_bad": bad[cut],
        }
    record = {
        "sentence_good": raw_text(good),
        "sentence_bad": raw_text(bad),
        **prefixes,
        "field": paradigm.field,
        "linguistics_term": paradigm.term,
        "UID": paradigm.uid,
        "simple_LM_method": True,
        "one_prefix_method": paradigm.prefix == "one",
        "two_prefix_method": paradigm.prefix == "two",
        "lexically_identical": sorted(map(str.lower, good)) == sorted(map(str.lower, bad)),
    }
    return good, bad, record
