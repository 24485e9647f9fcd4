"""The study of the context-free tasks, end to end on a few strings, and its tables."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
from shell import script
from test_studies import REPOSITORY, study

from pdtools.training import read_recipe


def commands(tmp_path: Path, **settings: str) -> list[str]:
    """What the study runs, by a pdtools that only writes down what it is asked for."""
    fake = tmp_path / "bin"
    fake.mkdir()
    (fake / "pdtools").write_text(f'#!/bin/sh\necho "$@" >>"{tmp_path}/asked"\n')
    (fake / "pdtools").chmod(0o755)
    path = f"{fake}:{Path(sys.executable).parent}:{os.environ['PATH']}"
    script = REPOSITORY / "studies" / "dcf" / "study.sh"
    environment = {**os.environ, "PATH": path, "JOBS": "1", **settings}
    done = subprocess.run(
        ["sh", script, "out"], cwd=tmp_path, env=environment, capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr
    return (tmp_path / "asked").read_text().splitlines()


SMALL = {
    "SEEDS": "1",
    "JOBS": "1",
    "STEPS_RS": "2",
    "STEPS_SM": "2",
    "STEPS_ARITHMETIC": "2",
    "BATCH": "4",
    "BATCH_ARITHMETIC": "4",
    "LENGTHS": "1-5",
    "TEST_LENGTHS": "6-7",
    "NUMBER": "2",
    "NUMBER_ARITHMETIC": "3",
}


def test_the_study(tmp_path: Path) -> None:
    out = tmp_path / "a study"
    models = "stack-rnn stack-rnn-released stack-sincos-released"
    settings = {**SMALL, "TASKS": "se", "OBJECTIVES": "causal masked", "MODELS": models}
    done = study("dcf", tmp_path, out.name, **settings)
    assert done.returncode == 0, done.stderr
    made = {path.name for path in (out / "results").iterdir() if path.is_dir()}
    assert made == {
        "se-masked-stack-rnn-1",
        "se-masked-stack-rnn-released-1",
        "se-masked-stack-sincos-released-1",
        "se-causal-stack-sincos-released-1",
    }
    tables = (out / "tables.md").read_text()
    assert tables.strip() in done.stdout
    assert {path.name for path in out.glob("*.svg")} == {"se-by-length.svg"}
    results = json.loads((out / "results.json").read_text())
    assert results["summary"]["se/causal/stack-sincos-released"]["low"] is None
    config = json.loads((out / "runs/se-causal-stack-sincos-released-1/best/config.json").read_text())
    wanted = {"as_released": True, "positions": "sincos", "stack_layers": "all", "input_dropout": 0.1}
    assert config["config"].items() >= wanted.items()
    assert config["shards"] == {"task": "se", "as_released": True, "lengths": [1, 5]}
    released = json.loads((out / "results/se-causal-stack-sincos-released-1/results.json").read_text())
    assert released["settings"]["dropout"]
    of = results["summary"]["se/causal/stack-sincos-released"]  # the released average is without the first
    assert of["seeds"] == [100 * released["scores"]["by_length"]["7"]["accuracy"]]
    assert of["score"] == "accuracy_as_released"
    config = json.loads((out / "runs/se-masked-stack-rnn-1/best/config.json").read_text())
    assert (config["model"], config["config"]["stack"]) == ("rnn", "superposition")
    assert config["shards"]["lengths"] == [3, 5]
    config = json.loads((out / "runs/se-masked-stack-rnn-released-1/best/config.json").read_text())
    assert config["config"].items() >= {"controller": "rnn-relu", "stack_push": "linear"}.items()
    assert config["shards"] == {"task": "se", "as_released": True, "lengths": [1, 5]}

    # What is there is left alone.
    kept = out / "results" / "se-masked-stack-rnn-1" / "results.json"
    before = kept.stat().st_mtime_ns
    again = study("dcf", tmp_path, out.name, **settings)
    assert again.returncode == 0, again.stderr
    assert kept.stat().st_mtime_ns == before
    assert (out / "tables.md").read_text() == tables


@pytest.fixture(scope="module")
def report() -> ModuleType:
    return script(REPOSITORY / "studies" / "dcf" / "report.py")


def scores(accuracy: float) -> dict[str, Any]:
    by_length = {str(length): {"accuracy": accuracy} for length in (41, 42)}
    averages = {"accuracy_beyond_training": accuracy, "accuracy_as_released": accuracy / 2}
    return {**averages, "by_length": by_length}


def test_all_rows(tmp_path: Path) -> None:
    listed = study("dcf", tmp_path, "out", LIST="1", SEEDS="1 2").stdout.splitlines()
    rows = {tuple(line.split()) for line in listed}
    assert len(rows) == len(listed) == 2 * 4 * (2 * 10 + 2 + 2 + 2 * 2)  # encodings, RNNs, as released
    assert ("ma", "causal", "vanilla-alibi", "2") in rows
    assert ("ma", "masked", "stack-rnn", "1") in rows
    assert ("ma", "causal", "stack-none-released", "1") in rows
    assert ("sm", "masked", "stack-none-released", "1") in rows
    assert ("sm", "masked", "rnn-released", "1") in rows
    assert ("sm", "causal", "rnn-released", "1") not in rows
    assert not (tmp_path / "out").exists()


def test_cells(report: ModuleType) -> None:
    found: Any = {("rs", "masked", "stack-none"): {"1": scores(0.5), "2": scores(0.7)}}
    # Student's interval of 50 and 70: 60 ± 12.706 · 14.142 / √2, cut at 0 and 100.
    assert report.cell(found, "rs", "masked", "stack-none") == "**60.0** ± 14.1 [0.0, 100.0]"
    three = [scores(value) for value in (0.5, 0.6, 0.7)]
    of = report.summary(three)
    assert (of["low"], of["high"]) == pytest.approx((60 - 4.303 * 10 / 3**0.5, 60 + 4.303 * 10 / 3**0.5))
    found = {("rs", "masked", "stack-none"): {"1": scores(0.5)}}
    assert report.cell(found, "rs", "masked", "stack-none") == "**50.0**"
    assert report.cell(found, "sm", "masked", "stack-none") == "-"
    found = {("rs", "causal", "stack-none-released"): {"1": scores(0.5)}}
    assert report.cell(found, "rs", "causal", "stack-none-released") == "**25.0**"
    found = {
        ("rs", "masked", "rnn"): {"1": scores(0.5)},
        ("rs", "masked", "stack-rnn"): {"1": scores(1), "2": scores(1)},
    }
    assert report.cell(found, "rs", "masked", "rnn") == "**50.0** (1)"  # one seed is missing
    assert report.cell(found, "rs", "masked", "stack-rnn") == "**100.0** ± 0.0 [100.0, 100.0]"
    nothing_longer = {"rs": {"accuracy_beyond_training": None}}
    assert report.cell({("rs", "masked", "rnn"): nothing_longer}, "rs", "masked", "rnn") == "-"


def test_the_recipe_is_the_paper_s() -> None:
    for name in ("dcf", "dcf-rnn"):
        recipe = read_recipe(name)
        train = recipe.train
        assert (train.optimizer, train.betas, train.eps) == ("adamw", (0.9, 0.999), 1e-8)
        assert (train.weight_decay, train.warmup_steps, train.schedule) == (0.0, 0, "constant")
        assert (train.learning_rate, train.clip, train.batch_sentences, train.steps) == (
            1e-4,
            1.0,
            32,
            100_000,
        )
    assert recipe.options == {
        "controller": "rnn",
        "hidden_size": 256,
        "stack": "superposition",
        "stack_vector": 8,
        "stack_depth": 100,
        "objective": "masked",
        "initialization": "fan-in",
    }
    assert read_recipe("dcf").options == {
        "layers": 5,
        "d_model": 64,
        "heads": 8,
        "d_ff": 256,
        "positions": "none",
        "objective": "masked",
        "stack_layers": "all",
        "norm": "post",
        "activation": "relu",
        "attention_bias": False,
        "tie_embeddings": False,
        "output_bias": True,
        "scale_embeddings": True,
        "initialization": "fan-in",
        "input_dropout": 0.0,
        "attention_dropout": 0.0,
        "output_dropout": 0.1,
    }


def test_the_paper_s_budget(tmp_path: Path) -> None:
    asked = commands(tmp_path, FULL="1", SEEDS="5", TASKS="sm ma", OBJECTIVES="causal", MODELS="stack-alibi")
    trained = [line for line in asked if line.startswith("train ")]
    for line, steps, strings in zip(trained, (100_000, 1_000_000), (32, 128), strict=True):
        for words in (
            "--lengths 1-40 ",
            "--config dcf ",
            "--set config.positions=alibi ",
            "--set config.stack_layers=all ",
            "--set config.objective=causal ",
            f"--set train.steps={steps} ",
            f"--set train.batch_sentences={strings} ",
            "--set train.learning_rate=1e-4 ",
            "--set train.schedule=constant ",
            "--seed 5 ",
        ):
            assert words in line
    generated = [line for line in asked if line.startswith("generate ")]
    assert [line.split()[2] for line in generated] == ["sm", "ma"]
    assert all("--lengths 41-100 --number 512 --seed 100" in line for line in generated)
    tested = [line for line in asked if line.startswith("eval-formal task ")]
    assert [line.split()[4] for line in tested] == [
        f"out/runs/{task}-causal-stack-alibi-5/last" for task in ("sm", "ma")
    ]
    runs = study("dcf", tmp_path, "none", FULL="1", LIST="1").stdout.splitlines()
    assert len(runs) == 560


def test_the_reduced_budget(tmp_path: Path) -> None:
    """Also of the RNNs as released: other units and pushes, the released strings, no dropout to leave on."""
    asked = commands(tmp_path, SEEDS="2", TASKS="rs se", MODELS="rnn-released stack-none-released stack-rnn")
    trained = [line for line in asked if line.startswith("train ")]
    assert [line.split()[-1] for line in trained] == [
        f"out/runs/{run}-2"
        for run in (
            "rs-masked-rnn-released",
            "se-masked-rnn-released",
            "rs-masked-stack-none-released",
            "rs-causal-stack-none-released",
            "se-masked-stack-none-released",
            "se-causal-stack-none-released",
            "rs-masked-stack-rnn",
            "se-masked-stack-rnn",
        )
    ]
    for line in trained:
        for words in (
            "--set train.learning_rate=1e-3 ",
            "--set train.schedule=linear ",
            "--set train.min_learning_rate_ratio=0.1 ",
        ):
            assert words in line
        assert f"--set train.steps={4000 if '--task rs' in line else 1000} " in line
        assert f"--set train.batch_sentences={32 if '--task rs' in line else 128} " in line
        is_released = "-released-2" in line
        assert ("--as-released" in line) == is_released
        assert ("--lengths 1-40" in line) == (is_released or "--task rs" in line)
        assert ("config.controller=rnn-relu" in line) == ("-rnn-released-2" in line)
        assert ("config.stack_push=linear" in line) == ("-rnn-released-2" in line)
        assert ("config.stack=none" in line) == ("masked-rnn-" in line)
        assert ("config.as_released=true" in line) == ("stack-none-released" in line)
    tested = [line for line in asked if line.startswith("eval-formal task ")]
    assert len(tested) == len(trained)
    for line in tested:
        assert ("--dropout" in line) == ("stack-none-released" in line)
