"""Minimal pairs, read from files as often as they are needed: there may be more than memory holds."""

from __future__ import annotations

import sys
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

from pdtools.errors import InputError
from pdtools.files import Kind, Source, check_kind, expand_inputs, held, read_lines
from pdtools.files.json_input import parse_json, text_of
from pdtools.files.names import COMPRESSED, ending, has_ending, without_ending
from pdtools.files.sheets import SHEETS
from pdtools.files.source import ZipMember
from pdtools.files.tables import unquoting

# The data spell one field in two ways, and name a phenomenon that the paper counts within another.
_FIELD_NAMES = {"syntax/semantics": "syntax_semantics"}
_PHENOMENON_NAMES = {"s-selection": "argument_structure"}

_SENTENCES = ("sentence_good", "sentence_bad")


@dataclass(frozen=True, kw_only=True, slots=True)
class Pair:
    """A minimal pair.

    Attributes:
        paradigm: the ``UID``; or else the name of the file.
        phenomenon: one of the paper's 12; None if not in the data.
        field: morphology, semantics, syntax or syntax_semantics; None if not in the data.
        number: the ``pairID``; or else the number of the line.
        good, bad: the acceptable and the unacceptable sentence.
    """

    paradigm: str
    phenomenon: str | None
    field: str | None
    number: str
    good: str
    bad: str


class Pairs(Protocol):
    """Minimal pairs that can be iterated over several times: a list, or :class:`PairFiles`."""

    def __iter__(self) -> Iterator[Pair]: ...


class PairFiles:
    """The minimal pairs of a folder of ``.jsonl`` or ``.tsv`` files, of one file, or of a zip of them.

    Only ``sentence_good`` and ``sentence_bad`` are required, as keys of every line or as columns of the
    header. The files are read once to check them, and again at each iteration.

    Args:
        source: their path.
        limit: only the first ``limit`` pairs of each paradigm; None: all.

    Raises:
        InputError: for a missing source, one without pairs, or a line that is not a pair.
    """

    def __init__(self, source: str | Path, limit: int | None = None) -> None:
        self.limit = limit
        if (kind := ending(source)) in SHEETS and kind != ".tsv":
            hint = f"pdtools eval-benchmark {source} --good COLUMN --bad COLUMN reads it"
            raise InputError(f"a {kind} table, not .jsonl or .tsv", file=source, hint=hint)
        check_kind(source, Kind.PAIRS)
        self._source = held(source)
        seen: dict[str, set[str]] = defaultdict(set)
        for place, number, pair in self._read():
            if pair.number in seen[pair.paradigm]:
                raise InputError(f"a second pair {pair.number} of {pair.paradigm}", file=place, line=number)
            seen[pair.paradigm].add(pair.number)
        if not seen:
            raise InputError("no minimal pairs (.jsonl or .tsv files) in it", file=self._source)

    def __iter__(self) -> Iterator[Pair]:
        """The pairs, in the order of file names and lines."""
        taken: Counter[str] = Counter()
        for _, _, pair in self._read():
            taken[pair.paradigm] += 1
            if self.limit is None or taken[pair.paradigm] <= self.limit:
                yield pair

    def _read(self) -> Iterator[tuple[str, int, Pair]]:
        """Every pair, with its file and line."""
        for place, number, data in _records(self._source):
            yield place, number, _pair(data, place, number)


def read_pairs(source: str | Path, limit: int | None = None) -> list[Pair]:
    """The pairs of :class:`PairFiles`, in memory."""
    return list(PairFiles(source, limit))


def _records(source: Source) -> Iterator[tuple[str, int, Any]]:
    """The content of every line: (file, number of the line, a JSON value or the cells by column)."""
    endings = (".jsonl", ".tsv")
    is_zip = has_ending(source, ".zip")
    for file in ZipMember.within(source, endings) if is_zip else expand_inputs([source], endings):
        if Path(file).name.startswith("."):
            continue
        if ending(file) == ".tsv":
            yield from _tsv_records(file, read_lines(file))
        else:
            yield from _json_records((file, number, line) for number, line in read_lines(file))


def _json_records(lines: Iterable[tuple[str, int, str]]) -> Iterator[tuple[str, int, Any]]:
    for place, number, line in lines:
        if line.strip():
            yield place, number, parse_json(line, place, number)


def _tsv_records(file: str, lines: Iterator[tuple[int, str]]) -> Iterator[tuple[str, int, dict[str, str]]]:
    every = list(lines)
    undo, _ = unquoting(line for _, line in every)
    rows = ((number, [*map(undo, line.split("\t"))]) for number, line in every if line.strip())
    _, columns = next(rows, (1, []))
    if missing := [name for name in _SENTENCES if name not in columns]:
        hint = f"its first line has to name the columns: {', '.join(_SENTENCES)}"
        raise InputError(f"no column {', '.join(missing)} in the header", file=file, line=1, hint=hint)
    if twice := [name for name, times in Counter(columns).items() if times > 1]:
        raise InputError(f"two columns {twice[0]!r} in the header", file=file, line=1)
    for number, cells in rows:
        if len(cells) != len(columns):
            reason = f"not a minimal pair: {len(cells)} columns, the header has {len(columns)}"
            raise InputError(reason, file=file, line=number)
        yield file, number, dict(zip(columns, cells, strict=True))


def _pair(data: Any, place: str, number: int) -> Pair:
    try:
        good, bad = (data[name] for name in _SENTENCES)
        if not isinstance(good, str) or not isinstance(bad, str):
            raise InputError("not a minimal pair: a sentence that is no text", file=place, line=number)
        paradigm = data.get("UID", without_ending(Path(place).name, (*COMPRESSED, ".jsonl", ".tsv")))
        return Pair(
            paradigm=sys.intern(text_of(paradigm)),  # names that thousands of pairs share
            phenomenon=_group(data.get("linguistics_term"), _PHENOMENON_NAMES),
            field=_group(data.get("field"), _FIELD_NAMES),
            number=text_of(data.get("pairID", number)),
            good=text_of(good),
            bad=text_of(bad),
        )
    except (KeyError, TypeError, ValueError) as error:
        missing = f"{error} is missing" if isinstance(error, KeyError) else str(error)
        if not isinstance(data, dict):
            missing = "not a JSON object"
        raise InputError(f"not a minimal pair: {missing}", file=place, line=number) from error


def _group(given: Any, names: Mapping[str, str]) -> str | None:
    if given is None:
        return None
    name = text_of(given)
    return sys.intern(names.get(name, name))
