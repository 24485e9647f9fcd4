"""Searching widely only where it matters: scores that are compared, and how far off a comparison may be.

A beam that is wide enough for every sentence is far too wide for most comparisons of sentences. So all are
scored with a small beam, and those whose outcome could still change again with a wider one, and so on.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal, NamedTuple, Protocol, Union, runtime_checkable

from pdtools.search.scores import Beginning, SentenceScore, Unscorable

if TYPE_CHECKING:
    from pdtools.tokenization import Sentence


class Step(NamedTuple):
    """A search, and how far off what it finds is taken to be.

    Attributes:
        beam, margin: see :func:`pdtools.search.beam_search`; the margin in nats, None: none.
        regions, totals: how far off at least, nats, the log-probability of a region, or of a sentence; None:
            the step is not for contests of these.
    """

    beam: int
    margin: float | None
    regions: float | None
    totals: float | None


# The last is the one that the others are to agree with. In those before a margin does most of the work: what
# they take and miss is in docs/notes/performance.md, which these numbers are from.
STEPS = (
    Step(30, 4.0, regions=0.45, totals=None),
    Step(100, 5.0, regions=None, totals=0.7),
    Step(300, 6.0, regions=0.02, totals=0.02),
    Step(300, 8.0, regions=0.005, totals=0.005),
    Step(300, None, regions=0.0, totals=0.0),
)


@dataclass(frozen=True, slots=True)
class Uncertain:
    """A number made of log-probabilities, in nats.

    Attributes:
        now: as found by the last step.
        before: as found by the one before; None after the first.
        least: how far off it is taken to be at least, in its unit.
    """

    now: float
    before: float | None = None
    least: float = 0.0

    def plus(self, other: Uncertain, times: float = 1.0) -> Uncertain:
        """The sum with so many times another."""
        known = self.before is not None and other.before is not None
        return Uncertain(
            self.now + times * other.now,
            self.before + times * other.before if known else None,  # type: ignore[operator]
            self.least + abs(times) * other.least,
        )

    @property
    def doubt(self) -> float:
        """By how much wider searches are taken to change it at most."""
        return self.least + (0.0 if self.before is None else abs(self.now - self.before))


Found = SentenceScore | Unscorable
Asked = Union[str, "Sentence", Beginning]


class Contest(Protocol):
    """Sentences whose scores are compared.

    Attributes:
        sums: what is compared: log-probabilities of regions, or of whole sentences.
    """

    @property
    def sums(self) -> Literal["regions", "totals"]: ...

    @property
    def sentences(self) -> Sequence[Asked]:
        """As a scorer takes them, no further than they matter."""
        ...

    def decided(self, now: Sequence[Found], before: Sequence[Found] | None, least: float) -> bool:
        """Whether wider searches are taken not to change the outcome, see :attr:`Uncertain.doubt`.

        Args:
            now: of each sentence what the last step found.
            before: the step before it; None after the first.
            least: nats, of the last step, see :class:`Step`.
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
