"""Checks that a Hugging Face model is causal, by its configuration and by its outputs."""

from __future__ import annotations

from typing import Any

import torch

from pdtools.errors import PdtoolsError

_PROBE_LENGTH = 8
# Relative tolerances for log-probabilities: mixtures of experts batch tokens, and round differently with
# other batches.
_ROUNDING = {torch.float32: 1e-4, torch.bfloat16: 2e-2}


def check_causal_config(folder: str, config: Any) -> None:
    """Refuse an architecture that sees the future, before it is loaded as if it did not.

    Raises:
        PdtoolsError: for encoder-decoders and for masked models that are not configured as decoders.
    """
    from transformers import MODEL_FOR_MASKED_LM_MAPPING

    kind = config.model_type
    if getattr(config, "is_encoder_decoder", False):
        raise _not_causal(folder, kind, "it is an encoder-decoder")
    is_decoder = any(getattr(config, name, False) for name in ("is_decoder", "causal"))  # XLM's name for it
    if type(config) in MODEL_FOR_MASKED_LM_MAPPING and not is_decoder:
        raise _not_causal(folder, kind, "it is a masked language model, which sees what comes after a token")


@torch.inference_mode()
def check_causal(folder: str, model: Any, longest: int | None) -> None:
    """Refuse a model whose log-probabilities depend on later tokens, whatever its configuration says.

    It reads a text, and the same text with other endings from each of its tokens on.

    Args:
        folder: the name in errors.
        model: the model, ready for use.
        longest: number of tokens that it can read; None: any number.

    Raises:
        PdtoolsError: if the log-probabilities before an ending depend on it.
    """
    n = min(_PROBE_LENGTH, longest or _PROBE_LENGTH)
    vocab_size = model.get_input_embeddings().num_embeddings
    draw = torch.Generator().manual_seed(0)
    texts = torch.randint(vocab_size, (n, n), generator=draw)  # row 0: the text; row k: another end from k on
    others = (texts[0] + 1 + texts[1:] % max(1, vocab_size - 1)) % vocab_size
    texts = torch.cat([texts[:1], torch.where(torch.ones(n - 1, n).triu(1).bool(), others, texts[0])])
    tokens = texts.to(model.device)
    logits = model(input_ids=tokens, attention_mask=torch.ones_like(tokens), use_cache=False).logits
    logprobs = logits.float().log_softmax(2).cpu()  # (n, n, V)
    before = torch.ones(n, n).tril(-1).bool()  # row k: the positions before k
    differences = (logprobs - logprobs[0])[before].nan_to_num(0).abs()  # impossible tokens: -inf both times
    largest = logprobs.abs().where(logprobs.isfinite(), 0).max()
    if (differences > _ROUNDING[model.dtype] * (1 + largest)).any():
        reason = (
            f"log-probabilities of its tokens depend on what follows them (by {differences.max():.2g} nats)"
        )
        raise _not_causal(folder, model.config.model_type, reason)


def _not_causal(folder: str, kind: str, reason: str) -> PdtoolsError:
    return PdtoolsError(f"{folder}: {kind} is not causal, so it has no surprisals: {reason}")
