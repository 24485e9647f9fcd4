"""Models whose strings need no search."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Sequence

import numpy as np
import torch
from numpy.typing import NDArray

from pdtools.models import LanguageModel, LoadedModel
from pdtools.search.batches import (
    MOST_ROWS,
    SortedStrings,
    entries_that_fit,
    explained_memory_errors,
    in_batches,
    strings_that_fit,
)
from pdtools.search.checkpoints import CheckpointFamily, Encoded, Expected
from pdtools.search.contexts import read_in_windows
from pdtools.search.next_tokens import as_measures, summaries, word_beginnings
from pdtools.search.options import NO_CONTEXT, NOT_SEARCHED, Context
from pdtools.search.scores import (
    Continuation,
    GivenRow,
    RowScore,
    SentenceScore,
    asks_for_distributions,
)

# Cells of the tapes (prefixes × positions²) that a batch may have.
_MOST_CELLS = 1 << 22


class StringFamily(CheckpointFamily):
    """The family (:class:`pdtools.search.family.Family`) of a model whose strings need no search."""

    marginal = "exact: tokens do not depend on the tree"
    reads_windows = True

    def __init__(
        self, loaded: LoadedModel, *, max_batch: int | None = None, context: Context = NO_CONTEXT
    ) -> None:
        super().__init__(loaded, kind="string", searched=NOT_SEARCHED, max_batch=max_batch, context=context)
        # The end of a window is predicted after it.
        self._longest = self.window + 1 if self.window and loaded.model.layout == "window" else self.window

    def score_rows(self, rows: Sequence[GivenRow]) -> list[RowScore]:
        """See :meth:`Family.score_rows`.

        Rows longer than the model are read in windows, if they have no derivations to score.
        """
        model = self.loaded.model
        most = model.max_length
        if most is None or model.derivation_kind.exist:
            return super().score_rows(rows)
        is_long = [model.row_length(row.tokens, row.derivation) > most for row in rows]
        short = iter(super().score_rows([row for row, long in zip(rows, is_long, strict=True) if not long]))
        # In windows, ROOT follows the last sentence.
        texts = [
            np.append(row.tokens, model.root_id).astype(np.int32) if model.layout == "window" else row.tokens
            for row, long in zip(rows, is_long, strict=True)
            if long
        ]
        read = iter(zip(texts, self._read(texts), strict=True))
        return [self._long_row(*next(read)) if long else next(short) for long in is_long]

    def _long_row(
        self, text: NDArray[np.int32], found: tuple[NDArray[np.float64], NDArray[np.int32]]
    ) -> RowScore:
        logprobs, _ = found
        total, end = float(logprobs.sum()), float(logprobs[text[1:] == self.loaded.model.end_id].sum())
        return RowScore(total, None, total, end, end)

    def _read(
        self, texts: Sequence[NDArray[np.int32]], *, distributions: bool = False
    ) -> list[tuple[NDArray[np.float64], NDArray[np.int32]]]:
        """All log-probabilities of texts, which begin with ROOT, and the numbers of tokens that each saw.

        With summaries of distributions, three columns (:func:`pdtools.search.next_tokens.summaries`).
        """

        model = self.loaded.model
        begins = torch.from_numpy(word_beginnings(self.loaded.tokenizer)).to(model.device)

        def score(rows: list[NDArray[np.int32]]) -> list[NDArray[np.float64]]:
            logprobs = string_logprobs(self.loaded, rows, self.max_batch)
            if not distributions:
                return logprobs
            found = string_next_logprobs(
                self.loaded, rows, self.max_batch, lambda every: summaries(every, begins)
            )
            return [np.column_stack(pair) for pair in zip(logprobs, found, strict=True)]

        return read_in_windows(
            texts,
            score,
            window=self._longest,
            stride=self.context.stride_of(self.window),
            first=model.root_id,
        )

    def _with_marginals(self, rows: Sequence[GivenRow], given: list[RowScore]) -> list[RowScore]:
        return [row._replace(marginal=row.given_tree, end_marginal=row.end_given_tree) for row in given]

    def next_logprobs(
        self, token_ids: Sequence[NDArray[np.int32]], words: Sequence[NDArray[np.int32]] | None = None
    ) -> Iterable[Expected]:
        """See :meth:`CheckpointFamily.next_logprobs`."""
        return ((each, None) for each in string_next_logprobs(self.loaded, token_ids, self.max_batch))

    def continuations(self, prefixes: Sequence[NDArray[np.int32]]) -> list[Continuation]:
        """See :meth:`Family.continuations`."""
        shifts = [self.loaded.model.no_derivation(prefix) for prefix in prefixes]
        found = next_token_logprobs(self.loaded.model, prefixes, shifts, max_batch=self.max_batch)
        return [Continuation(logprobs, None) for logprobs in found]

    def score(self, window: Sequence[Encoded]) -> Iterator[SentenceScore]:
        """See :meth:`Family.score`. Texts longer than a window are read in windows that begin with ROOT."""
        distributions = asks_for_distributions(self.measures)
        found = self._read([item.ids for item in window], distributions=distributions)
        begins = word_beginnings(self.loaded.tokenizer)
        for item, (values, seen) in zip(window, found, strict=True):
            own = slice(len(item.before), None)
            is_said = self.context.is_asked_for or (self._longest or math.inf) < len(item.ids)
            yield self.scored(
                item,
                values[own, 0] if distributions else values[own],
                seen=seen[own].tolist() if is_said else None,
                measures=as_measures(values[own, 1:], item.ids[1:][own], begins, self.measures)
                if distributions
                else None,
            )


@torch.inference_mode()
def string_logprobs(
    loaded: LoadedModel,
    token_ids: Sequence[NDArray[np.int32]],
    max_batch: int | None = None,
    *,
    share_prefixes: bool | None = None,
) -> list[NDArray[np.float64]]:
    """Compute log p(x_k | x_<k) of strings.

    Args:
        loaded: a model whose tokens depend on no derivation.
        token_ids: for each string int32[n + 2]: ROOT, the n tokens, end-of-sentence (or, for a part of a
            text, any last token).
        max_batch: strings per batch; by default as many as fit a fixed amount of memory.
        share_prefixes: whether strings are read token by token, with common beginnings once, rather than
            each in one teacher-forced pass; by default on a CPU, where sharing saves more than the steps
            cost.

    Returns:
        For each string float64[n + 1], nats: its tokens and end-of-sentence; 0 for ends of sentences if the
        model is given them (``window_roots``).
    """
    model = loaded.model
    given = (model.root_id, model.eos_id) if model.layout == "window" and model.end_id == model.eos_id else ()
    if model.end_id != model.eos_id:
        token_ids = [np.where(ids == model.eos_id, np.int32(model.end_id), ids) for ids in token_ids]
    if share_prefixes is None:
        share_prefixes = model.device.type == "cpu"
    found: Sequence[NDArray[np.float64]]
    if share_prefixes:
        followed = [model.final_id >= 0 and ids[-1] == model.eos_id for ids in token_ids]
        read = [
            np.append(ids, np.int32(model.final_id)) if end else ids
            for ids, end in zip(token_ids, followed, strict=True)
        ]
        widths = [1] * max(map(len, read), default=0)
        strings = SortedStrings.of(read)
        most_entries = entries_that_fit(model, max(1, len(widths)))
        results: dict[int, NDArray[np.float64]] = {}
        for group in strings.groups(widths, most_entries, max_batch or MOST_ROWS):
            with explained_memory_errors():
                results.update(zip(group.order, _read_prefixes(model, group), strict=True))
        found = [
            # The token after end-of-sentence counts as it.
            np.append(results[i][:-2], results[i][-2:].sum()) if end else results[i]
            for i, end in enumerate(followed)
        ]
    else:

        def work(places: list[int]) -> Iterator[NDArray[np.float64]]:
            batch = model.pack([(token_ids[i], model.no_derivation(token_ids[i])) for i in places])
            values = model.forward_parts(batch.to(model.device)).token_logprobs.cpu().double().numpy()
            return (row[1 : len(token_ids[i])] for i, row in zip(places, values, strict=True))

        found = in_batches(list(map(len, token_ids)), _fits(model, max_batch), work)
    return [np.where(np.isin(ids[1:], given), 0.0, each) for ids, each in zip(token_ids, found, strict=True)]


def _fits(model: LanguageModel, max_batch: int | None) -> Callable[[int], int]:
    return lambda length: max_batch or strings_that_fit(length, model.vocab_size)


@torch.inference_mode()
def string_next_logprobs(
    loaded: LoadedModel,
    token_ids: Sequence[NDArray[np.int32]],
    max_batch: int | None = None,
    of: Callable[[torch.Tensor], torch.Tensor] = lambda every: every,
) -> list[NDArray[np.float64]]:
    """Compute log p(v | x_<k) of every token v, at all places after the first.

    Args:
        loaded, token_ids, max_batch: see :func:`string_logprobs`; the last token may be any.
        of: gives the values of distributions (…, V) that are returned instead of them.

    Returns:
        For each string float64 (n + 1, V), nats.
    """
    model = loaded.model

    def work(places: list[int]) -> Iterator[NDArray[np.float64]]:
        batch = model.pack([(token_ids[i], model.no_derivation(token_ids[i])) for i in places])
        values = of(model.position_logprobs(batch.to(model.device))).cpu().double().numpy()
        return (row[1 : len(token_ids[i])] for i, row in zip(places, values, strict=True))

    return in_batches(list(map(len, token_ids)), _fits(model, max_batch), work)


def _read_prefixes(model: LanguageModel, strings: SortedStrings) -> list[NDArray[np.float64]]:
    """Log-probabilities of strings whose common prefixes are read once, without derivations."""
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
        logprobs[:, k] = values.cpu().double().numpy()[levels[k + 1].prefix_of]  # ended strings' are unused
    return [row[: len(ids) - 1] for row, ids in zip(logprobs, strings.ids, strict=True)]


@torch.inference_mode()
def next_token_logprobs(
    model: LanguageModel,
    prefixes: Sequence[NDArray[np.int32]],
    attachments: Sequence[NDArray[np.int32]],
    *,
    max_batch: int | None = None,
) -> NDArray[np.float64]:
    """Compute log p(v | prefix, its attachments) for every token v of the vocabulary.

    Args:
        model: in evaluation mode.
        prefixes: for each int32[n + 1]: ROOT and the n tokens.
        attachments: for each int32[n + 1], positions in the prefix. If they do not affect the words, shifts
            suffice.
        max_batch: prefixes per batch; by default as many as fit a fixed amount of memory.

    Returns:
        float64 (prefixes, vocabulary), nats.
    """
    # Nothing follows a prefix: not even the ROOT that ends a window.
    pack = model.pack_prompts if model.layout == "window" else model.pack

    def work(places: list[int]) -> NDArray[np.float64]:
        batch = pack([(prefixes[i], attachments[i]) for i in places])
        found: NDArray[np.float64] = model.following_logprobs(batch.to(model.device)).cpu().double().numpy()
        return found

    lengths = list(map(len, prefixes))
    found = in_batches(lengths, lambda length: max_batch or max(1, _MOST_CELLS // length**2), work)
    return np.stack(found) if found else np.empty((0, model.vocab_size))
