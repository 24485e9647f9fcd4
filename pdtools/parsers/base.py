"""What every parser backend is to its users: sentences in, one tree or one failure each out."""

from __future__ import annotations

import importlib
import unicodedata
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Protocol

from pdtools.errors import PdtoolsError
from pdtools.trees import Tree

UNKNOWN_TAG = "XX"
UNUSABLE_WORD = "\N{REPLACEMENT CHARACTER}"  # in a placeholder, where a word cannot be a word of a tree

_ASCII_SPACE = frozenset(" \t\n\r\f\v")
# White space, controls and formatting characters: nothing that a reader would see.
_INVISIBLE = frozenset(("Zs", "Zl", "Zp", "Cc", "Cf"))


@dataclass(frozen=True, slots=True)
class ParseFailure:
    """Why a sentence has no tree."""

    reason: str


class Parser(Protocol):
    """A source of trees.

    A sentence that cannot be parsed fails alone: it never ends the iterator, and never changes the
    result of another.
    """

    def parse(self, sentences: Sequence[Sequence[str]]) -> Iterator[Tree | ParseFailure]:
        """Parse sentences given as plain words (``(``, not ``-LRB-``).

        Yields:
            One result for each sentence, in the order of the sentences. A tree's words are the given
            ones, escaped as brackets need.
        """
        ...


# The modules that hold a backend: each defines ``load(model, device) -> Parser``.
BACKENDS = {"benepar": "pdtools.parsers.benepar"}


def load_parser(name: str, model: str | None = None, device: str = "cpu") -> Parser:
    """Load a parser backend.

    Args:
        name: a key of :data:`BACKENDS`.
        model: the backend's model, a path or an installed model's name; ``None`` takes its default.
        device: a torch device.

    Raises:
        PdtoolsError: if the backend is unknown, or its model missing or damaged.
        MissingDependencyError: if the backend's package is not installed.
    """
    if name not in BACKENDS:
        known = ", ".join(sorted(BACKENDS))
        raise PdtoolsError(f"no parser named {name!r}: use {known}, or the folder of a trained checkpoint")
    parser: Parser = importlib.import_module(BACKENDS[name]).load(model, device)
    return parser


def sentence_problem(words: Sequence[str]) -> str | None:
    """Why no parser could do this sentence, or ``None``.

    Such words make neural parsers fail, or, worse, shift the words after them by one unnoticed.
    """
    if not words:
        return "no words"
    for word in words:
        problem = word_problem(word)
        if problem:
            return problem
    return None


def word_problem(word: str) -> str | None:
    """Why this cannot be a word of a tree, or ``None``."""
    if any("\ud800" <= character <= "\udfff" for character in word):
        return "a word that is not valid Unicode (a lone surrogate)"
    if all(unicodedata.category(character) in _INVISIBLE for character in word):
        return "a word without visible characters"
    if not _ASCII_SPACE.isdisjoint(word):
        return "a word with white space in it"
    return None
