"""GiLT from its specification alone: dictionaries, shortest paths, one hypothesis at a time.

Nodes are 0, the root, and words 1, 2, …; an arc is a pair (head, dependent) and belongs to its later word.
"""

from __future__ import annotations

import heapq
import itertools
import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

Arc = tuple[int, int]
# By word: degree, depth, distance.
Features = dict[int, tuple[int, int, int]]
MOST_ARCS = 29


@dataclass(frozen=True)
class Read:
    """A token that was read.

    Attributes:
        token: its number; ROOT's is the first.
        word: the word that it belongs to, from 1; 0 for ROOT.
        features: features of words 0 to ``word`` as the token sees them; nothing for ROOT.
    """

    token: int
    word: int
    features: Features


class GivenFunctions(Protocol):
    """The network: any functions of the tokens read."""

    def tokens(self, read: Sequence[Read]) -> Sequence[float]:
        """The log p of each token after these."""

    def counts(self, read: Sequence[Read], token: int, features: Features) -> Sequence[float]:
        """The log p of 0, 1, … arcs of the word that a token starts; ``features`` are those before it."""

    def scores(self, read: Sequence[Read], token: int, features: Features) -> Mapping[Arc, float]:
        """Scores of the word's candidates."""


def candidates(t: int) -> list[Arc]:
    """Arcs that word t may have, in canonical order: heads 0 … t − 1, then dependents 1 … t − 1."""
    return [(head, t) for head in range(t)] + [(t, dependent) for dependent in range(1, t)]


def cheapest(arcs: Iterable[Arc], start: int, down: int, up: int) -> dict[int, int]:
    """Dijkstra: the cost of the cheapest path from a node to each that it reaches, over arcs both ways."""
    steps: dict[int, dict[int, int]] = {}
    for head, dependent in arcs:
        for one, other, cost in ((head, dependent, down), (dependent, head, up)):
            of_one = steps.setdefault(one, {})
            of_one[other] = min(cost, of_one.get(other, cost))
    found: dict[int, int] = {}
    waiting = [(0, start)]
    while waiting:
        cost, node = heapq.heappop(waiting)
        if node not in found:
            found[node] = cost
            for other, step in steps.get(node, {}).items():
                heapq.heappush(waiting, (cost + step, other))
    return found


def features(arcs: Iterable[Arc], t: int) -> Features:
    """The features of words 0 to t, after word t."""
    there = [arc for arc in arcs if max(arc) <= t]
    shortest, distance = cheapest(there, 0, 1, 1), cheapest(there, t, 10, 1)
    return {
        j: (
            sum(10 * (head == j) + (dependent == j) for head, dependent in there),
            1 + shortest[j] if j in shortest else 0,
            distance.get(j, 0),
        )
        for j in range(t + 1)
    }


@dataclass(frozen=True)
class Hypothesis:
    """A prefix with its arcs: log p of both, the tokens read, the arcs of each word, and their numbers."""

    joint: float
    read: tuple[Read, ...]
    arcs: tuple[tuple[Arc, ...], ...] = ()
    counts: tuple[int, ...] = ()

    @property
    def graph(self) -> list[Arc]:
        """All arcs of the prefix."""
        return [arc for own in self.arcs for arc in own]


def with_word(
    model: GivenFunctions, before: Hypothesis, token: int, *, sets: bool, best_counts: int
) -> Iterator[tuple[float, tuple[Arc, ...], int]]:
    """Yield the choices of the word that a token starts: log p, arcs, and their number."""
    t = before.read[-1].word + 1
    old = features(before.graph, t - 1)
    scores = model.scores(before.read, token, old)
    counts = model.counts(before.read, token, old)
    legal = range(min(MOST_ARCS, 2 * t - 1) + 1)
    ranked = sorted(range(len(counts)), key=lambda a: -counts[a])
    followed = set(ranked[: best_counts or None]) | {max(legal, key=lambda a: counts[a])}
    for a in sorted(followed.intersection(legal)):
        if not sets:
            # sorted keeps the order of equals
            best = sorted(candidates(t), key=lambda arc: -scores[arc])[:a]
            yield counts[a], tuple(sorted(best)), a
            continue
        chosen = list(itertools.combinations(candidates(t), a))
        totals = [sum(scores[arc] for arc in each) for each in chosen]
        top = max(totals)
        normalizer = top + math.log(sum(math.exp(total - top) for total in totals))
        for each, total in zip(chosen, totals, strict=True):
            yield counts[a] + total - normalizer, tuple(sorted(each)), a


def extended(
    model: GivenFunctions, before: Hypothesis, token: int, *, starts: bool, sets: bool, best_counts: int = 0
) -> Iterator[Hypothesis]:
    """Yield hypotheses longer by a token, whose probability they have, with all choices of its word."""
    t = before.read[-1].word + starts
    choices = [(0.0, None, 0)]
    if starts:
        choices = with_word(model, before, token, sets=sets, best_counts=best_counts)
    for logprob, own, a in choices:
        arcs = before.arcs if own is None else (*before.arcs, own)
        graph = [arc for each in arcs for arc in each]
        read = (*before.read, Read(token, t, features(graph, t)))
        counts = (*before.counts, a) if starts else before.counts
        yield Hypothesis(before.joint + logprob, read, arcs, counts)


def search(
    model: GivenFunctions,
    tokens: Sequence[int],
    starts: Sequence[bool],
    *,
    root: int,
    eos: int,
    beam: int | None = None,
    sets: bool = False,
    best_counts: int = 0,
) -> tuple[list[float], list[Hypothesis]]:
    """Search a string token by token.

    Args:
        tokens: without ROOT and end-of-sentence.
        starts: True for tokens that start words; the first does.
        beam: the number of hypotheses kept after each token; None: all, and sums are exact.
        sets: whether the arcs are drawn given their number, or the best ones.
        best_counts: the number of a hypothesis's best counts that are followed, of those that ``model`` has,
            legal or not; the best legal one is in any case. 0: all.

    Returns:
        A_1, …, A_n and A_end: log of the sum over hypotheses before the token's own choice; and the
        hypotheses at the end, best first.
    """
    beams = [Hypothesis(0.0, (Read(root, 0, {}),))]
    sums = []
    for token, start in zip([*tokens, eos], [*starts, False], strict=True):
        said = [
            Hypothesis(each.joint + model.tokens(each.read)[token], each.read, each.arcs, each.counts)
            for each in beams
        ]
        sums.append(math.log(math.fsum(math.exp(each.joint) for each in said)))
        if token == eos:
            return sums, sorted(said, key=lambda each: -each.joint)
        longer = [
            new
            for each in said
            for new in extended(model, each, token, starts=start, sets=sets, best_counts=best_counts)
        ]
        beams = sorted(longer, key=lambda each: -each.joint)[:beam]
    raise AssertionError


def given(
    model: GivenFunctions, tokens: Sequence[int], starts: Sequence[bool], arcs: Iterable[Arc], *, root: int
) -> tuple[list[Read], list[float]]:
    """Read a string with a given graph; return its tokens, with log p of each but end-of-sentence."""
    arcs = list(arcs)
    read, said = [Read(root, 0, {})], []
    for token, start in zip(tokens, starts, strict=True):
        said.append(model.tokens(read)[token])
        t = read[-1].word + start
        read.append(Read(token, t, features(arcs, t)))
    return read, said
