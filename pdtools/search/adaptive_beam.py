"""Adaptive beam: a wide search only where a comparison of sentences needs it, with bounds on its error.

A beam wide enough for every sentence is far too wide for most comparisons of sentences. So all are
scored with a small beam, and comparisons whose outcome could still change again with a wider one, and so on.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Literal, NamedTuple, Protocol

from pdtools.search.family import Family
from pdtools.search.options import AUTO
from pdtools.search.scores import Asked, Beginning, SentenceScore, Unscorable

MaybeScore = SentenceScore | Unscorable
_ALMOST_ALL = 1 - 1e-9  # so that the dropped share is a number of nats


class ErrorBound(NamedTuple):
    """Assumed bound on the search error of a comparison.

    Attributes:
        least: nats, at least.
        share: the share of the log-probability that the search dropped, nats, summed over the sentences; it
            is added.
    """

    least: float
    share: float

    def of(self, scores: Sequence[MaybeScore]) -> float:
        """The bound for sentences with these scores, nats; 0: nothing was dropped."""
        of_each = [getattr(score, "dropped", None) or 0.0 for score in scores]
        dropped = -math.fsum(math.log1p(-min(each, _ALMOST_ALL)) for each in of_each)
        return self.least + self.share * dropped if dropped else 0.0


class Step(NamedTuple):
    """A search, and the error bounds with which a comparison of its scores is settled.

    Attributes:
        beam, margin: see :func:`pdtools.search.beam_search`; the margin in nats, None: none.
        regions, totals: for comparisons of log-probabilities of regions, or of sentences; None: the step is
            not for these.
    """

    beam: int
    margin: float | None
    regions: ErrorBound | None
    totals: ErrorBound | None


SURE = ErrorBound(0.0, 0.0)
# Earlier steps should decide comparisons as the last one does. These bounds are from their measured errors
# (benchmarks/README.md).
STEPS = (
    Step(30, 4.0, regions=ErrorBound(0.1, 0.5), totals=None),
    Step(100, 5.0, regions=None, totals=ErrorBound(1.75, 0.5)),
    Step(300, 8.0, regions=ErrorBound(0.01, 0.01), totals=ErrorBound(0.05, 0.1)),
    Step(300, None, regions=SURE, totals=SURE),
)


class Comparison(Protocol):
    """Sentences whose scores are compared.

    Attributes:
        sums: the compared values: log-probabilities of regions, or of whole sentences.
    """

    @property
    def sums(self) -> Literal["regions", "totals"]: ...

    @property
    def sentences(self) -> Sequence[Asked]:
        """The sentences, or beginnings, that a model is asked about."""
        ...

    def decided(self, found: Sequence[MaybeScore], error_bound: float) -> bool:
        """Return whether wider searches are assumed not to change the outcome.

        Args:
            found: for each sentence, the last step's score.
            error_bound: bound on the error of the compared difference, nats.
        """
        ...


@dataclass(frozen=True, slots=True)
class Compared:
    """The scores of a comparison after its last step, and that step."""

    scores: tuple[MaybeScore, ...]
    beam: int
    margin: float | None


class AdaptiveFamily(Family):
    """The family for ``--beam auto``: it takes the steps of ``STEPS``, as far as comparisons need it.

    Args:
        of_step: makes the family that searches as a step says.
    """

    def __init__(self, of_step: Callable[[Step], Family]) -> None:
        self._families = [of_step(step) for step in STEPS]
        steps = [list(step) for step in STEPS]
        self.settings = {**self._families[-1].settings, "beam": AUTO, "beam_margin_and_doubt_of_steps": steps}

    @property
    def look_ahead(self) -> int:
        """The number of comparisons worked on together: enough for the last few still to fill batches."""
        return 256

    def compare(self, comparisons: Iterable[Comparison]) -> Iterator[Compared]:
        """See :meth:`Family.compare`."""
        stream = iter(comparisons)
        while block := list(itertools.islice(stream, self.look_ahead)):
            yield from self._compare(block)

    def _compare(self, comparisons: Sequence[Comparison]) -> list[Compared]:
        found: dict[int, Compared] = {}
        open_ones = list(range(len(comparisons)))
        for step, family in zip(STEPS, self._families, strict=True):
            bounds = {i: getattr(step, comparisons[i].sums) for i in open_ones}
            sentences = {
                text for i in open_ones if bounds[i] is not None for text in comparisons[i].sentences
            }
            in_order = sorted(sentences, key=_text)  # common beginnings become neighbours
            scores: dict[Asked, MaybeScore] = dict(
                zip(in_order, family.answers("score", in_order), strict=True)
            )
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
