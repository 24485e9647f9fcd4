"""Checkpoints: a folder of config.json, model.safetensors and the tokenizer's files. Nothing is unpickled."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError
from safetensors.torch import load_file

from pdtools.errors import InputError, PdtoolsError
from pdtools.files import (
    Kind,
    atomic_directory,
    check_kind,
    check_no_pointers,
    read_json,
    recover_directory,
    utf8_name,
    write_json,
    write_tensors,
)
from pdtools.files.manifest import check_checksums, write_checksums
from pdtools.jobs.devices import device_for
from pdtools.models.base import LanguageModel
from pdtools.models.registry import build_model, empty_model, make_config, model_name
from pdtools.provenance.hub import IMPORTED, check_no_hub_name
from pdtools.tokenization import Tokenizer
from pdtools.tokenization.tokenizer import CONFIG_FILE as TOKENIZER_CONFIG
from pdtools.tokenization.tokenizer import TOKENIZER_FILE

FORMAT_VERSION = "1"
CONFIG_FILE = "config.json"
WEIGHTS_FILE = "model.safetensors"
BEST_FOLDER = "best"
# Keys of config.json about training so far: updates; words read (the share of the corpus' words that
# the tokens read have); and the numbers of words of train.keep_at for which it was kept.
TRAINED = ("step", "words", "kept_at_words")
UNTRAINED = "this checkpoint is of step 0: its weights are those that training began with"


@dataclass(frozen=True, eq=False)
class LoadedModel:
    """A checkpoint in memory.

    Attributes:
        model: in evaluation mode, on the wanted device.
        tokenizer: the tokenizer of its training.
        config: the whole of config.json; ``config["shards"]`` holds the training shards' settings
            (layout, factor, text style).
        folder: its folder.
    """

    model: LanguageModel
    tokenizer: Tokenizer
    config: dict[str, Any]
    folder: Path

    @property
    def trained(self) -> dict[str, Any]:
        """The progress of its training, see :data:`TRAINED`."""
        return {name: self.config[name] for name in TRAINED if name in self.config}

    @property
    def described(self) -> dict[str, str]:
        """Settings for results: ``model``, its name, and ``warning``, if it was never trained."""
        return _described(self.config)


def describe_checkpoint(path: str | Path) -> dict[str, str]:
    """:attr:`LoadedModel.described` of a checkpoint or run without loading it; {} if it is damaged.

    Raises:
        InputError: if there is none.
    """
    config = read_json(checkpoint_folder(path) / CONFIG_FILE)
    return _described(config) if isinstance(config, dict) and "model" in config else {}


def reads_windows(path: str | Path) -> bool:
    """Return whether the model of a checkpoint or run learned from windows, without loading it."""
    config = read_json(checkpoint_folder(path) / CONFIG_FILE)
    shape = config.get("config") if isinstance(config, dict) else None
    return isinstance(shape, dict) and shape.get("layout") == "window"


def _described(config: Mapping[str, Any]) -> dict[str, str]:
    name = {"model": config["model"]}
    return name | ({"warning": UNTRAINED} if config.get("step") == 0 else {})


def save_checkpoint(
    folder: str | Path,
    model: LanguageModel,
    tokenizer: Tokenizer,
    *,
    shards: Mapping[str, Any],
    step: int | None = None,
    overwrite: bool = False,
) -> None:
    """Write a checkpoint folder, whole or not at all.

    Args:
        folder: its place.
        model: the model.
        tokenizer: the tokenizer of its training shards.
        shards: settings of the training shards that scoring needs to know (layout, factor, …).
        step: updates done; None: unknown.
        overwrite: replace an existing folder.

    Raises:
        PdtoolsError: if the folder exists and may not be overwritten.
    """
    with atomic_directory(folder, kind="checkpoint", overwrite=overwrite) as temporary:
        trained = {} if step is None else {"step": step}
        weights = model.state_dict()
        write_checkpoint(temporary, model, tokenizer, shards=shards, trained=trained, weights=weights)


def write_checkpoint(
    folder: Path,
    model: LanguageModel,
    tokenizer: Tokenizer,
    *,
    shards: Mapping[str, Any],
    trained: Mapping[str, Any],
    weights: Mapping[str, torch.Tensor],
    stub: bool = False,
) -> None:
    """Write the files of a checkpoint into an empty folder.

    Args:
        folder, model, tokenizer, shards: see :func:`save_checkpoint`.
        trained: the known entries of :data:`TRAINED`.
        weights: the whole state dict, of which the model itself may hold only a part.
        stub: include the stub by which transformers loads a causal model, see
            :mod:`pdtools.models.checkpoint`.
    """
    write_tensors(folder / WEIGHTS_FILE, weights)
    causal = model.objective == "causal"
    tokenizer.save(folder, **({"for_transformers": tokenizer_entries(stub=stub)} if causal else {}))
    names = [WEIGHTS_FILE, CONFIG_FILE, TOKENIZER_FILE, TOKENIZER_CONFIG]
    if causal and stub:
        write_stub(folder)
        names.append(STUB_FILE)
    write_json(
        folder / CONFIG_FILE,
        {
            **(model_entries(stub=stub) if causal else {}),
            "format_version": FORMAT_VERSION,
            "model": model_name(model.config),
            "config": dataclasses.asdict(model.config),
            "tokenizer": tokenizer.fingerprint,
            **({"labels": list(tokenizer.labels)} if model.derivation_kind.labelled else {}),
            "shards": dict(shards),
            **trained,
        },
    )
    write_checksums(folder, names)


def checkpoint_folder(path: str | Path) -> Path:
    """The checkpoint at a path: the folder itself, or ``best/`` in a run's folder.

    Raises:
        InputError: if there is none.
    """
    folder = Path(path)
    recover_directory(folder)
    if not folder.is_dir():
        check_no_hub_name(path)
        check_kind(folder, Kind.MODEL)
        reason = "not a folder" if folder.exists() else "no such folder"
        raise InputError(reason, file=folder, hint="give a folder that pdtools train wrote")
    recover_directory(folder / BEST_FOLDER)
    for candidate in (folder, folder / BEST_FOLDER):
        if (candidate / CONFIG_FILE).is_file():
            return candidate
    check_kind(folder, Kind.MODEL)
    imported = all((folder / name).is_file() for name in IMPORTED)
    hint = f"pdtools import {folder} -o FOLDER makes one of it" if imported else None
    raise InputError(f"not a checkpoint: no {CONFIG_FILE} here or in {BEST_FOLDER}/", file=folder, hint=hint)


def load_checkpoint(path: str | Path, device: torch.device | str = "cpu") -> LoadedModel:
    """Read a checkpoint.

    Args:
        path: a checkpoint's folder, or a training run's folder with ``best/`` in it.
        device: the model's device.

    Raises:
        PdtoolsError: if it is none, is damaged, has an unknown model or format version, or its tokenizer
            or labels are not the ones of its training.
    """
    folder = checkpoint_folder(path)
    check_no_pointers(folder)
    check_checksums(folder)
    config_path = folder / CONFIG_FILE
    config = read_json(config_path)
    if not isinstance(config, dict) or "model" not in config:
        check_kind(folder, Kind.MODEL)
    for key in ("format_version", "model", "config", "tokenizer", "shards"):
        if not isinstance(config, dict) or key not in config:
            raise InputError(f"not a pdtools checkpoint: {key} is missing", file=config_path)
    if config["format_version"] != FORMAT_VERSION:
        raise InputError(
            f"checkpoint format {config['format_version']}, but this pdtools reads format {FORMAT_VERSION}",
            file=config_path,
        )
    tokenizer = Tokenizer.load(folder)
    if tokenizer.fingerprint != config["tokenizer"]:
        raise InputError(
            "the tokenizer in this folder is not the one that the model was trained with", file=folder
        )
    if "labels" in config and config["labels"] != list(tokenizer.labels):
        raise InputError("the tokenizer's labels are not those that the model was trained with", file=folder)
    if not isinstance(config["config"], dict) or not isinstance(config["model"], str):
        raise InputError("config must be an object, and model a name", file=config_path)
    model_config = make_config(config["model"], config["config"])
    if model_config.vocab_size < tokenizer.vocab_size:
        raise InputError(
            f"the model's vocabulary of {model_config.vocab_size} has no room for the tokenizer's "
            f"{tokenizer.vocab_size}",
            file=folder,
        )
    for name in ("root_id", "eos_id", "pad_id", "n_labels"):
        given = getattr(tokenizer, name)
        if (ours := getattr(model_config, name, given)) != given:
            raise InputError(f"config.{name} is {ours}, but {given} in the tokenizer", file=config_path)
    weights = _read_weights(folder / WEIGHTS_FILE)
    check_shapes(config["model"], model_config, weights, folder / WEIGHTS_FILE)
    model = build_model(config["model"], model_config)
    model.load_state_dict(weights)
    model.use_tokenizer(tokenizer)
    place = device_for(str(device), needs_float64=model.needs_float64)
    return LoadedModel(model=model.to(place).eval(), tokenizer=tokenizer, config=config, folder=folder)


def _read_weights(path: Path) -> dict[str, torch.Tensor]:
    if not path.is_file():
        raise InputError("no such file: the checkpoint is incomplete", file=path)
    try:
        with utf8_name(path) as name:
            return load_file(name)
    except (SafetensorError, OSError) as error:
        raise InputError(f"damaged weights: {error}", file=path) from error


def check_shapes(name: str, config: Any, weights: Mapping[str, torch.Tensor], path: Path) -> None:
    """Refuse weights of another configuration before a model is built, which may be of any size."""
    if config.layers > len(weights):
        raise InputError("the weights do not fit the configuration: too few for its layers", file=path)
    try:
        expected = empty_model(name, config).state_dict()
    except PdtoolsError as error:
        raise InputError(str(error), file=path.with_name(CONFIG_FILE)) from error
    for key in sorted(expected.keys() | weights.keys()):
        if key not in weights or key not in expected or weights[key].shape != expected[key].shape:
            raise InputError(f"the weights do not fit the configuration, first at {key}", file=path)
        if weights[key].is_floating_point() != expected[key].is_floating_point():
            raise InputError(f"damaged weights: {key} holds {weights[key].dtype}", file=path)


# --- the entries for transformers -------------------------------------------------------------

# No code of ours comes with a checkpoint: the stub imports the classes from the installed package, and
# trust_remote_code=True runs nothing else. Our own loaders never run it.


# After ``import pdtools.hf`` transformers finds the classes by these names, without the stub.
MODEL_TYPE = "pdtools"
MODEL_CLASS, TOKENIZER_CLASS = "PdtoolsForCausalLM", "PdtoolsTokenizer"

STUB_FILE = "modeling_pdtools.py"
# transformers takes packages that are imported outside of ``try`` for distributions: it would advise to
# install "pdtools", which is another project's.
STUB = '''\
"""Loads this model by the package pdtools, which has to be installed: this file has no other code."""

try:
    from pdtools.hf import PdtoolsConfig, PdtoolsForCausalLM, PdtoolsTokenizer
except ImportError as error:
    raise ImportError(
        f"this model is loaded by pdtools ({error}): in a checkout of it, pip install '.[hf]'; when it is"
        " released, pip install 'pushdown-tools[hf]' (the distribution named pdtools is another project)"
    ) from error

__all__ = ["PdtoolsConfig", "PdtoolsForCausalLM", "PdtoolsTokenizer"]
'''

_MODULE = STUB_FILE.removesuffix(".py")


def model_entries(*, stub: bool) -> dict[str, Any]:
    """The entries of ``config.json``; with ``stub``, the place of the classes if pdtools is not imported."""
    names = {"AutoConfig": "PdtoolsConfig", "AutoModelForCausalLM": MODEL_CLASS}
    found: dict[str, Any] = {"model_type": MODEL_TYPE, "architectures": [MODEL_CLASS]}
    return found | ({"auto_map": {auto: f"{_MODULE}.{name}" for auto, name in names.items()}} if stub else {})


def tokenizer_entries(*, stub: bool) -> dict[str, Any]:
    """The entries of ``tokenizer_config.json``, see :func:`model_entries`; there is no fast tokenizer."""
    found: dict[str, Any] = {"tokenizer_class": TOKENIZER_CLASS}
    return found | ({"auto_map": {"AutoTokenizer": [f"{_MODULE}.{TOKENIZER_CLASS}", None]}} if stub else {})


def write_stub(folder: Path) -> None:
    """Write the stub into a folder."""
    (folder / STUB_FILE).write_text(STUB, encoding="utf-8", newline="\n")
