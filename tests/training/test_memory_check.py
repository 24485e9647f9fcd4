"""Models that are too large are refused before anything of them is in memory."""

from __future__ import annotations

import sys
import time
from pathlib import Path
from typing import Any

import pytest
import torch

from pdtools.cli.main import run
from pdtools.errors import PdtoolsError
from pdtools.files import Rejects
from pdtools.models import MODELS, build_model, count_parameters, empty_model, make_config
from pdtools.shards import ShardSettings, TokenizerSettings, shards_from_files
from pdtools.training import Recipe, TrainConfig

OPENING = sys.modules["pdtools.training.train"]  # the package has the function of that name
VOCABULARY = {"vocab_size": 11, "pad_id": 0, "root_id": 1, "eos_id": 2}
SMALL = {"layers": 3, "d_model": 8, "heads": 2, "d_ff": 16}
SHAPES: list[tuple[str, dict[str, Any]]] = [
    ("transformer", SMALL),
    ("transformer", {**SMALL, "tie_embeddings": False, "output_bias": True, "positions": "learned"}),
    ("transformer", {**SMALL, "stack_layers": "last 2", "objective": "masked", "output_transform": True}),
    ("pushdown", SMALL),
    ("pushdown", {**SMALL, "pushdown_layers": "last 1", "depths": 300, "stack_distances": True}),
    ("plm", {**SMALL, "n_labels": 3}),
    ("plm-mask", {**SMALL, "n_labels": 3, "positions": "learned"}),
    ("tg", {**SMALL, "n_labels": 3, "output_bias": True}),
    ("dtg", SMALL),
    ("gilt", SMALL),
    ("gilt", {**SMALL, "scorer_width": 4, "positions": "none"}),
    ("sclm", {**SMALL, "runs": ["", "(S"]}),
    ("rnng", {"n_labels": 3, "d_model": 8}),
    ("rnng-in-order", {"n_labels": 3, "d_model": 8, "composition": "attention"}),
    ("rnn", {}),
    ("rnn", {"stack": "superposition", "controller": "rnn", "embedding_size": 5}),
    ("rnn", {"stack": "stratification", "first_input": "root"}),
]


@pytest.mark.parametrize(("name", "shape"), SHAPES)
def test_what_is_counted_is_what_is_made(name: str, shape: dict[str, Any]) -> None:
    config = make_config(name, {**VOCABULARY, **shape})
    state = torch.get_rng_state()
    empty = empty_model(name, config)
    assert torch.equal(torch.get_rng_state(), state)
    assert all(parameter.is_meta for parameter in empty.parameters())
    assert count_parameters(empty) == count_parameters(build_model(name, config))


def test_every_kind_of_model_is_counted() -> None:
    assert {name for name, _ in SHAPES} == set(MODELS)


@pytest.mark.parametrize(
    ("optimizer", "distribution", "device", "bytes_each"),
    [
        ("adamw", "ddp", "cpu", 16),
        ("sgd", "ddp", "cpu", 8),
        ("muon", "ddp", "cpu", 16),
        ("adamw", "fsdp", "cuda", 4),
        ("adamw", "ddp", "cuda", 16),
    ],
)
def test_where_the_limit_is(
    optimizer: Any, distribution: Any, device: str, bytes_each: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    config = make_config("transformer", {**VOCABULARY, **SMALL})
    recipe = Recipe(model="transformer", train=TrainConfig(optimizer=optimizer))
    needed = bytes_each * count_parameters(build_model("transformer", config))
    monkeypatch.setattr(OPENING, "memory_of", lambda device: needed)
    OPENING.check_memory(recipe, config, device, distribution)
    monkeypatch.setattr(OPENING, "memory_of", lambda device: needed - 1)
    with pytest.raises(PdtoolsError, match=r"parameters take .* GiB"):
        OPENING.check_memory(recipe, config, device, distribution)


@pytest.fixture(scope="module")
def shards(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("data")
    (folder / "x.trees").write_text("(S (NN a) (NN b))\n")
    making = TokenizerSettings(min_count=1)
    shards_from_files([str(folder / "x.trees")], making, ShardSettings(), folder / "shards", Rejects())
    return folder / "shards"


@pytest.mark.parametrize(
    ("model", "setting", "says"),
    [
        ("pushdown", "config.layers=1000000000", "layers must be at most 1,000, not 1,000,000,000"),
        ("transformer", "config.d_model=1000000", "parameters take"),
        ("transformer", f"config.d_model={2**200}", "impossible size"),
        ("pushdown", "config.depths=1000000000000", "parameters take"),
        ("rnn", "config.stack_symbols=1000000", "parameters take"),
    ],
)
def test_absurd_sizes(
    model: str, setting: str, says: str, shards: Path, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    out = tmp_path / "run"
    start = time.process_time()
    command = ["train", str(shards), "--model", model, "--set", setting, "--device", "cpu", "-o", str(out)]
    assert run(command) == 1
    err = capfd.readouterr().err
    assert says in err
    assert err.count("\n") == 1, err
    assert not out.exists()
    assert time.process_time() - start < 20
