"""Tiny random models, and the plain reference that the search is measured against."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path

import numpy as np
import torch

from pdtools.models import LanguageModel, build_model, collate, make_config, save_checkpoint
from pdtools.tokenization import Tokenizer, train_word_tokenizer

WORDS = ("a", "b", "c")
PAD, ROOT, EOS = 0, 1, 2
# Models with derivations of attachments.
KINDS = {
    "pushdown": {"name": "pushdown"},
    "hidden": {"name": "pushdown", "depth_space": "hidden", "positions": "learned"},
    "shallow": {"name": "pushdown", "depths": 2, "pushdown_layers": "last 1"},
    "prefix": {"name": "pushdown", "depths": 2, "pushdown_layers": "last 1", "head_reads": "prefix"},
    "distances": {"name": "pushdown", "depths": 2, "positions": "alibi", "stack_distances": True},
    "head": {"name": "transformer", "attachment_head": True},
}


def tiny_model(name: str = "pushdown", seed: int = 0, **settings: object) -> LanguageModel:
    """A model whose random weights are large enough that derivations differ widely in probability."""
    torch.manual_seed(seed)
    shape = {"vocab_size": 6, "pad_id": PAD, "root_id": ROOT, "eos_id": EOS}
    trunk = {"layers": 2, "d_model": 16, "heads": 2, "d_ff": 32, "max_length": 16}
    model = build_model(name, make_config(name, {**shape, **trunk, **settings})).eval()
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.normal_(std=0.4)
    return model


def all_attachments(n: int) -> Iterator[list[int]]:
    """Every derivation of n tokens in the sentence layout, found by trying (Catalan(n) of them)."""

    def extend(attach: list[int], stack: list[int]) -> Iterator[list[int]]:
        k = len(attach)
        if k == n + 1:
            yield [*attach, 0]
            return
        yield from extend([*attach, k], [*stack, k])
        for slot, last in enumerate(stack):
            yield from extend([*attach, last], [*stack[:slot], k])

    yield from extend([0], [])


def row(tokens: Sequence[int]) -> np.ndarray:
    """ROOT, the tokens, and end-of-sentence."""
    return np.array([ROOT, *tokens, EOS], dtype=np.int32)


def parts(
    model: LanguageModel, tokens: Sequence[int], attach: Sequence[Sequence[int]]
) -> tuple[np.ndarray, np.ndarray]:
    """Log-probabilities of tokens and of attachments under several derivations of one string.

    Returns:
        Two float64 (derivations, n + 2), by teacher forcing.
    """
    with torch.no_grad():
        found = model.forward_parts(collate([(row(tokens), np.array(a)) for a in attach], PAD))
    return found.token_logprobs.double().numpy(), found.attach_logprobs.double().numpy()


def logsumexp(values: np.ndarray) -> float:
    """log Σ exp of a vector."""
    return float(np.logaddexp.reduce(values))


def exhaustive_prefixes(model: LanguageModel, tokens: list[int]) -> list[float]:
    """A_t by the definition: all histories of t − 1 tokens, joint with the first t tokens."""
    sums = [0.0]
    for t in range(1, len(tokens) + 2):
        later = [*range(t, len(tokens) + 1), 0]
        token, attach = parts(model, tokens, [a[:-1] + later for a in all_attachments(t - 1)])
        sums.append(logsumexp(token[:, : t + 1].sum(1) + attach[:, :t].sum(1)))
    return sums


def save_checkpoints(
    folder: Path, *, window: int | None = None, **settings: object
) -> tuple[dict[str, Path], Tokenizer]:
    """A pushdown model, a base model with the attachment head, and one without; words a, b, c, no unk.

    ``window``: the number of positions of models for windows.
    """
    shards: dict[str, object] = {"layout": "sentence", "factor": "right", "text_style": "ptb"}
    if window is not None:
        shards |= {"layout": "window", "window": window}
        settings |= {"layout": "window", "max_length": window + 1}
    tokenizer = train_word_tokenizer(WORDS, text_style="ptb", unk=False)
    assert (tokenizer.pad_id, tokenizer.root_id, tokenizer.eos_id) == (PAD, ROOT, EOS)
    common = {"vocab_size": tokenizer.vocab_size, "positions": "learned", **settings}
    models = {
        "pushdown": tiny_model("pushdown", **common),
        "head": tiny_model("transformer", attachment_head=True, **common),
        "base": tiny_model("transformer", **common),
    }
    for name, model in models.items():
        save_checkpoint(folder / name, model, tokenizer, shards=shards)
    return {name: folder / name for name in models}, tokenizer
