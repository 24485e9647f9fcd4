"""How much a batch may hold."""

from __future__ import annotations

import pytest
import torch
from search_oracle import row, tiny_model

from pdtools.errors import PdtoolsError
from pdtools.search import batches, beam_search
from pdtools.search.options import SearchOptions


def test_long_sentences_and_little_memory_still_fit_one(monkeypatch: pytest.MonkeyPatch) -> None:
    model = tiny_model()
    few, many = (batches.hypotheses_that_fit(model, length) for length in (2000, 1000))
    assert 1 < few < many
    monkeypatch.setattr(batches, "CPU_BUDGET", 1)
    assert batches.hypotheses_that_fit(model, 12) == 1


def test_no_more_rows_than_a_cuda_grid_has_layers(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(batches, "CPU_BUDGET", 1 << 40)
    assert batches.hypotheses_that_fit(tiny_model(), 12) == 65535


@pytest.mark.parametrize(
    "error",
    [
        RuntimeError(
            "[enforce fail] DefaultCPUAllocator: can't allocate memory: you tried to allocate 8 bytes."
        ),
        RuntimeError("DefaultCPUAllocator: not enough memory: you tried to allocate 8 bytes."),
        torch.OutOfMemoryError("CUDA out of memory."),
        MemoryError(),
    ],
)
def test_a_lack_of_memory_is_explained(error: BaseException) -> None:
    with (
        pytest.raises(PdtoolsError, match="^not enough memory: try a smaller --search max_batch=N or --beam"),
        batches.explained_memory_errors(),
    ):
        raise error
    with pytest.raises(RuntimeError, match="shapes"), batches.explained_memory_errors():
        raise RuntimeError("shapes differ")


@pytest.mark.parametrize("margin", [None, 1.0])
def test_a_beam_that_no_memory_holds_is_refused_before_it_is_taken(
    margin: float | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    model = tiny_model()
    sentence = [row([2] * 40)]
    monkeypatch.setattr(type(model), "advance", lambda *_: pytest.fail("searched"))
    with pytest.raises(PdtoolsError, match=r"a sentence of 40 tokens take .* GiB: try a smaller --beam"):
        beam_search(model, sentence, search=SearchOptions(beam=10**18, margin=margin))


def test_a_large_beam_costs_what_it_holds() -> None:
    short = [row([2, 2, 2])]
    large, full = (
        beam_search(tiny_model(), short, search=SearchOptions(beam=beam))[0] for beam in (10**18, 14)
    )
    assert large.marginal == full.marginal
