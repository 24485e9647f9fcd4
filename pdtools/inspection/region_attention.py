"""Attention to regions of test suites when a model predicts a later one.

In the paper: in the three suites of subject-verb agreement, attention to the distractor noun, and to all
regions, when the verb is predicted.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any, cast

import numpy as np
from numpy.typing import NDArray

from pdtools.errors import PdtoolsError
from pdtools.evaluation.benchmark.item_set import String
from pdtools.evaluation.bootstrap import bootstrap, interval, of_sums
from pdtools.evaluation.comparison.statistics import Spread, common_variance
from pdtools.evaluation.results import ITEMS, Progress, Results, no_progress
from pdtools.evaluation.sg.suites import Condition, Suite, SuiteItem, present
from pdtools.inspection.predictions import Prediction, Predictions
from pdtools.models import load_checkpoint
from pdtools.search.options import DEFAULT_SEARCH, SearchOptions
from pdtools.search.scores import Unscorable
from pdtools.search.spans import span_at

if TYPE_CHECKING:
    import pyarrow as pa

    from pdtools.tokenization import Sentence

# Names for the rest of the attention when all regions are inspected.
ROOT_REGION, STRUCTURE = "(root)", "(structure)"


@dataclass(frozen=True, kw_only=True)
class Question:
    """The predicted region, and the regions whose attention is measured.

    Attributes:
        at: the predicted region, a name or number: attention is taken at the last position before it.
        regions: the regions that receive attention, names or numbers; empty: all before ``at``, and ROOT.
        suites: names; empty: all that have ``at`` and one of ``regions``.
    """

    at: str
    regions: tuple[str, ...] = ()
    suites: tuple[str, ...] = ()


@dataclass(frozen=True)
class _InspectedSentence:
    """A sentence to be inspected.

    Attributes:
        at: the index of the predicted region in the condition.
        regions: names of the regions that receive attention, by their indices in the condition.
    """

    suite: Suite
    item: SuiteItem
    condition: Condition
    at: int
    regions: dict[int, str]


# Attention of each layer and head (L, H) to regions, by name.
_ByRegion = dict[str, NDArray[np.float64]]


def evaluate_attention(
    suites: Iterable[Suite],
    models: Mapping[str, Sequence[str]],
    question: Question,
    *,
    search: SearchOptions = DEFAULT_SEARCH,
    device: str = "cpu",
    samples: int = 1000,
    seed: int = 0,
    progress: Progress = no_progress,
) -> Results:
    """Measure models' attention to regions (Murty et al. 2023, section 5, fig. 5 and fig. 6).

    The weights of a region's tokens are summed, then averaged over an item's conditions, then over
    items. Items that lack a value under one of the models are excluded for all. Intervals (95 %) are
    from the bootstrap over items; if a model has several seeds, Student's t over seeds and items
    (:class:`pdtools.evaluation.comparison.statistics.Spread`).

    Args:
        suites: read once.
        models: for each name in the results, the folders of one or several seeds.
        question: the regions to measure.
        search: for the best incremental parse before the predicted region; with trees, the first of each
            sentence is read instead.
        device: to load the models on.
        samples, seed: for the bootstrap.
        progress: wraps the iterator over the sentences of all models.

    Returns:
        Scores ``by_suite`` (suite, region, model) and ``differences`` (the same, less the first model), and
        an ``items`` table with a row for each model, seed, item, condition and region.

    Raises:
        PdtoolsError: if no suite has the regions, or a model has no attention to inspect.
    """
    asked = _asked(suites, question)
    described: dict[str, Any] = {}

    def looked_at() -> Iterator[tuple[str, int, _InspectedSentence, _ByRegion | str]]:
        for name, folders in models.items():
            for number, folder in enumerate(folders):
                loaded = load_checkpoint(folder, device)
                predictions = Predictions(loaded, search)
                described.setdefault(name, {"folders": list(folders), **predictions.settings})
                style = loaded.tokenizer.text_style
                presented = [present(one.condition, style) for one in asked]
                found = predictions.at(
                    (cast("Sentence", each.words), each.spans[one.at][0])
                    for one, each in zip(asked, presented, strict=True)
                )
                for one, each, prediction in zip(asked, presented, found, strict=True):
                    by_region = _by_region(one, each, prediction, everything=not question.regions)
                    yield name, number, one, by_region

    rows = _Rows()
    values = _Values(samples, seed)
    total = len(asked) * sum(map(len, models.values()))
    for name, number, one, by_region in progress(looked_at(), total):
        rows.add(name, number, one, by_region)
        values.add(name, number, one, by_region)
    scores, counts = values.scores()
    settings = {
        "task": "attention",
        "unit": "fraction of 1",
        "at": question.at,
        "regions": list(question.regions) or None,
        "suites": list(question.suites) or None,
        "derivation": "best incremental parse" if search.trees is None else "given trees",
        "interval": "95%: bootstrap over items; of several seeds Student's t over seeds and items",
        "samples": samples,
        "seed": seed,
        "models": described,
    }
    return Results(scores=scores, counts=counts, settings=settings, tables={ITEMS: rows.table()})


# --- which sentences --------------------------------------------------------------------------


def _asked(suites: Iterable[Suite], question: Question) -> list[_InspectedSentence]:
    """The sentences of the suites that have the question's regions."""
    found: list[_InspectedSentence] = []
    names: set[str] = set()
    for suite in suites:
        names.add(suite.name)
        if question.suites and suite.name not in question.suites:
            continue
        in_suite = [
            one
            for item in suite.items
            for condition in item.conditions
            if (one := _of_condition(suite, item, condition, question)) is not None
        ]
        if question.suites and not in_suite:
            called = ", ".join(f"{number} {name}" for number, name in sorted(suite.region_names.items()))
            raise PdtoolsError(f"suite {suite.name}: no such regions; its regions: {called}")
        found += in_suite
    if missing := [name for name in question.suites if name not in names]:
        raise PdtoolsError(f"no suite {missing[0]!r} among these: {', '.join(sorted(names))}")
    if not found:
        wanted = " or ".join(question.regions) or "any"
        raise PdtoolsError(f"no suite has the region {question.at!r} and, before it, {wanted}")
    return found


def _of_condition(
    suite: Suite, item: SuiteItem, condition: Condition, question: Question
) -> _InspectedSentence | None:
    """A sentence, if it has the predicted region and one of the others before it."""
    names = _names(suite, condition)
    at = next((i for i, name in enumerate(names) if question.at in (name, str(condition.numbers[i]))), 0)
    regions = {
        i: name
        for i, name in enumerate(names[:at])
        if not question.regions or {name, str(condition.numbers[i])} & set(question.regions)
    }
    return (
        _InspectedSentence(suite, item, condition, at, regions) if regions and condition.regions[at] else None
    )


def _names(suite: Suite, condition: Condition) -> list[str]:
    """Names of a condition's regions: their numbers if they have no names, or share one."""
    names = [suite.region_names.get(number, str(number)) for number in condition.numbers]
    return [
        name if names.count(name) == 1 else str(number)
        for name, number in zip(names, condition.numbers, strict=True)
    ]


# --- what they get ----------------------------------------------------------------------------


def _by_region(
    one: _InspectedSentence, presented: String, prediction: Prediction | Unscorable, *, everything: bool
) -> _ByRegion | str:
    """Attention to the regions that have tokens; or the reason why there is none."""
    if isinstance(prediction, Unscorable):
        return prediction.reason
    places = span_at(presented.text, presented.spans, prediction.starts, "visible")
    weights = prediction.weights[:, :, 1:]  # (L, H, tokens before)
    found = {name: weights[:, :, places == i].sum(2) for i, name in one.regions.items() if i in places}
    if everything:
        found[ROOT_REGION] = prediction.weights[:, :, 0]
        if prediction.rest.any():
            found[STRUCTURE] = prediction.rest
    return found


class _Rows:
    """The table of items, a row for each region."""

    def __init__(self) -> None:
        self._columns: dict[str, list[Any]] = {name: [] for name in _COLUMNS}

    def add(self, model: str, number: int, one: _InspectedSentence, found: _ByRegion | str) -> None:
        """Add a sentence; without attention, its regions have a reason instead."""
        attention: Mapping[str, NDArray[np.float64] | None]
        reason = found if isinstance(found, str) else None
        attention = dict.fromkeys(one.regions.values()) if isinstance(found, str) else found
        for region, weights in attention.items():
            row = (
                model,
                number,
                one.suite.name,
                one.item.number,
                one.condition.name,
                region,
                None if weights is None else float(weights.mean()),
                None if weights is None else weights.tolist(),
                reason,
            )
            for column, value in zip(self._columns.values(), row, strict=True):
                column.append(value)

    def table(self) -> pa.Table:
        """The table of all rows.

        Columns:
            model, seed: the model's name in ``results.json``, and which of its runs (from 0).
            suite, item, condition: which sentence.
            region: the region that attention goes to, by name or number; ``(root)``, and of action models
                ``(structure)``, what opens and closes.
            attention: mean over layers and heads, from 0 to 1; null if the sentence has none.
            by_head: for each layer a list with a number for each head.
            reason: the reason why the sentence has none.
        """
        import pyarrow as pa

        by_head = pa.list_(pa.list_(pa.float64()))
        types = {"seed": pa.int32(), "item": pa.int64(), "attention": pa.float64(), "by_head": by_head}
        schema = pa.schema([(name, types.get(name, pa.string())) for name in _COLUMNS])
        return pa.table(self._columns, schema=schema)


_COLUMNS = ("model", "seed", "suite", "item", "condition", "region", "attention", "by_head", "reason")


class _Values:
    """Means over conditions, by suite and region, for the items that have a value under all models.

    Args:
        samples, seed: for the bootstrap.
    """

    def __init__(self, samples: int, seed: int) -> None:
        self._samples, self._seed = samples, seed
        # By suite and region, then item, then model and seed: a value (L, H) per condition.
        self._found: dict[tuple[str, str], dict[int, dict[tuple[str, int], list[NDArray[np.float64]]]]] = {}
        self._runs: dict[str, int] = {}  # number of a model's seeds
        self._items: set[tuple[str, int]] = set()
        self._without: set[tuple[str, int]] = set()

    def add(self, model: str, number: int, one: _InspectedSentence, found: _ByRegion | str) -> None:
        """Add a sentence."""
        self._runs[model] = max(self._runs.get(model, 0), number + 1)
        item = (one.suite.name, one.item.number)
        self._items.add(item)
        if isinstance(found, str):
            self._without.add(item)
            return
        for region, weights in found.items():
            by_item = self._found.setdefault((one.suite.name, region), {})
            by_item.setdefault(one.item.number, {}).setdefault((model, number), []).append(weights)

    def scores(self) -> tuple[dict[str, Any], dict[str, Any]]:
        """Scores and counts."""
        by_suite: dict[str, Any] = {}
        differences: dict[str, Any] = {}
        items: dict[str, int] = {}
        for (suite, region), by_item in self._found.items():
            runs = {run for by_run in by_item.values() for run in by_run}  # not all have structure
            kept = [
                number
                for number, by_run in by_item.items()
                if (suite, number) not in self._without and by_run.keys() == runs
            ]
            if not kept:
                continue
            values = {
                model: np.array(
                    [[np.mean(by_item[item][model, seed], axis=0) for item in kept] for seed in range(seeds)]
                )
                for model, seeds in self._runs.items()
                if (model, 0) in runs
            }  # (seeds, items, L, H) each
            interval_of = partial(mean_and_interval, seed=self._seed, samples=self._samples)
            items[suite] = max(items.get(suite, 0), len(kept))
            means = {model: each.mean((2, 3)) for model, each in values.items()}  # (seeds, items) each
            first = next(iter(means))
            for model, each in values.items():
                by_head = each.mean((0, 1))
                score = {"by_layer": by_head.mean(1).tolist(), "by_head": by_head.tolist()}
                score = interval_of(means[model]) | score
                by_suite.setdefault(suite, {}).setdefault(region, {})[model] = score
                if model != first:
                    score = interval_of(means[model], less=means[first])
                    differences.setdefault(suite, {}).setdefault(region, {})[model] = score
        counts = {
            "items": len(self._items),
            "items_left_out": len(self._without),
            "items_by_suite": items,
            "seeds": dict(self._runs),
        }
        return {"by_suite": by_suite, "differences": differences}, counts


def mean_and_interval(
    values: NDArray[np.float64], less: NDArray[np.float64] | None = None, *, seed: int, samples: int
) -> dict[str, Any]:
    """The mean of items' values, or of their difference from others, with an interval.

    Args:
        values: (seeds, items).
        less: (seeds, items), subtracted.
        seed, samples: for the bootstrap.
    """
    groups = [values] if less is None else [values, less]
    by_item = values.mean(0) if less is None else values.mean(0) - less.mean(0)  # (items,)
    mean, n = float(by_item.mean()), len(by_item)
    if all(len(group) == 1 for group in groups):
        of_items = of_sums(lambda sums: sums[..., 0] / n)
        low, high = interval(bootstrap(by_item[:, None], of_items, np.random.default_rng(seed), samples))
    else:  # the variance of a bootstrap's means is known without drawing
        both = sum(
            common_variance((group.var(1) / n).tolist(), float(group.mean(0).var()) / n) for group in groups
        )
        of_seeds = [group.mean(1).tolist() for group in groups]
        low, high = Spread.of(float(by_item.var()) / n, *of_seeds, both=both).interval(mean)
    return {"mean": mean, "low": low, "high": high}
