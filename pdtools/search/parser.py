"""A trained checkpoint as a parser: the best derivation of every sentence."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from pdtools.parsers.backends import ParseFailure
from pdtools.search.model import Model, ModelSettings
from pdtools.search.scores import Unscorable
from pdtools.tokenization import join_words
from pdtools.trees import Tree, escape, sentence_problem


@dataclass(frozen=True, slots=True)
class CheckpointSettings:
    """The source of a :class:`CheckpointParser` (:class:`pdtools.parsers.in_chunks.ParserSettings`).

    Attributes:
        model: asked for parses.
    """

    model: ModelSettings

    def load(self) -> CheckpointParser:
        """Load the parser."""
        return CheckpointParser(self.model.load())

    def described(self) -> dict[str, Any]:
        """The settings that its trees depend on."""
        return self.model.for_job()


class CheckpointParser:
    """A :class:`~pdtools.parsers.backends.Parser` over a checkpoint with an attachment head, or TreeReg.

    Args:
        model: asked for parses (:func:`pdtools.search.load_model`).

    Raises:
        PdtoolsError: if it does not parse.
    """

    def __init__(self, model: Model) -> None:
        self._model, self._style = model, model.settings["text_style"]

    def parse(self, sentences: Sequence[Sequence[str]]) -> Iterator[Tree | ParseFailure]:
        """See :meth:`pdtools.parsers.backends.Parser.parse`."""
        joined = (join_words(words, self._style) for words in sentences)
        for words, found in zip(sentences, self._model.parse(joined), strict=True):
            if isinstance(found, Unscorable):
                yield ParseFailure(found.reason)
            elif problem := sentence_problem(words):
                yield ParseFailure(problem)
            else:
                ((_, tree),) = found.k_best
                yield Tree(
                    tuple(escape(word) for word in words), tree.tags, tree.labels, tree.starts, tree.ends
                )
