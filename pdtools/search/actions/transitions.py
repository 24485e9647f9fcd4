"""The scorer of models of arc-standard actions, by the search of action models."""

from __future__ import annotations

from collections.abc import Sequence
from typing import cast

import numpy as np

from pdtools.models import LoadedModel
from pdtools.models.derivations import OTHER_WORDS
from pdtools.models.grammar.dependency import DependencyGrammarLM
from pdtools.models.grammar.transition_derivations import TransitionDerivation
from pdtools.search.actions.scorer import ActionScorer, ActionSearch, SearchedActions
from pdtools.search.contexts import NO_CONTEXT, Context
from pdtools.search.encoding import Encoded
from pdtools.search.options import DEFAULT_SEARCH, SearchOptions
from pdtools.search.scores import Unscorable
from pdtools.tokenization import Sentence


class TransitionScorer(ActionScorer):
    """The family (:class:`pdtools.search.family.Family`) of a model of arc-standard actions.

    Args:
        loaded, search, context: see :class:`ActionScorer`.
    """

    def __init__(
        self, loaded: LoadedModel, search: SearchOptions = DEFAULT_SEARCH, *, context: Context = NO_CONTEXT
    ) -> None:
        super().__init__(loaded, search, context=context)
        self.settings["kind"] = "transitions"
        self._begins = ~cast(DependencyGrammarLM, loaded.model).continues  # (V,)

    def _encode(self, sentence: str | Sentence) -> Encoded | Unscorable:
        """See :meth:`CheckpointScorer._encode`; words are those that the tokens show."""
        found = super()._encode(sentence)
        if isinstance(found, Unscorable):
            return found
        ids, word = found.encoding.ids[1:-1], found.encoding.word[:-1]
        return (
            found
            if np.array_equal(self._begins[ids], np.diff(word) > 0)
            else Unscorable(found.sentence.text, OTHER_WORDS)
        )

    def _arcs(self, found: SearchedActions) -> Sequence[str]:
        """See :meth:`ActionScorer._arcs`."""
        return [str(cast(TransitionDerivation, best).graph) for _, best in found.result.derivations]


class TransitionSearch(ActionSearch):
    """The search over arc-standard actions, by :func:`.word_synchronous.word_synchronous_search`."""

    def searcher(self, loaded: LoadedModel, search: SearchOptions, *, context: Context) -> TransitionScorer:
        """See :meth:`DerivationSearch.searcher`."""
        return TransitionScorer(loaded, search, context=context)
