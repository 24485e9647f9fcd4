"""Chunks of an evaluation that uses a model directly: their distribution, and the source of the model.

Evaluations of sentences ask a model instead (:mod:`pdtools.search.model`).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, TypeVar

from pdtools.jobs import JobFolder, Plan, Work, map_chunks

if TYPE_CHECKING:
    from pdtools.jobs.workers import Workers
    from pdtools.models import LoadedModel
    from pdtools.search.model import ModelSettings

Item = TypeVar("Item")
Result = TypeVar("Result")


def checkpoint_of(model: ModelSettings | LoadedModel) -> LoadedModel:
    """The checkpoint that a process uses."""
    from pdtools.search.model import ModelSettings

    return model.load_checkpoint() if isinstance(model, ModelSettings) else model


@dataclass(frozen=True, slots=True)
class InChunks:
    """The distribution of an evaluation's chunks; see :func:`pdtools.jobs.map_chunks`.

    Attributes:
        model: as every process loads it, or already in this process.
        plan: how chunks are distributed; by default this process alone.
        job: keeps the results; None: they are handed out only.
        name: name of this pass, if the job has several.
        processes: the plan's workers, if they do other passes too.
    """

    model: ModelSettings | LoadedModel
    plan: Plan = field(default_factory=Plan)
    job: JobFolder | None = None
    name: str = "pieces"
    processes: Workers | None = None

    def map(self, work: Work[Item, Result], chunks: Iterable[Item]) -> Iterator[tuple[Item, Result]]:
        """Each chunk with its result, in order."""
        return map_chunks(work, chunks, self.plan, self.job, self.name, processes=self.processes)
