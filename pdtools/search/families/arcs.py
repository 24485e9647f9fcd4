"""Models of strings and arcs: marginals by the beam search of attachments."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, cast

from pdtools.models import LanguageModel
from pdtools.models.dependency.derivations import ArcDerivation, graph_of_history
from pdtools.models.dependency.model import GiltLM
from pdtools.models.derivations import OTHER_WORDS, AnyDerivation
from pdtools.search.checkpoints import Searched, SearchFamily
from pdtools.search.families.attachments import AttachmentFamily
from pdtools.search.scores import PrefixScores


class ArcFamily(AttachmentFamily):
    """The family of models of strings and arcs; graphs are given as arcs, such as ``0-2 2-1``.

    The beam ``auto`` is not for them: how wide is wide enough was measured on attachments.
    """

    kind = "arcs"
    adapts = False

    def tree_problem(self, found: Searched) -> str | None:
        """See :meth:`SearchFamily.tree_problem`; graphs are over the words that tokens show."""
        n_words = graph_of_history(found.result.derivations[0][1]).n_words
        others = None if n_words == len(found.encoded.sentence.words) else OTHER_WORDS
        return super().tree_problem(found) or others

    def derivations(self, found: Searched) -> list[tuple[float, AnyDerivation]]:
        """See :meth:`SearchFamily.derivations`; trees are made by :func:`.derivations.graph_tree`."""
        tokens = found.encoded.encoding.ids[1:-1]
        return [
            (joint, ArcDerivation(tokens, graph_of_history(history)))
            for joint, history in found.result.derivations
        ]

    def incremental(self, found: Searched, tokens: Sequence[str]) -> Iterator[str]:
        """See :meth:`SearchFamily.incremental`."""
        return (str(graph_of_history(history)) for history in found.result.incremental[1:])

    @staticmethod
    def particles(model: LanguageModel, *asked: Any, **options: Any) -> list[PrefixScores]:
        """See :meth:`SearchFamily.particles`; sets are too many to weigh all at once."""
        by = SearchFamily if cast(GiltLM, model).config.arcs == "set" else AttachmentFamily
        return by.particles(model, *asked, **options)
