"""Every command, as the command line has it."""

from __future__ import annotations

from functools import cache
from typing import Any

from typer.main import get_command

from pdtools.cli.main import app


@cache
def every_command() -> dict[str, Any]:
    """The commands by the words that follow ``pdtools``; of a group its subcommands."""
    group: Any = get_command(app)
    found = {}
    for name in group.list_commands(None):
        command = group.get_command(None, name)
        subcommands = getattr(command, "commands", {})
        found |= {f"{name} {each}": of for each, of in subcommands.items()} or {name: command}
    return found
