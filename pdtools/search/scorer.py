"""Scorers: string models answer directly, derivation models through the beam search."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol, runtime_checkable

import numpy as np
import torch
from numpy.typing import NDArray

from pdtools.errors import PdtoolsError
from pdtools.models import LanguageModel, LoadedModel, load_checkpoint
from pdtools.models.transformer.pretrained import check_no_hub_name
from pdtools.search import encoding
from pdtools.search.beam import BeamResult, beam_search
from pdtools.search.continuation import next_token_logprobs
from pdtools.search.encoding import Encoded, encode_sentence, score_windows, sentence_score
from pdtools.search.huggingface import HuggingFaceScorer, is_huggingface, torch_dtype
from pdtools.search.memory import (
    MOST_ROWS,
    entries_that_fit,
    explained_memory_errors,
    length_groups,
    strings_that_fit,
)
from pdtools.search.prefix_tree import SortedStrings
from pdtools.search.scores import (
    DEFAULT_BEAM,
    Continuation,
    Dtype,
    ModelScorer,
    RowScore,
    Scorer,
    SentenceScore,
    Unscorable,
)
from pdtools.tokenization import Sentence
from pdtools.trees import (
    Tree,
    escape,
    merge_subwords,
    sentence_problem,
    stack_text,
    tree_from_attachments,
)

# The tokens of a row of shards, and its derivation as the model has it.
ShardRow = tuple[NDArray[np.int32], Any]


def load_scorer(
    model_dir: str | Path,
    *,
    beam: int = DEFAULT_BEAM,
    margin: float | None = None,
    device: str = "cpu",
    dtype: Dtype = "float32",
    bos: bool = True,
    max_batch: int | None = None,
) -> ModelScorer | HuggingFaceScorer:
    """Load a model for scoring.

    Args:
        model_dir: a checkpoint, a run folder of ``pdtools train``, or the folder of a Hugging Face
            causal language model.
        beam, margin: see :func:`pdtools.search.beam_search`; for models whose strings have derivations.
        device: a torch device.
        dtype: of the weights. bf16 is faster where the processor computes in it, and less exact.
        bos: whether a Hugging Face model reads a beginning-of-sentence token first. Without it the
            first token has no score, and no row.
        max_batch: sentences per batch; by default as many as fit a fixed amount of memory.

    Raises:
        PdtoolsError: if the folder holds no model that can be loaded.
        MissingDependencyError: if it is a Hugging Face model and transformers is not installed.
    """
    check_no_hub_name(model_dir)
    if is_huggingface(model_dir):
        return HuggingFaceScorer(model_dir, device=device, dtype=dtype, bos=bos, max_batch=max_batch)
    check_bos(model_dir, bos)
    loaded = load_model(model_dir, device=device, dtype=dtype)
    return scorer_of(loaded, beam=beam, margin=margin, max_batch=max_batch)


def scorer_of(
    loaded: LoadedModel, *, beam: int | None, margin: float | None = None, max_batch: int | None = None
) -> ModelScorer:
    """The scorer that a model's derivations need.

    Args:
        loaded: a checkpoint of a causal model.
        beam: hypotheses per sentence, for models whose words depend on derivations; None: no marginals.
        margin, max_batch: see :func:`pdtools.search.beam_search`.
    """
    if not loaded.model.derivation_kind.reach_words:
        return StringScorer(loaded, max_batch=max_batch)
    return _searcher_of(loaded)(loaded, beam=beam, margin=margin, max_batch=max_batch)


def load_searcher(
    model_dir: str | Path,
    *,
    beam: int = DEFAULT_BEAM,
    margin: float | None = None,
    device: str = "cpu",
    dtype: Dtype = "float32",
    max_batch: int | None = None,
) -> Searcher:
    """Load a model whose derivations can be searched.

    Raises:
        PdtoolsError: if the folder holds no such model.
    """
    if is_huggingface(model_dir):
        raise PdtoolsError(f"{model_dir}: a Hugging Face language model has no parses")
    loaded = load_model(model_dir, device=device, dtype=dtype)
    if not loaded.model.derivation_kind.exist:
        raise PdtoolsError(
            f"{loaded.folder}: this model was trained without an attachment head: it cannot parse"
        )
    return _searcher_of(loaded)(loaded, beam=beam, margin=margin, max_batch=max_batch)


def check_bos(model_dir: str | Path, bos: bool) -> None:
    """Refuse to go without a beginning-of-sentence token where a model cannot.

    Raises:
        PdtoolsError: if ``bos`` is False and the model is not a Hugging Face one.
    """
    if not bos and not is_huggingface(model_dir):
        raise PdtoolsError(
            f"{model_dir}: only Hugging Face models can be read without BOS: others always read ROOT"
        )


def load_model(model_dir: str | Path, *, device: str = "cpu", dtype: Dtype = "float32") -> LoadedModel:
    """Load a checkpoint with its weights in the type that they are to be used in."""
    loaded = load_checkpoint(model_dir, device)
    loaded.model.to(torch_dtype(dtype))
    return loaded


class CheckpointScorer(ABC):
    """What the :class:`ModelScorer` of every checkpoint does.

    Args:
        loaded: a checkpoint of a causal model.
        kind: of scorer, as results name it.
        beam, margin: of the search; None without one.
        max_batch: sentences per batch; by default as many as fit a fixed amount of memory.
    """

    def __init__(
        self,
        loaded: LoadedModel,
        *,
        kind: str,
        beam: int | None,
        margin: float | None = None,
        max_batch: int | None,
    ) -> None:
        loaded.model.check_causal()
        self.loaded = loaded
        self.max_batch = max_batch
        self.settings = {
            "kind": kind,
            **loaded.described,
            "bos": True,
            "eos": True,
            "text_style": loaded.tokenizer.text_style,
            "dtype": loaded.model.dtype_name,
            "beam": beam,
            "margin": margin,
        }

    def _encode(self, sentence: str | Sentence) -> Encoded | Unscorable:
        return encode_sentence(self.loaded.tokenizer, self.loaded.model.max_length, sentence)

    def score_rows(self, rows: Sequence[ShardRow]) -> list[RowScore]:
        """See :meth:`ModelScorer.score_rows`."""
        found: dict[int, RowScore] = {}
        for places in length_groups(
            [len(tokens) for tokens, _ in rows],
            lambda length: self.max_batch or strings_that_fit(length, self.loaded.model.vocab_size),
        ):
            group = [rows[place] for place in places]
            found.update(zip(places, self._with_marginals(group, self._given(group)), strict=True))
        return [found[place] for place in range(len(rows))]

    @torch.inference_mode()
    def _given(self, rows: Sequence[ShardRow]) -> list[RowScore]:
        """A batch of rows with their derivations, by one teacher-forced pass; no marginals."""
        model = self.loaded.model
        batch = model.pack(rows).to(model.device)
        with explained_memory_errors():
            parts = model.forward_parts(batch)
        logprobs = parts.token_logprobs.double()
        given = logprobs.sum(1).tolist()
        ends = logprobs.masked_fill(~batch.ends(model.eos_id), 0.0).sum(1).tolist()
        derived = parts.attach_logprobs.double().sum(1).tolist()
        return [
            RowScore(tokens, tokens + derivation if model.derivation_kind.exist else None, None, end, 0.0)
            for tokens, derivation, end in zip(given, derived, ends, strict=True)
        ]

    @abstractmethod
    def _with_marginals(self, rows: Sequence[ShardRow], given: list[RowScore]) -> list[RowScore]:
        """Scores of given derivations with the marginals beside."""


class StringScorer(CheckpointScorer):
    """A :class:`ModelScorer` over a model whose strings need no search."""

    marginal: str | None = "exact: tokens do not depend on the tree"

    def __init__(self, loaded: LoadedModel, *, max_batch: int | None = None) -> None:
        super().__init__(loaded, kind="string", beam=None, max_batch=max_batch)

    @property
    def look_ahead(self) -> int:
        """See :class:`Scorer`."""
        return encoding.LOOK_AHEAD

    def _with_marginals(self, rows: Sequence[ShardRow], given: list[RowScore]) -> list[RowScore]:
        return [row._replace(marginal=row.given_tree, end_marginal=row.end_given_tree) for row in given]

    def continuations(self, prefixes: Sequence[NDArray[np.int32]]) -> list[Continuation]:
        """See :meth:`ModelScorer.continuations`."""
        shifts = [np.arange(len(prefix), dtype=np.int32) for prefix in prefixes]
        found = next_token_logprobs(self.loaded.model, prefixes, shifts, max_batch=self.max_batch)
        return [Continuation(logprobs, None) for logprobs in found]

    def score(self, sentences: Iterable[str | Sentence]) -> Iterator[SentenceScore | Unscorable]:
        """See :meth:`Scorer.score`."""
        return score_windows(sentences, self._encode, self._score, self.look_ahead)

    def _score(self, window: list[Encoded]) -> list[SentenceScore]:
        logprobs = string_logprobs(self.loaded, [item.encoding.ids for item in window], self.max_batch)
        return [
            sentence_score(self.loaded.tokenizer, item, values)
            for item, values in zip(window, logprobs, strict=True)
        ]


@dataclass(frozen=True, slots=True)
class ParsedScore:
    """A sentence's score and, for each of its rows, the best hypothesis after it as brackets."""

    score: SentenceScore
    incremental: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Parsed:
    """The best parses of a sentence as trees over its words, best first, and log p(x).

    Attributes:
        k_best: log joint (nats) and tree of each: different trees, each with the sum over its derivations
            in the beam; or, if one parse or derivations were asked for, derivations.
        marginal: log p(x) in nats, over the beam.
        dropped: the share of the probability of all derivations that the search is estimated to have dropped.
    """

    k_best: tuple[tuple[float, Tree], ...]
    marginal: float
    dropped: float


@runtime_checkable
class Searcher(Scorer, Protocol):
    """A scorer that also gives derivations.

    Attributes:
        look_ahead: how many sentences are worth giving at once.
    """

    @property
    def look_ahead(self) -> int: ...

    def score_with_parses(self, sentences: Iterable[str | Sentence]) -> Iterator[ParsedScore | Unscorable]:
        """Score sentences as :meth:`Scorer.score` does, with the best incremental parses beside it."""
        ...

    def parse(
        self, sentences: Iterable[str | Sentence], *, k_best: int = 1, derivations: bool = False
    ) -> Iterator[Parsed | Unscorable]:
        """Parse sentences: one result each, in input order, lazily.

        Args:
            k_best: how many trees. One: that of the best derivation. More: the most probable ones of the
                beam, all different; the probabilities of derivations that give the same tree are added.
            derivations: give the best derivations instead, whose trees may be the same.
        """
        ...


@dataclass(frozen=True, slots=True)
class Searched:
    """A sentence, its tokens, and what the search found.

    Attributes:
        encoded: the sentence and its token ids.
        result: derivations and beam marginals.
        logprobs: float64[n + 1], nats: of the tokens and end-of-sentence. They come from the beam, or,
            where the derivation does not reach the tokens, exactly from one teacher-forced pass.
    """

    encoded: Encoded
    result: BeamResult
    logprobs: NDArray[np.float64]

    @property
    def marginal(self) -> float:
        """log p(x) in nats."""
        return float(self.logprobs.sum())

    def tree(self, rank: int = 0) -> Tree:
        """A derivation as a binary tree over the sentence's words, tokens merged (appendix C)."""
        _, attach = self.result.derivations[rank]
        tokens = tree_from_attachments(attach[1:-1] - 1, [""] * (len(attach) - 2))
        words = [escape(word) for word in self.encoded.sentence.words]
        return merge_subwords(tokens, self.encoded.encoding.word[1:-1], words)


class AnySearcher(Searcher, ModelScorer, Protocol):
    """A searcher over a checkpoint."""


class DerivationScorer(CheckpointScorer):
    """A :class:`ModelScorer` over a model of strings and attachments: marginals by beam search.

    Args:
        loaded: a checkpoint with an attachment head.
        beam: hypotheses per sentence; None: nothing is searched, only given derivations are scored.
        margin: see :func:`beam_search`.
        max_batch: sentences per batch; by default as many as fit a fixed amount of memory.
        share_prefixes: whether sentences that begin alike are searched once up to where they part.
    """

    def __init__(
        self,
        loaded: LoadedModel,
        *,
        beam: int | None,
        margin: float | None = None,
        max_batch: int | None = None,
        share_prefixes: bool = True,
    ) -> None:
        super().__init__(loaded, kind="derivation", beam=beam, margin=margin, max_batch=max_batch)
        self.beam = beam
        self.margin = margin
        self.share_prefixes = share_prefixes

    @property
    def look_ahead(self) -> int:
        """See :class:`Scorer`."""
        return encoding.LOOK_AHEAD if self.beam is None else encoding.SEARCH_LOOK_AHEAD

    @property
    def marginal(self) -> str | None:
        """See :class:`ModelScorer`."""
        return None if self.beam is None else "beam: a lower bound of log p(x)"

    def _with_marginals(self, rows: Sequence[ShardRow], given: list[RowScore]) -> list[RowScore]:
        if self.beam is None:
            return given
        found = self._beam_search([tokens for tokens, _ in rows])
        return [
            row._replace(marginal=result.marginal, end_marginal=float(result.logprobs[-1]))
            for row, result in zip(given, found, strict=True)
        ]

    def continuations(self, prefixes: Sequence[NDArray[np.int32]]) -> list[Continuation]:
        """See :meth:`ModelScorer.continuations`."""
        ended = [np.append(prefix, np.int32(self.loaded.model.eos_id)) for prefix in prefixes]
        found = []
        for prefix, result in zip(prefixes, self._beam_search(ended, next_tokens=True), strict=True):
            assert result.next_logprobs is not None
            n = len(prefix) - 1
            logprobs = result.next_logprobs - np.logaddexp.reduce(result.next_logprobs)
            found.append(Continuation(logprobs, result.incremental[n]))
        return found

    def _beam_search(
        self, ids: Sequence[NDArray[np.int32]], *, k_best: int = 1, next_tokens: bool = False
    ) -> list[BeamResult]:
        assert self.beam is not None, "made without a beam, to score given derivations"
        return beam_search(
            self.loaded.model,
            ids,
            beam=self.beam,
            margin=self.margin,
            k_best=k_best,
            next_tokens=next_tokens,
            max_batch=self.max_batch,
            share_prefixes=self.share_prefixes,
        )

    def score(self, sentences: Iterable[str | Sentence]) -> Iterator[SentenceScore | Unscorable]:
        """See :meth:`Scorer.score`."""
        for found in self.search(sentences):
            yield found if isinstance(found, Unscorable) else self.as_score(found)

    def search(
        self, sentences: Iterable[str | Sentence], *, k_best: int = 1
    ) -> Iterator[Searched | Unscorable]:
        """Search the derivations of sentences: one result each, in input order, lazily."""

        def work(window: list[Encoded]) -> Iterator[Searched]:
            ids = [item.encoding.ids for item in window]
            found = self._beam_search(ids, k_best=k_best)
            if self.loaded.model.derivation_kind.reach_words:
                logprobs = [result.logprobs for result in found]
            else:
                logprobs = string_logprobs(self.loaded, ids, self.max_batch)
            return map(Searched, window, found, logprobs)

        return score_windows(sentences, self._encode, work, self.look_ahead)

    def score_with_parses(self, sentences: Iterable[str | Sentence]) -> Iterator[ParsedScore | Unscorable]:
        """See :meth:`Searcher.score_with_parses`."""
        for found in self.search(sentences):
            if isinstance(found, Unscorable):
                yield found
            else:
                score = self.as_score(found)
                stacks = found.result.incremental[1:]
                yield ParsedScore(score, tuple(stack_text(attach, score.tokens) for attach in stacks))

    def parse(
        self, sentences: Iterable[str | Sentence], *, k_best: int = 1, derivations: bool = False
    ) -> Iterator[Parsed | Unscorable]:
        """See :meth:`Searcher.parse`."""
        merging = k_best > 1 and not derivations
        for found in self.search(sentences, k_best=self.beam if merging and self.beam else k_best):
            if isinstance(found, Unscorable):
                yield found
            elif problem := sentence_problem(found.encoded.sentence.words):
                yield Unscorable(found.encoded.sentence.text, problem)
            else:
                joints = [joint for joint, _ in found.result.derivations]
                trees = [(joint, found.tree(rank)) for rank, joint in enumerate(joints)]
                best = tuple((merged_trees(trees) if merging else trees)[:k_best])
                yield Parsed(best, found.marginal, found.result.dropped)

    def as_score(self, found: Searched) -> SentenceScore:
        """The marginal log-probabilities that a search gave."""
        summed = self.loaded.model.derivation_kind.reach_words
        dropped = found.result.dropped if summed else None
        return sentence_score(self.loaded.tokenizer, found.encoded, found.logprobs, dropped)


class MakesSearcher(Protocol):
    """What makes a searcher of a checkpoint: its class."""

    def __call__(
        self, loaded: LoadedModel, *, beam: int | None, margin: float | None, max_batch: int | None
    ) -> AnySearcher: ...


# What searches the derivations of a model, by what they are made of.
SEARCHERS: dict[str, MakesSearcher] = {"attachments": DerivationScorer}


def _searcher_of(loaded: LoadedModel) -> MakesSearcher:
    from pdtools.search.action_scorer import ActionScorer

    choices = loaded.model.derivation_kind.choices
    searchers: dict[str, MakesSearcher] = {"actions": ActionScorer, **SEARCHERS}
    if choices not in searchers:
        raise PdtoolsError(f"{loaded.folder}: nothing here searches derivations made of {choices}")
    return searchers[choices]


def merged_trees(derivations: Iterable[tuple[float, Tree]]) -> list[tuple[float, Tree]]:
    """Different trees, most probable first; equally probable ones in the order of their best derivations.

    Derivations give the same tree if they differ only within words, or only in what is left to
    end-of-sentence to reduce.
    """
    found: dict[str, tuple[list[float], Tree]] = {}
    for joint, tree in derivations:
        found.setdefault(tree.to_brackets(), ([], tree))[0].append(joint)
    summed = [(float(np.logaddexp.reduce(joints)), tree) for joints, tree in found.values()]
    return sorted(summed, key=lambda pair: -pair[0])


@torch.inference_mode()
def string_logprobs(
    loaded: LoadedModel,
    token_ids: Sequence[NDArray[np.int32]],
    max_batch: int | None = None,
    *,
    share_prefixes: bool | None = None,
) -> list[NDArray[np.float64]]:
    """log p(x_k | x_<k) of strings.

    Args:
        loaded: a model whose tokens depend on no derivation.
        token_ids: for each string int32[n + 2]: ROOT, the n tokens, end-of-sentence.
        max_batch: strings per batch; by default as many as fit a fixed amount of memory.
        share_prefixes: whether strings are read token by token, those that begin alike as one, rather than
            each in one teacher-forced pass; by default on a CPU, where what is shared counts for more
            than the number of steps.

    Returns:
        For each string float64[n + 1], nats: its tokens and end-of-sentence.
    """
    model = loaded.model
    results: dict[int, NDArray[np.float64]] = {}
    if share_prefixes is None:
        share_prefixes = model.device.type == "cpu"
    if share_prefixes:
        widths = [1] * max(map(len, token_ids), default=0)
        strings = SortedStrings.of(token_ids)
        most_entries = entries_that_fit(model, max(1, len(widths)))
        for group in strings.groups(widths, most_entries, max_batch or MOST_ROWS):
            with explained_memory_errors():
                results.update(zip(group.order, _read_prefixes(model, group), strict=True))
        return [results[i] for i in range(len(token_ids))]
    for places in length_groups(
        [len(ids) for ids in token_ids],
        lambda length: max_batch or strings_that_fit(length, model.vocab_size),
    ):
        # Attachments do not reach the tokens of such a model: every token may as well stay alone.
        rows = [(token_ids[i], np.arange(len(token_ids[i]), dtype=np.int32)) for i in places]
        with explained_memory_errors():
            parts = model.forward_parts(model.pack(rows).to(model.device))
        for i, values in zip(places, parts.token_logprobs.double().cpu().numpy(), strict=True):
            results[i] = values[1 : len(token_ids[i])]
    return [results[i] for i in range(len(token_ids))]


def _read_prefixes(model: LanguageModel, strings: SortedStrings) -> list[NDArray[np.float64]]:
    """Log-probabilities of strings whose common prefixes are read once; no derivation reaches the tokens."""
    levels, device = strings.levels(), model.device

    def tensor(values: NDArray[np.int64]) -> torch.Tensor:
        return torch.from_numpy(values).to(device)

    state = model.start(len(levels[0].tokens), len(levels), sum(len(level.going) for level in levels))
    found: list[torch.Tensor] = []  # for every level (c,)
    for k, level in enumerate(levels):
        tokens, going = tensor(level.tokens), tensor(level.going)
        if k:
            parents = tensor(level.parents)
            found.append(model.token_logprobs(state, tokens, parents))
            state.select(parents[going])
        if len(going):
            no_tape = torch.zeros(len(going), k + 1, dtype=torch.int16, device=device)
            model.advance(state, tokens[going], no_tape)
    logprobs = np.zeros((len(strings.ids), len(levels) - 1))
    for k, values in enumerate(found):
        logprobs[:, k] = values.double().cpu().numpy()[levels[k + 1].prefix_of]  # of ended strings: unused
    return [row[: len(ids) - 1] for row, ids in zip(logprobs, strings.ids, strict=True)]
