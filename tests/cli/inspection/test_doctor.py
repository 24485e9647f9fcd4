"""doctor: what it finds, and what it says is slower or missing."""

from __future__ import annotations

import importlib.metadata
import json
from pathlib import Path
from typing import Any

import pytest
import torch

import pdtools
from pdtools.cli import doctor
from pdtools.cli.main import run
from pdtools.errors import how_to_install


def findings(capsys: pytest.CaptureFixture[str]) -> dict[str, Any]:
    assert run(["doctor", "--json"]) == 0
    return {each["what"]: each for each in json.loads(capsys.readouterr().out)["findings"]}


def test_what_is_there(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "cache").mkdir(mode=0o700)
    (tmp_path / "cache" / "a.so").write_bytes(bytes(3 << 20))
    monkeypatch.setenv("PDTOOLS_CACHE", str(tmp_path / "cache"))
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 2)
    monkeypatch.setattr(torch.cuda, "get_device_name", lambda i: f"card {i}")
    found = findings(capsys)
    assert found["pdtools"]["found"].startswith(pdtools.__version__)
    assert found["torch"]["found"] == torch.__version__
    assert found["threads"]["found"].startswith(f"{torch.get_num_threads()} of ")
    assert found["GPU"]["found"] == "card 0, card 1"
    assert found["cache"]["found"].startswith(f"{tmp_path / 'cache'} (")
    assert float(found["cache"]["found"].partition("(")[2].split()[0]) >= 3
    assert run(["doctor"]) == 0
    printed = capsys.readouterr().out
    assert all(what in printed for what in found)
    assert "card 0, card 1" in printed


def test_what_is_missing(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    def version(package: str) -> str:
        raise importlib.metadata.PackageNotFoundError(package)

    monkeypatch.setenv("PDTOOLS_CACHE", "off")
    monkeypatch.setattr(importlib.metadata, "version", version)
    monkeypatch.setattr(doctor.shutil, "which", lambda name: None)
    monkeypatch.setattr("pdtools.models.kernels.decoding.library_for", lambda dtype: None)
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 0)
    found = findings(capsys)
    missing = {what for what, each in found.items() if each["found"] is None}
    optional = {"transformers", "benepar", "stanza", "vl-convert-python", "wordfreq", "kenlm", "spacy"}
    assert missing == {
        *optional,
        "dask",
        "starlette",
        "uvicorn",
        "GPU",
        "C compiler",
        "functions in C",
        "cache",
    }
    assert all(found[what]["without"] for what in missing)
    assert found["dask"]["without"] == f"--scheduler: {how_to_install('cluster')}"
    assert run(["doctor"]) == 0
    assert "none: everything runs on the CPU" in capsys.readouterr().out


def test_extras_are_those_that_can_be_installed() -> None:
    declared = importlib.metadata.metadata("pushdown-tools").get_all("Provides-Extra")
    assert {extra for extra, _ in doctor._OPTIONAL.values()} <= set(declared or ())
