"""Test suites in the format of SyntaxGym as items, and the scores of papers (Hu et al. 2020)."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from pdtools.errors import InputError
from pdtools.evaluation.benchmark.item_set import Item, ItemSet, NamedSpan, String
from pdtools.evaluation.results import mean
from pdtools.evaluation.sg.formula import Formula, FormulaError
from pdtools.evaluation.sg.record import CIRCUIT_OF, EXCLUDED, OTHER, SCORED_31, SCORED_33
from pdtools.files import Kind, Source, check_kind, decode_utf8, held, read_bytes
from pdtools.files.inputs import number_of, parse_json, text_of
from pdtools.files.packed import has_ending, is_data
from pdtools.files.source import ZipMember

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
        circuit: the circuit it belongs to: the paper's for its suites, else the suite's own, else "other".
        formulas: its predictions; the first is the scored one.
        items: in file order.
        region_names: the authors' names of some or all regions, by number (``region_meta``).
    """

    name: str
    circuit: str
    formulas: tuple[Formula, ...]
    items: tuple[SuiteItem, ...]
    region_names: Mapping[int, str] = field(default_factory=dict)


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
        self._source = held(source)
        numbers: dict[str, int] = {}
        try:
            for number, (place, data) in enumerate(_documents(self._source)):
                suite = _suite(data, place)
                if suite.name in numbers:
                    raise InputError(f"a second suite named {suite.name!r}", file=place)
                numbers[suite.name] = number
            if not numbers:
                raise InputError("no test suites (.json files) in it", file=source)
        except InputError:
            check_kind(source, Kind.SUITES)  # says more, if it is something else
            raise
        self._order = [numbers[name] for name in sorted(numbers)]

    def __iter__(self) -> Iterator[Suite]:
        for place, data in _documents(self._source, self._order):
            yield _suite(data, place)


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
        own = None if named is None else text_of(named)
        circuit = CIRCUIT_OF.get(name) or own or OTHER
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
    regions = sorted((number_of(each["region_number"]), text_of(each["content"])) for each in data["regions"])
    numbers = tuple(number for number, _ in regions)
    name = text_of(data["condition_name"])
    if len(set(numbers)) != len(numbers):
        raise ValueError(f"condition {name!r} has two regions of one number")
    if numbers and not 0 <= numbers[0] <= numbers[-1] <= MOST_REGIONS:
        wrong = numbers[0] if numbers[0] < 0 else numbers[-1]
        raise ValueError(f"condition {name!r} has a region {wrong}: numbers go from 0 to {MOST_REGIONS:,}")
    return Condition(
        name=name,
        # Only ASCII spaces separate words: contents may begin or end with some, or be nothing else.
        regions=tuple(" ".join(word for word in text.split(" ") if word) for _, text in regions),
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


# --- items ------------------------------------------------------------------------------------


class SuiteItems(ItemSet):
    """The items of test suites, read from files (:class:`SuiteFiles`) or in memory.

    An item is right iff the suite's first prediction holds; a suite is the mean over its scored items; a
    circuit the unweighted mean of its suites. The score ``overall`` is the mean of the suites (Hu et al.
    2020: unweighted, neither of circuits nor of items) without fgd-embed3, fgd-embed4 and nn-nv-rpl, which
    are in ``by_suite`` only; ``sg_31`` is the same, if all 31 suites of the paper are there, else None;
    ``sg_33`` has fgd-embed3 and fgd-embed4 too (Qian et al. 2021), if all are there; ``by_prediction`` has
    every prediction of every suite that has more than one.

    Args:
        suites: the suites.
        text_style: see :meth:`written`.
    """

    task, title = "sg", "Syntactic generalization"
    names = ("circuit", "suite")
    outside = EXCLUDED

    settings: Mapping[str, Any] = {
        "text": "regions joined by single spaces, final punctuation and capitals as in the suites",
        "equality": "|a - b| <= 1e-3 + 1e-5 |b|",
        "eos_in_regions": False,
    }

    def __init__(self, suites: Iterable[Suite], text_style: str | None = None) -> None:
        self._suites, self._style = suites, text_style

    def written(self, text_style: str | None) -> SuiteItems:
        """See :class:`ItemSet`. Suites are spaced as treebanks are."""
        return SuiteItems(self._suites, text_style)

    def __iter__(self) -> Iterator[Item]:
        """The items of all suites, in order."""
        for suite in self._suites:
            formulas = {str(number): of for number, of in enumerate(suite.formulas, start=1)}
            for item in suite.items:
                strings = {
                    condition.name: present(condition, self._style, suite.region_names)
                    for condition in item.conditions
                }
                yield Item(str(item.number), strings, formulas, (suite.circuit, suite.name))

    def further_scores(self, scores: Mapping[str, Any], tallies: Mapping[str, Any]) -> Mapping[str, Any]:
        """The other conventions of papers."""
        by_suite, by_circuit = scores["by_suite"], scores["by_circuit"]
        by_prediction = {
            suite: {name: of[circuit, suite].share for name, of in tallies.items() if (circuit, suite) in of}
            for circuit, suite in sorted(next(iter(tallies.values())), key=lambda key: str(key[1]))
        }
        return {
            "sg_31": _mean_of_all(by_suite, SCORED_31),
            "sg_33": _mean_of_all(by_suite, SCORED_33),
            "mean_of_circuits": mean([score for score in by_circuit.values() if score is not None]),
            "by_prediction": {suite: of for suite, of in by_prediction.items() if len(of) > 1},
        }


def _mean_of_all(by_suite: Mapping[str, float | None], wanted: Iterable[str]) -> float | None:
    """The mean of these suites, if every one of them has a score."""
    scores = [by_suite.get(suite) for suite in sorted(wanted)]
    present = [score for score in scores if score is not None]
    return mean(present) if len(present) == len(scores) else None


def present(
    condition: Condition, text_style: str | None, region_names: Mapping[int, str] | None = None
) -> String:
    """Write a sentence in a model's text style. Suites are spaced as treebanks are.

    Args:
        text_style: see :meth:`ItemSet.written`.
        region_names: names of regions, by number.
    """
    from pdtools.tokenization import join_words, split_spaces, split_words

    text, spans = condition.text, condition.spans
    if text_style == "raw":
        sentence = join_words(split_spaces(text).words, "raw")
        spans, word = (), 0
        for region in condition.regions:
            first, word = word, word + len(region.split(" ")) if region else word
            empty_at = sentence.ends[word - 1] if word else 0
            ends = (sentence.starts[first], sentence.ends[word - 1]) if region else (empty_at, empty_at)
            spans = (*spans, ends)
    else:
        sentence = split_words(text, "ptb") if text_style == "ptb" else split_spaces(text)
    names = region_names or {}
    regions = (
        NamedSpan(number, *ends, region, names.get(number))
        for number, ends, region in zip(condition.numbers, spans, condition.regions, strict=True)
    )
    return String(sentence.text, regions=tuple(regions), words=sentence)
