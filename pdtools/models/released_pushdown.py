"""Import of the Pushdown LM that Murty et al. (2023) released: ``model.pt``, a state dict, and ``vocab.pkl``.

The vocabulary is a pickle of one class; of both files nothing is executed. It numbers V tokens: GPT-2's,
as far as they occurred, ``<pad>`` and ``<eos>``. The model has two more: V is ``</s>``, which follows
``<eos>``, and V + 1 the start, our ROOT.
"""

from __future__ import annotations

import json
import pickle
import re
import zipfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any, ClassVar

import torch
from torch import Tensor

from pdtools.errors import InputError, PdtoolsError
from pdtools.files import atomic_directory, read_json, write_json
from pdtools.files.source import sha256_file
from pdtools.models.checkpoint import check_shapes, write_checkpoint
from pdtools.models.export import TRAINING_FILE
from pdtools.models.registry import empty_model, make_config
from pdtools.models.transformer.config import TransformerConfig
from pdtools.provenance.hub import IMPORTED, check_no_hub_name, name_of_snapshot
from pdtools.tokenization import Tokenizer
from pdtools.tokenization.description import EOS, PAD, ROOT, check_numbers, splits_bytes, vocabulary_of
from pdtools.tokenization.tokenizer import TOKENIZER_FILE

WEIGHTS, VOCABULARY = IMPORTED
FINAL = "</s>"
_CLASS = ("vocabulary", "WordVocabulary")
# The number of heads in every released model: its option n_heads multiplies the feed-forward width.
HEADS = 8
# Constants that are stored beside the weights, and weights that nothing uses.
_UNUSED = re.compile(
    r"(.+\.)?(int_seq|pos_encoding|pos\.pe)|attachment_head\.(data_to_q\.weight|multi_head_merge\.weight"
    r"|global_(pos|content)_bias)"
)
_LAYER = re.compile(r"trafo\.encoder\.layers\.(\d+)\.")
_OPTIONS = {
    "positions": "relative",
    "position_biases": False,
    "norm": "post",
    "activation": "relu",
    "attention_bias": False,
    "output_bias": True,
    "scale_embeddings": True,
    "feed_forward_dropout": 0.1,
    "attachment_head": True,
    "head_form": "released",
    "normalize": "all",
    "initialization": "released",
}
# Keys of the configuration that a user decides; the source decides the others.
_FREE = re.compile(r"normalize|.*dropout")
_NORMALIZED = (
    "attachments are normalised over all tokens before, as released (normalize = {}): what illegal ones"
    " would have is lost, and p(x) does not sum to 1 (--set config.normalize=allowed: over legal ones)"
)


def import_model(
    source: str | Path,
    output: str | Path,
    *,
    tokenizer: str | Path | None = None,
    text_style: str = "ptb",
    options: Mapping[str, Any] | None = None,
    provenance: Mapping[str, Any] | None = None,
    overwrite: bool = False,
) -> TransformerConfig:
    """Write the model as a checkpoint, and return its configuration.

    Args:
        source: its folder, one of the hub's cache included.
        output: the checkpoint's folder.
        tokenizer: the folder of its tokenizer; by default the source.
        text_style: how words become text for it.
        options: keys of its configuration that are to differ: ``normalize``, and dropouts.
        provenance: a description of this run; ``training.json`` holds it, and the source's digests.
        overwrite: replace an existing folder.

    Raises:
        InputError: for a source or tokenizer that cannot be read, or that do not fit each other.
        PdtoolsError: for other options, or other values of them.
    """
    check_no_hub_name(source)
    folder = Path(source)
    files = {name: folder / name for name in IMPORTED}
    if not all(file.is_file() for file in files.values()):
        if not folder.is_dir():
            raise InputError("not a folder" if folder.exists() else "no such folder", file=source)
        raise InputError(f"not a released Pushdown LM: {' and '.join(files)} are not here", file=source)
    words = read_vocabulary(files[VOCABULARY])
    found = read_state(files[WEIGHTS])
    made = {**_options(words, found, files[WEIGHTS]), **(options or {})}
    kind = "pushdown" if "depths" in made else "transformer"
    config: TransformerConfig = make_config(kind, made)
    if fixed := [name for name in options or () if not _FREE.fullmatch(name)]:
        raise PdtoolsError(f"config.{fixed[0]} is read off the source: set only normalize and dropouts")
    weights = _converted(found, config.layers, files[WEIGHTS])
    if lacking := [name for name, values in weights.items() if not bool(values.isfinite().all())]:
        raise InputError(f"{lacking[0]} holds values that are not numbers", file=files[WEIGHTS])
    own = gpt2_tokenizer(Path(tokenizer or source), words, text_style, files[VOCABULARY])
    check_shapes(kind, config, weights, files[WEIGHTS])
    record = {
        "format": "released-pushdown",
        "source": name_of_snapshot(source) or str(source),
        "sha256": {name: sha256_file(file) for name, file in files.items()},
    }
    with atomic_directory(output, kind="checkpoint", overwrite=overwrite) as place:
        model = empty_model(kind, config)
        shards = {"layout": "sentence", "factor": "right", "text_style": text_style}
        write_checkpoint(place, model, own, shards=shards, trained={}, weights=weights, stub=True)
        write_json(place / TRAINING_FILE, {"imported": record, "provenance": dict(provenance or {})})
    return config


def notes(config: TransformerConfig) -> tuple[str, ...]:
    """Lines for the user on an imported model: what it computes otherwise than models trained here."""
    return () if config.normalize == "allowed" else (_NORMALIZED.format(config.normalize),)


def _options(words: Mapping[str, int], found: Mapping[str, Tensor], file: Path) -> dict[str, Any]:
    """The configuration, with ``depths`` if the model has a tape."""
    n_words = len(words)
    embedding = _get(found, "input_embedding.weight", file)
    if len(embedding) != n_words + 2:
        raise InputError(
            f"the model has {len(embedding)} tokens, where {VOCABULARY} with {n_words} words needs"
            f" {n_words + 2} (</s> and the start besides)",
            file=file,
        )
    return {
        **_OPTIONS,
        **_shape(found, file),
        "vocab_size": n_words + 2,
        "pad_id": words[PAD],
        "eos_id": words[EOS],
        "final_id": n_words,
        "root_id": n_words + 1,
    }


# --- weights ----------------------------------------------------------------------------------


def read_state(file: Path) -> dict[str, Tensor]:
    """The state dict in a file of ``torch.save``, itself or as ``state_dict`` in a dict.

    Raises:
        InputError: if it cannot be read, or holds objects that are not tensors and plain values.
    """
    try:
        with open(file, "rb") as stream:
            is_zip = zipfile.is_zipfile(stream)
        found = torch.load(file, map_location="cpu", weights_only=True, mmap=is_zip or None)
    except pickle.UnpicklingError as error:
        reason = "damaged, or holds objects that are not tensors and plain values: none is loaded"
        raise InputError(reason, file=file) from error
    except Exception as error:  # torch has an error of any type for a damaged file
        raise InputError("damaged: not a file that torch.save wrote", file=file) from error
    if isinstance(found, dict) and isinstance(found.get("state_dict"), dict):
        found = found["state_dict"]
    tensors = isinstance(found, dict) and all(
        isinstance(name, str) and isinstance(values, Tensor) for name, values in found.items()
    )
    if not tensors:
        raise InputError("not a state dict: weights by name", file=file)
    return {name: values for name, values in found.items() if not _UNUSED.fullmatch(name)}


def _get(found: Mapping[str, Tensor], name: str, file: Path) -> Tensor:
    if name not in found:
        raise InputError(f"not a released Pushdown LM: {name} is missing", file=file)
    values = found[name]
    if not values.is_floating_point() or values.layout != torch.strided or values.is_meta:
        raise InputError(f"{name} holds {values.dtype}, not weights", file=file)
    if values.ndim != (1 if name.endswith("bias") or ".norm" in name else 2):
        raise InputError(f"{name} has {values.ndim} dimensions, unlike a released Pushdown LM's", file=file)
    return values


def _shape(found: Mapping[str, Tensor], file: Path) -> dict[str, Any]:
    """The options that shapes of weights tell."""
    layers = 1 + max((int(match[1]) for match in map(_LAYER.match, found) if match), default=-1)
    if not layers:
        raise InputError("not a released Pushdown LM: it has no layers", file=file)
    d_model = _get(found, "input_embedding.weight", file).shape[1]
    shape: dict[str, Any] = {
        "layers": layers,
        "d_model": d_model,
        "heads": HEADS,
        "d_ff": len(_get(found, "trafo.encoder.layers.0.linear1.weight", file)),
    }
    tables = [f"trafo.encoder.layers.{layer}.self_attn.depth_embed.weight" for layer in range(layers)]
    with_tape = [layer for layer, name in enumerate(tables) if name in found]
    if not with_tape:
        return shape
    if with_tape != list(range(with_tape[0], layers)):
        raise InputError("layers without a tape come after layers with one: none of our models", file=file)
    return {
        **shape,
        "depths": len(found[tables[-1]]),
        "pushdown_layers": "all" if len(with_tape) == layers else f"last {len(with_tape)}",
    }


def _converted(found: Mapping[str, Tensor], layers: int, file: Path) -> dict[str, Tensor]:
    """All weights by our names."""
    left = dict(found)

    def take(name: str) -> Tensor:
        _get(left, name, file)
        return left.pop(name).float()

    def pair(theirs: str, ours: str) -> dict[str, Tensor]:
        return {f"{ours}.{part}": take(f"{theirs}.{part}") for part in ("weight", "bias")}

    weights = {"embedding.weight": take("input_embedding.weight"), "output_bias": take("output_map.bias")}
    for layer in range(layers):
        theirs, ours = f"trafo.encoder.layers.{layer}", f"blocks.{layer}"
        attention = f"{theirs}.self_attn"
        # Keys and values of each head lie together.
        queries, by_head = take(f"{attention}.data_to_q.weight"), take(f"{attention}.data_to_kv.weight")
        if len(by_head) % (2 * HEADS) or by_head.shape[1] != queries.shape[1]:
            shape = " by ".join(map(str, by_head.shape))
            raise InputError(f"{attention}.data_to_kv.weight is not for {HEADS} heads: {shape}", file=file)
        keys_and_values = by_head.unflatten(0, (HEADS, 2, -1)).transpose(0, 1).flatten(0, 2)
        weights |= {
            f"{ours}.attention.qkv.weight": torch.cat([queries, keys_and_values]),
            f"{ours}.attention.output.weight": take(f"{attention}.multi_head_merge.weight"),
            f"{ours}.attention.terms.0.distance_map.weight": _distances(
                take(f"{attention}.pos_to_pq.weight")
            ),
        }
        if f"{attention}.depth_embed.weight" in left:
            table = take(f"{attention}.depth_embed.weight")
            weights[f"{ours}.attention.terms.1.embedding.weight"] = table
        for name, place in (
            ("norm1", "attention_norm"),
            ("linear1", "feed_forward.0"),
            ("linear2", "feed_forward.2"),
            ("norm2", "feed_forward_norm"),
        ):
            weights |= pair(f"{theirs}.{name}", f"{ours}.{place}")
    theirs = "attachment_head"
    weights |= {
        "head.query_map.weight": take(f"{theirs}.data_to_q_prime.weight"),
        "head.key_map.weight": take(f"{theirs}.data_to_k_prime.weight"),
        "head.distance_map.weight": _distances(take(f"{theirs}.pos_to_pq_stack.weight")),
    }
    networks = [("q_next_word_mlp", "next_query"), ("k_next_word_mlp", "next_key")]
    depths = take(f"{theirs}.depth_embed.weight")
    if any(name.endswith("terms.1.embedding.weight") for name in weights):
        weights["head.depth_embedding.weight"] = depths
        networks.append(("key_and_stack_info_composer", "key"))
    for name, place in networks:
        for part in (0, 3):
            weights |= pair(f"{theirs}.{name}.{part}", f"head.{place}.{part}")
    if left:
        raise InputError(f"{min(left)} is no weight of a released Pushdown LM", file=file)
    return weights


def _distances(weight: Tensor) -> Tensor:
    """A map of sinusoids of distances, (…, D), with ours as its inputs.

    Theirs are of key minus query, sines and cosines in turn; ours of query minus key, sines first.
    """
    return torch.cat([-weight[..., 0::2], weight[..., 1::2]], dim=-1)


# --- vocabulary -------------------------------------------------------------------------------


class _Record:
    """An object of the one class that a vocabulary may hold, with nothing but its attributes."""


class _Unpickler(pickle._Unpickler):  # in C, a number in a small file could take all memory
    # Bytearrays too: their memory is taken before they are read.
    dispatch: ClassVar = dict(pickle._Unpickler.dispatch)
    del dispatch[pickle.BYTEARRAY8[0]]

    def find_class(self, module: str, name: str) -> Any:
        if (module, name) != _CLASS:
            raise pickle.UnpicklingError(f"{module}.{name}")
        return type("_Own", (_Record,), {})  # a pickle can set attributes of a class

    def persistent_load(self, _: Any) -> Any:
        raise pickle.UnpicklingError("a persistent id")


def read_vocabulary(file: Path) -> dict[str, int]:
    """The numbers of the words in ``vocab.pkl``, from 0; nothing is executed.

    Raises:
        InputError: if it is damaged, holds any other class, or no such vocabulary.
    """
    try:
        with open(file, "rb") as stream:
            found = _Unpickler(stream).load()
        words = vars(found)["words"] if isinstance(found, _Record) else None
    except pickle.UnpicklingError as error:
        reason = f"holds {error}, which is not loaded: a vocabulary holds {'.'.join(_CLASS)} alone"
        raise InputError(reason.splitlines()[0], file=file) from error
    except Exception as error:  # any type, for a damaged pickle
        raise InputError("damaged: not a pickled vocabulary", file=file) from error
    if type(words) is not dict or not all(
        type(word) is str and type(number) is int for word, number in words.items()
    ):
        raise InputError("not a vocabulary: words with their numbers", file=file)
    if sorted(words.values()) != list(range(len(words))):
        raise InputError(f"its {len(words)} words are not numbered from 0 on, each once", file=file)
    for token in (PAD, EOS):
        if token not in words:
            raise InputError(f"the vocabulary has no {token}, which models of sentences have", file=file)
    for token in (ROOT, FINAL):
        if token in words:
            raise InputError(
                f"the vocabulary has a word {token}, which is the name of another token", file=file
            )
    return words


# --- tokenizer --------------------------------------------------------------------------------


def gpt2_tokenizer(folder: Path, words: Mapping[str, int], text_style: str, vocabulary: Path) -> Tokenizer:
    """GPT-2's tokenizer with a vocabulary's numbers; tokens without one come after all others.

    Args:
        folder: it holds ``tokenizer.json``, or ``vocab.json`` and ``merges.txt``; or such a file.
        words: the vocabulary's numbers.
        text_style: see :class:`Tokenizer`.
        vocabulary: the vocabulary's file, for messages.

    Raises:
        InputError: if it is not there, no byte-level BPE, or lacks words of the vocabulary.
    """
    description = _description(folder)
    known = vocabulary_of(description) or {}
    special = {PAD: words[PAD], EOS: words[EOS], FINAL: len(words), ROOT: len(words) + 1}
    if missing := [word for word in words if word not in known and word not in special]:
        raise InputError(
            f"the vocabulary has {missing[0]!r}, no token of the tokenizer in {folder}: not GPT-2's?",
            file=vocabulary,
        )
    numbers = {**words, **special}
    others = [token for token in known if token not in numbers]
    numbers |= {token: len(special) - 2 + len(words) + place for place, token in enumerate(others)}
    made = {
        **description,
        "truncation": None,
        "padding": None,
        "post_processor": None,
        "added_tokens": [_special_token(token, number) for token, number in special.items()],
        "pre_tokenizer": {**description["pre_tokenizer"], "add_prefix_space": False},
        "model": {**description["model"], "vocab": numbers, "unk_token": None},
    }
    try:
        return Tokenizer(json.dumps(made), text_style, text_tokens=len(words) + 2)
    except Exception as error:  # tokenizers raises bare Exception
        raise InputError(f"not GPT-2's tokenizer: {str(error).splitlines()[0]}", file=folder) from error


def _special_token(token: str, number: int) -> dict[str, Any]:
    flags = dict.fromkeys(("single_word", "lstrip", "rstrip", "normalized"), False)
    return {"id": number, "content": token, **flags, "special": True}


def _description(folder: Path) -> dict[str, Any]:
    """The content of its ``tokenizer.json``."""
    hint = "name its folder, or hf:gpt2, with --tokenizer"
    file = folder / TOKENIZER_FILE if folder.is_dir() else folder
    if file.is_file():
        description = read_json(file)
        try:
            check_numbers(description)
            is_gpt2 = description["model"].get("type") == "BPE" and splits_bytes(description["pre_tokenizer"])
        except Exception as error:
            raise InputError("not a tokenizer", file=file, hint=hint) from error
        if not is_gpt2 or description.get("normalizer"):
            raise InputError("not GPT-2's tokenizer: no byte-level BPE", file=file, hint=hint)
        return dict(description)
    old = folder / "vocab.json", folder / "merges.txt"
    if not all(path.is_file() for path in old):
        raise InputError("GPT-2's tokenizer is not here", file=folder, hint=hint)
    from tokenizers import ByteLevelBPETokenizer

    try:
        backend = ByteLevelBPETokenizer.from_file(*map(str, old))
    except Exception as error:
        raise InputError("not GPT-2's tokenizer", file=old[0], hint=hint) from error
    return dict(json.loads(backend.to_str()))
