"""Every key of a recipe with its type, default and meaning, from the dataclasses' own docstrings."""

from __future__ import annotations

import dataclasses
import inspect
import re
import typing
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from pdtools.files.typed_values import settings_of
from pdtools.models import MODELS
from pdtools.training.recipe import TrainConfig

_ENTRY = re.compile(r"    (\w+(?:, \w+)*): (.*)")


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
