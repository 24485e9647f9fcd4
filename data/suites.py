"""The mini SG: one suite for each circuit as templates, and their items in the official JSON format."""

from __future__ import annotations

import random
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from pdtools.data.grammar import Grammar
from pdtools.data.templates import render

Item = dict[str, list[list[str]]]
"""The words of every region of every condition."""


@dataclass(frozen=True, kw_only=True)
class Suite:
    """Conditions of regions: ``conditions[name]`` holds the region templates separated by ``|``."""

    name: str
    circuit: str
    comment: str
    regions: Sequence[str]
    conditions: Mapping[str, str]
    formula: str
    values: Sequence[dict[str, str]] = field(default_factory=lambda: ({},))


def _agreement(subject: str, distractor: str, verb: str) -> str:
    return (
        f"the | {{N#1 c=person a={subject}}} | who | the | {{N#2 c=person a={distractor}}}"
        f" | {{V#1 k=trans s=person o=person f=past}} | {{Be#1 f=pres a={verb}}} | {{Adj#1 c=person}} ."
    )


def _licensing(outer: str, inner: str) -> str:
    return (
        f"{outer} | {{N#1 c=person a=$n}} | who | {inner} | {{N#2 c=person}}"
        " | {V#1 k=trans s=person o=person f=past}"
        " | {Have#1 f=pres a=$n} | ever | {V#2 k=trans s=person o f=pp} the {N#3 c=$o} ."
    )


def _gap(complementizer: str, object_: str) -> str:
    return (
        f"the | {{N#1 c=person a=sg}} knows | {complementizer} | the {{N#2 c=person}}"
        f" | {{V#1 k=trans s=person o=$o f=past bare=no}} | {object_}"
        " | {P#1 c=where o=place} | the {N#4 c=place a=sg} ."
    )


def _garden_path(verb: str, comma: str) -> str:
    return (
        f"{{While#1}} the {{N#1 c=person}} | {verb} | {comma} | the {{N#2 c=$o a=$n}} | {{Be#1 f=past a=$n}}"
        " | {Adj#1 c=$o} ."
    )


def _subordination(opener: str, end: str) -> str:
    return f"{opener} the {{N#1 c=person}} | {{V#1 k=trans s=person o f=past}} the {{N#2 c=$o}} | {end}"


_MATRIX = ", the {N#3 c=person} {V#2 k=intr s=person f=past} ."
_AMBIGUOUS = "{V#1 k=opt s=person o=$o f=past}"
_INTRANSITIVE = "{V#2 k=never s=person f=past}"

SUITES = (
    Suite(
        name="mini_number_orc",
        circuit="Agreement",
        comment="The verb agrees with the subject across an object relative clause with the other number.",
        regions=("det", "subject", "rel", "embed_det", "embed_subject", "embed_verb", "verb", "continuation"),
        conditions={
            "match_sing": _agreement("sg", "pl", "sg"),
            "mismatch_sing": _agreement("sg", "pl", "pl"),
            "match_plural": _agreement("pl", "sg", "pl"),
            "mismatch_plural": _agreement("pl", "sg", "sg"),
        },
        formula="[(7;%match_sing%) < (7;%mismatch_sing%)] & [(7;%match_plural%) < (7;%mismatch_plural%)]",
    ),
    Suite(
        name="mini_npi_ever",
        circuit="Licensing",
        comment="A negative determiner of the subject licenses 'ever', one in its relative clause doesn't.",
        regions=("det", "subject", "rel", "embed_det", "embed_subject", "embed_verb", "has", "npi", "end"),
        conditions={
            "neg_pos": _licensing("no", "the"),
            "neg_neg": _licensing("no", "no"),
            "pos_pos": _licensing("the", "the"),
            "pos_neg": _licensing("the", "no"),
        },
        formula="""[(8;%neg_pos%) < (8;%pos_pos%)] & [(8;%neg_neg%) < (8;%pos_neg%)] &
            [(8;%neg_pos%) < (8;%pos_neg%)]""",
        values=({"n": "sg"}, {"n": "pl"}),
    ),
    Suite(
        name="mini_center_embed",
        circuit="Center Embedding",
        comment="The verbs of two clauses, one inside the other, come in the order that fits their subjects.",
        regions=("det", "outer_subject", "rel", "inner_det", "inner_subject", "verb_1", "verb_2", "end"),
        conditions={
            "plaus": """the | {N#1 c=$c a=$n} | that | the | {N#2 c=person}
                | {V#1 k=trans s=person o=$c f=past bare=no} | {V#2 k=intr s=$c f=past} | .""",
            "implaus": """the | {N#1 c=$c a=$n} | that | the | {N#2 c=person} | {V#2 k=intr s=$c f=past}
                | {V#1 k=trans s=person o=$c f=past bare=no} | .""",
        },
        formula="[(6;%plaus%) + (7;%plaus%)] < [(6;%implaus%) + (7;%implaus%)]",
        values=tuple({"c": c, "n": n} for c in ("thing", "doc", "food") for n in ("sg", "pl")),
    ),
    Suite(
        name="mini_fgd_object",
        circuit="Long-Distance Dependencies",
        comment="A filler needs its gap: an object surprises after 'what', a missing one after 'that'.",
        regions=("det", "prefix", "comp", "embed_subject", "embed_verb", "object", "prep", "end"),
        conditions={
            "what_nogap": _gap("what", "the {N#3 c=$o}"),
            "that_nogap": _gap("that", "the {N#3 c=$o}"),
            "what_gap": _gap("what", ""),
            "that_gap": _gap("that", ""),
        },
        formula="[(6;%what_nogap%) > (6;%that_nogap%)] & [(7;%what_gap%) < (7;%that_gap%)]",
        values=tuple({"o": o} for o in ("doc", "thing", "food")),
    ),
    Suite(
        name="mini_npz",
        circuit="Garden-Path Effects",
        comment="Without a comma a noun phrase is taken for the object of a verb that can have one.",
        regions=("start", "verb", "comma", "np", "main_verb", "continuation"),
        conditions={
            "ambig_nocomma": _garden_path(_AMBIGUOUS, ""),
            "unambig_nocomma": _garden_path(_INTRANSITIVE, ""),
            "ambig_comma": _garden_path(_AMBIGUOUS, ","),
            "unambig_comma": _garden_path(_INTRANSITIVE, ","),
        },
        formula="""[(5;%ambig_nocomma%) > (5;%ambig_comma%)] & [(5;%ambig_nocomma%) > (5;%unambig_nocomma%)] &
            [[(5;%ambig_nocomma%) - (5;%ambig_comma%)] > [(5;%unambig_nocomma%) - (5;%unambig_comma%)]]""",
        values=tuple({"o": o, "n": n} for o in ("doc", "person", "food", "place") for n in ("sg", "pl")),
    ),
    Suite(
        name="mini_subordination",
        circuit="Gross Syntactic State",
        comment="A subordinate clause needs a main clause after it, and a main clause alone does not.",
        regions=("subordinate_1", "subordinate_2", "main_clause"),
        conditions={
            "sub_no-matrix": _subordination("{While#1}", "."),
            "no-sub_no-matrix": _subordination("", "."),
            "sub_matrix": _subordination("{While#1}", _MATRIX),
            "no-sub_matrix": _subordination("", _MATRIX),
        },
        formula="[(3;%sub_no-matrix%) > (3;%no-sub_no-matrix%)] & [(3;%sub_matrix%) < (3;%no-sub_matrix%)]",
    ),
)  # fmt: skip


def item(suite: Suite, grammar: Grammar, rng: random.Random, number: int) -> Item:
    """Draw an item: for every condition the words of its regions.

    Raises:
        DeadEnd: the grammar has nothing that fits.
    """
    values = suite.values[number % len(suite.values)]
    versions = [text.split("|") for text in suite.conditions.values()]
    return dict(zip(suite.conditions, render(grammar, rng, versions, values), strict=True))


def document(suite: Suite, items: Sequence[Item]) -> dict[str, Any]:
    """The suite in the official format, with its circuit beside the usual keys of ``meta``."""
    return {
        "meta": {
            "name": suite.name,
            "metric": "sum",
            "comment": suite.comment,
            "reference": "",
            "author": "The pdtools authors",
            "circuit": suite.circuit,
        },
        "region_meta": {str(number): name for number, name in enumerate(suite.regions, start=1)},
        "predictions": [{"type": "formula", "formula": " ".join(suite.formula.split())}],
        "items": [
            {
                "item_number": number,
                "conditions": [
                    {
                        "condition_name": name,
                        "regions": [
                            {"region_number": index, "content": " ".join(words)}
                            for index, words in enumerate(regions, start=1)
                        ],
                    }
                    for name, regions in conditions.items()
                ],
            }
            for number, conditions in enumerate(items, start=1)
        ],
    }
