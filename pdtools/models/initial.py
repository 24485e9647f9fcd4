"""Initial weights of training: from GPT-2 or RoBERTa, or from a checkpoint of ours.

Parts that both models have are copied. Parts that only the new one has (the attachment head, depth tables,
stack attention, more positions or tokens) are new, parts that only the other has are omitted, and all are
reported.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from pdtools.errors import InputError, PdtoolsError
from pdtools.files import Kind, kind_of, read_json
from pdtools.files.typed_values import settings_of
from pdtools.models.base import LanguageModel
from pdtools.models.checkpoint import CONFIG_FILE, checkpoint_folder, load_checkpoint
from pdtools.models.grammar.config import ActionModelConfig
from pdtools.models.grammar.model import ActionLM
from pdtools.models.registry import model_kind
from pdtools.models.transformer.config import TransformerConfig
from pdtools.models.transformer.pretrained import (
    HUGGING_FACE,
    Pretrained,
    pretrained_options,
    read_pretrained,
)
from pdtools.tokenization import Tokenizer
from pdtools.tokenization.tokenizer import TOKENIZER_FILE

_NORM = "the norm of what the attachment head reads"
# Parts that only one of the two models may have.
_PARTS = (
    (re.compile(r"head\.next_norm\."), _NORM),
    (re.compile(r"head\."), "the attachment head"),
    (re.compile(r"blocks\.(\d+)\.attention\.terms\.\d+\.embedding\."), "depth tables"),
    (re.compile(r"blocks\.(\d+)\.attention\.terms\."), "score terms"),
    (re.compile(r"blocks\.(\d+)\.stack\."), "stack attention"),
    (re.compile(r"scaffold\."), "the scaffold's classifier"),
    (re.compile(r"regression\."), "the regression"),
)
_TOKEN_TABLES = ("embedding.weight", "output.weight", "output_bias")
_POSITIONS = "position_embedding.weight"

_OF_DATA = (
    "vocab_size",
    "pad_id",
    "root_id",
    "eos_id",
    "n_labels",
    "runs",
    "layout",
    "window_roots",
    "regression",
)
# Options that are free for the same weights, or that describe parts besides them.
_CHOICES = re.compile(
    "objective|.*dropout|treereg_.*|attachment_head|head_reads|head_slope|pushdown_layers|stack_layers"
    "|depth_init|normalize",
    re.ASCII,
)


@dataclass(frozen=True, kw_only=True)
class Initialized:
    """A report on the weights from which a model started.

    Attributes:
        folder: their folder.
        copied: number of values copied.
        new: the model's further parts, in words, with their initialization.
        left_out: omitted parts, in words.
    """

    folder: str
    copied: int
    new: tuple[str, ...]
    left_out: tuple[str, ...]

    def __str__(self) -> str:
        new, omitted = (", ".join(parts) or "nothing" for parts in (self.new, self.left_out))
        return f"weights of {self.folder}: {self.copied:,} values copied; new: {new}; omitted: {omitted}"


def _is_checkpoint(folder: str | Path) -> bool:
    """Return whether a folder is a checkpoint of ours, or a run with one."""
    return kind_of(folder) is Kind.MODEL


def initial_shape(folder: str | Path) -> tuple[str | None, dict[str, Any]]:
    """The configuration that a model needs to start from a folder; the weights are not read.

    Returns:
        The kind of model, None if several will do; and the options that the weights ask for: sizes, norms,
        activation, positions.

    Raises:
        InputError: if there is no model there, or one without an equivalent of ours.
    """
    kind, options = _read_config(folder) if _is_checkpoint(folder) else (None, pretrained_options(folder))
    return kind, {name: value for name, value in options.items() if not _CHOICES.fullmatch(name)}


def read_initial(folder: str | Path, model: str, tokenizer: Tokenizer) -> Pretrained:
    """Read the model in a folder.

    Args:
        folder: one with GPT-2 or RoBERTa, as Hugging Face's transformers write it; a checkpoint, or a run.
        model: the kind of model that is to start from it.
        tokenizer: the data's. It has to be the model's own; or, for a checkpoint, one that extends it, with
            the same numbers for all its tokens.

    Raises:
        PdtoolsError: if it is damaged, of an incompatible kind, or has other tokens.
    """
    if not _is_checkpoint(folder):
        _check_kinds(model, HUGGING_FACE)
        has_own = Path(folder, TOKENIZER_FILE).is_file()
        if has_own and Tokenizer.load(folder, tokenizer.text_style).fingerprint != tokenizer.fingerprint:
            raise PdtoolsError(
                f"{folder}: the data's tokenizer is not this model's"
                f" (shards are made with --tokenizer {folder})"
            )
        return read_pretrained(folder)
    kind, options = _read_config(folder)
    _check_kinds(model, kind)
    loaded = load_checkpoint(folder)
    if (token := tokenizer.differs_from(loaded.tokenizer)) is not None:
        raise PdtoolsError(
            f"{folder}: the data's tokenizer does not extend this model's, of which {token!r} has another"
            f" number there, or none (make the shards with --tokenizer {folder})"
        )
    labels = list(tokenizer.labels) if loaded.model.derivation_kind.labelled else []
    if isinstance(loaded.model, ActionLM) and (
        loaded.tokenizer.fingerprint != tokenizer.fingerprint or loaded.config.get("labels", []) != labels
    ):
        raise PdtoolsError(
            f"{folder}: an action model has the tokens and labels of its own training shards"
            f" (make these with --tokenizer {folder})"
        )
    return Pretrained(kind=kind, options=options, weights=loaded.model.state_dict())


def _check_kinds(model: str, kind: str) -> None:
    """Refuse a model that cannot start from a model of another kind."""
    if model == kind:
        return
    for name in (model, kind):
        config_class = model_kind(name).config_class
        if issubclass(config_class, ActionModelConfig):
            raise PdtoolsError(f"--init is not for model {name}, whose vocabulary has actions in it")
        if not issubclass(config_class, TransformerConfig):
            raise PdtoolsError(f"--init: a {model} cannot start from the weights of a {kind}")


def _read_config(folder: str | Path) -> tuple[str, dict[str, Any]]:
    """The kind of a checkpoint's model, and its options except those that the data determine."""
    file = checkpoint_folder(folder) / CONFIG_FILE
    record = read_json(file)
    if not isinstance(record, dict):
        raise InputError("not a pdtools checkpoint", file=file)
    kind, options = record.get("model"), record.get("config")
    if not isinstance(kind, str) or not isinstance(options, dict):
        raise InputError("not a pdtools checkpoint: model or config is missing", file=file)
    return kind, {name: value for name, value in options.items() if name not in _OF_DATA}


def options_for(model: str, pretrained: Pretrained) -> dict[str, Any]:
    """The options that a configuration takes from a model, unless a recipe sets them.

    Depth tables that the other model lacks start at zero, so that at first the tape makes no
    difference: tokens have the probabilities of the other model.
    """
    own = {"attachment_head"} if model != pretrained.kind else set()
    known = {field.name for field in settings_of(model_kind(model).config_class)} - own
    taken = {**pretrained.options, "depth_init": "zero"}
    return {name: value for name, value in taken.items() if name in known}


@torch.no_grad()
def initialize_from(model: LanguageModel, pretrained: Pretrained, folder: str | Path) -> Initialized:
    """Copy weights into a model that has random ones.

    If the other model begins and ends texts with other tokens than ours, new tokens start as these: ROOT as
    the first, all others as the second; for a model of ours, new tokens start as the mean of its tokens. The
    output layer scores every token: a random one could be far more probable than all known tokens, whose
    scores may have any mean, since the softmax ignores it. Positions beyond the pretrained ones start at
    random (torch's global generator), normally distributed with the mean and deviation of the others in each
    dimension.

    Raises:
        InputError: if the model has another shape.
    """
    ours, theirs = model.state_dict(), pretrained.weights
    new = [name for name in ours if name not in theirs]
    omitted = [name for name in theirs if name not in ours]
    for name in (*new, *omitted):
        if _part_of(name) is None:
            raise InputError(f"the pretrained weights do not fit the configuration, first at {name}")
    added = []
    for name, values in theirs.items():
        place = ours.get(name)
        if place is None:
            continue
        grown = len(place) - len(values) if place.ndim and place.shape[1:] == values.shape[1:] else 0
        if name in _TOKEN_TABLES and isinstance(model.config, TransformerConfig):
            _extend(place, values, model, pretrained)
            if grown and name == _TOKEN_TABLES[0]:
                start = "mean of all" if pretrained.eos_id is None else "as its beginning and end of a text"
                added.append(f"{grown} token{'s' * (grown > 1)} ({start})")
        elif name == _POSITIONS and grown > 0:
            place.copy_(_lengthened(values, len(place)))
            added.append(f"positions {len(values)} to {len(place) - 1} (random, like the others)")
        elif place.shape != values.shape:
            raise InputError(
                f"{name} of the pretrained weights is {tuple(values.shape)}, but the configuration asks for "
                f"{tuple(place.shape)}"
            )
        else:
            place.copy_(values)
    return Initialized(
        folder=str(folder),
        copied=sum(values.numel() for name, values in theirs.items() if name in ours),
        new=(*_in_words(new, ours), *added),
        left_out=tuple(_in_words(omitted)),
    )


def _extend(place: Tensor, theirs: Tensor, model: LanguageModel, pretrained: Pretrained) -> None:
    """Fill a table of tokens, (V, …)."""
    if place.shape[1:] != theirs.shape[1:]:
        raise InputError(
            f"d_model of the pretrained weights is {theirs.shape[1]}, of the configuration {place.shape[1]}"
        )
    if len(place) < len(theirs):
        raise InputError(
            f"the pretrained model has {len(theirs)} tokens, the tokenizer {len(place)}: make the shards with"
            " --tokenizer and the model's folder"
        )
    place[: len(theirs)] = theirs
    place[len(theirs) :] = theirs.mean(0) if pretrained.eos_id is None else theirs[pretrained.eos_id]
    if model.root_id >= len(theirs) and pretrained.root_id is not None:
        place[model.root_id] = theirs[pretrained.root_id]


def _lengthened(table: Tensor, length: int) -> Tensor:
    """A table of positions, (N, D), extended with similar random rows: (length, D)."""
    more = torch.randn(length - len(table), table.shape[1], dtype=table.dtype)
    return torch.cat([table, table.mean(0) + table.std(0, correction=0) * more])


def _part_of(name: str) -> tuple[str, int | None] | None:
    """The part of a model with a weight, and its layer, from 1; None for the transformer itself."""
    for pattern, part in _PARTS:
        if match := pattern.match(name):
            return part, int(match[1]) + 1 if match.groups() else None
    return None


def _in_words(names: Iterable[str], values: Mapping[str, Tensor] | None = None) -> list[str]:
    """Weights by their parts and layers; with their values, also their initialization."""
    parts: dict[str, list[tuple[int | None, str]]] = {}
    for name in names:
        found = _part_of(name)
        assert found is not None
        parts.setdefault(found[0], []).append((found[1], name))
    words = []
    for part, members in parts.items():
        layers = sorted({layer for layer, _ in members if layer is not None})
        where = f" of layers {layers[0]} to {layers[-1]}" if len(layers) > 1 else ""
        where = f" of layer {layers[0]}" if len(layers) == 1 else where
        start = ""
        if values is not None and part != _NORM:
            start = " (random)" if any(values[name].any() for _, name in members) else " (zero)"
        words.append(f"{part}{where}{start}")
    return words
