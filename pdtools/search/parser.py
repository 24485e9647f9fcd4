"""A trained checkpoint as a parser: the best derivation of every sentence."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pdtools.jobs.devices import prepare_torch
from pdtools.parsers.base import ParseFailure
from pdtools.provenance import check_fingerprint
from pdtools.search.in_chunks import ModelSettings, model_settings_for_job
from pdtools.search.options import DEFAULT_SEARCH, SearchOptions
from pdtools.search.scorer import load_searcher
from pdtools.search.scores import Unscorable
from pdtools.tokenization import join_words
from pdtools.trees import Tree, escape, sentence_problem


@dataclass(frozen=True, slots=True)
class CheckpointSettings:
    """The source of a :class:`CheckpointParser` (:class:`pdtools.parsers.in_chunks.ParserSettings`)."""

    model: ModelSettings

    def load(self) -> CheckpointParser:
        """Load the parser."""
        check_fingerprint(self.model.model_dir, self.model.fingerprint)
        device = prepare_torch(self.model.device, self.model.threads)
        return CheckpointParser(self.model.model_dir, self.model.search, device=device)

    def described(self) -> dict[str, Any]:
        """The settings that its trees depend on."""
        return model_settings_for_job(self.model)


class CheckpointParser:
    """A :class:`~pdtools.parsers.Parser` over a checkpoint with an attachment head, or TreeReg.

    Args:
        model_dir: a checkpoint, or a run folder of ``pdtools train``.
        search: search options; for TreeReg, the kind of tree.
        device: a torch device.

    Raises:
        PdtoolsError: if the folder holds no model that parses.
    """

    def __init__(
        self, model_dir: str | Path, search: SearchOptions = DEFAULT_SEARCH, *, device: str = "cpu"
    ) -> None:
        self._searcher = load_searcher(model_dir, search, device=device)

    def parse(self, sentences: Sequence[Sequence[str]]) -> Iterator[Tree | ParseFailure]:
        """See :meth:`pdtools.parsers.Parser.parse`."""
        style = self._searcher.settings["text_style"]
        joined = (join_words(words, style) for words in sentences)
        for words, found in zip(sentences, self._searcher.parse(joined), strict=True):
            if isinstance(found, Unscorable):
                yield ParseFailure(found.reason)
            elif problem := sentence_problem(words):
                yield ParseFailure(problem)
            else:
                ((_, tree),) = found.k_best
                yield Tree(
                    tuple(escape(word) for word in words), tree.tags, tree.labels, tree.starts, tree.ends
                )
