"""Whether a fast path is used: its numbers against the plain one's, and what is said where it is not."""

from __future__ import annotations

import warnings
from collections.abc import Iterator

import pytest
import torch
from torch import Tensor

from pdtools.models.kernels.self_test import agrees


def passes(fast: Tensor | Exception, plain: Tensor) -> bool:
    def pairs(random: torch.Generator) -> Iterator[tuple[Tensor, Tensor]]:
        if isinstance(fast, Exception):
            raise fast
        torch.rand(3)  # whatever draws from the caller's generator
        yield fast, plain

    return agrees(pairs, "sums are", "in C", tolerance=1e-6)


def test_what_rounding_may_change_is_a_share_of_the_largest_number() -> None:
    plain = torch.tensor([1000.0, 1.0], dtype=torch.float64)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert passes(plain + 5e-4, plain)
    small = plain * 1e-5
    with pytest.warns(UserWarning, match=r"sums are not computed in C \(.* other numbers\)"):
        assert not passes(small + 5e-4, small)


@pytest.mark.parametrize("wrong", [torch.tensor([float("nan")]), RuntimeError("no compiler\nat all")])
def test_what_is_no_number_or_fails_is_not_used(wrong: Tensor | Exception) -> None:
    with pytest.warns(UserWarning, match="sums are not computed in C") as told:
        assert not passes(wrong, torch.ones(1))
    assert "at all" not in str(told[0].message)


@pytest.mark.parametrize("error", [torch.OutOfMemoryError("full"), MemoryError()])
def test_lack_of_memory_says_nothing_of_the_path(error: Exception) -> None:
    with pytest.raises(type(error)):
        passes(error, torch.ones(1))


def test_the_callers_random_numbers_stay() -> None:
    state = torch.get_rng_state()
    with torch.inference_mode():
        assert passes(torch.ones(2), torch.ones(2))
    assert torch.equal(torch.get_rng_state(), state)
