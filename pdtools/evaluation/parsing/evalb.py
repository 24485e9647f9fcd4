"""EVALB's bracketing scores, rule for rule (Collins 1997; the program is by Sekine and Collins).

Each side has one line of bracketed text per sentence. Words under deleted tags are removed first, then
brackets are compared by span and label. The resulting scores are EVALB's own to the last printed digit;
its limits (200 words, 200 brackets, 5,000 characters) do not apply.
"""

from __future__ import annotations

import re
from collections import Counter, defaultdict, deque
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, fields
from itertools import accumulate
from typing import Literal

from pdtools.evaluation.parsing.prm import Parameters

Status = Literal["scored", "error", "skipped"]

# C's isspace in the "C" locale: a no-break space belongs to its word.
_TOKEN = re.compile(r"\(([^()\s]*)(?:\s+([^()\s]*)(\))?)?|\)|[^()\s]+", re.ASCII)


class MalformedTree(ValueError):
    """A line that is not a bracketed tree, in EVALB's words."""


@dataclass(slots=True)
class _Bracket:
    """Words ``start`` to ``end`` (exclusive), with the numbers of quotes before its opening and closing."""

    start: int
    end: int
    label: str
    quotes_before: int = 0
    quotes_until: int = 0


@dataclass(frozen=True, slots=True)
class _Quote:
    """A word that may be a quotation mark to one parser and a possessive to another."""

    word: str
    label: str
    index: int  # its word position, or the one it would have had if it is deleted


@dataclass(slots=True)
class _Side:
    """One side of a comparison: words and tags that are kept, brackets in the order of their opening."""

    words: list[str] = field(default_factory=list)
    tags: list[str] = field(default_factory=list)
    brackets: list[_Bracket] = field(default_factory=list)
    quotes: list[_Quote] = field(default_factory=list)
    length: int = 0  # words, without those that do not count for length

    def insert(self, places: Mapping[int, int]) -> None:
        """Put back deleted words.

        Args:
            places: for positions in the new words, in order, the number of the quote.
        """
        if not places:
            return
        words, tags = iter(self.words), iter(self.tags)
        every = range(len(self.words) + len(places))
        self.words = [self.quotes[places[at]].word if at in places else next(words) for at in every]
        self.tags = [self.quotes[places[at]].label if at in places else next(tags) for at in every]
        times = Counter(places.values())
        inserted = [0, *accumulate(times[number] for number in range(len(self.quotes)))]
        for bracket in self.brackets:
            bracket.start += inserted[bracket.quotes_before]
            bracket.end += inserted[bracket.quotes_until]


class _Matched:
    """Recall and precision from counts of brackets."""

    __slots__ = ()
    matched: int
    gold: int
    predicted: int

    @property
    def recall(self) -> float:
        """Share of the gold brackets that match, in percent; 0 if there are none."""
        return percent(self.matched, self.gold)

    @property
    def precision(self) -> float:
        """Share of the predicted brackets that match, in percent; 0 if there are none."""
        return percent(self.matched, self.predicted)


@dataclass(frozen=True, kw_only=True, slots=True)
class SentenceRow(_Matched):
    """The comparison of one sentence.

    Attributes:
        line: its line, from 1.
        length: words of the gold sentence that count for length.
        status: ``error``: the words differ or a line is no tree; ``skipped``: nothing was predicted.
        matched, matched_unlabeled: brackets in common, by the parameters, and by their spans alone.
        gold, predicted: brackets on either side, without deleted ones.
        crossing: predicted brackets that cross a gold one.
        words, correct_tags: words compared, and number with the right tag.
        reason: the reason of an error, in EVALB's words.
        gold_tree, predicted_tree: the two, as they were compared; "" for an empty line.
    """

    line: int
    length: int
    status: Status
    matched: int = 0
    matched_unlabeled: int = 0
    gold: int = 0
    predicted: int = 0
    crossing: int = 0
    words: int = 0
    correct_tags: int = 0
    reason: str | None = None
    gold_tree: str = ""
    predicted_tree: str = ""


@dataclass(frozen=True, kw_only=True, slots=True)
class BracketScore(_Matched):
    """Counts over sentences, and percentages derived from them; ``a + b`` is the score of both together."""

    sentences: int = 0
    errors: int = 0
    skipped: int = 0
    matched: int = 0
    matched_unlabeled: int = 0
    gold: int = 0
    predicted: int = 0
    complete: int = 0
    crossing: int = 0
    no_crossing: int = 0
    two_or_less_crossing: int = 0
    words: int = 0
    correct_tags: int = 0

    def __add__(self, other: BracketScore) -> BracketScore:
        return BracketScore(**{f.name: getattr(self, f.name) + getattr(other, f.name) for f in fields(self)})

    @staticmethod
    def of(row: SentenceRow) -> BracketScore:
        """The score of a single sentence: errors and skipped ones only add to the numbers of sentences."""
        if row.status != "scored":
            return BracketScore(
                sentences=1, errors=int(row.status == "error"), skipped=int(row.status == "skipped")
            )
        return BracketScore(
            sentences=1,
            matched=row.matched,
            matched_unlabeled=row.matched_unlabeled,
            gold=row.gold,
            predicted=row.predicted,
            complete=int(row.gold == row.predicted == row.matched),
            crossing=row.crossing,
            no_crossing=int(row.crossing == 0),
            two_or_less_crossing=int(row.crossing <= 2),
            words=row.words,
            correct_tags=row.correct_tags,
        )

    @property
    def scored(self) -> int:
        """Sentences that are neither errors nor skipped."""
        return self.sentences - self.errors - self.skipped

    @property
    def f1(self) -> float | None:
        """Harmonic mean of recall and precision, in percent; None if nothing matched (EVALB prints nan)."""
        return harmonic_mean(self.recall, self.precision)

    @property
    def unlabeled_f1(self) -> float | None:
        """F1 over spans alone, ignoring labels."""
        return harmonic_mean(
            percent(self.matched_unlabeled, self.gold), percent(self.matched_unlabeled, self.predicted)
        )

    @property
    def complete_match(self) -> float:
        """Percent of scored sentences whose brackets all match."""
        return percent(self.complete, self.scored)

    @property
    def average_crossing(self) -> float:
        """Crossing brackets per scored sentence."""
        return self.crossing / self.scored if self.scored else 0.0

    @property
    def tagging_accuracy(self) -> float:
        """Percent of words with the right tag."""
        return percent(self.correct_tags, self.words)

    def as_dict(self) -> dict[str, float | None]:
        """The derived scores, by name, in percent except ``average_crossing``."""
        return {
            "f1": self.f1,
            "recall": self.recall,
            "precision": self.precision,
            "unlabeled_f1": self.unlabeled_f1,
            "complete_match": self.complete_match,
            "average_crossing": self.average_crossing,
            "no_crossing": percent(self.no_crossing, self.scored),
            "two_or_less_crossing": percent(self.two_or_less_crossing, self.scored),
            "tagging_accuracy": self.tagging_accuracy,
        }


def percent(part: int, whole: int) -> float:
    """The percentage 100 · part / whole, computed as EVALB does; 0 if there is nothing."""
    return 100.0 * part / whole if whole > 0 else 0.0


def harmonic_mean(a: float, b: float) -> float | None:
    """The harmonic mean 2ab / (a + b); None if both are zero."""
    return 2 * a * b / (a + b) if a + b > 0 else None


def compare_sentence(gold: str, predicted: str, parameters: Parameters, line: int = 1) -> SentenceRow:
    """Compare two bracketed lines by EVALB's rules.

    An empty prediction is skipped; different words, or a line that is not a tree, are an error.
    """
    try:
        gold_side = _read(gold, parameters)
    except MalformedTree as error:
        return SentenceRow(line=line, length=0, status="error", reason=f"gold: {error}")
    try:
        test_side = _read(predicted, parameters)
    except MalformedTree as error:
        return SentenceRow(line=line, length=gold_side.length, status="error", reason=f"predicted: {error}")
    if not test_side.words:
        return SentenceRow(line=line, length=gold_side.length, status="skipped")
    if len(gold_side.words) != len(test_side.words):
        _restore_quotes(gold_side, test_side, parameters)
    if reason := _difference(gold_side.words, test_side.words, parameters):
        return SentenceRow(line=line, length=gold_side.length, status="error", reason=reason)
    gold_brackets = _counted(gold_side.brackets, parameters)
    test_brackets = _counted(test_side.brackets, parameters)
    matched_unlabeled = _match(gold_brackets, test_brackets, None)
    return SentenceRow(
        line=line,
        length=gold_side.length,
        status="scored",
        matched=_match(gold_brackets, test_brackets, parameters) if parameters.labeled else matched_unlabeled,
        matched_unlabeled=matched_unlabeled,
        gold=len(gold_brackets),
        predicted=len(test_brackets),
        crossing=_crossing(gold_brackets, test_brackets),
        words=len(gold_side.words),
        correct_tags=sum(
            parameters.same_label(a, b) for a, b in zip(gold_side.tags, test_side.tags, strict=True)
        ),
    )


def _difference(gold: Sequence[str], test: Sequence[str], parameters: Parameters) -> str | None:
    if len(gold) != len(test):
        return f"Length unmatch ({len(gold)}|{len(test)})"
    for one, other in zip(gold, test, strict=True):
        if not parameters.same_word(one, other):
            return f"Words unmatch ({one}|{other})"
    return None


def _read(text: str, parameters: Parameters) -> _Side:
    """Words and brackets of one line. Several trees on it are read as one, as EVALB does."""
    side = _Side()
    stack: list[int] = []
    for token in _TOKEN.finditer(text):
        if token[0] == ")":
            if not stack:
                raise MalformedTree("Bracketing unbalance (too many close bracket)")
            bracket = side.brackets[stack.pop()]
            bracket.end, bracket.quotes_until = len(side.words), len(side.quotes)
        elif token[0][0] != "(":
            raise MalformedTree("Reading sentence")
        elif token[3]:
            _add_word(side, token[1], token[2], parameters)
        elif token[2]:
            raise MalformedTree("More than two elements in a bracket")
        else:
            stack.append(len(side.brackets))
            side.brackets.append(_Bracket(len(side.words), -1, token[1], len(side.quotes)))
    if stack:
        raise MalformedTree("Bracketing is unbalanced (too many open bracket)")
    return side


def _add_word(side: _Side, label: str, word: str, parameters: Parameters) -> None:
    side.length += label not in parameters.delete_labels_for_length
    if label in parameters.quote_labels and word in ("'", '"', "/"):
        side.quotes.append(_Quote(word, label, len(side.words)))
    if label not in parameters.delete_labels:
        side.words.append(word)
        side.tags.append(label)


def _restore_quotes(gold: _Side, test: _Side, parameters: Parameters) -> None:
    """Put a mark back on a side that took it for punctuation, where the other side did not.

    A gold mark that was put back still counts as deleted, at the next position: EVALB may put it back again.
    """
    deleted = parameters.delete_labels
    into_gold: dict[int, int] = {}
    into_test: dict[int, int] = {}
    # Positions rise with every word put back: marks of one side are in order, and met once.
    first = kept = 0
    for number, of_test in enumerate(test.quotes):
        index = of_test.index + len(into_test)
        while first < len(gold.quotes) and gold.quotes[first].index + len(into_gold) < index:
            first += 1
        if of_test.label not in deleted:
            at, into = first, into_gold
        else:
            kept = max(kept, first)
            while kept < len(gold.quotes) and gold.quotes[kept].label in deleted:
                kept += 1
            at, into = kept, into_test
        if at == len(gold.quotes) or gold.quotes[at].index + len(into_gold) != index:
            continue
        if (gold.quotes[at].label in deleted) != (of_test.label in deleted):
            into[index] = first if into is into_gold else number
    gold.insert(into_gold)
    test.insert(into_test)


def _counted(brackets: Sequence[_Bracket], parameters: Parameters) -> list[_Bracket]:
    """Brackets that count: not empty, not deleted, with labels trimmed at the first ``-`` or ``=``."""
    counted = []
    for bracket in brackets:
        label = re.split("[-=]", bracket.label, maxsplit=1)[0]
        if bracket.start != bracket.end and not parameters.deletes_bracket(label):
            counted.append(_Bracket(bracket.start, bracket.end, label))
    return counted


def _match(gold: Sequence[_Bracket], test: Sequence[_Bracket], parameters: Parameters | None) -> int:
    """Match each gold bracket with the first free predicted one of its span (and label, given parameters)."""
    # By span and label, indices of free ones in the order of opening; without parameters labels are alike.
    free: dict[tuple[int, int, str], deque[int]] = defaultdict(deque)
    for place, bracket in enumerate(test):
        free[bracket.start, bracket.end, bracket.label if parameters else ""].append(place)
    matched = 0
    for bracket in gold:
        labels = {bracket.label, *parameters.equals_of(bracket.label)} if parameters else {""}
        candidates = [found for label in labels if (found := free.get((bracket.start, bracket.end, label)))]
        if candidates:
            min(candidates, key=lambda places: places[0]).popleft()
            matched += 1
    return matched


def _crossing(gold: Sequence[_Bracket], test: Sequence[_Bracket]) -> int:
    """The number of predicted brackets that overlap some gold bracket without one containing the other."""
    # The gold brackets over two neighbouring words are nested. If one of them ends inside of a
    # predicted bracket that begins between the words, or begins inside of one that ends there, then the
    # innermost does.
    n_words = max((bracket.end for bracket in (*gold, *test)), default=0)
    innermost: list[_Bracket | None] = [None] * (n_words + 1)  # [k]: over the words k - 1 and k
    path: list[_Bracket] = []
    upcoming = 0
    for k in range(1, n_words):
        while upcoming < len(gold) and gold[upcoming].start < k:
            path.append(gold[upcoming])
            upcoming += 1
        while path and path[-1].end <= k:
            path.pop()
        innermost[k] = path[-1] if path else None

    def crosses(bracket: _Bracket) -> bool:
        first, last = innermost[bracket.start], innermost[bracket.end]
        return (first is not None and first.end < bracket.end) or (
            last is not None and last.start > bracket.start
        )

    return sum(map(crosses, test))
