"""What may follow a prefix, token by token, against one teacher-forced pass."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from search_oracle import all_attachments, row, tiny_model
from window_oracle import window_tokens

from pdtools.models import collate
from pdtools.search import next_token_logprobs


@pytest.mark.parametrize("max_batch", [None, 1, 3])
@pytest.mark.parametrize("name", ["pushdown", "transformer"])
def test_it_equals_teacher_forcing(name: str, max_batch: int | None) -> None:
    model = tiny_model(name=name)
    rng = np.random.default_rng(3)
    cases = [
        (rng.integers(3, 6, size=n).tolist(), attach) for n in (3, 0, 4, 1) for attach in all_attachments(n)
    ]
    prefixes = [row(tokens)[:-1] for tokens, _ in cases]
    attachments = [np.array(attach[:-1], dtype=np.int32) for _, attach in cases]
    found = next_token_logprobs(model, prefixes, attachments, max_batch=max_batch)
    assert found.shape == (len(cases), model.vocab_size)
    np.testing.assert_allclose(np.exp(found).sum(1), 1, rtol=2e-6, atol=1e-5)
    for token in (1, 4):
        longer = [
            (np.append(prefix, [token, model.eos_id]), np.append(attach, [len(prefix), 0]))
            for prefix, attach in zip(prefixes, attachments, strict=True)
        ]
        forced = model.forward_parts(collate(longer, model.pad_id)).token_logprobs.detach().numpy()
        at = [len(prefix) for prefix in prefixes]
        np.testing.assert_allclose(found[:, token], forced[np.arange(len(at)), at], rtol=2e-6, atol=1e-5)


@pytest.mark.parametrize("roots", ["given", "predicted"])
def test_of_windows_nothing_is_read_after_the_prefix(roots: str) -> None:
    """Where ROOT is predicted, it is one of the tokens that may follow, and is not taken to have come."""
    model = tiny_model("transformer", layout="window", window_roots=roots)
    sentences = ([[3, 4], [5]], [[5, 3, 3]], [[4], [3, 5, 4]], [[]])
    prefixes = [np.array(window_tokens(each), np.int32) for each in sentences]
    no_trees = [model.no_derivation(prefix) for prefix in prefixes]
    found = next_token_logprobs(model, prefixes, no_trees, max_batch=3)
    np.testing.assert_allclose(np.exp(found).sum(1), 1, rtol=2e-6, atol=1e-5)
    for token in range(model.vocab_size):
        for prefix, logprobs in zip(prefixes, found, strict=True):
            longer = np.append(prefix, np.int32(token))
            with torch.no_grad():
                forced = model.position_logprobs(model.pack([(longer, model.no_derivation(longer))]))
            assert logprobs[token] == pytest.approx(float(forced[0, len(prefix), token]), rel=2e-6, abs=1e-5)
