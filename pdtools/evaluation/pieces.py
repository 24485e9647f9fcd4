"""Pieces of an evaluation that asks a model directly: who does them, and where they have the model from.

Evaluations of sentences have theirs from a scorer (:mod:`pdtools.search.in_pieces`).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Protocol, TypeVar

from pdtools.jobs import JobFolder, Plan, Work, map_pieces

if TYPE_CHECKING:
    from pdtools.jobs.workers import Workers
    from pdtools.models import LoadedModel

Item = TypeVar("Item")
Result = TypeVar("Result")


class ModelSource(Protocol):
    """Where a process has a model from."""

    def load_model(self) -> LoadedModel:
        """The model, loaded once in each process."""
        ...


@dataclass(frozen=True, slots=True)
class Held:
    """A model that this process has."""

    loaded: LoadedModel

    def load_model(self) -> LoadedModel:
        """See :class:`ModelSource`."""
        return self.loaded


@dataclass(frozen=True, slots=True)
class InPieces:
    """How the pieces of an evaluation are done; see :func:`pdtools.jobs.map_pieces`.

    Attributes:
        model: what the processes that do them load.
        plan: who does them; by default this process alone.
        job: keeps the results; None: they are handed out only.
        name: of this pass, if the job has several.
        processes: the plan's workers, if they do other passes too.
    """

    model: ModelSource
    plan: Plan = field(default_factory=Plan)
    job: JobFolder | None = None
    name: str = "pieces"
    processes: Workers | None = None

    def map(self, work: Work[Item, Result], pieces: Iterable[Item]) -> Iterator[tuple[Item, Result]]:
        """Each piece with its result, in order."""
        return map_pieces(work, pieces, self.plan, self.job, self.name, processes=self.processes)
