"""A released Pushdown LM, plainly: one derivation, one token at a time, on weights by their released names.

Nothing of pdtools computes here, and nothing of the released code is copied: formulas are written out in
float64.
"""

from __future__ import annotations

import json
import math
import pickle
import sys
import types
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch
from model_oracle import PlainStack, derivations
from numpy.typing import NDArray
from torch import Tensor

HEADS = 8
Vector = NDArray[np.float64]
CORPUS = ("the cat that saw dogs sleeps .", "The dogs chase the cat .", "dogs did n't sleep ?", "cats !")


def random_state(
    n_words: int,
    *,
    d: int = 16,
    layers: int = 2,
    factor: int = 2,
    depths: int = 50,
    tape: bool = True,
    first_tape: int = 0,
    seed: int = 0,
) -> dict[str, Tensor]:
    """A state dict with random weights; buffers and weights without use are in it too.

    Args:
        n_words, d, layers, factor, depths: its shape.
        tape: whether it has one, from layer ``first_tape`` on.
        seed: the seed of the weights.
    """
    random = torch.Generator().manual_seed(seed)

    def normal(*shape: int) -> Tensor:
        return torch.randn(shape, generator=random) * (0.4 if len(shape) == 1 else shape[-1] ** -0.5)

    state = {"int_seq": torch.arange(9), "input_embedding.weight": normal(n_words + 2, d)}
    state["output_map.bias"] = normal(n_words + 2)

    def linear(name: str, inputs: int, outputs: int, *, bias: bool = False) -> None:
        state[f"{name}.weight"] = normal(outputs, inputs)
        if bias:
            state[f"{name}.bias"] = normal(outputs)

    for layer in range(layers):
        place = f"trafo.encoder.layers.{layer}"
        for name, outputs in (
            ("data_to_q", d),
            ("data_to_kv", 2 * d),
            ("pos_to_pq", d),
            ("multi_head_merge", d),
        ):
            linear(f"{place}.self_attn.{name}", d, outputs)
        state[f"{place}.self_attn.pos_encoding"] = normal(9, d)
        if tape and layer >= first_tape:
            state[f"{place}.self_attn.depth_embed.weight"] = normal(depths, d // HEADS) * 2
        linear(f"{place}.linear1", d, factor * d, bias=True)
        linear(f"{place}.linear2", factor * d, d, bias=True)
        for name in ("norm1", "norm2"):
            state[f"{place}.{name}.weight"], state[f"{place}.{name}.bias"] = 1 + normal(d), normal(d)
    for name, outputs in (("data_to_q_prime", 2 * d), ("data_to_k_prime", 2 * d), ("pos_to_pq_stack", 2 * d)):
        linear(f"attachment_head.{name}", d, outputs)
    for name in ("data_to_q", "multi_head_merge"):
        linear(f"attachment_head.{name}", d, d)
    state["attachment_head.global_pos_bias"] = normal(HEADS, d // HEADS)
    state["attachment_head.depth_embed.weight"] = normal(depths, d // factor) * 2
    for name in ("q_next_word_mlp", "k_next_word_mlp"):
        linear(f"attachment_head.{name}.0", 3 * d, 2 * d, bias=True)
        linear(f"attachment_head.{name}.3", 2 * d, 2 * d, bias=True)
    if tape:
        width = 2 * d + d // factor
        linear("attachment_head.key_and_stack_info_composer.0", width, width, bias=True)
        linear("attachment_head.key_and_stack_info_composer.3", width, 2 * d, bias=True)
    return state


def save_tokenizer(folder: Path, vocab_size: int = 290) -> list[str]:
    """Write a byte-level BPE like GPT-2's, and return its tokens."""
    from tokenizers import ByteLevelBPETokenizer

    trained = ByteLevelBPETokenizer()
    trained.train_from_iterator(CORPUS, vocab_size=vocab_size, min_frequency=1, show_progress=False)
    trained.save(str(folder / "tokenizer.json"))
    return sorted(trained.get_vocab())


def save_vocabulary(file: Path, words: Mapping[str, int], protocol: int = 4, **others: Any) -> None:
    """Write the words as ``vocab.pkl`` has them: an object of a class that this program then forgets."""
    module = types.ModuleType("vocabulary")
    cls = type("WordVocabulary", (), {"__module__": "vocabulary", "__qualname__": "WordVocabulary"})
    module.WordVocabulary = cls  # type: ignore[attr-defined]
    made = cls()
    made.__dict__ = {
        **{"words": dict(words), "inv_words": {n: word for word, n in words.items()}, "_unk_index": None},
        **{"allow_any_word": False, "initialized": True, "split_punctuation": False, "to_save": ["words"]},
        **others,
    }
    sys.modules["vocabulary"] = module
    try:
        file.write_bytes(pickle.dumps(made, protocol=protocol))
    finally:
        del sys.modules["vocabulary"]


def save_released(folder: Path, *, without: Sequence[str] = ("!", "Ġ!"), **shape: Any) -> dict[str, Tensor]:
    """Write a whole model with its tokenizer; ``without`` are tokens that have no number."""
    folder.mkdir()
    tokens = [token for token in save_tokenizer(folder) if token not in without]
    words = {word: number for number, word in enumerate(["<pad>", *sorted([*tokens, "<eos>"])])}
    save_vocabulary(folder / "vocab.pkl", words)
    state = random_state(len(words), **shape)
    torch.save({"state_dict": state, "step": 3, "optimizer": {"state": {}}}, folder / "model.pt")
    return state


def words_of(folder: Path) -> dict[str, int]:
    """The numbers of the words in a folder of :func:`save_released`, by their order."""
    names = json.loads((folder / "tokenizer.json").read_text(encoding="utf-8"))["model"]["vocab"]
    return {word: number for number, word in enumerate(["<pad>", *sorted({*names, "<eos>"} - {"!", "Ġ!"})])}


def sinusoids(position: int, d: int) -> Vector:
    """Sines and cosines of a signed position, in turn."""
    angle = position * np.exp(np.arange(0, d, 2) * -math.log(10000.0) / d)
    return np.stack([np.sin(angle), np.cos(angle)], 1).ravel()


def log_softmax(scores: Vector) -> Vector:
    """The logarithm of the softmax."""
    return np.asarray(scores - scores.max() - np.log(np.exp(scores - scores.max()).sum()))


class PlainReleased:
    """The network on a state dict.

    Args:
        state: the state dict.
        normalize: "all", as it was released; "allowed"; "open".
    """

    def __init__(self, state: Mapping[str, Tensor], normalize: str = "all") -> None:
        self.weights = {name: values.double().numpy() for name, values in state.items()}
        self.normalize = normalize
        self.d = self.weights["input_embedding.weight"].shape[1]
        self.layers = sum(name.endswith("linear1.bias") for name in self.weights)
        self.n_words = len(self.weights["output_map.bias"]) - 2
        self.has_tape = "attachment_head.key_and_stack_info_composer.0.weight" in self.weights

    def logprobs(
        self, words: Sequence[int], eos: int, attach: Sequence[int]
    ) -> tuple[list[float], list[float]]:
        """The log p of the words, ``<eos>`` and ``</s>``; and of attachments, that of ``<eos>`` included."""
        self.inputs: list[list[Vector]] = [[] for _ in range(self.layers)]
        stack, final = PlainStack(), []
        final.append(self.read(self.n_words + 1, stack.tape))
        of_tokens, of_attachments = [], []
        for token, to in zip([*words, eos], [*attach, 0], strict=True):
            of_tokens.append(self.token(final[-1], token))
            of_attachments.append(
                self.attachment(final, stack, token, to, is_end=len(of_tokens) > len(words))
            )
            stack.push(to)
            final.append(self.read(token, stack.tape))
        return [*of_tokens, self.token(final[-1], self.n_words)], of_attachments

    def linear(self, name: str, x: Vector) -> Vector:
        """A linear map."""
        return np.asarray(self.weights[f"{name}.weight"] @ x + self.weights.get(f"{name}.bias", 0.0))

    def network(self, name: str, x: Vector) -> Vector:
        """Two linear maps with ReLU between them."""
        return self.linear(f"{name}.3", np.maximum(self.linear(f"{name}.0", x), 0))

    def token(self, hidden: Vector, token: int) -> float:
        """The log p of a token."""
        logits = self.weights["input_embedding.weight"] @ hidden + self.weights["output_map.bias"]
        return float(log_softmax(logits)[token])

    def depth(self, name: str, depth: int) -> Vector:
        """A row of a depth table; the last for all beyond."""
        table = self.weights[f"{name}.depth_embed.weight"]
        return np.asarray(table[min(depth, len(table) - 1)])

    def read(self, token: int, tape: Sequence[int]) -> Vector:
        """The final hidden state of the next token, given the tape after its own reduces."""
        x = self.weights["input_embedding.weight"][token] * math.sqrt(self.d)
        for layer, inputs in enumerate(self.inputs):
            place = f"trafo.encoder.layers.{layer}"
            inputs.append(x)
            x = self.norm(f"{place}.norm1", x + self.attend(f"{place}.self_attn", inputs, tape))
            between = np.maximum(self.linear(f"{place}.linear1", x), 0)
            x = self.norm(f"{place}.norm2", x + self.linear(f"{place}.linear2", between))
        return x

    def attend(self, place: str, inputs: Sequence[Vector], tape: Sequence[int]) -> Vector:
        """Attention of the newest token."""
        i, size = len(inputs) - 1, self.d // HEADS
        q = self.linear(f"{place}.data_to_q", inputs[i]).reshape(HEADS, size)
        scores, values = [], []
        for j, x in enumerate(inputs):
            k, v = self.linear(f"{place}.data_to_kv", x).reshape(HEADS, 2, size).transpose(1, 0, 2)
            distance = self.linear(f"{place}.pos_to_pq", sinusoids(j - i, self.d)).reshape(HEADS, size)
            key = k + distance
            if f"{place}.depth_embed.weight" in self.weights:
                key = key + self.depth(place, tape[j])
            scores.append((q * key).sum(1) / math.sqrt(size))
            values.append(v)
        weights = np.exp(np.stack([log_softmax(each) for each in np.array(scores).T]))  # (H, keys)
        return self.linear(
            f"{place}.multi_head_merge", np.einsum("hk,khd->hd", weights, np.array(values)).ravel()
        )

    def norm(self, name: str, x: Vector) -> Vector:
        """A layer norm."""
        scaled = (x - x.mean()) / math.sqrt(x.var() + 1e-5)
        return np.asarray(scaled * self.weights[f"{name}.weight"] + self.weights[f"{name}.bias"])

    def candidates(self, stack: PlainStack, *, is_end: bool) -> list[int]:
        """The positions that the normaliser is over."""
        if self.normalize == "allowed":
            return [0] if is_end else stack.legal()
        return list(range(len(stack.tape) + 1))

    def attachment(
        self, final: Sequence[Vector], stack: PlainStack, token: int, to: int, *, is_end: bool
    ) -> float:
        """The log p of the next token's attachment."""
        i = len(final) - 1
        seen = self.weights["input_embedding.weight"][token]
        before = self.linear("attachment_head.data_to_q_prime", final[i])
        q = self.network("attachment_head.q_next_word_mlp", np.concatenate([before, seen]))
        candidates = self.candidates(stack, is_end=is_end)
        scores = []
        for j in candidates:
            if j > i:
                key = self.network("attachment_head.k_next_word_mlp", np.concatenate([q, seen]))
            else:
                key = self.linear("attachment_head.data_to_k_prime", final[j])
                if self.has_tape:
                    depth = self.depth("attachment_head", stack.tape[j])
                    key = self.network(
                        "attachment_head.key_and_stack_info_composer", np.concatenate([key, depth])
                    )
            place = self.linear("attachment_head.pos_to_pq_stack", sinusoids(j - i - 1, self.d))
            scores.append(q @ (key + place))
        return float(log_softmax(np.array(scores))[candidates.index(to)])


def attachments(n: int, *, open_only: bool = False) -> Iterator[list[int]]:
    """The words' attachments in all derivations; ``open_only``: only to words in no constituent yet."""
    for derivation in derivations(n):
        attach, stack = derivation[1:-1], PlainStack()
        for k, to in enumerate(attach, start=1):
            if open_only and to != k and stack.tape[to] > 0:
                break
            stack.push(to)
        else:
            yield attach
