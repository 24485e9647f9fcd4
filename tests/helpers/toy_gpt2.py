"""Tiny GPT-2 models with random weights, made on the spot: nothing is downloaded."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any


def save_gpt2(
    folder: Path,
    corpus: Iterable[str],
    *,
    vocab_size: int = 300,
    positions: int = 64,
    special: str | None = "<|endoftext|>",
    seed: int = 0,
) -> Path:
    """Save a GPT-2 and a byte-level BPE tokenizer trained on a corpus, as Hugging Face lays them out.

    Args:
        folder: made here; it must not exist.
        corpus: running text that the merges are learned from. Bytes outside it are tokens of their own.
        vocab_size: the number of tokens, the 256 bytes included.
        positions: the longest sentence in tokens, with the one before it.
        special: beginning, end and unknown token in one, as GPT-2 has it; None for a model without any.
        seed: for the weights, which are large enough that sentences differ widely in probability.
    """
    import transformers
    from tokenizers import ByteLevelBPETokenizer

    folder.mkdir(parents=True)
    trained = ByteLevelBPETokenizer()
    trained.train_from_iterator(
        corpus,
        vocab_size=vocab_size,
        min_frequency=1,
        special_tokens=[special] if special else [],
        show_progress=False,
    )
    trained.save_model(str(folder))
    named = dict.fromkeys(("bos_token", "eos_token", "unk_token"), special)
    tokenizer = transformers.GPT2TokenizerFast.from_pretrained(folder, **named)
    if special is None:
        tokenizer.bos_token = tokenizer.eos_token = None
    tokenizer.save_pretrained(folder)
    return save_tiny_gpt2(folder, tokenizer, positions=positions, seed=seed)


def save_tiny_gpt2(folder: Path, tokenizer: Any, *, positions: int, seed: int = 0) -> Path:
    """Save a GPT-2 for a tokenizer's vocabulary beside it."""
    import torch
    import transformers

    torch.manual_seed(seed)
    shape = {"n_positions": positions, "n_embd": 16, "n_layer": 2, "n_head": 2}
    ids = {"bos_token_id": tokenizer.bos_token_id, "eos_token_id": tokenizer.eos_token_id}
    model = transformers.GPT2LMHeadModel(transformers.GPT2Config(vocab_size=len(tokenizer), **ids, **shape))
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.normal_(std=0.3)
    model.save_pretrained(folder)
    return folder


def transformers_losses(folder: Path, texts: Sequence[str], *, bos: bool = True) -> list[float]:
    """−log p of each text as transformers computes it, in nats, summed over the tokens after the first."""
    import torch
    import transformers

    tokenizer = transformers.AutoTokenizer.from_pretrained(folder)
    model = transformers.AutoModelForCausalLM.from_pretrained(folder).eval()
    losses = []
    for text in texts:
        ids = torch.tensor([[tokenizer.bos_token_id] * bos + tokenizer(text)["input_ids"]])
        with torch.no_grad():
            losses.append(float(model(ids, labels=ids).loss) * (ids.shape[1] - 1))
    return losses


class Reference:
    """Texts by transformers alone: a tokenizer, a model, and the sums of its log-probabilities."""

    def __init__(self, folder: Path) -> None:
        import transformers

        self._tokenizer: Any = transformers.AutoTokenizer.from_pretrained(folder)
        self._model = transformers.AutoModelForCausalLM.from_pretrained(folder).eval()

    def ids(self, text: str) -> list[int]:
        """The tokens of a text, without those that the tokenizer puts around it."""
        found: list[int] = self._tokenizer(text, add_special_tokens=False)["input_ids"]
        return found

    def logprobs(self, text: str, *, before: str = "") -> list[float]:
        """The log p of each token, nats, BOS before the first; only for tokens after those that a text has
        in common with the text ``before`` the sentence in it."""
        import torch

        ids, context = self.ids(before + text), self.ids(before)
        known = next((i for i, pair in enumerate(zip(ids, context, strict=False)) if len({*pair}) > 1), None)
        row = torch.tensor([self._tokenizer.bos_token_id, *ids])
        with torch.no_grad():
            every = self._model(row[None]).logits[0, :-1].double().log_softmax(1)
        chosen: list[float] = every.gather(1, row[1:, None])[:, 0].tolist()
        return chosen[len(context) if known is None else known :]
