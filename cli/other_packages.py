"""Commands of evaluations from other packages, each made from its record, which has a function."""

from __future__ import annotations

import contextlib
from importlib.metadata import entry_points
from typing import Annotated, Any

import typer

from pdtools.errors import PdtoolsError
from pdtools.evaluation.record import GROUP, Evaluation, evaluations

from .evaluating import Evaluating
from .options import (
    LatexOption,
    PanelledCommand,
    ResultsFolderOption,
    RunOptions,
    ScoredModelOption,
    option_blocks,
)
from .running import model_settings


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
    app = typer.Typer(add_completion=False, rich_markup_mode=None, pretty_exceptions_enable=False)
    app.command(
        name,
        cls=PanelledCommand,
        help=f"{record.title}.\n\n{record.evaluate.__doc__ or ''}",
        short_help=record.title,
        context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 110},
    )(_command(record))
    return typer.main.get_command(app)


def _command(record: Evaluation) -> Any:
    evaluate = record.evaluate
    assert evaluate is not None

    @option_blocks()
    def command(
        data: Annotated[list[str], typer.Argument(metavar="DATA...", help="Input files.")],
        run: RunOptions,
        model: ScoredModelOption,
        output: ResultsFolderOption = None,
        latex: LatexOption = False,
    ) -> None:
        of_data = {"data" if len(data) == 1 else f"data_{i}": path for i, path in enumerate(data, start=1)}
        inputs = {**of_data, "model": model, "trees": run.trees}
        evaluating = Evaluating.begin(output, run, inputs, latex=latex)
        with evaluating.model(model_settings(evaluating.plan, model, run)) as scorer:
            results = evaluate(data, scorer, evaluating.bar("sentences"))
            results.settings["task"] = record.name
            evaluating.deliver(results)

    return command
