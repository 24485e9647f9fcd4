"""Where the kernels for CUDA do not work, attention is computed without them, and one warning says so."""

from __future__ import annotations

import random
import sys
import types
import warnings
from collections.abc import Iterator
from typing import Any

import pytest
import torch
from model_oracle import random_row, small_model

from pdtools.models import collate
from pdtools.models.kernels.fused_works import kernels_work, plain_attention
from pdtools.models.transformer import backends

MODULE = "pdtools.models.kernels.fused_attention"


@pytest.fixture(autouse=True)
def _asked_anew() -> Iterator[None]:
    kernels_work.cache_clear()
    yield
    kernels_work.cache_clear()


def broken_module(error: Exception) -> Any:
    def fused_attention(*_: Any, **__: Any) -> None:
        raise error

    module = types.ModuleType(MODULE)
    module.fused_attention = fused_attention  # type: ignore[attr-defined]
    return module


@pytest.mark.parametrize(
    ("module", "reason"),
    [
        (None, "import of pdtools.models.kernels.fused_attention halted"),
        (
            broken_module(RuntimeError("Failed to find C compiler.\nPlease specify")),
            "Failed to find C compiler",
        ),
        (broken_module(AssertionError()), "AssertionError"),
    ],
)
@pytest.mark.parametrize("name", ["pushdown", "transformer"])
def test_a_model_without_kernels(
    name: str, module: Any, reason: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, MODULE, module)
    rng = random.Random(5)
    batch = collate([random_row(length, 11, rng) for length in (9, 4)], 0)
    model = small_model(name, d_model=32, heads=2, positions="alibi")
    expected = model.forward_parts(batch).token_logprobs
    tried = backends.IN_TRITON._replace(
        takes=lambda work: bool(work.terms) and backends.works_in_triton(work)
    )
    monkeypatch.setattr(backends, "BACKENDS", (tried, backends.BY_TORCH))
    with warnings.catch_warnings(record=True) as told:
        warnings.simplefilter("always")
        for _ in range(2):
            torch.testing.assert_close(model.forward_parts(batch).token_logprobs, expected)
    (warning,) = [str(one.message) for one in told]
    assert reason in warning
    assert "Please specify" not in warning


def test_missing_memory_is_no_reason(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, MODULE, broken_module(torch.OutOfMemoryError("no memory")))
    with pytest.raises(torch.OutOfMemoryError):
        kernels_work(torch.device("cpu"), torch.float32, 16, True)


@pytest.mark.parametrize("wrong", ["tape", "r", "slopes", "gradient"])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float16, torch.bfloat16])
def test_other_numbers_are_noticed(wrong: str, dtype: torch.dtype, monkeypatch: pytest.MonkeyPatch) -> None:
    def fused_attention(
        q: torch.Tensor,
        k: torch.Tensor,
        v: torch.Tensor,
        by_depth: torch.Tensor,
        tape: torch.Tensor,
        slopes: torch.Tensor,
        *,
        p: torch.Tensor,
        r: torch.Tensor,
    ) -> torch.Tensor:
        if wrong == "tape":
            tape = tape.roll(1, 1)
        elif wrong == "r":
            r = r.flip(1)
        elif wrong == "slopes":
            slopes = -slopes
        elif wrong == "gradient":
            v = v.detach() * 2 - v
        return plain_attention(q, k, v, by_depth, tape, slopes, p=p, r=r)

    module = broken_module(RuntimeError())
    monkeypatch.setitem(sys.modules, MODULE, module)
    module.fused_attention = plain_attention
    assert kernels_work(torch.device("cpu"), dtype, 16, True)
    kernels_work.cache_clear()
    module.fused_attention = fused_attention
    with pytest.warns(UserWarning, match="computes other numbers"):
        assert not kernels_work(torch.device("cpu"), dtype, 16, True)
