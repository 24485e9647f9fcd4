"""Minimal pairs, read from files as often as they are needed: there may be more than memory holds."""

from __future__ import annotations

import sys
from collections import Counter, defaultdict
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from pdtools.errors import InputError
from pdtools.evaluation.archives import zip_lines
from pdtools.files import expand_inputs, is_stream, read_lines
from pdtools.json_input import parse_json, text_of

# The data spell one field in two ways, and name a phenomenon that the paper counts within another.
_FIELD_NAMES = {"syntax/semantics": "syntax_semantics"}
_PHENOMENON_NAMES = {"s-selection": "argument_structure"}


@dataclass(frozen=True, kw_only=True, slots=True)
class Pair:
    """A minimal pair.

    Attributes:
        paradigm: the ``UID``.
        phenomenon: one of the paper's 12.
        field: morphology, semantics, syntax or syntax_semantics.
        number: the ``pairID``.
        good, bad: the acceptable and the unacceptable sentence.
    """

    paradigm: str
    phenomenon: str
    field: str
    number: str
    good: str
    bad: str


class Pairs(Protocol):
    """Minimal pairs that can be gone through several times: a list, or :class:`PairFiles`."""

    def __iter__(self) -> Iterator[Pair]: ...


class PairFiles:
    """The minimal pairs of a folder of ``.jsonl`` files, of one such file, or of a zip of them.

    They are read once to check them, and again each time that they are gone through.

    Args:
        source: where they are.
        limit: only the first so many pairs of each paradigm.

    Raises:
        InputError: for a missing source, one without pairs, or a line that is not a pair.
    """

    def __init__(self, source: str | Path, limit: int | None = None) -> None:
        self._source = Path(source)
        self._limit = limit
        self._kept: list[Pair] | None = [] if is_stream(source) else None  # that cannot be read again
        seen: dict[str, set[str]] = defaultdict(set)
        for place, number, pair in self._read():
            if self._kept is not None:
                self._kept.append(pair)
            if pair.number in seen[pair.paradigm]:
                raise InputError(f"a second pair {pair.number} of {pair.paradigm}", file=place, line=number)
            seen[pair.paradigm].add(pair.number)
        if not seen:
            raise InputError("no minimal pairs (.jsonl files) in it", file=self._source)

    def __iter__(self) -> Iterator[Pair]:
        """The pairs, in the order of file names and lines."""
        taken: Counter[str] = Counter()
        for pair in self._kept or (pair for _, _, pair in self._read()):
            taken[pair.paradigm] += 1
            if self._limit is None or taken[pair.paradigm] <= self._limit:
                yield pair

    def _read(self) -> Iterator[tuple[str, int, Pair]]:
        """Every pair, with the file and the line where it is."""
        for place, number, line in _lines(self._source):
            if line.strip():
                yield place, number, _pair(line, place, number)


def read_pairs(source: str | Path, limit: int | None = None) -> list[Pair]:
    """The pairs of :class:`PairFiles`, in memory."""
    return list(PairFiles(source, limit))


def _lines(source: Path) -> Iterator[tuple[str, int, str]]:
    if source.suffix == ".zip":
        yield from zip_lines(source, ".jsonl")
        return
    for file in expand_inputs([str(source)], [".jsonl"]):
        if not Path(file).name.startswith("."):
            yield from ((file, number, line) for number, line in read_lines(file))


def _pair(line: str, place: str, number: int) -> Pair:
    data = parse_json(line, place, number)
    try:
        field, phenomenon = text_of(data["field"]), text_of(data["linguistics_term"])
        good, bad = data["sentence_good"], data["sentence_bad"]
        if not isinstance(good, str) or not isinstance(bad, str):
            raise InputError("not a minimal pair: a sentence that is no text", file=place, line=number)
        return Pair(
            paradigm=sys.intern(text_of(data["UID"])),  # names that thousands of pairs share
            phenomenon=sys.intern(_PHENOMENON_NAMES.get(phenomenon, phenomenon)),
            field=sys.intern(_FIELD_NAMES.get(field, field)),
            number=text_of(data["pairID"]),
            good=text_of(good),
            bad=text_of(bad),
        )
    except (KeyError, TypeError, ValueError) as error:
        missing = f"{error} is missing" if isinstance(error, KeyError) else str(error)
        if not isinstance(data, dict):
            missing = "not a JSON object"
        raise InputError(f"not a minimal pair: {missing}", file=place, line=number) from error
