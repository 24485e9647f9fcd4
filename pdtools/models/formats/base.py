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
        notes: lines for the user: how it reads, and what it computes, otherwise than models trained here.
    """

    kind: str
    options: Mapping[str, Any]
    weights: Mapping[str, Tensor]
    tokenizer: Tokenizer
    notes: tuple[str, ...]


@dataclass(frozen=True)
class Format:
    """A format of models.

    Attributes:
        name: its name.
        about: a few words on it.
        files: the files that tell it, and that are downloaded from the hub; the weights first.
        read: reads a folder, with the tokenizer in another, in a text style.
    """

    name: str
    about: str
    files: tuple[str, ...]
    read: Callable[[Path, Path, str], Foreign]
