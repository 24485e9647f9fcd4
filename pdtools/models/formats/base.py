"""The interface of a format of models."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from torch import Tensor

from pdtools.tokenization import Tokenizer


@dataclass(frozen=True)
class Foreign:
    """A model of another program, in our terms.

    Attributes:
        kind: the kind of our models that it is.
        options: its configuration.
        weights: by our names.
        tokenizer: its tokenizer.
    """

    kind: str
    options: Mapping[str, Any]
    weights: Mapping[str, Tensor]
    tokenizer: Tokenizer


@dataclass(frozen=True)
class Format:
    """A format of models.

    Attributes:
        name: its name.
        about: a few words on it.
        files: the files that tell it, and that are downloaded from the hub; the weights first.
        read: reads a folder, with the tokenizer in another, in a text style.
        notes: lines for the user on a model of this configuration: what it computes otherwise than models
            trained here.
    """

    name: str
    about: str
    files: tuple[str, ...]
    read: Callable[[Path, Path, str], Foreign]
    notes: Callable[[Any], tuple[str, ...]]


@dataclass(frozen=True)
class Imported:
    """The result of an import.

    Attributes:
        kind: the kind of model.
        config: its configuration.
        notes: see :class:`Format`.
    """

    kind: str
    config: Any
    notes: tuple[str, ...]
