"""Action models, and models of arc-standard actions: marginals by word-synchronous beam search."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import cast

import numpy as np
from numpy.typing import NDArray

from pdtools.errors import PdtoolsError
from pdtools.models import LanguageModel
from pdtools.models.derivations import OTHER_WORDS
from pdtools.models.grammar.dependency import DependencyGrammarLM
from pdtools.models.grammar.model import ActionLM
from pdtools.search.checkpoints import Encoded, Expected, Searched, SearchFamily
from pdtools.search.families.word_synchronous import ActionResult, word_synchronous_search
from pdtools.search.options import Particles, SearchOptions
from pdtools.search.parses import Parsed
from pdtools.search.scores import (
    Asked,
    Continuation,
    GivenRow,
    PrefixScores,
    RowScore,
    Unscorable,
    nothing_found,
)
from pdtools.tokenization import split_words
from pdtools.trees import escape


class ActionFamily(SearchFamily):
    """The family of action models: marginals by :func:`word_synchronous_search`."""

    kind = "actions"
    bound = "word-synchronous beam: a lower bound of log p(x)"
    has_widths = True
    sample_beam = 50  # hypotheses are more numerous, and shorter-lived

    @property
    def keeps_tables(self) -> bool:
        """See :class:`Family`: entropies alone are those of whole distributions too."""
        return super().keeps_tables or self.measures == {"entropy"}

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
        """See :meth:`CheckpointFamily.next_logprobs`.

        For the token that follows, it is A_t − A_{t−1}, as in scores: a sum over the kept hypotheses that
        generated it.
        """
        if words is None:
            words = [self._words_of(ids) for ids in token_ids]
        for ids, found in zip(token_ids, self._search(token_ids, words, next_tokens=True), strict=True):
            table = found.conditional_next_logprobs
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

    def parse(self, window: Sequence[Encoded], *, k_best: int = 1) -> Iterator[Parsed | Unscorable]:
        """See :meth:`Family.parse`."""
        if k_best > self.widest:
            raise PdtoolsError(
                f"there are as many parses as the word beam holds: {self.widest}, not {k_best}"
            )
        return super().parse(window, k_best=k_best)

    def search(
        self, window: Sequence[Encoded], *, k_best: int = 1, trace: int = 0
    ) -> Iterator[Searched | Unscorable]:
        """See :meth:`SearchFamily.search`."""
        ids = [item.encoding.ids for item in window]
        words = [item.encoding.word for item in window]
        for item, result in zip(window, self._search(ids, words, k_best, trace), strict=True):
            if result.derivations:
                yield Searched(item, result, result.logprobs)
            else:
                yield Unscorable(item.sentence.text, nothing_found(self.loaded.model.max_length))

    def _search(
        self,
        ids: Sequence[NDArray[np.int32]],
        words: Sequence[NDArray[np.int32]],
        k_best: int = 1,
        trace: int = 0,
        *,
        next_tokens: bool = False,
    ) -> list[ActionResult]:
        inside = [inside_words(word) for word in words]
        return word_synchronous_search(
            cast(ActionLM, self.loaded.model),
            ids,
            search=self.options,
            inside_words=inside,
            k_best=k_best,
            max_batch=self.max_batch,
            trace=trace,
            next_tokens=next_tokens,
        )

    def incremental(self, found: Searched, tokens: Sequence[str]) -> Iterator[str]:
        """See :meth:`SearchFamily.incremental`."""
        words, labels = [escape(token) for token in tokens], self.loaded.tokenizer.labels
        return (best.text(words, labels) for best in found.result.incremental)

    def measures_of(self, found: Searched) -> dict[str, NDArray[np.float64]]:
        """See :meth:`SearchFamily.measures_of`."""
        if "structure" not in self.measures:
            return {}
        # Closers stand before the next token; closers of a hypothesis' newest token are yet to come.
        best = [each.closes for each in found.result.incremental[:-1]]
        return {"closed": np.array([*(closes[-2] if len(closes) > 1 else 0 for closes in best), 0.0])}

    @staticmethod
    def particles(
        model: LanguageModel,
        token_ids: Sequence[NDArray[np.int32]],
        particles: Particles,
        *,
        inside: Sequence[NDArray[np.bool_]] | None = None,
        max_batch: int | None = None,
        share_prefixes: bool = True,
    ) -> list[PrefixScores]:
        """See :meth:`SearchFamily.particles`: all next actions are weighed, until the next token."""
        found = word_synchronous_search(
            cast(ActionLM, model),
            token_ids,
            search=SearchOptions(beam=particles.number, word_beam=particles.number, fast_track=0),
            inside_words=inside,
            max_batch=max_batch,
            share_prefixes=share_prefixes,
            draw=particles.seed,
        )
        return [PrefixScores(each.prefix_logprobs) for each in found]


class TransitionFamily(ActionFamily):
    """The family of models of arc-standard actions."""

    kind = "transitions"

    def encode(self, sentence: Asked, *, any_length: bool = False) -> Encoded | Unscorable:
        """See :meth:`Family.encode`; words are those that the tokens show."""
        found = super().encode(sentence, any_length=any_length)
        if isinstance(found, Unscorable):
            return found
        begins = ~cast(DependencyGrammarLM, self.loaded.model).continues  # (V,)
        ids, word = found.encoding.ids[1:-1], found.encoding.word[:-1]
        if np.array_equal(begins[ids], np.diff(word) > 0):
            return found
        return Unscorable(found.sentence.text, OTHER_WORDS)


def inside_words(word: NDArray[np.int32]) -> NDArray[np.bool_]:
    """Return which tokens continue the word of the token before: bool (n + 2)."""
    inside = np.zeros(len(word), dtype=bool)
    inside[1:] = (word[1:] == word[:-1]) & (word[1:] >= 0)
    return inside
