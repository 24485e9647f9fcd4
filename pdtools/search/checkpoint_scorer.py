"""Code shared by the scorers of all checkpoints."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from pdtools.errors import PdtoolsError
from pdtools.models import LanguageModel, LoadedModel
from pdtools.search.contexts import NO_CONTEXT, Context
from pdtools.search.encoding import Encoded, encode_sentence, look_ahead, score_windows, sentence_score
from pdtools.search.family import Family
from pdtools.search.memory import explained_memory_errors, length_groups, strings_that_fit
from pdtools.search.next_tokens import sentences_at_once
from pdtools.search.scores import Continuation, GivenRow, NextTokens, RowScore, Unscorable
from pdtools.tokenization import Sentence, split_words

# Next-token log-probabilities at every place, and the share of p(x) that a search dropped before.
Expected = tuple[NDArray[np.float64], float | None]


class CheckpointScorer(Family, ABC):
    """Base of the :class:`pdtools.search.family.Family` of every checkpoint.

    Args:
        loaded: a checkpoint of a causal model.
        kind: the scorer's kind, as results name it.
        searched: its search settings, for results.
        max_batch: sentences per batch; by default as many as fit a fixed amount of memory.
        context: the text read before sentences; for models of windows.

    Attributes:
        loaded, max_batch, context: see above.
        window: positions of a row, if there is a limit.

    Raises:
        PdtoolsError: if the model cannot read the context.
    """

    def __init__(
        self,
        loaded: LoadedModel,
        *,
        kind: str,
        searched: Mapping[str, Any],
        max_batch: int | None,
        context: Context = NO_CONTEXT,
    ) -> None:
        loaded.model.check_causal()
        self.loaded = loaded
        self.max_batch = max_batch
        self.context = context
        windows = loaded.model.layout == "window"
        if context.of is not None and not windows:
            raise PdtoolsError(
                f"{loaded.folder}: trained on single sentences, it cannot read others before them: leave out"
                " --context"
            )
        if context.stride is not None and (not windows or loaded.model.has_derivations):
            raise PdtoolsError(
                f"{loaded.folder}: only models of running text without trees read documents as one text:"
                " leave out --stride"
            )
        self.window = context.window_of(
            loaded.config["shards"]["window"] if windows else loaded.model.max_length
        )
        self._context = [split_words(text, loaded.tokenizer.text_style) for text in context.sentences]
        self.settings: dict[str, Any] = {
            "kind": kind,
            **loaded.described,
            "bos": True,
            "eos": True,
            "text_style": loaded.tokenizer.text_style,
            "dtype": loaded.model.dtype_name,
            **searched,
            **context.described(self.window, has_trees=loaded.model.words_depend),
        }

    def _encode(self, sentence: str | Sentence) -> Encoded | Unscorable:
        found = encode_sentence(self.loaded.tokenizer, self.loaded.model.max_length, sentence)
        return self._with_context(found)

    def _with_context(self, found: Encoded | Unscorable) -> Encoded | Unscorable:
        if self.context.of is None or isinstance(found, Unscorable):
            return found
        assert self.window is not None
        return found.in_context(self.loaded.tokenizer, self._context or found.sentence.before, self.window)

    def score_rows(self, rows: Sequence[GivenRow]) -> list[RowScore]:
        """See :meth:`Family.score_rows`."""
        model = self.loaded.model
        found: dict[int, RowScore] = {}
        for places in length_groups(
            [model.row_length(row.tokens, row.derivation) for row in rows],
            lambda length: self.max_batch or strings_that_fit(length, model.vocab_size),
        ):
            group = [rows[place] for place in places]
            scores = self._given(group)
            if self.marginal is not None:
                scores = self._with_marginals(group, scores)
            found.update(zip(places, scores, strict=True))
        return [found[place] for place in range(len(rows))]

    @torch.inference_mode()
    def _given(self, rows: Sequence[GivenRow]) -> list[RowScore]:
        """Score a batch of rows with their derivations in one teacher-forced pass; no marginals."""
        model = self.loaded.model
        batch = model.pack([(row.tokens, row.derivation) for row in rows]).to(model.device)
        with explained_memory_errors():
            parts = model.forward_parts(batch)
        logprobs = parts.token_logprobs.double()
        given = logprobs.sum(1).tolist()
        ends = logprobs.masked_fill(~batch.ends(model.end_id), 0.0).sum(1).tolist()
        derived = parts.attach_logprobs.double().sum(1).tolist()
        scores = [
            RowScore(tokens, tokens + derivation if model.scores_given else None, None, end, 0.0)
            for tokens, derivation, end in zip(given, derived, ends, strict=True)
        ]
        if parts.count_logprobs is None:
            return scores
        return [
            score._replace(counts=counts, arcs=derivation - counts if model.scores_given else None)
            for score, derivation, counts in zip(scores, derived, parts.count_logprobs.tolist(), strict=True)
        ]

    def next_tokens(self, sentences: Iterable[str | Sentence]) -> Iterator[NextTokens | Unscorable]:
        """See :meth:`Family.next_tokens`."""
        model = self.loaded.model
        check_tells_next(model)

        def work(window: list[Encoded]) -> Iterator[NextTokens]:
            found = self.next_logprobs([item.ids for item in window], [item.encoding.word for item in window])
            for item, (logprobs, dropped) in zip(window, found, strict=True):
                before = len(item.before)
                ids = np.where(item.ids == model.eos_id, np.int32(model.end_id), item.ids)[1 + before :]
                own = logprobs[before:]
                chosen = own[np.arange(len(ids)), ids]
                seen = range(before, before + len(ids)) if self.context.is_asked_for else None
                score = sentence_score(self.loaded.tokenizer, item, chosen, dropped, seen)
                yield NextTokens(score, ids, own, None)

        at_once = sentences_at_once(model.vocab_size, self.look_ahead)
        return score_windows(sentences, self._encode, work, at_once)

    @abstractmethod
    def next_logprobs(
        self, token_ids: Sequence[NDArray[np.int32]], words: Sequence[NDArray[np.int32]] | None = None
    ) -> Iterable[Expected]:
        """Next-token log-probabilities for strings.

        Args:
            token_ids: for each string int32 (n + 2): ROOT, its tokens, end-of-sentence, which does not
                matter.
            words: for each int32 (n + 2), the word that each token belongs to; by default as the vocabulary
                shows it. Action models use it.

        Returns:
            For each string float64 (n + 1, V), nats: log p(v | x_<t) of every token v after ROOT and each of
            the n tokens, see :attr:`NextTokens.logprobs`; and :attr:`SentenceScore.dropped`.

        Raises:
            PdtoolsError: if the model gives none.
        """

    def following(self, text: str) -> NDArray[np.float64]:
        """See :meth:`Family.following`."""
        tokenizer = self.loaded.tokenizer
        ids = tokenizer.encode(split_words(text, tokenizer.text_style)).ids[:-1]
        self.loaded.model.check_length(len(ids))
        (found,) = self.continuations([ids])
        return found.logprobs

    @property
    def vocabulary(self) -> tuple[str, ...]:
        """See :attr:`Family.vocabulary`."""
        return tuple(map(self.loaded.tokenizer.token_text, range(self.loaded.tokenizer.vocab_size)))

    @abstractmethod
    def continuations(self, prefixes: Sequence[NDArray[np.int32]]) -> list[Continuation]:
        """See :meth:`Family.continuations`."""

    @property
    def has_arcs(self) -> bool:
        """See :class:`Family`."""
        return self.loaded.model.has_arcs

    @property
    def look_ahead(self) -> int:
        """See :class:`Family`."""
        return look_ahead(searched=self.settings["beam"] is not None)

    @abstractmethod
    def _with_marginals(self, rows: Sequence[GivenRow], given: list[RowScore]) -> list[RowScore]:
        """Add marginals to the scores of given derivations, for a scorer that has them."""


def check_tells_next(model: LanguageModel) -> None:
    """Refuse a model that has no next-token distribution without knowing whether a sentence ends.

    Raises:
        PdtoolsError: for models of windows whose sentences end by attachments.
    """
    if model.layout == "window" and model.end_id == model.eos_id:
        raise PdtoolsError(
            "models of windows whose trees end sentences give no distribution of the next token"
        )
