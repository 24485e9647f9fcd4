"""A model named as on the Hugging Face hub, but without ``hf:``: nothing is looked for there."""

from __future__ import annotations

from pathlib import Path

import pytest

from pdtools.cli.main import run
from pdtools.provenance.hub import BUNDLED, find_model


@pytest.fixture(autouse=True)
def empty_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


COMMANDS = {
    "surprisal": ["surprisal", "--text", "a"],
    "blocks": ["blocks", "data", "-o", "out"],
    "train": ["train", "data", "-o", "out"],
}


@pytest.mark.parametrize("command", COMMANDS)
@pytest.mark.parametrize("name", ["gpt2", "EleutherAI/pythia-70m", "englsh"])
def test_one_line_says_what_to_write(command: str, name: str, capsys: pytest.CaptureFixture[str]) -> None:
    Path("data").mkdir()
    Path("data/a.txt").write_text("a\n")
    option = {"train": "--init", "blocks": "--tokenizer"}.get(command, "--model")
    assert run([*COMMANDS[command], option, name]) == 1
    said = f"or the model of that name on the Hugging Face hub write hf:{name}"
    ours = "did you mean english, the Pushdown LM of English? If not, f"
    said = f"{name} is not a folder; " + (ours if name == "englsh" else "f") + said
    assert capsys.readouterr() == ("", f"pdtools: {said}\n")
    assert not Path("out").exists()


@pytest.mark.parametrize(
    ("name", "meant"),
    [
        ("English", "english"),
        ("ENGLISH_BASE", "english-base"),
        ("english_base", "english-base"),
        ("enlgish-base", "english-base"),
        ("demobase", "demo-base"),
        ("my-model", None),
        ("runs", None),
    ],
)
def test_what_was_meant(name: str, meant: str | None, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["surprisal", "--text", "a", "--model", name]) == 1
    said = capsys.readouterr().err
    assert said.count("\n") == 1
    assert (f"; did you mean {meant}, " in said) == (meant is not None)
    assert f"write hf:{name}" in said


def test_a_misspelled_path_is_no_name(capsys: pytest.CaptureFixture[str]) -> None:
    Path("runs").mkdir()
    for model in ("runs/pushdwn", "/no/such/folder"):
        assert run(["surprisal", "--text", "a", "--model", model, "--device", "cpu"]) == 1
        error = capsys.readouterr().err
        assert "no such folder" in error
        assert "hf:" not in error


@pytest.mark.parametrize("name", sorted(BUNDLED))
def test_a_folder_of_a_bundled_name_is_taken_and_said(name: str) -> None:
    assert Path(find_model(name).folder, "config.json").is_file()
    assert find_model(name).note == f"{name}: {BUNDLED[name]}"
    Path(name).mkdir()
    what = BUNDLED[name].split(";")[0]
    note = f"{name}: the one in this folder, not {what} that comes with pdtools"
    assert find_model(Path(name)) == find_model(name) == (name, note)
    assert find_model(f"./{name}") == (f"./{name}", None)
