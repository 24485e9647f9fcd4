"""``pdtools config``: bundled recipes, and every key with its meaning."""

from __future__ import annotations

import dataclasses
import json
from pathlib import Path

import pytest

from pdtools.cli.config import all_settings, meanings
from pdtools.cli.main import run
from pdtools.models import MODELS
from pdtools.training.recipe import RECIPES, TrainConfig, read_recipe


@pytest.mark.parametrize("config_class", [*(kind.config_class for kind in MODELS.values()), TrainConfig])
def test_every_field_has_a_meaning_and_every_meaning_a_field(config_class: type) -> None:
    assert set(meanings(config_class)) == {field.name for field in dataclasses.fields(config_class)}
    assert all(meanings(config_class).values())


def test_recipes_are_listed_and_shown(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    assert run(["config", "list", "--json"]) == 0
    listed = json.loads(capsys.readouterr().out)
    assert [recipe["name"] for recipe in listed] == RECIPES.names
    assert all(recipe["about"] for recipe in listed)
    assert run(["config", "list"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert [line.split()[0] for line in lines if line[0] != " "] == RECIPES.names
    said = [name + about for name, about in (recipe.values() for recipe in listed)]
    assert "".join("".join(lines).split()) == "".join("".join(said).split())
    for name in RECIPES.names:
        assert run(["config", "show", name]) == 0
        mine = tmp_path / f"{name}.toml"
        mine.write_text(capsys.readouterr().out)
        assert read_recipe(str(mine)) == read_recipe(name)
        assert Path(mine.read_text().splitlines()[0].lstrip("# ")).is_file()
    assert run(["config", "show", "nothing"]) == 1
    assert "recipes: bllip, cfl" in capsys.readouterr().err


def test_keys_are_what_recipes_take(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["config", "keys", "--json"]) == 0
    keys = json.loads(capsys.readouterr().out)
    assert len(keys) == len(list(all_settings()))
    assert {key["model"] for key in keys} == {*MODELS, None}
    eps = next(key for key in keys if key["key"] == "train.eps")
    assert (eps["type"], eps["default"], eps["meaning"]) == ("float", 1e-8, "AdamW's eps.")
    assert run(["config", "keys", "--model", "rnn"]) == 0
    said = capsys.readouterr().out
    assert "  config.controller (lstm|rnn|rnn-relu; default: lstm)\n" in said
    assert "config.d_model" not in said
    assert "\ntraining:\n  train.steps (int; default: 10000)\n" in said
