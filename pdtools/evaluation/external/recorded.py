"""Surprisals of another program's model, read from a table."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import groupby, islice
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, TypeVar

from pdtools.errors import InputError
from pdtools.files import read_table
from pdtools.files.tables import by_column
from pdtools.search.family import Family
from pdtools.search.scores import SentenceScore, Unscorable, is_unknown

if TYPE_CHECKING:
    from pdtools.tokenization import Sentence

N = TypeVar("N", int, float)
_NATS_PER = {"bits": math.log(2), "nats": 1.0}
# Surprisals are written with a few decimals: a sum may be this far below 0, a certain token's may be too.
_ROUNDING = 1e-3
MAX_ROWS = 1 << 17
"""Limit on the rows of one sentence."""
# Tokens for the edges of a sentence.
_EDGE = re.compile(
    r"(?i)</?s>|<\|?(bos|eos|sos|root|(start|begin|end)_?of_?(text|sentence))\|?>|\[(bos|eos|cls|sep)\]"
)

# How treebanks spell a double quote, whole or in two subwords.
_QUOTES = ("``", "''", "`", "'")


@dataclass(frozen=True, slots=True)
class _Row:
    """A line of the table: a token, its characters (None without offsets), its surprisal as written."""

    line: int
    sentence: int
    token: str
    span: tuple[int, int] | None
    surprisal: float


class _Unusable(Exception):
    """The reason why the rows of a sentence give it no score."""


class RecordedSurprisals(Family):
    """The family (:class:`pdtools.search.family.Family`) of recorded scores, which are read from a table.

    The table (:func:`pdtools.files.read_table`) has a header, with the rows of a sentence together and
    sentences in order. Columns: ``sentence_id`` (from 1), ``token`` or ``word``, ``surprisal``, and, if it
    has them, ``start`` and ``end``, the characters of the sentence; others are ignored. ``pdtools
    surprisal`` writes such tables, and LM-Zoo similar ones without offsets. Without them, tokens are found in
    the words of the sentence, see :func:`align_tokens`. A row for the beginning of the
    sentence (with offsets: without characters) is ignored, a row for its end is counted.
    """

    def __init__(
        self,
        source: str | Path,
        names: Iterable[str],
        *,
        unit: Literal["bits", "nats"] = "bits",
        text_style: str | None = None,
        on_error: Literal["fail", "skip"] = "fail",
    ) -> None:
        """Prepare to read a table; nothing is read before :meth:`score` is called.

        Args:
            source: the file (decompressed by suffix; ``-``: standard input).
            names: the name of each sentence in messages.
            unit: the surprisals' unit.
            text_style: how the sentences were written for the model, see ``Family.settings``.
            on_error: whether a sentence without rows, or with rows that do not fit it, is an error, or one
                without a score.
        """
        self._source = str(source)
        self._names = names
        self._scale = _NATS_PER[unit]
        self._on_error = on_error
        self.settings: dict[str, Any] = {
            "kind": "surprisals",
            "unit_of_file": unit,
            "alignment": None,
            "eos": None,
            "text_style": text_style,
        }

    look_ahead = 0  # the table is read in one pass, with the sentences

    def score(self, window: Iterable[str | Sentence]) -> Iterator[SentenceScore | Unscorable]:
        """See :meth:`Family.score`.

        Raises:
            InputError: for a table that cannot be read, with its line; rows out of order; a sentence without
                rows, or one whose rows do not fit it; rows for more sentences than there are.
        """
        from pdtools.tokenization import split_spaces

        groups = groupby(self._rows(), key=lambda row: row.sentence)
        number, rows = self._next(groups)
        count = 0
        for count, (given, name) in enumerate(zip(window, self._names, strict=True), start=1):
            sentence = split_spaces(given) if isinstance(given, str) else given
            here: list[_Row] = []
            if number == count:
                here = rows
                number, rows = self._next(groups)
            if not sentence.words and not here:
                yield Unscorable(sentence.text, "no words")
                continue
            try:
                yield self._scored(sentence, here)
            except _Unusable as reason:
                if self._on_error == "fail":
                    line = here[0].line if here else rows[0].line if rows else None
                    raise InputError(
                        f"sentence {count} ({name}): {reason}",
                        file=self._source,
                        line=line,
                        hint="--on-error skip excludes it",
                    ) from None
                yield Unscorable(sentence.text, str(reason))
        if rows:
            raise InputError(
                f"sentence {number}: there are only {count} sentences", file=self._source, line=rows[0].line
            )

    def _next(self, groups: Iterator[tuple[int, Iterator[_Row]]]) -> tuple[int, list[_Row]]:
        number, group = next(groups, (0, iter(())))
        rows = list(islice(group, MAX_ROWS + 1))
        if len(rows) > MAX_ROWS:
            reason = f"sentence {number} has more than {MAX_ROWS:,} rows"
            raise InputError(reason, file=self._source, line=rows[-1].line)
        return number, rows

    def _scored(self, sentence: Sentence, rows: Sequence[_Row]) -> SentenceScore:
        if not rows:
            raise _Unusable("no surprisals")
        place = _by_offsets if rows[0].span else _by_words
        rows, spans, eos = place(sentence.text, rows)
        if self.settings["eos"] not in (None, eos):
            raise _Unusable(
                f"{'a' if eos else 'no'} row for the end of the sentence, unlike the sentences before it"
            )
        logprobs = [-row.surprisal * self._scale for row in rows]
        total = sum(logprobs)  # not fsum, which raises if infinities meet
        if not math.isfinite(total):
            raise _Unusable("its surprisals, or their sum, are not finite")
        if total > _ROUNDING:
            raise _Unusable("the sum of its surprisals is below 0: are they log-probabilities?")
        self.settings["eos"] = eos
        import numpy as np

        from pdtools.search.spans import span_at  # numpy takes its time

        of_words = list(zip(sentence.starts, sentence.ends, strict=True))
        words = span_at(sentence.text, of_words, [start for start, _ in spans], "preceding").tolist()
        if eos:
            words[-1] = -1
        return SentenceScore(
            text=sentence.text,
            tokens=tuple(row.token for row in rows),
            words=tuple(words),
            starts=tuple(start for start, _ in spans),
            ends=tuple(end for _, end in spans),
            logprobs=np.array(logprobs, dtype=np.float64),
            n_unknown=sum(is_unknown(row.token) for row in rows),
            eos=eos,
        )

    def _rows(self) -> Iterator[_Row]:
        previous = 0
        wanted = ("sentence_id", "surprisal")
        for line, cells in by_column(read_table(self._source), self._source, wanted):
            name = "word" if "word" in cells else "token"
            if name not in cells:
                raise InputError("no column token or word in the header", file=self._source)
            number = self._number(int, "sentence_id", cells, line)
            span = None
            if has_offsets := "start" in cells and "end" in cells:
                span = (self._number(int, "start", cells, line), self._number(int, "end", cells, line))
            self.settings["alignment"] = "characters" if has_offsets else "words"
            row = _Row(line, number, cells[name].strip(), span, self._number(float, "surprisal", cells, line))
            if number < max(1, previous):
                reason = f"after sentence {previous}" if previous else "numbers are from 1"
                raise InputError(
                    f"sentence {number}: {reason}: they must be in the order they were written in",
                    file=self._source,
                    line=line,
                )
            previous = number
            yield row

    def _number(self, kind: Callable[[str], N], column: str, cells: Mapping[str, str], line: int) -> N:
        try:
            number = kind(cells[column])
        except ValueError:
            number = None
        if number is None or number != number:  # NaN
            reason = f"{column} {cells[column].strip()[:40]!r} is no number"
            raise InputError(reason, file=self._source, line=line)
        return number


_Placed = tuple[Sequence[_Row], list[tuple[int, int]], bool]


def _by_offsets(text: str, rows: Sequence[_Row]) -> _Placed:
    if len(rows) > 1 and rows[0].span == (0, 0) and is_edge(rows[0].token):
        rows = rows[1:]
    spans = [row.span for row in rows if row.span is not None]
    # A token of white space may stand at the end too, and is no end of the sentence.
    eos = spans[-1] == (len(text), len(text)) and rows[-1].token.strip("Ġ▁ ") != ""
    covered = spans[0][0]  # a model that reads nothing before the first token has no row for it
    before = 0
    for i, (row, (start, end)) in enumerate(zip(rows, spans, strict=True)):
        if not before <= start <= end <= len(text) or text[covered:start].strip():
            raise _Unusable(f"line {row.line}: characters {start} to {end} do not follow in {text!r}")
        before, covered = start, max(covered, end)
        while start < end and text[start].isspace():  # some tokenizers count the space before a token
            start += 1
        spans[i] = start, end
        plain = row.token.isascii() and row.token.isalnum() and not is_unknown(row.token)
        if plain and row.token.lower() != text[start:end].rstrip().lower():
            raise _Unusable(
                f"line {row.line}: the token {row.token!r} is {text[start:end]!r} in the sentence {text!r}"
            )
    if text[covered:].strip():
        raise _Unusable(f"tokens up to character {covered} only, of {len(text)} in {text!r}")
    return rows, spans, eos


def _by_words(text: str, rows: Sequence[_Row]) -> _Placed:
    rows = rows[1:] if is_edge(rows[0].token) else rows
    eos = bool(rows) and is_edge(rows[-1].token)
    inner = rows[:-1] if eos else rows
    spans = align_tokens(text, [row.token for row in inner])
    if isinstance(spans, int):
        where = (
            f"line {inner[spans].line}: the token {inner[spans].token!r} cannot be aligned"
            if spans < len(inner)
            else "its tokens end too early to be aligned"
        )
        raise _Unusable(f"{where} with the words of {text!r}")
    if eos:
        spans.append((len(text), len(text)))
    return rows, spans, eos


# --- tokens without offsets, such as LM-Zoo's -------------------------------------------------


def is_edge(token: str) -> bool:
    """Return whether a token marks the beginning or the end of a sentence."""
    return _EDGE.fullmatch(token) is not None


def align_tokens(text: str, tokens: Sequence[str]) -> list[tuple[int, int]] | int:
    """Find tokens in a text, each inside one text word, together covering all of the text.

    Capitals are ignored, as are the marks of word boundaries in subwords (``Ġthe``, ``▁the``, ``##ing``,
    ``th@@``, ``the</w>``). ``-LRB-`` is a bracket, two backquotes or apostrophes are a double quote. An
    unknown word is the rest of its word, or the part of it that the next tokens leave.

    Args:
        text: the sentence.
        tokens: the sentence's tokens, without its edges'.

    Returns:
        Start and end of each token in ``text``; or, if they cannot be placed, the index of the
        first token that does not fit the text, ``len(tokens)`` if the text goes on after the last.
    """
    folded = text.lower() if len(text.lower()) == len(text) else text
    # For each possible end of the tokens so far: the beginning of the last one, and the place before.
    steps: list[dict[int, tuple[int, int]]] = []
    places = [0]
    for number, token in enumerate(tokens):
        reached: dict[int, tuple[int, int]] = {}
        starts = [_skip_spaces(text, place) for place in places]
        for place, start, following in zip(places, starts, [*starts[1:], len(text)], strict=True):
            for end in _ends(token, text, folded, start, following):
                reached[end] = (start, place)  # the latest start wins: unknown words are as long as possible
        if not reached:
            return number
        steps.append(reached)
        places = sorted(reached)
    covering = [place for place in places if _skip_spaces(text, place) == len(text)]
    if not covering:
        return len(tokens)
    place = covering[-1]
    spans = []
    for reached in reversed(steps):
        start, before = reached[place]
        spans.append((start, place))
        place = before
    return spans[::-1]


def _skip_spaces(text: str, place: int) -> int:
    while place < len(text) and text[place].isspace():
        place += 1
    return place


def _ends(token: str, text: str, folded: str, start: int, following: int) -> Iterator[int]:
    """Possible ends of a token that begins at ``start``; after ``following`` an unknown one begins there."""
    for form in () if any(map(str.isspace, token)) else _forms(token):  # inside one word
        if folded.startswith((form, form.lower()), start):
            yield start + len(form)
            break
    if token in _QUOTES and text[start : start + 1] == '"':
        yield start + 1
        if len(token) == 1:  # half of one
            yield start
    if is_unknown(token):
        end = start
        while end < max(start + 1, following) and end < len(text) and not text[end].isspace():
            end += 1
            yield end


def _forms(token: str) -> Iterator[str]:
    """Possible forms of a token in the text: itself, then without marks and escapes. A lone mark is empty."""
    from pdtools.trees import unescape

    yield token
    yield unescape(token)
    yield token.lstrip("Ġ▁")
    if len(token) > 2:
        yield token.removeprefix("##")
        yield token.removesuffix("@@")
    if token.endswith("</w>"):
        yield token.removesuffix("</w>")
