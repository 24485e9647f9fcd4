"""SG scores from external results per item: ``model,suite,item,correct`` tables."""

from __future__ import annotations

import csv
import io
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path

from pdtools.errors import InputError
from pdtools.evaluation.benchmark.outcomes import Tallies, Tally
from pdtools.evaluation.sg.circuits import circuit_of
from pdtools.files import decode_utf8, read_bytes
from pdtools.files.names import has_ending
from pdtools.files.source import ZipMember

_COLUMNS = ("model", "suite", "item", "correct")
_MOST_DIGITS = 9
_TRUTH = {"true": True, "false": False, "1": True, "0": False}

Correct = dict[tuple[str, int], bool]
"""Outcomes: whether an item is right, by suite and item."""


def read_item_results(sources: Iterable[str | Path]) -> dict[str, Correct]:
    """Read results per item: for each model, whether the items of its suites are right.

    Args:
        sources: CSV files with the columns model, suite, item, correct (others are ignored), or zips of
            such files. A model is one run: name, corpus and seed as the files spell them.

    Raises:
        InputError: for a missing column, an unknown truth value, or an item that occurs twice in one model.
    """
    models: dict[str, Correct] = defaultdict(dict)
    for source in sources:
        for place, data in _documents(Path(source)):
            for line, row in _rows(data, place):
                key = (row["suite"], int(row["item"]))
                if key in models[row["model"]]:
                    raise InputError(
                        f"{row['model']}: a second result of {key[0]} {key[1]}", file=place, line=line
                    )
                models[row["model"]][key] = _TRUTH[row["correct"].lower()]
    return dict(models)


def _documents(source: Path) -> Iterator[tuple[str, bytes]]:
    is_zip = has_ending(source, ".zip")
    for file in ZipMember.within(str(source), (".csv",)) if is_zip else [str(source)]:
        yield file, read_bytes(file)


def _rows(data: bytes, place: str) -> Iterator[tuple[int, dict[str, str]]]:
    try:
        yield from _checked_rows(csv.DictReader(io.StringIO(decode_utf8(data, place))), place)
    except csv.Error as error:
        raise InputError(f"not CSV: {error}", file=place) from error


def _checked_rows(reader: csv.DictReader[str], place: str) -> Iterator[tuple[int, dict[str, str]]]:
    missing = [column for column in _COLUMNS if column not in (reader.fieldnames or ())]
    if missing:
        raise InputError(f"no column {', '.join(missing)}", file=place, line=1)
    for row in reader:
        if any(row[column] is None for column in _COLUMNS) or row["correct"].lower() not in _TRUTH:
            raise InputError(
                "a row without a truth value in its column correct", file=place, line=reader.line_num
            )
        if not row["item"].isdecimal() or len(row["item"]) > _MOST_DIGITS:
            raise InputError(f"item {row['item'][:40]!r} is no number", file=place, line=reader.line_num)
        yield reader.line_num, row


def majority(models: Sequence[Mapping[tuple[str, int], bool]]) -> Correct:
    """Combine many models into one: an item is right iff more than half of them have it right.

    Hu et al. (2020) count their n-gram models in this way.
    """
    votes: dict[tuple[str, int], list[bool]] = defaultdict(list)
    for model in models:
        for key, correct in model.items():
            votes[key].append(correct)
    return {key: 2 * sum(found) > len(found) for key, found in votes.items()}


def tallies_of(correct: Mapping[tuple[str, int], bool]) -> dict[str, Tallies]:
    """The counts of one model's items by circuit and suite, ready for ``sg_scores``."""
    found: dict[tuple[str | None, ...], Tally] = {}
    for (suite, _), is_right in correct.items():
        found.setdefault((circuit_of(suite), suite), Tally()).add("right" if is_right else "wrong")
    return {"1": found}
