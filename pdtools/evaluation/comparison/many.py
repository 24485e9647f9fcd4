"""Comparison of any number of models, their seeds grouped: intervals, and all differences, tested."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from pdtools.errors import PdtoolsError
from pdtools.evaluation.bootstrap import CONFIDENCE
from pdtools.evaluation.comparison.compare import DEFAULT_SAMPLES
from pdtools.evaluation.comparison.engine import SEEDS_OF_ONE, Comparison, PairDifference, Score
from pdtools.evaluation.comparison.groups import Group, check_groups
from pdtools.evaluation.comparison.statistics import holm

ONE_RUN_EACH = "one run each: p is over items, not over seeds"


@dataclass(frozen=True, kw_only=True, slots=True)
class GroupRuns:
    """The runs of a group: results folders, and seeds (None: not known)."""

    name: str
    folders: tuple[str, ...]
    seeds: tuple[int | None, ...]


@dataclass(frozen=True, kw_only=True, slots=True)
class ManyComparison:
    """The result of :func:`compare_many`; ``dataclasses.asdict`` makes its JSON document.

    Attributes:
        groups: in the order of the arguments.
        baseline: the group that all others are compared with; None: every pair is compared.
        scores: overall ones first, evaluation by evaluation.
        notes: by evaluation, in words: differences in how the results were made, and which items count.
        refused: by evaluation: results that are not comparable with the first, and the reason.
        settings: seed, samples, confidence, correction.
    """

    groups: tuple[GroupRuns, ...]
    baseline: str | None
    scores: tuple[Score, ...]
    notes: Mapping[str, tuple[str, ...]]
    refused: Mapping[str, tuple[str, ...]]
    settings: Mapping[str, Any]


def compare_many(
    groups: Sequence[Group],
    *,
    baseline: str | None = None,
    seed: int = 0,
    samples: int = DEFAULT_SAMPLES,
    levels: bool = True,
) -> ManyComparison:
    """Compare groups of models on every evaluation for which two of the models have results.

    Items that one of the models could not score are excluded for all, and counted. Intervals and p are
    defined in ``docs/reference/commands/compare.md``.

    Args:
        groups: from :func:`pdtools.evaluation.comparison.groups.by_seed`, or made by hand.
        baseline: the name of a group: differences are the others' from it.
        seed: for the bootstrap.
        samples: number of bootstrap samples.
        levels: whether to compare fields, phenomena, paradigms, circuits and suites too.

    Raises:
        PdtoolsError: if the groups are invalid, or nothing can be compared.
    """

    check_groups(groups, baseline)
    if sum(len(group.models) for group in groups) < 2:
        raise PdtoolsError("results of one model only: there is nothing to compare them with")
    names = sorted({name for group in groups for model in group.models for name in model.evaluations})
    scores: list[Score] = []
    notes: dict[str, tuple[str, ...]] = {}
    refused: dict[str, tuple[str, ...]] = {}
    for name in names:
        evaluation = Comparison(name, groups)
        scores += evaluation.scores(baseline, seed=seed, samples=samples, levels=levels)
        first = evaluation.runs[0].model if evaluation.runs else ""
        said = [f"{note} ({first}, and {', '.join(of)})" for note, of in evaluation.differing.items()]
        said += [f"{some} that all could score" for some in evaluation.restrictions]
        if said:
            notes[name] = tuple(said)
        if evaluation.refused:
            refused[name] = tuple(map(str, evaluation.refused))
    if not scores:
        reasons = [reason for each in refused.values() for reason in each]
        raise PdtoolsError("; ".join(reasons) or "no evaluation that two of these models have results of")
    overall = [score for score in scores if score.level == "overall"]
    rest = [score for score in scores if score.level != "overall"]
    # Margins tell of the same predictions once more: they are no further tests of the scores' family.
    tables = dict.fromkeys((score.evaluation, score.score, score.level) for score in rest)
    corrected = [
        score
        for is_margin in (False, True)
        for score in _corrected([score for score in overall if score.is_margin == is_margin])
    ]
    for table in tables:
        corrected += _corrected(
            [score for score in rest if (score.evaluation, score.score, score.level) == table]
        )
    return ManyComparison(
        groups=tuple(
            GroupRuns(
                name=group.name,
                folders=tuple(str(model.folder) for model in group.models),
                seeds=tuple(model.seed for model in group.models),
            )
            for group in groups
        ),
        baseline=baseline,
        scores=tuple(corrected),
        notes=notes,
        refused=refused,
        settings={
            "seed": seed,
            "bootstrap_samples": samples,
            "confidence": CONFIDENCE,
            "correction": "Holm, over all p of the overall scores, over those of the mean margins, and over"
            " those of each further level",
        },
    )


def about_p(pairs: Iterable[PairDifference]) -> list[str]:
    """Notes for a table of differences: the meaning of p if a group is a single run."""
    tested = [pair for pair in pairs if pair.p is not None]
    each = [pair for pair in tested if pair.over_seeds is None]
    one = [pair for pair in tested if pair.test is not None and pair.test.startswith(SEEDS_OF_ONE)]

    def of(some: Sequence[PairDifference]) -> str:
        names = dict.fromkeys(f"{pair.b} - {pair.a}" for pair in some)
        return "" if len(some) == len(tested) else f"{', '.join(names)}: "

    notes = [of(each) + ONE_RUN_EACH] if each else []
    if one:
        notes.append(of(one) + "one run against several: it is taken to vary over seeds as these do")
    return notes


def _corrected(scores: Sequence[Score]) -> list[Score]:
    """Scores with every p corrected for all of them."""
    ps = [pair.p for score in scores for pair in score.pairs if pair.p is not None]
    adjusted = iter(holm(ps))

    def correct(pair: PairDifference) -> PairDifference:
        return pair if pair.p is None else replace(pair, p_holm=next(adjusted), family=len(ps))

    return [replace(score, pairs=tuple(map(correct, score.pairs))) for score in scores]
