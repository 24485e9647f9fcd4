"""Looking inside models with stack attention: numbers, pictures, and the stack replayed."""

from __future__ import annotations

import itertools
import json
import random
import re
from pathlib import Path
from typing import Any
from xml.sax.saxutils import unescape

import pytest
import torch

from pdtools.cli.main import run
from pdtools.inspection.stack_attention import Inspection, LayerStacks, inspect_stacks, replay
from pdtools.inspection.tracing import trace
from pdtools.models import load_checkpoint
from pdtools.report.stacks import print_stacks

SMALL = [
    argument
    for setting in (
        "config.layers=2",
        "config.d_model=16",
        "config.heads=2",
        "config.d_ff=32",
        "train.steps=2",
        "train.eval_every=2",
        "train.batch_sentences=4",
    )
    for argument in ("--set", setting)
] + ["--device", "cpu", "--threads", "1", "--quiet"]


def train_task(folder: Path, *settings: str) -> Path:
    """A model of the task RS, hardly trained."""
    given = [argument for setting in settings for argument in ("--set", setting)]
    assert run(["train", "--task", "rs", "--config", "dcf", "-o", str(folder), *SMALL, *given]) == 0
    return folder


def inspected(model: Path, text: str, capsys: pytest.CaptureFixture[str]) -> dict[str, Any]:
    capsys.readouterr()
    assert run(["inspect", text, "--model", str(model), "--json", "--threads", "1"]) == 0
    found: dict[str, Any] = json.loads(capsys.readouterr().out)
    return found


@pytest.mark.parametrize(
    "settings",
    [
        (),
        ("config.objective=causal",),
        ("config.as_released=true",),
        ("config.objective=causal", "config.as_released=true"),
    ],
)
def test_numbers_of_a_task(
    settings: tuple[str, ...], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    model = train_task(tmp_path / "run", *settings)
    found = inspected(model, "a b b a", capsys)
    if len(settings) == 2:  # every token is read one position later
        assert found["tokens"][:7] == ["<root>", "<root>", "a", "b", "b", "a", "<out>"]
        assert found["predicted"][7:] == found["tokens"][7:]
        assert len(found["tokens"]) == 10
    elif "config.objective=causal" in settings:
        assert found["tokens"][:6] == ["<root>", "a", "b", "b", "a", "<out>"]
        assert found["predicted"][6:] == found["tokens"][6:]
        assert len(found["tokens"]) == 10
    else:
        assert found["tokens"][-8:] == ["a", "b", "b", "a", *["<out>"] * 4]
        assert len(found["tokens"]) == (8 if settings else 9)  # as released, ROOT is not read
    traced = json.loads(json.dumps(trace(str(model), "a b b a").to_json()))
    assert (traced["tokens"], traced["stacks"]["layers"]) == (found["tokens"], found["layers"])
    assert {len(traced[name]) for name in ("word", "starts", "ends", "surprisals")} == {len(found["tokens"])}
    said = [word for word in found["predicted"] if word is not None]
    assert len(said) == (3 if len(settings) == 2 else 4)
    assert set(said) <= {"a", "b"}
    assert [layer["layer"] for layer in found["layers"]] == [1, 2]
    for layer in found["layers"]:
        attention, actions = torch.tensor(layer["attention"]), torch.tensor(layer["actions"])
        torch.testing.assert_close(attention.sum(1), torch.ones(len(attention)))
        torch.testing.assert_close(actions.sum(1), torch.ones(len(actions)))
        push = actions[1:, 0]
        torch.testing.assert_close(attention.diagonal()[1:], push)
        assert layer["replayed"] == replay(actions.argmax(1).tolist())


def test_replaying_is_a_stack() -> None:
    push, pop, no_op = range(3)
    assert replay([push, push, push, no_op, pop, pop, pop, push]) == [
        [], [1], [1, 2], [1, 2], [1], [], [], [7],
    ]  # fmt: skip
    rng = random.Random(0)
    actions = [rng.randrange(3) for _ in range(50)]
    heights = [len(stack) for stack in replay(actions)]
    assert all(abs(one - other) <= 1 for one, other in itertools.pairwise(heights))


def test_pictures_and_a_terminal(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    pytest.importorskip("vl_convert", reason="vl-convert-python is not installed")
    model = train_task(tmp_path / "run")
    capsys.readouterr()
    assert run(["inspect", "a b b a", "--model", str(model), "--threads", "1"]) == 0
    out = capsys.readouterr().out
    assert "layer 1" in out
    assert out.count("<out>") >= 8
    for name in ("maps.svg", "maps.png", "maps.pdf"):
        given = ["inspect", "a b b a", "--model", str(model), "-o", str(tmp_path / name), "--threads", "1"]
        assert run(given) == 0
        assert (tmp_path / name).stat().st_size > 1000
        assert run(given) == 1  # it exists
    assert capsys.readouterr().out == ""
    drawn = written(tmp_path / "maps.svg")
    assert {"layer 1", "layer 2", "push", "pop", "no-op", "<out>", "replayed stack"} <= set(drawn)


def written(svg: Path) -> list[str]:
    """The texts in a figure."""
    return [unescape(text) for text in re.findall(r"<text[^>]*>([^<]*)</text>", svg.read_text())]


STACKS = LayerStacks(
    layer=1,
    actions=[[1 / 3, 1 / 3, 1 / 3], [1.0, 0.0, 0.0], [0.6, 0.4, 0.0], [0.0, 0.0, 1.0], [0.0, 0.9, 0.1]],
    attention=torch.eye(5).tolist(),
    replayed=[[], [1], [1, 2], [1, 2], [1]],
)
LOOKED_AT = Inspection(
    tokens=["<root>", "an", "elephantine", "c", "d"], predicted=[None] * 4 + ["e"], layers=[STACKS]
)


def test_lines_of_a_terminal(capsys: pytest.CaptureFixture[str]) -> None:
    print_stacks(LOOKED_AT)
    lines = capsys.readouterr().out.splitlines()
    assert lines[0] == "layer 1: α │ push, pop, no-op │ the likeliest, replayed"
    assert lines[1].rstrip() == "  0 <root>        │██        │"
    assert lines[2].rstrip() == "  1 an            │  ██      │██    │ push 100%  an"
    assert lines[3].rstrip() == "  2 elephantine   │    ██    │▓▓▒▒  │ push  60%  an elephantine"
    assert lines[4].rstrip() == "  3 c             │      ██  │    ██│ -    100%  an elephantine"
    assert lines[5].rstrip() == "  4 d           e │        ██│  ██░░│ pop   90%  an"


def test_what_cannot_be_looked_at(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    model = train_task(tmp_path / "run", "config.stack_layers=none")
    for text, message in (("a b", "no stack attention"), ("a c", "'c' is no symbol of the task rs")):
        capsys.readouterr()
        assert run(["inspect", text, "--model", str(model)]) == 1
        assert message in capsys.readouterr().err
    assert run(["inspect", "a b", "--model", str(model), "-o", "maps.txt"]) == 2
    assert run(["train", "--task", "sm", "--config", "dcf", "-o", str(tmp_path / "sm"), *SMALL]) == 0
    capsys.readouterr()
    assert run(["inspect", "POP a", "--model", str(tmp_path / "sm")]) == 1
    assert "no x of the task sm: it is no stack with operations behind it" in capsys.readouterr().err


def test_a_model_of_text(tmp_path: Path) -> None:
    text = tmp_path / "text.txt"
    text.write_text("the cat sees the dog .\nthe dog sees the cat .\n")
    assert run(["blocks", str(text), "-o", str(tmp_path / "shards"), "--min-count", "1", "--quiet"]) == 0
    options = ["--model", "transformer", "--set", "config.stack_layers=last 1", "-o", str(tmp_path / "run")]
    assert run(["train", str(tmp_path / "shards"), *options, *SMALL]) == 0
    found = inspect_stacks(load_checkpoint(tmp_path / "run"), "the cat sees")
    assert found.tokens == ["<root>", "the", "cat", "sees", "<eos>"]
    assert found.predicted == [None] * 5
    assert [layer.layer for layer in found.layers] == [2]
