"""Tables of stimuli with models' surprisals, for pandas and as files."""

from __future__ import annotations

import math
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from pdtools.errors import InputError
from pdtools.files import atomic_path, atomic_table
from pdtools.files.packed import ending
from pdtools.files.tables import Sheet, cell_text
from pdtools.stimuli.frequency import Frequency, frequencies_of
from pdtools.stimuli.table import Stimuli

if TYPE_CHECKING:
    import pandas as pd
    import pyarrow as pa

    from pdtools.stimuli.surprisals import Surprisals

SPILLED = (1, 2)
"""Number of previous words whose surprisal, length and frequency are repeated in a word's row."""
MILLISECONDS = ("ms", "ms_low", "ms_high")
"""Columns of predicted reading times."""
PREDICTED = "ms: predicted by a linear link, fitted to another corpus, from surprisal alone; not measured"
"""The line that goes with them, for people."""
UNIT = "unit"
"""The column of the unit of surprisals; without it they are in bits."""
TABLES = (".csv", ".tsv", ".parquet")
"""Endings of the tables that are written."""
_NUMBER = re.compile(r"-?(0|[1-9][0-9]*)(\.[0-9]+)?")
_MOST_DIGITS = 15
_COUNTS = ("n_tokens", "unknown", "crossing", "seen", *(f"length_{words}" for words in SPILLED))


@dataclass(frozen=True)
class Made:
    """The rows of a table, some perhaps repeated, and new columns.

    Attributes:
        sheet: the table.
        rows: int64 (n,), indices of the sheet's rows.
        columns: n values each: text, or float64, with NaN for missing ones.
    """

    sheet: Sheet
    rows: NDArray[np.int64]
    columns: Mapping[str, list[Any]]


def new_columns(
    stimuli: Stimuli,
    *,
    frequency: bool = False,
    parses: bool = False,
    slopes: bool = False,
    nats: bool = False,
) -> list[str]:
    """The columns added to a table, except those that only some models have.

    Columns:
        model: the name of its folder.
        region, region_text: number, from 1, and words of the region.
        surprisal: bits (``--nats``: nats), summed over tokens; 0 for an empty region; none if no token begins
            in it. The end of the sentence is in no region.
        unit: with ``--nats``: nats; effects and pages of such a table are in bits all the same.
        n_tokens, unknown: number of tokens, and of unknown words among them.
        crossing: number of tokens that reach over the end; they count where they begin.
        attachment, closed: for models with trees: expected surprisal of attachments, and number of
            constituents closed.
        entropy: with ``--entropy``, instead of these two: of the first token.
        seen: with ``--context`` or ``--stride``: number of tokens read before.
        ms, ms_low, ms_high: with ``--slopes``: milliseconds that its bits are predicted to take, at it and at
            the words after it, and the ends of their 95% interval, which has the slope's error.
        parse: with ``--parses``: the best hypothesis after it.
        word, word_in_region, word_number: with ``--words``: the word, and its place, from 1.
        length, frequency: with ``--words``: characters; log2 of the share of all words.
        surprisal_1, surprisal_2: with ``--words``: of the two words before it; also ``length_1``,
            ``frequency_1`` and so on.
        item, condition: the column that ``--column`` names, if the table has none of exactly this name.
            If several columns hold sentences, ``condition`` is the sentence's (``version`` if that name is
            taken).

    Raises:
        InputError: if it already has one of them.
    """

    def of_words(name: str) -> list[str]:
        return [name, *(f"{name}_{words}" for words in SPILLED)] if stimuli.words else []

    names = ["model", *stimuli.new, *(of_words("surprisal") or ["surprisal"])]
    names += [*([UNIT] if nats else []), "n_tokens", "unknown", "crossing"]
    names += [*(MILLISECONDS if slopes else ()), *(["parse"] if parses else [])]
    names += of_words("length")
    names += of_words("frequency") if frequency else []
    there = {name.casefold(): name for name in stimuli.sheet.columns}
    reserved = [*names, "attachment", "closed", "entropy", "seen"]
    reserved = [name for name in reserved if name not in stimuli.renamed]
    if twice := next((there[name] for name in reserved if name in there), None):
        reason = f"a column {twice!r}, which is the name of one that is added"
        raise InputError(reason, file=stimuli.sheet.name, hint="rename it")
    return names


def make_table(
    stimuli: Stimuli,
    models: Mapping[str, Surprisals],
    *,
    frequency: Frequency | None = None,
    slopes: Mapping[str, tuple[float, float, float]] | None = None,
) -> Made:
    """The table that ``pdtools surprisal`` writes: all rows for the first model, then for the next.

    Args:
        stimuli: the stimuli scored.
        models: each model's surprisals, by name.
        frequency: the frequencies of words.
        slopes: by model, milliseconds a bit: value, and ends of its interval.
    """
    order = np.argsort(stimuli.unit_row, kind="stable")  # as the table's rows are
    parses = any(each.parses is not None for each in models.values())
    nats = any(each.unit == "nats" for each in models.values())
    names = new_columns(
        stimuli, frequency=frequency is not None, parses=parses, slopes=slopes is not None, nats=nats
    )
    texts = stimuli.unit_texts()
    known: dict[str, Any] = {
        "region": stimuli.region,
        "region_text": texts,
        "word": texts,
        "word_in_region": stimuli.in_region,
        "word_number": np.arange(len(texts)) - stimuli.first[stimuli.of] + 1,
        "length": list(map(len, texts)),
    }
    for role, place in stimuli.renamed.items():
        cells = stimuli.sheet.texts(place)
        known[role] = [cells[row].strip() for row in stimuli.unit_row.tolist()]
    if stimuli.version is not None:
        versions = [stimuli.version[sentence] for sentence in stimuli.of.tolist()]
        known |= {"version": versions, "condition": versions}
    if stimuli.words and "region_text" in names:
        known["region_text"] = _region_texts(stimuli)
    if frequency is not None:
        known["frequency"] = frequencies_of(texts, frequency)
    optional = [
        name
        for name in ("entropy", "attachment", "closed", "seen")
        if any(name in each.values for each in models.values())
    ]
    of_models = {
        label: known | ({} if slopes is None else _milliseconds(model, slopes[label]))
        for label, model in models.items()
    }
    at = names.index("unknown")
    columns: dict[str, Any] = {}
    for name in [*names[:at], *optional, *names[at:]]:
        columns[name] = [
            value
            for label, model in models.items()
            for value in _in_order(_column(name, label, model, of_models[label], stimuli), order)
        ]
    return Made(stimuli.sheet, np.tile(stimuli.unit_row[order], len(models)), columns)


def _milliseconds(model: Surprisals, slope: tuple[float, float, float]) -> dict[str, NDArray[np.float64]]:
    """Predicted times of all units, with the ends of their intervals."""
    value, *ends = (model.bits * each for each in slope)
    return dict(zip(MILLISECONDS, (value, *np.sort(ends, axis=0)), strict=True))


def _column(name: str, label: str, model: Surprisals, known: Mapping[str, Any], stimuli: Stimuli) -> Any:
    n = len(stimuli.start)
    if name in known:
        return known[name]
    if name == "model":
        return [label] * n
    if name == UNIT:
        return [model.unit] * n
    if name == "parse":
        return model.parses or [""] * n
    of, _, before = name.rpartition("_")
    if of in ("surprisal", "length", "frequency"):
        return values_before(_column(of, label, model, known, stimuli), stimuli.of, int(before))
    values = model.values.get(name)
    return np.full(n, np.nan) if values is None else values


def values_before(values: Any, of: NDArray[np.int64], words: int) -> NDArray[np.float64]:
    """The value of the unit ``words`` before each in its sentence, float64 (U,); NaN where there is none.

    Args:
        values: (U,), values of the units.
        of: int64 (U,), the sentence, or text, of each unit.
        words: how far before.
    """
    found, rest = np.full(len(of), np.nan), max(0, len(of) - words)
    same = of[words:] == of[:rest]
    found[words:][same] = np.asarray(values, np.float64)[:rest][same]
    return found


def _in_order(values: Any, order: NDArray[np.int64]) -> list[Any]:
    if isinstance(values, np.ndarray):
        found: list[Any] = values[order].tolist()
        return found
    return [values[i] for i in order.tolist()]


def _region_texts(stimuli: Stimuli) -> list[str]:
    """The text of the region that contains each word."""
    found: list[str] = []
    keys = list(zip(stimuli.of.tolist(), stimuli.region.tolist(), strict=True))
    first: dict[tuple[int, int], int] = {}
    last: dict[tuple[int, int], int] = {}
    for place, key in enumerate(keys):
        first.setdefault(key, place)
        last[key] = place
    for key in keys:
        start, end = int(stimuli.start[first[key]]), int(stimuli.end[last[key]])
        found.append(stimuli.texts[key[0]][start:end])
    return found


def sheet_of_pandas(frame: pd.DataFrame) -> Sheet:
    """Convert a pandas table; its rows are numbered from 1, and missing values are None."""
    columns = [frame.iloc[:, i] for i in range(frame.shape[1])]
    cells = [
        [None if missing else value for value, missing in zip(column.tolist(), column.isna(), strict=True)]
        for column in columns
    ]
    names = tuple(map(str, frame.columns))
    return Sheet(
        name="table",
        form="pandas",
        columns=names,
        cells=cells,
        numbers=range(1, len(frame) + 1),
        table=frame,
    )


def as_pandas(made: Made) -> pd.DataFrame:
    """Convert to pandas: the given table's rows, index and types, then the new columns."""
    import pandas as pd

    frame: pd.DataFrame = made.sheet.table.iloc[made.rows]
    new = {}
    for name, values in made.columns.items():
        new[name] = pd.Series(values, index=frame.index)
        if name in _COUNTS:
            new[name] = new[name].astype("Int64" if new[name].isna().any() else "int64")
    return pd.concat([frame, pd.DataFrame(new, index=frame.index)], axis=1)


def write(made: Made, output: str) -> int:
    """Write a table: Parquet or CSV by the name's ending, else TSV.

    Returns:
        The number of the sheet's cells whose line breaks TSV lacks.
    """
    if ending(output) == ".parquet":
        with atomic_path(output) as path:
            _write_parquet(made, path)
        return 0
    sheet = made.sheet
    cells = [sheet.texts(column) for column in range(len(sheet.columns))]
    new = [_written(name, values) for name, values in made.columns.items()]
    with atomic_table(output, [*made.sheet.columns, *made.columns]) as write_row:
        for row, added in zip(made.rows.tolist(), zip(*new, strict=True), strict=True):
            write_row([*(column[row] for column in cells), *added])
    if ending(output) == ".csv":
        return 0
    return sum("\n" in text for column in (sheet.columns, *cells) for text in column)


def _written(name: str, values: Sequence[Any]) -> Iterator[str]:
    for value in values:
        if not isinstance(value, float):
            yield str(value)
        elif math.isnan(value):
            yield ""
        else:
            yield str(int(value)) if name in _COUNTS else f"{round(value, 8) + 0.0:.8f}"


def _write_parquet(made: Made, path: Path) -> None:
    import pyarrow as pa
    import pyarrow.parquet as pq

    sheet = made.sheet
    if isinstance(sheet.table, pa.Table):
        kept = list(sheet.table.take(pa.array(made.rows)).columns)
    else:
        kept = [_typed(column).take(pa.array(made.rows)) for column in sheet.cells]
    new = []
    for name, values in made.columns.items():
        array = pa.array(list(values), from_pandas=True)
        new.append(array.cast(pa.int64()) if name in _COUNTS else array)
    pq.write_table(pa.Table.from_arrays([*kept, *new], names=[*sheet.columns, *made.columns]), path)


def _typed(column: Sequence[Any]) -> pa.Array:
    """Convert cells to Arrow: to numbers if all that are not empty are, and to text otherwise, as they stand.

    Zeros before a number, its sign, exponents and digits beyond what a number holds are parts of a text.
    """
    import pyarrow as pa

    numbers: list[int | float | None] = []
    for value in column:
        text = cell_text(value)
        if isinstance(value, (int, float)) and not isinstance(value, bool):  # a workbook's own
            numbers.append(value if text else None)
        elif not text:
            numbers.append(None)
        elif _NUMBER.fullmatch(text) and sum(map(str.isdigit, text)) <= _MOST_DIGITS:
            numbers.append(float(text) if "." in text else int(text))
        else:
            return pa.array([cell_text(each) or None for each in column], pa.string())
    found = set(map(type, numbers)) - {type(None)}
    return pa.array(numbers, pa.float64() if float in found else pa.int64() if found else pa.string())
