"""The tape, the legal attachments and the stacks, against Algorithm 1 on all small derivations."""

from __future__ import annotations

import random

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from model_oracle import EOS, PAD, ROOT, PlainStack, derivations, random_attach

from pdtools.models import StackState, collate, legal_attachments, tape_from_attachments
from pdtools.models.transformer.tape import open_tokens_after
from pdtools.trees import tape as numpy_tape

CATALAN = [1, 1, 2, 5, 14, 42, 132, 429]


def plain_rows(attach: list[int]) -> tuple[list[list[int]], list[list[int]]]:
    """W_k and the legal attachments of every position."""
    stack = PlainStack()
    tapes, legal = [[0]], [[0]]
    for k in range(1, len(attach)):
        legal.append(stack.legal())
        stack.push(attach[k])
        tapes.append(list(stack.tape))
    return tapes, legal


@pytest.mark.parametrize("n", range(8))
def test_catalan_many_derivations(n: int) -> None:
    assert len(list(derivations(n))) == CATALAN[n]


def test_tape_and_legal_of_all_small_derivations_in_one_padded_batch() -> None:
    attaches = [attach for n in range(1, 8) for attach in derivations(n)]
    batch = collate([([ROOT] + [3] * (len(a) - 2) + [EOS], a) for a in attaches], PAD)
    tape = tape_from_attachments(batch.attach)
    legal = legal_attachments(tape)
    assert tape.dtype == torch.int16
    assert bool(legal.any(-1).all())  # padding rows have a candidate too
    for row, attach in enumerate(attaches):
        wanted_tapes, wanted_legal = plain_rows(attach)
        for k in range(len(attach)):
            assert tape[row, k].tolist() == wanted_tapes[k] + [0] * (tape.shape[1] - k - 1)
            assert legal[row, k].nonzero().flatten().tolist() == wanted_legal[k]


def test_stack_state_of_all_small_derivations_in_lock_step() -> None:
    for n in range(1, 8):
        attaches = list(derivations(n))
        plain = [plain_rows(attach) for attach in attaches]
        stack = StackState.start(len(attaches), n + 2)
        for k in range(n + 2):
            if k > 0:
                legal = stack.legal()
                stack.push(torch.tensor([attach[k] for attach in attaches]))
            for row, (tapes, legal_rows) in enumerate(plain):
                assert stack.tape_row()[row].tolist() == tapes[k]
                if k > 0:
                    assert legal[row].nonzero().flatten().tolist() == legal_rows[k]


@settings(max_examples=40, deadline=None)
@given(n=st.integers(1, 70), seed=st.integers(0, 2**32))
def test_long_sentences_agree_with_the_trees_library(n: int, seed: int) -> None:
    attach = random_attach(n, random.Random(seed))
    tape = tape_from_attachments(torch.tensor([attach, list(range(n + 2))]))
    assert tape[0].tolist() == numpy_tape(attach).tolist()
    assert not bool(tape[1].any())  # shifts only
    stack = StackState.start(1, n + 2)
    for k in range(1, n + 2):
        stack.push(torch.tensor([attach[k]]))
        assert stack.tape_row()[0].tolist() == tape[0, k, : k + 1].tolist()


def test_windows_of_several_sentences_have_a_tape_too() -> None:
    # ROOT a b ROOT c d: b and d attach to the ROOT of their own sentence.
    attach = [0, 1, 0, 3, 4, 3]
    assert tape_from_attachments(torch.tensor([attach]))[0].tolist() == numpy_tape(attach).tolist()


def test_selected_stacks_are_copies() -> None:
    stack = StackState.start(2, 5)
    stack.push(torch.tensor([1, 1]))
    stack.push(torch.tensor([1, 2]))
    copy = stack.select(torch.tensor([1, 1, 0]))
    copy.push(torch.tensor([1, 3, 2]))
    assert copy.tape_row().tolist() == [[0, 1, 2, 2], [0, 0, 0, 0], [0, 2, 2, 1]]
    assert stack.tape_row().tolist() == [[0, 1, 1], [0, 0, 0]]


def test_open_tokens_after_each_token_of_all_small_derivations() -> None:
    attaches = [attach for n in range(1, 7) for attach in derivations(n)]
    batch = collate([([ROOT] + [3] * (len(a) - 2) + [EOS], a) for a in attaches], PAD)
    tape = tape_from_attachments(batch.attach)
    seen = torch.ones_like(tape[0], dtype=torch.bool).tril()
    found = open_tokens_after(tape, seen)
    for row, attach in enumerate(attaches):
        for k, depths in enumerate(plain_rows(attach)[0]):
            expected = [sum(depth == 0 for depth in depths[j + 1 :]) for j in range(k + 1)]
            assert found[row, k, : k + 1].tolist() == expected
            assert open_tokens_after(tape[row, k, : k + 1]).tolist() == expected


def test_open_tokens_above_the_diagonal_are_none() -> None:
    found = open_tokens_after(torch.zeros(3, 3, dtype=torch.int16), torch.ones(3, 3, dtype=torch.bool).tril())
    assert found.tolist() == [[0, 0, 0], [1, 0, 0], [2, 1, 0]]
