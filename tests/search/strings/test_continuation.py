"""What may follow a prefix, token by token, against one teacher-forced pass."""

from __future__ import annotations

import numpy as np
import pytest
from search_oracle import all_attachments, row, tiny_model

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
    np.testing.assert_allclose(np.exp(found).sum(1), 1, atol=1e-5)
    for token in (1, 4):
        longer = [
            (np.append(prefix, [token, model.eos_id]), np.append(attach, [len(prefix), 0]))
            for prefix, attach in zip(prefixes, attachments, strict=True)
        ]
        forced = model.forward_parts(collate(longer, model.pad_id)).token_logprobs.detach().numpy()
        at = [len(prefix) for prefix in prefixes]
        np.testing.assert_allclose(found[:, token], forced[np.arange(len(at)), at], atol=1e-5)
