"""A benchmark as its TOML file says it: where its strings are, and which of their scores has to be higher."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any

from pdtools.evaluation.benchmark.templates import Template
from pdtools.evaluation.sg.formula import Formula

KINDS = ("tsv", "csv", "txt", "jsonl", "json", "parquet", "xlsx")
"""Forms of files, by the end of their names."""
SCORES = ("sum", "per_token", "per_character", "per_byte", "per_word", "slln")
"""The divisor of a string's log-probability: one, its tokens, …; slln: tokens to a power."""
RIGHT, OTHERS = "right", "others"
RIGHT_IS_HIGHEST = f"{RIGHT} > max({OTHERS})"
# What items.parquet puts before a string's name in the columns about it.
OF_STRINGS = ("start_", "logprob_", "tokens_", "dropped_", "surprisals_")


@dataclass(frozen=True, slots=True)
class Text:
    """A string of an item: what is scored, and what stands before it.

    Attributes:
        text: the scored part.
        context: what it is conditioned on; None: the whole string is scored.
        blank: what is between the two; it belongs to the text.
    """

    text: Template
    context: Template | None = None
    blank: str = " "


@dataclass(frozen=True, slots=True)
class Options:
    """Strings one of which is right.

    Attributes:
        texts: a template each, or one of a list.
        context: what all of them are conditioned on; None: nothing.
        blank: as of :class:`Text`.
        right: which one is, from 0; or a template of that number, of one of ``labels``, or of the right text.
        labels: names of the options, in their order.
    """

    texts: tuple[Template, ...]
    right: int | Template
    context: Template | None = None
    blank: str = " "
    labels: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Rows:
    """Rows that make one item.

    Attributes:
        every: so many after each other; None: those with the same ``by``.
        by: what the rows of an item share.
        role: what a row is, by one of ``roles``' values; None: its place, in the order of ``roles``.
        roles: names of the rows, and what ``role`` says of each.
    """

    every: int | None
    by: Template | None
    role: Template | None
    roles: Mapping[str, str]


@dataclass(frozen=True, slots=True)
class Label:
    """Whether an item's string is acceptable, which a threshold of its score has to say.

    Attributes:
        value: what the data say.
        good, bad: the two values of it.
        threshold: of the score; None: the best one (Matthews' correlation) for the items of ``source``.
        source: a pattern of files that the threshold is chosen on, and that are not scored otherwise.
    """

    value: Template
    good: str
    bad: str
    threshold: float | None
    source: str | None


@dataclass(frozen=True, slots=True)
class Value:
    """A number of each item, with which scores are correlated.

    Attributes:
        value: what the data say.
        against: a formula of scores.
        correlation: spearman or pearson.
    """

    value: Template
    against: str
    correlation: str


@dataclass(frozen=True, slots=True)
class Score:
    """A score of strings that predictions compare: one of ``SCORES``; ``alpha`` is the power of slln."""

    kind: str = "sum"
    alpha: float = 1.0

    @property
    def described(self) -> str:
        """The score in words."""
        if self.kind == "sum":
            return "log-probability"
        if self.kind == "slln":
            return f"log-probability over tokens to the power of {self.alpha:g}"
        return f"log-probability {self.kind.replace('_', ' ')}"


@dataclass(frozen=True, kw_only=True)
class Benchmark:
    """A benchmark.

    Attributes:
        name: of the file, without its ending.
        about: title, right (what a right answer is), cite, url, licence, get (where its files are to be had).
        files: patterns of their names, in a folder or zip.
        path: a regular expression of files' paths whose groups are columns; None: none.
        form: of the files: kind, delimiter, quote, header, and skip: lines that are passed over first.
        reader: of files that are no tables; None: none.
        rows: those that make an item; None: each row does.
        strings: by name.
        options: strings one of which is right; None: there are none.
        predictions: formulas over the strings' names (and right, others); the first counts.
        scores: what each prediction compares.
        levels: templates of the groups that an item is in, the finest last.
        flags: by name columns that each say whether an item is in the group of the column's name, or not:
            it may be in several, or none.
        chance: the share of right items by guessing, by prediction.
        label: acceptability, instead of predictions; None: there is none.
        value: numbers, instead of predictions; None: there are none.
        published: numbers of others, with their source.
        suites: whether the files are SyntaxGym's, which hold all else (:mod:`pdtools.evaluation.sg`).
        digest: SHA-256 of all that results depend on.
    """

    name: str
    about: Mapping[str, str]
    files: tuple[str, ...]
    path: re.Pattern[str] | None
    form: Mapping[str, Any]
    reader: str | None
    rows: Rows | None
    strings: Mapping[str, Text]
    options: Options | None
    predictions: Mapping[str, str]
    scores: Mapping[str, Score]
    levels: Mapping[str, Template]
    chance: Mapping[str, float]
    flags: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    label: Label | None = None
    value: Value | None = None
    published: Mapping[str, Any] = field(default_factory=dict)
    suites: bool = False
    digest: str = ""

    @property
    def title(self) -> str:
        """A heading."""
        return self.about.get("title", self.name)

    @property
    def names_levels(self) -> bool:
        """Whether it says what groups its items are in; otherwise those of a file are one."""
        return {*self.levels} != {"file"} or self.levels["file"].text != "{file}"

    @property
    def task(self) -> str:
        """The name that results have for it."""
        return "benchmark-" + re.sub(r"[^\w.-]+", "-", self.name)

    def guessing(self, prediction: str) -> str | None:
        """What guessing comes to, in words; None: not known."""
        if prediction in self.chance:
            return f"chance {100 * self.chance[prediction]:g}%"
        if self.options is not None and self.predictions[prediction] == RIGHT_IS_HIGHEST:
            return "chance one in as many as there are options"
        return None

    def formulas(self, right: int | None = None, options: int = 0) -> list[Formula]:
        """The predictions, of items with so many options of which this one, from 0, is right."""
        return [formula_of(text, tuple(self.strings), right, options) for text in self.predictions.values()]


def option_name(number: int) -> str:
    """The name of an option, from 0."""
    return f"option_{number + 1}"


@lru_cache(maxsize=256)
def formula_of(text: str, strings: tuple[str, ...], right: int | None, options: int) -> Formula:
    """A prediction about strings and so many options, of which this one, from 0, is right."""
    names = [option_name(i) for i in range(options)]
    if right is not None:
        others = ", ".join(name for i, name in enumerate(names) if i != right)
        text = re.sub(rf"\b{OTHERS}\b", others, re.sub(rf"\b{RIGHT}\b", names[right], text))
    return Formula.parse(text, (*strings, *names))
