"""Comparison of any number of models, their seeds grouped: means, intervals, and all differences, tested."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from pdtools.errors import PdtoolsError
from pdtools.evaluation.bootstrap import CONFIDENCE
from pdtools.evaluation.comparison.engine import ComparedRuns, ComparedScore, PairDifference
from pdtools.evaluation.comparison.groups import Group, check_groups, each_alone
from pdtools.evaluation.comparison.statistics import holm
from pdtools.evaluation.record import evaluations

DEFAULT_SAMPLES = 10_000


@dataclass(frozen=True, kw_only=True, slots=True)
class GroupRuns:
    """The runs of a group: results folders, and seeds (None: not known)."""

    name: str
    folders: tuple[str, ...]
    seeds: tuple[int | None, ...]


@dataclass(frozen=True, kw_only=True, slots=True)
class ComparedModels:
    """The result of :func:`compare`; ``dataclasses.asdict`` makes its JSON document.

    Attributes:
        groups: in the order of the arguments.
        baseline: the group that all others are compared with; None: every pair is compared.
        scores: overall ones first, evaluation by evaluation, in the order of pages.
        notes: by evaluation, in words: differences in how the results were made, and which items count.
        refused: by evaluation: results that are not comparable with the first, and the reason.
        settings: seed, samples, confidence, correction; none without differences.
    """

    groups: tuple[GroupRuns, ...]
    baseline: str | None
    scores: tuple[ComparedScore, ...]
    notes: Mapping[str, tuple[str, ...]]
    refused: Mapping[str, tuple[str, ...]]
    settings: Mapping[str, Any]

    @property
    def overall(self) -> list[ComparedScore]:
        """The scores of all items."""
        return [score for score in self.scores if score.level == "overall"]


def compare(
    groups: Sequence[Group],
    *,
    baseline: str | None = None,
    seed: int = 0,
    samples: int = DEFAULT_SAMPLES,
    differences: bool = True,
) -> ComparedModels:
    """Compare groups of models on every evaluation for which two of the models have results.

    Items that one of the models could not score are excluded for all, and counted. Results that are not
    comparable with the first of their evaluation are excluded, and reported. Intervals and p are defined in
    ``docs/reference/commands/compare.md``.

    Args:
        groups: from :func:`pdtools.evaluation.comparison.groups.by_seed` or ``each_alone``, or made by hand.
        baseline: the name of a group: differences are the others' from it.
        seed: for the bootstrap.
        samples: number of bootstrap samples.
        differences: whether to compare. If not, scores are those that the results report, each over all items
            that its model could score, without pairs; of one model too.

    Raises:
        PdtoolsError: if the groups are invalid, or there is no score.
    """
    check_groups(groups, baseline)
    if differences and sum(len(group.models) for group in groups) < 2:
        raise PdtoolsError("results of one model only: add another's, or --overview, for a table of one")
    order = list(evaluations())
    scores: list[ComparedScore] = []
    notes: dict[str, tuple[str, ...]] = {}
    refused: dict[str, tuple[PdtoolsError, ...]] = {}
    place: dict[str, int] = {}
    for name in sorted({name for group in groups for model in group.models for name in model.evaluations}):
        runs = ComparedRuns(name, groups, baseline)
        scores += runs.scores(seed=seed, samples=samples) if differences else runs.reported()
        if runs.runs:
            task = runs.runs[0].record.name
            place[name] = order.index(task) if task in order else len(order)
        if runs.notes:
            notes[name] = tuple(runs.notes)
        if runs.refused:
            refused[name] = tuple(runs.refused)
    if not scores:
        errors = [error for of in refused.values() for error in of]
        errors += [PdtoolsError(f"{name}: {note}") for name, of in notes.items() for note in of]
        raise _no_score(groups, errors, differences)
    scores = sorted(corrected(scores), key=lambda each: (each.level != "overall", place[each.evaluation]))
    return ComparedModels(
        groups=tuple(
            GroupRuns(
                name=group.name,
                folders=tuple(str(model.folder) for model in group.models),
                seeds=tuple(model.seed for model in group.models),
            )
            for group in groups
        ),
        baseline=baseline,
        scores=tuple(scores),
        notes=notes,
        refused={name: tuple(map(str, errors)) for name, errors in refused.items()},
        settings={
            "seed": seed,
            "bootstrap_samples": samples,
            "confidence": CONFIDENCE,
            "correction": "Holm, over all p of the overall scores, over those of the mean margins, and over"
            " those of each further level",
        }
        if differences
        else {},
    )


def difference_of(a: str | Path, b: str | Path) -> dict[str, Any]:
    """The first score of two results, as fractions of 1, and how they differ."""
    score = compare(each_alone([a, b])).scores[0]
    (pair,) = score.pairs
    one, other = (group.mean / 100 for group in score.groups)
    low, high = (None, None) if pair.over_items is None else (end / 100 for end in pair.over_items)
    numbers = {"items": score.items, "a": one, "b": other, "low": low, "high": high}
    return {**numbers, "only_a": pair.only_a, "only_b": pair.only_b, "p": pair.p}


def _no_score(groups: Sequence[Group], refused: Sequence[PdtoolsError], differences: bool) -> PdtoolsError:
    """The reason why there is no score."""
    if refused:
        return refused[0] if len(refused) == 1 else PdtoolsError("; ".join(map(str, refused)))
    if not differences:
        return PdtoolsError("these results have no main score")
    there = "; ".join(
        f"{group.name}: {', '.join(sorted({name for model in group.models for name in model.evaluations}))}"
        for group in groups
    )
    return PdtoolsError(f"no evaluation that two of these models have results of ({there})")


def corrected(scores: Sequence[ComparedScore]) -> list[ComparedScore]:
    """The scores with every p corrected for all of its family."""
    families: dict[Any, list[ComparedScore]] = {}
    for score in scores:
        # Margins tell of the same predictions once more: they are no further tests of the scores' family.
        of_level = (score.evaluation, score.score, score.level)
        families.setdefault(score.is_margin if score.level == "overall" else of_level, []).append(score)
    return [score for family in families.values() for score in _family(family)]


def _family(scores: Sequence[ComparedScore]) -> list[ComparedScore]:
    """Scores with every p corrected for all of them."""
    ps = [pair.p for score in scores for pair in score.pairs if pair.p is not None]
    adjusted = iter(holm(ps))

    def correct(pair: PairDifference) -> PairDifference:
        return pair if pair.p is None else replace(pair, p_holm=next(adjusted), family=len(ps))

    return [replace(score, pairs=tuple(map(correct, score.pairs))) for score in scores]
