"""``pdtools config``: the recipes that come with pdtools, and every key of a recipe."""

from __future__ import annotations

import dataclasses
import itertools
import json
import re
import textwrap
from typing import Annotated

import typer

from .console import print_json
from .options import command, complete_recipes
from .signatures import group

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
    """
    from pdtools.training.recipe import bundled_recipes, recipe_text

    found = {name: _first_sentence(recipe_text(name)[0]) for name in bundled_recipes()}
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
    from pdtools.training.recipe import recipe_text

    text, place = recipe_text(name)
    typer.echo(f"# {place}\n{text}", nl=False)


@command("List every key with its type, default and meaning.", app=app, name="keys")
def keys(
    model: str | None = None,
    as_json: bool = False,
) -> None:
    """List every key of a recipe: config.* for each kind of model, and train.*.

    Keys without a default come from the tokenizer. Set a key in a recipe or with --set.

    \b
    Example:
      pdtools config keys --model rnn

    Options:
        model (NAME): Only keys of this kind of model.
    """
    from pdtools.models import model_kind
    from pdtools.training.settings import all_settings

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
