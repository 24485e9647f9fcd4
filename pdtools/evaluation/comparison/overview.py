"""Overview of two models: the main score of every evaluation for which both have results."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from pdtools.errors import InputError, PdtoolsError
from pdtools.evaluation.comparison.compare import notes_of_two, of_two
from pdtools.evaluation.comparison.engine import BESIDE_EXACT, Comparison
from pdtools.evaluation.results import RESULTS


@dataclass(frozen=True, kw_only=True, slots=True)
class OverviewScore:
    """One score of two models.

    Attributes:
        folder: the results folder's name, the same under both.
        score: its name, with its unit.
        a, b: its values; None if a model has none.
        p: McNemar's exact test over the items; None if items are not right or wrong.
        bounds: the bounds that the two are; None for an exact one.
        is_tested: whether their difference is meaningful; if not, a note gives the reason.
        notes: differences in how the two were made that change the score.
        refused: the reason why the two cannot be compared, and there is no score; None if they can.
    """

    folder: str
    score: str
    a: float | None
    b: float | None
    p: float | None = None
    bounds: tuple[str | None, str | None] = (None, None)
    is_tested: bool = True
    notes: tuple[str, ...] = ()
    refused: str | None = None


def is_collection(folder: str | Path) -> bool:
    """Return whether a folder holds results folders, and is none itself."""
    return not (Path(folder) / RESULTS).is_file() and any(Path(folder).glob(f"*/{RESULTS}"))


def overview(a: str | Path, b: str | Path) -> list[OverviewScore]:
    """The main scores of two models.

    Args:
        a, b: folders with a results folder for each evaluation, of the same name under both.

    Raises:
        PdtoolsError: if they share no results folder, or none that can be compared.
    """
    a, b = Path(a), Path(b)
    shared = sorted(
        {p.parent.name for p in a.glob(f"*/{RESULTS}")} & {p.parent.name for p in b.glob(f"*/{RESULTS}")}
    )
    if not shared:
        raise InputError(f"no results folder with the same name as one in {a}", file=b)
    found: list[OverviewScore] = []
    errors: list[PdtoolsError] = []
    for name in shared:
        try:
            found += _headlines(name, a / name, b / name)
        except PdtoolsError as error:
            errors.append(error)
            found.append(OverviewScore(folder=name, score=name, a=None, b=None, refused=str(error)))
    if len(errors) == len(shared):
        raise errors[0]
    return found


def _headlines(name: str, a: Path, b: Path) -> list[OverviewScore]:
    comparison = of_two(a, b)
    first, second = comparison.runs
    record = first.record
    if record.outcomes is not None:
        scores = comparison.scores(None, seed=0, samples=1, levels=False)
        if comparison.refused:
            raise comparison.refused[0]
        if not scores:
            raise InputError("none of its items counts in the overall score", file=a)
        notes = tuple(notes_of_two(comparison))
        return [
            OverviewScore(
                folder=name,
                score=overall.score,
                a=overall.groups[0].mean,
                b=overall.groups[1].mean,
                p=None if overall.is_margin else overall.pairs[0].p,
                notes=() if overall.is_margin else notes,
            )
            for overall in scores
        ]
    scores_a, scores_b = (record.main_scores(run.document) for run in comparison.runs)
    # Two models need not have the same scores: one may be masked, or read no trees.
    shared = [score for score in scores_a if score in scores_b]
    if not shared:
        raise InputError(f"no score that {a} has too: rename one of the two folders", file=b)
    shared = record.shared(shared, (first.document, second.document))
    if not shared:
        reason = f"cannot be compared with {a}: only one of them counts end-of-sentence"
        raise InputError(reason, file=b, hint="eval-ppl of today also gives scores without it")
    restrictions = () if "layout" in second.differs else _restrictions(comparison, shared)
    headlines = []
    for score in shared:
        (value_a, counts_a), (value_b, counts_b) = scores_a[score], scores_b[score]
        differing = [f", over {x} and {y}" for x, y in zip(counts_a, counts_b, strict=False) if x != y]
        notes = tuple(
            note for key, note in second.differs.items() if score.endswith(record.concerned.get(key, ""))
        )
        over = "".join(differing[:1])
        of_a, of_b = (record.bound(score, run.document) for run in (first, second))
        untested = record.untested(score, first.document, second.document)
        if untested is not None:
            notes = (f"not compared: {untested}", *notes)
        elif (of_a is None) != (of_b is None):
            notes = (BESIDE_EXACT, *notes)
        headlines.append(
            OverviewScore(
                folder=name,
                score=score + over,
                a=value_a,
                b=value_b,
                bounds=(of_a, of_b),
                is_tested=untested is None,
                notes=notes + restrictions,
            )
        )
    return headlines


def _restrictions(comparison: Comparison, labels: Sequence[str]) -> tuple[str, ...]:
    """A note if one model could not score items that the other could."""
    first = comparison.runs[0]
    for score in (first.record.item_score(label, first.document) for label in labels):
        if score is not None:
            a, b = (set(score.read(run.table, run.folder) or ()) for run in comparison.runs)
            only = f"{score.items} that only one could score: {len(a - b)} and {len(b - a)}"
            return () if a == b else (only,)
    return ()
