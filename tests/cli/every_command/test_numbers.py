"""Numbers that no option can mean are refused before any work."""

from __future__ import annotations

import inspect
from collections.abc import Iterator
from typing import Any, get_args

import pytest
import typer
from commands import every_command

from pdtools.cli import main

HUGE = 2**63
MEANINGLESS = {
    float: ("nan", "inf", "-inf", "1e400"),
    int: (str(HUGE), f"-{HUGE}1", str(2**128 + 1)),
}


def _numeric() -> Iterator[Any]:
    """Each option of each command that takes a number: the command, what it needs, the option, its type."""
    for command_name, command in every_command().items():
        signature = inspect.signature(command.callback)
        for option in (one for one in command.params if one.opts[0].startswith("-")):
            hint = signature.parameters.get(option.name)
            kinds = set() if hint is None else {*get_args(hint.annotation)[:1]}
            kinds |= {part for kind in kinds for part in get_args(kind)}
            needed = [
                part
                for other in command.params
                if other.required and other is not option
                for part in ([other.opts[0]] if other.opts[0].startswith("-") else []) + ["3"]
            ]
            for kind in kinds & MEANINGLESS.keys():
                name = f"{command_name}{option.opts[0]}"
                yield pytest.param(command, needed, option.opts[0], kind, id=name)


NUMERIC = list(_numeric())


def test_there_are_such_options() -> None:
    assert {case.id for case in NUMERIC} >= {
        *("eval-reading--max-time", "parse--margin"),
        *("eval-ppl--particles", "eval-ppl--seed", "train--seed", "generate dyck--seed"),
    }


@pytest.mark.parametrize(("command", "needed", "option", "kind"), NUMERIC)
def test_numbers_without_a_meaning(command: Any, needed: list[str], option: str, kind: type) -> None:
    for value in MEANINGLESS[kind]:
        given = f"{option}={value}" if option.startswith("--") else f"{option}{value}"
        with pytest.raises(typer.BadParameter) as error:
            command.make_context("", [*needed, given])
        assert error.value.exit_code == 2
        assert error.value.param.opts[0] == option


def test_a_refusal_is_one_line(capsys: pytest.CaptureFixture[str]) -> None:
    words = ["eval-reading", "times.tsv", "--model", "nowhere", "--max-time", "inf", "-o", "results"]
    assert main.run(words) == 2
    assert "Invalid value for '--max-time': inf is not a finite number" in capsys.readouterr().err


@pytest.mark.parametrize("seed", [HUGE - 1, 2**32, 0])
def test_seeds_that_generators_take(seed: int, capsys: pytest.CaptureFixture[str]) -> None:
    assert main.run(["generate", "dyck", "-n", "2", "--seed", str(seed), "-q"]) == 0
    assert capsys.readouterr().out


SETTINGS = "has to be one of word_beam=N (from 1), fast_track=N (from 0), max_batch=N (from 1)"


@pytest.mark.parametrize(
    ("option", "value", "said"),
    [
        ("--search", "word_beam=0", SETTINGS),
        ("--search", "fast_track=-1", SETTINGS),
        ("--search", "max_batch", SETTINGS),
        ("--search", "beam=3", SETTINGS),
        ("--beam", "0", "'0' is neither a number from 1 on nor auto"),
        ("--beam", "1e3", "'1e3' is neither a number from 1 on nor auto"),
    ],
)
def test_settings_of_a_search(option: str, value: str, said: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main.run(["surprisal", "--text", "a", "--model", "demo", option, value]) == 2
    assert said in " ".join(capsys.readouterr().err.split())
