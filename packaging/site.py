"""What the site has that ``docs/`` has not: a page of all commands, and links out of it as names of files."""

from __future__ import annotations

import posixpath
import re
from typing import Any

from mkdocs.structure.files import File, Files

COMMANDS = "reference/commands.md"


def on_files(files: Files, *, config: Any, **_: Any) -> Files:
    """Add the page of all commands."""
    files.append(File.generated(config, COMMANDS, content=commands()))
    return files


def on_page_markdown(markdown: str, *, page: Any, files: Files, **_: Any) -> str:
    """Links to files of the repository, which the site does not have, become these files' names."""
    folder = posixpath.dirname(page.file.src_uri)

    def replaced(link: re.Match[str]) -> str:
        text, target = link["text"], link["target"]
        path = posixpath.normpath(posixpath.join("docs", folder, target.partition("#")[0]))
        if re.match(r"[a-z]+:|#", target) or path.startswith("docs/"):
            return link[0]
        return text if text.startswith("`") else f"{text} (`{path}`)"

    return re.sub(r"(?<!!)\[(?P<text>[^\]]+)\]\((?P<target>[^)\s]+)\)", replaced, markdown)


def commands() -> str:
    """A page with what ``--help`` says of every command."""
    from typer.main import get_command

    from pdtools.cli.main import app

    parts = ["# Commands\n", "What `pdtools COMMAND --help` says, of every command.\n"]
    for names, command in _leaves(get_command(app), ("pdtools",)):
        context = command.make_context(" ".join(names), [], resilient_parsing=True)
        context.max_content_width = context.terminal_width = 110
        parts.append(f"## {' '.join(names[1:])}\n\n```text\n{command.get_help(context).strip()}\n```\n")
    return "\n".join(parts)


def _leaves(command: Any, names: tuple[str, ...]) -> Any:
    for name, each in getattr(command, "commands", {}).items():
        yield from _leaves(each, (*names, name))
    if not getattr(command, "commands", {}):
        yield names, command
