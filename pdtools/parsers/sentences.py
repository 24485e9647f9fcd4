"""Reading sentences for a parser: one a line, or running text split into sentences."""

from __future__ import annotations

import itertools
import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass

from pdtools.errors import InputError
from pdtools.files import read_lines
from pdtools.parsers.splitting import SentenceSplitter
from pdtools.prompts.items import read_prompts
from pdtools.tokenization import split_words
from pdtools.trees import unescape

# Running text is handed to the sentence splitter in pieces of at most about this many characters.
_PIECE = 100_000


@dataclass(frozen=True, slots=True)
class SourcedSentence:
    """A sentence as plain words, with the place that it came from (lines from 1)."""

    words: tuple[str, ...]
    file: str
    line: int
    text: str


def read_sentences(
    files: Sequence[str], kind: str, *, split_sentences: bool = False
) -> Iterator[SourcedSentence]:
    """Sentences of files: ``text`` (one a line, or with ``split_sentences`` running), ``tokens``, ``parts``.

    Raises:
        InputError: if there is no sentence in any of them.
    """
    if kind == "parts":
        sentences = read_parts(files)
    elif kind == "tokens":
        sentences = read_tokens(files)
    else:
        sentences = read_running_text(files) if split_sentences else read_text(files)
    first = next(sentences, None)
    if first is None:
        raise InputError("no sentences in it", file=", ".join(files))
    yield from itertools.chain([first], sentences)


def read_text(files: Iterable[str]) -> Iterator[SourcedSentence]:
    """Text with one sentence a line; words are split as in the Penn Treebank. A blank line has no words."""
    for file in files:
        for line, text in read_lines(file):
            yield SourcedSentence(split_words(text, "ptb").words, file, line, text)


def read_parts(files: Iterable[str]) -> Iterator[SourcedSentence]:
    """The sentences of prompts (:mod:`pdtools.prompts.items`); words are split as in the Penn Treebank."""
    for file in files:
        prompts = read_prompts(file)
        for number, text in prompts.sentences:
            yield SourcedSentence(split_words(text, "ptb").words, file, prompts.lines[number], text)


def read_tokens(files: Iterable[str]) -> Iterator[SourcedSentence]:
    """Words separated by spaces, one sentence a line, with or without PTB escapes."""
    for file in files:
        for line, text in read_lines(file):
            words = tuple(unescape(word) for word in re.split("[ \t]+", text) if word)
            yield SourcedSentence(words, file, line, text)


def read_running_text(files: Iterable[str]) -> Iterator[SourcedSentence]:
    """Running text, split into sentences (:mod:`pdtools.parsers.splitting`).

    A sentence may go over line ends, not over a blank line; its place is the line that it begins in. Blank
    lines between two sentences give one without words, so that it can be seen where a text ends.

    Raises:
        MissingDependencyError: if spaCy is not installed.
    """
    splitter = SentenceSplitter()
    for file in files:
        for line, sentence in _sentences(splitter, read_lines(file)):
            yield SourcedSentence(split_words(sentence, "ptb").words, file, line, sentence)


def sentence_splitter() -> Callable[[str], list[str]]:
    """What cuts a text into sentences by the same rules; white space becomes single spaces.

    Raises:
        MissingDependencyError: if spaCy is not installed.
    """
    splitter = SentenceSplitter()

    def split(text: str) -> list[str]:
        return [sentence for _, sentence in _located(text, splitter.starts(text), 1)]

    return split


def _sentences(splitter: SentenceSplitter, lines: Iterable[tuple[int, str]]) -> Iterator[tuple[int, str]]:
    """The sentences of a file, each with the line it begins in; white space becomes single spaces."""
    piece, first_line = "", 1
    blank_line = 0  # the last one, if nothing but blank lines follows some text
    for number, line in lines:
        blank = not line.strip()
        if blank and (piece or blank_line):
            blank_line = number
        elif blank_line:
            yield blank_line, ""
            blank_line = 0
        if not blank:
            first_line = first_line if piece else number
            piece += line + "\n"
        if not blank and len(piece) <= _PIECE:
            continue
        starts = splitter.starts(piece)
        # The last sentence may go on in the next line; one that fills the piece is given up as it is.
        carry = starts[-1] if not blank and len(starts) > 1 else len(piece)
        yield from _located(piece[:carry], starts, first_line)
        piece, first_line = piece[carry:], first_line + piece.count("\n", 0, carry)
    yield from _located(piece, splitter.starts(piece), first_line)


def _located(text: str, starts: list[int], first_line: int) -> Iterator[tuple[int, str]]:
    for start, end in itertools.pairwise([*(s for s in starts if s < len(text)), len(text)]):
        yield first_line + text.count("\n", 0, start), " ".join(text[start:end].split())
