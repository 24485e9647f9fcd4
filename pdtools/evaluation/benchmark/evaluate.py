"""Evaluation of benchmarks: test each item's prediction about the scores of its strings."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import islice
from typing import TYPE_CHECKING, Any, Literal

from pdtools.evaluation.benchmark.definition import Benchmark, Score
from pdtools.evaluation.benchmark.items import Item, Items, String
from pdtools.evaluation.benchmark.outcomes import JudgedItems, Part, Parts, part_of, values_of
from pdtools.evaluation.results import Progress, Results, no_progress
from pdtools.evaluation.sg.formula import Formula
from pdtools.search.options import AUTO

if TYPE_CHECKING:
    from pdtools.search.adaptive_beam import MaybeScore
    from pdtools.search.model import Model

BLOCK = 4096
"""Number of items whose strings are sorted together, and whose scores are in memory at the same time."""


def evaluate_benchmark(
    items: Items, scorer: Model, progress: Progress = no_progress, *, in_order: bool = False
) -> Results:
    """Score a benchmark with a model.

    Items are scored in blocks, each different string once and in lexicographic order, so that strings with
    equal beginnings reach a scorer together. Only an item's rows in the table stay in memory.

    Args:
        items: read three times.
        scorer: any scorer; it is handed the strings as they are. A comparer (``--beam auto``) scores each
            item by itself, as far as its outcomes need it.
        progress: wraps the iterator over scores of strings; of a comparer over items.
        in_order: the scorer is asked for the strings as the items have them, repeated ones again
            (:class:`pdtools.evaluation.ExternalScorer`).

    Returns:
        Scores (:func:`pdtools.evaluation.benchmark.outcomes.scores_of`), and an ``items`` table with a row
        for each prediction of each item.
    """
    is_graded = items.benchmark.label is not None or items.benchmark.value is not None
    if is_graded and scorer.settings.get("beam") == AUTO:
        raise items.refused("--beam auto needs predictions, and it has none: give a number")
    return judge_all(_judged(items), scorer, progress, in_order=in_order)


def judge_all(
    rows: JudgedItems, scorer: Model, progress: Progress = no_progress, *, in_order: bool = False
) -> Results:
    """Score items and judge them, see :func:`evaluate_benchmark`.

    Args:
        rows: the empty table of judged items, with the items.
    """
    items = rows.items
    if scorer.settings.get("beam") == AUTO:
        _compare(items, scorer, progress, rows)
        return rows.results(scorer.settings)
    texts_of = _in_order if in_order else _sorted
    total = sum(len(texts_of(block)) for block in _blocks(items))
    texts = (text for block in _blocks(items) for text in texts_of(block))
    scores = iter(progress(scorer.score(texts), total))
    for block in _blocks(items):
        asked = texts_of(block)
        found = list(islice(scores, len(asked)))
        by_text, of_items = dict(zip(asked, found, strict=True)), iter(found)
        parts = [
            {
                name: part_of(string, next(of_items) if in_order else by_text[string.text])
                for name, string in item.strings.items()
            }
            for item in block
        ]
        rows.add(block, parts)
        rows.count(by_text.values())
    _expect_end(scores)
    return rows.results(scorer.settings)


def evaluate_published(
    items: Items, given: Callable[[Item, str], float], settings: Mapping[str, Any]
) -> Results:
    """Judge a benchmark by published scores, one per string, the higher the better.

    Predictions about numbers of tokens are excluded.

    Args:
        given: the score of an item's string, by its name.
        settings: the source of the scores.
    """
    rows = _judged(items, tokens=False)
    for block in _blocks(items):
        rows.add(block, [{name: Part(given(item, name), None) for name in item.strings} for item in block])
    return rows.results(dict(settings))


def _judged(items: Items, *, tokens: bool = True) -> JudgedItems:
    if items.benchmark.label is None and items.benchmark.value is None:
        return JudgedItems(items, tokens=tokens)
    from pdtools.evaluation.benchmark.graded import JudgedLabels, JudgedValues  # numpy takes its time

    if items.benchmark.label is not None:
        return JudgedLabels(items, tokens=tokens)
    return JudgedValues(items, tokens=tokens)


def _blocks(items: Iterable[Item]) -> Iterator[list[Item]]:
    every = iter(items)
    while block := list(islice(every, BLOCK)):
        yield block


def _sorted(block: Iterable[Item]) -> list[str]:
    """The different strings of these items."""
    return sorted({string.text for item in block for string in item.strings.values()})


def _in_order(block: Iterable[Item]) -> list[str]:
    return [string.text for item in block for string in item.strings.values()]


def _expect_end(scores: Iterator[Any]) -> None:
    """Let the scorer finish; it must have no more scores."""
    for _ in scores:
        raise ValueError("more scores than strings")


# --- searches that are as wide as an item needs -----------------------------------------------


@dataclass(frozen=True, slots=True)
class ItemComparison:
    """An item (:class:`pdtools.search.adaptive_beam.Comparison`), decided by its predictions.

    Attributes:
        strings: by name.
        formulas: the predictions, and the score that each compares.
    """

    strings: tuple[tuple[str, String], ...]
    formulas: tuple[tuple[Formula, Score], ...]

    @classmethod
    def of(cls, item: Item, benchmark: Benchmark) -> ItemComparison:
        """Return the comparison of an item of a benchmark."""
        formulas = benchmark.formulas(item.right, item.options)
        scores = benchmark.scores.values()
        return cls(tuple(item.strings.items()), tuple(zip(formulas, scores, strict=True)))

    @property
    def sums(self) -> Literal["totals"]:
        """See :class:`pdtools.search.adaptive_beam.Comparison`."""
        return "totals"

    @property
    def sentences(self) -> tuple[str, ...]:
        """See :class:`pdtools.search.adaptive_beam.Comparison`."""
        return tuple(string.text for _, string in self.strings)

    def decided(self, found: Sequence[MaybeScore], error_bound: float) -> bool:
        """See :class:`pdtools.search.adaptive_beam.Comparison`."""
        strings = dict(self.strings)
        pairs = zip(self.strings, found, strict=True)
        parts = {name: part_of(string, score) for (name, string), score in pairs}
        return all(self._decided(*each, strings, parts, error_bound) for each in self.formulas)

    @staticmethod
    def _decided(
        formula: Formula, score: Score, strings: Mapping[str, String], parts: Parts, error_bound: float
    ) -> bool:
        values = values_of(formula, score, strings, parts)
        if not isinstance(values, dict):
            return True
        known = {name: each for name, each in parts.items() if isinstance(each, Part)}
        if len({known[name].as_read for name in values}) == 1:  # a tie at any beam
            return True
        # A score per token has a smaller error than a sum.
        shortest = min(_length(known[name], strings[name], score) for name in values)
        return formula.truth(lambda _, name: values[name], error_bound / shortest) is not None


def _length(part: Part, string: String, score: Score) -> float:
    """The divisor of a log-probability."""
    return 1 / abs(Part(1.0, part.tokens).value(string.scored, score) or 1.0)


def _compare(items: Items, comparer: Model, progress: Progress, rows: JudgedItems) -> None:
    blocks = (block for block in _blocks(items))
    comparisons = (ItemComparison.of(block[i], items.benchmark) for block in blocks for i in _alike(block))
    found = iter(progress(comparer.compare(comparisons), sum(1 for _ in items)))
    for block in _blocks(items):
        compared = dict(zip(_alike(block), islice(found, len(block)), strict=True))
        in_order = [compared[i] for i in range(len(block))]
        parts = [
            {
                name: part_of(string, score)
                for (name, string), score in zip(item.strings.items(), each.scores, strict=True)
            }
            for item, each in zip(block, in_order, strict=True)
        ]
        rows.add(block, parts, in_order)
        texts = [string.text for item in block for string in item.strings.values()]
        scores = [score for each in in_order for score in each.scores]
        rows.count(dict(zip(texts, scores, strict=True)).values())
    _expect_end(found)


def _alike(block: Sequence[Item]) -> list[int]:
    """Indices that sort items with equal beginnings together."""
    return sorted(range(len(block)), key=lambda i: [each.text for each in block[i].strings.values()])
