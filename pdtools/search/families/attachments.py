"""Models of strings and attachments (or one other choice a token): marginals by beam search."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from pdtools.models import LanguageModel
from pdtools.models.derivations import AnyDerivation
from pdtools.models.tokenwise import TokenwiseKind
from pdtools.search.checkpoints import Encoded, Expected, Searched, SearchFamily
from pdtools.search.families.attachment_beam import BeamResult, NextAfter, beam_search
from pdtools.search.families.unsearched import string_logprobs, string_next_logprobs
from pdtools.search.next_tokens import as_measures, word_beginnings
from pdtools.search.options import Particles, SearchOptions
from pdtools.search.scores import (
    BeamStep,
    Continuation,
    GivenRow,
    PrefixScores,
    RowScore,
    asks_for_distributions,
)
from pdtools.trees import stack_text


def searched_tokens(model: LanguageModel, tokens: NDArray[np.int32]) -> NDArray[np.int32]:
    """A row of shards in the form for search: end-of-sentence behind a window."""
    return np.append(tokens, np.int32(model.eos_id)) if model.layout == "window" else tokens


def end_logprob(model: LanguageModel, ids: NDArray[np.int32], logprobs: NDArray[np.float64]) -> float:
    """The part of log p that belongs to ends of sentences, from the log-probabilities after ROOT."""
    ends = ids[1:] == model.eos_id
    if model.layout == "window":
        ends |= ids[1:] == model.root_id
    return float(logprobs[ends].sum())


def _of_sentence(result: BeamResult) -> BeamResult:
    """Convert the result of a search for a window's last sentence to the sentence layout.

    Its last token, which attaches to ROOT, shifts, and end-of-sentence reduces everything: the same tree.
    """

    def shifted(attach: NDArray[np.int32]) -> NDArray[np.int32]:
        attach = attach[root:] - np.int32(root)
        attach[n:] = [n, 0][: len(attach) - n]
        return attach

    def of_last(step: BeamStep[NDArray[np.int32]]) -> NDArray[np.float64] | None:
        if step.attachment is None:
            return None
        attachment = step.attachment[root:]
        return np.roll(attachment, -1) if len(attachment) == n + 1 else attachment

    best = result.derivations[0][1][:-1]  # (N,)
    root = int(best[-1])
    n = len(best) - 1 - root
    return replace(
        result,
        derivations=tuple((joint, shifted(attach)) for joint, attach in result.derivations),
        incremental=tuple(shifted(attach) for attach in result.incremental[root:]),
        steps=tuple(
            replace(step, derivations=tuple(map(shifted, step.derivations)), attachment=of_last(step))
            for step in result.steps[root:]
        ),
    )


class AttachmentFamily(SearchFamily):
    """The family of models of strings and attachments: marginals by :func:`beam_search`.

    Attributes:
        share_prefixes: whether common beginnings of sentences are searched once.
        has_structure: whether its choices are attachments, which close constituents, to be measured.
    """

    kind = "derivation"
    bound = "beam: a lower bound of log p(x)"
    adapts = True
    share_prefixes = True
    has_structure = True

    def _with_marginals(self, rows: Sequence[GivenRow], given: list[RowScore]) -> list[RowScore]:
        ids = [searched_tokens(self.loaded.model, row.tokens) for row in rows]
        found = self._beam_search(ids)
        return [
            row._replace(
                marginal=result.marginal, end_marginal=end_logprob(self.loaded.model, tokens, result.logprobs)
            )
            for row, tokens, result in zip(given, ids, found, strict=True)
        ]

    def continuations(self, prefixes: Sequence[NDArray[np.int32]]) -> list[Continuation]:
        """See :meth:`Family.continuations`."""
        ended = [np.append(prefix, np.int32(self.loaded.model.eos_id)) for prefix in prefixes]
        found = []
        for prefix, result in zip(prefixes, self._beam_search(ended, next_tokens="last"), strict=True):
            assert result.next_logprobs is not None
            n = len(prefix) - 1
            (joint,) = result.next_logprobs
            logprobs = joint - np.logaddexp.reduce(joint)
            found.append(Continuation(logprobs, result.incremental[n]))
        return found

    def next_logprobs(
        self, token_ids: Sequence[NDArray[np.int32]], words: Sequence[NDArray[np.int32]] | None = None
    ) -> Iterable[Expected]:
        """See :meth:`CheckpointFamily.next_logprobs`."""
        if not self.loaded.model.derivation_kind.conditions_tokens:
            return ((each, None) for each in string_next_logprobs(self.loaded, token_ids, self.max_batch))
        found = self._beam_search(token_ids, next_tokens="every")
        return ((result.conditional_next_logprobs, result.dropped) for result in found)

    def _beam_search(
        self,
        ids: Sequence[NDArray[np.int32]],
        *,
        k_best: int = 1,
        next_tokens: NextAfter = "none",
        trace: int = 0,
    ) -> list[BeamResult]:
        found = beam_search(
            self.loaded.model,
            ids,
            search=self.options,
            k_best=k_best,
            next_tokens=next_tokens,
            commit=self.context.of is not None and self.context.parses == "best",
            word_beginnings=word_beginnings(self.loaded.tokenizer)
            if asks_for_distributions(self.measures)
            else None,
            structure=self.has_structure and "structure" in self.measures,
            max_batch=self.max_batch,
            share_prefixes=self.share_prefixes,
            trace=trace,
        )
        if self.loaded.model.layout != "window":
            return found
        eos = self.loaded.model.eos_id
        return [
            _of_sentence(result) if tokens[-1] == eos else result
            for tokens, result in zip(ids, found, strict=True)
        ]

    def search(self, window: Sequence[Encoded], *, k_best: int = 1, trace: int = 0) -> Iterator[Searched]:
        """See :meth:`SearchFamily.search`."""
        ids = [item.ids for item in window]
        found = self._beam_search(ids, k_best=k_best, trace=trace)
        if self.loaded.model.derivation_kind.conditions_tokens:
            pairs = zip(window, found, strict=True)
            logprobs = [result.logprobs[len(item.before) :] for item, result in pairs]
        else:
            logprobs = string_logprobs(self.loaded, ids, self.max_batch)
        return map(Searched, window, found, logprobs)

    def derivations(self, found: Searched) -> list[tuple[float, AnyDerivation]]:
        """See :meth:`SearchFamily.derivations`."""
        kind, ids = TokenwiseKind.of(self.loaded.model), found.encoded.encoding.ids
        return [(joint, kind.read(ids, history)) for joint, history in found.result.derivations]

    def incremental(self, found: Searched, tokens: Sequence[str]) -> Iterator[str]:
        """See :meth:`SearchFamily.incremental`."""
        return (stack_text(attach, tokens) for attach in found.result.incremental[1:])

    def measures_of(self, found: Searched) -> dict[str, NDArray[np.float64]]:
        """See :meth:`SearchFamily.measures_of`."""
        result, own = found.result, slice(len(found.encoded.before), None)
        assert isinstance(result, BeamResult)
        measures: dict[str, NDArray[np.float64]] = {}
        if result.summaries is not None:
            begins = word_beginnings(self.loaded.tokenizer)
            tokens = found.encoded.encoding.ids[1:]
            measures |= as_measures(result.summaries[own], tokens, begins, self.measures)
        if result.structure is not None:
            measures |= dict(zip(("attachment", "closed"), result.structure[own].T, strict=True))
        return measures

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
        """See :meth:`SearchFamily.particles`: all attachments of all particles are weighed."""
        found = beam_search(
            model,
            token_ids,
            search=SearchOptions(beam=particles.number),
            max_batch=max_batch,
            share_prefixes=share_prefixes,
            draw=particles.seed,
        )
        return [PrefixScores(each.prefix_logprobs) for each in found]
