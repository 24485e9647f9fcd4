"""Comparison of two results of one evaluation, item by item: differences and their significance."""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from pdtools.errors import InputError, PdtoolsError
from pdtools.evaluation.bootstrap import CONFIDENCE
from pdtools.evaluation.comparison.engine import Comparison, Score
from pdtools.evaluation.comparison.groups import Group, Model
from pdtools.evaluation.record import evaluation_of
from pdtools.evaluation.results import read_document

DEFAULT_SAMPLES = 10_000
_BOTH = "results"  # replaces the folder's name, by which compare_many names evaluations


@dataclass(frozen=True, kw_only=True, slots=True)
class Difference:
    """The scores a and b of one group of items in two runs, as fractions of 1; margins in bits.

    Attributes:
        level, name: the group; for answers to prompts, the score.
        items: number of items that both runs have scored.
        a, b: the scores, over those items: the mean of the group's units (paradigms, suites).
        low, high: 95% interval of b − a, by a bootstrap over items, paired and stratified by unit; None of
            fewer than ten items.
        only_a, only_b: items that only one of them has right; None for numbers.
        p: McNemar's exact test on these, two-sided; for F1, correlations and margins, a paired bootstrap's,
            or None of fewer than ten items, or if no sample has the score.
    """

    level: str
    name: str
    items: int
    a: float
    b: float
    low: float | None
    high: float | None
    only_a: int | None
    only_b: int | None
    p: float | None

    @property
    def difference(self) -> float:
        """The difference b − a."""
        return self.b - self.a


def has_fractions(folder: str | Path) -> bool:
    """Return whether :func:`compare_runs` handles such results; else they are compared as many models."""
    record = evaluation_of(read_document(folder))
    return record is None or record.outcomes is not None or record.fractions


def compare_runs(
    a: str | Path, b: str | Path, *, seed: int = 0, samples: int = DEFAULT_SAMPLES
) -> dict[str, Any]:
    """Compare two results of an evaluation whose scores are shares or correlations, item by item.

    Items that one run could not score are excluded from both, and counted. For SG, the first prediction of
    each suite counts, and the suites that the SG score excludes are not part of ``overall``.

    Args:
        a, b: the folders.
        seed: for the bootstrap.
        samples: bootstrap samples.

    Returns:
        ``task``, ``groups`` (a :class:`Difference` each: overall, then by level), ``margins`` (alike, of the
        mean margins in bits; none if the results have none), ``counts``, ``settings``, and ``notes``: in
        words, the differences in how the two were made that change their scores.

    Raises:
        PdtoolsError: if the two are not runs over the same items.
    """
    comparison = of_two(a, b)
    scores = comparison.scores(None, seed=seed, samples=samples)
    if comparison.refused:
        raise comparison.refused[0]
    record, document = comparison.runs[0].record, comparison.runs[0].document
    if record.outcomes is None and not record.fractions:
        raise InputError(f"results of {record.in_text}, whose scores are not accuracies over items", file=a)
    if not scores or any(score.items is None for score in scores):
        raise PdtoolsError(f"{a} and {b} have no item in common that counts")
    subject = document["settings"][record.subject]
    kept, whole = comparison.counts[scores[0].score]
    if record.outcomes is not None:
        groups = [_difference(score, score.level, score.name) for score in scores if not score.is_margin]
    else:
        # For answers that are right or wrong there is F1 too.
        only = next(
            (
                (each.only_a, each.only_b)
                for score in scores
                for each in score.pairs
                if each.only_a is not None
            ),
            (None, None),
        )
        names = [score.score.removeprefix(f"{subject}, ").removesuffix(" (%)") for score in scores]
        of_scores = [
            replace(_difference(score, "score", name), only_a=only[0], only_b=only[1])
            for score, name in zip(scores, names, strict=True)
        ]
        groups = [replace(of_scores[0], level="overall"), *of_scores]
    numbers = "margins" if record.outcomes is not None else "F1 and correlations"
    tested_otherwise = record.outcomes is None or any(score.is_margin for score in scores)
    others = f"; of {numbers} a paired bootstrap" if tested_otherwise else ""
    return {
        "task": subject,
        "groups": groups,
        "margins": [_difference(score, score.level, score.name) for score in scores if score.is_margin],
        "notes": notes_of_two(comparison),
        "counts": {"items": whole, "items_compared": kept},
        "settings": {
            "seed": seed,
            "bootstrap_samples": samples,
            "confidence": CONFIDENCE,
            "test": f"McNemar, exact, two-sided{others}",
        },
    }


def of_two(a: str | Path, b: str | Path) -> Comparison:
    """Compare two results as groups a and b of one run each; the two may be the same folder.

    Raises:
        PdtoolsError: if they cannot be compared.
    """
    groups = [
        Group(
            name=name,
            models=(Model(folder=Path(at), evaluations={_BOTH: Path(at)}, seed=None, training=None),),
        )
        for name, at in (("a", a), ("b", b))
    ]
    comparison = Comparison(_BOTH, groups)
    if comparison.refused:
        raise comparison.refused[0]
    return comparison


def notes_of_two(comparison: Comparison) -> list[str]:
    """Notes on how two results were made differently, and on which items count."""
    return [*comparison.differing, *(f"{some} that both could score" for some in comparison.restrictions)]


def _difference(score: Score, level: str, name: str) -> Difference:
    (a, b), (pair,) = score.groups, score.pairs
    one = 1 if score.is_margin else 100
    low, high = (None, None) if pair.over_items is None else (end / one for end in pair.over_items)
    assert score.items is not None
    return Difference(
        level=level,
        name=name,
        items=score.items,
        a=a.mean / one,
        b=b.mean / one,
        low=low,
        high=high,
        only_a=pair.only_a,
        only_b=pair.only_b,
        p=pair.p,
    )
