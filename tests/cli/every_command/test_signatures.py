"""A command line is made of a signature and a docstring; help lists options by panel."""

from __future__ import annotations

import ast
import subprocess
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, Literal

import pytest
import typer

from pdtools.cli import main
from pdtools.cli.signatures import alone, command, described

SHARED = described("""
Output:
    out (-o DIR): Where to write.
""")[1]


@dataclass(frozen=True, kw_only=True)
class Block:
    """Two options.

    Search:
        size: A number, of which the
            help is long.

    Output:
        dry: Nothing is written.
    """

    size: Annotated[int, typer.Option(min=1)] = 3
    dry: bool = False


Invoke = Callable[..., tuple[int, str]]


@pytest.fixture
def invoke(capsys: pytest.CaptureFixture[str]) -> Invoke:
    def run(command: Any, line: str) -> tuple[int, str]:
        with pytest.raises(SystemExit) as ended:
            command(line.split(), prog_name="try")
        return int(ended.value.code or 0), capsys.readouterr().out

    return run


def made(*without: str) -> Any:
    @command("Try.", shared=SHARED, without=without)
    def function(
        name: str,
        block: Block,
        k: Annotated[int, typer.Option(max=9)] | None = None,
        out: str | None = None,
        form: Literal["a", "b"] = "a",
        careful: bool = True,
    ) -> None:
        """Try it.

        Arguments:
            name (NAME): What it is called.

        Options:
            k: How many.
            form (--as FORM): One of two.
            careful: Take care, or not.
        """
        typer.echo(f"{name} {k} {block} {out} {form} {careful}")

    return alone("try", function)


@pytest.mark.parametrize(
    ("given", "printed"),
    [
        ("x --size 5 --dry --k 2", "x 2 Block(size=5, dry=True) None a True"),
        ("x", "x None Block(size=3, dry=False) None a True"),
        ("x -o y --as b --no-careful", "x None Block(size=3, dry=False) y b False"),
    ],
)
def test_a_command_gets_its_options(given: str, printed: str, invoke: Invoke) -> None:
    assert invoke(made(), given) == (0, f"{printed}\n")


@pytest.mark.parametrize("given", ["x --size 0", "x --k 10", "x --as c", "x --form a", "x --no-dry", ""])
def test_what_the_signature_does_not_allow(given: str, invoke: Invoke) -> None:
    assert invoke(made(), given) == (2, "")


def test_fields_without_an_option_keep_their_default(invoke: Invoke) -> None:
    assert "Block(size=3" in invoke(made("size"), "x")[1]
    assert invoke(made("size"), "x --size 5") == (2, "")


def test_a_parameter_needs_a_description() -> None:
    with pytest.raises(KeyError, match="other"):

        @command(shared=SHARED)
        def function(other: str) -> None:
            """Try."""


def test_every_parameter_of_a_command_is_read() -> None:
    """One that its command hands to nothing changes nothing (``show`` and ``quiet`` act themselves)."""
    unread, commands = [], 0
    for path in sorted(Path(main.__file__).parent.glob("*.py")):
        for function in ast.walk(ast.parse(path.read_text())):
            decorators = map(ast.unparse, getattr(function, "decorator_list", ()))
            if isinstance(function, ast.FunctionDef) and any(d.startswith("command(") for d in decorators):
                read = {node.id for node in ast.walk(function) if isinstance(node, ast.Name)}
                unread += [each.arg for each in function.args.args if each.arg not in read]
                commands += 1
    assert commands > 35
    assert sorted(unread) == ["quiet", "show"]


def test_help_is_in_panels(invoke: Invoke) -> None:
    lines = invoke(made(), "--help")[1].splitlines()
    heads = [line for line in lines if line.endswith(":") and not line.startswith(" ")]
    assert [head for head in heads if head != "Usage:"] == ["Arguments:", "Search:", "Output:", "Options:"]
    assert lines.index("Search:") < next(i for i, line in enumerate(lines) if "--size" in line)
    text = " ".join(" ".join(lines).split())
    assert "A number, of which the help is long. [default: 3]" in text
    assert "-o, --out DIR Where to write." in text
    assert text.count("How many") == 1


def test_help_of_a_command_fits_a_narrow_pipe() -> None:
    command = [sys.executable, "-m", "pdtools", "eval-sg", "--help"]
    run = subprocess.run(command, capture_output=True, text=True, env={"COLUMNS": "80"}, check=True)
    options = run.stdout[run.stdout.index("Arguments:") :]
    assert max(map(len, options.splitlines())) <= 80
    for panel in ("Input", "Model", "Search", "Output", "Parallel"):
        assert f"\n{panel}:\n" in options
