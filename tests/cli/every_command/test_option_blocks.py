"""Options that several commands take are said once; help lists options by panel."""

from __future__ import annotations

import subprocess
import sys
from dataclasses import dataclass
from typing import Annotated

import typer
from typer.testing import CliRunner

from pdtools.cli.options import PanelledCommand, option_blocks


@dataclass(frozen=True, kw_only=True)
class Block:
    """Two options."""

    size: Annotated[int, typer.Option("--size", min=1, rich_help_panel="Search")] = 3
    dry: Annotated[bool, typer.Option("--dry", rich_help_panel="Output")] = False


def made(*without: str) -> typer.Typer:
    app = typer.Typer(rich_markup_mode=None)

    @option_blocks(without=without)
    def command(
        name: Annotated[str, typer.Argument()],
        block: Block,
        k: int = 1,
        out: Annotated[str | None, typer.Option("-o")] = None,
    ) -> None:
        typer.echo(f"{name} {k} {block}" + f" {out}" * (out is not None))

    app.command(cls=PanelledCommand)(command)
    return app


def test_a_command_gets_the_block() -> None:
    run = CliRunner().invoke(made(), ["x", "--size", "5", "--dry", "--k", "2"])
    assert run.output == "x 2 Block(size=5, dry=True)\n"
    assert CliRunner().invoke(made(), ["x"]).output == "x 1 Block(size=3, dry=False)\n"
    assert CliRunner().invoke(made(), ["x", "-o", "y"]).output == "x 1 Block(size=3, dry=False) y\n"
    assert CliRunner().invoke(made(), ["x", "--size", "0"]).exit_code == 2


def test_fields_without_an_option_keep_their_default() -> None:
    assert CliRunner().invoke(made("size"), ["x"]).output == "x 1 Block(size=3, dry=False)\n"
    assert CliRunner().invoke(made("size"), ["x", "--size", "5"]).exit_code == 2


def test_help_is_in_panels() -> None:
    lines = CliRunner().invoke(made(), ["--help"]).output.splitlines()
    heads = [line for line in lines if line.endswith(":") and not line.startswith(" ")]
    assert [head for head in heads if head != "Usage:"] == ["Arguments:", "Search:", "Output:", "Options:"]
    assert lines.index("Search:") < next(i for i, line in enumerate(lines) if "--size" in line)


def test_help_of_a_command_fits_a_narrow_pipe() -> None:
    command = [sys.executable, "-m", "pdtools", "eval-sg", "--help"]
    run = subprocess.run(command, capture_output=True, text=True, env={"COLUMNS": "80"}, check=True)
    options = run.stdout[run.stdout.index("Arguments:") :]
    assert max(map(len, options.splitlines())) <= 80
    for panel in ("Input", "Model", "Search", "Output", "Parallel"):
        assert f"\n{panel}:\n" in options
