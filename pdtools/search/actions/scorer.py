"""The scorer of action models: marginals by word-synchronous beam search."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import NamedTuple, cast

import numpy as np
from numpy.typing import NDArray

from pdtools.errors import PdtoolsError
from pdtools.models import LanguageModel, LoadedModel
from pdtools.models.grammar.derivations import ActionDerivation
from pdtools.models.grammar.model import GrammarLM
from pdtools.search.actions.word_synchronous import ActionResult, word_synchronous_search
from pdtools.search.checkpoint_scorer import CheckpointScorer, Expected
from pdtools.search.contexts import NO_CONTEXT, Context
from pdtools.search.derivation_search import DerivationSearch, ParticleStrings
from pdtools.search.encoding import Encoded, score_windows, sentence_score
from pdtools.search.next_tokens import measured
from pdtools.search.options import DEFAULT_SEARCH, NOT_SEARCHED, ActionBeam, SearchOptions
from pdtools.search.parses import Parsed, ParsedScore
from pdtools.search.scores import (
    Continuation,
    GivenRow,
    PrefixScores,
    RowScore,
    SentenceScore,
    Unscorable,
    nothing_found,
)
from pdtools.tokenization import Sentence, split_words
from pdtools.trees import Tree, escape, sentence_problem


class SearchedActions(NamedTuple):
    """A sentence, its tokens, and the search's result."""

    encoded: Encoded
    result: ActionResult


class ActionScorer(CheckpointScorer):
    """The family (:class:`pdtools.search.family.Family`) of an action model.

    Args:
        loaded: a checkpoint.
        search: width of the beam, and number of sentences searched at once.
        context: none: these models read single sentences.
    """

    def __init__(
        self, loaded: LoadedModel, search: SearchOptions = DEFAULT_SEARCH, *, context: Context = NO_CONTEXT
    ) -> None:
        self.beam = search.for_actions()
        super().__init__(
            loaded,
            kind="actions",
            searched=NOT_SEARCHED if self.beam is None else self.beam.as_settings(),
            max_batch=search.max_batch,
            context=context,
        )
        if self.beam is not None:
            self.marginal = "word-synchronous beam: a lower bound of log p(x)"
        self._model = cast(GrammarLM, loaded.model)

    def _with_marginals(self, rows: Sequence[GivenRow], given: list[RowScore]) -> list[RowScore]:
        found = self._search([row.tokens for row in rows], [row.word for row in rows])
        return [
            row._replace(marginal=result.marginal, end_marginal=float(result.logprobs[-1]))
            for row, result in zip(given, found, strict=True)
        ]

    def continuations(self, prefixes: Sequence[NDArray[np.int32]]) -> list[Continuation]:
        """Refuse: action models only score given strings.

        Raises:
            PdtoolsError: always.
        """
        raise PdtoolsError("action models give no distribution of the next token")

    def next_logprobs(
        self, token_ids: Sequence[NDArray[np.int32]], words: Sequence[NDArray[np.int32]] | None = None
    ) -> Iterable[Expected]:
        """See :meth:`CheckpointScorer.next_logprobs`.

        For the token that follows, it is A_t − A_{t−1}, as in scores: a sum over the kept hypotheses that
        generated it.
        """
        if words is None:
            words = [self._words_of(ids) for ids in token_ids]
        for ids, found in zip(token_ids, self._search(token_ids, words, next_tokens=True), strict=True):
            assert found.next_logprobs is not None
            before = found.prefix_logprobs[:-1, None]
            table = np.full_like(found.next_logprobs, -np.inf)
            np.subtract(found.next_logprobs, before, out=table, where=before > -np.inf)
            table[np.arange(len(ids) - 1), ids[1:]] = found.logprobs
            yield table, found.dropped

    def _words_of(self, ids: NDArray[np.int32]) -> NDArray[np.int32]:
        """The word that each token belongs to, as the vocabulary shows it: int32 (n + 2)."""
        word = np.cumsum(~self.loaded.tokenizer.continue_words[ids], dtype=np.int32) - 2
        word[[0, -1]] = -1
        return word

    def following(self, text: str) -> NDArray[np.float64]:
        """See :meth:`Family.following`."""
        tokenizer = self.loaded.tokenizer
        encoding = tokenizer.encode(split_words(text, tokenizer.text_style))
        (found,) = self._search([encoding.ids], [encoding.word], next_tokens=True)
        assert found.next_logprobs is not None
        last = found.next_logprobs[-1]
        logprobs: NDArray[np.float64] = last - np.logaddexp.reduce(last)
        return logprobs

    def score(self, sentences: Iterable[str | Sentence]) -> Iterator[SentenceScore | Unscorable]:
        """See :meth:`Family.score`; for entropies alone whole distributions are kept."""
        if self.measures == {"entropy"}:
            yield from measured(self.next_tokens(sentences), self.measures)
            return
        for found in self.search(sentences):
            yield found if isinstance(found, Unscorable) else self.as_score(found)

    def score_with_parses(self, sentences: Iterable[str | Sentence]) -> Iterator[ParsedScore | Unscorable]:
        """See :meth:`Family.score_with_parses`."""
        labels = self.loaded.tokenizer.labels
        for found in self.search(sentences):
            if isinstance(found, Unscorable):
                yield found
                continue
            score = self.as_score(found)
            words = [escape(token) for token in score.tokens]
            yield ParsedScore(score, tuple(best.text(words, labels) for best in found.result.incremental))

    def parse(self, sentences: Iterable[str | Sentence], *, k_best: int = 1) -> Iterator[Parsed | Unscorable]:
        """See :meth:`Family.parse`; trees are labelled, and as they are, not binarized."""
        assert self.beam is not None
        if k_best > self.beam.words:
            raise PdtoolsError(
                f"there are as many parses as the word beam holds: {self.beam.words}, not {k_best}"
            )
        merging = k_best > 1
        for found in self.search(sentences, k_best=self.beam.words if merging else k_best):
            if isinstance(found, Unscorable):
                yield found
            elif problem := sentence_problem(found.encoded.sentence.words):
                yield Unscorable(found.encoded.sentence.text, problem)
            else:
                trees = [(joint, self._tree(found.encoded, best)) for joint, best in found.result.derivations]
                yield Parsed.of(
                    trees,
                    found.result.marginal,
                    found.result.dropped,
                    k_best=k_best,
                    merging=merging,
                    arcs=self._arcs(found),
                )

    def search(
        self, sentences: Iterable[str | Sentence], *, k_best: int = 1, trace: int = 0
    ) -> Iterator[SearchedActions | Unscorable]:
        """Search the derivations of sentences: one result each, in input order, lazily.

        Args:
            k_best, trace: see :func:`word_synchronous_search`.
        """

        def work(window: list[Encoded]) -> Iterator[SearchedActions | Unscorable]:
            ids = [item.encoding.ids for item in window]
            words = [item.encoding.word for item in window]
            for item, result in zip(window, self._search(ids, words, k_best, trace), strict=True):
                if result.derivations:
                    yield SearchedActions(item, result)
                else:
                    yield Unscorable(item.sentence.text, nothing_found(self._model.max_length))

        return score_windows(sentences, self._encode, work, self.look_ahead)

    def _search(
        self,
        ids: Sequence[NDArray[np.int32]],
        words: Sequence[NDArray[np.int32]],
        k_best: int = 1,
        trace: int = 0,
        *,
        next_tokens: bool = False,
    ) -> list[ActionResult]:
        assert self.beam is not None, "made without a beam, to score given derivations"
        inside = [inside_words(word) for word in words]
        return word_synchronous_search(
            self._model,
            ids,
            beam=self.beam,
            inside_words=inside,
            k_best=k_best,
            max_batch=self.max_batch,
            trace=trace,
            next_tokens=next_tokens,
        )

    def as_score(self, found: SearchedActions) -> SentenceScore:
        result = found.result
        measures: dict[str, NDArray[np.float64]] = {}
        if "structure" in self.measures:
            # Closers stand before the next token; closers of a hypothesis' newest token are yet to come.
            after = [best.closes[-2] if len(best.closes) > 1 else 0 for best in result.incremental[:-1]]
            measures["closed"] = np.array([*after, 0.0])
        return sentence_score(
            self.loaded.tokenizer, found.encoded, result.logprobs, result.dropped, measures=measures
        )

    def _arcs(self, found: SearchedActions) -> Sequence[str]:
        """The dependency arcs of the best derivations, for models of arcs."""
        return ()

    def _tree(self, item: Encoded, found: ActionDerivation) -> Tree:
        words = [escape(word) for word in item.sentence.words]
        return found.tree(words, item.encoding.word[1:-1].tolist(), self.loaded.tokenizer.labels)


def inside_words(word: NDArray[np.int32]) -> NDArray[np.bool_]:
    """Return which tokens continue the word of the token before: bool (n + 2)."""
    inside = np.zeros(len(word), dtype=bool)
    inside[1:] = (word[1:] == word[:-1]) & (word[1:] >= 0)
    return inside


class ActionSearch(DerivationSearch):
    """The search over actions, by :func:`word_synchronous_search`."""

    has_widths = True
    sample_beam = 50  # hypotheses are more numerous, and shorter-lived

    def searcher(self, loaded: LoadedModel, search: SearchOptions, *, context: Context) -> ActionScorer:
        """See :meth:`DerivationSearch.searcher`."""
        return ActionScorer(loaded, search, context=context)

    def particles(self, model: LanguageModel, asked: ParticleStrings) -> list[PrefixScores]:
        """See :meth:`DerivationSearch.particles`: all next actions are weighed, until the next token."""
        number = asked.particles.number
        found = word_synchronous_search(
            cast(GrammarLM, model),
            asked.token_ids,
            beam=ActionBeam(actions=number, words=number, fast_track=0),
            inside_words=asked.inside,
            max_batch=asked.max_batch,
            share_prefixes=asked.share_prefixes,
            draw=asked.particles.seed,
        )
        return [PrefixScores(each.prefix_logprobs) for each in found]
