"""Files of sentences, one a line, as the words that a model reads. No torch."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Literal

from pdtools.files import Rejects, read_lines
from pdtools.tokenization import Sentence, join_words, split_spaces, split_words
from pdtools.trees import SourcedTree, normalize, read_trees, unescape

Source = Literal["text", "tokens", "treebank"]


@dataclass(frozen=True, slots=True)
class SourcedLine:
    """A sentence and the line (from 1) that it came from; in a treebank, the number of its tree."""

    sentence: Sentence
    file: str
    line: int


def read_sentence(text: str, source: Literal["text", "tokens"], text_style: str | None) -> Sentence:
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
    """Every line of the files as a sentence, blank ones too (without words); or the words of every tree.

    Raises:
        InputError: if a file cannot be read, or a tree is broken.
    """
    if source == "treebank":
        for file in files:
            for number, tree in enumerate(read_trees([file], Rejects("fail")), 1):
                yield SourcedLine(_words_of(tree, text_style), file, number)
        return
    for file in files:
        for line, text in read_lines(file):
            yield SourcedLine(read_sentence(text, source, text_style), file, line)


def _words_of(sourced: SourcedTree, text_style: str | None) -> Sentence:
    """The words of a tree, without traces; none if traces are all it has."""
    tree = normalize(sourced.tree)
    words = [] if tree is None else [unescape(word) for word in tree.words]
    return join_words(words, "ptb" if text_style == "ptb" else "raw")
