"""Reading of sentences for a parser: one a line, or running text split into sentences.

Running text is split by punctuation and the case of the next word. spaCy knows abbreviations and the full
stops of many scripts. Its sentencizer leaves an opening quote to the sentence before it, and ends sentences
before ``she cried``; hence the rules here. Tried without gain: a lone ellipsis as the end of a sentence
(``I … I do not know``).
"""

from __future__ import annotations

import itertools
import re
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

from pdtools.errors import InputError, MissingDependencyError
from pdtools.files import read_lines
from pdtools.parsers.backends import SplitSentence, Splitter
from pdtools.search.inputs import SentenceForm, read_inputs
from pdtools.tokenization import aligned, split_words

# Maximal number of characters, about, that a splitter gets at once.
_CHUNK = 100_000
OTHER_WORDS = "sentences whose text has other words"

_CLOSING = "”’»›)\\]}"
_OPENING = "“‘„«‹(\\[{"
_CLOSES = rf"(?:[\"'{_CLOSING}]|\s(?:''|[{_CLOSING}])(?=\s))*"
# A quotation breaks off at the end of a line: “But I—”
_BROKEN_OFF = rf"(?:—|--|…|\.\.\.|⸺|,)[\"{_CLOSING}]+[^\S\n]*\n|[—…⸺][^\S\n]*\n(?=\s*[{_OPENING}])"
_OPENS = re.compile(rf"[\"'`{_OPENING}]*")
_LAST_WORD = re.compile(r"[^\s\"'“‘(\[—-]*$")
_INITIALS = re.compile(r"(?:[^\W\d_]\.)+")
_INITIAL_BEFORE = re.compile(r"\b[^\W\d_]\.\s?$")
_LONGEST_WORD = 100


@dataclass(frozen=True, slots=True)
class SourcedSentence:
    """A sentence as plain words, with its place (lines from 1)."""

    words: tuple[str, ...]
    file: str
    line: int
    text: str


def read_sentences(
    files: Sequence[str],
    kind: SentenceForm,
    *,
    split_sentences: bool = False,
    splitter: Splitter | None = None,
    counts: Counter[str] | None = None,
) -> Iterator[SourcedSentence]:
    """Read sentences of files: plain or running text, tokens, prompts' parts, or the words of trees.

    Args:
        files: names of sources (:mod:`pdtools.files.source`).
        kind: ``text`` (one sentence a line, or with ``split_sentences`` running), ``tokens``, ``parts``, or
            ``treebank``.
        split_sentences: whether text is running text.
        splitter: finds the words of text, and the sentences of running text; without, these are found by the
            rules of :mod:`pdtools.tokenization` and :class:`SentenceSplitter`.
        counts: is added to: sentences whose own string the splitter's words do not spell, so that the words'
            spelling becomes their text (:data:`OTHER_WORDS`).

    Raises:
        InputError: if there is no sentence in any file.
        MissingDependencyError: if spaCy is needed, and not installed.
    """
    if split_sentences or splitter is not None:
        used = SentenceSplitter() if splitter is None else splitter
        placed = _sentences if split_sentences else _lines
        sentences = (
            SourcedSentence((), file, line, text)
            if found is None
            else SourcedSentence(found.words, file, line, _text_of(found, text, counts))
            for file in files
            for line, text, found in placed(used, read_lines(file))
        )
    else:
        sentences = (
            SourcedSentence(each.sentence.words, each.file, each.line, each.written.text)
            for each in read_inputs(files, kind, "ptb")
        )
    first = next(sentences, None)
    if first is None:
        raise InputError("no sentences in it", file=", ".join(files))
    yield from itertools.chain([first], sentences)


def _lines(
    splitter: Splitter, lines: Iterable[tuple[int, str]]
) -> Iterator[tuple[int, str, SplitSentence | None]]:
    """Each line of a file, with its words by a splitter that finds no sentences; None: no words."""
    for chunk in _chunks(lines):
        found = splitter.split([text for _, text in chunk])
        for (line, text), sentences in zip(chunk, found, strict=True):
            if not sentences:
                yield line, text, None
            yield from ((line, text, sentence) for sentence in sentences)


def _sentences(
    splitter: Splitter, lines: Iterable[tuple[int, str]]
) -> Iterator[tuple[int, str, SplitSentence | None]]:
    """The sentences of running text, each with its first line and its own string; None: blank lines.

    A sentence may span line ends, but not a blank line. Blank lines between two sentences give one without
    words, so that the ends of texts show.
    """
    ended: list[tuple[int, str]] = []  # paragraphs, each with its first line; blank lines between two are ""
    size = 0  # the size of all lines since the last chunk
    text, first_line = "", 0  # a paragraph that may go on
    blank_line = 0  # the last one, if only blank lines follow some text
    for number, line in lines:
        if not line.strip():
            blank_line = number if first_line else 0
            ended += [(first_line, text)] if text else []
            text = ""
            continue
        ended += [(blank_line, "")] if blank_line else []
        blank_line = 0
        if not text:
            if size > _CHUNK:
                yield from _placed(ended, splitter.split([paragraph for _, paragraph in ended]))
                ended, size = [], 0
            first_line = number
        for part in _parts(line + "\n"):
            text += part
            size += len(part)
            if len(text) <= _CHUNK:
                continue
            *before, found = splitter.split([*(paragraph for _, paragraph in ended), text])
            # The last sentence may go on in the next line; if cut off within a line, it may belong to the one
            # before. A sentence that fills the chunk is given up as it is.
            whole = found[: -1 if text.endswith("\n") else -2] or found[:-1] or found
            carry = found[len(whole)].start if len(whole) < len(found) else len(text)
            yield from _placed([*ended, (first_line, text[:carry])], [*before, whole])
            text, first_line = text[carry:], first_line + text.count("\n", 0, carry)
            ended, size = [], len(text)
    ended += [(first_line, text)] if text else []
    yield from _placed(ended, splitter.split([paragraph for _, paragraph in ended]))


def _parts(line: str) -> Iterator[str]:
    """Cut a line into parts of at most ``_CHUNK`` characters."""
    return (line[k : k + _CHUNK] for k in range(0, len(line), _CHUNK))


def _placed(
    paragraphs: Iterable[tuple[int, str]], found: Iterable[Sequence[SplitSentence]]
) -> Iterator[tuple[int, str, SplitSentence | None]]:
    """The sentences found in paragraphs, each with its line and string, as :func:`_sentences` gives them."""
    for (first_line, text), sentences in zip(paragraphs, found, strict=True):
        if not sentences and not text.isspace():
            yield first_line, " ".join(text.split()), None
        strings = _strings(text, [sentence.start for sentence in sentences])
        for sentence, (start, string) in zip(sentences, strings, strict=True):
            yield first_line + text.count("\n", 0, start), string, sentence


def _strings(text: str, starts: list[int]) -> Iterator[tuple[int, str]]:
    """The sentences that begin at ``starts``, with these; white space becomes single spaces."""
    for start, end in itertools.pairwise([*(s for s in starts if s < len(text)), len(text)]):
        yield start, " ".join(text[start:end].split())


def _text_of(sentence: SplitSentence, text: str, counts: Counter[str] | None) -> str:
    """A sentence's own string; or its words' spelling, if they differ in more than blanks and quotes."""
    if sentence.spelled == text or aligned(sentence.words, text, "raw") is not None:
        return text
    if counts is not None:
        counts[OTHER_WORDS] += 1
    return sentence.spelled


def _chunks(lines: Iterable[tuple[int, str]]) -> Iterator[list[tuple[int, str]]]:
    """Group lines, as many together as fill a chunk."""
    chunk: list[tuple[int, str]] = []
    size = 0
    for number, line in lines:
        chunk.append((number, line))
        size += len(line) + 1
        if size > _CHUNK:
            yield chunk
            chunk, size = [], 0
    if chunk:
        yield chunk


# --- rules ------------------------------------------------------------------------------------


class SentenceSplitter:
    """Splits running text into sentences, and into words as the Penn Treebank (:class:`Splitter`).

    A sentence ends at a full stop, a question mark or an exclamation mark (of any script), with the quotes
    and brackets that close after it, if white space follows and the next word does not begin with a small
    letter. An opening quote belongs to the sentence after it. At the end of a line a dash or an ellipsis
    ends a quotation. Abbreviations (``Mr.``) and initials do not end a sentence, but ``I.`` does.

    Raises:
        MissingDependencyError: if spaCy is not installed.
    """

    def __init__(self) -> None:
        try:
            from spacy.lang.en.tokenizer_exceptions import TOKENIZER_EXCEPTIONS
            from spacy.pipeline import Sentencizer
        except ImportError as error:
            raise MissingDependencyError("spacy", "parse") from error
        marks = Sentencizer.default_punct_chars
        western = "".join(re.escape(mark) for mark in marks if mark.isascii())
        others = "".join(re.escape(mark) for mark in marks if not mark.isascii())
        # A run of marks is tried only from its first one: from each, long rows of dots would take minutes.
        self._ends = re.compile(
            rf"…?(?<![{western}])[{western}]+(?:\s?…)*{_CLOSES}\s+|(?<!…)…+[{_CLOSING}]+\s+"
            rf"|[{others}]+{_CLOSES}\s*|{_BROKEN_OFF}\s*"
        )
        self._abbreviations = frozenset(word for word in TOKENIZER_EXCEPTIONS if word.endswith("."))

    def starts(self, text: str) -> list[int]:
        """The offset of each sentence's first character, rising."""
        if not text.strip():
            return []
        starts = [len(text) - len(text.lstrip())]
        for end in self._ends.finditer(text, starts[0]):
            follows = _OPENS.match(text, end.end())
            assert follows is not None
            following = text[follows.end() : follows.end() + 1]
            if end.end() < len(text) and not following.islower() and not self._abbreviates(text, end.start()):
                starts.append(end.end())
        return starts

    def split(self, texts: Sequence[str]) -> list[list[SplitSentence]]:
        """See :meth:`pdtools.parsers.backends.Splitter.split`."""
        return [
            [
                SplitSentence(start, split_words(sentence, "ptb").words, sentence)
                for start, sentence in _strings(text, self.starts(text))
            ]
            for text in texts
        ]

    def strings(self, text: str) -> list[str]:
        """The sentences of a text; white space becomes single spaces."""
        return [sentence for _, sentence in _strings(text, self.starts(text))]

    def _abbreviates(self, text: str, stop: int) -> bool:
        """Return whether the full stop at ``stop`` belongs to an abbreviation or an initial."""
        if text[stop] != ".":
            return False
        before = _LAST_WORD.search(text, max(0, stop - _LONGEST_WORD), stop)
        assert before is not None
        word = before.group() + "."
        if word == "I.":
            return _INITIAL_BEFORE.search(text, max(0, before.start() - 3), before.start()) is not None
        return word in self._abbreviations or _INITIALS.fullmatch(word) is not None
