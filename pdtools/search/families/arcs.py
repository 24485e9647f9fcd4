"""Models of strings and arcs: marginals by the beam search of attachments."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, cast

import numpy as np
from numpy.typing import NDArray

from pdtools.models import LanguageModel
from pdtools.models.dependency.derivations import ArcDerivation, graph_of_history
from pdtools.models.dependency.model import GiltLM
from pdtools.models.derivations import OTHER_WORDS, AnyDerivation
from pdtools.search.checkpoints import Searched, SearchFamily
from pdtools.search.families.attachments import AttachmentFamily
from pdtools.search.options import Particles
from pdtools.search.particles import by_choices
from pdtools.search.scores import PrefixScores


class ArcFamily(AttachmentFamily):
    """The family of models of strings and arcs; graphs are given as arcs, such as ``0-2 2-1``.

    The beam ``auto`` is not for them: how wide is wide enough was measured on attachments.
    """

    kind = "arcs"
    adapts = False
    has_structure = False

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
    def particles(
        model: LanguageModel,
        token_ids: Sequence[NDArray[np.int32]],
        particles: Particles,
        **options: Any,
    ) -> list[PrefixScores]:
        """See :meth:`SearchFamily.particles`; sets are too many to weigh all at once."""
        if cast(GiltLM, model).config.arcs == "set":
            return SearchFamily.particles(model, token_ids, particles, **options)
        # A beam has a hypothesis after every token: none is left after one that no string has.
        never = [model.pad_id, model.root_id]
        beyond = [bool(np.isin(ids[1:], never).any()) for ids in token_ids]
        possible = [ids for ids, is_beyond in zip(token_ids, beyond, strict=True) if not is_beyond]
        found = iter(AttachmentFamily.particles(model, possible, particles, **options))
        return [
            by_choices(model, ids, particles) if is_beyond else next(found)
            for ids, is_beyond in zip(token_ids, beyond, strict=True)
        ]
