"""Files of sentences, one a line, as the words that a model reads. No torch."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Literal

from pdtools.files import read_lines
from pdtools.tokenization import Sentence, join_words, split_spaces, split_words
from pdtools.trees import unescape

Source = Literal["text", "tokens"]


@dataclass(frozen=True, slots=True)
class SourcedLine:
    """A sentence and the line (from 1) that it came from."""

    sentence: Sentence
    file: str
    line: int


def read_sentence(text: str, source: Source, text_style: str | None) -> Sentence:
    """A line as the words that a model reads.

    Args:
        text: one sentence.
        source: ``text``: running text, split by the rules of the text style; ``tokens``: words separated
            by spaces or tabs, with or without PTB escapes.
        text_style: that the model was trained on; None for models that read text as it is. Where that is
            not ``ptb``, tokens are first written as running text, and offsets refer to that.
    """
    if source == "text":
        return split_words(text, text_style) if text_style else split_spaces(text)
    sentence = split_spaces(text.replace("\t", " "))
    words = tuple(unescape(word) for word in sentence.words)
    if text_style != "ptb":
        return join_words(words, "raw")
    return Sentence(sentence.text, words, sentence.starts, sentence.ends)


def read_inputs(files: Iterable[str], source: Source, text_style: str | None) -> Iterator[SourcedLine]:
    """Every line of the files as a sentence, blank ones too (without words)."""
    for file in files:
        for line, text in read_lines(file):
            yield SourcedLine(read_sentence(text, source, text_style), file, line)
