"""Strings in one row with their common tokens once: Hugging Face models give them the same scores."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from toy_gpt2 import save_gpt2

from pdtools.search import SentenceScore, load_model
from pdtools.search.batches import SortedStrings
from pdtools.search.families import causal as hf

TEXTS = ["a b c a", "a b c a", "a b", "a b c", "c", "a b b c a a b", "b a"]
strings = st.lists(st.lists(st.integers(3, 4), min_size=1, max_size=6), min_size=1, max_size=8)


@pytest.fixture(scope="module", params=sorted(hf.PACKED_MODELS))
def folder(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A random model of each architecture that is packed, with GPT-2's kind of tokenizer."""
    import transformers

    path = save_gpt2(tmp_path_factory.mktemp("packed") / request.param, TEXTS)
    if request.param != "gpt2":
        config = transformers.AutoConfig.for_model(
            request.param, vocab_size=300, hidden_size=16, num_hidden_layers=2, num_attention_heads=2,
            intermediate_size=32, max_position_embeddings=64,
        )  # fmt: skip
        torch.manual_seed(0)
        model = transformers.AutoModelForCausalLM.from_config(config)
        for parameter in model.parameters():
            parameter.data.normal_(std=0.3)
        model.save_pretrained(path)
    return path


def logprobs(folder: Path, bos: bool, packs: bool) -> list[np.ndarray]:
    model: Any = load_model(folder, bos=bos)
    model.family._packs &= packs
    found = model.score(TEXTS)  # without BOS, "c" has no score
    return [score.logprobs for score in found if isinstance(score, SentenceScore)]


@pytest.mark.parametrize("bos", [True, False])
@pytest.mark.parametrize("most", [1, 12, 1000])
def test_packed_scores_are_those_of_a_row_each(
    folder: Path, bos: bool, most: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(hf, "PACKED_TOKENS_CPU", most)
    packed, padded = (logprobs(folder, bos, packs) for packs in (True, False))
    for one, other in zip(packed, padded, strict=True):
        np.testing.assert_allclose(one, other, rtol=2e-6, atol=1e-5)


@given(strings)
def test_each_token_sees_its_own_prefix(tokens: list[list[int]]) -> None:
    group = SortedStrings.of([np.array(t, dtype=np.int32) for t in tokens])
    packed = group.packed()
    assert len(packed.tokens) == len({tuple(t[:k]) for t in tokens for k in range(1, len(t))})
    for ids, path in zip(group.ids, packed.paths, strict=True):
        for k, place in enumerate(path):
            assert packed.depths[place] == k
            seen = np.flatnonzero(packed.sees()[place])
            assert packed.tokens[seen].tolist() == ids[: k + 1].tolist()
            assert packed.depths[seen].tolist() == list(range(k + 1))


@pytest.mark.parametrize(("release", "packed"), [("4.51.3", False), ("4.57.0", True), ("5.0.0", True)])
def test_older_transformers_get_a_row_for_each_string(
    release: str, packed: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    import transformers

    monkeypatch.setattr(transformers, "__version__", release)
    assert hf._takes_masks() is packed
