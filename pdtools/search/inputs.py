"""Files of sentences, one a line, as the words that a model reads. No torch."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Literal

from pdtools.errors import InputError
from pdtools.files import Rejects, count_lines, read_lines
from pdtools.prompts.items import read_prompts
from pdtools.shards import ShardFolder
from pdtools.tokenization import Sentence, join_words, split_spaces, split_text_words, split_words
from pdtools.trees import SourcedTree, count_trees, normalize, read_trees, unescape

SentenceForm = Literal["text", "tokens", "treebank", "parts"]
# Excluding a tree would shift the numbers of the trees after it.
_BROKEN_TREE = "pdtools parse --from treebank --on-error skip makes a file of the others"


@dataclass(frozen=True, slots=True)
class SourcedLine:
    """A sentence with its source.

    Attributes:
        sentence: the words that a model reads.
        written: the line as it is in the file, for every model: for running text its text words; for tokens,
            and for trees with a space between all of them, its words.
        file: the file.
        line: the line in it (from 1); in a treebank, the number of the tree.
        ranges: multi-word tokens of CoNLL-U (:class:`pdtools.trees.forms.conllu.ConlluSentence`).
    """

    sentence: Sentence
    written: Sentence
    file: str
    line: int
    ranges: tuple[tuple[int, int, str], ...] = ()


def read_sentence(text: str, source: Literal["text", "tokens"], text_style: str | None) -> Sentence:
    """Convert a line to the words that a model reads.

    Args:
        text: one sentence.
        source: ``text``: running text, split by the rules of the text style; ``tokens``: words separated
            by spaces or tabs, with or without PTB escapes.
        text_style: the model's; None for models that read text as it is. If it is not ``ptb``, tokens are
            first written as running text, and offsets refer to that.
    """
    if source == "text":
        return split_words(text, text_style) if text_style else split_text_words(text)
    sentence = _split_tokens(text)
    words = tuple(unescape(word) for word in sentence.words)
    if text_style != "ptb":
        return join_words(words, "raw")
    return Sentence(sentence.text, words, sentence.starts, sentence.ends)


def read_inputs(
    files: Iterable[str], source: SentenceForm | Literal["conllu"], text_style: str | None
) -> Iterator[SourcedLine]:
    """Every line of the files as a sentence, blank ones too (without words); or the words of every tree.

    From prompts (``parts``), every sentence comes with the earlier ones of its prompt. From CoNLL-U come its
    syntactic words.

    Raises:
        InputError: if a file cannot be read, or a tree is broken.
    """
    if source == "treebank":
        for file in files:
            rejects = Rejects("fail", hint=_BROKEN_TREE)
            for number, tree in enumerate(read_trees([file], rejects), 1):
                words = _words_of(tree)
                sentence = join_words(words, "ptb" if text_style == "ptb" else "raw")
                yield SourcedLine(sentence, join_words(words, "ptb"), file, number)
        return
    if source == "parts":
        for file in files:
            yield from _parts(file, text_style)
        return
    if source == "conllu":
        for file in files:
            yield from _conllu(file, text_style)
        return
    split_written = split_text_words if source == "text" else _split_tokens
    for file in files:
        for line, text in read_lines(file):
            yield SourcedLine(read_sentence(text, source, text_style), split_written(text), file, line)


def read_rows(shards: ShardFolder, text_style: str | None) -> Iterator[SourcedLine]:
    """The sentences of shards, as their words; each document of windows is a file of its own.

    Rows of the sentence layout have no documents: they are one text.

    Raises:
        InputError: if they are blocks of running text, which have no sentences, or damaged.
    """
    if shards.layout == "block":
        raise InputError("blocks of running text have no sentences", file=shards.folder)
    line = 0
    for block in shards.blocks():
        for i in range(len(block)):
            document = block.document(i)
            place = str(shards.folder) if document is None else f"{shards.folder}, document {document}"
            for text in block.text(i).split("\n"):
                line += 1
                yield SourcedLine(read_sentence(text, "tokens", text_style), _split_tokens(text), place, line)


def count_inputs(files: Sequence[str], source: SentenceForm | Literal["conllu"]) -> int | None:
    """The number of sentences from :func:`read_inputs`, if it can be counted quickly."""
    if source in ("parts", "conllu"):
        return None
    return count_trees(files) if source == "treebank" else count_lines(files)


def _parts(file: str, text_style: str | None) -> Iterator[SourcedLine]:
    prompts = read_prompts(file)
    before: list[Sentence] = []
    item = -1
    for number, text in prompts.sentences:
        if number != item:
            before, item = [], number
        sentence = replace(read_sentence(text, "text", text_style), before=tuple(before))
        yield SourcedLine(sentence, split_text_words(text), file, prompts.lines[number])
        before.append(replace(sentence, before=()))


def _conllu(file: str, text_style: str | None) -> Iterator[SourcedLine]:
    from pdtools.trees.forms import FORMS, conllu

    for block in FORMS["conllu"].blocks(file):
        try:
            if block.fault is not None:
                raise InputError(block.fault, line=1)
            found = conllu.read_sentence(block, heads_needed=False)
        except InputError as error:
            raise InputError(error.reason, file=file, line=block.line + (error.line or 1) - 1) from None
        if words := [unescape(word) for word in found.words]:
            sentence = join_words(words, "ptb" if text_style == "ptb" else "raw")
            yield SourcedLine(sentence, join_words(words, "ptb"), file, block.line, tuple(found.ranges))


def _split_tokens(line: str) -> Sentence:
    return split_spaces(line.replace("\t", " "))


def _words_of(sourced: SourcedTree) -> list[str]:
    """The words of a tree, without traces; none if traces are all it has."""
    tree = normalize(sourced.tree)
    return [] if tree is None else [unescape(word) for word in tree.words]
