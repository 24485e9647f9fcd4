"""Parses of sentences, as models give them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from pdtools.search.scores import SentenceScore
from pdtools.trees import Tree


@dataclass(frozen=True, slots=True)
class ParsedScore:
    """A sentence's score and, for each of its rows, the best hypothesis after it as brackets."""

    score: SentenceScore
    incremental: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Parsed:
    """The best parses of a sentence as trees over its words, best first, and log p(x).

    Attributes:
        k_best: log joint (nats) and tree of each: different trees (of models of arcs: different arcs), each
            with the sum over its derivations in the beam; or the best derivation, if one parse was
            requested.
        marginal: log p(x) in nats, over the beam.
        dropped: the share of the probability of all derivations that the search is estimated to have dropped.
        arcs: for models of arcs each one's graph, as :class:`pdtools.trees.Graph` writes it.

    A tree without a search (TreeReg's) has None for all numbers.
    """

    k_best: tuple[tuple[float | None, Tree], ...]
    marginal: float | None
    dropped: float | None
    arcs: tuple[str, ...] = ()

    @classmethod
    def of(
        cls,
        derivations: Sequence[tuple[float, Tree]],
        marginal: float,
        dropped: float,
        *,
        k_best: int,
        arcs: Sequence[str] = (),
    ) -> Parsed:
        """The best derivation; or the k best sums over those that give the same tree, or arcs.

        Derivations give the same tree if they differ only within words, or only in the constituents left for
        end-of-sentence to reduce. Equally probable parses are in the order of their best derivations.
        """
        if k_best > 1:
            joints: dict[str, list[float]] = {}
            first: dict[str, int] = {}
            parses = arcs or [tree.to_brackets() for _, tree in derivations]
            for k, (parse, (joint, _)) in enumerate(zip(parses, derivations, strict=True)):
                joints.setdefault(parse, []).append(joint)
                first.setdefault(parse, k)
            sums = {parse: float(np.logaddexp.reduce(each)) for parse, each in joints.items()}
            order = sorted(sums, key=lambda parse: -sums[parse])
            derivations = [(sums[parse], derivations[first[parse]][1]) for parse in order]
            arcs = order if arcs else ()
        return cls(tuple(derivations[:k_best]), marginal, dropped, tuple(arcs[:k_best]))
