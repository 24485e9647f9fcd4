"""EVALB's parameter files: the brackets that count, and equal labels and words."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pdtools.errors import InputError
from pdtools.files import decode_utf8, read_bytes

_MAX_BYTES = 1 << 20
_NUMBERS = {"MAX_ERROR": "max_error", "CUTOFF_LEN": "cutoff_len"}
_LABELS = {
    "DELETE_LABEL": "delete_labels",
    "DELETE_LABEL_FOR_LENGTH": "delete_labels_for_length",
    "QUOTE_LABEL": "quote_labels",
}
_PAIRS = {"EQ_LABEL": "equal_labels", "EQ_WORD": "equal_words"}


@dataclass(frozen=True, kw_only=True)
class Parameters:
    """The content of a parameter file. The defaults are EVALB's own, for missing keywords.

    Attributes:
        max_error: EVALB gives up once more than ``max_error + 1`` errors have been met.
        cutoff_len: sentences of at most this many words are summed up a second time.
        labeled: whether a bracket's label has to match too.
        delete_labels: brackets that do not count; a preterminal's word is removed as well.
        delete_labels_for_length: preterminals that do not count towards a sentence's length.
        quote_labels: tags of words that may be a quotation mark on one side and a possessive on the other.
        equal_labels: pairs of labels that count as equal, in either direction.
        equal_words: pairs of words that count as equal, in either direction.
    """

    max_error: int = 10
    cutoff_len: int = 40
    labeled: bool = True
    delete_labels: frozenset[str] = frozenset()
    delete_labels_for_length: frozenset[str] = frozenset()
    quote_labels: frozenset[str] = frozenset()
    equal_labels: frozenset[tuple[str, str]] = frozenset()
    equal_words: frozenset[tuple[str, str]] = frozenset()

    def same_label(self, a: str, b: str) -> bool:
        """Return whether two labels count as one."""
        return a == b or (a, b) in self.equal_labels or (b, a) in self.equal_labels

    def equals_of(self, label: str) -> set[str]:
        """The other labels that count as this one."""
        pairs = self.equal_labels
        return {b for a, b in pairs if a == label} | {a for a, b in pairs if b == label}

    def same_word(self, a: str, b: str) -> bool:
        """Return whether two words count as one."""
        return a == b or (a, b) in self.equal_words or (b, a) in self.equal_words

    def deletes_bracket(self, label: str) -> bool:
        """Return whether a constituent with this (trimmed) label does not count; ``EQ_LABEL`` applies too."""
        return any(self.same_label(label, deleted) for deleted in self.delete_labels)


# Exclusions common in papers on parsing: wrappers, traces, punctuation; PRT and ADVP are one label.
# Quotes may be written as in a treebank on one side and as in running text on the other.
COMMON = Parameters(
    delete_labels=frozenset({"", "TOP", "ROOT", "S1", "VROOT", "-NONE-", "-DFL-", ",", ":", "``", "''", "."}),
    delete_labels_for_length=frozenset({"-NONE-", "-DFL-"}),
    equal_labels=frozenset({("ADVP", "PRT")}),
    equal_words=frozenset({("``", '"'), ("''", '"'), ("`", "'")}),
)


def read_parameters(path: str | Path) -> Parameters:
    """Read a parameter file: ``KEYWORD value`` lines; ``#`` starts a comment line.

    ``DEBUG`` is accepted and has no effect; ``DISC_ONLY`` has to be 0, since these trees are continuous.

    Raises:
        InputError: for an unknown keyword, a missing value or a value of the wrong kind, with its line.
    """
    values: dict[str, Any] = {}
    lists: dict[str, set[Any]] = {name: set() for name in (*_LABELS.values(), *_PAIRS.values())}
    text = decode_utf8(read_bytes(path, _MAX_BYTES), path)
    for number, line in enumerate(text.split("\n"), start=1):
        line = line.rstrip()
        if line.startswith("#") or len(line) < 3:  # EVALB silently skips lines this short
            continue
        keyword, *rest = line.split(maxsplit=1)
        value = "".join(rest)
        if not value:
            raise InputError(f"{keyword} has no value", file=path, line=number)
        if keyword in _NUMBERS:
            values[_NUMBERS[keyword]] = _integer(keyword, value, path, number)
        elif keyword == "LABELED":
            values["labeled"] = _integer(keyword, value, path, number) != 0
        elif keyword == "DISC_ONLY":
            if _integer(keyword, value, path, number):
                raise InputError(
                    "DISC_ONLY 1: these trees have no discontinuous brackets", file=path, line=number
                )
        elif keyword == "DEBUG":
            _integer(keyword, value, path, number)
        elif keyword in _LABELS:
            lists[_LABELS[keyword]].add(value)
        elif keyword in _PAIRS:
            two = value.split()
            if len(two) != 2:
                raise InputError(f"{keyword} needs two values", file=path, line=number)
            lists[_PAIRS[keyword]].add((two[0], two[1]))
        else:
            raise InputError(f"unknown keyword {keyword[:40]}", file=path, line=number)
    values.update({name: frozenset(found) for name, found in lists.items()})
    return Parameters(**values)


def _integer(keyword: str, value: str, path: str | Path, line: int) -> int:
    try:
        return int(value)
    except ValueError:
        reason = f"{keyword} needs a whole number, not {value[:40]!r}"
        raise InputError(reason, file=path, line=line) from None
