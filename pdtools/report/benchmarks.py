"""Tables of evaluations of items, as their commands print them."""

from __future__ import annotations

from pdtools.evaluation.benchmark.outcomes import Tally
from pdtools.evaluation.record import MARGIN
from pdtools.evaluation.results import ITEMS, Results
from pdtools.report.evaluations import print_scores
from pdtools.report.tables import Cell, percent, print_note, print_table

_COUNTS = ("items", "scored", "ties")


def print_benchmark(results: Results, *, details: bool = False) -> None:
    """Print accuracy overall and by level; the finest groups with ``details``, or if no other has a name."""
    scores, counts, record = results.scores, results.counts, results.evaluation
    assert record is not None
    outcomes = record.outcomes
    if outcomes is None:
        print_scores(results)
        return
    by_unit = scores[f"by_{outcomes.unit}"]
    of = [name for name, score in by_unit.items() if score is not None and name not in outcomes.outside]
    said = f" (mean of {len(of):,} {_plural(outcomes.unit)})" if len(of) > 1 else ""
    overall = (counts[key] for key in ("items", "items_scored", "ties"))
    rows: list[tuple[Cell, ...]] = [(f"overall{said}", percent(scores["overall"]), *overall)]
    single = {name: score for name, score in scores.items() if not isinstance(score, dict)}
    single |= {
        f"overall, {name}": score
        for name, score in [*scores["by_prediction"].items()][1:]
        if not isinstance(score, dict)
    }
    rows += [
        (name.upper() if name in ("mcc", "auc") else name.replace("_", " "), percent(score), None, None, None)
        for name, score in single.items()
        if name != "overall"
    ]
    columns = ["accuracy", *_COUNTS]
    print_table([f"{record.title} (percent)", *columns], rows)
    if MARGIN in scores and (margin := scores[MARGIN]["overall"]) is not None:
        print_note(f"mean margin: {margin:+.3f} bits")
    named = [
        name.removeprefix("by_") for name, of_level in scores.items() if name.startswith("by_") and of_level
    ]
    above = [name for name in named if name not in ("prediction", outcomes.unit)]
    is_alone = not {*above} & {*outcomes.levels}
    for level in [*above, outcomes.unit] if details or is_alone else above:
        groups = _counts(results, level)
        over = " over items" if level in outcomes.over_items else ""
        print()
        print_table(
            [level, f"accuracy{over}", *_COUNTS],
            [
                (name, percent(score), *groups[name].counts.values())
                for name, score in scores[f"by_{level}"].items()
            ],
        )
    several = [(unit, of) for unit, of in scores["by_prediction"].items() if isinstance(of, dict)]
    if details and several:
        print()
        print_table(
            [outcomes.unit, "prediction", "accuracy"],
            [(unit, name, percent(score)) for unit, of in several for name, score in of.items()],
        )


def _plural(unit: str) -> str:
    return f"{unit[:-1]}ies" if unit.endswith("y") else f"{unit}s"


def _counts(results: Results, level: str) -> dict[str, Tally]:
    """The counts of the first prediction, by group of a level."""
    columns = results.table(ITEMS).select([level, "prediction", "outcome"]).to_pydict()
    found: dict[str, Tally] = {}
    for groups, prediction, outcome in zip(*columns.values(), strict=True):
        if prediction == 1:
            for group in groups if isinstance(groups, list) else [groups]:  # flags are several
                found.setdefault(group, Tally()).add(outcome)
    return found
