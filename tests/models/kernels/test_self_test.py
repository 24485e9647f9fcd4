"""Whether a fast path is used: its numbers against the plain one's, and what is said where it is not."""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from pathlib import Path

import pytest
import torch
from compilers import WORKS, another_compiler
from torch import Tensor

from pdtools.models.kernels.self_test import agrees
from pdtools.models.recurrent import recurrence


def passes(fast: Tensor | Exception, plain: Tensor) -> bool:
    def pairs(random: torch.Generator) -> Iterator[tuple[Tensor, Tensor]]:
        if isinstance(fast, Exception):
            raise fast
        torch.rand(3)  # whatever draws from the caller's generator
        assert (fast[:1, None] @ fast[None, :1]).dtype == fast.dtype
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


def test_whatever_the_caller_computes_it_changes_nothing() -> None:
    """Without gradients, in lower precision, with a seed."""
    state = torch.get_rng_state()
    with torch.inference_mode(), torch.autocast("cpu", torch.bfloat16):
        assert passes(torch.ones(2), torch.ones(2))
    assert torch.equal(torch.get_rng_state(), state)


MISTAKES = [
    ("block_attention.c", "s/at\\[j\\] -= slope/at[j] += slope/"),
    ("block_attention.c", "s/grad_table + unit/grad_table + 0/"),
    ("block_attention.c", "s/weights\\[j\\] = weight \\* factors\\[j\\]/weights[j] = weight/"),
    ("cross_entropy.c", "s/expm1(-loss)/expm1(loss)/"),
    ("decoding.c", "s/scores\\[j\\] -= slope/scores[j] += slope/"),
    ("decoding.c", "s/c < d; c++) {/c < d - 1; c++) {/"),
    ("decoding.c", "s/: key) \\* d;/: 0) * d;/"),
    ("decoding.c", "s/exp((double)before - now)/1/"),
    ("gelu.c", "s/(A + B \\*/(A - B */"),
    ("gelu.c", "s/= grad.i. \\*/=/"),
    ("grammar_attention.c", "s/ - mean \\* weights/ + mean * weights/"),
    ("grammar_attention.c", "s/sum_r + r) += score/sum_r + r) -= score/"),
    ("grammar_attention.c", "s/factors\\[cell\\] \\*= weights/factors[cell] = weights/"),
    ("nondeterministic_stack.c", "s/sum += factor/sum -= factor/"),
    ("nondeterministic_stack.c", "s/d_logits\\[kind\\] -= /d_logits[kind] += /"),
    ("nondeterministic_stack.c", "s/weight = alpha\\[from\\] \\*/weight =/"),
    ("nondeterministic_stack.c", "s/later = a->later - (t + 2)/later = 0/"),
    ("stack_attention.c", "s/pop \\* last\\[j\\], alpha/pop, alpha/"),
    ("stack_attention.c", "s/pop, under/no_op, under/"),
]


@pytest.mark.linux
@pytest.mark.parametrize(("file", "mistake"), MISTAKES)
def test_a_compiler_that_makes_mistakes_is_not_used(file: str, mistake: str, tmp_path: Path) -> None:
    with (
        another_compiler(tmp_path, file, mistake, "-O0"),  # compiled sooner
        pytest.warns(UserWarning, match=r"not computed in C \(.* other numbers\)") as caught,
    ):
        assert [WORKS[file]() for _ in range(3)] == [False] * 3
    assert len(caught) == 1


@pytest.mark.linux
@pytest.mark.parametrize(
    "mistake",
    [
        "s/gates\\[2 \\* h + j\\] \\* tanh/gates[h + j] * tanh/",
        "s/d_memory\\[j\\] = d_cell \\* forget/d_memory[j] = 0/",
        "s/next = t - 1/next = 0/",
    ],
)
def test_whole_sequences_by_such_a_compiler_are_not_used(mistake: str, tmp_path: Path) -> None:
    with (
        another_compiler(tmp_path, "nondeterministic_stack.c", mistake, "-O0"),
        pytest.warns(UserWarning, match="recurrent models are not computed in C"),
    ):
        assert not recurrence._native_works()


@pytest.mark.linux
def test_with_a_compiler_everything_is_used(tmp_path: Path) -> None:
    with another_compiler(tmp_path, "none.c", "", "-O0"), warnings.catch_warnings():
        warnings.simplefilter("error")
        assert all(works() for works in WORKS.values())


def test_without_a_compiler_nothing_is_used_and_one_line_says_so() -> None:
    with another_compiler(None), pytest.warns(UserWarning, match="no C compiler that works") as caught:
        assert not any(works() for works in WORKS.values())
    assert len(caught) == 1
