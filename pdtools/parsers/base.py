"""The interface of parser backends: sentences in, one tree or one failure each out."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pkgutil import resolve_name
from typing import Any, Protocol

from pdtools.errors import PdtoolsError
from pdtools.trees import Tree


@dataclass(frozen=True, slots=True)
class ParseFailure:
    """The reason why a sentence has no tree."""

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
            ones, with brackets escaped.
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
# model, and, if its models split texts too, ``load_splitter(model, sentences) -> Splitter`` and
# ``splitter_files(model)``.
BACKENDS = {
    "benepar": "pdtools.parsers.benepar",
    "stanza": "pdtools.parsers.stanza",
    "right-branching": "pdtools.parsers.branching:RIGHT",
    "left-branching": "pdtools.parsers.branching:LEFT",
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
