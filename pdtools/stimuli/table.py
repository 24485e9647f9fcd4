"""Sentences and regions of a table: a row per sentence (wide), or per region or word (long)."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from numbers import Number

import numpy as np
from numpy.typing import NDArray

from pdtools.errors import InputError, PdtoolsError
from pdtools.files import Rejects
from pdtools.files.tables import Sheet

# Roles of columns, and their default names.
ROLES = {
    "item": ("item", "item_number"),
    "condition": ("condition", "condition_name"),
    "list": ("list",),
    "sentence": ("sentence",),
    "region": ("region", "region_name"),
    "number": ("region_number", "word_number", "number"),
    "text": ("text",),
    "word": ("word",),
}
_HINT = "--column sentence=NAME says which one has them; a file of sentences alone is called .txt"
MISSING_IN_PANDAS = "pandas reads null, NA and empty cells as missing: read_csv(…, keep_default_na=False)"
"""Advice for cells that are missing in a pandas table."""
_WORD = re.compile(r"\S+")
_BREAKS = re.compile(r"\s*[\t\r\n]\s*")
_WHOLE = re.compile(r"[-+]?\d+(\.0+)?")
# Texts that spreadsheets and R write in place of another: errors of formulas, missing and truth values.
_ERROR = re.compile(r"#(?:REF!|N/A|VALUE!|NAME\?|DIV/0!|NUM!|NULL!|SPILL!|CALC!|FIELD!)|Err:\d{3}")
_DOUBTFUL = {
    "NA": 'R writes missing values so, unless with na = ""',
    "TRUE": "spreadsheets write true so",
    "FALSE": "spreadsheets write false so",
}


@dataclass(frozen=True)
class Stimuli:
    """The S sentences of a table, and their U units: regions or words.

    Attributes:
        sheet: the table.
        form: how it was read, for people.
        texts: the sentences (S).
        row: int64 (S,), the sheet's row of each sentence (of its first region).
        version: for each sentence, its column, if several columns hold sentences.
        documents: for each sentence, its text, if the table numbers sentences; sentences of one text are
            consecutive.
        first: int64 (S + 1,), the first unit of each sentence.
        start, end: int64 (U,), the characters of units in their sentences.
        unit_row: int64 (U,), the sheet's row of each unit.
        region: int64 (U,), the number of the region that each unit is, or is in, from 1.
        in_region: int64 (U,), the place of a word in its region, from 1.
        renamed: columns given for ``item`` and ``condition``, if the table has no columns of exactly these
            names.
        new: the columns that identify units and are not in the table: ``region`` and the like.
        words: whether units are words.
        notes: doubts about the table, each a line for people.
    """

    sheet: Sheet
    form: str
    texts: list[str]
    row: NDArray[np.int64]
    version: list[str] | None
    documents: list[str] | None
    first: NDArray[np.int64]
    start: NDArray[np.int64]
    end: NDArray[np.int64]
    unit_row: NDArray[np.int64]
    region: NDArray[np.int64]
    in_region: NDArray[np.int64]
    renamed: Mapping[str, int]
    new: tuple[str, ...]
    words: bool
    notes: tuple[str, ...]

    def exclude_empty(self, rejects: Rejects) -> None:
        """Record the sentences without a word, which have no score."""
        for i, (text, row) in enumerate(zip(self.texts, self.row.tolist(), strict=True)):
            if not text.strip():
                reason = f"no words in {self.version[i]}" if self.version else "no words"
                rejects.exclude(reason, file=self.sheet.name, line=self.sheet.numbers[row], text=text)

    def spans(self, sentence: int) -> list[tuple[int, int]]:
        """The character spans of a sentence's units."""
        own = slice(self.first[sentence], self.first[sentence + 1])
        return list(zip(self.start[own].tolist(), self.end[own].tolist(), strict=True))

    @property
    def of(self) -> NDArray[np.int64]:
        """The sentence of each unit: int64 (U,)."""
        return np.repeat(np.arange(len(self.texts)), np.diff(self.first))

    def unit_texts(self) -> list[str]:
        """The texts of all units."""
        places = zip(self.of.tolist(), self.start.tolist(), self.end.tolist(), strict=True)
        return [self.texts[sentence][start:end] for sentence, start, end in places]


@dataclass
class _Columns:
    """The columns of a sheet by their roles."""

    sheet: Sheet
    given: Mapping[str, str]
    notes: list[str] = field(default_factory=list)

    def __post_init__(self) -> None:
        if unknown := set(self.given) - ROLES.keys():
            raise PdtoolsError(f"--column {min(unknown)}: must be one of {', '.join(ROLES)}")
        for role in self.given:  # including unused ones: item and condition of wide tables
            self.all(role)

    def named(self, name: str) -> list[int]:
        """The columns with a name: exact matches, or else without regard to case."""
        exact = [i for i, each in enumerate(self.sheet.columns) if each == name]
        folded = name.strip().casefold()
        return exact or [i for i, each in enumerate(self.sheet.columns) if each.casefold() == folded]

    def all(self, role: str) -> list[int]:
        """The columns with this role; none if there are none and none was requested."""
        if role not in self.given:
            names = [name for name in ROLES[role] if self.named(name)][:1]
        elif role == "sentence" and not self.named(self.given[role]):
            names = self.given[role].split(",")
        else:
            names = [self.given[role]]
        found = []
        for name in names:
            places = self.named(name)
            if not places:
                there = ", ".join(filter(None, self.sheet.columns))
                raise InputError(f"no column {name!r} in the header", file=self.sheet.name, hint=there)
            if len(places) > 1:
                reason = f"{len(places)} columns {name!r} in the header"
                raise InputError(reason, file=self.sheet.name, hint="rename one of them")
            found += places
        return found

    def one(self, role: str) -> int | None:
        """The column with this role, if there is one."""
        return next(iter(self.all(role)), None)

    def has(self, role: str) -> bool:
        """Return whether there is a column with this role, or several."""
        return role in self.given or any(map(self.named, ROLES[role]))

    def called(self, place: int) -> str:
        """A column's name, for people."""
        return self.sheet.columns[place]

    def keys(self, place: int) -> list[str]:
        """The cells of a column that says which sentence a row belongs to, without spaces around them.

        Raises:
            InputError: for the error of a formula.
        """
        return self._checked(place, [text.strip() for text in self.sheet.texts(place)])

    def texts(self, place: int) -> list[str]:
        """The cells of a column of text, with notes on what may have been another text.

        Raises:
            InputError: for the error of a formula, and a truth value, date or whatever else is no text.
        """
        texts = self._checked(place, self.sheet.texts(place))
        doubts: dict[str, list[int]] = {}
        numbers: list[int] = []
        for row, (value, text) in enumerate(zip(self.sheet.cells[place], texts, strict=True)):
            if text in _DOUBTFUL:
                doubts.setdefault(text, []).append(row)
            if isinstance(value, str) or not text:
                continue
            if isinstance(value, bool) or not isinstance(value, Number):
                kind = "a truth value" if isinstance(value, bool) else f"of the type {type(value).__name__}"
                hint = "make the column one of text, and enter the cell again"
                raise self._not_text(place, row, f"{text}, {kind}, not text", hint)
            numbers.append(row)
        why = "a spreadsheet may show 0.5 as 50%, and 7 as 007"
        self.note(f"{self.called(place)} is a number in", numbers, f"read as it stands: {why}")
        for text, rows in doubts.items():
            self.note(f"{self.called(place)} is {text} in", rows, f"read as it stands: {_DOUBTFUL[text]}")
        return texts

    def _checked(self, place: int, texts: list[str]) -> list[str]:
        cells = self.sheet.cells[place] if self.sheet.form == "pandas" else []
        if missing := [str(self.sheet.numbers[row]) for row, cell in enumerate(cells) if cell is None]:
            some = ", ".join(missing[:8]) + (", …" if len(missing) > 8 else "")
            reason = f"{self.called(place)!r} is missing in {len(missing)} of {len(cells)} rows: {some}"
            raise InputError(reason, file=self.sheet.name, hint=MISSING_IN_PANDAS)
        for row, text in enumerate(texts):
            if text[:1] in ("#", "E") and _ERROR.fullmatch(text.strip()):
                raise self._not_text(place, row, f"{text.strip()}, the error of a formula", "mend it")
        return texts

    def _not_text(self, place: int, row: int, what: str, hint: str) -> InputError:
        line = self.sheet.numbers[row]
        return InputError(f"{self.called(place)} is {what}", file=self.sheet.name, line=line, hint=hint)

    def note(self, what: str, rows: Sequence[int], why: str) -> None:
        """Note a doubt about rows, if there are any."""
        if rows:
            others = f" and {len(rows) - 1} more" if len(rows) > 1 else ""
            self.notes.append(f"{what} row {self.sheet.numbers[rows[0]]}{others}, {why}")


@dataclass
class _Found:
    """Sentences and their units, as they are collected."""

    texts: list[str] = field(default_factory=list)
    row: list[int] = field(default_factory=list)
    version: list[str] = field(default_factory=list)
    documents: list[str] = field(default_factory=list)
    counts: list[int] = field(default_factory=list)
    units: list[tuple[int, int, int, int, int]] = field(
        default_factory=list
    )  # start, end, row, region, place

    def add(self, text: str, spans: Sequence[tuple[int, int]], rows: Sequence[int], words: bool) -> None:
        """Add a sentence with its regions, or their words, and the row of each region."""
        before = len(self.units)
        for region, ((start, end), row) in enumerate(zip(spans, rows, strict=True), start=1):
            if words:
                found = enumerate(_WORD.finditer(text, start, end), start=1)
                self.units += ((*word.span(), row, region, place) for place, word in found)
            else:
                self.units.append((start, end, row, region, 1))
        self.texts.append(text)
        self.row.append(min(rows, default=0))
        self.counts.append(len(self.units) - before)


def read_stimuli(
    sheet: Sheet, columns: Mapping[str, str] | None = None, *, words: bool = False, glue: str = " "
) -> Stimuli:
    """Read the sentences of a table.

    Args:
        sheet: the table.
        columns: names of columns by their roles (:data:`ROLES`), if not the default ones; several names for
            ``sentence`` are separated by commas.
        words: whether units are words, of which a region may have several, instead of regions.
        glue: for a row per region or word, the string between them; empty: only the spaces at their texts'
            ends.

    Raises:
        InputError: naming the row, if a table does not determine its sentences, or does so twice.
        PdtoolsError: for a name that is not in :data:`ROLES`.
    """
    found = _Columns(sheet, columns or {})
    several = found.all("sentence")
    of_regions = found.has("text") and (found.has("region") or found.has("number"))
    of_words = found.has("word") and ("word" in found.given or not of_regions) and "text" not in found.given
    if len(several) < 2 and (of_regions or of_words):
        made = _long(found, of_words, words, glue)
    else:
        made = _wide(found, several, words, glue)
    if not made.texts:
        raise InputError("there is no row below the header", file=sheet.name)
    return made


def _made(
    columns: _Columns,
    found: _Found,
    form: str,
    new: Iterable[str],
    *,
    words: bool,
    counted: Sequence[str] = (),
) -> Stimuli:
    units = np.array(found.units, np.int64).reshape(-1, 5).T
    more = ["word", "word_in_region", "word_number"] if words else []
    renamed = {}
    for role in ("item", "condition"):
        if role not in columns.given:
            continue
        place = columns.all(role)[0]
        if role not in columns.sheet.columns:
            renamed[role] = place
        elif place not in columns.named(role):
            why = f"pdtools view takes {role}, which is in the table too: rename that one"
            columns.notes.append(f"--column {role}={columns.called(place)}: {why}")
    return Stimuli(
        sheet=columns.sheet,
        form=f"{columns.sheet.form}, {form}; {len(found.texts)} sentences",
        texts=found.texts,
        row=np.array(found.row, np.int64),
        version=found.version or None,
        documents=found.documents or None,
        first=np.append(0, np.cumsum(found.counts)).astype(np.int64),
        start=units[0],
        end=units[1],
        unit_row=units[2],
        region=units[3],
        in_region=units[4],
        renamed=renamed,
        new=tuple(name for name in (*renamed, *new, *more) if name not in counted),
        words=words,
        notes=tuple(columns.notes),
    )


def _plain(text: str) -> str:
    """A text on one line, and without the backslashes that some programs write before apostrophes."""
    return _BREAKS.sub(" ", text).replace("\\'", "'")


# --- a row for each sentence ------------------------------------------------------------------


def _wide(columns: _Columns, places: Sequence[int], words: bool, glue: str) -> Stimuli:
    places = places or columns.all("text")
    sheet = columns.sheet
    if not places:
        reason = f"no column sentence, text or word in the header ({', '.join(filter(None, sheet.columns))})"
        one_of_many = f"{sheet.form}; " if " sheets " in sheet.form else ""
        raise InputError(reason, file=sheet.name, hint=one_of_many + _HINT)
    if glue not in ("", " "):
        reason = f"--glue {glue!r} is for a row for each region or word"
        raise InputError(
            reason, file=sheet.name, hint="of regions in a sentence the spaces beside bars count"
        )
    texts, names = [columns.texts(place) for place in places], ", ".join(map(columns.called, places))
    known: dict[int, int] = {}
    whole = [hash(repr(cells)) for cells in zip(*sheet.cells, strict=True)]
    twice = [row for row, cells in enumerate(whole) if known.setdefault(cells, row) != row]
    columns.note("an earlier row is there again in", twice, "and counts again")
    bars = any("|" in text for column in texts for text in column)
    brackets = not bars and any("[" in text for column in texts for text in column)
    found, close = _Found(), 0
    n_regions: list[list[int]] = []
    said: set[str] = set()
    again: list[int] = []
    for row, own in enumerate(zip(*texts, strict=True)):
        n_regions.append([])
        for place, cell in zip(places, own, strict=True):
            if bars and (both := _BRACKETS.search(cell)):
                reason = f"brackets, {both[0]!r}, in a table with bars between regions"
                hint = (
                    "mark regions by | or by [ ]; text with brackets needs a table with a row for each region"
                )
                raise InputError(reason, file=sheet.name, line=sheet.numbers[row], hint=hint)
            regions = _between_brackets(cell, sheet, row) if brackets else cell.split("|") if bars else [cell]
            text, spans = _as_they_stand(regions)
            close += sum(0 < end == start < after for (_, end), (start, after) in pairwise(spans))
            found.add(text, spans, [row] * len(spans), words)
            if text.strip():  # an empty cell is said to have no words
                n_regions[-1].append(len(spans))
            if len(places) > 1:
                found.version.append(columns.called(place))
                if text in said and known[whole[row]] == row and row not in again[-1:]:
                    again.append(row)
                said |= {text} - {""}
    columns.note(f"a sentence of {names} is there again in", again, "and counts again")
    _note_items(columns, n_regions)
    marks = "|" if bars else "[ ]" if brackets else ""
    form = f"wide: a sentence a row ({names})"
    form += f", regions between {marks}" if marks else ""
    form += f" ({close} borders without a space)" if close else ""
    version = "version" if columns.has("condition") else "condition"
    new = [*([version] if len(places) > 1 else []), *(["region", "region_text"] if marks else [])]
    return _made(columns, found, form, new, words=words)


def _note_items(columns: _Columns, n_regions: Sequence[Sequence[int]]) -> None:
    """Note rows without an item, and rows with more or fewer regions than their item has in the first one.

    Args:
        columns: the columns.
        n_regions: for each row, the number of regions of each of its sentences that has words.
    """
    names = [columns.given["item"]] if "item" in columns.given else ROLES["item"]
    places = next(filter(None, map(columns.named, names)), [])
    items = list(map(str, range(len(n_regions))))
    if len(places) == 1 and any(cells := [text.strip() for text in columns.sheet.texts(places[0])]):
        items = cells
        why = "and conditions are compared within items: of merged cells only the first has the value"
        columns.note(
            f"{columns.called(places[0])} is empty in", [i for i, each in enumerate(items) if not each], why
        )
    first: dict[str, int] = {}
    uneven = [
        row
        for row, (item, numbers) in enumerate(zip(items, n_regions, strict=True))
        if item and numbers and set(numbers) != {first.setdefault(item, numbers[0])}
    ]
    why = "and regions are compared by number: an empty one (| |) keeps the place"
    columns.note("more or fewer regions than its item has elsewhere are in", uneven, why)


_BRACKETS = re.compile(r"\[([^\[\]]*)\]")


def _as_they_stand(regions: Sequence[str]) -> tuple[str, list[tuple[int, int]]]:
    """Join regions into a sentence, with a space between two only if there is one at their border.

    Empty regions are empty spans.
    """
    text, is_apart = "", False
    spans = []
    for region in map(_plain, regions):
        own = region.strip()
        is_apart |= region != region.lstrip()
        if own:
            text += " " * bool(text and is_apart)
            is_apart = region != region.rstrip()
        spans.append((len(text), len(text) + len(own)))
        text += own
    return text, spans


def _between_brackets(cell: str, sheet: Sheet, row: int) -> list[str]:
    """Split a cell into bracketed regions and the text between them; mere spaces go to the region after."""
    rest = _BRACKETS.sub("", cell)
    if "[" in rest or "]" in rest:
        reason = "brackets that do not match, or within others"
        raise InputError(
            reason, file=sheet.name, line=sheet.numbers[row], hint="regions may stand between | too"
        )
    regions, before = [], ""
    for place, part in enumerate(_BRACKETS.split(cell)):
        if place % 2 == 0 and not part.strip():
            before = part
            continue
        regions.append(before + part)
        before = ""
    return regions


# --- a row for each region, or word -----------------------------------------------------------


def _glued(texts: Sequence[str], glue: str) -> tuple[str, list[tuple[int, int]]]:
    """Join regions into a sentence; empty regions are empty spans."""
    parts: list[str] = []
    spans, at = [], 0
    for text in texts:
        text = _plain(text)
        if glue:
            text = text.strip()
        if text and at:
            parts.append(glue)
            at += len(glue)
        first = at + len(text) - len(text.lstrip())
        spans.append((first, max(first, at + len(text.rstrip()))))
        parts.append(text)
        at += len(text)
    return "".join(parts), spans


def _long(columns: _Columns, of_words: bool, words: bool, glue: str) -> Stimuli:
    sheet = columns.sheet
    unit = columns.one("word" if of_words else "text")
    assert unit is not None
    texts = columns.texts(unit)
    own = [columns.one(role) for role in ("item", "condition", "list", "sentence")]
    used = [place for place in own if place is not None]
    sentence = own[-1]
    of_sentence = [] if sentence is None else columns.keys(sentence)
    is_numbered = bool(of_sentence) and all(map(_WHOLE.fullmatch, of_sentence))
    if of_sentence and not is_numbered:
        of_sentence = columns.texts(used[-1])
    keys = [columns.keys(place) for place in used]
    if not keys:
        reason = "no column item in the header: which rows make a sentence?"
        raise InputError(reason, file=sheet.name, hint="--column item=NAME")
    groups: dict[tuple[str, ...], list[int]] = {}
    for row, key in enumerate(zip(*keys, strict=True)):
        groups.setdefault(key, []).append(row)
    _check_named(columns, used, groups)
    places = _Places(columns)
    found = _Found()
    again: list[int] = []
    doubled: list[int] = []
    if is_numbered:
        documents: dict[tuple[str, ...], list[tuple[str, ...]]] = {}
        for key in groups:
            documents.setdefault(key[:-1], []).append(key)
        ordered = [key for own in documents.values() for key in sorted(own, key=lambda k: float(k[-1]))]
    else:
        ordered = list(groups)
    for key in ordered:
        rows = places.in_order(groups[key])
        if of_sentence and not is_numbered:
            text, spans = _located(columns, of_sentence[rows[0]], [texts[row] for row in rows], rows)
        else:
            text, spans = _glued([texts[row] for row in rows], glue)
        found.add(text, spans, rows, words and not of_words)
        if places.by is None:  # else no place of a sentence is there twice
            again += [b for a, b in pairwise(rows) if all(cells[a] == cells[b] for cells in sheet.cells)]
            counts = Counter(texts[row] for row in rows).values()
            doubled += rows[:1] if len(counts) > 1 and min(counts) > 1 else []
        if is_numbered:
            found.documents.append(" ".join(key[:-1]) or sheet.name)
    columns.note("the row before it is there again in", again, "and counts again")
    apart = "which may be several sentences: --column list=NAME says what tells them apart"
    columns.note("each text is there twice or more in the sentence that begins in", doubled, apart)
    form = f"long: a {'word' if of_words else 'region'} a row ({columns.called(unit)}), {places.form}"
    if not (words and of_words):
        return _made(columns, found, form, [], words=words)
    named = [columns.called(place).casefold() for place in (unit, places.by) if place is not None]
    return _made(columns, found, form, [], words=True, counted=["word_in_region", *named])


def _check_named(columns: _Columns, used: Sequence[int], groups: Mapping[tuple[str, ...], list[int]]) -> None:
    """Refuse rows that lack the item, or what others of their item have, such as merged cells leave."""
    n_items = int(columns.has("item"))

    def within(key: tuple[str, ...], depth: int) -> tuple[int, tuple[str, ...]]:
        return depth, key[:n_items] if depth else ()

    present = {within(key, depth) for key in groups for depth, cell in enumerate(key) if cell}
    for key, rows in groups.items():
        for depth, cell in enumerate(key):
            if not cell and within(key, depth) in present:
                hint = "of merged cells only the first has the value: fill the others"
                line = columns.sheet.numbers[rows[0]]
                reason = f"{columns.called(used[depth])} is empty"
                raise InputError(reason, file=columns.sheet.name, line=line, hint=hint)


class _Places:
    """The order of a sentence's rows: by their numbers, or else as in the table."""

    def __init__(self, columns: _Columns) -> None:
        self._columns = columns
        region = columns.one("region")
        self.by = columns.one("number")
        names = [] if region is None else columns.keys(region)
        if self.by is None and names and all(map(_WHOLE.fullmatch, names)):
            self.by = region
        self._is_number = self.by is not None
        self.by = region if self.by is None else self.by
        self._cells = None if self.by is None else columns.sheet.texts(self.by)
        self.form = "in the order of the rows"
        if self._is_number:
            assert self.by is not None
            self.form = f"in the order of {columns.called(self.by)}"

    def in_order(self, rows: list[int]) -> list[int]:
        """Sort the rows of a sentence.

        Raises:
            InputError: for two of one place, and values that are no numbers.
        """
        if self._cells is None:
            return rows
        sheet, known = self._columns.sheet, dict[object, int]()
        assert self.by is not None
        name = self._columns.called(self.by)
        for row in rows:
            cell = self._cells[row].strip()
            if self._is_number and not _WHOLE.fullmatch(cell):
                reason = f"{name} is {cell!r}, not a whole number"
                raise InputError(reason, file=sheet.name, line=sheet.numbers[row])
            before = known.setdefault(float(cell) if self._is_number else cell, row)
            if before != row:
                reason = f"{name} {cell} of the same sentence is in row {sheet.numbers[before]} already"
                hint = "item, condition, list and sentence tell sentences apart: --column condition=NAME"
                if not self._is_number:
                    hint = "--column number=NAME says which column numbers the rows of a sentence"
                raise InputError(reason, file=sheet.name, line=sheet.numbers[row], hint=hint)
        return [row for _, row in sorted(known.items())] if self._is_number else rows


def _located(
    columns: _Columns, sentence: str, texts: Sequence[str], rows: Sequence[int]
) -> tuple[str, list[tuple[int, int]]]:
    """Find the regions of a sentence in it."""
    text = _plain(sentence).strip()
    spans, at = [], 0
    for region, row in zip(texts, rows, strict=True):
        own = _plain(region).strip()
        if own:
            while at < len(text) and text[at].isspace():
                at += 1
        if not text.startswith(own, at):
            reason = f"{own!r} is not what comes next in the sentence: {text[at:][:40]!r}"
            raise InputError(reason, file=columns.sheet.name, line=columns.sheet.numbers[row])
        spans.append((at, at + len(own)))
        at += len(own)
    if text[at:].strip():
        reason = f"the rows do not make the sentence, which goes on: {text[at:].strip()[:40]!r}"
        hint = "a table with a row for each sentence has no column word: rename it"
        line = columns.sheet.numbers[rows[-1]]
        raise InputError(reason, file=columns.sheet.name, line=line, hint=hint)
    return text, spans
