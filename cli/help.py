"""``pdtools help``: the help of a command."""

from __future__ import annotations

import typer

from .options import command


@command("Print the help of a command.")
def help(name: list[str] | None = None) -> None:
    """Print the help of a command.

    \b
    Example:
      pdtools help train
      pdtools help data get

    Arguments:
        name (COMMAND): Its name.
    """
    from .main import run

    raise typer.Exit(run([*(name or []), "--help"]))
