"""Groups of a page's models that differ only in seed, and comparisons of every two groups.

The p values are corrected for the number of comparisons.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from pdtools.errors import PdtoolsError
from pdtools.evaluation.comparison.compare import compare, corrected
from pdtools.evaluation.comparison.engine import ComparedScore
from pdtools.evaluation.comparison.groups import Group, by_seed, model_of, name_of_seeds
from pdtools.report.comparisons import GEOMETRIC, about_p, digits_of_difference, digits_of_score
from pdtools.report.view.drawing import rounded
from pdtools.report.view.loaded import Loaded

# For BLiMP and SG: the level that is compared besides the overall scores.
_COARSE = ("field", "circuit")


def seed_groups(loaded: Sequence[Loaded]) -> dict[str, list[str]]:
    """The models of each group, by their names on the page."""
    evaluations: dict[str, dict[str, Path]] = {}
    for each in loaded:
        evaluations.setdefault(each.model, {})[each.task] = each.folder
    # A model's page-wide name replaces its folder: the page distinguishes models by it.
    models = [
        replace(model_of(next(iter(of.values())), of), folder=Path(name)) for name, of in evaluations.items()
    ]
    found: dict[str, list[str]] = {}
    for group in by_seed(models):
        names = [str(model.folder) for model in group.models]
        name = name_of_seeds(names)
        taken = name in found or (len(names) > 1 and name in evaluations)
        found[", ".join(names) if taken else name] = names
    return found


def pairwise(
    loaded: Mapping[str, Sequence[Loaded]], groups: Mapping[str, Sequence[str]], *, seed: int
) -> dict[str, tuple[dict[str, Any], dict[str, list[dict[str, Any]]]]]:
    """Means of groups of seeds, and the differences b − a of all pairs, overall and by the coarsest groups.

    Args:
        loaded: results by evaluation.
        groups: from :func:`seed_groups`.
        seed: the seed of the bootstrap.

    Returns:
        By evaluation ``rows`` (none for one group), ``means`` (none if every group is one model), ``about_p``
        (the meaning of p if a group is a single run), and ``notes``: how results differ, or why they cannot
        be compared. Second, for groups of several models, their scores by level, as charts take them.
    """
    compared = {task: _compared(task, of_task, groups, seed) for task, of_task in loaded.items()}
    # As pdtools compare does: p of overall scores are corrected for those of all evaluations.
    scores = corrected([score for found, _ in compared.values() for score in found])
    return {
        task: _shown([each for each in scores if each.evaluation == task], notes, groups)
        for task, (_, notes) in compared.items()
    }


def _compared(
    task: str, of_task: Sequence[Loaded], groups: Mapping[str, Sequence[str]], seed: int
) -> tuple[tuple[ComparedScore, ...], list[str]]:
    """The scores of one evaluation, and notes on how its results differ, or why they cannot be compared."""
    if len(of_task) < 2:
        return (), []
    models = {each.model: model_of(each.folder, {task: each.folder}) for each in of_task}
    try:
        found = compare(
            [
                Group(name=name, models=tuple(models[each] for each in members if each in models))
                for name, members in groups.items()
                if any(each in models for each in members)
            ],
            seed=seed,
        )
    except PdtoolsError as error:
        return (), [str(error)]
    return found.scores, [
        note for each in (found.notes, found.refused) for said in each.values() for note in said
    ]


def _shown(
    compared: Sequence[ComparedScore], notes: Sequence[str], groups: Mapping[str, Sequence[str]]
) -> tuple[dict[str, Any], dict[str, list[dict[str, Any]]]]:
    """The page's part on one evaluation, see :func:`pairwise`."""
    scores = [score for score in compared if score.level in ("overall", *_COARSE)]
    about = dict.fromkeys(f"{score.score}: {note}" for score in scores for note in score.notes)
    several = {each.group for score in compared for each in score.groups if len(each.values) > 1}
    pairs = {
        "rows": [row for score in scores for row in _rows(score)],
        "means": [row for score in scores for row in _means(score)] if several else [],
        "about_p": about_p(pair for score in scores for pair in score.pairs),
        "notes": [*notes, *about, *([GEOMETRIC] if any(score.geometric for score in scores) else [])],
    }
    of_seeds: dict[str, list[dict[str, Any]]] = {}
    for score in compared:
        if not score.is_margin:  # charts are of shares
            of_seeds.setdefault(score.level, []).extend(_dots(score, several))
    return pairs, of_seeds


def _dots(score: ComparedScore, groups: Collection[str]) -> list[dict[str, Any]]:
    """Scores of groups of seeds for charts: fractions of 1, with intervals over seeds and items."""
    found = []
    for each in score.groups:
        if each.group in groups:
            low, high = each.over_seeds or each.over_items or (each.mean, each.mean)
            ends = {"score": each.mean, "low": max(0.0, low), "high": min(100.0, high)}
            found.append(
                {
                    "name": score.name or "overall",
                    "series": each.group,
                    **{name: rounded(value / 100) for name, value in ends.items()},
                    "n": score.items,
                    "runs": len(each.values),
                }
            )
    return found


def _name(score: ComparedScore) -> dict[str, str]:
    name = f"{score.name}, margin (bits)" if score.name and score.is_margin else score.name
    return {"group": name or score.score, "level": score.level}


def _family(score: ComparedScore) -> str:
    """The scores whose p are corrected together with this score's."""
    if score.level != "overall":
        return f"by {score.level}{', of margins' if score.is_margin else ''}"
    return f"of {'mean margins' if score.is_margin else 'overall scores'} of all evaluations"


def _means(score: ComparedScore) -> list[dict[str, Any]]:
    return [
        {
            **_name(score),
            "model": each.group,
            "mean": each.mean,
            "deviation": each.deviation,
            "runs": len(each.values),
            "digits": digits_of_score(score),
        }
        for each in score.groups
    ]


def _rows(score: ComparedScore) -> list[dict[str, Any]]:
    found = []
    for pair in score.pairs:
        low, high = pair.over_seeds or pair.over_items or (None, None)
        found.append(
            {
                **_name(score),
                "a": pair.a,
                "b": pair.b,
                "difference": pair.difference,
                "low": low,
                "high": high,
                "only_a": pair.only_a,
                "only_b": pair.only_b,
                "test": pair.test,
                "p": pair.p,
                "p_holm": pair.p_holm,
                "family": pair.family,
                "of": _family(score),
                "digits": digits_of_difference(pair, digits_of_score(score)),
            }
        )
    return found
