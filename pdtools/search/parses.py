"""Derivations of sentences that searches found, and parses made of them."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Generic, TypeVar

import numpy as np
from numpy.typing import NDArray

from pdtools.search.scores import PrefixScores, SentenceScore
from pdtools.trees import Tree

if TYPE_CHECKING:
    from pdtools.search.checkpoints import Encoded

Found = TypeVar("Found")


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
            with the sum over its derivations in the beam; or derivations, if one parse or derivations were
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
        merging: bool,
        arcs: Sequence[str] = (),
    ) -> Parsed:
        """The k best parses: derivations, or sums over those that give the same tree, or arcs.

        Derivations give the same tree if they differ only within words, or only in the constituents left for
        end-of-sentence to reduce. Equally probable parses are in the order of their best derivations.
        """
        if merging:
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


@dataclass(frozen=True, slots=True)
class BeamStep(Generic[Found]):
    """The beam after a token, with the K best of its hypotheses, best first.

    Attributes:
        kept: number of hypotheses in it.
        total: log Σ of their joint probabilities, nats.
        joints: float64[K], nats.
        parents: int64[K], the rank of the hypothesis that each extends, among all kept after the token
            before.
        derivations: each one's: attachments int32[k + 1], or actions.
        token_logprobs: float64[K], nats: log p of the token alone; None for action models.
        attachment: float64[k + 1], the probability that the token attaches to each position, over all
            extensions before any was dropped; None for action models.
    """

    kept: int
    total: float
    joints: NDArray[np.float64]
    parents: NDArray[np.int64]
    derivations: tuple[Found, ...]
    token_logprobs: NDArray[np.float64] | None = None
    attachment: NDArray[np.float64] | None = None


@dataclass(frozen=True, slots=True)
class SearchResult(PrefixScores, Generic[Found]):
    """The result of the search for the derivations of one string of n tokens.

    Attributes:
        derivations: the best ones, best first, with their log joints, nats.
        incremental: the best hypothesis after each token, from ROOT or the first token on; then the best
            derivation.
        log_share_kept: the log of the estimated share of p(x) that the search kept, nats: 0 if nothing was
            ever dropped.
        steps: if requested, the beam after each token, and after end-of-sentence.
        next_logprobs: float64 (n + 1, vocabulary), nats, if requested: at t from 0 to n, log Σ over the beam
            of the joint probability of the first t tokens, their derivation, and each token that may follow.
    """

    derivations: tuple[tuple[float, Found], ...]
    incremental: tuple[Found, ...]
    log_share_kept: float
    steps: tuple[BeamStep[Found], ...] = ()
    next_logprobs: NDArray[np.float64] | None = None

    @property
    def dropped(self) -> float:
        """The share of p(x) that the search dropped, assuming that it fared like the kept part."""
        return dropped_share(self.log_share_kept)

    @property
    def conditional_next_logprobs(self) -> NDArray[np.float64]:
        """Next-token log-probabilities after every token, float64 (n + 1, vocabulary), nats, if requested.

        They are A_{t+1} − A_t, had a token followed the first t; they sum to 1 minus the share dropped after
        token t. They are -inf once A_t is.
        """
        assert self.next_logprobs is not None
        before = self.prefix_logprobs[:-1, None]
        nothing = np.full_like(self.next_logprobs, -np.inf)
        found: NDArray[np.float64] = np.subtract(
            self.next_logprobs, before, out=nothing, where=before > -np.inf
        )
        return found


def dropped_share(log_share_kept: float) -> float:
    """The dropped share of p(x), from the log of the kept share."""
    return 0.0 - math.expm1(min(log_share_kept, 0.0))  # neither -0 nor, by rounding, less


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
