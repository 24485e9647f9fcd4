"""Runs of one evaluation in groups: means, deviations, intervals, and all differences, tested."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import combinations
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pdtools.errors import InputError
from pdtools.evaluation.comparison.comparability import comparability
from pdtools.evaluation.comparison.groups import Group, Model
from pdtools.evaluation.comparison.items import (
    OtherItemsError,
    columns_read,
    groups_of,
    read_outcomes,
    shares,
)
from pdtools.evaluation.comparison.statistics import (
    Resampled,
    Spread,
    bootstrap_p,
    common_variance,
    deviation,
    interval,
    mcnemar,
    resample,
)
from pdtools.evaluation.record import Evaluation, Outcomes, evaluation_of
from pdtools.evaluation.results import read_results

if TYPE_CHECKING:
    import numpy as np
    import pyarrow as pa
    from numpy.typing import NDArray

Interval = tuple[float, float]
_MCNEMAR, _BOOTSTRAP, _SEEDS = "McNemar, exact", "paired bootstrap", "Welch's t over seeds"
SEEDS_OF_ONE = "Student's t over the seeds of one group"
_ITEMS_TOO = ", items by bootstrap"


@dataclass(frozen=True, kw_only=True, slots=True)
class GroupScore:
    """The score of a group of models, in the unit that the score's name says.

    Attributes:
        group: its name.
        values: of its models, in their order.
        mean: of these.
        deviation: their standard deviation (n − 1): over seeds; None of one model.
        over_items: 95% interval of the mean for these models on other items: a percentile bootstrap,
            stratified by unit; None of scores without items.
        over_seeds: 95% interval for other seeds (and other items, where the score has some): Student's t;
            None of one model.
    """

    group: str
    values: tuple[float, ...]
    mean: float
    deviation: float | None
    over_items: Interval | None
    over_seeds: Interval | None


@dataclass(frozen=True, kw_only=True, slots=True)
class PairDifference:
    """The difference b − a of two groups' means.

    Attributes:
        a, b: their names.
        difference: b − a.
        over_items, over_seeds: 95% intervals, as of :class:`GroupScore`; the items of both are the same.
            ``over_seeds`` is None if both groups are one model; if one of them is, it is taken to vary over
            seeds as the models of the other.
        only_a, only_b: items that only one of two models has right; None of groups, and of other scores.
        test: what p is of; None if there is no p.
        p: two-sided.
        p_holm: corrected by Holm for all ``family`` differences of the table.
        family: how many p were corrected together.
    """

    a: str
    b: str
    difference: float
    over_items: Interval | None
    over_seeds: Interval | None
    only_a: int | None = None
    only_b: int | None = None
    test: str | None = None
    p: float | None = None
    p_holm: float | None = None
    family: int = 0


@dataclass(frozen=True, kw_only=True, slots=True)
class Score:
    """One score of all groups that have it.

    Attributes:
        evaluation: the results folders' name.
        score: what it is, with its unit.
        level: ``overall``; of BLiMP and SG also field, phenomenon, paradigm, circuit, suite.
        name: of which of these; "" overall.
        items: how many items it is over; None if it is compared without items.
        lower_is_better: so it is of perplexities and distances.
        groups: the groups' scores.
        pairs: their differences: of all pairs, or with the baseline.
    """

    evaluation: str
    score: str
    level: str
    name: str
    items: int | None
    lower_is_better: bool
    groups: tuple[GroupScore, ...]
    pairs: tuple[PairDifference, ...]


@dataclass(frozen=True, slots=True)
class _Run:
    """One model's results of an evaluation."""

    group: str
    folder: Path
    record: Evaluation
    document: dict[str, Any]
    table: pa.Table


class Comparison:
    """The results of one evaluation, as far as they can be compared with the first of them.

    Attributes:
        notes, refused: see :class:`pdtools.evaluation.comparison.many.ManyComparison`.
    """

    def __init__(self, name: str, groups: Sequence[Group]) -> None:
        self.name = name
        self.notes: list[str] = []
        self.refused: list[str] = []
        self.runs: list[_Run] = []
        self.same_rows = True
        members = [(g.name, model) for g in groups for model in g.models if name in model.evaluations]
        differing: dict[str, list[str]] = {}
        for group, model in members:
            try:
                run = self._read(group, model)
            except InputError as error:
                self.refused.append(str(error))
                continue
            if self.runs:
                compared = comparability(self.runs[0].document, run.document)
                if run.record is not self.runs[0].record or compared.refused is not None:
                    reason = compared.refused or "another evaluation"
                    self.refused.append(f"{run.folder}: results of {reason} than {self.runs[0].folder}")
                    continue
                self.same_rows &= "layout" not in compared.differs
                for note in compared.notes:
                    differing.setdefault(note, []).append(model.name)
            self.runs.append(run)
        first = members[0][1].name
        self.notes += [f"{note} ({first}, and {', '.join(names)})" for note, names in differing.items()]

    def _read(self, group: str, model: Model) -> _Run:
        folder = model.evaluations[self.name]
        document, table = read_results(folder, columns_read())
        if (record := evaluation_of(document)) is None:
            raise InputError("not results of an evaluation with a main score", file=folder)
        return _Run(group, folder, record, document, table)

    def scores(
        self, baseline: str | None, rng: np.random.Generator, samples: int, *, levels: bool
    ) -> Iterator[Score]:
        """Its scores, overall ones first; none of fewer than two models."""
        if len(self.runs) < 2:
            return
        if (outcomes := self.runs[0].record.outcomes) is not None:
            yield from self._of_outcomes(outcomes, baseline, rng, samples, levels=levels)
        else:
            yield from self._of_sums(baseline, rng, samples)

    def _of_outcomes(
        self,
        outcomes: Outcomes,
        baseline: str | None,
        rng: np.random.Generator,
        samples: int,
        *,
        levels: bool,
    ) -> Iterator[Score]:
        import numpy as np

        self._drop_other_items(outcomes)
        tables, folders = [run.table for run in self.runs], [run.folder for run in self.runs]
        answered = read_outcomes(tables, folders, outcomes)
        counted, scored = answered.scored()
        keep = np.flatnonzero(scored)
        if len(self.runs) < 2 or not len(keep):
            return
        if len(keep) < counted.sum():
            self.notes.append(f"only the {len(keep)} of {int(counted.sum())} items that all could score")
        columns = {name: [values[i] for i in keep] for name, values in answered.columns.items()}
        right = np.array([[each[i] for i in keep] for each in answered.correct], dtype=float).T  # (items, R)
        _, units = np.unique(columns[outcomes.unit], return_inverse=True)
        table = _Table(self.runs, baseline)
        counts = np.stack([right, np.ones_like(right)], -1)
        resampled = resample(counts, units, shares, table.weights, rng, samples)
        for level, name, members in groups_of(outcomes, columns):
            if level == "overall" or levels:
                groups, pairs = table.compare(resampled.mean_of(np.unique(units[members])), right[members])
                yield Score(
                    evaluation=self.name,
                    score=outcomes.score,
                    level=level,
                    name=name,
                    items=len(members),
                    lower_is_better=False,
                    groups=groups,
                    pairs=pairs,
                )

    def _drop_other_items(self, outcomes: Outcomes) -> None:
        """Leave runs out whose items are not those of the first."""
        first, kept = self.runs[0], self.runs[:1]
        for run in self.runs[1:]:
            try:
                read_outcomes([first.table, run.table], [first.folder, run.folder], outcomes)
                kept.append(run)
            except (OtherItemsError, InputError) as error:
                self.refused.append(str(error))
        self.runs = kept

    def _of_sums(self, baseline: str | None, rng: np.random.Generator, samples: int) -> Iterator[Score]:
        record = self.runs[0].record
        by_run = [record.main_scores(run.document) for run in self.runs]
        labels = list(dict.fromkeys(label for scores in by_run for label in scores))
        for label in record.shared(labels, [run.document for run in self.runs]):
            having = [i for i, scores in enumerate(by_run) if scores.get(label, (None,))[0] is not None]
            if len(having) > 1:
                values = [by_run[i][label][0] for i in having]
                runs = [self.runs[i] for i in having]
                yield self._of_label(label, runs, values, baseline, rng, samples)

    def _of_label(
        self,
        label: str,
        runs: Sequence[_Run],
        values: Sequence[float | None],
        baseline: str | None,
        rng: np.random.Generator,
        samples: int,
    ) -> Score:
        """A score of which each run says what it is, and its items what it is made of, where they do."""
        import numpy as np

        table, record = _Table(runs, baseline), runs[0].record
        sums = record.sums_of(label, self.runs[0].document)
        items: list[Mapping[Any, tuple[float, ...]] | None] = []
        if sums is not None and self.same_rows:
            items = [sums.read(run.table, run.folder) for run in runs]
        common: list[Any] = []
        if items and all(each is not None for each in items):
            common = sorted(set.intersection(*(set(each or ()) for each in items)))
        if sums is None or not common:
            known = np.array([list(values)], dtype=float)
            resampled = Resampled(known, np.empty((1, 0, len(table.names))), np.zeros_like(known))
            groups, pairs = table.compare(resampled, None)
        else:
            largest = max(len(each or ()) for each in items)
            note = f"only the {len(common)} {sums.items} that all could score"
            if len(common) < largest and note not in self.notes:
                self.notes.append(note)
            counts = np.array([[(each or {})[key] for each in items] for key in common], dtype=float)
            whole = np.zeros(len(common), dtype=np.int64)
            groups, pairs = table.compare(
                resample(counts, whole, sums.score, table.weights, rng, samples),
                counts[..., 0] if sums.is_share else None,
            )
        return Score(
            evaluation=self.name,
            score=label,
            level="overall",
            name="",
            items=len(common) or None,
            lower_is_better=record.lower_is_better,
            groups=groups,
            pairs=pairs,
        )


class _Table:
    """Runs in their groups, and which of these are compared.

    Attributes:
        names: of the groups.
        weights: float64 (R, G), the share of a run in the mean of its group.
    """

    def __init__(self, runs: Sequence[_Run], baseline: str | None) -> None:
        import numpy as np

        self.names = list(dict.fromkeys(run.group for run in runs))
        self.members = [[i for i, run in enumerate(runs) if run.group == name] for name in self.names]
        self.weights = np.zeros((len(runs), len(self.names)))
        for group, members in enumerate(self.members):
            self.weights[members, group] = 1 / len(members)
        every = list(combinations(range(len(self.names)), 2))
        if baseline is None:
            self.pairs = every
        elif baseline in self.names:
            at = self.names.index(baseline)
            self.pairs = [(at, other) for other in range(len(self.names)) if other != at]
        else:  # which has no such score
            self.pairs = []

    def compare(
        self, resampled: Resampled, right: NDArray[np.float64] | None
    ) -> tuple[tuple[GroupScore, ...], tuple[PairDifference, ...]]:
        """Scores and differences of one unit; ``right``: (items, R), where items are right or wrong."""
        values = [tuple(resampled.scores[0, members].tolist()) for members in self.members]
        drawn = resampled.drawn[0]  # (samples, G)
        common = [
            common_variance(resampled.variances[0, members].tolist(), _variance(drawn[:, g]))
            for g, members in enumerate(self.members)
        ]
        groups = tuple(
            _group_score(name, of, drawn[:, g], common[g])
            for g, (name, of) in enumerate(zip(self.names, values, strict=True))
        )
        pairs = tuple(
            self._difference(
                groups[a],
                groups[b],
                drawn[:, b] - drawn[:, a],
                common[a] + common[b],
                self._discordant(right, a, b),
            )
            for a, b in self.pairs
        )
        return groups, pairs

    def _discordant(self, right: NDArray[np.float64] | None, a: int, b: int) -> tuple[int, int] | None:
        """Items that only one of two single models has right."""
        if right is None or len(self.members[a]) > 1 or len(self.members[b]) > 1:
            return None
        one, other = right[:, self.members[a][0]], right[:, self.members[b][0]]
        return int((one > other).sum()), int((other > one).sum())

    @staticmethod
    def _difference(
        a: GroupScore,
        b: GroupScore,
        drawn: NDArray[np.float64],
        common: float,
        discordant: tuple[int, int] | None,
    ) -> PairDifference:
        difference = b.mean - a.mean
        found = PairDifference(
            a=a.group,
            b=b.group,
            difference=difference,
            over_items=interval(drawn) if len(drawn) else None,
            over_seeds=None,
        )
        if discordant is not None:
            only_a, only_b = discordant
            return replace(found, only_a=only_a, only_b=only_b, test=_MCNEMAR, p=mcnemar(only_a, only_b))
        if len(a.values) > 1 or len(b.values) > 1:
            spread = Spread.of(_variance(drawn), a.values, b.values, both=common)
            test = _SEEDS if min(len(a.values), len(b.values)) > 1 else SEEDS_OF_ONE
            test += _ITEMS_TOO if len(drawn) else ""
            over_seeds = spread.interval(difference)
            return replace(found, over_seeds=over_seeds, test=test, p=spread.p(difference))
        return replace(found, test=_BOOTSTRAP, p=bootstrap_p(drawn)) if len(drawn) else found


def _group_score(
    name: str, values: tuple[float, ...], drawn: NDArray[np.float64], common: float
) -> GroupScore:
    spread = Spread.of(_variance(drawn), values, both=common)
    mean = math.fsum(values) / len(values)
    return GroupScore(
        group=name,
        values=values,
        mean=mean,
        deviation=deviation(values),
        over_items=interval(drawn) if len(drawn) else None,
        over_seeds=spread.interval(mean) if len(values) > 1 else None,
    )


def _variance(drawn: NDArray[np.float64]) -> float:
    return float(drawn.var()) if len(drawn) else 0.0
