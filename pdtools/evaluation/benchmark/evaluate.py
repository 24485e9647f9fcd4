"""Evaluation of items: score their different strings once, and test each prediction about the scores."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import chain, islice
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from pdtools.errors import InputError
from pdtools.evaluation.benchmark.item_set import Item, ItemSet, Score, String
from pdtools.evaluation.benchmark.outcomes import JudgedItems, Part, Parts, part_of, values_of
from pdtools.evaluation.results import Progress, Results, no_progress
from pdtools.evaluation.sg.formula import Formula
from pdtools.files import read_table
from pdtools.files.tables import by_column
from pdtools.search.options import AUTO

if TYPE_CHECKING:
    from pdtools.search.adaptive_beam import MaybeScore
    from pdtools.search.model import Model
    from pdtools.search.scores import Asked

BLOCK = 4096
"""Number of items whose strings are sorted together, and whose scores are in memory at the same time."""


def evaluate_items(items: ItemSet, model: Model, progress: Progress = no_progress) -> Results:
    """Score items with a model, and judge the predictions about them.

    Items are scored in blocks, each different string once and in lexicographic order, so that strings with
    equal beginnings reach a model together. Only rows of the tables stay in memory. Recorded surprisals
    (:class:`pdtools.evaluation.external.recorded.RecordedSurprisals`) are asked for the strings as the items
    have them, repeated ones again.

    Args:
        items: read three times.
        model: is handed the strings as they are. With ``--beam auto`` it scores each item by
            itself, as far as its outcomes need it.
        progress: wraps the iterator over scores of strings; with ``--beam auto`` over items.

    Returns:
        Scores (:func:`pdtools.evaluation.benchmark.outcomes.scores_of`), an ``items`` table with a row for
        each prediction of each item, and a ``strings`` table with a row for each scored part of each string
        (:class:`pdtools.evaluation.benchmark.outcomes.JudgedItems`).
    """
    items = items.written(model.settings.get("text_style"))
    rows = judged_items(items)
    if model.settings.get("beam") == AUTO:
        if rows.more:
            raise items.refused("--beam auto needs predictions, and it has none: give a number")
        _compare(items, model, progress, rows)
        return rows.results(model.settings)
    in_order = model.settings["kind"] == "surprisals"
    strings_of = _in_order if in_order else _sorted
    total = sum(len(strings_of(block)) for block in _blocks(items))
    strings = (string for block in _blocks(items) for string in strings_of(block))
    scores = iter(progress(model.score(strings), total))
    for block in _blocks(items):
        asked = strings_of(block)
        found = list(islice(scores, len(asked)))
        by_string, of_items = dict(zip(asked, found, strict=True)), iter(found)
        parts = [
            {
                role: part_of(string, next(of_items) if in_order else by_string[string.asked])
                for role, string in item.strings.items()
            }
            for item in block
        ]
        rows.add(block, parts)
        rows.count(by_string.values())
    _expect_end(scores)
    return rows.results(model.settings)


def evaluate_published(items: ItemSet, source: str | Path) -> Results:
    """Judge items by published scores, one for each string.

    Predictions about numbers of tokens are excluded.

    Args:
        source: a table (:func:`pdtools.files.read_table`) with the columns ``item`` (its number, from 1),
            ``string`` (its name), and ``score`` or ``surprisal``, of which the lower is better.

    Raises:
        InputError: for a table that lacks a column or a string's score, has a string twice, or a score that
            is no number.
    """
    rows = judged_items(items, tokens=False)
    column, given = _published_scores(source)
    used: set[tuple[int, str]] = set()

    def part(item: Item, name: str) -> Part:
        key = int(item.name), name
        if key not in given:
            hint = "--write-sentences writes all items and strings"
            raise InputError(f"no score of {name} of item {item.name}", file=source, hint=hint)
        used.add(key)
        return Part(given[key], None)

    for block in _blocks(items):
        rows.add(block, [{name: part(item, name) for name in item.strings} for item in block])
    results = rows.results({"kind": "scores", "column": column})
    if unused := len(given) - len(used):
        notes = [*items.notes, f"{unused} scores are of no string of these items"]
        results = replace(results, settings={**results.settings, "notes": notes})
    return results


def _published_scores(source: str | Path) -> tuple[str, dict[tuple[int, str], float]]:
    """The column of scores, and these by item and string, the higher the better."""
    found: dict[tuple[int, str], float] = {}
    lines = read_table(source)
    header = next(lines, (1, [""]))
    columns = [name for name in ("score", "surprisal") if name in header[1]]
    if len(columns) != 1:
        raise InputError("one column has to be called score, or surprisal", file=source, line=header[0])
    column = columns[0]
    wanted, sign = ("item", "string", column), -1.0 if column == "surprisal" else 1.0
    for number, row in by_column(chain([header], lines), source, wanted):
        item, string, text = (row[name].strip() for name in wanted)
        try:
            key, score = (int(item), string), float(text)
        except ValueError:
            score = math.nan
        if not math.isfinite(score):
            reason = f"item {item[:40]!r} with the score {text[:40]!r}: two numbers are needed"
            raise InputError(reason, file=source, line=number)
        if key in found:
            raise InputError(f"a second score of {string} of item {item}", file=source, line=number)
        found[key] = sign * score
    return column, found


def judged_items(items: ItemSet, *, tokens: bool = True) -> JudgedItems:
    """The empty tables of items, by their kind, see :class:`JudgedItems`."""
    if items.label is None and items.value is None:
        return JudgedItems(items, tokens=tokens)
    from pdtools.evaluation.benchmark.graded import JudgedLabels, JudgedValues  # numpy takes its time

    return (JudgedValues if items.label is None else JudgedLabels)(items, tokens=tokens)


def _blocks(items: Iterable[Item]) -> Iterator[list[Item]]:
    every = iter(items)
    while block := list(islice(every, BLOCK)):
        yield block


def _sorted(block: Iterable[Item]) -> list[Any]:
    """The different strings of these items."""
    different = {string.asked: string.text for item in block for string in item.strings.values()}
    return sorted(different, key=different.__getitem__)


def _in_order(block: Iterable[Item]) -> list[Any]:
    return [string.asked for item in block for string in item.strings.values()]


def _expect_end(scores: Iterator[Any]) -> None:
    """Let the model finish; it must have no more scores."""
    for _ in scores:
        raise ValueError("more scores than strings")


# --- searches that are as wide as an item needs -----------------------------------------------


@dataclass(frozen=True, slots=True)
class ItemComparison:
    """An item (:class:`pdtools.search.adaptive_beam.Comparison`), decided by its predictions.

    Attributes:
        strings: by role, as far as predictions need them.
        formulas: the predictions, and the score that each compares.
    """

    strings: tuple[tuple[str, String], ...]
    formulas: tuple[tuple[Formula, Score], ...]

    @classmethod
    def of(cls, item: Item, items: ItemSet) -> ItemComparison:
        """Return the comparison of an item."""
        formulas = ((formula, items.score(name)) for name, formula in item.formulas.items())
        return cls(tuple(item.needed.items()), tuple(formulas))

    @property
    def sums(self) -> Literal["regions", "totals"]:
        """See :class:`pdtools.search.adaptive_beam.Comparison`."""
        return "regions" if any(string.regions for _, string in self.strings) else "totals"

    @property
    def sentences(self) -> tuple[Asked, ...]:
        """See :class:`pdtools.search.adaptive_beam.Comparison`."""
        return tuple(string.asked for _, string in self.strings)

    def parts(self, found: Sequence[MaybeScore]) -> Parts:
        """The scores of the strings' scored parts, from the scores of the strings."""
        pairs = zip(self.strings, found, strict=True)
        return {role: part_of(string, score) for (role, string), score in pairs}

    def decided(self, found: Sequence[MaybeScore], error_bound: float) -> bool:
        """See :class:`pdtools.search.adaptive_beam.Comparison`."""
        strings, parts = dict(self.strings), self.parts(found)
        return all(self._decided(*each, strings, parts, error_bound) for each in self.formulas)

    @staticmethod
    def _decided(
        formula: Formula, score: Score, strings: Mapping[str, String], parts: Parts, error_bound: float
    ) -> bool:
        values = values_of(formula, score, strings, parts)
        if not isinstance(values, dict):
            return True
        known = {name: part for name, part in parts.items() if isinstance(part, Part)}
        read = {known[name].as_read for _, name in values}
        if len(read) == 1 and None not in read:  # a tie at any beam
            return True
        # A score per token has a smaller error than a sum.
        shortest = min((_length(known[name], strings[name], score) for _, name in values), default=1.0)
        bound = error_bound / math.log(2) / score.bits / shortest
        return formula.truth(lambda *place: values[place], bound) is not None


def _length(part: Part, string: String, score: Score) -> float:
    """The divisor of a log-probability."""
    if score.kind == "surprisal":
        return 1.0
    return 1 / abs(Part(1.0, part.tokens).value(string.scored, score) or 1.0)


def _compare(items: ItemSet, comparer: Model, progress: Progress, rows: JudgedItems) -> None:
    blocks = (block for block in _blocks(items))
    comparisons = (ItemComparison.of(block[i], items) for block in blocks for i in _alike(block))
    found = iter(progress(comparer.compare(comparisons), sum(1 for _ in items)))
    for block in _blocks(items):
        compared = dict(zip(_alike(block), islice(found, len(block)), strict=True))
        in_order = [compared[i] for i in range(len(block))]
        of_items = [ItemComparison.of(item, items) for item in block]
        rows.add(
            block, [of.parts(each.scores) for of, each in zip(of_items, in_order, strict=True)], in_order
        )
        asked = [sentence for of in of_items for sentence in of.sentences]
        scores = [score for each in in_order for score in each.scores]
        rows.count(dict(zip(asked, scores, strict=True)).values())
    _expect_end(found)


def _alike(block: Sequence[Item]) -> list[int]:
    """Indices that sort items with equal beginnings together."""
    return sorted(range(len(block)), key=lambda i: [each.text for each in block[i].strings.values()])
