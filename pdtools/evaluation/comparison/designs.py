"""Tables of stimuli with surprisals, as ``pdtools surprisal`` writes them: items × conditions of a design."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from fnmatch import fnmatchcase
from itertools import combinations
from statistics import fmean
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from pdtools.errors import InputError, PdtoolsError
from pdtools.evaluation.comparison.effects import (
    EFFECT,
    Contrast,
    Effect,
    Factor,
    Float,
    cells,
    contrasts,
    effects,
    pairs,
)
from pdtools.files.tables import Sheet, cell_text
from pdtools.stimuli.columns import MILLISECONDS, PREDICTED, UNIT

ALL = "all"
"""The condition of tables without one."""
_CONDITION = "condition"
_FEW = 4  # largest number of conditions whose pairs are all compared; else each is compared to the first
_MOST_CELLS = 64
_NAMED = 3  # items that a note names
# Columns of a row's place in its sentence, and of its text: the first existing one of these.
_PLACES = ("word_number", "region_number", "region", "region_name")
_TEXTS = ("word", "region_text", "text", "sentence")
# Separators of the parts of a condition's name.
_SEPARATORS = ("_", "-", ".", "/", "|", ":", "+", "×", ",", " ")


class StimulusRow(NamedTuple):
    """A row of a table: the surprisal (bits; NaN: none) of a model at one place of a sentence.

    Attributes:
        condition: the levels of its factors; empty: it is in no condition of the design.
        name: the name of the place, if the table has one beside its number.
        source: the row as a spreadsheet counts it.
    """

    model: str
    item: str
    condition: tuple[str, ...]
    place: str
    name: str
    text: str
    bits: float
    source: str


@dataclass(frozen=True, eq=False)
class Measured:
    """Surprisals of M models at P places (regions or words) of I items in the C cells of a design.

    Attributes:
        file: the name of the first table.
        rows: all rows.
        factors: the factors; a single one, called condition, if none were named.
        is_named: whether they were.
        models, places, items: their names, those of ``values``.
        labels: the name of each place: with its words, or its name in the table, if all items share them.
        values: float64 (M, P, I, C), means of repeated rows; NaN where there is none.
        notes: doubts about the table, each a line for people.
        slopes: float64 (M, 2), milliseconds a bit and half of the interval, if tables have predicted times.
    """

    file: str
    rows: list[StimulusRow]
    factors: tuple[Factor, ...]
    is_named: bool
    models: list[str]
    places: list[str]
    items: list[str]
    labels: dict[str, str]
    values: Float
    notes: list[str]
    slopes: Float | None = None

    def contrasts(self) -> list[Contrast]:
        """Main effects and interactions; without named factors, differences of conditions."""
        if self.is_named:
            return contrasts(self.factors)
        return pairs(self.factors[0], with_first=len(self.factors[0].levels) > _FEW)

    def of_same_words(self) -> set[str]:
        """The places where the conditions of each item share their words."""
        texts: dict[tuple[str, str], set[str]] = {}
        for row in self.rows:
            if row.item and row.condition:
                texts.setdefault((row.place, row.item), set()).add(row.text)
        return set(self.places) - {place for (place, _), own in texts.items() if len(own) > 1}

    def find_place(self, region: str) -> str:
        """The place of a number or name.

        Raises:
            PdtoolsError: if there is none, or several have the name.
        """
        wanted = region.strip()
        if wanted in self.places:
            return wanted
        named = {row.place for row in self.rows if wanted in (row.name, self.labels[row.place])}
        if len(named) == 1:
            return named.pop()
        there = ", ".join(self.labels[place] for place in self.places[:20])
        reason = "several places have this name" if named else "no such region"
        raise PdtoolsError(f"--region {region}: {reason} (there are {there})")

    def compared_cells(self) -> tuple[list[int], NDArray[np.bool_]]:
        """The cells of the design that share items, and whether each item (I,) is in several of them.

        Without named factors, conditions whose items have no other, such as fillers, are in no comparison.
        """
        there: NDArray[np.bool_] = np.logical_or.reduce(np.isfinite(self.values), axis=(0, 1))  # (I, C)
        several = np.asarray(there.sum(1) > (0 if self.is_named else 1))
        compared = range(there.shape[1]) if self.is_named else np.flatnonzero(there[several].any(0)).tolist()
        return list(compared), several

    def lacking(self, place: str) -> str | None:
        """A note on the items that lack a cell at a place, and are left out of effects that need it."""
        there = np.isfinite(self.values[:, self.places.index(place)])  # (M, I, C)
        compared, several = self.compared_cells()
        names = [", ".join(cell) for cell in cells(self.factors)]
        first: dict[str, str] = {}
        without: dict[tuple[str, str], str] = {}
        for row in self.rows:
            first.setdefault(row.item, row.source)
            if row.place == place and math.isnan(row.bits):
                without.setdefault((row.item, ", ".join(row.condition)), row.source)
        said = []
        for i in np.flatnonzero(several & ~there[..., compared].all((0, 2))).tolist():
            lacks = []
            for cell in compared:
                of = [model for model, known in zip(self.models, there[:, i, cell], strict=True) if not known]
                in_models = f" in {', '.join(of)}" if len(of) < len(self.models) else ""
                if source := without.get((self.items[i], names[cell])):
                    lacks.append(f"{source} has no surprisal")
                elif of:
                    lacks.append(f"no {names[cell]}{in_models}")
            item = f"{self.items[i]} (from {first[self.items[i]]})"
            said.append(f"{item}: {'; '.join([*lacks[:_NAMED], *(['…'] if len(lacks) > _NAMED else [])])}")
        if not said:
            return None
        more = f"; and {len(said) - _NAMED} more" if len(said) > _NAMED else ""
        which = f"{len(said)} of {several.sum()} items"
        why = f"{'lacks' if len(said) == 1 else 'lack'} a condition at region {place}"
        return f"{which} {why}, left out of effects that need it: {'; '.join(said[:_NAMED])}{more}"


def measured(sheets: Sequence[Sheet], factors: str | None = None) -> Measured:
    """Read tables of the same items.

    Args:
        sheets: the tables.
        factors: ``NAME`` or ``NAME=REFERENCE`` with commas between them: columns of the tables, or names for
            the parts of the conditions' names (``amb_long``). The reference level is by default the first one
            in the table. None: conditions are the levels of one factor.

    Raises:
        InputError: for a table without models and surprisals, with a surprisal that is no number, or without
            any; for factors that are not there, or have one level or very many.
        PdtoolsError: if ``factors`` is not of this form.
    """
    asked = None if factors is None else _asked(factors)
    rows = [row for sheet in sheets for row in _rows(sheet, asked, len(sheets) > 1)]
    file = sheets[0].name
    if all(math.isnan(row.bits) for row in rows):
        raise InputError("no surprisal in it", file=file)
    if asked and not any(row.item for row in rows):
        hint = "surprisal --column item=NAME says which column tells items apart"
        raise InputError("no row has an item, and effects are within items", file=file, hint=hint)
    notes: list[str] = []
    if missing := [row.source for row in rows if math.isnan(row.bits)]:
        notes.append(f"in no mean: {counted(missing, 'without a surprisal')}")
    if asked:
        if any(len(row.condition) == 1 for row in rows) and len(asked) > 1:
            rows = _split(rows, [name for name, _ in asked], file)
        names = " and ".join(name for name, _ in asked)
        for has_item, which in ((True, "of items"), (False, "without an item")):
            if outside := [row.source for row in rows if not row.condition and bool(row.item) == has_item]:
                notes.append(
                    f"in no mean and no effect, without a level of {names}: {counted(outside, which)}"
                )
    elif sizes := _parts_of({row.condition[0] for row in rows if row.item}):
        notes.append(f"conditions look like a design of {sizes}: name its factors with --factors NAME,NAME")
    design = _factors(rows, asked, file)
    for factor in design:
        same: dict[str, str] = {}
        for level in factor.levels:
            if (other := same.setdefault(level.casefold(), level)) != level:
                notes.append(f"{factor.name} has the levels {other!r} and {level!r}: are they the same?")
    places = list(dict.fromkeys(row.place for row in rows))
    if all(place.lstrip("-").isdecimal() for place in places):
        places.sort(key=int)
    models = list(dict.fromkeys(row.model for row in rows))
    items = list(dict.fromkeys(row.item for row in rows if row.item and row.condition))
    values, uneven = _values(rows, design, models, places, items)
    if uneven:
        notes.append(uneven)
    slopes = _slopes(sheets, models)
    if slopes is None and any(MILLISECONDS[0] in sheet.columns for sheet in sheets):
        needed = ", ".join(MILLISECONDS)
        notes.append(
            f"no milliseconds: not all models have {needed}, as pdtools surprisal --slopes writes them"
        )
    return Measured(
        file=file,
        rows=rows,
        factors=design,
        is_named=asked is not None,
        models=models,
        places=places,
        items=items,
        labels=_labels(rows),
        values=values,
        notes=notes,
        slopes=slopes,
    )


def _slopes(sheets: Sequence[Sheet], models: Sequence[str]) -> Float | None:
    """Milliseconds a bit of each model, and half of their interval (M, 2), which its rows share.

    Returns:
        None if not all models have predicted times.

    Raises:
        InputError: for a time that is not the surprisal times the slope of the model's other rows.
    """
    rows: list[tuple[str, int, str, list[float]]] = []
    for sheet in sheets:
        columns = {name: i for i, name in enumerate(sheet.columns)}
        if {"model", "surprisal", *MILLISECONDS} <= columns.keys():
            names = ("model", "surprisal", *MILLISECONDS)
            texts = (sheet.texts(columns[name]) for name in names)
            for line, scale, *cells_of in zip(sheet.numbers, _bits_of_units(sheet), *texts, strict=True):
                try:
                    numbers = [float(cell) for cell in cells_of[1:] if cell]
                except ValueError as error:
                    reason = f"surprisal and ms are {', '.join(cells_of[1:])}, not numbers"
                    raise InputError(reason, file=sheet.name, line=line) from error
                if len(numbers) == len(names) - 1:
                    numbers[0] *= scale
                    rows.append((sheet.name, line, cells_of[0].strip(), numbers))
    most: dict[str, list[float]] = {}  # the row with the most bits
    for _, _, model, numbers in rows:
        most[model] = max(most.get(model, [0.0]), numbers, key=lambda each: abs(each[0]))
    for name, line, model, (bits, ms, *_) in rows:
        if abs(ms * most[model][0] - bits * most[model][1]) > 1e-4 * abs(most[model][0]) * max(1.0, abs(ms)):
            reason = f"ms of {model} is not its surprisal times the slope of its other rows"
            raise InputError(reason, file=name, line=line, hint="pdtools surprisal --slopes writes it")
    if any(most.get(model, [0.0])[0] == 0 for model in models):
        return None
    of_models = [most[model] for model in models]
    return np.array([(ms / bits, (high - low) / 2 / abs(bits)) for bits, ms, low, high in of_models])


def _bits_of_units(sheet: Sheet) -> list[float]:
    """The bits of a row's unit, which is a nat if ``surprisal --nats`` wrote it."""
    if UNIT not in sheet.columns:
        return [1.0] * len(sheet.numbers)
    units = sheet.texts(sheet.columns.index(UNIT))
    return [1 / math.log(2) if unit.strip() == "nats" else 1.0 for unit in units]


def counted(sources: Sequence[str], which: str) -> str:
    """The number of rows, and the first one: ``3 rows of items (row 7 and 2 more)``."""
    rows, more = ("rows", f" and {len(sources) - 1} more") if len(sources) > 1 else ("row", "")
    return f"{len(sources)} {rows} {which} ({sources[0]}{more})"


def _asked(text: str) -> list[tuple[str, str | None]]:
    """The names of factors, with their references."""
    found: list[tuple[str, str | None]] = []
    for part in text.split(","):
        name, equals, reference = (each.strip() for each in part.partition("="))
        if not name or (equals and not reference):
            raise PdtoolsError(f"--factors {text}: write NAME,NAME or NAME=REFERENCE,NAME=REFERENCE")
        if name.casefold() in {other.casefold() for other, _ in found}:
            raise PdtoolsError(f"--factors {text}: {name} is there twice")
        found.append((name, reference or None))
    return found


def _rows(sheet: Sheet, asked: Sequence[tuple[str, str | None]] | None, several: bool) -> list[StimulusRow]:
    """The rows of a table; conditions that have yet to be split have one part."""
    by_name = {name.casefold(): i for i, name in reversed(list(enumerate(sheet.columns)))}
    exact = [
        name for name in ("item", _CONDITION) if name in sheet.columns
    ]  # as surprisal --column writes them
    by_name |= {name: sheet.columns.index(name) for name in exact}
    lacking = [name for name in ("model", "surprisal") if name not in by_name]
    if lacking:
        hint = "pdtools surprisal stimuli.csv -o TABLE makes such tables"
        raise InputError(f"no column {lacking[0]} in the header", file=sheet.name, hint=hint)

    def texts(*names: str, otherwise: str = "") -> list[str]:
        place = next((by_name[name] for name in names if name in by_name), None)
        if place is None:
            return [otherwise] * len(sheet.numbers)
        return [text.strip() for text in sheet.texts(place)]

    columns = [texts(name.casefold()) for name, _ in asked or () if name.casefold() in by_name]
    conditions: list[tuple[str, ...]]
    if asked and len(columns) == len(asked):
        conditions = [own if all(own) else () for own in zip(*columns, strict=True)]
    elif asked and (columns or len(asked) == 1 or _CONDITION not in by_name):
        absent = next(name for name, _ in asked if name.casefold() not in by_name)
        hint = (
            f"there are {', '.join(filter(None, sheet.columns))}; NAME=LEVEL gives the one level to subtract"
        )
        raise InputError(f"no column {absent!r} for --factors", file=sheet.name, hint=hint)
    else:
        named = texts(_CONDITION, otherwise="" if "version" in by_name else ALL)
        if "version" in by_name and not asked:
            named = [", ".join(filter(None, pair)) for pair in zip(named, texts("version"), strict=True)]
        conditions = [(name,) for name in named]
    numbers = []
    surprisals = zip(sheet.numbers, sheet.cells[by_name["surprisal"]], _bits_of_units(sheet), strict=True)
    for line, value, scale in surprisals:
        try:
            number = float(cell_text(value) or "nan")
        except ValueError:
            number = math.inf
        if math.isinf(number):
            reason = f"surprisal is {cell_text(value)!r}, not a number"
            raise InputError(reason, file=sheet.name, line=line)
        numbers.append(number * scale)
    others = [name for name in _PLACES if name in by_name][1:] if "word_number" not in by_name else []
    sources = [f"{f'{sheet.name} ' if several else ''}row {number}" for number in sheet.numbers]
    found = zip(
        texts("model"),
        texts("item", "item_number"),
        conditions,
        texts(*_PLACES, otherwise="1"),
        texts(*others),
        texts(*_TEXTS),
        numbers,
        sources,
        strict=True,
    )
    return [StimulusRow(*cells) for cells in found]


def _split(rows: Sequence[StimulusRow], names: Sequence[str], file: str) -> list[StimulusRow]:
    """Split the conditions' names into as many parts as there are factors."""
    conditions = Counter(row.condition[0] for row in rows if len(row.condition) == 1)

    def parts(condition: str, separator: str) -> tuple[str, ...]:
        found = tuple(part.strip() for part in condition.split(separator))
        return found if len(found) == len(names) and all(found) else ()

    def n_split(separator: str) -> int:
        return sum(n for condition, n in conditions.items() if parts(condition, separator))

    best = max(_SEPARATORS, key=n_split)
    if not n_split(best):
        shown = ", ".join(list(conditions)[:4])
        reason = f"--factors: no columns {', '.join(names)}, and conditions are not of {len(names)} parts"
        raise InputError(f"{reason} with a _ or the like between them: {shown}", file=file)
    return [
        row._replace(condition=parts(row.condition[0], best)) if len(row.condition) == 1 else row
        for row in rows
    ]


def _parts_of(conditions: Collection[str]) -> str | None:
    """``2 × 2``, if these names are all the pairs, triples and so on of a few parts."""
    for separator in _SEPARATORS:
        parts = [condition.split(separator) for condition in conditions]
        if len({len(each) for each in parts}) == 1 and len(parts[0]) > 1:
            sizes = [len(set(own)) for own in zip(*parts, strict=True)]
            if min(sizes) > 1 and math.prod(sizes) == len(conditions):
                return " × ".join(map(str, sizes))
    return None


def _factors(
    rows: Sequence[StimulusRow], asked: Sequence[tuple[str, str | None]] | None, file: str
) -> tuple[Factor, ...]:
    found = []
    conditions = list(dict.fromkeys(row.condition for row in rows if row.condition))
    of_items = {row.condition for row in rows if row.item}
    if asked is None:
        levels = [own[0] for own in conditions]
        return (Factor(_CONDITION, tuple(levels if len(levels) <= _MOST_CELLS else [])),)
    for place, (name, reference) in enumerate(asked):
        levels = list(dict.fromkeys(own[place] for own in conditions if own in of_items))
        if reference is not None:
            if reference not in levels:
                raise InputError(f"--factors: {name} is never {reference!r}, but {_some(levels)}", file=file)
            levels.sort(key=lambda level: level != reference)
        if len(levels) < 2:
            raise InputError(f"--factors: {name} has one level, {_some(levels) or 'none'}", file=file)
        found.append(Factor(name, tuple(levels)))
    if math.prod(len(factor.levels) for factor in found) > _MOST_CELLS:
        many = max(found, key=lambda factor: len(factor.levels))
        reason = f"--factors: {many.name} has {len(many.levels)} levels: {_some(many.levels)}"
        raise InputError(f"{reason}; a design has at most {_MOST_CELLS} conditions", file=file)
    return tuple(found)


def _some(levels: Sequence[str]) -> str:
    return ", ".join(map(repr, levels[:6])) + (", …" if len(levels) > 6 else "")


def _values(
    rows: Sequence[StimulusRow],
    factors: Sequence[Factor],
    models: Sequence[str],
    places: Sequence[str],
    items: Sequence[str],
) -> tuple[Float, str | None]:
    """The values (M, P, I, C), and a note if an item has more rows in one cell than in another."""
    several: dict[tuple[int, int, int, int], list[float]] = {}
    first: dict[tuple[int, int, int, int], list[str]] = {}
    cell_of = {cell: c for c, cell in enumerate(cells(factors))}
    m_of, p_of, i_of = ({name: n for n, name in enumerate(names)} for names in (models, places, items))
    for row in rows:
        if row.item and row.condition in cell_of and not math.isnan(row.bits):
            key = m_of[row.model], p_of[row.place], i_of[row.item], cell_of[row.condition]
            several.setdefault(key, []).append(row.bits)
            first.setdefault(key, []).append(row.source)
    values = np.full((len(models), len(places), len(items), len(cell_of)), np.nan)
    for key, bits in several.items():
        values[key] = fmean(bits)
    sizes: dict[tuple[int, int, int], set[int]] = {}
    for key, bits in several.items():
        sizes.setdefault(key[:3], set()).add(len(bits))
    uneven = [key for key, bits in several.items() if len(bits) > 1 and len(sizes[key[:3]]) > 1]
    if not uneven:
        return values, None
    _, _, item, cell = uneven[0]
    n_items = len({key[2] for key in uneven})
    what = f"item {items[item]} has {', '.join(cells(factors)[cell])} in {' and '.join(first[uneven[0]][:3])}"
    more = f", and {n_items - 1} more items are so" if n_items > 1 else ""
    return values, f"{what}, more often than another condition{more}: means of such rows count"


def _labels(rows: Sequence[StimulusRow]) -> dict[str, str]:
    """The names of places: with their name in the table or their words, if all items share these."""
    names: dict[str, set[str]] = {}
    texts: dict[str, set[str]] = {}
    has_items = any(row.item for row in rows)
    for row in rows:
        names.setdefault(row.place, set()).add(row.name)
        if row.item or not has_items:
            texts.setdefault(row.place, set()).add(row.text)
    labels = {}
    for place, own in names.items():
        shared = next((of for of in (own, texts.get(place, ())) if len(of) == 1 and "" not in of), ())
        labels[place] = " ".join([place, *(text[:24] for text in shared if text != place)]).strip()
    return labels


# --- effects ------------------------------------------------------------------------------------


@dataclass(frozen=True, kw_only=True, eq=False)
class DesignEffects:
    """The effects of a design at all places of its sentences.

    Attributes:
        table: the measured values.
        groups: the names of models by group of seeds.
        by_place: effects at each place.
        critical: the place that tables, figures and sentences are of.
        notes: lines for people on this place.
    """

    table: Measured
    groups: Mapping[str, Sequence[str]]
    by_place: Mapping[str, Sequence[Effect]]
    critical: str
    notes: list[str] = field(default_factory=list)

    def rows(self, place: str | None = None) -> list[dict[str, object]]:
        """Effects as rows, of one place or of all; see :meth:`Effect.row`."""
        places = self.table.places if place is None else [place]
        return [{"region": each, **effect.row()} for each in places for effect in self.by_place[each]]

    def as_data(self) -> dict[str, object]:
        """The content for JSON.

        Keys:
            factors: by name, their levels, the reference first.
            groups: by name, the models that differ only in their seeds.
            region: the critical region, by its place.
            effects: a row for each region, model and contrast.
            notes: doubts about the table, and about the critical region.
        """
        return {
            "factors": {factor.name: list(factor.levels) for factor in self.table.factors},
            "groups": self.groups,
            "region": self.critical,
            "effects": self.rows(),
            "notes": [*self.table.notes, *self.notes],
        }

    @property
    def columns(self) -> list[str]:
        """The names of the columns of :meth:`rows`."""
        return ["region", *EFFECT, *(() if self.table.slopes is None else MILLISECONDS)]

    @property
    def over_seeds(self) -> bool:
        """True if a group has several seeds, so that intervals and tests are over these too."""
        return any(len(own) > 1 for own in self.groups.values())

    @property
    def label(self) -> str:
        """The name of the critical place."""
        return self.table.labels[self.critical]


def design_effects(
    table: Measured,
    *,
    region: str | None = None,
    groups: Mapping[str, Sequence[str]] | None = None,
    baseline: str | None = None,
    seed: int = 0,
    samples: int = 10_000,
    everywhere: bool = True,
) -> DesignEffects:
    """Compute the effects at every place.

    Args:
        table: the measured values.
        region: the critical place; None: the one with the largest effect among those where the conditions of
            each item have the same words.
        groups: models that differ only in their seeds, by name, as patterns (``base-*``); others stand alone.
        baseline: the group that is subtracted from each other one; None: every two groups are compared.
        seed, samples: for the bootstrap.
        everywhere: whether the bootstrap is of all places, not only of the critical one.

    Raises:
        InputError: if no item has the cells that any effect needs, with named factors.
        PdtoolsError: for a region, group or baseline that is not there.
    """
    members = _groups(table.models, groups or {})
    if baseline is not None and baseline not in members:
        raise PdtoolsError(f"no group named {baseline} (there are {', '.join(members)})")
    if baseline is None:
        differences = list(combinations(members, 2))
    else:
        differences = [(baseline, name) for name in members if name != baseline]
    indices = {name: [table.models.index(model) for model in own] for name, own in members.items()}
    design = table.contrasts()
    critical = None if region is None else table.find_place(region)

    def of_place(place: str, n: int) -> list[Effect]:
        values = table.values[:, table.places.index(place)]
        return effects(values, design, indices, differences, seed=seed, samples=n, slopes=table.slopes)

    by_place = {place: of_place(place, samples if everywhere else 0) for place in table.places}
    notes = [] if table.slopes is None else [PREDICTED]
    if critical is None:
        there = [place for place in table.places if by_place[place]] or table.places
        shared = table.of_same_words()
        same = [place for place in there if place in shared]
        critical = max(same or there, key=lambda place: _largest(by_place[place]))
        if len(table.places) > 1 and by_place[critical]:
            of = "the regions with the same words in all conditions" if same else "all regions"
            notes.append(
                f"region {table.labels[critical]} is shown: of {of} it has the largest effect in this very"
                " table; --region names another"
            )
    if not by_place[critical] and table.is_named:
        filled: NDArray[np.bool_] = np.logical_or.reduce(
            np.isfinite(table.values[:, table.places.index(critical)]), axis=(0, 1)
        )
        names = [" and ".join(cell) for cell in cells(table.factors)]
        where = f"at region {table.labels[critical]}"
        reason = f"no item has the conditions that an effect {where} needs: {', '.join(names[:4])}"
        if not filled.all():
            empty = [name for name, known in zip(names, filled, strict=True) if not known]
            reason = f"no item has a surprisal {where} in {', '.join(empty[:4])}"
        hint = "--factors names what varies within items, and --region where"
        raise InputError(reason, file=table.file, hint=hint)
    if not everywhere:
        by_place[critical] = of_place(critical, samples)
    if by_place[critical] and (lacking := table.lacking(critical)):
        notes.append(lacking)
    return DesignEffects(table=table, groups=members, by_place=by_place, critical=critical, notes=notes)


def _largest(found: Sequence[Effect]) -> float:
    """The largest effect, averaged over models."""
    sizes: dict[str, list[float]] = {}
    for effect in found:
        if effect.less is None:
            sizes.setdefault(effect.contrast.name, []).append(effect.estimate.value)
    return max((abs(fmean(values)) for values in sizes.values()), default=-1.0)


def _groups(models: Sequence[str], given: Mapping[str, Sequence[str]]) -> dict[str, list[str]]:
    """The named groups, then the other models, each alone."""
    found: dict[str, list[str]] = {}
    taken: dict[str, str] = {}
    for name, patterns in given.items():
        for pattern in patterns:
            own = [model for model in models if model == pattern or fnmatchcase(model, pattern)]
            if not own:
                raise PdtoolsError(f"--group {name}={pattern}: no such model (there are {', '.join(models)})")
            for model in own:
                if taken.setdefault(model, name) != name:
                    raise PdtoolsError(f"{model} is in two groups, {taken[model]} and {name}")
            found[name] = list(dict.fromkeys([*found.get(name, ()), *own]))
    if twice := next((model for model in models if model in found and model not in taken), None):
        raise PdtoolsError(f"two groups named {twice}: a model that is not in the group has its name")
    return found | {model: [model] for model in models if model not in taken}
