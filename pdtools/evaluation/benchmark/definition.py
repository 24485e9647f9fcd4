"""The definition of a benchmark in its TOML file: its strings, and which scores have to be higher."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from functools import lru_cache
from typing import Any

from pdtools.evaluation.benchmark.item_set import Label, Score, Value
from pdtools.evaluation.benchmark.templates import Template
from pdtools.evaluation.sg.formula import Formula

KINDS = ("tsv", "csv", "txt", "jsonl", "json", "parquet", "xlsx")
"""Forms of files, by the end of their names."""
SCORES = ("sum", "per_token", "per_character", "per_byte", "per_word")
"""The divisor of a string's log-probability: one, its tokens, …; ``{slln = 0.5}``: tokens to this power."""
RIGHT, OTHERS = "right", "others"
RIGHT_IS_HIGHEST = f"{RIGHT} > max({OTHERS})"


@dataclass(frozen=True, slots=True)
class Text:
    """A string of an item: the scored part, and its context.

    Attributes:
        text: the scored part.
        context: the conditioning text; None: the whole string is scored.
        blank: the characters between the two; they belong to the text.
    """

    text: Template
    context: Template | None = None
    blank: str = " "


@dataclass(frozen=True, slots=True)
class Options:
    """Strings of which exactly one is right.

    Attributes:
        texts: a template each, or one of a list.
        context: the conditioning text of all; None: none.
        blank: see :class:`Text`.
        right: the index of the right one; or a template of that index, from 0, or of the right text; with
            ``labels``, of one of these.
        labels: names of the options, in order: a template each, or one of a list.
        missing: whether a row may lack options, which are then left out.
    """

    texts: tuple[Template, ...]
    right: int | Template
    context: Template | None = None
    blank: str = " "
    labels: tuple[Template, ...] = ()
    missing: bool = False


@dataclass(frozen=True, slots=True)
class Rows:
    """Rows that make one item.

    Attributes:
        roles: names of the rows, and the value of ``role`` for each.
        every: number of consecutive rows; None: rows with the same ``by``.
        by: a value that the rows of an item share.
        role: a row's role, one of ``roles``' values; None: by its place, in the order of ``roles``.
    """

    roles: Mapping[str, str]
    every: int | None = None
    by: Template | None = None
    role: Template | None = None


@dataclass(frozen=True, kw_only=True)
class Benchmark:
    """A benchmark: its items, their formulas, and its scores.

    Attributes:
        name: the file's name, without its ending.
        about: title, right (the meaning of a right answer), cite, url, licence, get (how to get the files).
        files: patterns of their names, in a folder or zip.
        path: a regular expression of files' paths, as RE2 reads it, whose groups are columns; None: none.
        form: the files' form: kind, delimiter, quote, header, and skip: number of lines to skip at the
            beginning.
        reader: for files that are no tables; None: none.
        rows: the rows that make an item; None: each row does.
        strings: by name.
        options: strings one of which is right; None: there are none.
        predictions: formulas over the strings' names (and right, others); the first counts.
        scores: the score that each prediction compares.
        levels: templates of an item's groups, the finest last.
        flags: by name, columns that each tell whether an item is in the group of the column's name:
            it may be in several, or none.
        chance: the share of right items by guessing, by prediction.
        label: acceptability, instead of predictions; None: there is none.
        value: numbers, instead of predictions; None: there are none.
        published: published numbers, with their source.
        suites: whether the files are SyntaxGym's, which define all else (:mod:`pdtools.evaluation.sg`).
        digest: SHA-256 of everything that results depend on.
    """

    name: str
    about: Mapping[str, str]
    files: tuple[str, ...] = ()
    path: str | None = None
    form: Mapping[str, Any] = field(default_factory=dict)
    reader: str | None = None
    rows: Rows | None = None
    strings: Mapping[str, Text] = field(default_factory=dict)
    options: Options | None = None
    predictions: Mapping[str, str] = field(default_factory=dict)
    scores: Mapping[str, Score] = field(default_factory=dict)
    levels: Mapping[str, Template] = field(default_factory=dict)
    flags: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    chance: Mapping[str, float] = field(default_factory=dict)
    label: Label | None = None
    value: Value | None = None
    published: Mapping[str, Any] = field(default_factory=dict)
    suites: bool = False
    digest: str = ""

    @property
    def title(self) -> str:
        """The title, or else the name."""
        return self.about.get("title", self.name)

    @property
    def names_levels(self) -> bool:
        """Return whether the benchmark defines groups of items; otherwise the items of a file are a group."""
        return {*self.levels} != {"file"} or self.levels["file"].text != "{file}"

    @property
    def task(self) -> str:
        """The name of this evaluation in results."""
        return "benchmark-" + re.sub(r"[^\w.-]+", "-", self.name)

    def formulas(self, right: int | None = None, options: int = 0) -> dict[str, Formula]:
        """The predictions for items with this number of options, of which ``right``, from 0, is right."""
        strings, number = tuple(self.strings), self.label is not None or self.value is not None
        return {
            name: formula_of(of, strings, right, options, number=number)
            for name, of in self.predictions.items()
        }


def option_name(number: int) -> str:
    """The name of an option, from 0."""
    return f"option_{number + 1}"


@lru_cache(maxsize=256)
def formula_of(
    text: str, strings: tuple[str, ...], right: int | None, options: int, *, number: bool = False
) -> Formula:
    """Parse a prediction, or a number, about strings and options, of which ``right``, from 0, is right."""
    names, written = [option_name(i) for i in range(options)], text
    if right is not None:
        others = ", ".join(name for i, name in enumerate(names) if i != right)
        text = re.sub(rf"\b{OTHERS}\b", others, re.sub(rf"\b{RIGHT}\b", names[right], text))
    return replace(Formula.parse(text, (*strings, *names), number=number), text=written)
