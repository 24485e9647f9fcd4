"""Tables and sentences of experiment A, from docs/notes/results/question (studies/pages.py).

python studies/question/margins.py compare trees scores-trees/*.csv.gz -o trees.json

``auto.json`` has scores of the jackknifed trees, which trees.sh evaluates.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from statistics import mean, stdev
from typing import Any

from pdtools.report.tables import decimal, markdown_table

LABELS = {
    "base": "base LM",
    "base-head": "base LM, attachment loss",
    "pushdown": "Pushdown LM",
    "pushdown-auto": "Pushdown LM, parser's trees",
}
PRIMARY = ("margin sg", "margin blimp")
PERPLEXITY = "margin ppl"  # the mean log₂ p of a word
# Of each score its heading, the unit of differences and decimals.
SCORES: Mapping[str, tuple[str, str, int]] = {
    "margin sg": ("SG margin (bits)", "bits", 2),
    "margin blimp": ("BLiMP margin (bits)", "bits", 2),
    "correct sg": ("SG accuracy (%)", "points", 1),
    "correct blimp": ("BLiMP accuracy (%)", "points", 1),
    PERPLEXITY: ("perplexity", "%", 1),
}
Document = Mapping[str, Any]


def scores_table(found: Document, a: str, less: str) -> str:
    """A row for each score after the last pass: two conditions and their difference."""
    passes = max(found["scores"], key=int)
    rows = [["", LABELS[less], LABELS[a], "difference [95%]", "p"], ["---"] * 5]
    for score, (heading, *_) in SCORES.items():
        p = _difference(found, a, less, score, passes).get("corrected")
        rows.append([heading, *_row(found, a, less, score, passes), "" if p is None else f"{p:.2g}"])
    return markdown_table(rows)


def conditions_table(found: Document, *conditions: str) -> str:
    """A row for each score after the last pass, a column for each condition."""
    passes = max(found["scores"], key=int)
    rows = [["", *(LABELS[name] for name in conditions)], ["---"] * (1 + len(conditions))]
    for score, (heading, *_) in SCORES.items():
        of = found["scores"][passes][score]
        rows.append([heading, *(_seeds(of[name]["values"], score) for name in conditions)])
    return markdown_table(rows)


def differences_table(found: Document, a: str, *others: str) -> str:
    """A row for each condition that one is compared with: the primary measures after the last pass."""
    passes = max(found["scores"], key=int)
    rows = [[f"{LABELS[a]}, less", *(f"{SCORES[score][0]} | p" for score in PRIMARY)], ["---"] * 5]
    for less in others:
        each = [_difference(found, a, less, score, passes) for score in PRIMARY]
        rows.append([LABELS[less], *(f"{_interval(of)} | {of['corrected']:.2g}" for of in each)])
    return markdown_table(rows)


def passes_table(found: Document, a: str, less: str, score: str) -> str:
    """A row for each number of passes."""
    score = _spaced(score)
    rows = [["passes", LABELS[less], LABELS[a], "difference [95%]"], ["---"] * 4]
    rows += [[each, *_row(found, a, less, score, each)] for each in sorted(found["scores"], key=int)]
    return markdown_table(rows)


def groups_table(found: Document, a: str, less: str, score: str) -> str:
    """A row for each circuit or phenomenon, after the last pass."""
    score = _spaced(score)
    passes = max(found["scores"], key=int)
    rows = [["", LABELS[less], LABELS[a], "difference [95%]"], ["---"] * 4]
    for name in sorted(found["scores"][passes]):
        if name.startswith(f"{score} "):
            rows.append([name.removeprefix(f"{score} "), *_row(found, a, less, name, passes)])
    return markdown_table(rows)


def difference_in(found: Document, a: str, less: str, score: str) -> str:
    """The difference after the last pass, with its 95% interval and, in a family, its p."""
    each = _difference(found, a, less, _spaced(score), max(found["scores"], key=int))
    value, low, high, unit = _ends(each)
    sign = "% " if unit == "%" else f" {unit} "
    p = f" (p = {each['corrected']:.2g})" if "corrected" in each else ""
    return f"{value}{sign}[{low}, {high}]{p}"


def unit_difference(found: Document, a: str, less: str, evaluation: str, unit: str) -> str:
    """The difference in one suite or paradigm, after the last pass."""
    each = _units(found, a, less, evaluation)[unit]
    low, high = (_number(each[name], 2, "+") for name in ("low", "high"))
    return f"{_number(each['difference'], 2, '+')} bits [{low}, {high}]"


def ahead(found: Document, a: str, less: str, evaluation: str) -> str:
    """In how many suites or paradigms one condition's margin is higher, after the last pass."""
    each = _units(found, a, less, evaluation).values()
    return f"{sum(of['difference'] > 0 for of in each)} of {len(each)}"


def parses(found: Document) -> str:
    """Unlabeled F1 of trees of a parser."""
    return decimal(found["scores"]["unlabeled_f1"], 1)


def _units(found: Document, a: str, less: str, evaluation: str) -> Mapping[str, Document]:
    return {
        each["unit"].removeprefix(f"{evaluation} "): each
        for each in found["units"]
        if (each["a"], each["less"]) == (a, less) and each["unit"].startswith(f"{evaluation} ")
    }


def _row(found: Document, a: str, less: str, score: str, passes: str) -> list[str]:
    shown = _interval(_difference(found, a, less, score, passes))
    return [*(_seeds(found["scores"][passes][score][name]["values"], score) for name in (less, a)), shown]


def _interval(each: Document) -> str:
    value, low, high, unit = _ends(each)
    return f"{value}{'%' * (unit == '%')} [{low}, {high}]"


def _seeds(values: list[float], score: str) -> str:
    """The mean over seeds ± its deviation."""
    *_, digits = SCORES[_measure(score)]
    numbers = [2**-value for value in values] if score == PERPLEXITY else values
    return f"{_number(mean(numbers), digits)} ± {_number(stdev(numbers), digits)}"


def _difference(found: Document, a: str, less: str, score: str, passes: str) -> Document:
    listed = [*(each for family in found["families"] for each in family), *found["others"]]
    by_name: Mapping[Any, Document] = {
        (each["a"], each["less"], each["score"], each["passes"]): each for each in listed
    }
    return by_name[a, less, score, int(passes)]


def _ends(each: Document) -> tuple[str, str, str, str]:
    """A difference, the ends of its interval, and their unit; of perplexities the ratio less 1."""
    _, unit, digits = SCORES[_measure(each["score"])]
    numbers = [each[name] for name in ("difference", "low", "high")]
    if unit == "%":
        value, high, low = (100 * (2**-number - 1) for number in numbers)
        numbers = [value, low, high]
    value, low, high = (_number(number, digits, "+") for number in numbers)
    return value, low, high, unit


def _number(number: float, digits: int, sign: str = "") -> str:
    return decimal(number, digits, sign).replace("-", "−")


def _measure(score: str) -> str:
    """The measure and evaluation of a score, without its group."""
    return " ".join(score.split(" ")[:2])


def _spaced(score: str) -> str:
    """The name of a score from an argument of a passage, which has no blanks: margin-sg-Center+Embedding."""
    return " ".join(score.split("-", 2)).replace("+", " ")


PASSAGES: dict[str, Callable[..., str]] = {
    "scores": scores_table,
    "conditions": conditions_table,
    "differences": differences_table,
    "passes": passes_table,
    "groups": groups_table,
    "difference": difference_in,
    "unit": unit_difference,
    "ahead": ahead,
    "parses": parses,
}
