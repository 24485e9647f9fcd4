"""Weights of GPT-2 and RoBERTa, from a folder that Hugging Face's transformers wrote, for our transformer."""

from __future__ import annotations

import contextlib
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError
from safetensors.torch import load_file
from torch import Tensor

from pdtools.errors import InputError
from pdtools.files import Kind, check_kind, check_no_pointers, read_json, utf8_name
from pdtools.provenance.hub import check_no_hub_name

# The kind among our models that these models are.
HUGGING_FACE = "transformer"
# Names of weights that belong to a layer, in both architectures.
_LAYER = re.compile(r"^(?:transformer\.h|h|(?:roberta\.)?encoder\.layer)\.(\d+)\.")
_ACTIVATIONS = {"gelu_new": "gelu", "gelu_pytorch_tanh": "gelu", "gelu": "gelu-exact", "relu": "relu"}


@dataclass(frozen=True)
class Pretrained:
    """A model read from a folder of Hugging Face's transformers.

    Attributes:
        kind: the kind of our models that it is.
        options: the configuration of that kind, without the options that the data decide.
        weights: by our names for them; tables of tokens with the folder's own vocabulary.
        root_id, eos_id: its tokens before and after a text, with which new ones are initialized; None for a
            model of ours, whose ROOT and end-of-sentence are not new.
    """

    kind: str
    options: Mapping[str, Any]
    weights: Mapping[str, Tensor]
    root_id: int | None = None
    eos_id: int | None = None


def read_pretrained(folder: str | Path) -> Pretrained:
    """Read ``config.json`` and the weights (safetensors, in one file or several) of a GPT-2 or RoBERTa model.

    Nothing is unpickled.

    Raises:
        InputError: if they are missing or damaged, or from a model without a counterpart here.
    """
    config, options = _read_config(folder)
    found: dict[str, Tensor] = {}
    for file in _weights_files(Path(folder)):
        if not file.is_file():
            hint = "save_pretrained(folder, safe_serialization=True) of transformers writes it"
            raise InputError("no such file", file=file, hint=hint)
        try:
            with utf8_name(file) as name:
                found |= load_file(name)
        except (SafetensorError, OSError) as error:
            raise InputError(f"damaged weights: {error}", file=file) from error
    kind = config["model_type"]
    numbers = [int(match[1]) for match in map(_LAYER.search, found) if match]
    if max(numbers, default=0) >= options["layers"]:
        reason = f"layers: {options['layers']} here, but {max(numbers) + 1} in the weights"
        raise InputError(reason, file=Path(folder, "config.json"))
    with _naming(folder, kind):
        weights = (_gpt2_weights if kind == "gpt2" else _roberta_weights)(config, options, found)
        return _pretrained(config, options, weights)


def _weights_files(folder: Path) -> list[Path]:
    """The weights' files: one file, or those that the index of a larger model names (besides, an old one)."""
    whole, index = folder / "model.safetensors", folder / "model.safetensors.index.json"
    if whole.is_file() or not index.is_file():
        return [whole]
    table = read_json(index)
    names = table.get("weight_map") if isinstance(table, dict) else None
    if not isinstance(names, dict) or not all(isinstance(name, str) for name in names.values()):
        raise InputError("no weight_map of file names", file=index)
    return [folder / name for name in sorted(set(names.values()))]


def pretrained_options(folder: str | Path) -> dict[str, Any]:
    """Return :attr:`Pretrained.options` without reading the weights.

    Raises:
        InputError: see :func:`read_pretrained`.
    """
    return _read_config(folder)[1]


def _read_config(folder: str | Path) -> tuple[dict[str, Any], dict[str, Any]]:
    """Read ``config.json``, and return it with our options for such a model."""
    check_no_hub_name(folder)
    file = Path(folder, "config.json")
    check_kind(folder, Kind.HUGGING_FACE)
    check_no_pointers(folder)
    config = read_json(file)
    kind = config.get("model_type") if isinstance(config, dict) else None
    if kind not in ("gpt2", "roberta"):
        raise InputError(f"model_type is {kind!r}, not gpt2 or roberta", file=file)
    with _naming(folder, kind):
        options = (_gpt2_options if kind == "gpt2" else _roberta_options)(config)
        sizes = {name: options[name] for name in ("layers", "d_model", "heads", "d_ff", "max_length")}
        tokens = {name: config[name] for name in ("vocab_size", "bos_token_id", "eos_token_id")}
        for name, value in (sizes | tokens).items():
            if type(value) is not int:
                raise ValueError(f"{name} is {value!r}, not a whole number")
    return config, options


@contextlib.contextmanager
def _naming(folder: str | Path, kind: str) -> Iterator[None]:
    """Turn errors from a folder that lacks files, or is no such model, into one line that names it."""
    try:
        yield
    except KeyError as error:
        raise InputError(f"{error.args[0]} is missing", file=folder) from error
    except ValueError as error:
        raise InputError(str(error), file=Path(folder, "config.json")) from error
    except (TypeError, IndexError, RuntimeError) as error:
        reason = str(error).splitlines()[0]
        raise InputError(f"not a {kind} model that pdtools can build: {reason}", file=folder) from error


def _gpt2_options(config: Mapping[str, Any]) -> dict[str, Any]:
    if config.get("scale_attn_by_inverse_layer_idx") or config.get("add_cross_attention"):
        raise ValueError("a GPT-2 with scaled layers or cross-attention is none of ours")
    if not config.get("scale_attn_weights", True):
        raise ValueError("a GPT-2 whose attention scores are not scaled is none of ours")
    width = config["n_embd"]
    return {
        "layers": config["n_layer"],
        "d_model": width,
        "heads": config["n_head"],
        "d_ff": config.get("n_inner") or 4 * width,
        "positions": "learned",
        "max_length": config["n_positions"],
        "input_dropout": float(config.get("embd_pdrop", 0.1)),
        "attention_dropout": float(config.get("attn_pdrop", 0.1)),
        "output_dropout": float(config.get("resid_pdrop", 0.1)),
        "tie_embeddings": config.get("tie_word_embeddings", True),
        "objective": "causal",
        "norm": "pre",
        "norm_eps": float(config.get("layer_norm_epsilon", 1e-5)),
        "activation": _activation(config.get("activation_function", "gelu_new")),
    }


def _gpt2_weights(
    config: Mapping[str, Any], options: Mapping[str, Any], found: Mapping[str, Tensor]
) -> dict[str, Tensor]:
    theirs = _without_prefix(found, "transformer.")
    weights = {
        "embedding.weight": theirs["wte.weight"],
        "position_embedding.weight": theirs["wpe.weight"],
        **_pair(theirs, "ln_f", "final_norm"),
    }
    if not options["tie_embeddings"]:
        weights["output.weight"] = theirs["lm_head.weight"]
    for layer in range(options["layers"]):
        ours, block = f"blocks.{layer}", f"h.{layer}"
        weights |= _pair(theirs, f"{block}.ln_1", f"{ours}.attention_norm")
        weights |= _pair(theirs, f"{block}.ln_2", f"{ours}.feed_forward_norm")
        for name, place in (
            ("attn.c_attn", "attention.qkv"),
            ("attn.c_proj", "attention.output"),
            ("mlp.c_fc", "feed_forward.0"),
            ("mlp.c_proj", "feed_forward.2"),
        ):
            # GPT-2's maps are stored inputs first.
            weights[f"{ours}.{place}.weight"] = theirs[f"{block}.{name}.weight"].T
            weights[f"{ours}.{place}.bias"] = theirs[f"{block}.{name}.bias"]
    return weights


def _roberta_options(config: Mapping[str, Any]) -> dict[str, Any]:
    if config.get("position_embedding_type", "absolute") != "absolute" or config.get("is_decoder"):
        raise ValueError("a RoBERTa with relative positions, or as a decoder, is none of ours")
    if not config.get("tie_word_embeddings", True):
        raise ValueError("a RoBERTa whose output layer is not its embedding is none of ours")
    dropout = float(config.get("hidden_dropout_prob", 0.1))
    return {
        "layers": config["num_hidden_layers"],
        "d_model": config["hidden_size"],
        "heads": config["num_attention_heads"],
        "d_ff": config["intermediate_size"],
        "positions": "learned",
        "max_length": config["max_position_embeddings"] - _first_position(config),
        "input_dropout": dropout,
        "attention_dropout": float(config.get("attention_probs_dropout_prob", 0.1)),
        "output_dropout": dropout,
        "tie_embeddings": True,
        "objective": "masked",
        "norm": "post",
        "norm_eps": float(config.get("layer_norm_eps", 1e-12)),
        "activation": _activation(config.get("hidden_act", "gelu")),
        "embedding_norm": True,
        "output_transform": True,
        "output_bias": True,
    }


def _first_position(config: Mapping[str, Any]) -> int:
    """The first position's number: RoBERTa counts from behind the padding token's number."""
    first: int = config["pad_token_id"] + 1
    return first


def _roberta_weights(
    config: Mapping[str, Any], options: Mapping[str, Any], found: Mapping[str, Tensor]
) -> dict[str, Tensor]:
    theirs = _without_prefix(found, "roberta.")
    weights = {
        "embedding.weight": theirs["embeddings.word_embeddings.weight"],
        # All tokens are of type 0, whose embedding is added to every position's.
        "position_embedding.weight": theirs["embeddings.position_embeddings.weight"][
            _first_position(config) :
        ]
        + theirs["embeddings.token_type_embeddings.weight"][0],
        **_pair(theirs, "embeddings.LayerNorm", "embedding_norm"),
        **_pair(theirs, "lm_head.dense", "output_transform.0"),
        **_pair(theirs, "lm_head.layer_norm", "output_transform.2"),
        "output_bias": theirs["lm_head.bias"],
    }
    for layer in range(options["layers"]):
        ours, block = f"blocks.{layer}", f"encoder.layer.{layer}"
        for part in ("weight", "bias"):
            maps = [theirs[f"{block}.attention.self.{name}.{part}"] for name in ("query", "key", "value")]
            weights[f"{ours}.attention.qkv.{part}"] = torch.cat(maps)
        for name, place in (
            ("attention.output.dense", "attention.output"),
            ("attention.output.LayerNorm", "attention_norm"),
            ("intermediate.dense", "feed_forward.0"),
            ("output.dense", "feed_forward.2"),
            ("output.LayerNorm", "feed_forward_norm"),
        ):
            weights |= _pair(theirs, f"{block}.{name}", f"{ours}.{place}")
    return weights


def _pretrained(
    config: Mapping[str, Any], options: Mapping[str, Any], weights: Mapping[str, Tensor]
) -> Pretrained:
    if weights["embedding.weight"].shape != (config["vocab_size"], options["d_model"]):
        found = tuple(weights["embedding.weight"].shape)
        raise ValueError(f"the table of tokens is {found}, not vocab_size x d_model")
    for name in ("bos_token_id", "eos_token_id"):
        if not 0 <= config[name] < config["vocab_size"]:
            raise ValueError(f"{name} {config[name]} is none of the {config['vocab_size']} tokens")
    return Pretrained(
        kind=HUGGING_FACE,
        options=options,
        weights=weights,
        root_id=config["bos_token_id"],
        eos_id=config["eos_token_id"],
    )


def _without_prefix(found: Mapping[str, Tensor], prefix: str) -> dict[str, Tensor]:
    return {name.removeprefix(prefix): value for name, value in found.items()}


def _pair(theirs: Mapping[str, Tensor], name: str, ours: str) -> dict[str, Tensor]:
    """Return a weight and its bias under our name."""
    return {f"{ours}.{part}": theirs[f"{name}.{part}"] for part in ("weight", "bias")}


def _activation(name: str) -> str:
    if name not in _ACTIVATIONS:
        raise ValueError(f"the activation {name!r} is none of {', '.join(sorted(_ACTIVATIONS))}")
    return _ACTIVATIONS[name]
