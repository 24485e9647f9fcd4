"""Every two models of a benchmark compared, with p corrected for how many comparisons there are."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from pdtools.errors import PdtoolsError
from pdtools.evaluation.comparison.groups import Group, Model
from pdtools.evaluation.comparison.many import Score, compare_many
from pdtools.report.view.loaded import Loaded

_SAMPLES = 2000
# Of BLiMP and SG: the level that is compared beside the overall scores.
_COARSE = ("field", "circuit")


def pairwise(of_task: Sequence[Loaded], *, seed: int) -> dict[str, Any]:
    """Differences b − a of all pairs of models, overall and by the coarsest groups.

    Returns:
        ``rows`` (none of one model), and ``notes``, what is to be known of them: how results differ, or why
        they cannot be compared.
    """
    if len(of_task) < 2:
        return {"rows": [], "notes": []}
    task = of_task[0].task
    groups = [
        Group(
            name=each.model,
            models=(Model(folder=each.folder, evaluations={task: each.folder}, seed=None, training=None),),
        )
        for each in of_task
    ]
    try:
        found = compare_many(groups, seed=seed, samples=_SAMPLES)
    except PdtoolsError as error:
        return {"rows": [], "notes": [str(error)]}
    notes = [note for each in (found.notes, found.refused) for said in each.values() for note in said]
    scores = [score for score in found.scores if score.level in ("overall", *_COARSE)]
    return {"rows": [row for score in scores for row in _rows(score)], "notes": notes}


def _rows(score: Score) -> list[dict[str, Any]]:
    return [
        {
            "group": score.name or score.score,
            "level": score.level,
            "a": pair.a,
            "b": pair.b,
            "difference": pair.difference,
            "low": pair.over_items[0] if pair.over_items else None,
            "high": pair.over_items[1] if pair.over_items else None,
            "only_a": pair.only_a,
            "only_b": pair.only_b,
            "test": pair.test,
            "p": pair.p,
            "p_holm": pair.p_holm,
            "family": pair.family,
        }
        for pair in score.pairs
    ]
