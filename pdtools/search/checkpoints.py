"""The common part of all families of checkpoints: sentences as token ids, and back to scores and parses."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, ClassVar, cast

import numpy as np
import torch
from numpy.typing import NDArray

from pdtools.errors import PdtoolsError
from pdtools.models import LanguageModel, LoadedModel
from pdtools.models.derivations import AnyDerivation
from pdtools.search.batches import in_batches, strings_that_fit
from pdtools.search.contexts import lines_of
from pdtools.search.family import Family
from pdtools.search.options import DEFAULT_SEARCH, NO_CONTEXT, Context, Particles, SearchOptions
from pdtools.search.parses import Parsed, ParsedScore
from pdtools.search.particles import by_choices
from pdtools.search.scores import (
    Asked,
    Beginning,
    GivenRow,
    NextTokens,
    PrefixScores,
    RowScore,
    SearchResult,
    SentenceScore,
    Unscorable,
)
from pdtools.tokenization import Encoding, Sentence, Tokenizer, UnknownWordError, split_words
from pdtools.trees import escape, sentence_problem

# Next-token log-probabilities at every place, and the share of p(x) that a search dropped before.
Expected = tuple[NDArray[np.float64], float | None]


@dataclass(frozen=True, slots=True)
class Encoded:
    """A sentence and its token ids.

    Attributes:
        before: int32, the ROOTs and tokens of the sentences read before it.
    """

    sentence: Sentence
    encoding: Encoding
    before: NDArray[np.int32] = field(default_factory=np.zeros(0, np.int32).copy)

    @property
    def ids(self) -> NDArray[np.int32]:
        """The whole row, int32: ``before``, then the sentence's ROOT, tokens and end-of-sentence."""
        return np.concatenate([self.before, self.encoding.ids])

    def beginning(self, end: int) -> Encoded:
        """The sentence without the tokens that begin at or after a character; the first one stays."""
        encoding = self.encoding
        asked = np.flatnonzero((encoding.starts < end) & (encoding.word >= 0))
        length = max([1, *asked.tolist()]) + 1
        columns = {name: getattr(encoding, name)[:length] for name in ("ids", "word", "starts", "ends")}
        return replace(self, encoding=replace(encoding, **columns))

    def in_context(self, tokenizer: Tokenizer, before: Sequence[Sentence], window: int) -> Encoded:
        """The sentence after as many of these sentences, the last ones, as fit ``window`` positions.

        A sentence that the tokenizer cannot encode is not read, nor are those before it.
        """
        rows: list[NDArray[np.int32]] = []
        positions = len(self.encoding.ids) - 1  # in a window there is no end-of-sentence
        for sentence in reversed(before):
            try:
                row = tokenizer.encode(sentence).ids[:-1]
            except UnknownWordError:
                break
            positions += len(row)
            if positions > window:
                break
            rows.insert(0, row)
        return replace(self, before=np.concatenate(rows)) if rows else self


def encode_sentence(
    tokenizer: Tokenizer, max_length: int | None, sentence: str | Sentence
) -> Encoded | Unscorable:
    """Encode a sentence, or give the reason why the model cannot score it.

    Args:
        tokenizer: the model's.
        max_length: the model's longest row, ROOT and end-of-sentence included; None if unbounded.
        sentence: running text, split in the tokenizer's text style, or words already split.
    """
    if isinstance(sentence, str):
        sentence = split_words(sentence, tokenizer.text_style)
    if not sentence.words:
        return Unscorable(sentence.text, "no words")
    try:
        encoding = tokenizer.encode(sentence)
    except UnknownWordError as error:
        words = ", ".join(dict.fromkeys(error.words))
        return Unscorable(sentence.text, f"words unknown to the model: {words}")
    if max_length is not None and len(encoding.ids) > max_length:
        tokens, most = len(encoding.ids) - 2, max_length - 2
        return Unscorable(sentence.text, f"longer than the model: {tokens} tokens, at most {most}")
    return Encoded(sentence, encoding)


def encode_document(tokenizer: Tokenizer, document: Sentence) -> Encoded | Unscorable:
    """Encode a document's lines as one row of running text.

    ROOT precedes each sentence, and marks the end of the one before; end-of-sentence follows the last.

    Returns:
        The row as for one sentence: words are numbered through, characters are the whole text's.
    """
    rows: list[Encoding] = []
    at = words = 0
    for line in lines_of(document):
        found = encode_sentence(tokenizer, None, line)
        if isinstance(found, Unscorable):
            return Unscorable(document.text, found.reason)
        row = found.encoding
        word = np.where(row.word < 0, -1, row.word + words).astype(np.int32)
        rows.append(replace(row, word=word, starts=row.starts + np.int32(at), ends=row.ends + np.int32(at)))
        at, words = at + len(line.text) + 1, words + len(line.words)

    def column(name: str) -> NDArray[np.int32]:
        first, *others = (getattr(row, name) for row in rows)
        return np.concatenate([first, *(each[1:] for each in others)])

    ids = column("ids")
    ids[:-1][ids[:-1] == tokenizer.eos_id] = tokenizer.root_id
    n_unknown = sum(row.n_unknown for row in rows)
    return Encoded(document, Encoding(ids, column("word"), column("starts"), column("ends"), n_unknown))


class CheckpointFamily(Family, ABC):
    """Base of the :class:`pdtools.search.family.Family` of every checkpoint.

    Args:
        loaded: a checkpoint of a causal model.
        kind: the family's kind, as results name it.
        searched: its search settings, for results.
        max_batch: sentences per batch; by default as many as fit a fixed amount of memory.
        context: the text read before sentences; for models of windows.

    Attributes:
        loaded, max_batch, context: see above.
        window: positions of a row, if there is a limit.
        reads_windows: whether sentences that are longer than the model are scored in windows.

    Raises:
        PdtoolsError: if the model cannot read the context.
    """

    reads_windows = False

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
        if context.stride is not None and (not windows or loaded.model.derivation_kind.exist):
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
            **context.described(self.window, has_trees=loaded.model.derivation_kind.conditions_tokens),
        }

    def encode(self, sentence: Asked, *, any_length: bool = False) -> Encoded | Unscorable:
        """See :meth:`Family.encode`; a :class:`Beginning` is for families that search no further."""
        if isinstance(sentence, Beginning):
            found = self.encode(sentence.sentence)
            return found if isinstance(found, Unscorable) else found.beginning(sentence.end)
        any_length &= self.reads_windows
        if any_length and self.context.stride is not None and not isinstance(sentence, str):
            return encode_document(self.loaded.tokenizer, sentence)
        longest = None if any_length else self.loaded.model.max_length
        found = encode_sentence(self.loaded.tokenizer, longest, sentence)
        if self.context.of is None or isinstance(found, Unscorable):
            return found
        assert self.window is not None
        return found.in_context(self.loaded.tokenizer, self._context or found.sentence.before, self.window)

    def scored(
        self,
        item: Encoded,
        logprobs: NDArray[np.float64],
        dropped: float | None = None,
        measures: Mapping[str, NDArray[np.float64]] | None = None,
        seen: Sequence[int] | None = None,
    ) -> SentenceScore:
        """The score of an encoded sentence: n tokens and, if it is whole, end-of-sentence.

        Args:
            logprobs: float64[n + 1], nats; or [n].
            dropped, measures: see :class:`SentenceScore`.
            seen: the same; by default of a sentence that is read at once after its context, if there is one.
        """
        encoding, text_of = item.encoding, self.loaded.tokenizer.token_text
        if seen is None and self.context.is_asked_for:
            seen = range(len(item.before), len(item.before) + len(logprobs))
        return SentenceScore(
            text=item.sentence.text,
            # In running text the end of a sentence is the ROOT of the next.
            tokens=tuple(
                text_of(self.loaded.tokenizer.eos_id if word < 0 else token)
                for token, word in zip(encoding.ids[1:].tolist(), encoding.word[1:].tolist(), strict=True)
            ),
            words=tuple(encoding.word[1:].tolist()),
            starts=tuple(encoding.starts[1:].tolist()),
            ends=tuple(encoding.ends[1:].tolist()),
            logprobs=logprobs,
            n_unknown=encoding.n_unknown,
            eos=bool(encoding.word[-1] < 0),
            dropped=dropped,
            seen=None if seen is None else tuple(seen),
            measures=measures or {},
        )

    def score_rows(self, rows: Sequence[GivenRow]) -> list[RowScore]:
        """See :meth:`Family.score_rows`."""
        model = self.loaded.model

        def work(places: list[int]) -> list[RowScore]:
            group = [rows[place] for place in places]
            scores = self._given(group)
            return scores if self.marginal is None else self._with_marginals(group, scores)

        lengths = [model.row_length(row.tokens, row.derivation) for row in rows]
        return in_batches(lengths, self.rows_that_fit, work)

    def rows_that_fit(self, length: int) -> int:
        """The number of rows of ``length`` positions in one teacher-forced batch."""
        return self.max_batch or strings_that_fit(length, self.loaded.model.vocab_size)

    @torch.inference_mode()
    def _given(self, rows: Sequence[GivenRow]) -> list[RowScore]:
        """Score a batch of rows with their derivations in one teacher-forced pass; no marginals."""
        model = self.loaded.model
        batch = model.pack([(row.tokens, row.derivation) for row in rows]).to(model.device)
        parts = model.forward_parts(batch)
        logprobs = parts.token_logprobs.double()
        given = logprobs.sum(1).tolist()
        ends = logprobs.masked_fill(~batch.ends(model.end_id), 0.0).sum(1).tolist()
        derived = parts.attach_logprobs.double().sum(1).tolist()
        is_scored = model.derivation_kind.scores_given
        scores = [
            RowScore(tokens, tokens + derivation if is_scored else None, None, end, 0.0)
            for tokens, derivation, end in zip(given, derived, ends, strict=True)
        ]
        if parts.count_logprobs is None:
            return scores
        return [
            score._replace(counts=counts, arcs=derivation - counts if is_scored else None)
            for score, derivation, counts in zip(scores, derived, parts.count_logprobs.tolist(), strict=True)
        ]

    def next_tokens(self, window: Sequence[Encoded]) -> Iterator[NextTokens]:
        """See :meth:`Family.next_tokens`."""
        model = self.loaded.model
        check_tells_next(model)
        found = self.next_logprobs([item.ids for item in window], [item.encoding.word for item in window])
        for item, (logprobs, dropped) in zip(window, found, strict=True):
            before = len(item.before)
            ids = np.where(item.ids == model.eos_id, np.int32(model.end_id), item.ids)[1 + before :]
            own = logprobs[before:]
            yield NextTokens(self.scored(item, own[np.arange(len(ids)), ids], dropped), ids, own, None)

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

    @property
    def vocab_size(self) -> int:
        """See :class:`Family`."""
        return self.loaded.model.vocab_size

    @property
    def has_arcs(self) -> bool:
        """See :class:`Family`."""
        return self.loaded.model.derivation_kind.has_arcs

    @abstractmethod
    def _with_marginals(self, rows: Sequence[GivenRow], given: list[RowScore]) -> list[RowScore]:
        """Add marginals to the scores of given derivations, for a family that has them."""


@dataclass(frozen=True, slots=True)
class Searched:
    """A sentence, and the result of the search for its derivations.

    Attributes:
        encoded: the sentence and its token ids.
        result: its derivations and marginals.
        logprobs: float64[n + 1], nats: the tokens' and end-of-sentence's. They come from the search, or,
            if derivations do not reach the tokens, exactly from one teacher-forced pass.
    """

    encoded: Encoded
    result: SearchResult[Any]
    logprobs: NDArray[np.float64]

    @property
    def marginal(self) -> float:
        """The marginal log p(x) in nats."""
        return float(self.logprobs.sum())


class SearchFamily(CheckpointFamily):
    """Base of the families that search derivations: scores, parses and traces are made of what is found.

    Args:
        loaded: a checkpoint.
        search: widths of the beam, and number of sentences searched at once.
        context: the text read before sentences.

    Attributes:
        beam: the kept hypotheses; None: only given derivations are scored.
        kind, bound: the family's and its marginals' kinds, as results name them.
        has_widths: whether the beam has further widths (a word beam, a fast track).
        adapts: whether the beam ``auto`` is for it (:mod:`pdtools.search.adaptive_beam`).
        sample_beam: number of hypotheses for parses that are shown during training.
    """

    kind: ClassVar[str]
    bound: ClassVar[str]
    has_widths = False
    adapts = False
    sample_beam = 10

    def __init__(
        self, loaded: LoadedModel, search: SearchOptions = DEFAULT_SEARCH, *, context: Context = NO_CONTEXT
    ) -> None:
        if not self.has_widths:
            search.check_one_width()
        self.options = search
        super().__init__(
            loaded,
            kind=self.kind,
            searched=search.described(has_widths=self.has_widths),
            max_batch=search.max_batch,
            context=context,
        )
        if search.check_number() is not None:
            self.marginal = self.bound

    @abstractmethod
    def search(
        self, window: Sequence[Encoded], *, k_best: int = 1, trace: int = 0
    ) -> Iterable[Searched | Unscorable]:
        """Search the derivations of sentences: one result each, in order.

        Args:
            window: the sentences.
            k_best: number of derivations.
            trace: number of hypotheses of each beam that are recorded.
        """

    def score(self, window: Sequence[Encoded]) -> Iterator[SentenceScore | Unscorable]:
        """See :meth:`Family.score`."""
        for found in self.search(window):
            yield found if isinstance(found, Unscorable) else self.score_of(found)

    def score_with_parses(self, window: Sequence[Encoded]) -> Iterator[ParsedScore | Unscorable]:
        """See :meth:`Family.score_with_parses`."""
        for found in self.search(window):
            if isinstance(found, Unscorable):
                yield found
            else:
                score = self.score_of(found)
                yield ParsedScore(score, tuple(self.incremental(found, score.tokens)))

    def parse(self, window: Sequence[Encoded], *, k_best: int = 1) -> Iterator[Parsed | Unscorable]:
        """See :meth:`Family.parse`; labelled trees are as they are, not binarized."""
        for found in self.search(window, k_best=self.widest if k_best > 1 else 1):
            if isinstance(found, Unscorable):
                yield found
            elif problem := self.tree_problem(found):
                yield Unscorable(found.encoded.sentence.text, problem)
            else:
                words = [escape(word) for word in found.encoded.sentence.words]
                word_of_token = found.encoded.encoding.word[1:-1].tolist()
                best = self.derivations(found)
                yield Parsed.of(
                    [
                        (joint, each.tree(words, word_of_token, self.loaded.tokenizer.labels))
                        for joint, each in best
                    ],
                    found.marginal,
                    found.result.dropped,
                    k_best=k_best,
                    arcs=[str(cast(Any, each).graph) for _, each in best] if self.has_arcs else (),
                )

    def trace(self, window: Sequence[Encoded], *, hypotheses: int) -> Iterable[Searched | Unscorable]:
        """See :meth:`Family.trace`."""
        return self.search(window, trace=hypotheses)

    @property
    def widest(self) -> int:
        """The most derivations that a search ends with."""
        if self.options.beam is None:
            return 1
        return self.options.width_of_words if self.has_widths else self.options.width

    def tree_problem(self, found: Searched) -> str | None:
        """The reason why derivations of a sentence are no trees over its words; None: they are."""
        return sentence_problem(found.encoded.sentence.words)

    def score_of(self, found: Searched) -> SentenceScore:
        """The marginal log-probabilities that a search gave."""
        dropped = found.result.dropped if self.loaded.model.derivation_kind.conditions_tokens else None
        return self.scored(found.encoded, found.logprobs, dropped, self.measures_of(found))

    def measures_of(self, found: Searched) -> dict[str, NDArray[np.float64]]:
        """See :attr:`pdtools.search.scores.SentenceScore.measures`."""
        return {}

    def derivations(self, found: Searched) -> list[tuple[float, AnyDerivation]]:
        """The best derivations of a sentence, best first, with their log joints in nats."""
        return list(found.result.derivations)

    @abstractmethod
    def incremental(self, found: Searched, tokens: Sequence[str]) -> Iterable[str]:
        """The best hypothesis after each of a score's tokens, as brackets, or arcs."""

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
        """Estimate log p(x) in nats; see :func:`pdtools.search.kinds.particle_search`.

        By default string by string and choice by choice, for any kind of derivation.
        """
        return [by_choices(model, ids, particles) for ids in token_ids]


def check_tells_next(model: LanguageModel) -> None:
    """Refuse a model that has no next-token distribution without knowing whether a sentence ends.

    Raises:
        PdtoolsError: for models of windows whose sentences end by attachments.
    """
    if model.layout == "window" and model.end_id == model.eos_id:
        raise PdtoolsError(
            "models of windows whose trees end sentences give no distribution of the next token"
        )
