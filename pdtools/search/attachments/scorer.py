"""The scorer of models of strings and attachments (or one other choice a token): marginals by beam search."""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from pdtools.models import LanguageModel, LoadedModel
from pdtools.models.tokenwise import TokenwiseKind
from pdtools.search.adaptive_beam import STEPS, Compared, Comparison, MaybeScore
from pdtools.search.attachments.beam import BeamResult, NextAfter, beam_search
from pdtools.search.attachments.steps import BeamStep
from pdtools.search.checkpoint_scorer import CheckpointScorer, Expected
from pdtools.search.contexts import NO_CONTEXT, Context
from pdtools.search.derivation_search import DerivationSearch, ParticleStrings
from pdtools.search.encoding import Encoded, score_windows, sentence_score
from pdtools.search.family import Family
from pdtools.search.next_tokens import as_measures, word_beginnings
from pdtools.search.options import (
    AUTO,
    AUTO_SEARCH,
    DEFAULT_SEARCH,
    NOT_SEARCHED,
    AttachmentBeam,
    SearchOptions,
)
from pdtools.search.parses import Parsed, ParsedScore
from pdtools.search.scores import (
    Asked,
    Beginning,
    Continuation,
    GivenRow,
    PrefixScores,
    RowScore,
    SentenceScore,
    Unscorable,
    asks_for_distributions,
)
from pdtools.search.strings.scorer import string_logprobs, string_next_logprobs
from pdtools.tokenization import Sentence
from pdtools.trees import Tree, escape, sentence_problem, stack_text


@dataclass(frozen=True, slots=True)
class Searched:
    """A sentence, its tokens, and the search's result.

    Attributes:
        encoded: the sentence and its token ids.
        kind: the derivations' kind.
        result: derivations and beam marginals.
        logprobs: float64[n + 1], nats: the tokens' and end-of-sentence's. They come from the beam, or,
            if the derivation does not reach the tokens, exactly from one teacher-forced pass.
    """

    encoded: Encoded
    kind: TokenwiseKind
    result: BeamResult
    logprobs: NDArray[np.float64]

    @property
    def marginal(self) -> float:
        """The marginal log p(x) in nats."""
        return float(self.logprobs.sum())

    def tree(self, rank: int = 0) -> Tree:
        """A derivation as a tree over the sentence's words, tokens merged (appendix C)."""
        encoding, words = self.encoded.encoding, [escape(word) for word in self.encoded.sentence.words]
        derivation = self.kind.read(encoding.ids, self.result.derivations[rank][1])
        return derivation.tree(words, encoding.word[1:-1].tolist(), None)


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


class AttachmentScorer(CheckpointScorer):
    """The family of models of strings and attachments: marginals by beam search.

    Args:
        loaded: a checkpoint with an attachment head.
        search: width of the beam, and number of sentences searched at once.
        context: the text read before sentences.
        share_prefixes: whether common beginnings of sentences are searched once.
    """

    def __init__(
        self,
        loaded: LoadedModel,
        search: SearchOptions = DEFAULT_SEARCH,
        *,
        context: Context = NO_CONTEXT,
        share_prefixes: bool = True,
    ) -> None:
        self.beam = search.for_attachments()
        super().__init__(
            loaded,
            kind="derivation",
            searched=NOT_SEARCHED if self.beam is None else self.beam.as_settings(),
            max_batch=search.max_batch,
            context=context,
        )
        if self.beam is not None:
            self.marginal = "beam: a lower bound of log p(x)"
        self.share_prefixes = share_prefixes

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
        """See :meth:`CheckpointScorer.next_logprobs`."""
        if not self.loaded.model.words_depend:
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
        assert self.beam is not None, "made without a beam, to score given derivations"
        found = beam_search(
            self.loaded.model,
            ids,
            beam=self.beam,
            k_best=k_best,
            next_tokens=next_tokens,
            commit=self.context.of is not None and self.context.parses == "best",
            word_beginnings=word_beginnings(self.loaded.tokenizer)
            if asks_for_distributions(self.measures)
            else None,
            structure="structure" in self.measures,
            max_batch=self.max_batch,
            share_prefixes=self.share_prefixes,
            trace=trace,
        )
        if not self._windows:
            return found
        eos = self.loaded.model.eos_id
        return [
            _of_sentence(result) if tokens[-1] == eos else result
            for tokens, result in zip(ids, found, strict=True)
        ]

    @property
    def _windows(self) -> bool:
        return self.loaded.model.layout == "window"

    def _encode(self, sentence: Asked) -> Encoded | Unscorable:
        if not isinstance(sentence, Beginning):
            return super()._encode(sentence)
        found = super()._encode(sentence.sentence)
        return found if isinstance(found, Unscorable) else found.beginning(sentence.end)

    def score(self, sentences: Iterable[Asked]) -> Iterator[SentenceScore | Unscorable]:
        """See :meth:`Family.score`; a :class:`Beginning` is not searched further."""
        for found in self.search(sentences):
            yield found if isinstance(found, Unscorable) else self.as_score(found)

    def search(
        self, sentences: Iterable[Asked], *, k_best: int = 1, trace: int = 0
    ) -> Iterator[Searched | Unscorable]:
        """Search the derivations of sentences: one result each, in input order, lazily.

        Args:
            k_best, trace: see :func:`beam_search`.
        """

        kind = TokenwiseKind.of(self.loaded.model)

        def work(window: list[Encoded]) -> Iterator[Searched]:
            ids = [item.ids for item in window]
            found = self._beam_search(ids, k_best=k_best, trace=trace)
            if self.loaded.model.words_depend:
                pairs = zip(window, found, strict=True)
                logprobs = [result.logprobs[len(item.before) :] for item, result in pairs]
            else:
                logprobs = string_logprobs(self.loaded, ids, self.max_batch)
            return map(Searched, window, itertools.repeat(kind), found, logprobs)

        return score_windows(sentences, self._encode, work, self.look_ahead)

    def score_with_parses(self, sentences: Iterable[str | Sentence]) -> Iterator[ParsedScore | Unscorable]:
        """See :meth:`Family.score_with_parses`."""
        for found in self.search(sentences):
            if isinstance(found, Unscorable):
                yield found
            else:
                score = self.as_score(found)
                stacks = found.result.incremental[1:]
                yield ParsedScore(score, tuple(stack_text(attach, score.tokens) for attach in stacks))

    def parse(self, sentences: Iterable[str | Sentence], *, k_best: int = 1) -> Iterator[Parsed | Unscorable]:
        """See :meth:`Family.parse`."""
        merging = k_best > 1
        for found in self.search(sentences, k_best=self.beam.width if merging and self.beam else k_best):
            if isinstance(found, Unscorable):
                yield found
            elif problem := sentence_problem(found.encoded.sentence.words):
                yield Unscorable(found.encoded.sentence.text, problem)
            else:
                joints = [joint for joint, _ in found.result.derivations]
                trees = [(joint, found.tree(rank)) for rank, joint in enumerate(joints)]
                yield Parsed.of(trees, found.marginal, found.result.dropped, k_best=k_best, merging=merging)

    def as_score(self, found: Searched) -> SentenceScore:
        """The marginal log-probabilities that a search gave."""
        summed = self.loaded.model.words_depend
        dropped = found.result.dropped if summed else None
        before = len(found.encoded.before)
        seen = range(before, before + len(found.logprobs)) if self.context.is_asked_for else None
        return sentence_score(
            self.loaded.tokenizer, found.encoded, found.logprobs, dropped, seen, self._measures(found)
        )

    def _measures(self, found: Searched) -> dict[str, NDArray[np.float64]]:
        """See :attr:`pdtools.search.scores.SentenceScore.measures`."""
        own = slice(len(found.encoded.before), None)
        measures: dict[str, NDArray[np.float64]] = {}
        if found.result.summaries is not None:
            begins = word_beginnings(self.loaded.tokenizer)
            tokens = found.encoded.encoding.ids[1:]
            measures |= as_measures(found.result.summaries[own], tokens, begins, self.measures)
        if found.result.structure is not None:
            measures |= dict(zip(("attachment", "closed"), found.result.structure[own].T, strict=True))
        return measures


class AdaptiveBeamComparer(Family):
    """The family for ``--beam auto``: it takes the steps of ``STEPS``, as far as comparisons need it.

    Args:
        loaded: a checkpoint whose words depend on attachments.
        search: number of sentences searched at once; the widths are the steps'.
        context: the text read before sentences.
    """

    @property
    def look_ahead(self) -> int:
        """The number of comparisons worked on together: enough for the last few still to fill batches."""
        return 256

    def __init__(
        self, loaded: LoadedModel, search: SearchOptions = AUTO_SEARCH, *, context: Context = NO_CONTEXT
    ) -> None:
        self._scorers = [
            AttachmentScorer(loaded, replace(search, beam=step.beam, margin=step.margin), context=context)
            for step in STEPS
        ]
        steps = [list(step) for step in STEPS]
        self.settings = {**self._scorers[-1].settings, "beam": AUTO, "beam_margin_and_doubt_of_steps": steps}

    def compare(self, comparisons: Iterable[Comparison]) -> Iterator[Compared]:
        """See :meth:`Family.compare`."""
        stream = iter(comparisons)
        while block := list(itertools.islice(stream, self.look_ahead)):
            yield from self._compare(block)

    def _compare(self, comparisons: Sequence[Comparison]) -> list[Compared]:
        found: dict[int, Compared] = {}
        open_ones = list(range(len(comparisons)))
        for step, scorer in zip(STEPS, self._scorers, strict=True):
            bounds = {i: getattr(step, comparisons[i].sums) for i in open_ones}
            sentences = {
                text for i in open_ones if bounds[i] is not None for text in comparisons[i].sentences
            }
            in_order = sorted(sentences, key=_text)  # common beginnings become neighbours
            scores: dict[Asked, MaybeScore] = dict(zip(in_order, scorer.score(in_order), strict=True))
            undecided = []
            for i in open_ones:
                if (error_bound := bounds[i]) is not None:
                    now = tuple(scores[text] for text in comparisons[i].sentences)
                    found[i] = Compared(now, step.beam, step.margin)
                    off = error_bound.of(now)
                    if not off or comparisons[i].decided(now, off):
                        continue
                undecided.append(i)
            open_ones = undecided
        return [found[i] for i in range(len(comparisons))]


def _text(sentence: Asked) -> str:
    if isinstance(sentence, Beginning):
        return _text(sentence.sentence)
    return sentence if isinstance(sentence, str) else sentence.text


class AttachmentSearch(DerivationSearch):
    """The search over attachments, by :func:`beam_search`."""

    def searcher(self, loaded: LoadedModel, search: SearchOptions, *, context: Context) -> AttachmentScorer:
        """See :meth:`DerivationSearch.searcher`."""
        return AttachmentScorer(loaded, search, context=context)

    def adaptive(self, loaded: LoadedModel, search: SearchOptions, *, context: Context) -> Family:
        """See :meth:`DerivationSearch.adaptive`."""
        return AdaptiveBeamComparer(loaded, search, context=context)

    def particles(self, model: LanguageModel, asked: ParticleStrings) -> list[PrefixScores]:
        """See :meth:`DerivationSearch.particles`: all attachments of all particles are weighed."""
        found = beam_search(
            model,
            asked.token_ids,
            beam=AttachmentBeam(asked.particles.number),
            max_batch=asked.max_batch,
            share_prefixes=asked.share_prefixes,
            draw=asked.particles.seed,
        )
        return [PrefixScores(each.prefix_logprobs) for each in found]
