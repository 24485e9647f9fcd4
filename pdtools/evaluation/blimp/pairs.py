"""Minimal pairs as items: is the acceptable sentence the more probable one (Warstadt et al. 2020)?"""

from __future__ import annotations

import sys
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

from pdtools.errors import InputError
from pdtools.evaluation.benchmark.item_set import Item, ItemSet, Score, String
from pdtools.evaluation.sg.formula import Formula
from pdtools.files import Kind, Source, check_kind, expand_inputs, held
from pdtools.files.inputs import read_json_lines, text_of
from pdtools.files.packed import COMPRESSED, ending, has_ending, plain_name
from pdtools.files.source import ZipMember
from pdtools.files.tables import SHEETS, Delimited, by_column

# The data spell one field in two ways, and name a phenomenon that the paper counts within another.
_FIELD_NAMES = {"syntax/semantics": "syntax_semantics"}
_PHENOMENA = {"s-selection": "argument_structure"}

_SENTENCES = ("sentence_good", "sentence_bad")
_PREDICTIONS = {"main": "good > bad", "per_token": "good > bad"}
_FORMULAS = {name: Formula.parse(of, ("good", "bad")) for name, of in _PREDICTIONS.items()}


def pair_item(
    good: str,
    bad: str,
    number: str,
    *,
    paradigm: str,
    phenomenon: str | None = None,
    field: str | None = None,
) -> Item:
    """A minimal pair as an item.

    Args:
        good, bad: the acceptable and the unacceptable sentence.
        number: the ``pairID``; or else the number of the line.
        paradigm: the ``UID``; or else the name of the file.
        phenomenon: one of the paper's 12; None if not in the data.
        field: morphology, semantics, syntax or syntax_semantics; None if not in the data.
    """
    strings = {"good": String(good), "bad": String(bad)}
    return Item(number, strings, _FORMULAS, (field, phenomenon, paradigm))


class PairItems(ItemSet):
    """Minimal pairs, of :class:`PairFiles` or given as items.

    ``overall`` is the unweighted mean of the paradigms (with paradigms of one size, as in BLiMP, and every
    pair scored it is ``mean_of_items`` too); ``by_phenomenon`` and ``by_field`` are means of their paradigms.
    The prediction ``per_token`` decides by the mean log-probability of a token instead of the total.
    """

    task, title = "blimp", "BLiMP"
    names = ("field", "phenomenon", "paradigm")
    predictions: Mapping[str, str] = _PREDICTIONS
    scores: Mapping[str, Score] = {"main": Score(), "per_token": Score("per_token")}
    settings: Mapping[str, Any] = {
        "decision": "total log-probability of the good sentence strictly greater; a tie is not right",
        "text": "as in the data, written in the model's text style; final period and capitals kept",
    }

    def __init__(self, pairs: Iterable[Item]) -> None:
        self._pairs = pairs
        self.limit = pairs.limit if isinstance(pairs, PairFiles) else None

    def __iter__(self) -> Iterator[Item]:
        """The pairs in order."""
        return iter(self._pairs)


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
        self._source = held(source)
        seen: dict[str | None, set[str]] = defaultdict(set)
        try:
            for place, number, pair in self._read():
                paradigm = pair.levels[-1]
                if pair.name in seen[paradigm]:
                    raise InputError(f"a second pair {pair.name} of {paradigm}", file=place, line=number)
                seen[paradigm].add(pair.name)
            if not seen:
                raise InputError("no minimal pairs (.jsonl or .tsv files) in it", file=self._source)
        except InputError:
            check_kind(source, Kind.PAIRS)  # says more, if it is something else
            raise

    def __iter__(self) -> Iterator[Item]:
        """The pairs, in the order of file names and lines."""
        taken: Counter[str | None] = Counter()
        for _, _, pair in self._read():
            taken[pair.levels[-1]] += 1
            if self.limit is None or taken[pair.levels[-1]] <= self.limit:
                yield pair

    def _read(self) -> Iterator[tuple[str, int, Item]]:
        """Every pair, with its file and line."""
        groups: dict[str, tuple[str | None, str | None]] = {}  # a paradigm's groups are its first pair's
        for place, number, data in _records(self._source):
            yield place, number, _pair(data, place, number, groups)


def _records(source: Source) -> Iterator[tuple[str, int, Any]]:
    """The content of every line: (file, number of the line, a JSON value or the cells by column)."""
    endings = (".jsonl", ".tsv")
    is_zip = has_ending(source, ".zip")
    for file in ZipMember.within(source, endings) if is_zip else expand_inputs([source], endings):
        if Path(file).name.startswith("."):
            continue
        is_table = ending(file) == ".tsv"
        rows = (
            by_column(iter(Delimited(file, "tsv")), file, _SENTENCES) if is_table else read_json_lines(file)
        )
        yield from ((file, number, row) for number, row in rows)


def _pair(data: Any, place: str, number: int, groups: dict[str, tuple[str | None, str | None]]) -> Item:
    try:
        good, bad = (data[name] for name in _SENTENCES)
        if not isinstance(good, str) or not isinstance(bad, str):
            raise InputError("not a minimal pair: a sentence that is no text", file=place, line=number)
        named = data.get("UID", plain_name(Path(place).name, (*COMPRESSED, ".jsonl", ".tsv")))
        paradigm = sys.intern(text_of(named))  # names that thousands of pairs share
        group = (_group(data.get("field"), _FIELD_NAMES), _group(data.get("linguistics_term"), _PHENOMENA))
        field, phenomenon = groups.setdefault(paradigm, group)
        strings = (text_of(good), text_of(bad), text_of(data.get("pairID", number)))
        return pair_item(*strings, paradigm=paradigm, phenomenon=phenomenon, field=field)
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
