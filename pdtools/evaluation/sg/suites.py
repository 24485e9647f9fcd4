"""Test suites in the format of SyntaxGym: items with conditions, conditions with regions, predictions."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Protocol

from pdtools.errors import InputError
from pdtools.evaluation.sg.circuits import circuit_of
from pdtools.evaluation.sg.formula import Formula, FormulaError
from pdtools.files import Kind, Source, check_kind, decode_utf8, held, read_bytes
from pdtools.files.json_input import number_of, parse_json, text_of
from pdtools.files.names import has_ending
from pdtools.files.source import ZipMember
from pdtools.files.zips import is_data

MAX_SUITE_BYTES = 16 << 20
"""Limit on a suite's document, unpacked. In memory it may take 30 times as much."""

MOST_REGIONS = 1000
"""The highest number of a region."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Condition:
    """One sentence of an item, in regions.

    Attributes:
        name: the condition.
        regions: the text of each region, words separated by single spaces; "" for an empty one.
        numbers: the number by which formulas name each region.
    """

    name: str
    regions: tuple[str, ...]
    numbers: tuple[int, ...]

    @property
    def text(self) -> str:
        """The sentence: its regions joined by single spaces, empty ones skipped."""
        return " ".join(region for region in self.regions if region)

    @property
    def spans(self) -> tuple[tuple[int, int], ...]:
        """Start and end of each region in ``text``, in characters; an empty region is empty there too."""
        spans, position = [], 0
        for region in self.regions:
            start = position + bool(region and position)
            position = start + len(region)
            spans.append((start, position))
        return tuple(spans)


@dataclass(frozen=True, kw_only=True, slots=True)
class SuiteItem:
    """One item: the same materials in every condition."""

    number: int
    conditions: tuple[Condition, ...]


@dataclass(frozen=True, kw_only=True, slots=True)
class Suite:
    """A test suite.

    Attributes:
        name: as in its ``meta``.
        circuit: the circuit it belongs to (see :func:`pdtools.evaluation.sg.circuits.circuit_of`).
        formulas: its predictions; the first is the scored one.
        items: in file order.
        region_names: the authors' names of some or all regions, by number (``region_meta``).
    """

    name: str
    circuit: str
    formulas: tuple[Formula, ...]
    items: tuple[SuiteItem, ...]
    region_names: Mapping[int, str] = field(default_factory=dict)


class Suites(Protocol):
    """Suites that can be iterated over several times: a list, or :class:`SuiteFiles`."""

    def __iter__(self) -> Iterator[Suite]: ...


class SuiteFiles:
    """The suites of a JSON file, of a folder of them (searched recursively), or of a zip, sorted by name.

    They are read once to check them, and again at each iteration.

    Args:
        source: their path.

    Raises:
        InputError: for a missing source, one without suites, a damaged file, two suites of one name, a
            formula that cannot be parsed or names a region or condition that an item lacks.
    """

    def __init__(self, source: str | Path) -> None:
        check_kind(source, Kind.SUITES)
        self._source = held(source)
        numbers: dict[str, int] = {}
        for number, (place, data) in enumerate(_documents(self._source)):
            suite = _suite(data, place)
            if suite.name in numbers:
                raise InputError(f"a second suite named {suite.name!r}", file=place)
            numbers[suite.name] = number
        if not numbers:
            raise InputError("no test suites (.json files) in it", file=source)
        self._order = [numbers[name] for name in sorted(numbers)]

    def __iter__(self) -> Iterator[Suite]:
        for place, data in _documents(self._source, self._order):
            yield _suite(data, place)


def read_suites(source: str | Path) -> list[Suite]:
    """The suites of :class:`SuiteFiles`, in memory."""
    return list(SuiteFiles(source))


def _documents(source: Source, order: Sequence[int] | None = None) -> Iterator[tuple[str, Any]]:
    """The JSON documents, in the order of their names, or only those with these indices."""
    folder = Path(source)
    if folder.is_dir():
        paths = [p for p in sorted(folder.rglob("*")) if has_ending(p, ".json")]
        files: list[str] = [str(p) for p in paths if is_data(p.relative_to(folder).as_posix())]
    elif has_ending(source, ".zip"):
        files = [*ZipMember.within(source, (".json",))]
    else:
        files = [source]
    for file in files if order is None else [files[number] for number in order]:
        yield file, parse_json(decode_utf8(read_bytes(file, MAX_SUITE_BYTES), file), file)


def _suite(data: Any, place: str) -> Suite:
    try:
        meta = data["meta"]
        name = text_of(meta["name"])
        metric = meta.get("metric", "sum")
        formulas = [text_of(prediction["formula"]) for prediction in data["predictions"]]
        items = tuple(_item(item) for item in data["items"])
        named = meta.get("circuit")
        circuit = circuit_of(name, None if named is None else text_of(named))
        called = data.get("region_meta") or {}
        region_names = {number_of(number): text_of(region) for number, region in called.items()}
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        missing = f"no {error}" if isinstance(error, KeyError) else str(error)
        raise InputError(f"not a test suite: {missing}", file=place) from error
    if metric != "sum":
        raise InputError(f"metric {metric!r}: only sums of surprisals are supported", file=place)
    if not items or not formulas:
        raise InputError("a test suite without items or without predictions", file=place)
    try:
        parsed = tuple(Formula.parse(formula) for formula in formulas)
    except FormulaError as error:
        raise InputError(str(error), file=place) from error
    suite = Suite(name=name, circuit=circuit, formulas=parsed, items=items, region_names=region_names)
    _check_references(suite, place)
    return suite


def _item(data: Any) -> SuiteItem:
    conditions = tuple(_condition(condition) for condition in data["conditions"])
    number = number_of(data["item_number"])
    if len({condition.name for condition in conditions}) != len(conditions):
        raise ValueError(f"item {number} has two conditions of one name")
    return SuiteItem(number=number, conditions=conditions)


def _condition(data: Any) -> Condition:
    regions = sorted(data["regions"], key=lambda region: number_of(region["region_number"]))
    numbers = tuple(number_of(region["region_number"]) for region in regions)
    texts = [text_of(region["content"]) for region in regions]
    name = text_of(data["condition_name"])
    if len(set(numbers)) != len(numbers):
        raise ValueError(f"condition {name!r} has two regions of one number")
    if numbers and not 0 <= numbers[0] <= numbers[-1] <= MOST_REGIONS:
        wrong = numbers[0] if numbers[0] < 0 else numbers[-1]
        raise ValueError(f"condition {name!r} has a region {wrong}: numbers go from 0 to {MOST_REGIONS:,}")
    return Condition(
        name=name,
        # Only ASCII spaces separate words: contents may begin or end with some, or be nothing else.
        regions=tuple(" ".join(word for word in text.split(" ") if word) for text in texts),
        numbers=numbers,
    )


def _check_references(suite: Suite, place: str) -> None:
    numbers = [item.number for item in suite.items]
    if len(set(numbers)) != len(numbers):
        raise InputError("two items of one number", file=place)
    for item in suite.items:
        present = {condition.name: set(condition.numbers) for condition in item.conditions}
        for region, condition in (reference for formula in suite.formulas for reference in formula.regions):
            if condition not in present:
                raise InputError(f"item {item.number} has no condition {condition!r}", file=place)
            if region is not None and region not in present[condition]:
                raise InputError(
                    f"item {item.number}, condition {condition!r}: no region {region}", file=place
                )
