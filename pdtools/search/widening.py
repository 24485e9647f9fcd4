"""Searching widely only where it matters: scores that are compared, and how far off a comparison may be.

A beam that is wide enough for every sentence is far too wide for most comparisons of sentences. So all are
scored with a small beam, and those whose outcome could still change again with a wider one, and so on.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol, runtime_checkable

from pdtools.search.scores import SentenceScore, Unscorable

if TYPE_CHECKING:
    from pdtools.tokenization import Sentence


class Step(NamedTuple):
    """A beam and a margin (nats; None: none), see :func:`pdtools.search.beam_search`."""

    beam: int
    margin: float | None


# The last is the one that the others are to agree with. A beam of 300 with a margin of 6 nats takes less time
# than one of 100 without, and its scores are closer to those of 300 (docs/notes/performance.md).
STEPS = (Step(10, None), Step(30, None), Step(300, 6.0), Step(300, 8.0), Step(300, None))
# Of the first step there is no change to go by: what is missing counts twice, and there is a least doubt.
_FIRST_FACTOR, _FIRST_LEAST = 2.0, 0.3


@dataclass(frozen=True, slots=True)
class Uncertain:
    """A number made of log-probabilities, in nats.

    Attributes:
        now: as found by the last step.
        before: as found by the one before; None after the first.
        missing: how much greater the log-probabilities that it is made of may still become, together.
    """

    now: float
    before: float | None = None
    missing: float = 0.0

    def plus(self, other: Uncertain, times: float = 1.0) -> Uncertain:
        """The sum with so many times another."""
        known = self.before is not None and other.before is not None
        return Uncertain(
            self.now + times * other.now,
            self.before + times * other.before if known else None,  # type: ignore[operator]
            self.missing + abs(times) * other.missing,
        )

    @property
    def doubt(self) -> float:
        """By how much wider searches are taken to change it at most: what the last widening changed, and what
        is missing."""
        if self.before is None:
            return _FIRST_FACTOR * self.missing + _FIRST_LEAST
        return abs(self.now - self.before) + self.missing


Found = SentenceScore | Unscorable


def missing(now: SentenceScore, before: Found | None, *, wider: bool) -> float:
    """How much greater log p(x) may still become, nats.

    Args:
        now, before: what the last step found, and the one before it, if there was one.
        wider: whether the last step had a wider beam than the one before: it may become as great as if what
            was dropped had fared as what was kept. Else it had a wider margin only, and what is left will
            change much less than that did: by an eighth.
    """
    if wider or not isinstance(before, SentenceScore):
        return -math.log1p(-(now.dropped or 0.0))
    return abs(now.total - before.total) / 8


class Contest(Protocol):
    """Sentences whose scores are compared."""

    @property
    def sentences(self) -> Sequence[str | Sentence]:
        """As a scorer takes them."""
        ...

    def decided(self, now: Sequence[Found], before: Sequence[Found] | None, *, wider: bool) -> bool:
        """Whether wider searches are taken not to change the outcome, see :attr:`Uncertain.doubt`.

        Args:
            now: of each sentence what the last step found.
            before: the step before it; None after the first.
            wider: see :func:`missing`.
        """
        ...


@dataclass(frozen=True, slots=True)
class Compared:
    """What the last step of a contest found of its sentences, and which step that was."""

    scores: tuple[Found, ...]
    beam: int
    margin: float | None


@runtime_checkable
class Comparer(Protocol):
    """What scores sentences as far as comparisons of them need it.

    Attributes:
        settings: as of :class:`pdtools.search.Scorer`, the beam being ``auto``.
    """

    settings: dict[str, Any]

    def compare(self, contests: Iterable[Contest]) -> Iterator[Compared]:
        """One result for each contest, in order, lazily."""
        ...
