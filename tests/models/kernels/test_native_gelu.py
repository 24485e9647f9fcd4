"""GELU in C: against torch's in double precision."""

from __future__ import annotations

import math

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor

import pdtools.models.kernels.native_gelu as module
from pdtools.models.kernels.native_gelu import Gelu

needs_compiler = pytest.mark.skipif(module._library() is None, reason="no C compiler")


def with_derivative(x: Tensor, gelu: torch.nn.Module) -> tuple[Tensor, Tensor]:
    x = x.clone().requires_grad_()
    y = gelu(x)
    (derivative,) = torch.autograd.grad(y, x, torch.ones_like(y))
    return y.detach(), derivative


def plain(x: Tensor) -> Tensor:
    return F.gelu(x, approximate="tanh")


@needs_compiler
@pytest.mark.parametrize("shape", [(0,), (1,), (7, 37), (3, 1, 64)])
def test_it_is_torchs(shape: tuple[int, ...]) -> None:
    assert module._works()
    x = 4 * torch.randn(shape, generator=torch.Generator().manual_seed(1))
    for one, other in zip(
        with_derivative(x, Gelu()), with_derivative(x.double(), torch.nn.GELU("tanh")), strict=True
    ):
        assert one.dtype == torch.float32
        torch.testing.assert_close(one.double(), other, rtol=1e-5, atol=1e-6)


@needs_compiler
def test_rows_that_lie_apart_and_threads(monkeypatch: pytest.MonkeyPatch) -> None:
    x = torch.randn(64, 40, generator=torch.Generator().manual_seed(1)).T
    alone = with_derivative(x, Gelu())
    monkeypatch.setattr(module, "_WORTH_A_THREAD", 1)
    threads = torch.get_num_threads()
    torch.set_num_threads(3)
    try:
        together = with_derivative(x, Gelu())
    finally:
        torch.set_num_threads(threads)
    for one, other in zip(alone, together, strict=True):
        torch.testing.assert_close(one, other, rtol=1e-6, atol=1e-7)
    torch.testing.assert_close(alone[0], plain(x))


@needs_compiler
def test_gradients_that_lie_apart_or_are_one_number() -> None:
    x = torch.randn(7, 5, generator=torch.Generator().manual_seed(1))
    whole = torch.randn(5, 7, generator=torch.Generator().manual_seed(2)).T
    for grad in (whole, torch.tensor(0.5).expand(7, 5)):
        ours, other = (x.clone().requires_grad_() for _ in range(2))
        Gelu()(ours).backward(grad)
        plain(other).backward(grad)
        torch.testing.assert_close(ours.grad, other.grad)


@needs_compiler
def test_numbers_that_are_large_or_none() -> None:
    x = torch.tensor([-1e30, -200, -1e-30, 0, 1e-30, 200, 1e30, math.inf, math.nan])
    torch.testing.assert_close(Gelu()(x), plain(x), equal_nan=True)


def test_what_is_left_to_torch(monkeypatch: pytest.MonkeyPatch) -> None:
    x = torch.linspace(-5, 5, 99)
    for dtype in (torch.float64, torch.bfloat16):
        assert torch.equal(Gelu()(x.to(dtype)), plain(x.to(dtype)))
    monkeypatch.setattr(module, "_works", lambda: False)
    assert torch.equal(Gelu()(x), plain(x))
