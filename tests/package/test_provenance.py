"""What a result says about its inputs."""

from __future__ import annotations

import copy
import hashlib
import json
import shutil
from pathlib import Path
from typing import Any

import pytest

from pdtools.cli.main import run
from pdtools.errors import PdtoolsError
from pdtools.files.manifest import growing
from pdtools.provenance import check_fingerprint, fingerprint, provenance


def sha256(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()


def test_inputs_are_identified(tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_text("one")
    (tmp_path / "folder" / "deep").mkdir(parents=True)
    (tmp_path / "folder" / "deep" / "b.txt").write_text("two")
    (tmp_path / "run" / "best").mkdir(parents=True)
    (tmp_path / "run" / "best" / "config.json").write_text("{}")
    inputs = {"file": tmp_path / "a.txt", "folder": tmp_path / "folder", "model": tmp_path / "run", "in": "-"}
    found = provenance(inputs)["inputs"]
    assert found["file"] == {"path": str(tmp_path / "a.txt"), "sha256": sha256("one")}
    assert found["folder"]["files"] == 1
    assert found["folder"]["sha256"] == sha256(f"{sha256('two')}  deep/b.txt\n")
    assert found["model"] == {"path": str(tmp_path / "run"), "sha256": {"config.json": sha256("{}")}}
    assert found["in"] == {"path": "-"}


def test_weights_in_several_files_identify_a_model(tmp_path: Path) -> None:
    for name in ("config.json", "model-00001-of-00002.safetensors", "model-00002-of-00002.safetensors"):
        (tmp_path / name).write_text("one")
    before = provenance({"model": tmp_path})["inputs"]["model"]["sha256"]
    assert len(before) == 3
    (tmp_path / "model-00002-of-00002.safetensors").write_text("two")
    assert provenance({"model": tmp_path})["inputs"]["model"]["sha256"] != before


RECIPE: dict[str, Any] = {
    "model": {"layers": 2},
    "train": {"seed": 3, "log_every": 1, "sample_parses": 2, "keep_at": [4], "lr": 0.1}
    # They decide which weights are the best ones, or the last.
    | {"steps": 9, "eval_every": 3, "patience": 2},
}


@pytest.mark.parametrize("name", ["best", "last", "step-12", "main", "exported"])
def test_what_a_training_is_told_by(name: str, tmp_path: Path) -> None:
    """By its recipe and data, except for the seed and what changes no weight; wherever the checkpoint is."""

    def training(recipe: Any, data: Any) -> Any:
        folder = tmp_path / "run" / name
        shutil.rmtree(tmp_path / "run", ignore_errors=True)
        folder.mkdir(parents=True)
        (folder / "config.json").write_text('{"step": 7, "words": 1.5}')
        place = folder / "training.json" if name == "exported" else tmp_path / "run" / "run.json"
        place.write_text(json.dumps({"recipe": recipe, "data": data}))
        (tmp_path / "run" / "pdtools.json").write_text(json.dumps(growing("training run")))
        found = provenance({"model": folder})["inputs"]["model"]
        assert found["step"] == 7
        assert "words" not in found  # which are a whole number
        return found.get("training")

    plain = training(RECIPE, {"train": "a"})
    if name == "main":  # no checkpoint of a run is called so
        assert plain is None
        return
    assert plain["seed"] == 3
    for key in RECIPE["train"]:
        other = copy.deepcopy(RECIPE)
        other["train"][key] = 5
        found = training(other, {"train": "a"})
        assert found["seed"] == other["train"]["seed"]
        assert (found["sha256"] == plain["sha256"]) == (
            key in ("seed", "log_every", "sample_parses", "keep_at")
        )
    assert training({**RECIPE, "model": {"layers": 3}}, {"train": "a"})["sha256"] != plain["sha256"]
    assert training(RECIPE, {"train": "b"})["sha256"] != plain["sha256"]
    assert training({"model": {}}, {}) is None


def test_processes_refuse_another_model_than_the_command_was_started_with(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """The same model in another place is the same; without other processes nothing is compared."""
    for place in ("a", "elsewhere/b", "c"):
        (tmp_path / place).mkdir(parents=True)
        (tmp_path / place / "config.json").write_text("{}")
    (tmp_path / "c" / "model.safetensors").write_text("x")
    first, same, other = (tmp_path / place for place in ("a", "elsewhere/b", "c"))
    assert fingerprint(first) == fingerprint(same) != fingerprint(other)
    assert fingerprint(first, other) == fingerprint(same, other) != fingerprint(first, same)
    check_fingerprint(same, fingerprint(first))
    check_fingerprint(same, fingerprint(first, other), other)
    for wanted, more in ((fingerprint(first), ()), (fingerprint(first, other), (same,))):
        with pytest.raises(PdtoolsError, match="is not the model that the command was started with"):
            check_fingerprint(other, wanted, *more)
    monkeypatch.setattr("pdtools.provenance.fingerprint", lambda path: "0" * 64)
    command = ["surprisal", "--text", "The dog barks.", "--model", "demo-base", "--device", "cpu", "-q"]
    assert run(command) == 0
    capsys.readouterr()
    assert run([*command, "--workers", "2"]) == 1
    assert "is not the model that the command was started with" in capsys.readouterr().err
