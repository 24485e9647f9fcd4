"""``pdtools export``: the folder that is given to others, and its card."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file
from search_oracle import save_checkpoints

from pdtools.cli.main import run
from pdtools.errors import PdtoolsError
from pdtools.models import load_checkpoint
from pdtools.models.export import export_checkpoint

RUN = {
    "recipe": {"model": "pushdown"},
    "provenance": {
        "command": ["pdtools", "train", "shards"],
        "versions": {"pdtools": "0.0.1", "torch": "2.6"},
    },
}


@pytest.fixture(scope="module")
def folders(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    return save_checkpoints(tmp_path_factory.mktemp("run"))[0]


@pytest.fixture
def model(folders: dict[str, Path]) -> Path:
    """A checkpoint in a run folder."""
    (folders["pushdown"].parent / "run.json").write_text(json.dumps(RUN))
    return folders["pushdown"]


def scores(text: str, model: Path, capsys: pytest.CaptureFixture[str]) -> list[float]:
    capsys.readouterr()
    assert run(["surprisal", "--text", text, "--model", str(model), "--device", "cpu", "--quiet"]) == 0
    return [float(line.split("\t")[-1]) for line in capsys.readouterr().out.splitlines()[1:]]


def test_what_is_exported_scores_the_same_and_has_its_training(
    model: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out = tmp_path / "out"
    assert run(["export", str(model), "-o", str(out), "--json"]) == 0
    printed = capsys.readouterr()
    report = json.loads(printed.out)
    assert report["bytes"] == sum(path.stat().st_size for path in out.iterdir())
    assert printed.err == f"{out}: {report['bytes'] / 10**6:.2f} MB\n"
    assert scores("a b c", out, capsys) == scores("a b c", model, capsys)
    assert json.loads((out / "training.json").read_text()) == RUN
    # Exported again, from what is no run any more, it still has it.
    assert run(["export", str(out), "-o", str(tmp_path / "again"), "--quiet"]) == 0
    assert json.loads((tmp_path / "again" / "training.json").read_text()) == RUN


def test_types_of_weights(model: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    command = ["export", str(model), "--quiet", "-o"]
    assert run([*command, str(tmp_path / "half"), "--dtype", "float16"]) == 0
    halves = load_file(tmp_path / "half" / "model.safetensors")
    whole = load_checkpoint(model).model.state_dict()
    assert {values.dtype for values in halves.values()} == {torch.float16}
    assert all(torch.equal(values, whole[name].half()) for name, values in halves.items())
    assert scores("a b c", tmp_path / "half", capsys) == pytest.approx(
        scores("a b c", model, capsys), abs=0.1
    )
    loaded = load_checkpoint(model)
    with torch.no_grad():
        loaded.model.embedding.weight[3, 0] = 1e6
    with pytest.raises(PdtoolsError, match="too large for float16: try bfloat16"):
        export_checkpoint(loaded, tmp_path / "large", card="", dtype="float16")
    assert not (tmp_path / "large").exists()


def test_the_card_says_what_is_known(model: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    pairs, parsed = tmp_path / "pairs.tsv", tmp_path / "parsed.trees"
    pairs.write_text("sentence_good\tsentence_bad\na b c\tc b a\na\tb\n")
    parsed.write_text("(S (X (A a) (B b)) (C c))\n")
    blimp, parse = tmp_path / "blimp", tmp_path / "parse"
    assert run(["eval-blimp", str(pairs), "--model", str(model), "-o", str(blimp), "--quiet"]) == 0
    assert run(["eval-parse", str(parsed), str(parsed), "-o", str(parse), "--quiet"]) == 0
    out = tmp_path / "named"
    command = ["export", str(model), "-o", str(out), "--about", "It knows three words.", "--quiet"]
    assert run([*command, "--results", str(blimp), "--results", str(parse)]) == 0
    card = (out / "README.md").read_text()
    assert json.loads((blimp / "results.json").read_text())["scores"]["overall"] == 0.5
    assert card.startswith('---\nlibrary_name: "pdtools"\n')
    for said in (
        "# named\n",
        "It knows three words.",
        "| kind | `pushdown` |",
        "6 tokens (word)",
        "mean of paradigms (%) | 50.00 | `",
        "| F1 of parses (%) | 100.00 |",
        "    pdtools train shards\n",
        "Versions: pdtools 0.0.1, torch 2.6.",
        "--model named",
        'load("named")',
        "Logits come from a beam",
    ):
        assert said in card
    capsys.readouterr()
    assert run(["export", str(model), "-o", str(out)]) == 1  # not overwritten
    assert "--overwrite" in capsys.readouterr().err
    assert run([*command, "--overwrite", "--results", str(model)]) == 1
    assert str(model) in capsys.readouterr().err
    assert (out / "README.md").read_text() == card
