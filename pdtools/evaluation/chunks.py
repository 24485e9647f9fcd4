"""Chunks of an evaluation that uses a model directly: their distribution, and the source of the model.

Evaluations of sentences use a scorer instead (:mod:`pdtools.search.in_chunks`).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Protocol, TypeVar

from pdtools.jobs import JobFolder, Plan, Work, map_chunks

if TYPE_CHECKING:
    from pdtools.jobs.workers import Workers
    from pdtools.models import LoadedModel

Item = TypeVar("Item")
Result = TypeVar("Result")


class ModelSource(Protocol):
    """The interface from which a process gets its model."""

    def load_model(self) -> LoadedModel:
        """The model, loaded once in each process."""
        ...


@dataclass(frozen=True, slots=True)
class LoadedModelSource:
    """A model that is already in this process."""

    loaded: LoadedModel

    def load_model(self) -> LoadedModel:
        """See :class:`ModelSource`."""
        return self.loaded


@dataclass(frozen=True, slots=True)
class InChunks:
    """The distribution of an evaluation's chunks; see :func:`pdtools.jobs.map_chunks`.

    Attributes:
        model: the source of the model for each process.
        plan: how chunks are distributed; by default this process alone.
        job: keeps the results; None: they are handed out only.
        name: name of this pass, if the job has several.
        processes: the plan's workers, if they do other passes too.
    """

    model: ModelSource
    plan: Plan = field(default_factory=Plan)
    job: JobFolder | None = None
    name: str = "pieces"
    processes: Workers | None = None

    def map(self, work: Work[Item, Result], chunks: Iterable[Item]) -> Iterator[tuple[Item, Result]]:
        """Each chunk with its result, in order."""
        return map_chunks(work, chunks, self.plan, self.job, self.name, processes=self.processes)
