"""Scores of one evaluation for groups of runs: means, deviations, intervals, and differences, tested."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from itertools import combinations, permutations
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pdtools.errors import InputError, PdtoolsError
from pdtools.evaluation.bootstrap import FEW_ITEMS, are_few, interval, of_sums
from pdtools.evaluation.comparison.comparability import (
    RunItems,
    check_same,
    comparability,
    groups_of,
    in_all,
    means,
    not_the_same,
    read_items,
    shares,
    which_count,
)
from pdtools.evaluation.comparison.groups import Group, ModelResults
from pdtools.evaluation.comparison.statistics import (
    Resampled,
    Spread,
    bootstrap_p,
    common_variance,
    exp,
    mcnemar,
    mean_of_runs,
    resample,
)
from pdtools.evaluation.record import MARGIN, Evaluation, Outcomes, Statistic, evaluation_of
from pdtools.evaluation.results import read_document, read_items_table

if TYPE_CHECKING:
    import numpy as np
    import pyarrow as pa
    from numpy.typing import NDArray

Interval = tuple[float, float]
Draw = Callable[..., Resampled]
"""The bootstrap, :func:`pdtools.evaluation.comparison.statistics.resample`, with its samples and seed."""
_MCNEMAR, _BOOTSTRAP, _SEEDS = "McNemar, exact", "paired bootstrap", "Welch's t over seeds"
SEEDS_OF_ONE = "Student's t over the seeds of one group"
_ITEMS_TOO = ", items by bootstrap"
_ROUNDING = 1e-12  # relative
BESIDE_EXACT = "the difference of an exact score and a bound includes the error of the search"


@dataclass(frozen=True, kw_only=True, slots=True)
class GroupScore:
    """The score of a group of models, in the unit that the score's name says.

    Attributes:
        group: its name.
        values: the models' scores, in order.
        mean: their mean.
        deviation: their standard deviation (n − 1), over seeds; None for one model.
        over_items: 95% interval of the mean for these models on other items: a percentile bootstrap,
            stratified by unit; None for scores without items, or of fewer than ten.
        over_seeds: 95% interval for other seeds (and other items, if the score has some): Student's t;
            None for one model, and for models with the same score.
        bound: the bound that the score is ("upper bound at beam 10"); None if it is exact.
    """

    group: str
    values: tuple[float, ...]
    mean: float
    deviation: float | None
    over_items: Interval | None
    over_seeds: Interval | None
    bound: str | None = None


@dataclass(frozen=True, kw_only=True, slots=True)
class PairDifference:
    """The difference b − a of two groups' means.

    Attributes:
        a, b: their names.
        difference: b − a.
        over_items, over_seeds: 95% intervals, as in :class:`GroupScore`; the items of both are the same.
            ``over_seeds`` is None if both groups are one model; if one of them is, it is assumed to vary over
            seeds as the models of the other.
        only_a, only_b: items that only one of two models has right; None for groups, and for other scores.
        test: the name of the test; None if there is no p.
        p: two-sided.
        p_holm: corrected by Holm for all ``family`` differences of the table.
        family: number of p values corrected together.
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
class ComparedScore:
    """One score of all groups that have it.

    Attributes:
        evaluation: the results folders' name.
        score: its name, with its unit.
        level: ``overall``; for BLiMP and SG also field, phenomenon, paradigm, circuit, suite.
        name: the group of items at this level; "" overall.
        items: number of items; None if it is compared without items.
        lower_is_better: true for perplexities and distances.
        geometric: true for perplexities: means are geometric, and everything is computed from logarithms.
            Deviations are those of the logarithms times the mean; differences and their intervals are
            ratios to a's mean, less 1, times this mean.
        groups: the groups' scores.
        pairs: their differences: of all pairs, or from the baseline.
        notes: settings that differ and concern this score alone; why pairs or intervals are missing.
        is_margin: whether it is a mean of margins, in bits; they have a correction of their own.
    """

    evaluation: str
    score: str
    level: str
    name: str
    items: int | None
    lower_is_better: bool
    groups: tuple[GroupScore, ...]
    pairs: tuple[PairDifference, ...]
    notes: tuple[str, ...] = ()
    is_margin: bool = False
    geometric: bool = False


@dataclass(frozen=True, slots=True)
class ComparedRun:
    """One model's results of an evaluation.

    Attributes:
        group, model: the names of both.
        folder: the folder of the results.
        record: the evaluation's record.
        document, table: the content of the folder.
        items: items that are right or wrong; None for other evaluations.
        differs: settings that change the numbers: their values in the first run and in this one.
    """

    group: str
    model: str
    folder: Path
    record: Evaluation
    document: dict[str, Any]
    table: pa.Table
    items: RunItems | None
    differs: Mapping[str, str] = field(default_factory=dict)

    def main_scores(self) -> dict[str, float | None]:
        """The main scores by name."""
        return {label: value for label, (value, _) in self.record.main_scores(self.document).items()}


class ComparedRuns:
    """The results of one evaluation, as far as they are comparable with the first of them.

    Args:
        name: the results folders' name.
        groups: groups of models, not all of which need have such results.
        baseline: the name of a group that all others are compared with; None: every pair is.

    Attributes:
        runs: the comparable runs.
        refused: the reasons against other runs.
        notes: how the runs were made differently, and, once scores are made, which items count.
    """

    def __init__(self, name: str, groups: Sequence[Group], baseline: str | None) -> None:
        self.name = name
        self.runs: list[ComparedRun] = []
        self.refused: list[PdtoolsError] = []
        self._baseline = baseline
        self._sizes = {group.name: len(group.models) for group in groups}
        for group in groups:
            for model in group.models:
                if name in model.evaluations:
                    try:
                        self.runs.append(self._read(group.name, model))
                    except PdtoolsError as error:
                        self.refused.append(error)
        self._all = "both" if len(self.runs) == 2 else "all"
        self.notes = self._differing(lambda setting: setting not in self.runs[0].record.concerned)

    def _read(self, group: str, model: ModelResults) -> ComparedRun:
        folder = model.evaluations[self.name]
        document = read_document(folder)
        if (record := evaluation_of(document)) is None:
            task = document["settings"]["task"]
            raise InputError(f"results of an evaluation that is not known here: {task}", file=folder)
        if self.runs and record.name != self.runs[0].record.name:
            reason = f"results of another evaluation than {self.runs[0].folder}"
            raise InputError(reason, file=folder)
        if self.runs:  # results that describe themselves may differ in it
            record = self.runs[0].record
        table = read_items_table(folder, record.columns_compared)
        items = None if record.outcomes is None else read_items(table, folder, record.outcomes)
        table = table if items is None else table.select([])  # its items have been read
        run = ComparedRun(group, model.name, folder, record, document, table, items)
        return self._compared(run) if self.runs else run

    def _compared(self, run: ComparedRun) -> ComparedRun:
        """The run, with its differences from the first.

        Raises:
            PdtoolsError: if the two cannot be compared.
        """
        first = self.runs[0]
        refused, differs = comparability(first.document, run.document)
        try:  # the items name the difference, if they know it
            _check_items(first, run)
        except PdtoolsError as error:
            raise PdtoolsError("; ".join([str(error), *differs.values()])) from None
        if refused is not None:
            raise InputError(f"results of {refused} than {first.folder}", file=run.folder)
        return replace(run, differs=differs)

    def _differing(self, is_wanted: Callable[[str], bool]) -> list[str]:
        """Settings in which runs differ from the first, in words; of more than two also which runs."""
        found: dict[str, list[str]] = {}
        for run in self.runs:
            for setting, note in run.differs.items():
                if is_wanted(setting):
                    found.setdefault(note, []).append(run.model)
        if len(self.runs) == 2:
            return list(found)
        return [f"{note} ({self.runs[0].model}, and {', '.join(of)})" for note, of in found.items()]

    def reported(self) -> Iterator[ComparedScore]:
        """The main scores as the results report them, each over all items that its run could score."""
        for label, runs, values in self._main_scores():
            yield self._without_items(_Table(runs, None, has_pairs=False), label, values)

    def scores(self, *, seed: int, samples: int) -> Iterator[ComparedScore]:
        """Its scores and their differences, overall ones first; none for fewer than two models.

        Adds to ``notes``, and to ``refused`` if nothing can be compared.

        Args:
            seed: for the bootstrap: results of one evaluation do not depend on others.
            samples: number of bootstrap samples.
        """
        import numpy as np

        if len(self.runs) < 2:
            return
        draw = partial(resample, rng=np.random.default_rng(seed), samples=samples)
        if (outcomes := self.runs[0].record.outcomes) is None:
            yield from self._of_scores(draw)
            return
        yield from self._of_items(outcomes, outcomes.score, self.runs, draw)
        if outcomes.margin is None:
            return
        has_margins = [run.items is not None and run.items.has_margins for run in self.runs]
        having = [run for run, has in zip(self.runs, has_margins, strict=True) if has]
        if having and len(having) < len(self.runs):
            lacking = ", ".join(run.model for run, has in zip(self.runs, has_margins, strict=True) if not has)
            self.notes.append(f"{outcomes.margin}: not of {lacking}, whose items have none")
        if len(having) > 1:
            yield from self._of_items(outcomes, outcomes.margin, having, draw)

    def _of_items(
        self, outcomes: Outcomes, label: str, runs: Sequence[ComparedRun], draw: Draw
    ) -> Iterator[ComparedScore]:
        """The means of a column of the items, by their groups: shares of right ones, or margins."""
        import numpy as np

        is_margin = label == outcomes.margin
        items = [run.items for run in runs if run.items is not None]
        found, counts = in_all(items, MARGIN if is_margin else "correct"), which_count(items[0])
        keep = np.flatnonzero([known and None not in each for known, each in zip(counts, found, strict=True)])
        if not len(keep):
            who = f"{' and '.join(str(run.folder) for run in runs)} have no item"
            error = PdtoolsError(f"{who} that {self._all} could score")
            self.refused += [] if is_margin else [error]
            self.notes += [f"{label}: no item has one in {self._all}"] if is_margin else []
            return
        self._restrict(len(keep), int(counts.sum()), "items")
        columns = {name: [values[i] for i in keep] for name, values in items[0].columns.items()}
        numbers = np.array([found[i] for i in keep], dtype=float)  # (items, R)
        _, units = np.unique(columns[outcomes.unit], return_inverse=True)
        table = _Table(runs, self._baseline)
        ones = np.stack([numbers, np.ones_like(numbers)], -1)
        resampled = draw(ones, units, of_sums(means if is_margin else shares), table.weights)
        groups = groups_of(outcomes, columns)
        if groups[0][0] != "overall" and not is_margin:
            self.notes.append("none of the items counts in the overall score")
        for level, name, members in groups:
            inside, sizes = np.unique(units[members], return_counts=True)
            mean = resampled.mean_of(inside, sizes if level in outcomes.over_items else None)
            right = None if is_margin else numbers[members]
            few = are_few(len(members), len(inside))
            score = self._score(table, label, mean, right, group=(level, name), items=len(members), few=few)
            yield replace(score, is_margin=is_margin)

    def _main_scores(self) -> Iterator[tuple[str, list[ComparedRun], list[float]]]:
        """The main scores that compare these results: the runs that have each, and their values."""
        if not self.runs:
            return
        by_run = [(run, run.main_scores()) for run in self.runs]
        labels = list(dict.fromkeys(label for _, scores in by_run for label in scores))
        for label in self.runs[0].record.shared(labels, [run.document for run in self.runs]):
            known = [(run, value) for run, of in by_run if (value := of.get(label)) is not None]
            if known:
                yield label, [run for run, _ in known], [value for _, value in known]

    def _of_scores(self, draw: Draw) -> Iterator[ComparedScore]:
        """Main scores of evaluations whose items are not right or wrong, over the items that all have."""
        import numpy as np

        first, record = self.runs[0], self.runs[0].record
        shared = [each for each in self._main_scores() if len(each[1]) > 1]
        if not shared:
            ends = {run.document["settings"].get("eos_counted") for run in self.runs}
            some = ": only some count end-of-sentence" if record.without_end and len(ends) > 1 else ""
            reason = f"no score that {first.folder} has too{some}"
            self.refused.append(InputError(reason, file=self.runs[1].folder))
        for label, runs, values in shared:
            table = _Table(runs, self._baseline)
            score = record.item_score(label, first.document)
            if score is None or any("layout" in run.differs for run in self.runs):  # rows are others
                yield self._without_items(table, label, values)
                continue
            items = [each for run in runs if (each := score.read(run.table, run.folder)) is not None]
            if len(items) < len(runs):
                yield self._without_items(table, label, values)
                continue
            common = sorted(set.intersection(*map(set, items)))
            if not common:
                who = " and ".join(str(run.folder) for run in runs)
                self.refused.append(PdtoolsError(f"{who} have no {score.items} in common"))
                return
            self._restrict(len(common), max(map(len, items)), score.items)
            numbers = np.array([[each[key] for each in items] for key in common], dtype=float)
            statistic = _logarithms(score.statistic) if record.geometric else score.statistic
            resampled = draw(numbers, np.zeros(len(common), dtype=np.int64), statistic, table.weights)
            if not np.isfinite(resampled.scores).all():
                self.notes.append(f"{label}: not defined for the {score.items} that {self._all} have")
                continue
            right, n = numbers[..., 0] if score.is_share else None, len(common)
            yield self._score(table, label, resampled, right, items=n, few=are_few(n))

    def _restrict(self, kept: int, whole: int, items: str) -> None:
        note = f"only the {kept} of {whole} {items} that {self._all} could score"
        if kept < whole and note not in self.notes:
            self.notes.append(note)

    def _without_items(self, table: _Table, label: str, values: Sequence[float]) -> ComparedScore:
        """A score as the results report it."""
        import numpy as np

        known = np.array([values], dtype=float)
        if table.runs[0].record.geometric:
            with np.errstate(divide="ignore"):
                known = np.log(np.maximum(known, 0))
        none = np.empty((1, 0, len(table.names)))
        score = self._score(table, label, Resampled(known, none, np.zeros_like(known)), None)
        over = [run.record.main_scores(run.document)[label][1] for run in table.runs]
        differing = [several for each in zip(*over, strict=False) if len(several := dict.fromkeys(each)) > 1]
        counts = (f"over {' and '.join(differing[0])}",) if differing and score.pairs else ()
        return replace(score, notes=score.notes + counts)

    def _score(
        self,
        table: _Table,
        label: str,
        resampled: Resampled,
        right: NDArray[np.float64] | None,
        *,
        group: tuple[str, str] = ("overall", ""),
        items: int | None = None,
        few: bool = False,
    ) -> ComparedScore:
        """One score: its groups and their differences, with notes.

        Args:
            table: the groups.
            label: its name.
            resampled, right, few: see :meth:`_Table.compare`.
            group: the level and the name of the group of items.
            items: their number.
        """
        record, (level, name) = table.runs[0].record, group
        groups, pairs = table.compare(resampled, right, few=few)
        if record.geometric:
            groups, pairs = _as_perplexities(groups, pairs)
        documents: dict[str, list[dict[str, Any]]] = {}
        for run in table.runs:
            documents.setdefault(run.group, []).append(run.document)
        bounds = {name: _bound_of(record, label, of) for name, of in documents.items()}
        untested = {
            (pair.a, pair.b): why
            for pair in pairs
            if (why := record.untested(label, documents[pair.a][0], documents[pair.b][0])) is not None
        }
        pairs = tuple(pair for pair in pairs if (pair.a, pair.b) not in untested)
        beside = [(pair.a, pair.b) for pair in pairs] if table.pairs else combinations(bounds, 2)
        notes = [f"not compared: {why}" for why in dict.fromkeys(untested.values())]
        notes += [FEW_ITEMS] if few else []
        notes += [BESIDE_EXACT] if any((bounds[a] is None) != (bounds[b] is None) for a, b in beside) else []
        ends = record.concerned
        notes += self._differing(lambda setting: setting in ends and label.endswith(ends[setting]))
        notes += [
            f"of {len(of)} of the {self._sizes[each]} runs of {each}"
            for each, of in documents.items()
            if level == "overall" and len(of) < self._sizes[each]
        ]
        return ComparedScore(
            evaluation=self.name,
            score=label,
            level=level,
            name=name,
            items=items,
            lower_is_better=record.lower_is_better,
            groups=tuple(replace(each, bound=bounds[each.group]) for each in groups),
            pairs=pairs,
            notes=tuple(notes),
            geometric=record.geometric,
        )


def _logarithms(statistic: Statistic) -> Statistic:
    """The logarithm of a statistic."""

    def logarithm(numbers: NDArray[np.float64], times: NDArray[np.int64] | None) -> NDArray[np.float64]:
        import numpy as np

        with np.errstate(divide="ignore"):
            return np.log(statistic(numbers, times))

    return logarithm


def _as_perplexities(
    groups: Sequence[GroupScore], pairs: Sequence[PairDifference]
) -> tuple[tuple[GroupScore, ...], tuple[PairDifference, ...]]:
    """Scores and differences of logarithms, as perplexities: see :class:`ComparedScore`."""

    def ends(interval: Interval | None, scale: float = 1, less: float = 0) -> Interval | None:
        return (
            None
            if interval is None
            else (scale * (exp(interval[0]) - less), scale * (exp(interval[1]) - less))
        )

    means = {each.group: exp(each.mean) for each in groups}
    of_groups = [
        replace(
            each,
            values=tuple(map(exp, each.values)),
            mean=means[each.group],
            deviation=None if each.deviation is None else means[each.group] * each.deviation,
            over_items=ends(each.over_items),
            over_seeds=ends(each.over_seeds),
        )
        for each in groups
    ]
    of_pairs = [
        replace(
            each,
            difference=means[each.b] - means[each.a],
            over_items=ends(each.over_items, means[each.a], 1),
            over_seeds=ends(each.over_seeds, means[each.a], 1),
        )
        for each in pairs
    ]
    return tuple(of_groups), tuple(of_pairs)


def _bound_of(record: Evaluation, label: str, documents: Sequence[Mapping[str, Any]]) -> str | None:
    """The bound that a score of some results is; None if it is exact in all of them."""
    bounds = dict.fromkeys(bound for each in documents if (bound := record.bound(label, each)))
    return " or ".join(bounds) or None


def _check_items(first: ComparedRun, run: ComparedRun) -> None:
    """Refuse a run over other items, as far as the items of an evaluation have to be the same.

    Raises:
        PdtoolsError: naming the first that differs.
    """
    record = first.record
    if record.outcomes is not None and first.items is not None and run.items is not None:
        check_same(first.items, run.items, record.outcomes)
    scores = (record.item_score(label, first.document) for label in first.main_scores())
    described = ((score.key, *score.content) for score in scores if score and score.content)
    for columns in dict.fromkeys(described):
        if all({*columns} <= {*each.table.column_names} for each in (first, run)):
            one, other = (_described(each.table, *columns) for each in (first, run))
            for item, content in one.items():
                if other.get(item, content) != content:
                    raise not_the_same(item, first.folder, run.folder)


def _described(table: pa.Table, key: str, *content: str) -> dict[Any, tuple[Any, ...]]:
    """The content of items by their keys, for items whose content is known."""
    rows = zip(*(table[name].to_pylist() for name in content), strict=True)
    return {item: row for item, row in zip(table[key].to_pylist(), rows, strict=True) if None not in row}


class _Table:
    """Runs in their groups, and the pairs to be compared.

    Args:
        runs: runs that have a score.
        baseline: a group's name: others are compared with it; None: every pair is compared.
        has_pairs: whether any are compared.

    Attributes:
        runs: the runs that have a score.
        names: the groups' names.
        pairs: the pairs to be compared, by their places in ``names``.
        weights: float64 (R, G), the share of a run in the mean of its group.
    """

    def __init__(self, runs: Sequence[ComparedRun], baseline: str | None, *, has_pairs: bool = True) -> None:
        import numpy as np

        self.runs = runs
        self.names = list(dict.fromkeys(run.group for run in runs))
        self.members = [[i for i, run in enumerate(runs) if run.group == name] for name in self.names]
        self.weights = np.zeros((len(runs), len(self.names)))
        for group, members in enumerate(self.members):
            self.weights[members, group] = 1 / len(members)
        self.pairs = [
            (a, b)
            for a, b in permutations(range(len(self.names)), 2)
            if has_pairs and (a < b if baseline is None else self.names[a] == baseline)
        ]

    def compare(
        self, resampled: Resampled, right: NDArray[np.float64] | None, *, few: bool = False
    ) -> tuple[tuple[GroupScore, ...], tuple[PairDifference, ...]]:
        """Scores and differences for one unit.

        Args:
            resampled: its scores, and those of samples of its items.
            right: (items, R), if items are right or wrong.
            few: whether items are too few for intervals over items, and p by these.
        """
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
        if few:
            groups = tuple(replace(each, over_items=None) for each in groups)
            pairs = tuple(replace(each, over_items=None) for each in pairs)
            pairs = tuple(
                replace(each, p=None, test=None) if each.test == _BOOTSTRAP else each for each in pairs
            )
        return groups, pairs

    def _discordant(self, right: NDArray[np.float64] | None, a: int, b: int) -> tuple[int, int] | None:
        """Numbers of items that only one of two single models has right."""
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
        # Equal means of other parts differ by rounding.
        difference = 0.0 if math.isclose(a.mean, b.mean, rel_tol=_ROUNDING) else b.mean - a.mean
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
            if spread.error == 0:  # the seeds do not differ: they say nothing of others
                return found
            over_seeds = spread.interval(difference)
            return replace(found, over_seeds=over_seeds, test=test, p=spread.p(difference))
        return replace(found, test=_BOOTSTRAP, p=bootstrap_p(drawn)) if len(drawn) else found


def _group_score(
    name: str, values: tuple[float, ...], drawn: NDArray[np.float64], common: float
) -> GroupScore:
    spread = Spread.of(_variance(drawn), values, both=common)
    mean, deviation = mean_of_runs(values)
    return GroupScore(
        group=name,
        values=values,
        mean=mean,
        deviation=deviation,
        over_items=interval(drawn) if len(drawn) else None,
        over_seeds=spread.interval(mean) if len(values) > 1 and spread.error else None,
    )


def _variance(drawn: NDArray[np.float64]) -> float:
    return float(drawn.var()) if len(drawn) else 0.0
