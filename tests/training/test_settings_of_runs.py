"""Runs go on only with the settings and data that they were started with, whichever of them is another."""

from __future__ import annotations

import dataclasses
import typing
from pathlib import Path
from typing import Any

import pytest

from pdtools.errors import PdtoolsError
from pdtools.files.typed_values import settings_of
from pdtools.models import model_kind
from pdtools.training import Recipe, TrainConfig
from pdtools.training.run_folder import RunFolder

MAY_CHANGE = {"keep_at", "sample_parses"}  # what a run keeps and shows beside, and nothing else
OTHERS = {"keep_at": ("5 steps",), "betas": (0.5, 0.75), "batches": "stored"}
KINDS = typing.get_type_hints(TrainConfig)
OPTIONS = {
    field.name: field.default
    for field in settings_of(model_kind("pushdown").config_class)
    if field.default is not dataclasses.MISSING
}
RECIPE = Recipe(model="pushdown", options=OPTIONS)
DATA = {"train": "a", "valid": "b", "treereg": "c", "init": "d"}


def another(name: str, value: Any) -> Any:
    """Another value of a setting, which it may have."""
    if name in OTHERS:
        return OTHERS[name]
    choices = typing.get_args(KINDS[name])
    if isinstance(value, str):
        return next(choice for choice in choices if choice != value)
    return value / 2 if isinstance(value, float) else value + 1


@pytest.fixture
def folder(tmp_path: Path) -> RunFolder:
    made = RunFolder(tmp_path / "run").create()
    made.describe(RECIPE, DATA, {})
    return made


def test_the_same_goes_on(folder: RunFolder) -> None:
    folder.check_same(RECIPE, DATA)


@pytest.mark.parametrize("name", [each.name for each in dataclasses.fields(TrainConfig)])
def test_settings_of_the_training(name: str, folder: RunFolder) -> None:
    changed = dataclasses.replace(RECIPE.train, **{name: another(name, getattr(RECIPE.train, name))})
    assert changed != RECIPE.train
    recipe = dataclasses.replace(RECIPE, train=changed)
    if name in MAY_CHANGE:
        folder.check_same(recipe, DATA)
        return
    with pytest.raises(PdtoolsError, match=rf"cannot be resumed: train\.{name} is .*, but was "):
        folder.check_same(recipe, DATA)


@pytest.mark.parametrize("name", OPTIONS)
def test_settings_of_the_model(name: str, folder: RunFolder) -> None:
    recipe = dataclasses.replace(RECIPE, options={**RECIPE.options, name: "another"})
    with pytest.raises(PdtoolsError, match=rf"cannot be resumed: config\.{name} is another, but was "):
        folder.check_same(recipe, DATA)


def test_the_model(folder: RunFolder) -> None:
    with pytest.raises(PdtoolsError, match="cannot be resumed: model is transformer, but was pushdown"):
        folder.check_same(dataclasses.replace(RECIPE, model="transformer"), DATA)


@pytest.mark.parametrize("role", DATA)
@pytest.mark.parametrize("now", ["another", None])
def test_data(role: str, now: str | None, folder: RunFolder) -> None:
    data = {key: value for key, value in {**DATA, role: now}.items() if value is not None}
    with pytest.raises(PdtoolsError, match=f"cannot be resumed: the {role} data are not the same"):
        folder.check_same(RECIPE, data)


@pytest.mark.parametrize("schedule", ["constant", "plateau", "cosine", "linear"])
@pytest.mark.parametrize("steps", [9, 11])
def test_only_more_steps_at_a_rate_that_does_not_depend_on_them(
    schedule: Any, steps: int, tmp_path: Path
) -> None:
    recipe = dataclasses.replace(RECIPE, train=TrainConfig(schedule=schedule, steps=10))
    folder = RunFolder(tmp_path / "run").create()
    folder.describe(recipe, DATA, {})
    longer = dataclasses.replace(recipe, train=dataclasses.replace(recipe.train, steps=steps))
    if steps == 11 and schedule in ("constant", "plateau"):
        folder.check_same(longer, DATA)
        return
    with pytest.raises(PdtoolsError, match=rf"train\.steps is {steps}, but was 10"):
        folder.check_same(longer, DATA)
