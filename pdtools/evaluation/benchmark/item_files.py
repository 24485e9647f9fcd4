"""The items of a benchmark, read from its files as often as they are needed."""

from __future__ import annotations

import contextlib
import math
import re
from collections import Counter
from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import replace
from itertools import islice
from pathlib import Path, PurePosixPath
from typing import Any, NoReturn

from pdtools.errors import InputError, PdtoolsError
from pdtools.evaluation.benchmark.definition import Benchmark, Options, option_name
from pdtools.evaluation.benchmark.from_toml import BENCHMARKS, read_benchmark
from pdtools.evaluation.benchmark.item_set import Item, ItemSet, Label, String, Value
from pdtools.evaluation.benchmark.rows import DataFile, Row, data_files, items_of, write
from pdtools.evaluation.benchmark.templates import Cells, NoColumnError, Template
from pdtools.evaluation.record import SCORE, Document, Evaluation, MainScores, Outcomes
from pdtools.files import is_stream
from pdtools.files.tables import cell_text

_YES, _NO = ("true", "t", "yes", "y", "1", "1.0"), ("false", "f", "no", "n", "0", "0.0", "")
_CORRELATIONS = {"spearman": "Spearman's ρ", "pearson": "Pearson's r"}
_INDEX = re.compile(r"([0-9]{1,9})(\.0+)?")


class Items(ItemSet):
    """The items of a benchmark in a file, a folder or a zip archive.

    The files are read once to check them, and again at each iteration.

    Args:
        source: the files' path.
        benchmark: their definition.
        limit: only the first ``limit`` items of each finest group; None: all.

    Attributes:
        benchmark: their definition.
        by_file: for each file, by its path, the number of its items, of those whose strings are all the same
            (``identical``), and of those that repeat earlier ones (``repeated``).

    Raises:
        InputError: for a missing source, one without items, or a row that makes no item.
    """

    def __init__(self, source: str | Path, benchmark: Benchmark, limit: int | None = None) -> None:
        self.benchmark, self.limit = benchmark, limit
        self.task, self.title = benchmark.task, benchmark.title
        self.names, self.flags = tuple(benchmark.levels), tuple(benchmark.flags)
        self.predictions, self.scores = benchmark.predictions, benchmark.scores
        self.settings = {"benchmark": benchmark.title, "definition_sha256": benchmark.digest}
        self.label, self.value = benchmark.label, benchmark.value
        found = data_files(source, benchmark)
        self._files = sorted(found, key=lambda file: not _trains(file.name, benchmark))  # training first
        if (
            benchmark.label is not None
            and benchmark.label.source
            and not _trains(self._files[0].name, benchmark)
        ):
            reason = f"no files to choose a threshold on ({benchmark.label.source})"
            raise InputError(reason, file=source)
        self._kept: list[Item] | None = [] if is_stream(source) else None  # a stream cannot be read again
        self.by_file: dict[str, dict[str, int]] = {}
        self.notes: list[str] = []
        if benchmark.files and not is_stream(source) and not any(map(found[0].is_called, benchmark.files)):
            wanted = ", ".join(benchmark.files)
            self.notes.append(f"{source}: read all the same: files of {self.title} are called {wanted}")
        groups, chance = self._go_through(source)
        self.nested = len({group[-1] for group in groups}) == len(groups)
        names: dict[str, Sequence[str | None]] = {}
        for group in groups:
            if names.setdefault(name := self.named(group), group) != group:
                reason = f"two groups are called {name}: {names[name]} and {group} (levels, None: not named)"
                raise InputError(reason, file=source)
        self.crossing = () if self.nested else _crossing([*benchmark.levels], groups)
        if self.crossing:
            named = " and ".join(self.crossing)
            self.notes.append(
                f"the levels {named} cross: their scores are over items, and overall is the mean of the"
                f" {len(groups)} combinations ({' / '.join(benchmark.levels)})"
            )
        self.counts = {
            **{name: sum(of[name] for of in self.by_file.values()) for name in ("identical", "repeated")},
            "files": self.by_file,
        }
        self.record = _record(self, benchmark.chance.get(next(iter(benchmark.predictions)), chance))

    def _go_through(self, source: str | Path) -> tuple[Collection[tuple[str | None, ...]], float | None]:
        """Count the items, and return their finest groups, and the share of right options by guessing."""
        benchmark, doubtful = self.benchmark, Counter[str]()
        groups: dict[tuple[str | None, ...], str] = {}  # each with its first file
        there: set[int] = set()
        options, chance, total = 0, 0.0, 0
        for file, item in self._within_limit(self._read(self.notes, doubtful)):
            total += 1
            strings = [*item.strings.values()]
            if file not in self.by_file:
                there.clear()
            counts = self.by_file.setdefault(file, {"items": 0, "identical": 0, "repeated": 0})
            counts["items"] += 1
            counts["identical"] += len({*strings}) == 1 < len(strings)
            mark = hash(tuple(strings))
            counts["repeated"] += mark in there
            there.add(mark)
            if not item.trains:
                first = groups.setdefault(item.levels, file)
                if first != file and not benchmark.names_levels:
                    hint = "name one of them, or levels that tell them apart, such as {dir}"
                    raise InputError(f"two files of one name: {first} and {file}", file=source, hint=hint)
            if (several := len(strings) - len(benchmark.strings)) > 0:
                options = max(options, several)
                chance += 1 / several
            if self._kept is not None:
                self._kept.append(item)
        if not groups:
            raise InputError(f"no items of {benchmark.title} in it", file=source)
        if benchmark.options is None:
            return groups, None
        if options < (written := len(benchmark.options.texts)):
            self.notes.append(f"no item has all {written} options: is a column of options.texts misspelt?")
        if doubtful["options"]:
            self.notes.append(
                f"{doubtful['options']} items: the right option's index (from 0) is also another option's"
                " text; if the text is meant, options.labels has to be what options.texts is"
            )
        return groups, chance / total

    def refused(self, reason: str) -> InputError:
        """An error with the reason why the benchmark cannot be evaluated."""
        return InputError(reason, file=self._files[0].name)

    def __iter__(self) -> Iterator[Item]:
        """The items, in the order of file names and rows."""
        return iter(self._kept or (item for _, item in self._within_limit(self._read())))

    def _within_limit(self, items: Iterator[tuple[str, Item]]) -> Iterator[tuple[str, Item]]:
        """The first ``limit`` items of each group, after all that a threshold is chosen on."""
        taken: Counter[tuple[str | None, ...]] = Counter()
        for file, item in items:
            taken[item.levels] += not item.trains
            if self.limit is None or taken[item.levels] <= self.limit:
                yield file, item

    def _read(
        self, notes: list[str] | None = None, doubtful: Counter[str] | None = None
    ) -> Iterator[tuple[str, Item]]:
        """Every item with its file; doubts about files and items are added to the arguments."""
        rows = (row for file in self._files for row in items_of(file, self.benchmark, notes))
        for number, row in enumerate(rows, start=1):
            yield row.file, _item(row, number, self.benchmark, doubtful)


def _record(items: Items, chance: float | None) -> Evaluation:
    """The record of a benchmark whose items are right or wrong, or have a label, or a number.

    Args:
        chance: the share of right items by guessing; None: not known.
    """
    title = items.title
    return Evaluation(
        name=items.task,
        title=title,
        in_text=title,
        printer="pdtools.report.evaluations:print_benchmark",
        read={"scores.overall": SCORE, "scores.margin_bits.overall": SCORE},
        may_be_missing="scores.",
        outcomes=None
        if items.value is not None
        else Outcomes(
            score=f"{title}, accuracy (%)",
            counted="items",
            key=(items.unit, "item", "prediction"),
            content=("formula",),
            unit=items.unit,
            levels=items.levels,
            over_items=items.crossing,
            chance=chance,
            margin=None if items.label or items.value else f"{title}, margin (bits)",
        ),
        scores=None if items.label is None and items.value is None else _main_scores(items),
    )


def _main_scores(items: Items) -> Callable[[Document], MainScores]:
    """Main scores besides shares of items: Matthews' correlation for labels, a correlation for numbers."""
    title, value = items.title, items.value
    if value is not None:
        names = {"overall": f"{title}, {_CORRELATIONS[value.correlation]} (%)"}
    else:
        names = {"overall": f"{title}, accuracy (%)", "mcc": f"{title}, MCC (%)", "auc": f"{title}, AUC (%)"}

    def scores(document: Document) -> MainScores:
        over = (f"{document['counts']['items_scored']} items",)
        found = {label: document["scores"].get(name) for name, label in names.items()}
        return {label: (None if score is None else 100 * score, over) for label, score in found.items()}

    return scores


def _crossing(names: Sequence[str], groups: Collection[tuple[str | None, ...]]) -> tuple[str, ...]:
    """The levels that lie across another: in both, some group is in several of the other's."""
    every = range(len(names))
    within = {(i, j): all(len(above) == 1 for above in _above(groups, i, j)) for i in every for j in every}
    return tuple(names[i] for i in every if any(not within[i, j] and not within[j, i] for j in every))


def _above(groups: Collection[tuple[str | None, ...]], level: int, of: int) -> Collection[set[str | None]]:
    """For each group of one level, the groups of another that it is in."""
    found: dict[str, set[str | None]] = {}
    for group in groups:
        if (name := group[of]) is not None:
            found.setdefault(name, set()).add(group[level])
    return found.values()


def known_by_files(source: str | Path) -> list[str]:
    """The bundled benchmarks whose files are in a folder or zip archive, or whose file this is.

    Benchmarks whose files may have any name (``*.jsonl``) are never recognized. A file has to be named like
    one of the benchmark's, and to begin with an item of it.
    """
    found = []
    for name in BENCHMARKS.names:
        benchmark = read_benchmark(name)
        patterns = tuple(each for each in benchmark.files if not each.startswith("*."))
        with contextlib.suppress(InputError):
            files = data_files(source, replace(benchmark, files=patterns)) if patterns else []
            named = [file for file in files if any(map(file.is_called, patterns))]
            if named and _begins_with_an_item(named[0], benchmark):
                found.append(name)
    return found


def _begins_with_an_item(file: DataFile, benchmark: Benchmark) -> bool:
    with contextlib.suppress(InputError):
        return any(_item(row, 1, benchmark) for row in islice(items_of(file, benchmark), 1))
    return False


def _item(row: Row, number: int, benchmark: Benchmark, doubtful: Counter[str] | None = None) -> Item:
    strings = {
        name: _string(write(of.text, row), None if of.context is None else write(of.context, row), of.blank)
        for name, of in benchmark.strings.items()
    }
    texts: list[str] = []
    right = None
    if (options := benchmark.options) is not None:
        texts, right, is_doubtful = _options(row, options)
        if doubtful is not None:
            doubtful["options"] += is_doubtful
        context = None if options.context is None else write(options.context, row)
        strings |= {option_name(i): _string(text, context, options.blank) for i, text in enumerate(texts)}
    return Item(
        name=str(number),
        strings=strings,
        formulas=benchmark.formulas(right, len(texts)),
        levels=tuple(write(level, row) or None for level in benchmark.levels.values()),
        flags=tuple(_flags(row, columns) for columns in benchmark.flags.values()),
        label=None if benchmark.label is None else _label(row, benchmark.label),
        value=None if benchmark.value is None else _value(row, benchmark.value),
        trains=_trains(row.file, benchmark),
    )


def _flags(row: Row, columns: Sequence[str]) -> tuple[str, ...]:
    found = []
    for column in columns:
        if column not in row.cells:
            raise InputError(str(NoColumnError(column, row.cells)), file=row.file, line=row.line)
        value = cell_text(row.cells[column]).strip().lower()
        if value not in (*_YES, *_NO):
            reason = f"{column} is {row.cells[column]!r}, where levels have flags: true or false, 1 or 0"
            raise InputError(reason, file=row.file, line=row.line)
        found += [column] if value in _YES else []
    return tuple(found)


def _trains(file: str, benchmark: Benchmark) -> bool:
    pattern = None if benchmark.label is None else benchmark.label.source
    return pattern is not None and DataFile(file, PurePosixPath(file)).is_called(pattern)


def _label(row: Row, label: Label) -> bool:
    text = write(label.value, row)
    if text not in (label.good, label.bad):
        reason = f"the label is {text!r}, not {label.good} or {label.bad}"
        raise InputError(reason, file=row.file, line=row.line)
    return text == label.good


def _value(row: Row, value: Value) -> float:
    text = write(value.column, row)
    try:
        number = float(text)
    except ValueError:
        number = math.nan
    if not math.isfinite(number):
        raise InputError(f"the value is {text!r}, no number", file=row.file, line=row.line)
    return number


def _string(text: str, context: str | None, blank: str) -> String:
    if context is None:
        return String(text)
    edges = (context[-1:], text[:1])
    apart = "" if not all(edges) or any(edge.isspace() for edge in edges) else blank
    return String(f"{context}{apart}{text}", len(context))


def _options(row: Row, options: Options) -> tuple[list[str], int, bool]:
    """The texts of the options, the index of the right one, and whether that is the text of another.

    Raises:
        InputError: unless exactly one is right.
    """

    def refuse(reason: str, hint: str | None = None) -> NoReturn:
        raise InputError(reason, file=row.file, line=row.line, hint=hint)

    right = options.right
    try:
        texts = _listed(options.texts, row.cells, missing=options.missing)
        labels = _listed(options.labels, row.cells, missing=True) if options.labels else None
        value = right if isinstance(right, int) else right.value(row.cells)
    except PdtoolsError as error:
        refuse(str(error))
    if not isinstance(texts, list) or any(isinstance(text, (list, dict, bool)) for text in texts):
        refuse(f"the options are {texts!r}, not a list of two texts or more")
    if None in texts and not options.missing:
        refuse(f"option {texts.index(None) + 1} is missing", "options.missing = true leaves such out")
    there = [i for i, text in enumerate(texts) if text not in (None, "") or not options.missing]
    if len(there) < 2:
        refuse(f"the options are {texts!r}, not a list of two texts or more")
    if labels is not None and (not isinstance(labels, list) or len(labels) != len(texts)):
        refuse(f"the labels are {labels!r}, not one for each of {len(texts)} options")
    texts = [cell_text(each) for each in texts]
    names = texts if labels is None else [cell_text(each) for each in labels]
    text = cell_text(value)
    number = _INDEX.fullmatch(text)
    if isinstance(right, int) or (labels is None and number is not None):
        index = int(text if number is None else number[1])
    else:
        named = [i for i in there if names[i] == text]
        if len(named) > 1:
            refuse(f"{len(named)} of {len(texts)} options are right: {value!r}")
        index = named[0] if named else -1
    if index not in there:
        what = (
            "an index from 0, or a text" if labels is None else f"one of {', '.join(names[i] for i in there)}"
        )
        refuse(f"none of {len(there)} options is right: {value!r}", f"right is {what}")
    is_doubtful = isinstance(value, str) and labels is None and text in names and names[index] != text
    return [texts[i] for i in there], there.index(index), is_doubtful


def _listed(templates: Sequence[Template], cells: Cells, *, missing: bool) -> Any:
    """The values of several templates, or the list that the only one is.

    Args:
        missing: whether columns may be missing or empty: the value is then None.
    """
    if len(templates) == 1:
        return templates[0].value(cells)
    return [None if missing and each.lacks(cells) else each.value(cells) for each in templates]
