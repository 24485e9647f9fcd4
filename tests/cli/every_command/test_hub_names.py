"""A model named as on the Hugging Face hub, which nothing is downloaded for: what to do instead."""

from __future__ import annotations

from pathlib import Path

import pytest

from pdtools.cli.main import run


@pytest.fixture(autouse=True)
def empty_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


DATA = Path(__file__).parents[3] / "data"
COMMANDS = {
    "surprisal": ["surprisal", "--text", "a"],
    "surprisal without BOS": ["surprisal", "--text", "a", "--no-bos"],
    "eval-blimp": ["eval-blimp", f"{DATA}/blimp", "-o", "out"],
    "eval-sg": ["eval-sg", f"{DATA}/sg", "-o", "out"],
    "eval-ppl": ["eval-ppl", "data"],
    "eval-reading": ["eval-reading", "times.tsv", "-o", "out"],
    "train": ["train", "data", "-o", "out"],
}


@pytest.mark.parametrize("command", COMMANDS)
@pytest.mark.parametrize(
    ("name", "hint"),
    [
        ("gpt2", "hf download gpt2 --local-dir gpt2"),
        ("EleutherAI/pythia-70m", "hf download EleutherAI/pythia-70m --local-dir pythia-70m"),
    ],
)
def test_one_line_says_how_to_get_a_folder(
    command: str, name: str, hint: str, capsys: pytest.CaptureFixture[str]
) -> None:
    Path("data").mkdir()
    Path("times.tsv").write_text("item\tword_number\tword\tsubject\ttime\n1\t1\ta\ts\t300\n")
    option = "--init" if command == "train" else "--model"
    assert run([*COMMANDS[command], option, name, "--device", "cpu"]) == 1
    out, error = capsys.readouterr()
    assert out == ""
    assert error.count("\n") == 1
    assert f"{name}: no such folder" in error
    assert f"{hint} (" in error or f"{hint})" in error
    assert not Path("out").exists()


def test_where_the_option_takes_no_such_model_the_hub_is_not_named(
    capsys: pytest.CaptureFixture[str],
) -> None:
    Path("runs").mkdir()
    for arguments in (
        ["decode", "--text", "a", "--model", "gpt2"],  # which has no parses
        ["surprisal", "--text", "a", "--model", "runs/pushdwn"],  # a name misspelled
        ["surprisal", "--text", "a", "--model", "/no/such/folder"],
    ):
        assert run([*arguments, "--device", "cpu"]) == 1
        error = capsys.readouterr().err
        assert "no such folder" in error
        assert "hf download" not in error
