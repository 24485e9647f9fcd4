"""All derivations of a string, one by one, and a search made of them: what others are held against."""

from __future__ import annotations

import json
import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from toy_sets import condition, suite_of

from pdtools.models import LanguageModel
from pdtools.models.derivations import Derivations
from pdtools.search.checkpoints import Encoded, Searched, SearchFamily
from pdtools.search.scores import Continuation, RowScore, SearchResult

# Derivations that there is memory for at the same time.
_ROOM = 1000


@dataclass(frozen=True, slots=True)
class Enumerated:
    """All derivations of a string: log joints with choices, best first, and A_0, …, A_n, A_end."""

    joints: list[tuple[float, list[int]]]
    prefix_logprobs: list[float]


@torch.no_grad()
def enumerate_derivations(model: LanguageModel, ids: Sequence[int]) -> Enumerated:
    """Enumerate the derivations of ROOT, tokens and end-of-sentence, by the protocol alone.

    The model may be any with finitely many. All derivations under way are extended together, choice after
    choice, whatever they have generated.
    """
    derivations = model.derive(_ROOM, len(ids))
    derivations.select(torch.tensor([0]))
    under_way = [(0.0, list[int](), 1)]  # log joint, choices, the token that is next
    reached: list[list[float]] = [[] for _ in ids]
    joints = []
    while under_way:
        logprobs = derivations.logprobs()
        fits = {t: derivations.fits(ids[t]).expand_as(logprobs) for _, _, t in under_way}
        pairs = [
            (row, choice)
            for row, (_, _, t) in enumerate(under_way)
            for choice in torch.nonzero(fits[t][row] & (logprobs[row] > -torch.inf))[:, 0].tolist()
        ]
        if not pairs:
            break
        rows, choices = (torch.tensor(column) for column in zip(*pairs, strict=True))
        derivations.select(rows)
        tokens = derivations.generated(choices).tolist()
        longer, kept = [], []
        for place, ((row, choice), token) in enumerate(zip(pairs, tokens, strict=True)):
            score, before, t = under_way[row]
            score, made = score + float(logprobs[row, choice]), [*before, choice]
            if token == ids[t]:
                reached[t].append(score)
                t += 1
            if t == len(ids):
                joints.append((score, made))
            else:
                assert len(made) < 100, "the derivations seem to have no end"
                longer.append((score, made, t))
                kept.append(place)
        under_way = longer
        if kept:
            derivations.select(torch.tensor(kept))
            derivations.push(choices[kept])
    sums = [float(np.logaddexp.reduce(scores)) if scores else -math.inf for scores in reached[1:]]
    return Enumerated(sorted(joints, reverse=True), [0.0, *sums])


def replayed(model: LanguageModel, choices: Sequence[int], length: int) -> Derivations:
    """A derivation after some choices."""
    derivations = model.derive(1, length)
    for choice in choices:
        derivations.push(torch.tensor([choice]))
    return derivations


class EnumeratingFamily(SearchFamily):
    """A search by enumeration, for any kind of derivations."""

    kind = "enumeration"
    bound = "exact: all derivations"
    look_ahead = 2
    widest = 1 << 20

    def _with_marginals(self, rows: Any, given: list[RowScore]) -> list[RowScore]:
        found = [
            enumerate_derivations(self.loaded.model, tokens.tolist()).prefix_logprobs for tokens, *_ in rows
        ]
        return [
            row._replace(marginal=reached[-1], end_marginal=reached[-1] - reached[-2])
            for row, reached in zip(given, found, strict=True)
        ]

    def continuations(self, prefixes: Sequence[NDArray[np.int32]]) -> list[Continuation]:
        """See :meth:`Family.continuations`."""
        vocabulary = range(self.loaded.model.vocab_size)
        found = []
        for prefix in prefixes:
            reached = [enumerate_derivations(self.loaded.model, [*prefix.tolist(), v]) for v in vocabulary]
            logprobs = np.array([each.prefix_logprobs[-1] - each.prefix_logprobs[-2] for each in reached])
            found.append(Continuation(logprobs, None))
        return found

    def next_logprobs(self, token_ids: Sequence[NDArray[np.int32]]) -> Iterator[Any]:
        """See :meth:`CheckpointFamily.next_logprobs`."""
        for ids in token_ids:
            found = self.continuations([ids[:t] for t in range(1, len(ids))])
            yield np.stack([each.logprobs for each in found]), 0.0

    def search(self, window: Sequence[Encoded], *, k_best: int = 1, trace: int = 0) -> Iterator[Searched]:
        """See :meth:`SearchFamily.search`."""
        for item in window:
            found = enumerate_derivations(self.loaded.model, item.encoding.ids.tolist())
            best = [
                (joint, self.loaded.model.derive(1, 1).derivation(np.array(choices, np.int32)))
                for joint, choices in found.joints[:k_best]
            ]
            prefixes = np.array(found.prefix_logprobs)
            yield Searched(item, SearchResult(prefixes, tuple(best), (), 0.0), np.diff(prefixes))

    def incremental(self, found: Searched, tokens: Sequence[str]) -> Iterator[str]:
        """See :meth:`SearchFamily.incremental`; there are no attachments to show."""
        raise NotImplementedError


PAIRS = (("a b", "b a"), ("c", "a a"), ("a c b", "b c"))  # good, bad


def write_pairs(file: Path) -> None:
    """Minimal pairs of the toy words, :data:`PAIRS`."""
    lines = [{"sentence_good": good, "sentence_bad": bad} for good, bad in PAIRS]
    file.write_text("".join(json.dumps(line) + "\n" for line in lines))


def write_suite(file: Path) -> None:
    """A suite of one item of the toy words: does *b* cost less after *a* than after *c*?"""
    file.write_text(json.dumps(suite_of([condition("x", "a", "b"), condition("y", "c", "b")])))
