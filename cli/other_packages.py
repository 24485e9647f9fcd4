"""Commands of evaluations from other packages, each made from its record, which has a function."""

from __future__ import annotations

import contextlib
from importlib.metadata import entry_points
from typing import Any

from pdtools.errors import PdtoolsError
from pdtools.evaluation.record import GROUP, Evaluation, evaluations

from .console import bar
from .evaluating import Evaluating
from .options import ModelName, RunOptions, command
from .running import model_settings
from .signatures import alone


def names() -> list[str]:
    """The commands, by the names of entry points; none if one of the packages is broken."""
    found = [f"eval-{entry.name}" for entry in entry_points(group=GROUP)]
    with contextlib.suppress(PdtoolsError):  # which is reported where it is used
        if found and evaluations():
            return found
    return []


def command_of(name: str) -> Any:
    """The command with a name; None if no package brings it.

    Raises:
        PdtoolsError: if a package brings an invalid evaluation.
    """
    if name.removeprefix("eval-") not in {entry.name for entry in entry_points(group=GROUP)}:
        return None
    record = evaluations()[name.removeprefix("eval-")]
    if record.evaluate is None:
        return None
    about = f"{record.title}.\n\n{record.evaluate.__doc__ or ''}"
    return alone(name, _command(record), help=about, short_help=record.title)


def _command(record: Evaluation) -> Any:
    evaluate = record.evaluate
    assert evaluate is not None

    @command()
    def evaluated(
        data: list[str], run: RunOptions, model: ModelName, output: str | None = None, latex: bool = False
    ) -> None:
        """Evaluate a model.

        Arguments:
            data (DATA): Input files.
        """
        of_data = {"data" if len(data) == 1 else f"data_{i}": path for i, path in enumerate(data, start=1)}
        inputs = {**of_data, "model": model, "trees": run.trees}
        evaluating = Evaluating.begin(output, run, inputs, latex=latex)
        with evaluating.model(model_settings(evaluating.plan, model, run)) as asked:
            results = evaluate(data, asked, bar("sentences"))
            results.settings["task"] = record.name
            evaluating.deliver(results)

    return evaluated
