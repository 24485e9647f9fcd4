"""Reading times as corpora publish them: a table with a row for each word that a subject read."""

from __future__ import annotations

import hashlib
import itertools
import math
import re
import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, fields, replace

import numpy as np
from numpy.typing import NDArray

from pdtools.errors import InputError, PdtoolsError
from pdtools.files.packed import ending
from pdtools.files.tables import Delimited
from pdtools.tokenization import Sentence, join_words


@dataclass(frozen=True, kw_only=True)
class Columns:
    """The names of a table's columns by role. Several, joined by ``+``, are one column together.

    Attributes:
        item: the text, or sentence, in which a word is read.
        number: the word's place in it: whole numbers without gaps.
        word: as it was shown, punctuation included.
        subject: the reader; None: not given, and times are means over subjects.
        time: the reading time, in milliseconds.
        sentence: the number of its sentence; None: sentences end by their punctuation.
        group: the unit that is held out, drawn and swapped together; None: the item.
        condition: the kind of item; required if effects are predicted.
        roi: number of words between the critical word and this one; required then too.
        surprisal: columns of bits of the word by other models, with commas between them.
    """

    item: str = "item"
    number: str = "word_number"
    word: str = "word"
    subject: str | None = "subject"
    time: str = "time"
    sentence: str | None = None
    group: str | None = None
    condition: str = "condition"
    roi: str = "roi"
    surprisal: str | None = None


# Columns that are only required on demand.
_ON_DEMAND = frozenset({"condition", "roi"})
# Published tables, recognized by their columns: Natural Stories' processed_RTs.tsv (Futrell et al. 2021;
# its words are in all_stories.tok), Provo's eye-tracking data (Luke and Christianson 2018; first-pass), the
# SAP benchmark's self-paced reading (Huang et al. 2024).
FORMATS: dict[str, Columns] = {
    "tidy": Columns(),
    "natural-stories": Columns(number="zone", subject="WorkerId", time="RT"),
    "provo": Columns(
        item="Text_ID",
        number="IA_ID",
        word="IA_LABEL",
        subject="Participant_ID",
        time="IA_FIRST_RUN_DWELL_TIME",
    ),
    "sap": Columns(item="Type+item", number="WordPosition", word="EachWord", subject="MD5", time="RT"),
}
# Nobody reads a word in fewer milliseconds; a greater share of such times is doubtful.
_FEW, _MANY = 10, 0.1
NO_TIME = frozenset({"", "NA", "NaN", "nan", "."})
_SENTENCE_END = re.compile(r".*[.?!…]+[\"'”’»)\]]*")
_ABBREVIATION = re.compile(
    r"[\"'“‘(\[]*(?:[A-Z]|Mr|Mrs|Ms|Dr|Prof|St|Jr|Sr|Gen|Col|Capt|Lt|vs|cf|e\.g|i\.e)\."
)


@dataclass(frozen=True, slots=True)
class TimedText:
    """The text of an item, as its subjects read it.

    Attributes:
        item: its name.
        first: the number of its first word.
        words: as they were shown.
        sentences: int64 (words,), the index of each word's sentence.
        group: the group of items that are held out, drawn and swapped together; empty: the item alone.
    """

    item: str
    first: int
    words: tuple[str, ...]
    sentences: NDArray[np.int64]
    group: str = ""

    @property
    def written(self) -> Sentence:
        """The words with a space between all of them."""
        return join_words(self.words, "ptb")


@dataclass(frozen=True)
class ReadingTimes:
    """Texts, and the reading times of their words.

    Attributes:
        texts: the texts of all items, W words together.
        word: int64 (n,), the index of each observation's word, counted through the texts.
        subject: int64 (n,), the index of its reader in ``subjects``; no two observations have the same word
            and subject.
        time: float64 (n,), milliseconds.
        subjects: names; a single empty one if times are means over subjects.
        without_time: number of rows without a time (a word that was skipped).
        columns: the columns that were read.
        labels: cells of the table's other columns, by their names, each (n,).
        untimed: the same of the rows without a time.
        untimed_word: int64, the index of the word of each row without a time.
        notes: doubtful readings of the table, each a line for people.
    """

    texts: tuple[TimedText, ...]
    word: NDArray[np.int64]
    subject: NDArray[np.int64]
    time: NDArray[np.float64]
    subjects: tuple[str, ...]
    without_time: int
    columns: Columns
    labels: Mapping[str, NDArray[np.object_]] = field(default_factory=dict)
    untimed: Mapping[str, NDArray[np.object_]] = field(default_factory=dict)
    untimed_word: NDArray[np.int64] = field(default_factory=lambda: np.zeros(0, np.int64))
    notes: tuple[str, ...] = ()

    @property
    def sha256(self) -> str:
        """Digest of all words and times."""
        digest = hashlib.sha256(repr([(text.item, text.words) for text in self.texts]).encode())
        for values in (self.word, self.subject, self.time):
            digest.update(values.tobytes())
        return digest.hexdigest()

    @property
    def text_of_word(self) -> NDArray[np.int64]:
        """The index of each word's text: int64 (W,)."""
        return np.repeat(np.arange(len(self.texts)), [len(text.words) for text in self.texts])

    @property
    def group_of_word(self) -> NDArray[np.int64]:
        """The index of each word's group of items: int64 (W,)."""
        names = [text.group or text.item for text in self.texts]
        return np.unique(names, return_inverse=True)[1][self.text_of_word]

    def label(self, column: str, *, untimed: bool = False) -> NDArray[np.object_]:
        """Values of a column, or of several joined by ``+``, for each observation: (n,).

        Args:
            column: its name.
            untimed: whether to give those of the rows without a time instead.

        Raises:
            PdtoolsError: if there is no such column.
        """
        parts = column.split("+")
        if absent := [name for name in parts if name not in self.labels]:
            known = ", ".join(self.labels) or "none"
            raise PdtoolsError(
                f"no column {absent[0]} of TIMES to tell words by (its other columns: {known}): "
                f"name it, as in --column condition=Type"
            )
        cells = [(self.untimed if untimed else self.labels)[name] for name in parts]
        return np.array([" ".join(each) for each in zip(*cells, strict=True)], dtype=object)


def columns_of(header: Sequence[str], name: str | None, other: Mapping[str, str], file: str) -> Columns:
    """Choose the columns to read.

    Args:
        header: the table's header.
        name: a name in :data:`FORMATS`; None: the first format whose columns are all there, or else all but
            an unnamed one of subjects.
        other: names of columns in place of the format's, by :class:`Columns`' attributes.
        file: the file to name.

    Raises:
        InputError: if one of the columns is missing.
        PdtoolsError: if there is no such attribute.
    """
    if unknown := set(other) - {each.name for each in fields(Columns)}:
        known = ", ".join(each.name for each in fields(Columns))
        raise PdtoolsError(f"--column {min(unknown)}: must be one of {known}")
    found = {each: replace(columns, **other) for each, columns in FORMATS.items()}
    choices = [found[name]] if name else list(found.values())
    if "subject" not in other:
        choices += [replace(columns, subject=None) for columns in choices]
    absent: list[list[str]] = [_missing(columns, header) for columns in choices]
    if all(absent):
        fewest = min(range(len(absent)), key=lambda i: len(absent[i]))
        lacking = ", ".join(absent[fewest])
        hint = "name the table's own columns: --column time=RT, and so on"
        raise InputError(f"no column {lacking} in the header", file=file, line=1, hint=hint)
    columns = choices[next(i for i, lacking in enumerate(absent) if not lacking)]
    if columns.sentence is None and "sentence" in header and "item" in columns.item.split("+"):
        columns = replace(columns, sentence="sentence")
    if columns.group is None and columns.item != "item" and "item" in columns.item.split("+"):
        columns = replace(columns, group="item")  # versions of an item are no items of their own
    return columns


def _missing(columns: Columns, header: Sequence[str]) -> list[str]:
    return [name for names in _named(columns).values() for name in names if name not in header]


def _named(columns: Columns) -> dict[str, list[str]]:
    """Names of the required columns, by role."""
    asked = {each.name: getattr(columns, each.name) for each in fields(columns)}
    return {
        name: value.split("," if name == "surprisal" else "+")
        for name, value in asked.items()
        if value and not (name in _ON_DEMAND and value == getattr(Columns, name))
    }


def read_times(
    file: str,
    *,
    format: str | None = None,
    columns: Mapping[str, str] | None = None,
    texts: str | None = None,
) -> ReadingTimes:
    """Read a table of reading times, TSV or (``.csv``) CSV.

    Args:
        file: a file with a header.
        format, columns: see :func:`columns_of`.
        texts: a table of the words alone, if some were not read by anyone; its columns have the same names.

    Raises:
        InputError: naming the line, if a column or number is missing, two rows do not agree or have the same
            subject and word, a text has a gap, or there is no observation.
    """
    words = _Words()
    notes: list[str] = []
    of_texts: Columns | None = None
    if texts is not None:
        of_words = _Table(texts)
        # A table of words only needs the columns of words' places.
        measured = ("subject", "time", "surprisal", *_ON_DEMAND)
        known = {name: of for name, of in (columns or {}).items() if name not in measured}
        known |= {"subject": of_words.header[0], "time": of_words.header[0]}
        of_texts = columns_of(of_words.header, format, known, texts)
        for line, _, row in of_words.rows(of_texts):
            words.add(row, line, texts)
        notes += of_words.notes
    table = _Table(file)
    own = columns_of(table.header, format, columns or {}, file)
    if own.sentence is not None and of_texts is not None and of_texts.sentence is None:
        own = replace(own, sentence=None)  # words that nobody read would be in no sentence
        notes.append(f"{file}: its column sentence is not read: {texts}, which gives the texts, has none")
    keys: list[tuple[str, int]] = []
    subjects: dict[str, int] = {}
    read_by: list[int] = []
    every_time: list[float] = []
    lines: list[int] = []
    others = _other_columns(table.header, own)
    kept: list[list[str]] = [[] for _ in others]
    for line, cells, row in table.rows(own):
        words.add(row, line, file)
        every_time.append(_time(row.time, line, file, own.time))
        keys.append((row.item, row.number))
        read_by.append(subjects.setdefault(row.subject, len(subjects)))
        lines.append(line)
        for column, at in zip(kept, others.values(), strict=True):
            column.append(sys.intern(cells[at].strip()))
    time = np.array(every_time)
    has_time = ~np.isnan(time)
    if not has_time.any():
        raise InputError("there is no reading time in it", file=file)
    made, numbers = words.texts(file)
    word = np.fromiter((numbers[key] for key in keys), np.int64, len(keys))
    subject = np.array(read_by)
    names = tuple(subjects)
    if (again := _first_again(word * len(names) + subject)) is not None:
        first, second = again
        (item, number), who = keys[second], names[subject[second]]
        reason = f"word {number} of item {item} by subject {who} is in line {lines[first]} already"
        hint = (
            "leave one out; of a subject who read it twice: --column subject=A+B takes two columns together"
        )
        if own.subject is None:
            reason = (
                f"word {number} of item {item} is in line {lines[first]} already, and no column of subjects"
            )
            hint = "name that column: --column subject=participant, and so on"
        raise InputError(reason, file=file, line=lines[second], hint=hint)
    notes += table.notes
    if (few := int(((time > 0) & (time < _FEW)).sum())) > _MANY * (time > 0).sum():
        notes.append(
            f"{file}: {few} times are below {_FEW} ms: {own.time} has to be in milliseconds,"
            " not in seconds or logarithms"
        )
    labels = {name: np.array(cells, dtype=object) for name, cells in zip(others, kept, strict=True)}
    there, subject = np.unique(subject[has_time], return_inverse=True)  # subjects may have no time at all
    return ReadingTimes(
        texts=made,
        word=word[has_time],
        subject=subject,
        time=time[has_time],
        subjects=tuple(names[i] for i in there),
        without_time=int((~has_time).sum()),
        columns=own,
        labels={name: cells[has_time] for name, cells in labels.items()},
        untimed={name: cells[~has_time] for name, cells in labels.items()},
        untimed_word=word[~has_time],
        notes=tuple(notes),
    )


def _other_columns(header: Sequence[str], columns: Columns) -> dict[str, int]:
    """Places of the columns that observations keep: all that have a name and no role."""
    own = {columns.item, columns.number, columns.word, columns.subject, columns.time, ""}
    return {name: header.index(name) for name in header if name not in own}


def _first_again(keys: NDArray[np.int64]) -> tuple[int, int] | None:
    """The first repeated key, with its earlier place: (earlier, place)."""
    order = np.argsort(keys, kind="stable")
    same = np.flatnonzero(keys[order][1:] == keys[order][:-1])
    if not len(same):
        return None
    at = same[order[same + 1].argmin()]
    return int(order[at]), int(order[at + 1])


@dataclass(frozen=True, slots=True)
class _Row:
    item: str
    number: int
    word: str
    subject: str
    time: str
    sentence: str | None
    group: str


class _Table:
    """A table's rows by the roles of its columns; blank lines are skipped.

    Attributes:
        header: the names of columns.
        notes: doubtful readings, of quotes and (once all rows are read) of percent escapes, for people.
    """

    def __init__(self, file: str) -> None:
        if (kind := ending(file)) in (".xlsx", ".parquet"):
            raise InputError(f"{kind}: reading times are CSV or TSV", file=file, hint="save it as .csv")
        found = Delimited(file, "csv" if kind == ".csv" else "tsv")
        self.notes = [f"{file}: {found.doubt}"] if found.doubt else []
        self._file = file
        self._lines = ((line, cells) for line, cells in found if any(cells))
        line, self.header = next(self._lines, (1, []))
        if not self.header:
            raise InputError("there is no header", file=file)
        if found.delimiter == ";":
            hint = "save it with commas between cells, and decimal points, or as TSV"
            raise InputError("semicolons between cells", file=file, line=line, hint=hint)

    def rows(self, columns: Columns) -> Iterator[tuple[int, list[str], _Row]]:
        """The rows: line number, cells, and content by role."""
        decoded = 0
        places = {
            what: [self.header.index(name) for name in names] for what, names in _named(columns).items()
        }
        for line, cells in self._lines:
            if len(cells) != len(self.header):
                reason = f"{len(cells)} cells, where the header has {len(self.header)}"
                raise InputError(reason, file=self._file, line=line)
            found = {name: " ".join(cells[place].strip() for place in own) for name, own in places.items()}
            try:
                number = float(found["number"])
                if not number.is_integer():
                    raise ValueError
            except (ValueError, OverflowError) as error:
                reason = f"{columns.number} is {found['number']!r}, not a whole number"
                raise InputError(reason, file=self._file, line=line) from error
            word = _decoded(found["word"]).strip()
            decoded += word != found["word"]
            if not word:
                raise InputError(f"{columns.word} is empty", file=self._file, line=line)
            yield (
                line,
                cells,
                _Row(
                    found["item"],
                    int(number),
                    word,
                    found.get("subject", ""),
                    found["time"],
                    found.get("sentence"),
                    found.get("group", ""),
                ),
            )
        if decoded:
            self.notes.append(
                f"{self._file}: percent escapes in {decoded} rows are read as characters (%2C: a comma)"
            )


class _Words:
    """The words of items, collected from rows that repeat them."""

    def __init__(self) -> None:
        self._items: dict[str, dict[int, tuple[str, str | None]]] = {}
        self._groups: dict[str, str] = {}

    def add(self, row: _Row, line: int, file: str) -> None:
        """Add the word of a row."""
        content = (row.word, row.sentence)
        group = self._groups.setdefault(row.item, row.group) or row.group
        if row.group and group != row.group:
            reason = f"item {row.item} is of group {row.group} here, and of {group} before"
            raise InputError(reason, file=file, line=line)
        self._groups[row.item] = group
        known = self._items.setdefault(row.item, {}).setdefault(row.number, content)
        if known[0] != row.word or (None not in (known[1], row.sentence) and known != content):
            reason = f"word {row.number} of item {row.item} is {row.word!r} here, and {known[0]!r} before"
            if known[0] == row.word:
                reason = f"word {row.number} of item {row.item} is of another sentence than before"
            hint = "an item has one text: --column item=A+B takes two columns together"
            raise InputError(reason, file=file, line=line, hint=hint)

    def texts(self, file: str) -> tuple[tuple[TimedText, ...], dict[tuple[str, int], int]]:
        """All texts, and the index of each word of an item in all texts together."""
        texts: list[TimedText] = []
        places: dict[tuple[str, int], int] = {}
        for item, words in self._items.items():
            numbers = sorted(words)
            gap = next((n + 1 for n, after in itertools.pairwise(numbers) if after > n + 1), None)
            if gap is not None:
                hint = "give the texts, as a table of words, with --texts"
                raise InputError(f"item {item} has no word {gap}", file=file, hint=hint)
            places |= {(item, number): len(places) + i for i, number in enumerate(numbers)}
            shown = [words[number] for number in numbers]
            group = self._groups[item]
            texts.append(
                TimedText(item, numbers[0], tuple(word for word, _ in shown), _sentences(shown), group)
            )
        return tuple(texts), places


def _sentences(words: Sequence[tuple[str, str | None]]) -> NDArray[np.int64]:
    """The index of each word's sentence: by the table, or by the punctuation of the word before."""
    begins = np.zeros(len(words), np.int64)
    for i, ((before, of_before), (word, of)) in enumerate(itertools.pairwise(words), start=1):
        if of_before is not None and of is not None:
            begins[i] = of_before != of
        else:
            ended = _SENTENCE_END.fullmatch(before) and not _ABBREVIATION.fullmatch(before)
            begins[i] = bool(ended) and not word[:1].islower()
    return begins.cumsum()


def _time(cell: str, line: int, file: str, column: str) -> float:
    if cell in NO_TIME:
        return math.nan
    try:
        value = float(cell)
    except ValueError as error:
        raise InputError(f"{column} is {cell!r}, not a number", file=file, line=line) from error
    if not math.isfinite(value) or value < 0:
        raise InputError(f"{column} is {cell}, not a time", file=file, line=line)
    return value


_ESCAPES = re.compile(r"(?:%[0-9A-Fa-f]{2})+")


def _decoded(word: str) -> str:
    """A word without percent escapes, which Ibex writes: ``%2C`` for a comma."""

    def character(escapes: re.Match[str]) -> str:
        try:
            text = bytes.fromhex(escapes[0].replace("%", "")).decode()
        except UnicodeDecodeError:
            return escapes[0]
        return text if text.isprintable() else escapes[0]

    return _ESCAPES.sub(character, word)
