"""The commands of formal languages, for the table of all commands."""

from __future__ import annotations

import typer

from ..options import PanelledCommand
from . import eval_cfl, eval_dyck, eval_task, generate


def add_commands(app: typer.Typer) -> None:
    """Give ``pdtools`` its commands for formal languages."""
    for name, command, short_help in (
        ("eval-dyck", eval_dyck.eval_dyck, "Predict closing brackets in long or deep bracket strings."),
        ("eval-cfl", eval_cfl.eval_cfl, "Compare a model's cross-entropy with a language's exact one."),
        ("eval-task", eval_task.eval_task, "Predict y from x with a model of pdtools train --task."),
    ):
        app.command(name, cls=PanelledCommand, short_help=short_help)(command)
    said = "Draw strings of a formal language: text, or shards."
    app.add_typer(generate.app, name="generate", short_help=said)
