"""Parser backends: sentences in, one tree or one failure each out; and what libraries of parsers share."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pkgutil import resolve_name
from typing import Any, Protocol

import numpy as np

from pdtools.errors import PdtoolsError
from pdtools.trees import Graph, Tree, escape, flat_tree, sentence_problem, tree_from_attachments
from pdtools.trees.forms.form import ReadTree
from pdtools.trees.projection import constituents

# The networks read typed quotes; treebanks distinguish opening from closing ones.
_QUOTES = {"``": '"', "''": '"', "`": "'"}


@dataclass(frozen=True, slots=True)
class ParseFailure:
    """The reason why a sentence has no tree."""

    reason: str


class Parser(Protocol):
    """A source of trees.

    A sentence that cannot be parsed fails alone: it never ends the iterator, and never changes the
    result of another.
    """

    def parse(self, sentences: Sequence[Sequence[str]]) -> Iterator[Tree | ReadTree | ParseFailure]:
        """Parse sentences given as plain words (``(``, not ``-LRB-``).

        Yields:
            One result for each sentence, in the order of the sentences. A tree's words are the given
            ones, with brackets escaped. A parser of dependencies gives them with the tree.
        """
        ...


@dataclass(frozen=True, slots=True)
class SplitSentence:
    """A sentence of a text, with its words.

    Attributes:
        start: the offset of its first character in the text.
        words: its plain words; a blank within a word is a no-break space.
        spelled: the sentence as its words spell it, with single blanks.
    """

    start: int
    words: tuple[str, ...]
    spelled: str


class Splitter(Protocol):
    """Splits texts into words, and into sentences."""

    def split(self, texts: Sequence[str]) -> list[list[SplitSentence]]:
        """The sentences of each text, in order. No sentence spans two texts; a text without words has none.

        Args:
            texts: without blank lines in them; their ends are ends of sentences.
        """
        ...


# Backends, as modules or objects in them: each defines ``load(model, device) -> Parser``, and
# ``model_files(model)``, the paths of a model's files. It may define ``note(model)``, a line that names the
# model; ``gives_arcs(model)``, whether it finds dependencies; and, if its models split texts too,
# ``load_splitter(model, sentences) -> Splitter`` and ``splitter_files(model)``.
BACKENDS = {
    "benepar": "pdtools.parsers.benepar",
    "stanza": "pdtools.parsers.stanza",
    "spacy": "pdtools.parsers.spacy",
    "right-branching": "pdtools.parsers.backends:RIGHT",
    "left-branching": "pdtools.parsers.backends:LEFT",
}


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
    parser: Parser = _backend(name).load(model, device)
    return parser


def model_files(name: str, model: str | None = None) -> list[str]:
    """The paths of a backend's model, files or folders; see :func:`load_parser`."""
    files: list[str] = _backend(name).model_files(model)
    return files


def model_note(name: str, model: str | None = None) -> str | None:
    """A line that names the model a backend takes, if it has one; see :func:`load_parser`."""
    note: Callable[[str | None], str] | None = getattr(_backend(name), "note", None)
    return None if note is None else note(model)


def gives_arcs(name: str, model: str | None = None) -> bool:
    """Return whether a backend's model finds dependencies; see :func:`load_parser`."""
    found: Callable[[str | None], bool] | None = getattr(_backend(name), "gives_arcs", None)
    return found is not None and found(model)


def backends_with_splitter() -> list[str]:
    """The backends whose models split texts into words and sentences."""
    return [name for name in BACKENDS if hasattr(_backend(name), "load_splitter")]


def load_splitter(name: str, model: str | None = None, *, sentences: bool) -> Splitter:
    """Load a parser's splitter of texts, on the CPU: its sentences determine the chunks of a job.

    Args:
        name: one of :func:`backends_with_splitter`.
        model: see :func:`load_parser`.
        sentences: find sentences, or take each text as one.

    Raises:
        PdtoolsError: if the model splits no texts, or is damaged.
        MissingDependencyError: if the backend's package is not installed.
    """
    splitter: Splitter = _backend(name).load_splitter(model, sentences)
    return splitter


def splitter_files(name: str, model: str | None = None) -> list[str]:
    """The paths of the files that :func:`load_splitter` reads."""
    files: list[str] = _backend(name).splitter_files(model)
    return files


def _backend(name: str) -> Any:
    if name not in BACKENDS:
        known = ", ".join(BACKENDS)
        raise PdtoolsError(f"no parser named {name!r}: use {known}, or the folder of a trained checkpoint")
    return resolve_name(BACKENDS[name])


# --- parsers without a model --------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Branching:
    """A backend of purely branching trees, and its own :class:`Parser`: a baseline for F1.

    Attributes:
        to_the_right: whether every constituent is a word and the rest, or the rest and a word.
    """

    to_the_right: bool

    def load(self, model: str | None, device: str) -> Parser:
        """Return itself: there is no model to load."""
        return self

    def model_files(self, model: str | None) -> list[str]:
        """Return no files: there is no model."""
        return []

    def parse(self, sentences: Sequence[Sequence[str]]) -> Iterator[Tree | ParseFailure]:
        """See :meth:`Parser.parse`."""
        for words in sentences:
            problem = sentence_problem(words)
            yield ParseFailure(problem) if problem else self._tree(list(map(escape, words)))

    def _tree(self, words: Sequence[str]) -> Tree:
        if len(words) == 1:
            return flat_tree(words)
        places = np.arange(len(words))
        return tree_from_attachments(places if self.to_the_right else np.maximum(places - 1, 0), words)


RIGHT, LEFT = Branching(to_the_right=True), Branching(to_the_right=False)


# --- parsers that batch sentences -----------------------------------------------------------------


class BatchedParser(ABC):
    """A :class:`Parser` over a library that parses some sentences together.

    Such libraries may raise any error for a sentence that they cannot parse: its batch is halved until the
    sentence is alone.

    Args:
        max_tokens: see :func:`length_batches`.
        max_cells: see :func:`length_batches`.
        added_tokens: number of tokens that the library adds to a sentence.
    """

    def __init__(self, *, max_tokens: int, max_cells: int, added_tokens: int = 0) -> None:
        self._max_tokens = max_tokens
        self._max_cells = max_cells
        self._added_tokens = added_tokens

    def parse(self, sentences: Sequence[Sequence[str]]) -> Iterator[Tree | ReadTree | ParseFailure]:
        """See :meth:`Parser.parse`; all sentences are sorted by length together."""
        reasons = [self.problem(words) for words in sentences]
        results: dict[int, Tree | ReadTree | ParseFailure] = {
            index: ParseFailure(reason) for index, reason in enumerate(reasons) if reason is not None
        }
        usable = [index for index, reason in enumerate(reasons) if reason is None]
        lengths = [len(sentences[index]) + self._added_tokens for index in usable]
        for batch in length_batches(lengths, max_tokens=self._max_tokens, max_cells=self._max_cells):
            indices = [usable[position] for position in batch]
            parsed = self._parse_isolated([sentences[index] for index in indices])
            results.update(zip(indices, parsed, strict=True))
        for index in range(len(sentences)):
            yield results[index]

    def problem(self, words: Sequence[str]) -> str | None:
        """The reason why a sentence cannot be parsed, if known beforehand."""
        return sentence_problem(words)

    @abstractmethod
    def parse_batch(self, sentences: Sequence[Sequence[str]]) -> Iterator[Tree | ReadTree]:
        """Parse sentences together, or raise any error."""

    def failure(self, error: Exception) -> str:
        """The message for an error of :meth:`parse_batch` on one sentence."""
        return f"the parser failed: {first_line(error)}"

    def _parse_isolated(self, sentences: Sequence[Sequence[str]]) -> list[Tree | ReadTree | ParseFailure]:
        try:
            return list(self.parse_batch(sentences))
        except Exception as error:
            if len(sentences) == 1:
                return [ParseFailure(self.failure(error))]
        half = len(sentences) // 2
        return self._parse_isolated(sentences[:half]) + self._parse_isolated(sentences[half:])


def length_batches(lengths: Sequence[int], *, max_tokens: int, max_cells: int) -> Iterator[list[int]]:
    """Group sentences by length, shortest first, so that little is padded and memory stays bounded.

    Args:
        lengths: the length of each sentence.
        max_tokens: bound of batch size × longest sentence.
        max_cells: bound of batch size × longest sentence², to which a chart parser's memory is proportional.

    Yields:
        Indices of sentences; every index once. A sentence over a bound is a batch of its own.
    """
    batch: list[int] = []
    for index in sorted(range(len(lengths)), key=lengths.__getitem__):
        length, size = lengths[index], len(batch) + 1
        if batch and (size * length > max_tokens or size * length**2 > max_cells):
            yield batch
            batch = []
        batch.append(index)
    if batch:
        yield batch


def with_arcs(words: Sequence[str], tags: Sequence[str], parents: list[int]) -> ReadTree:
    """The tree that CoNLL-U with these dependencies would give, and the dependencies.

    Args:
        words: (n), plain.
        tags: (n) universal parts of speech, ``_`` if unknown.
        parents: (n), each word's head from 0, -1 for a root; changed in place.

    Raises:
        InputError: if they are no tree.
    """
    graph = Graph.of_heads([parent + 1 for parent in parents])
    tree, _ = constituents([escape(word) for word in words], tags, parents)
    return ReadTree(tree, heads=np.array(parents, np.int32), graph=graph)


def typed_quotes(word: str) -> str:
    """A word; a treebank's quote becomes a typed one."""
    return _QUOTES.get(word, word)


def first_line(error: Exception) -> str:
    """The type of an error, and the first line of its message."""
    text = str(error).strip()
    return f"{type(error).__name__}: {text.splitlines()[0]}" if text else type(error).__name__
