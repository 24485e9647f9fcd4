"""Items of an evaluation: strings with their scored parts, predictions about these, and groups.

Readers make them of pairs, of test suites, and of the files that a TOML file describes.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from pdtools.errors import InputError
from pdtools.evaluation.sg.formula import Formula
from pdtools.search.scores import Beginning

if TYPE_CHECKING:
    from pdtools.evaluation.benchmark.templates import Template
    from pdtools.evaluation.record import Evaluation
    from pdtools.tokenization import Sentence

_NONE = "none"  # the name of a finest group without a name in the data


@dataclass(frozen=True, slots=True)
class Score:
    """A score of strings that predictions compare: sum, per_token, …; ``alpha`` is the power of slln.

    ``surprisal`` is that of regions, in bits; all others are in nats.
    """

    kind: str = "sum"
    alpha: float = 1.0

    @property
    def bits(self) -> float:
        """Bits in the unit of this score."""
        return 1.0 if self.kind == "surprisal" else 1 / math.log(2)


SURPRISAL = Score("surprisal")


@dataclass(frozen=True, slots=True)
class Label:
    """Acceptability labels of items' strings, to be predicted by a threshold of the score.

    Attributes:
        value: the label in the data.
        good, bad: its two values.
        threshold: on the score; None: the best one (Matthews' correlation) for the items of ``source``.
        source: a pattern of files that the threshold is chosen on, which are not scored otherwise.
    """

    value: Template
    good: str = "1"
    bad: str = "0"
    threshold: float | None = None
    source: str | None = None


@dataclass(frozen=True, slots=True)
class Value:
    """A number for each item, with which scores are correlated.

    Attributes:
        column: the number in the data.
        against: a formula of scores.
        correlation: spearman or pearson.
    """

    column: Template
    against: str
    correlation: str = "spearman"


@dataclass(frozen=True, slots=True)
class NamedSpan:
    """A region of a string.

    Attributes:
        number: the number by which formulas name it.
        start, end: its characters in the string as it is scored; an empty region is empty there too.
        text: its text in the data.
        name: its name; None: it has none.
    """

    number: int
    start: int
    end: int
    text: str
    name: str | None = None


@dataclass(frozen=True, slots=True)
class String:
    """A string of an item.

    Attributes:
        text: the whole string, as it is scored.
        start: the end of its context, in characters; None: all of it is scored, and its end.
        regions: its regions, each scored by itself; empty: it has none.
        words: the string with its words, if these are known.
        needed: number of regions, from the first, that are needed; None: all, and the end.
    """

    text: str
    start: int | None = None
    regions: tuple[NamedSpan, ...] = ()
    words: Sentence | None = None
    needed: int | None = None

    @property
    def spans(self) -> tuple[tuple[int, int], ...]:
        """Start and end of each region."""
        return tuple((region.start, region.end) for region in self.regions)

    @property
    def scored(self) -> str:
        """The scored part."""
        return self.text if self.start is None else self.text[self.start :].lstrip()

    @property
    def asked(self) -> str | Sentence | Beginning:
        """The string, or its beginning, as a model is given it."""
        given = self.text if self.words is None else self.words
        if self.needed is None:
            return given
        rest = (region.start for region in self.regions[self.needed :] if region.end > region.start)
        return Beginning(given, next(rest, len(self.text)))


@dataclass(frozen=True, slots=True)
class Item:
    """An item: its strings, the predictions about them, and its groups.

    Attributes:
        name: its name, different from those of other items of its finest group.
        strings: by their roles: good, bad, a condition, ``option_1``, …
        formulas: the predictions, by name; the first counts.
        levels: its groups, the finest last; None: not named in the data.
        flags: its further groups, for each of the set's ``flags``.
        label: whether it is acceptable; None: not in the data.
        value: a number given by people; None: not in the data.
        trains: whether a threshold is chosen on it.
    """

    name: str
    strings: Mapping[str, String]
    formulas: Mapping[str, Formula]
    levels: tuple[str | None, ...]
    flags: tuple[tuple[str, ...], ...] = ()
    label: bool | None = None
    value: float | None = None
    trains: bool = False

    @property
    def needed(self) -> dict[str, String]:
        """The strings, of which no region after the last one in a formula is scored."""
        asked = [region for formula in self.formulas.values() for region in formula.regions]
        found = {}
        for name, string in self.strings.items():
            numbers = {number for number, role in asked if role == name}
            places = (
                place
                for place, region in enumerate(string.regions, start=1)
                if numbers & {None, region.number}
            )
            found[name] = replace(string, needed=max(places, default=0)) if string.regions else string
        return found


class ItemSet:
    """Items that can be iterated over several times, and what they have in common.

    Attributes:
        task: the name of the evaluation in results.
        title: its name in tables.
        names: the levels of items, the finest last.
        flags: names of further groups.
        predictions: the predictions' formulas, by name, if all items have the same.
        scores: the scores that these compare; other predictions compare surprisals.
        outside: finest groups that the overall score and coarser groups exclude.
        settings: further settings of the results.
        limit: only the first ``limit`` items of each finest group; None: all.
        nested: whether a finest group belongs to one group of each level, so that its name is unique.
        crossing: levels whose groups lie across another level's: their scores are over items, not groups.
        counts: further counts of the results.
        notes: doubts about the items, a line each.
        label, value: a definition of labels or numbers, if items have these instead of predictions.
        record: the evaluation's record; None: the one that ``task`` names.
    """

    task: str
    title: str
    names: tuple[str, ...]
    flags: tuple[str, ...] = ()
    predictions: Mapping[str, str] = {}
    scores: Mapping[str, Score] = {}
    outside: frozenset[str] = frozenset()
    settings: Mapping[str, Any] = {}
    limit: int | None = None
    nested: bool = True
    crossing: tuple[str, ...] = ()
    counts: Mapping[str, Any] = {}
    notes: Sequence[str] = ()
    label: Label | None = None
    value: Value | None = None
    record: Evaluation | None = None

    def __iter__(self) -> Iterator[Item]:
        """The items, in order."""
        raise NotImplementedError

    def written(self, text_style: str | None) -> ItemSet:
        """The items as a model reads them: ``ptb``, ``raw``, or None for one that reads texts as they are."""
        return self

    def score(self, prediction: str) -> Score:
        """The score that a prediction compares."""
        return self.scores.get(prediction, SURPRISAL)

    @property
    def levels(self) -> tuple[str, ...]:
        """Columns of the groups above the finest."""
        return self.names[:-1] if self.nested else self.names

    @property
    def unit(self) -> str:
        """The column of the finest groups: the last level, or ``group`` for all levels together."""
        return self.names[-1] if self.nested else "group"

    def named(self, levels: Sequence[str | None]) -> str:
        """The name of a finest group."""
        return " / ".join(
            _NONE if each is None else each for each in (levels[-1:] if self.nested else levels)
        )

    def further_scores(self, scores: Mapping[str, Any], tallies: Mapping[str, Any]) -> Mapping[str, Any]:
        """Further scores, from those of all evaluations of items (``scores_of``) and their counts."""
        return {}

    def refused(self, reason: str) -> InputError:
        """An error with the reason why the items cannot be evaluated."""
        return InputError(reason, file=self.title)
