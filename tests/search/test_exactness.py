"""Surprisals: exact with an exhaustive beam, the same in any company, close in half precision."""

from __future__ import annotations

import copy
import math
from collections.abc import Sequence
from functools import lru_cache
from pathlib import Path

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from search_oracle import PAD, exhaustive_prefixes, parts, row, save_checkpoints, tiny_model

from pdtools.files import Rejects
from pdtools.models import collate, load_checkpoint
from pdtools.search import Model, beam_search, load_model
from pdtools.search.inputs import SourcedLine
from pdtools.search.options import SearchOptions
from pdtools.search.surprisal import Unit, surprisals
from pdtools.tokenization import split_spaces

KINDS = ["pushdown", "head", "base"]
EXHAUSTIVE = 42  # derivations of five tokens
# Nats per token and per attachment. bf16 keeps eight bits, these random weights are larger than trained
# ones, and the scores of attachments are larger than those of tokens.
BF16_TOLERANCE, BF16_ATTACHMENT_TOLERANCE = 0.05, 0.15


@pytest.fixture(scope="module")
def folders(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    return save_checkpoints(tmp_path_factory.mktemp("models"))[0]


@lru_cache
def model(folder: Path, max_batch: int | None) -> Model:
    return load_model(folder, SearchOptions(beam=EXHAUSTIVE, max_batch=max_batch))


def rows(
    folder: Path, texts: Sequence[str], unit: Unit = "nats", max_batch: int | None = None
) -> list[list[float]]:
    """The surprisals of each line of a file; none for a line that has no score."""
    words = [split_spaces(text) for text in texts]
    sentences = [SourcedLine(found, found, "in.txt", n) for n, found in enumerate(words, start=1)]
    found = surprisals(sentences, model(folder, max_batch), rejects=Rejects("skip"), unit=unit)
    return [[line.surprisal for line in result.rows] for result in found]


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize(("unit", "size"), [("bits", math.log(2)), ("nats", 1.0)])
def test_every_row_is_exact_with_an_exhaustive_beam(
    folders: dict[str, Path], kind: str, unit: Unit, size: float
) -> None:
    """Row t is log of the sum over all histories before x_t, less the same with x_t."""
    texts = ["a b c a b", "c", "b b c", "a c"]
    loaded = load_checkpoint(folders[kind])
    for text, found in zip(texts, rows(folders[kind], texts, unit), strict=True):
        ids = loaded.tokenizer.encode(split_spaces(text)).ids[1:-1].tolist()
        if kind == "base":
            token, _ = parts(loaded.model, ids, [[*range(len(ids) + 1), 0]])
            prefixes = token[0].cumsum()
        else:
            prefixes = np.array(exhaustive_prefixes(loaded.model, ids))
        assert found == pytest.approx(-np.diff(prefixes) / size, rel=2e-6, abs=1e-5)
        assert sum(found) == pytest.approx(-prefixes[-1] / size, rel=2e-6, abs=1e-5)


texts = st.lists(
    st.one_of(
        st.lists(st.sampled_from("abc"), max_size=5).map(" ".join),
        st.sampled_from(["a zebra", "a " * 20]),  # an unknown word; longer than the model
    ),
    max_size=12,
)


@pytest.mark.parametrize("kind", KINDS)
@settings(max_examples=15)
@given(texts=texts, data=st.data())
def test_nothing_else_in_the_file_matters(
    folders: dict[str, Path], kind: str, texts: list[str], data: st.DataObject
) -> None:
    """Whatever the order, the neighbours, the batches and so the padding."""
    alone = {text: rows(folders[kind], [text])[0] for text in {*texts}}
    shuffled = data.draw(st.permutations(texts))
    together = rows(folders[kind], shuffled, max_batch=data.draw(st.sampled_from([None, 1, 2, 5])))
    for text, found in zip(shuffled, together, strict=True):
        assert found == pytest.approx(alone[text], rel=2e-6, abs=1e-5)


def strings(count: int) -> list[list[int]]:
    rng = np.random.default_rng(0)
    return [rng.integers(3, 6, size=n).tolist() for n in rng.integers(1, 13, size=count)]


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("settings", [{}, {"positions": "learned", "depth_space": "hidden"}])
def test_half_precision_is_close_in_search(seed: int, settings: dict[str, str]) -> None:
    model = tiny_model(seed=seed, **settings)
    half = copy.deepcopy(model).to(torch.bfloat16)
    ids = [row(tokens) for tokens in strings(8)]
    # A beam of one thousand leaves out next to nothing, so that both search the same hypotheses.
    for one, other in zip(
        beam_search(model, ids, search=SearchOptions(beam=1000)),
        beam_search(half, ids, search=SearchOptions(beam=1000)),
        strict=True,
    ):
        assert np.abs(one.logprobs - other.logprobs).max() < BF16_TOLERANCE
        assert other.logprobs.sum() == pytest.approx(other.marginal, rel=2e-6, abs=1e-6)


@pytest.mark.parametrize("name", ["pushdown", "transformer"])
@pytest.mark.parametrize("mixed", [True, False])
def test_half_precision_is_close_given_the_tree(name: str, mixed: bool) -> None:
    """With bf16 weights, and with float32 weights under the mixed precision that training uses."""
    model = tiny_model(name)
    half = model if mixed else copy.deepcopy(model).to(torch.bfloat16)
    trees = [(row(tokens), np.array([*range(len(tokens) + 1), 0], np.int32)) for tokens in strings(8)]
    batch = collate(trees, PAD)
    with torch.no_grad():
        exact = model.forward_parts(batch)
        with torch.autocast("cpu", dtype=torch.bfloat16, enabled=mixed):
            found = half.forward_parts(batch)
    assert found.token_logprobs.dtype == torch.float32
    assert (found.token_logprobs - exact.token_logprobs).abs().max() < BF16_TOLERANCE
    assert (found.attach_logprobs - exact.attach_logprobs).abs().max() < BF16_ATTACHMENT_TOLERANCE
