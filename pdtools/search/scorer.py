"""Scorers: string models answer directly, derivation models through the beam search."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol, runtime_checkable

import numpy as np
import torch
from numpy.typing import NDArray

from pdtools.errors import PdtoolsError
from pdtools.models import LanguageModel, LoadedModel, collate, load_checkpoint
from pdtools.models.pretrained import check_no_hub_name
from pdtools.search.beam import BeamResult, beam_search
from pdtools.search.encoding import SEARCH_LOOK_AHEAD, Encoded, encode_sentence, score_windows, sentence_score
from pdtools.search.huggingface import HuggingFaceScorer, is_huggingface, torch_dtype
from pdtools.search.memory import (
    MOST_ROWS,
    entries_that_fit,
    explained_memory_errors,
    length_groups,
    strings_that_fit,
)
from pdtools.search.prefixes import SortedStrings
from pdtools.search.scores import DEFAULT_BEAM, Dtype, Scorer, SentenceScore, Unscorable
from pdtools.tokenization import Sentence
from pdtools.trees import Tree, escape, merge_subwords, sentence_problem, tree_from_attachments


def load_scorer(
    model_dir: str | Path,
    *,
    beam: int = DEFAULT_BEAM,
    device: str = "cpu",
    dtype: Dtype = "float32",
    bos: bool = True,
    max_batch: int | None = None,
) -> Scorer:
    """Load a model for scoring.

    Args:
        model_dir: a checkpoint, a run folder of ``pdtools train``, or the folder of a Hugging Face
            causal language model.
        beam: hypotheses per sentence, for models whose strings have derivations.
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
    if loaded.model.uses_tape:
        return DerivationScorer(loaded, beam=beam, max_batch=max_batch)
    return StringScorer(loaded, max_batch=max_batch)


def load_searcher(
    model_dir: str | Path,
    *,
    beam: int = DEFAULT_BEAM,
    device: str = "cpu",
    dtype: Dtype = "float32",
    max_batch: int | None = None,
) -> DerivationScorer:
    """Load a model whose derivations can be searched: a checkpoint with an attachment head.

    Raises:
        PdtoolsError: if the folder holds no such model.
    """
    if is_huggingface(model_dir):
        raise PdtoolsError(f"{model_dir}: a Hugging Face language model has no parses")
    loaded = load_model(model_dir, device=device, dtype=dtype)
    return DerivationScorer(loaded, beam=beam, max_batch=max_batch)


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


class StringScorer:
    """A :class:`Scorer` over a model that needs no derivations, and no search."""

    def __init__(self, loaded: LoadedModel, *, max_batch: int | None = None) -> None:
        loaded.model.check_causal()
        self.loaded = loaded
        self.max_batch = max_batch
        self.settings = {"kind": "string", **_settings(loaded), "beam": None}

    def score(self, sentences: Iterable[str | Sentence]) -> Iterator[SentenceScore | Unscorable]:
        """See :meth:`Scorer.score`."""
        return score_windows(sentences, self._encode, self._score)

    def _encode(self, sentence: str | Sentence) -> Encoded | Unscorable:
        return encode_sentence(self.loaded.tokenizer, self.loaded.model.max_length, sentence)

    def _score(self, window: list[Encoded]) -> list[SentenceScore]:
        logprobs = string_logprobs(self.loaded, [item.encoding.ids for item in window], self.max_batch)
        return [
            sentence_score(self.loaded.tokenizer, item, values)
            for item, values in zip(window, logprobs, strict=True)
        ]


@dataclass(frozen=True, slots=True)
class ParsedScore:
    """A sentence's score and, for every token t from 0 on, the attachments int32[t + 1] of the best
    hypothesis after it (:attr:`pdtools.search.BeamResult.incremental`)."""

    score: SentenceScore
    incremental: tuple[NDArray[np.int32], ...]


@dataclass(frozen=True, slots=True)
class Parsed:
    """The best parses of a sentence as trees over its words, best first, and log p(x).

    Attributes:
        k_best: log joint (nats) and tree of each: different trees, each with the sum over its derivations
            in the beam; or, if one parse or derivations were asked for, derivations.
        marginal: log p(x) in nats, over the beam.
    """

    k_best: tuple[tuple[float, Tree], ...]
    marginal: float


@runtime_checkable
class Searcher(Scorer, Protocol):
    """A scorer that also gives derivations."""

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


class DerivationScorer:
    """A :class:`Scorer` over a model of strings and parses: marginals by beam search.

    Args:
        loaded: a checkpoint with an attachment head.
        beam: hypotheses per sentence.
        max_batch: sentences per batch; by default as many as fit a fixed amount of memory.
        share_prefixes: whether sentences that begin alike are searched once up to where they part.
    """

    def __init__(
        self, loaded: LoadedModel, *, beam: int, max_batch: int | None = None, share_prefixes: bool = True
    ) -> None:
        if not loaded.model.has_attachment_head:
            raise PdtoolsError(
                f"{loaded.folder}: this model was trained without an attachment head: it cannot parse"
            )
        self.loaded = loaded
        self.beam = beam
        self.max_batch = max_batch
        self.share_prefixes = share_prefixes
        self.settings = {"kind": "derivation", **_settings(loaded), "beam": beam}

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
            model = self.loaded.model
            found = beam_search(
                model,
                ids,
                beam=self.beam,
                k_best=k_best,
                max_batch=self.max_batch,
                share_prefixes=self.share_prefixes,
            )
            if model.uses_tape:
                logprobs = [result.logprobs for result in found]
            else:
                logprobs = string_logprobs(self.loaded, ids, self.max_batch)
            return map(Searched, window, found, logprobs)

        return score_windows(sentences, self._encode, work, SEARCH_LOOK_AHEAD)

    def score_with_parses(self, sentences: Iterable[str | Sentence]) -> Iterator[ParsedScore | Unscorable]:
        """See :meth:`Searcher.score_with_parses`."""
        for found in self.search(sentences):
            if isinstance(found, Unscorable):
                yield found
            else:
                yield ParsedScore(self.as_score(found), found.result.incremental)

    def parse(
        self, sentences: Iterable[str | Sentence], *, k_best: int = 1, derivations: bool = False
    ) -> Iterator[Parsed | Unscorable]:
        """See :meth:`Searcher.parse`."""
        merging = k_best > 1 and not derivations
        for found in self.search(sentences, k_best=self.beam if merging else k_best):
            if isinstance(found, Unscorable):
                yield found
            elif problem := sentence_problem(found.encoded.sentence.words):
                yield Unscorable(found.encoded.sentence.text, problem)
            else:
                joints = [joint for joint, _ in found.result.derivations]
                trees = [(joint, found.tree(rank)) for rank, joint in enumerate(joints)]
                yield Parsed(tuple((_merged(trees) if merging else trees)[:k_best]), found.marginal)

    def as_score(self, found: Searched) -> SentenceScore:
        """The marginal log-probabilities that a search gave."""
        return sentence_score(self.loaded.tokenizer, found.encoded, found.logprobs)

    def _encode(self, sentence: str | Sentence) -> Encoded | Unscorable:
        return encode_sentence(self.loaded.tokenizer, self.loaded.model.max_length, sentence)


def _merged(derivations: Iterable[tuple[float, Tree]]) -> list[tuple[float, Tree]]:
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
        loaded: a model that reads no tape.
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
            parts = model.forward_parts(collate(rows, model.pad_id).to(model.device))
        for i, values in zip(places, parts.token_logprobs.double().cpu().numpy(), strict=True):
            results[i] = values[1 : len(token_ids[i])]
    return [results[i] for i in range(len(token_ids))]


def _read_prefixes(model: LanguageModel, strings: SortedStrings) -> list[NDArray[np.float64]]:
    """Log-probabilities of strings whose common prefixes are read once; the model reads no tape."""
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


def _settings(loaded: LoadedModel) -> dict[str, Any]:
    return {
        **loaded.described,
        "bos": True,
        "eos": True,
        "text_style": loaded.tokenizer.text_style,
        "dtype": loaded.model.dtype_name,
    }
