"""An option that takes one value is refused if it is given two: none is dropped without a word."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import typer
from commands import every_command

from pdtools.cli.main import run


def options(command: Any, *, multiple: bool) -> list[Any]:
    found = [each for each in command.params if each.param_type_name == "option" and each.name != "help"]
    return [each for each in found if each.multiple == multiple]


@pytest.mark.parametrize("name", every_command())
def test_two_values(name: str) -> None:
    command = every_command()[name]
    for option in options(command, multiple=False):
        if option.is_flag and not option.secondary_opts:
            continue
        for flag in option.opts:
            one, two = (["1"] * option.nargs, ["2"] * option.nargs)
            if option.is_flag:
                given, said = [flag, option.secondary_opts[0]], f"{option.secondary_opts[0]} are given"
            else:
                given, said = [flag, *one, flag, *two], "takes one value"
            with pytest.raises(typer.BadParameter, match=said) as error:
                command.make_context("pdtools", given)
            assert (error.value.exit_code, max(option.opts, key=len) in str(error.value)) == (2, True)


def test_these_take_a_model_once_or_several_times() -> None:
    once, several = (
        {
            name
            for name, command in every_command().items()
            if "model" in {option.name for option in options(command, multiple=multiple)}
        }
        for multiple in (False, True)
    )
    assert {"eval-blimp", "eval-sg", "eval-ppl", "decode", "sample", "train"} <= once
    assert {"eval-attention", "eval-reading", "surprisal", "view"} <= several


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ("--model a --text x --model b", "--model takes one value: a and b"),
        ("--model=a --model=b --model c", "--model takes one value: a, b and c"),
        ("--model a -o x -oy", "--output takes one value: x and y"),
        ("--model a --seed 1 --no-bos --beam 2 --beam=3", "--beam takes one value: 2 and 3"),
    ],
)
def test_however_they_are_written(given: str, said: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["surprisal", *given.split()]) == 2
    err = " ".join(capsys.readouterr().err.split())
    assert said in err or "No such option" in err


def test_keys(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A key has one value, too; the same value again stays."""
    table = tmp_path / "t.csv"
    table.write_text("a,b\nThe dog barks.,x\n")
    for words, option, key, said in (
        (["--text", "dog"], "--search", "max_batch=", "--search max_batch takes one value: 1 and 2"),
        ([str(table)], "--column", "sentence=", "--column sentence takes one value: a and b"),
    ):
        one, two = said.split()[-3::2]
        given = ["surprisal", *words, "--model", "demo", option, key + one, option]
        assert run([*given, key + one, "--quiet"]) == 0
        capsys.readouterr()
        assert run([*given, key + two]) == 2
        assert said in " ".join(capsys.readouterr().err.split())


def test_what_stays(capsys: pytest.CaptureFixture[str]) -> None:
    """The same value again, flags again, options that take several, and what follows --."""
    assert run(["config", "keys", "--json", "--json"]) == 0
    assert run(["surprisal", "--model", "nowhere", "--model", "nowhere", "--text", "a"]) == 1
    assert "nowhere" in capsys.readouterr().err
    assert run(["surprisal", "--model", "nowhere", "--text", "a", "--text", "b"]) == 1
    assert run(["compare", "--seed", "1", "--", "--seed", "2"]) == 1
