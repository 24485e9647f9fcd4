"""What a result says about its inputs."""

from __future__ import annotations

import hashlib
from pathlib import Path

from pdtools.provenance import provenance


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


def test_a_changed_file_changes_its_folder(tmp_path: Path) -> None:
    (tmp_path / "a").write_text("one")
    before = provenance({"data": tmp_path})["inputs"]["data"]["sha256"]
    (tmp_path / "a").write_text("two")
    assert provenance({"data": tmp_path})["inputs"]["data"]["sha256"] != before
