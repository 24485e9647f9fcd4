"""The recurrence of stack attention: the paper's theorems, every run of a real stack, and gradients."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from plain.stack_attention import stack_attention as plain_loop
from torch import Tensor

from pdtools.models.transformer import stack_attention as module
from pdtools.models.transformer.cache import Past
from pdtools.models.transformer.stack_attention import (
    StackAttention,
    StackCache,
    native_stack_attention,
    stack_attention,
    stack_library,
    stepwise_stack_attention,
)

PUSH, POP, NO_OP = range(3)

Recurrence = Callable[[Tensor], Tensor]

# Hypothesis makes many examples in one test: it gets both at once.
RECURRENCES: list[Recurrence] = [stepwise_stack_attention]
if stack_library(torch.float32) is not None:
    RECURRENCES.append(native_stack_attention)


@pytest.fixture(params=RECURRENCES, ids=["torch", "native"][: len(RECURRENCES)])
def recurrence(request: pytest.FixtureRequest) -> Recurrence:
    function: Recurrence = request.param
    return function


def random_actions(batch: int, n: int, seed: int = 0, scale: float = 2.0) -> Tensor:
    scores = torch.randn(batch, n, 3, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)
    return (scale * scores).softmax(-1)


def peek(actions: list[int]) -> list[int]:
    """The top of a stack of positions (0 if it is empty) after each action; the first is not taken."""
    stack: list[int] = []
    tops = [0]
    for position, action in enumerate(actions[1:], start=1):
        if action == PUSH:
            stack.append(position)
        elif action == POP and stack:
            stack.pop()
        tops.append(stack[-1] if stack else 0)
    return tops


def excursion(actions: Tensor, first: int, last: int) -> Tensor:
    """P(steps first + 1, …, last leave the stack as it was, and never open what was there): by heights."""
    heights = {0: torch.ones(())}
    for position in range(first + 1, last + 1):
        push, pop, no_op = actions[position]
        after: dict[int, Tensor] = {}
        for height, probability in heights.items():
            stays = no_op
            if height > 0:
                after[height - 1] = after.get(height - 1, 0) + pop * probability
            elif first == 0:  # the empty stack: a pop does nothing
                stays = no_op + pop
            after[height] = after.get(height, 0) + stays * probability
            after[height + 1] = after.get(height + 1, 0) + push * probability
        heights = after
    return heights.get(0, torch.zeros(()))


@settings(max_examples=60, deadline=None)
@given(st.lists(st.sampled_from([PUSH, POP, NO_OP]), min_size=1, max_size=40))
def test_theorem_3_1_sure_actions_give_the_top_of_a_stack(actions: list[int]) -> None:
    sure = torch.eye(3, dtype=torch.float64)[actions][None]
    expected = torch.eye(len(actions), dtype=torch.float64)[peek(actions)]
    for recurrence in RECURRENCES:
        assert torch.equal(recurrence(sure)[0], expected)


@settings(max_examples=30, deadline=None)
@given(st.integers(1, 60), st.integers(0, 2**20), st.sampled_from([0.1, 1.0, 8.0]))
def test_theorem_3_2_rows_are_distributions_over_the_past(n: int, seed: int, scale: float) -> None:
    for recurrence in RECURRENCES:
        found = recurrence(random_actions(2, n, seed, scale))
        assert (found >= 0).all()
        assert (found.triu(1) == 0).all()
        torch.testing.assert_close(found.sum(-1), torch.ones(2, n, dtype=torch.float64))


@pytest.mark.parametrize("n", [1, 2, 3, 7])
def test_it_is_the_expectation_over_all_runs_of_a_stack(n: int, recurrence: Recurrence) -> None:
    actions = random_actions(1, n)[0]
    expected = torch.zeros(n, n, dtype=torch.float64)
    for run in itertools.product(range(3), repeat=n - 1):
        probability = math.prod(float(actions[k, action]) for k, action in enumerate(run, start=1))
        for i, top in enumerate(peek([NO_OP, *run])):
            expected[i, top] += probability
    torch.testing.assert_close(recurrence(actions[None])[0], expected)


@pytest.mark.parametrize("n", [6, 25])
def test_a_top_was_pushed_and_a_balanced_excursion_followed(n: int, recurrence: Recurrence) -> None:
    actions = random_actions(1, n)[0]
    found = recurrence(actions[None])[0]
    for i in range(n):
        for j in range(i + 1):
            push = 1 if j == 0 else actions[j, PUSH]
            torch.testing.assert_close(found[i, j], (push * excursion(actions, j, i)).double())


@pytest.mark.parametrize("n", [1, 2, 9])
def test_gradients_by_differences(n: int, recurrence: Recurrence) -> None:
    scores = torch.randn(2, n, 3, dtype=torch.float64, requires_grad=True)
    assert torch.autograd.gradcheck(lambda x: recurrence(x.softmax(-1)), (scores,))
    # Not on the simplex either: nothing relies on sums of 1.
    free = torch.rand(2, n, 3, dtype=torch.float64, requires_grad=True)
    assert torch.autograd.gradcheck(recurrence, (free,))


@pytest.mark.parametrize(("gathered", "near"), [(1, 0), (3, 1), (2, 4)])
@pytest.mark.parametrize("n", [1, 2, 9])
def test_gradients_however_many_rows_are_gathered(
    n: int, gathered: int, near: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "GATHERED_ROWS", gathered)
    monkeypatch.setattr(module, "NEAR_ROWS", near)
    test_gradients_by_differences(n, stepwise_stack_attention)


@pytest.mark.parametrize("n", [16, 17, 40])
def test_it_equals_the_plain_loop_with_gradients(n: int, recurrence: Recurrence) -> None:
    actions = random_actions(3, n).requires_grad_()
    ours, plain = recurrence(actions), plain_loop(actions)
    torch.testing.assert_close(ours, plain)
    weight = torch.randn(3, n, n, dtype=torch.float64)  # above the diagonal too: it counts for nothing
    (grad,) = torch.autograd.grad((ours * weight).sum(), actions)
    (wanted,) = torch.autograd.grad((plain * weight).sum(), actions)
    torch.testing.assert_close(grad, wanted)


def test_rows_do_not_depend_on_what_comes_after(recurrence: Recurrence) -> None:
    actions = random_actions(2, 30)
    found = recurrence(actions)
    torch.testing.assert_close(recurrence(actions[:, :12]), found[:, :12, :12])
    changed = torch.cat([actions[:, :12], random_actions(2, 18, seed=1)], dim=1)
    assert torch.equal(recurrence(changed)[:, :12], found[:, :12])


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_numbers_close_to_zero(dtype: torch.dtype, recurrence: Recurrence) -> None:
    # Sure actions: products of the probabilities of others are smaller than normal numbers.
    actions = random_actions(3, 60, scale=60.0).to(dtype).requires_grad_()
    wanted = plain_loop(actions)
    tiny = (wanted > 0) & (wanted < torch.finfo(dtype).tiny)
    assert tiny.any() or dtype == torch.float64
    weight = torch.randn(3, 60, 60, generator=torch.Generator().manual_seed(1), dtype=dtype)
    found = recurrence(actions)
    torch.testing.assert_close(found, wanted)
    gradients = [torch.autograd.grad((rows * weight).sum(), actions)[0] for rows in (found, wanted)]
    torch.testing.assert_close(*gradients)
    # Others go on to compute with such numbers.
    assert torch.tensor(1e-40) * 0.5 > 0


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("n", [1, 12, 33])
def test_rows_are_divided_among_threads(n: int, dtype: torch.dtype, monkeypatch: pytest.MonkeyPatch) -> None:
    if stack_library(torch.float32) is None:
        pytest.skip("no C compiler")
    actions = random_actions(5, n).to(dtype).requires_grad_()
    weight = torch.randn(5, n, n, dtype=dtype)
    alone = native_stack_attention(actions)
    (wanted,) = torch.autograd.grad((alone * weight).sum(), actions)
    monkeypatch.setattr(torch, "get_num_threads", lambda: 3)
    together = native_stack_attention(actions)
    (grad,) = torch.autograd.grad((together * weight).sum(), actions)
    assert torch.equal(together, alone)
    assert torch.equal(grad, wanted)


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_the_sub_layer_is_a_weighted_sum_of_hidden_states(dtype: torch.dtype) -> None:
    torch.manual_seed(0)
    layer = StackAttention(8).to(dtype)
    x = torch.randn(2, 11, 8, dtype=dtype)
    found = layer(x)
    assert found.dtype == dtype
    attention = stack_attention(layer.actions(x).float().softmax(-1))
    torch.testing.assert_close(found, attention.to(dtype) @ x)
    torch.testing.assert_close(found[:, 0], x[:, 0])


def test_mixed_precision_ends_at_the_recurrence() -> None:
    torch.manual_seed(0)
    layer = StackAttention(8)
    x = torch.randn(2, 40, 8, requires_grad=True)
    exact = layer(x)
    (wanted,) = torch.autograd.grad(exact.sum(), x)
    with torch.autocast("cpu", dtype=torch.bfloat16):
        found = layer(x)
        assert layer.attention(x).dtype == torch.float32
    torch.testing.assert_close(found.float(), exact, rtol=0.05, atol=0.05)
    (grad,) = torch.autograd.grad(found.float().sum(), x)
    torch.testing.assert_close(grad, wanted, rtol=0.1, atol=0.1)


@torch.no_grad()
def test_step_by_step_with_hypotheses_selected() -> None:
    torch.manual_seed(0)
    layer = StackAttention(6).double()
    n = 9
    past = Past(2, 200, like=torch.zeros(1, dtype=torch.float64))
    cache = StackCache(past, n, torch.zeros(6, dtype=torch.float64))
    inputs = torch.zeros(2, 0, 6, dtype=torch.float64)
    choices = [[0, 1], [1, 0, 0, 1], [3, 2, 1, 0], [2, 2, 1], [0, 1, 2], [2, 0], [1, 1, 1], [0], [0, 0]]
    for rows in choices:
        past.select(torch.tensor(rows))
        new = torch.randn(len(rows), 1, 6, dtype=torch.float64)
        inputs = torch.cat([inputs[rows], new], dim=1)
        past.feed()
        found = layer(new, cache)
        torch.testing.assert_close(found[:, 0], layer(inputs)[:, -1])
    assert past.nbytes == 200 * (n + 6) * 8


@torch.no_grad()
def test_step_by_step_errors_of_half_precision_do_not_grow() -> None:
    torch.manual_seed(0)
    layer = StackAttention(6).bfloat16()
    n = 128
    x = torch.randn(2, n, 6, dtype=torch.bfloat16)
    tokens = x.split(1, dim=1)
    actions = torch.cat([layer.probabilities(token) for token in tokens], dim=1)
    exact = stack_attention(actions.double()) @ x.double()
    past = Past(2, 2 * n, like=x)
    cache = StackCache(past, n, x)
    for position, token in enumerate(tokens):
        past.feed()
        found = layer(token, cache)
        assert found.dtype == torch.bfloat16
        torch.testing.assert_close(found[:, 0].double(), exact[:, position], rtol=2**-8, atol=1e-4)
