"""Frequencies of words, from a file of counts, or from the package wordfreq."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence

from pdtools.errors import InputError, MissingDependencyError, PdtoolsError
from pdtools.files.tables import read_table

Frequency = Callable[[str], "float | None"]
"""A word to log2 of its share of all words; None if it is not known."""
_MOST = 1e30  # beyond any count; sums of numbers up to it stay finite


def frequencies_of_file(file: str) -> Frequency:
    """Shares from a table of two columns: words and their counts (a header is allowed).

    Capitals, and punctuation at the edges of a word, are ignored: counts of spellings that differ only
    in these are added.

    Raises:
        InputError: naming the line, if a count is no number above 0, or too large, or if there is none.
    """
    numbers: dict[str, float] = {}
    for line, cells in read_table(file):
        if not any(cells):
            continue
        if len(cells) != 2:
            hint = "two are expected: a word, and its count"
            raise InputError(f"{len(cells)} columns", file=file, line=line, hint=hint)
        try:
            number = float(cells[1])
        except ValueError as error:
            if line == 1:
                continue
            raise InputError(f"{cells[1]!r} is not a count", file=file, line=line) from error
        if not 0 < number <= _MOST:
            raise InputError(f"{cells[1]} is not a count", file=file, line=line)
        numbers[plain(cells[0])] = numbers.get(plain(cells[0]), 0.0) + number
    if not numbers:
        raise InputError("there is no count in it", file=file)
    return _Shares(numbers)


class _Shares:
    def __init__(self, numbers: Mapping[str, float]) -> None:
        self._numbers = numbers
        self._log_total = math.log2(math.fsum(numbers.values()))

    def __call__(self, word: str) -> float | None:
        number = self._numbers.get(plain(word))
        return None if number is None else math.log2(number) - self._log_total


def frequencies_of_wordfreq(language: str) -> Frequency:
    """Shares from the lists of the package wordfreq (Speer 2022), whose texts are from 2021 and before.

    Raises:
        MissingDependencyError: if it is not installed.
        PdtoolsError: if it has no such language.
    """
    try:
        import wordfreq
    except ImportError as error:
        raise MissingDependencyError("wordfreq", "reading") from error
    if language not in wordfreq.available_languages():
        raise PdtoolsError(f"--wordfreq {language}: wordfreq has no list of that language")

    def share(word: str) -> float | None:
        found = wordfreq.word_frequency(plain(word) or word, language)
        return math.log2(found) if found > 0 else None

    return share


def plain(word: str) -> str:
    """A word in small letters, and without characters at its edges that are no letters or digits."""
    first, last = 0, len(word)
    while first < last and not word[first].isalnum():
        first += 1
    while last > first and not word[last - 1].isalnum():
        last -= 1
    return (word[first:last] or word).casefold()


def frequencies_of(words: Sequence[str], frequency: Frequency) -> list[float]:
    """The frequency of each word; NaN for those that are not known."""
    known = {word: frequency(word) for word in set(words)}
    return [math.nan if (value := known[word]) is None else value for word in words]
