"""``pdtools train --task``: strings of a task, drawn on the fly, instead of shards."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated

import typer

from ..arguments import parse_range
from ..panels import input_option

if TYPE_CHECKING:
    from pdtools.formal.transduction_training import TaskInput


@dataclass(frozen=True, kw_only=True)
class TaskOptions:
    """Options for training on a task."""

    task: Annotated[
        str | None,
        input_option(
            "--task",
            metavar="NAME",
            help="Train on rs, sm, ma or se instead of SHARDS; strings are drawn during training.",
        ),
    ] = None
    lengths: Annotated[
        str | None,
        input_option(
            "--lengths",
            metavar="FIRST-LAST",
            help="--task: number of symbols of x (default: 1-40); one length per step.",
        ),
    ] = None
    as_released: Annotated[
        bool,
        input_option("--as-released", help="--task: follow its authors' code if it differs from the paper."),
    ] = False

    def training_input(self, valid: str | None) -> TaskInput | None:
        """The data of the run, with ``valid`` as a file of pairs; None without a task.

        Raises:
            PdtoolsError: if there is no such task, or it has no strings so short.
            InputError: if the file holds other data.
        """
        if self.task is None:
            if self.lengths or self.as_released:
                raise typer.BadParameter("--lengths and --as-released go with --task")
            return None

        from pdtools.formal.transduction_training import TaskInput
        from pdtools.formal.transductions import make_task

        task = make_task(self.task, as_released=self.as_released)
        lengths = parse_range(self.lengths) if self.lengths else range(task.shortest, 41)
        return TaskInput(task, lengths, valid)
