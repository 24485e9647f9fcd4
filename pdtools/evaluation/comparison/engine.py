"""Comparison of groups of runs: means, deviations, intervals, and all differences, tested."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import combinations
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pdtools.errors import InputError, PdtoolsError
from pdtools.evaluation.bootstrap import FEW_ITEMS, are_few, interval
from pdtools.evaluation.comparison.comparability import comparability
from pdtools.evaluation.comparison.groups import Group, Model
from pdtools.evaluation.comparison.items import (
    ItemMismatchError,
    Items,
    check_same,
    groups_of,
    in_all,
    means,
    not_the_same,
    read_items,
    shares,
    which_count,
)
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
from pdtools.evaluation.sums import of_sums

if TYPE_CHECKING:
    import numpy as np
    import pyarrow as pa
    from numpy.typing import NDArray

Interval = tuple[float, float]
_MCNEMAR, _BOOTSTRAP, _SEEDS = "McNemar, exact", "paired bootstrap", "Welch's t over seeds"
SEEDS_OF_ONE = "Student's t over the seeds of one group"
_ITEMS_TOO = ", items by bootstrap"
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
class Score:
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
        notes: notes on the differences, and reasons why some pairs have none.
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
class Run:
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
    items: Items | None
    differs: Mapping[str, str] = field(default_factory=dict)

    def main_scores(self) -> dict[str, float | None]:
        """The main scores by name."""
        return {label: value for label, (value, _) in self.record.main_scores(self.document).items()}


class Comparison:
    """The comparison of one evaluation's results, as far as they are comparable with the first of them.

    Args:
        name: the results folders' name.
        groups: groups of models, not all of which need have such results.

    Attributes:
        runs: the comparable runs.
        refused: the reasons against other runs.
        restrictions: once scores are made, which items count, if not all do.
        counts: then, by score, the number of items that all runs have scored, and the number of all.
    """

    def __init__(self, name: str, groups: Sequence[Group]) -> None:
        self.name = name
        self.runs: list[Run] = []
        self.refused: list[PdtoolsError] = []
        self.restrictions: list[str] = []
        self.counts: dict[str, tuple[int, int]] = {}
        for group in groups:
            for model in group.models:
                if name in model.evaluations:
                    try:
                        self.runs.append(self._read(group.name, model))
                    except (InputError, ItemMismatchError) as error:
                        self.refused.append(error)

    def _read(self, group: str, model: Model) -> Run:
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
        run = Run(group, model.name, folder, record, document, table, items)
        return self._compared(run) if self.runs else run

    def _compared(self, run: Run) -> Run:
        """The run, with its differences from the first.

        Raises:
            InputError, ItemMismatchError: if the two cannot be compared.
        """
        first = self.runs[0]
        compared = comparability(first.document, run.document)
        try:  # the items name the difference, if they know it
            _check_items(first, run)
        except ItemMismatchError as error:
            raise ItemMismatchError("; ".join([str(error), *compared.notes])) from None
        if compared.refused is not None:
            raise InputError(f"results of {compared.refused} than {first.folder}", file=run.folder)
        return replace(run, differs=compared.differs)

    @property
    def differing(self) -> dict[str, list[str]]:
        """Differences in how runs were made, in words, each with the models that so differ from the first."""
        found: dict[str, list[str]] = {}
        for run in self.runs:
            for note in run.differs.values():
                found.setdefault(note, []).append(run.model)
        return found

    def scores(self, baseline: str | None, *, seed: int, samples: int, levels: bool = True) -> list[Score]:
        """Its scores, overall ones first; none for fewer than two models.

        Fills ``restrictions`` and ``counts``, and ``refused`` if no item counts.

        Args:
            baseline: the name of a group that all others are compared with; None: every pair is.
            seed: for the bootstrap: results of one evaluation do not depend on others.
            samples: number of bootstrap samples.
            levels: whether to compare groups of items too.
        """
        import numpy as np

        if len(self.runs) < 2:
            return []
        rng = np.random.default_rng(seed)
        if (outcomes := self.runs[0].record.outcomes) is not None:
            return list(self._of_outcomes(outcomes, baseline, rng, samples, levels=levels))
        return list(self._of_scores(baseline, rng, samples))

    def _of_outcomes(
        self,
        outcomes: Outcomes,
        baseline: str | None,
        rng: np.random.Generator,
        samples: int,
        *,
        levels: bool,
    ) -> Iterator[Score]:
        items = [run.items for run in self.runs if run.items is not None]
        yield from self._of_items(outcomes, outcomes.score, "correct", baseline, rng, samples, levels=levels)
        if outcomes.margin is not None and all(MARGIN in each.columns for each in items):
            margin = outcomes.margin
            yield from self._of_items(outcomes, margin, MARGIN, baseline, rng, samples, levels=levels)

    def _of_items(
        self,
        outcomes: Outcomes,
        label: str,
        column: str,
        baseline: str | None,
        rng: np.random.Generator,
        samples: int,
        *,
        levels: bool,
    ) -> Iterator[Score]:
        """The means of a column of the items, by their groups: shares of right ones, or margins."""
        import numpy as np

        is_share = column != MARGIN
        items = [run.items for run in self.runs if run.items is not None]
        found, counts = in_all(items, column), which_count(items[0])
        keep = np.flatnonzero([known and None not in each for known, each in zip(counts, found, strict=True)])
        if not len(keep) and not is_share:
            return
        self.counts[label] = (len(keep), int(counts.sum()))
        if not len(keep):
            folders, who = " and ".join(str(run.folder) for run in self.runs), self._all()
            self.refused.append(PdtoolsError(f"{folders} have no item that {who} could score"))
            return
        if len(keep) < counts.sum():
            restriction = f"only the {len(keep)} of {int(counts.sum())} items"
            if restriction not in self.restrictions:
                self.restrictions.append(restriction)
        columns = {name: [values[i] for i in keep] for name, values in items[0].columns.items()}
        numbers = np.array([found[i] for i in keep], dtype=float)  # (items, R)
        _, units = np.unique(columns[outcomes.unit], return_inverse=True)
        table = _Table(self.runs, baseline)
        ones = np.stack([numbers, np.ones_like(numbers)], -1)
        statistic = of_sums(shares if is_share else means)
        resampled = resample(ones, units, statistic, table.weights, rng, samples)
        for level, name, members in groups_of(outcomes, columns):
            if level == "overall" or levels:
                inside, sizes = np.unique(units[members], return_counts=True)
                mean = resampled.mean_of(inside, sizes if level in outcomes.over_items else None)
                few = are_few(len(members), len(inside))
                groups, pairs = table.compare(mean, numbers[members] if is_share else None, few=few)
                yield Score(
                    evaluation=self.name,
                    score=label,
                    level=level,
                    name=name,
                    items=len(members),
                    lower_is_better=False,
                    groups=groups,
                    pairs=pairs,
                    is_margin=not is_share,
                    notes=(FEW_ITEMS,) if few else (),
                )

    def _all(self) -> str:
        return "both" if len(self.runs) == 2 else "all"

    def _of_scores(self, baseline: str | None, rng: np.random.Generator, samples: int) -> Iterator[Score]:
        record = self.runs[0].record
        by_run = [run.main_scores() for run in self.runs]
        labels = list(dict.fromkeys(label for scores in by_run for label in scores))
        for label in record.shared(labels, [run.document for run in self.runs]):
            values = [scores.get(label) for scores in by_run]
            having = [i for i, value in enumerate(values) if value is not None]
            if len(having) > 1:
                runs = [self.runs[i] for i in having]
                yield from self._of_score(label, runs, [values[i] for i in having], baseline, rng, samples)

    def _of_score(
        self,
        label: str,
        runs: Sequence[Run],
        values: Sequence[float | None],
        baseline: str | None,
        rng: np.random.Generator,
        samples: int,
    ) -> Iterator[Score]:
        """One score that each run's document has, with its values by item if the items have them.

        Nothing if it is not defined for the items that all runs have.
        """
        import numpy as np

        table, record = _Table(runs, baseline), runs[0].record
        score = record.item_score(label, self.runs[0].document)
        items: list[Mapping[Any, tuple[float, ...]] | None] = []
        if score is not None and not any("layout" in run.differs for run in self.runs):  # the same rows
            items = [score.read(run.table, run.folder) for run in runs]
        common: list[Any] = []
        few = False
        if items and all(each is not None for each in items):
            common = sorted(set.intersection(*(set(each or ()) for each in items)))
        if score is None or not common:
            known = np.array([list(values)], dtype=float)
            known = np.log(known) if record.geometric else known
            resampled = Resampled(known, np.empty((1, 0, len(table.names))), np.zeros_like(known))
            groups, pairs = table.compare(resampled, None)
        else:
            largest = max(len(each or ()) for each in items)
            self.counts[label] = (len(common), largest)
            note = f"only the {len(common)} {score.items}"
            if len(common) < largest and note not in self.restrictions:
                self.restrictions.append(note)
            numbers = np.array([[(each or {})[key] for each in items] for key in common], dtype=float)
            one = np.zeros(len(common), dtype=np.int64)
            statistic = _logarithms(score.statistic) if record.geometric else score.statistic
            resampled = resample(numbers, one, statistic, table.weights, rng, samples)
            if not np.isfinite(resampled.scores).all():
                return
            few = are_few(len(common))
            groups, pairs = table.compare(resampled, numbers[..., 0] if score.is_share else None, few=few)
        if record.geometric:
            groups, pairs = _as_perplexities(groups, pairs)
        documents: dict[str, list[dict[str, Any]]] = {}
        for run in runs:
            documents.setdefault(run.group, []).append(run.document)
        bounds = {name: bound_of(record, label, of) for name, of in documents.items()}
        untested = {
            (pair.a, pair.b): why
            for pair in pairs
            for why in (record.untested(label, documents[pair.a][0], documents[pair.b][0]),)
            if why is not None
        }
        pairs = tuple(pair for pair in pairs if (pair.a, pair.b) not in untested)
        notes = [f"not compared: {why}" for why in dict.fromkeys(untested.values())]
        notes += [FEW_ITEMS] if few else []
        notes += [BESIDE_EXACT] if any((bounds[p.a] is None) != (bounds[p.b] is None) for p in pairs) else []
        yield Score(
            evaluation=self.name,
            score=label,
            level="overall",
            name="",
            items=len(common) or None,
            lower_is_better=record.lower_is_better,
            groups=tuple(replace(group, bound=bounds[group.group]) for group in groups),
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
    """Scores and differences of logarithms, as perplexities: see :class:`Score`."""

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


def bound_of(record: Evaluation, label: str, documents: Sequence[Mapping[str, Any]]) -> str | None:
    """The bound that a score of some results is; None if it is exact in all of them."""
    bounds = dict.fromkeys(bound for each in documents if (bound := record.bound(label, each)))
    return " or ".join(bounds) or None


def _check_items(first: Run, run: Run) -> None:
    """Refuse a run over other items, as far as the items of an evaluation have to be the same.

    Raises:
        ItemMismatchError: naming the first that differs.
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

    Attributes:
        names: the groups' names.
        weights: float64 (R, G), the share of a run in the mean of its group.
    """

    def __init__(self, runs: Sequence[Run], baseline: str | None) -> None:
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
        else:  # the baseline has no such score
            self.pairs = []

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
