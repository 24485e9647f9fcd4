"""``pdtools config``: the recipes that come with pdtools, and every key of a recipe."""

from __future__ import annotations

import dataclasses
import inspect
import itertools
import json
import re
import textwrap
import typing
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Annotated, Any

import typer

from .console import print_json
from .options import command, complete_recipes
from .signatures import group

_ENTRY = re.compile(r"    (\w+(?:, \w+)*): (.*)")
app = group(
    "config",
    "List recipes and settings of pdtools train.",
    "List the bundled recipes, print one, or list every key.",
)


@command("List the recipes that come with pdtools.", app=app, name="list")
def list_recipes(as_json: bool = False) -> None:
    """List the bundled recipes, and what each is for.

    \b
    Example:
      pdtools config list
          bllip               Pushdown LM on BLLIP-LG (Murty et al. 2023, section 4.2)
    """
    from pdtools.training.recipe import RECIPES

    found = {name: _first_sentence(RECIPES.text(name)[0]) for name in RECIPES.names}
    if as_json:
        print_json([{"name": name, "about": about} for name, about in found.items()])
        return
    width = max(map(len, found)) + 2
    for name, about in found.items():
        typer.echo(textwrap.fill(about, 79, initial_indent=f"{name:<{width}}", subsequent_indent=" " * width))


def _first_sentence(recipe: str) -> str:
    """The first sentence of a recipe's first comment, without its stop."""
    comment = itertools.takewhile(lambda line: line.startswith("#"), recipe.splitlines())
    text = " ".join(line.lstrip("# ") for line in comment)
    return re.split(r"(?<!et al)\.(?: |$)", text)[0]


@command("Print a recipe.", app=app, name="show")
def show(
    name: Annotated[str, typer.Argument(autocompletion=complete_recipes)],
) -> None:
    """Print a recipe, after a comment that says where it is.

    \b
    Example:
      pdtools config show tiny > mine.toml
      pdtools train shards/train -o runs/mine --config mine.toml

    Arguments:
        name (NAME): One of pdtools config list, or a file.
    """
    from pdtools.training.recipe import RECIPES

    text, place = RECIPES.text(name)
    typer.echo(f"# {place}\n{text}", nl=False)


@command("List every key with its type, default and meaning.", app=app, name="keys")
def keys(
    model: str | None = None,
    as_json: bool = False,
) -> None:
    """List every key of a recipe: config.* for each kind of model, and train.*.

    \b
    Example:
      pdtools config keys --model rnn

    Set a key in a recipe or with --set. Keys without a default come from the tokenizer.

    Options:
        model (NAME): Only keys of this kind of model.
    """
    from pdtools.models import model_kind

    if model is not None:
        model_kind(model)
    found = [setting for setting in all_settings() if model is None or setting.model in (model, None)]
    if as_json:
        print_json([dataclasses.asdict(setting) for setting in found])
        return
    section: object = ...
    for setting in found:
        if setting.model != section:
            section = setting.model
            typer.echo(f"\n{section or 'training'}:")
        default = "none" if setting.default is None else json.dumps(setting.default).strip('"')
        default = "from the tokenizer" if setting.required else f"default: {default}"
        typer.echo(f"  {setting.key} ({setting.type}; {default})")
        typer.echo(textwrap.fill(setting.meaning, 78, initial_indent=" " * 6, subsequent_indent=" " * 6))


@dataclass(frozen=True, kw_only=True)
class Setting:
    """One key of a recipe.

    Attributes:
        model: the kind of model that has it; None for training keys.
        key: such as ``config.layers``.
        type: the type of its values, as Python writes it, or the choices.
        default: None: none, or a value given by the tokenizer.
        required: whether it has no default (the tokenizer decides these).
        meaning: from the docstring.
    """

    model: str | None
    key: str
    type: str
    default: Any
    required: bool
    meaning: str


def all_settings() -> Iterator[Setting]:
    """Every key of every kind of model, then the keys of training."""
    from pdtools.models import MODELS
    from pdtools.training.recipe import TrainConfig

    for name, kind in MODELS.items():
        yield from _settings(name, "config", kind.config_class)
    yield from _settings(None, "train", TrainConfig)


def meanings(config_class: type) -> dict[str, str]:
    """The descriptions of a dataclass's fields in its docstring, and in its base classes'."""
    found: dict[str, str] = {}
    for parent in reversed(config_class.__mro__):
        names: list[str] = []
        _, _, listed = inspect.cleandoc(parent.__doc__ or "").partition("\nAttributes:\n")
        for line in listed.splitlines():
            if entry := _ENTRY.fullmatch(line):
                names = entry[1].split(", ")
                found |= dict.fromkeys(names, entry[2])
            elif line.startswith("        "):
                found |= {name: f"{found[name]} {line.strip()}" for name in names}
            else:
                break
    return found


def _settings(model: str | None, section: str, config_class: type) -> Iterator[Setting]:
    from pdtools.files.typed_values import settings_of

    types, said = typing.get_type_hints(config_class), meanings(config_class)
    for field in settings_of(config_class):
        required = field.default is dataclasses.MISSING
        yield Setting(
            model=model,
            key=f"{section}.{field.name}",
            type=_type_name(types[field.name]),
            default=None if required else field.default,
            required=required,
            meaning=said[field.name],
        )


def _type_name(wanted: Any) -> str:
    if typing.get_origin(wanted) is typing.Literal:
        return "|".join(typing.get_args(wanted))
    return wanted.__name__ if isinstance(wanted, type) and not typing.get_args(wanted) else str(wanted)
