"""The scorer of models of strings and arcs: marginals by the beam search of attachments."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import cast

from pdtools.models import LanguageModel, LoadedModel
from pdtools.models.dependency.derivations import ArcDerivation, graph_of_history
from pdtools.models.dependency.model import GiltLM
from pdtools.models.derivations import OTHER_WORDS
from pdtools.search.attachments.scorer import AttachmentScorer, AttachmentSearch, Searched
from pdtools.search.contexts import NO_CONTEXT, Context
from pdtools.search.derivation_search import DerivationSearch, ParticleStrings
from pdtools.search.family import Family
from pdtools.search.options import DEFAULT_SEARCH, SearchOptions
from pdtools.search.parses import Parsed, ParsedScore
from pdtools.search.scores import PrefixScores, Unscorable
from pdtools.tokenization import Sentence
from pdtools.trees import escape, sentence_problem


class ArcScorer(AttachmentScorer):
    """The family (:class:`pdtools.search.family.Family`) of a model of strings and arcs.

    Args:
        loaded, search, context: see :class:`AttachmentScorer`; no context: these models read sentences.
    """

    def __init__(
        self, loaded: LoadedModel, search: SearchOptions = DEFAULT_SEARCH, *, context: Context = NO_CONTEXT
    ) -> None:
        super().__init__(loaded, search, context=context)
        self.settings["kind"] = "arcs"

    def score_with_parses(self, sentences: Iterable[str | Sentence]) -> Iterator[ParsedScore | Unscorable]:
        """See :meth:`Family.score_with_parses`; graphs are given as arcs, such as ``0-2 2-1``."""
        for found in self.search(sentences):
            if isinstance(found, Unscorable):
                yield found
            else:
                graphs = map(graph_of_history, found.result.incremental[1:])
                yield ParsedScore(self.as_score(found), tuple(map(str, graphs)))

    def parse(self, sentences: Iterable[str | Sentence], *, k_best: int = 1) -> Iterator[Parsed | Unscorable]:
        """See :meth:`Family.parse`; trees are made by :func:`.derivations.graph_tree`."""
        merging = k_best > 1
        for found in self.search(sentences, k_best=self.beam.width if merging and self.beam else k_best):
            if isinstance(found, Unscorable):
                yield found
            elif problem := sentence_problem(found.encoded.sentence.words):
                yield Unscorable(found.encoded.sentence.text, problem)
            else:
                words = [escape(word) for word in found.encoded.sentence.words]
                word_of_token = found.encoded.encoding.word[1:-1].tolist()
                best = arc_derivations(found)
                if best[0][1].graph.n_words != len(words):
                    yield Unscorable(found.encoded.sentence.text, OTHER_WORDS)
                    continue
                trees = [(joint, each.tree(words, word_of_token)) for joint, each in best]
                yield Parsed.of(
                    trees,
                    found.marginal,
                    found.result.dropped,
                    k_best=k_best,
                    merging=merging,
                    arcs=[str(each.graph) for _, each in best],
                )


def arc_derivations(found: Searched) -> list[tuple[float, ArcDerivation]]:
    """The best derivations of a sentence, best first, with their log joints in nats."""
    tokens = found.encoded.encoding.ids[1:-1]
    return [
        (joint, ArcDerivation(tokens, graph_of_history(history)))
        for joint, history in found.result.derivations
    ]


class ArcSearch(AttachmentSearch):
    """The search over arcs, by :func:`pdtools.search.beam_search`."""

    def searcher(self, loaded: LoadedModel, search: SearchOptions, *, context: Context) -> ArcScorer:
        """See :meth:`DerivationSearch.searcher`."""
        return ArcScorer(loaded, search, context=context)

    def adaptive(self, loaded: LoadedModel, search: SearchOptions, *, context: Context) -> Family:
        """Refuse: how wide is wide enough was measured on attachments."""
        return DerivationSearch.adaptive(self, loaded, search, context=context)

    def particles(self, model: LanguageModel, asked: ParticleStrings) -> list[PrefixScores]:
        """See :meth:`DerivationSearch.particles`; sets are too many to weigh all at once."""
        if cast(GiltLM, model).config.arcs == "set":
            return DerivationSearch.particles(self, model, asked)
        return super().particles(model, asked)
