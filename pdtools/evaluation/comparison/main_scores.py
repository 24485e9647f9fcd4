"""The main scores of any number of models, their seeds grouped: one table, without differences and tests."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from pdtools.errors import PdtoolsError
from pdtools.evaluation.comparison.engine import Comparison, bound_of
from pdtools.evaluation.comparison.groups import Group, check_groups
from pdtools.evaluation.comparison.statistics import mean_of_runs
from pdtools.evaluation.record import evaluations


@dataclass(frozen=True, kw_only=True, slots=True)
class GroupedScore:
    """A main score of groups of models.

    Attributes:
        evaluation: the results folders' name.
        score: its name, with its unit.
        values: by group, the value of each run that has one.
        bounds: for groups whose score is not exact, the bound that it is.
        geometric: true for perplexities: means are geometric, and deviations those of the logarithms times
            the mean.
    """

    evaluation: str
    score: str
    values: Mapping[str, tuple[float, ...]]
    bounds: Mapping[str, str] = field(default_factory=dict)
    geometric: bool = False

    @property
    def means(self) -> dict[str, tuple[float, float | None]]:
        """Mean and standard deviation over seeds (n − 1) of each group that has the score."""
        return {name: mean_of_runs(of, geometric=self.geometric) for name, of in self.values.items() if of}


@dataclass(frozen=True, kw_only=True, slots=True)
class GroupedScores:
    """Main scores of all groups, and notes on them.

    Attributes:
        groups: names, with numbers of runs.
        scores: in the order of evaluations on pages.
        notes, refused: see :class:`pdtools.evaluation.comparison.many.ManyComparison`.
    """

    groups: Mapping[str, int]
    scores: tuple[GroupedScore, ...]
    notes: Mapping[str, tuple[str, ...]]
    refused: Mapping[str, tuple[str, ...]]

    def as_data(self) -> dict[str, Any]:
        """JSON-ready: values, means and deviations."""
        scores = [
            {
                "evaluation": each.evaluation,
                "score": each.score,
                "geometric": each.geometric,
                "groups": [
                    {"group": name, "values": list(each.values[name]), "mean": mean, "deviation": deviation}
                    | ({"bound": each.bounds[name]} if name in each.bounds else {})
                    for name, (mean, deviation) in each.means.items()
                ],
            }
            for each in self.scores
        ]
        return {
            "groups": [{"name": name, "runs": runs} for name, runs in self.groups.items()],
            "scores": scores,
            "notes": self.notes,
            "refused": self.refused,
        }


def main_scores(groups: Sequence[Group]) -> GroupedScores:
    """The main scores of groups of models, each over all items that a model could score.

    Results that are not comparable with the first of their evaluation are excluded, and reported.

    Args:
        groups: from :func:`pdtools.evaluation.comparison.groups.by_seed`, or made by hand.

    Raises:
        PdtoolsError: if the groups are invalid, or there is no score.
    """
    check_groups(groups, None)
    names = sorted({name for group in groups for model in group.models for name in model.evaluations})
    order = list(evaluations())
    place: dict[str, int] = {}
    scores: list[GroupedScore] = []
    notes: dict[str, tuple[str, ...]] = {}
    refused: dict[str, tuple[str, ...]] = {}
    for name in names:
        compared = Comparison(name, groups)
        by_run = [(run.group, run.main_scores()) for run in compared.runs]
        labels = list(dict.fromkeys(label for _, of_run in by_run for label in of_run))
        if compared.runs:
            labels = compared.runs[0].record.shared(labels, [run.document for run in compared.runs])
        found: dict[str, dict[str, list[float]]] = {}
        for label in labels:
            for group, of_run in by_run:
                if (value := of_run.get(label)) is not None:
                    found.setdefault(label, {}).setdefault(group, []).append(value)
        documents: dict[str, list[dict[str, Any]]] = {}
        for run in compared.runs:
            documents.setdefault(run.group, []).append(run.document)
        scores += [
            GroupedScore(
                evaluation=name,
                score=label,
                values={group: tuple(of) for group, of in values.items()},
                bounds={
                    group: bound
                    for group in values
                    if (bound := bound_of(compared.runs[0].record, label, documents[group]))
                },
                geometric=compared.runs[0].record.geometric,
            )
            for label, values in found.items()
        ]
        if compared.runs:
            first, task = compared.runs[0].model, compared.runs[0].record.name
            place[name] = order.index(task) if task in order else len(order)
        said = [f"{note} ({first}, and {', '.join(of)})" for note, of in compared.differing.items()]
        for label, values in found.items():
            said += [
                f"{label} of {len(values[group.name])} of the {len(group.models)} runs of {group.name}"
                for group in groups
                if 0 < len(values.get(group.name, ())) < len(group.models)
            ]
        if said:
            notes[name] = tuple(said)
        if compared.refused:
            refused[name] = tuple(map(str, compared.refused))
    if not scores:
        reasons = [reason for each in refused.values() for reason in each]
        raise PdtoolsError("; ".join(reasons) or "these results have no main score")
    return GroupedScores(
        groups={group.name: len(group.models) for group in groups},
        scores=tuple(sorted(scores, key=lambda each: place[each.evaluation])),
        notes=notes,
        refused=refused,
    )
